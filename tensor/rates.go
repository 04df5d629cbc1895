package tensor

import (
	"math"
	"time"

	"github.com/specgo/spec/asm"
)

// Rates are the most products that all threads together make with the kernels' instructions, per second: of a weight
// and an activation, each with its addition. They are measured on registers alone, so nothing that also reads memory,
// unpacks weights or scales sums exceeds them. 0: the kernels are plain Go, and what bounds them is not measured.
type Rates struct {
	Integer, Float     float64
	IntegerBy, FloatBy string // the instructions
}

const (
	rateTurns  = 1024 // of a loop, in a call: 3 to 30 µs
	rateCalls  = 16   // of a unit of work
	rateUnits  = 32   // of a thread
	ratePasses = 5    // of which the fastest counts: a bound is what nothing exceeds
)

// Rates measures them. Other operations wait meanwhile: some 20 ms.
func (rt *Runtime) Rates() Rates {
	var best Rates
	for _, loop := range rt.k.Rates() {
		rate := rt.rate(&loop)
		switch {
		case loop.Float && rate > best.Float:
			best.Float, best.FloatBy = rate, loop.Instruction
		case !loop.Float && rate > best.Integer:
			best.Integer, best.IntegerBy = rate, loop.Instruction
		}
	}
	return best
}

// rate is the products per second of a loop on all threads.
func (rt *Runtime) rate(loop *asm.Rate) float64 {
	units, best := rateUnits*rt.Threads(), time.Duration(math.MaxInt64)
	for range ratePasses {
		start := time.Now()
		rt.Parallel(units, func(int) {
			var a, b, out [64]byte // zeros: no processor multiplies them faster, and sums of floats stay normal
			for range rateCalls {
				loop.Run(rateTurns, &a, &b, &out)
				safepoint()
			}
		})
		best = min(best, time.Since(start))
	}
	return float64(units) * rateCalls * rateTurns * float64(loop.Products) / best.Seconds()
}

// CacheBandwidth measures how fast all threads together read so many bytes of their own again and again, in GB/s: of
// half of a cache's size, how fast that cache is read. bytes is at least 4096. It uses the widest registers of the
// machine, whatever kernels the Runtime has; the fastest of several passes counts.
func (rt *Runtime) CacheBandwidth(bytes int) (float64, error) {
	const (
		least  = 4096
		atOnce = 256 << 10 // a call ends within 50 µs
		total  = 4 << 20   // of a unit
	)
	if bytes < least {
		return 0, shapeError("%d bytes to measure with, at least %d", bytes, least)
	}
	k := asm.Vector()
	own := make([][]byte, rt.Threads())
	for i := range own {
		own[i] = make([]byte, bytes)
		for j := range own[i] {
			own[i][j] = byte(j)
		}
	}
	turns := max(1, total/bytes)
	units, best := rateUnits*rt.Threads(), time.Duration(math.MaxInt64)
	for range ratePasses {
		start := time.Now()
		rt.ParallelThreads(units, func(thread, _ int) {
			for range turns {
				for b := own[thread]; len(b) > 0; {
					n := min(atOnce, len(b))
					k.ReadSum(b[:n], 0)
					b = b[n:]
					safepoint()
				}
			}
		})
		best = min(best, time.Since(start))
	}
	return float64(units) * float64(turns) * float64(bytes) / best.Seconds() / 1e9, nil
}

// Caches are the sizes in bytes of this machine's caches: of the first two levels those of one core, of the third of a
// group of cores that share it. 0: unknown.
type Caches struct{ L1, L2, L3 int }

// CacheSizes says how large they are.
func CacheSizes() Caches {
	c := asm.CPU()
	return Caches{c.L1D, c.L2, c.L3}
}
