package tensor

import (
	"fmt"
	"sync"

	"github.com/specgo/spec/asm"
)

// Options of a Runtime. The zero value uses the cores that the process may use, and the best kernels.
type Options struct {
	// Threads is how many threads work on an operation, the caller's included. 0 is as many as this process may use
	// physical cores (by its affinity and its cgroups' quota), at most GOMAXPROCS. More threads than cores work, slower.
	Threads int

	// SIMD names the kernels: scalar, avx2, avxvnni, avx512, amx, neon, dotprod, i8mm. Empty is the best of this machine.
	SIMD string

	// NUMA binds threads to the memory nodes of the machine, and has the panels of matrices lie in the memory of the
	// node whose threads multiply them: distribute and numactl use the nodes of all CPUs that the process may use,
	// isolate only the node on which it runs. Results do not depend on it. Where those CPUs are of one node it changes
	// nothing. Linux only. Empty: threads run where the system wants.
	NUMA string
}

// TileUnit says why the kernels amx are not among those of this machine although its processor has the tile unit: the
// system refuses it. Else it is nil.
func TileUnit() error { return asm.TileUnit() }

// MaxThreads is the greatest Options.Threads.
const MaxThreads = 1024

// Runtime is a pool of workers, a set of kernels and the scratch memory of all operations. Share one among all models
// of a program: two pools that wait for work at the same time slow each other down.
//
// Its operations may be called from several goroutines and run one after the other.
type Runtime struct {
	// What workers read during an operation is never changed, and has no cache line in common with what each one changes.
	k     asm.Kernels
	place placement
	pool  *pool
	_     [64]byte

	pass sync.Mutex // Lock and Unlock
	mu   sync.Mutex // one operation at a time; guards everything below
	_    [64]byte

	// The operation in progress, by kind, and its work as a func value made once, so that a call allocates nothing.
	user     func(i int)
	userUnit func(worker, unit int)
	matmul   matmulJob
	ahead    ahead
	vector   vectorJob
	rope     ropeJob
	attend   attendJob
	choose   chooseJob
	blocks   blockJob
	texts    textJob
	store    storeJob
	element  elementJob

	single  Input     // Quantize
	loading sync.Pool // *loadScratch
	arena   *arena    // of matrices
}

// NewRuntime chooses kernels and starts the workers. They wait, at no cost, until there is work; Close ends them.
func NewRuntime(o Options) (*Runtime, error) {
	k, err := asm.Select(o.SIMD)
	if err != nil {
		return nil, err
	}
	if n := o.Threads; n < 0 || n > MaxThreads {
		return nil, fmt.Errorf("%d threads: %w (0 to %d)", n, ErrThreads, MaxThreads)
	}
	if err := checkPlacement(o.NUMA); err != nil {
		return nil, err
	}
	where, err := place(o.NUMA, o.Threads)
	if err != nil {
		return nil, err
	}
	return newRuntime(k, where)
}

// newRuntime starts a Runtime's workers where they belong.
func newRuntime(k asm.Kernels, where placement) (*Runtime, error) {
	rt := &Runtime{k: k, place: where, arena: new(arena)}
	var err error
	if rt.pool, err = newPool(&rt.place); err != nil {
		return nil, err
	}
	rt.userUnit = func(_, unit int) { rt.user(unit) }
	rt.matmul.init(rt)
	rt.vector.init(rt)
	rt.rope.init(rt)
	rt.attend.init(rt)
	rt.choose.init(rt)
	rt.blocks.init(rt)
	rt.texts.init(rt)
	rt.store.init(rt)
	rt.element.init(rt)
	return rt, nil
}

// Close ends the workers once the operation in progress is done. It may be called more than once; operations that come
// later run on their caller's thread alone.
func (rt *Runtime) Close() {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.pool.close()
}

// Nodes is the number of memory nodes that threads are bound to; 0 if they are not.
func (rt *Runtime) Nodes() int {
	if !rt.place.binds() {
		return 0
	}
	return rt.place.nodes()
}

// Threads is the number of threads that work on an operation, the caller's included.
func (rt *Runtime) Threads() int { return rt.pool.threads }

// SIMD names the set of kernels in use.
func (rt *Runtime) SIMD() string { return rt.k.Name }

// Lock reserves the Runtime for a pass of many operations among all who use Lock, so that two passes do not take turns
// operation by operation. The operations themselves need no Lock. With Options.NUMA the calling goroutine runs on the
// first node until Unlock, which it calls itself.
func (rt *Runtime) Lock() {
	rt.pass.Lock()
	_ = rt.place.enter(0) // where the system refuses now, what it allowed to workers, the pass runs anywhere
}

// Unlock ends the pass that Lock began.
func (rt *Runtime) Unlock() {
	rt.place.leave()
	rt.pass.Unlock()
}

// Parallel calls f(0), f(1), … f(n-1) on all threads and returns when every call has returned. f must not panic and
// must not use rt's operations: they would wait for each other.
func (rt *Runtime) Parallel(n int, f func(i int)) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.user = f
	rt.pool.run(n, rt.userUnit)
	rt.user = nil
}

// ParallelThreads is [Runtime.Parallel] for an f that has memory for each thread: thread is 0 … Threads()-1, and a
// thread makes its calls one after the other.
func (rt *Runtime) ParallelThreads(n int, f func(thread, i int)) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.pool.run(n, f)
}
