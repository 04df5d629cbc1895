package tensor

import (
	"cmp"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// spinTime is how long a worker polls for the next job, and a caller for the end of its own, before it sleeps. Waking
// a sleeping thread takes 10 to 20 µs; the gaps between the operations of a forward pass are shorter than that.
// Those between the passes of several sequences may be longer: with 40 µs, four sequences on two cores under the
// schedule auto had 0.91 to 0.95 of their speed without it, and passes of the same work now and then took 2 to 22 ms
// more than 22; with 150 µs or more they had 0.97 to 1. After yieldTime a polling thread lets other goroutines run.
const (
	spinTime  = 200 * time.Microsecond
	yieldTime = 40 * time.Microsecond
	looks     = 256 // between two readings of the clock, one of which takes as long as 70 of them (sampled, Zen 5)
)

// pool runs jobs of many units on persistent workers. The caller works too; a job ends when its last unit has.
//
// tickets synchronizes workers and jobs: it is the number of unclaimed units. A thread that decrements it to i >= 0
// owns a unit of the current job, which therefore cannot end, nor its fields change, before that unit is counted in
// done. A thread that finds less than zero owns nothing and touches nothing. So a worker that the operating system
// delays never delays a job of which it has no unit; when it runs again, it takes part in the next job.
//
// A thread announces that it will sleep, then checks once more for work: one side writes a and reads b, the other
// writes b and reads a, and at least one must see the other's write. So these writes are swaps: with plain atomic
// stores a wake-up was lost under qemu-user.
type pool struct {
	tickets atomic.Int64
	_       [56]byte
	done    atomic.Int64 // units that have returned
	_       [56]byte
	parked  atomic.Int64 // workers asleep for whom no token was sent yet
	_       [56]byte
	waiting atomic.Bool // the caller sleeps until done == n
	_       [63]byte

	panicked atomic.Pointer[any] // value of the job's first panic

	n   int64                  // units of the job
	job func(worker, unit int) // worker < threads numbers the thread

	threads int
	limit   atomic.Int64 // threads that take part, at most threads; changed between jobs only
	changed sync.Cond    // the limit was changed, or the pool closed: workers beyond the limit wait for it
	over    bool         // closed; guarded by changed.L
	spin    time.Duration
	yield   time.Duration
	wake    chan struct{} // one token per worker to wake
	finish  chan struct{} // one token when the caller's job ends
	closed  bool
	exited  sync.WaitGroup
}

// newPool starts a worker for each thread but the caller's, where it belongs.
func newPool(where *placement) (*pool, error) {
	threads := where.threads()
	p := &pool{threads: threads, yield: yieldTime, wake: make(chan struct{}, threads), finish: make(chan struct{}, 1)}
	if where.binds() {
		p.yield = spinTime // a goroutine that is bound to a thread cannot yield without waking another one
	}
	if threads <= runtime.GOMAXPROCS(0) {
		p.spin = spinTime // with more threads than that, a spinning thread keeps another worker from running
	}
	p.limit.Store(int64(threads))
	p.changed.L = new(sync.Mutex)
	p.exited.Add(threads - 1)
	if !where.binds() {
		for w := 1; w < threads; w++ {
			go p.worker(w)
		}
		return p, nil
	}
	bound := make(chan error)
	for w := 1; w < threads; w++ {
		go func() { // ends with its thread
			bound <- where.enter(w)
			p.worker(w)
		}()
	}
	var err error
	for w := 1; w < threads; w++ {
		err = cmp.Or(err, <-bound)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// run calls job for units 0 … n-1, ascending as they are claimed. One run at a time. A panic of the job is the
// caller's, on whichever thread it happened, when all units have ended.
func (p *pool) run(n int, job func(worker, unit int)) {
	if n <= 1 || p.limit.Load() == 1 || p.closed {
		for i := range n {
			job(0, i)
		}
		return
	}
	p.n, p.job = int64(n), job
	p.done.Store(0)
	p.tickets.Swap(int64(n)) // publishes n and job
	p.wakeUp(min(int64(n), p.limit.Load()) - 1)
	p.work(0)
	p.await(int64(n))
	if v := p.panicked.Swap(nil); v != nil {
		panic(*v)
	}
}

// work claims units until there are none.
func (p *pool) work(worker int) {
	var mine, n int64
	for !p.units(worker, &mine, &n) {
	}
	if mine > 0 && p.done.Add(mine) == n && p.waiting.CompareAndSwap(true, false) {
		p.finish <- struct{}{}
	}
}

// units claims units and adds their number to mine; n is that of the job. It reports false after a panic of the job,
// which counts as the end of its unit.
func (p *pool) units(worker int, mine, n *int64) (none bool) {
	defer func() {
		if v := recover(); v != nil {
			first := v // allocated here, not when there is none
			p.panicked.CompareAndSwap(nil, &first)
		}
	}()
	for {
		left := p.tickets.Add(-1)
		if left < 0 {
			return true
		}
		*n = p.n
		*mine++
		p.job(worker, int(*n-1-left))
	}
}

// await returns when all n units have returned. A token in finish may be from the end of an earlier
// job; so after each token the condition is checked again.
func (p *pool) await(n int64) {
	for !p.spinUntil(&p.done, n) {
		p.waiting.Swap(true)
		if p.done.Load() == n && p.waiting.CompareAndSwap(true, false) {
			return
		}
		<-p.finish
	}
}

// spinUntil looks at v until it is at least n, for a while.
func (p *pool) spinUntil(v *atomic.Int64, n int64) bool {
	if v.Load() >= n {
		return true
	}
	if p.spin == 0 {
		return false
	}
	var start time.Time
	for polled := time.Duration(0); polled < p.spin; {
		for range looks {
			if v.Load() >= n {
				return true
			}
		}
		if start.IsZero() {
			start = time.Now()
			continue
		}
		if polled = time.Since(start); polled > p.yield {
			runtime.Gosched()
		}
	}
	return v.Load() >= n
}

func (p *pool) worker(w int) {
	defer p.exited.Done()
	for {
		if int64(w) >= p.limit.Load() && p.rest(w) {
			return
		}
		for !p.spinUntil(&p.tickets, 1) {
			p.parked.Add(1)
			if p.tickets.Load() > 0 && p.take(&p.parked, 1) == 1 {
				break // a job came meanwhile, and no token was sent to this worker
			}
			if _, open := <-p.wake; !open {
				return
			}
		}
		p.work(w)
	}
}

// setLimit changes how many threads take part in later jobs. Workers beyond the limit that are asleep may take part
// in one more.
func (p *pool) setLimit(n int) {
	p.changed.L.Lock()
	defer p.changed.L.Unlock()
	p.limit.Store(int64(max(1, min(n, p.threads))))
	p.changed.Broadcast()
}

// rest keeps worker w from jobs as long as it is beyond the limit. It reports whether the pool was closed.
func (p *pool) rest(w int) (closed bool) {
	p.changed.L.Lock()
	defer p.changed.L.Unlock()
	for int64(w) >= p.limit.Load() && !p.over {
		p.changed.Wait()
	}
	return p.over
}

// wakeUp wakes at most n sleeping workers.
func (p *pool) wakeUp(n int64) {
	for range p.take(&p.parked, n) {
		p.wake <- struct{}{}
	}
}

// take subtracts up to n from v, which stays >= 0, and says how much.
func (p *pool) take(v *atomic.Int64, n int64) int64 {
	for {
		have := v.Load()
		k := min(n, have)
		if k <= 0 {
			return 0
		}
		if v.CompareAndSwap(have, have-k) {
			return k
		}
	}
}

func (p *pool) close() {
	if p.closed {
		return
	}
	p.closed = true
	close(p.wake)
	p.changed.L.Lock()
	p.over = true
	p.changed.Broadcast()
	p.changed.L.Unlock()
	p.exited.Wait()
}

// safepoint is a preemption point, at which the garbage collector can stop this goroutine. Assembly cannot be
// preempted, and a loop that only calls assembly has no preemption point: the prologue of a Go function that calls
// another one is one.
//
//go:noinline
func safepoint() { safepointCallee() }

//go:noinline
func safepointCallee() {}
