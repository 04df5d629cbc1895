package engine

import (
	"sync"
	"sync/atomic"

	"github.com/specgo/spec/tensor"
)

// RuntimeOptions configure a [Runtime]. The zero value is the fastest choice for the machine.
type RuntimeOptions struct {
	Threads int    // workers, at most tensor.MaxThreads; 0 is the number of physical cores that the process may use
	SIMD    string // kernels: scalar, avx2, avxvnni, avx512, amx, neon, dotprod or i8mm; "" is the best that the CPU has
	NUMA    string // memory nodes that workers are bound to, as tensor.Options has it; "" binds none
}

// Runtime owns the worker threads and the scratch memory of passes. Target and draft model share
// one: passes of all its models run one after the other, each on all workers.
type Runtime struct {
	t    *tensor.Runtime
	pass *pass // guarded by t.Lock, like what follows

	closed atomic.Bool

	streamsMu sync.Mutex
	streams   int // models whose weights are read from disk

	turns turns
}

// NewRuntime starts the workers. It fails if the kernels asked for are unknown or not available here.
func NewRuntime(o RuntimeOptions) (*Runtime, error) {
	t, err := tensor.NewRuntime(tensor.Options{Threads: o.Threads, SIMD: o.SIMD, NUMA: o.NUMA})
	if err != nil {
		return nil, err
	}
	return &Runtime{t: t, pass: newPass(t)}, nil
}

// Close stops the workers. It waits for the pass in progress; later passes fail with ErrClosed.
func (rt *Runtime) Close() {
	if rt == nil {
		return
	}
	rt.t.Lock()
	rt.closed.Store(true)
	rt.t.Unlock()
	rt.t.Close()
}

// Parallel calls f(0), f(1), … f(n-1) on all workers and returns when every call has returned. It is for what the
// sequences of a batch do between passes, independently, such as [sampling.Sampler.Pick]. f must not panic and must
// not run passes.
func (rt *Runtime) Parallel(n int, f func(i int)) { rt.t.Parallel(n, f) }

// Nodes is the number of memory nodes that workers are bound to; 0 if they are not.
func (rt *Runtime) Nodes() int { return rt.t.Nodes() }

// Threads is the number of workers.
func (rt *Runtime) Threads() int { return rt.t.Threads() }

// SIMD is the name of the kernels in use.
func (rt *Runtime) SIMD() string { return rt.t.SIMD() }

// turns are the Turns of a Runtime.
type turns struct {
	open atomic.Int32
	took atomic.Int64 // nanoseconds of those that have ended
}
