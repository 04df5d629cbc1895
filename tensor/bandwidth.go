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
	bandwidthPasses = 3       // times each way of reading is timed: the median counts, as lucky moments say little
)

// ReadBandwidth measures how fast this machine's memory can be read by all threads together, in GB/s (10^9 bytes per
// second): the best of plain and prefetched reads of the given number of bytes, each the median of several, with the machine's widest registers whatever
// kernels the Runtime has. That is the ceiling of everything that reads each weight once. Give it a gigabyte or more,
// far more than the caches hold; it allocates that much and frees it. Other operations wait meanwhile.
func (rt *Runtime) ReadBandwidth(bytes int) (float64, error) {
	units := bytes / bandwidthUnit
	if units < 1 {
		return 0, shapeError("%d bytes to measure with, at least %d", bytes, bandwidthUnit)
	}
	k, err := asm.Select("")
	if err != nil {
		return 0, err
	}
	var m memory
	if err := m.allocate(units * bandwidthUnit); err != nil {
		return 0, fmt.Errorf("measuring the memory: %w", err)
	}
	defer m.free()
	unit := func(i int) []byte { return m.data[i*bandwidthUnit:][:bandwidthUnit] }
	rt.Parallel(units, func(i int) { // untouched pages are all one page of zeros
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
			rt.Parallel(units, func(i int) {
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
