package tensor

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/specgo/spec/asm"
)

const (
	bandwidthUnit   = 1 << 20 // bytes that a thread reads at a time
	bandwidthPasses = 3       // passes per prefetch distance, of which the median counts: the best would overstate
)

// ReadBandwidth measures how fast all threads together read this machine's memory, in GB/s (10^9 bytes per second).
// It reads the given number of bytes with and without prefetching, takes the median time of several passes of each,
// and returns the best. It uses the widest registers of the machine, whatever kernels the Runtime has. The result
// bounds every operation that reads each weight once. bytes should be a gigabyte or more, far more than the caches
// hold; the memory is allocated and freed. Other operations wait meanwhile.
func (rt *Runtime) ReadBandwidth(bytes int) (float64, error) {
	units := bytes / bandwidthUnit
	if units < 1 {
		return 0, shapeError("%d bytes to measure with, at least %d", bytes, bandwidthUnit)
	}
	k := asm.Vector()
	var m memory
	if err := m.allocate(units * bandwidthUnit); err != nil {
		return 0, fmt.Errorf("measuring the memory: %w", err)
	}
	defer m.free()
	unit := func(i int) []byte { return m.data[i*bandwidthUnit:][:bandwidthUnit] }
	rt.nearby(units, func(i int) { // untouched pages are all one page of zeros
		b := unit(i)
		for j := 0; j < len(b); j += 64 {
			b[j] = byte(i + j>>6)
		}
	})
	ways := []int{0, 2048, 8192} // prefetch distances in bytes; 0: none
	times := make([][]time.Duration, len(ways))
	for range bandwidthPasses {
		for w, distance := range ways {
			start := time.Now()
			rt.nearby(units, func(i int) {
				// A call ends within 50 µs, and the garbage collector waits no longer.
				for b := unit(i); len(b) > 0; b = b[bandwidthUnit/8:] {
					k.ReadSum(b[:bandwidthUnit/8], distance)
					safepoint()
				}
			})
			times[w] = append(times[w], time.Since(start))
		}
	}
	best := time.Duration(math.MaxInt64)
	for _, t := range times {
		slices.Sort(t)
		best = min(best, t[len(t)/2])
	}
	return float64(units*bandwidthUnit) / best.Seconds() / 1e9, nil
}

// nearby is [Runtime.Parallel]; where threads are bound to memory nodes, those of a node make the same calls every
// time, but for those that another node's take because they are done.
func (rt *Runtime) nearby(n int, f func(i int)) {
	if !rt.place.binds() {
		rt.Parallel(n, f)
		return
	}
	threads := rt.Threads()
	shares := make([]share, threads)
	for i := range shares {
		shares[i].set(i*n/threads, (i+1)*n/threads)
	}
	rt.ParallelThreads(threads, func(thread, _ int) {
		for i := range threads {
			s := &shares[rt.place.neighbor(thread, i)]
			for {
				from, to := s.take(1, i > 0)
				if from == to {
					break
				}
				for ; from < to; from++ {
					f(from)
				}
			}
		}
	})
}
