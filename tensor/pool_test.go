package tensor

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec/asm"
)

// TestParallel: every unit runs exactly once, whatever the number of threads, also far more than there are processors.
func TestParallel(t *testing.T) {
	for _, threads := range []int{1, 2, 5, 40} {
		rt := runtimeOf(t, threads)
		if rt.Threads() != threads {
			t.Errorf("%d threads, want %d", rt.Threads(), threads)
		}
		for round := range 300 {
			n := round % 70
			counts := make([]int32, n) // not atomic: no unit is shared
			rt.Parallel(n, func(i int) { counts[i]++ })
			for i, c := range counts {
				if c != 1 {
					t.Fatalf("%d threads: unit %d of %d ran %d times", threads, i, n, c)
				}
			}
			if round%100 == 0 {
				time.Sleep(time.Millisecond) // let the workers park
			}
		}
	}
}

// TestParallelConcurrent: callers of several goroutines take turns.
func TestParallelConcurrent(t *testing.T) {
	rt := runtimeOf(t, 3)
	var wait sync.WaitGroup
	var sum atomic.Int64
	for range 4 {
		wait.Go(func() {
			for range 100 {
				rt.Parallel(10, func(i int) { sum.Add(int64(i)) })
			}
		})
	}
	wait.Wait()
	if sum.Load() != 4*100*45 {
		t.Errorf("sum %d", sum.Load())
	}
}

// TestOversubscription: with many busy goroutines on few processors a job still ends soon: nobody waits for a worker
// that does not run.
func TestOversubscription(t *testing.T) {
	rt := runtimeOf(t, 4)
	var stop atomic.Bool
	var wait sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for !stop.Load() {
				runtime.Gosched()
			}
		})
	}
	start := time.Now()
	for range 200 {
		rt.Parallel(8, func(int) {})
	}
	stop.Store(true)
	wait.Wait()
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("200 jobs took %v", d)
	}
}

func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	rt := runtimeOf(t, 5)
	rt.Parallel(10, func(int) {})
	rt.Close()
	rt.Close()
	for range 100 {
		if runtime.NumGoroutine() <= before {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	ran := 0
	rt.Parallel(3, func(int) { ran++ })
	if ran != 3 {
		t.Errorf("%d units after Close", ran)
	}
}

func TestNewRuntimeErrors(t *testing.T) {
	for _, n := range []int{-1, MaxThreads + 1} {
		if _, err := NewRuntime(Options{Threads: n}); !errors.Is(err, ErrThreads) {
			t.Errorf("%d threads: %v", n, err)
		}
	}
	if _, err := NewRuntime(Options{SIMD: "mmx"}); !errors.Is(err, asm.ErrUnknown) {
		t.Errorf("mmx: %v", err)
	}
	rt, err := NewRuntime(Options{SIMD: "scalar"})
	ok(t, err)
	defer rt.Close()
	if n := rt.Threads(); n < 1 || n > runtime.GOMAXPROCS(0) || rt.SIMD() != "scalar" {
		t.Errorf("%d threads, %s", n, rt.SIMD())
	}
	rt.Lock()
	rt.Unlock()
}

func BenchmarkParallel(b *testing.B) {
	for _, threads := range []int{1, 2, 8} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			rt := runtimeOf(b, threads)
			f := func(int) {}
			for b.Loop() {
				rt.Parallel(threads, f)
			}
		})
	}
}

// TestParallelPanic: a panic of a job is its caller's, on whichever thread it happened, after all other units; the
// next job is not affected.
func TestParallelPanic(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		rt := runtimeOf(t, threads)
		for bad := range 40 {
			var ran atomic.Int64
			func() {
				defer func() {
					if v := recover(); v != bad {
						t.Fatalf("%d threads: recovered %v, want %d", threads, v, bad)
					}
				}()
				rt.Parallel(40, func(i int) {
					ran.Add(1)
					if i == bad {
						panic(bad)
					}
				})
			}()
			if n := ran.Load(); threads > 1 && n != 40 {
				t.Fatalf("%d threads: %d units ran", threads, n)
			}
			ran.Store(0)
			rt.Parallel(40, func(int) { ran.Add(1) })
			if n := ran.Load(); n != 40 {
				t.Fatalf("%d threads: %d units of the next job ran", threads, n)
			}
		}
	}
}
