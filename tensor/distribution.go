package tensor

import (
	"math"
	"sync"

	"github.com/specgo/spec/asm"
)

// The functions of a distribution over a vocabulary: softmax, its normalizer, and random numbers. They run on the
// caller's goroutine and need no Runtime, so that sampling can be used without one.

// anyKernels is a kernel set of this machine. All sets give the same bits, so results do not depend on which one it is.
var anyKernels = sync.OnceValue(func() *asm.Kernels {
	k := asm.Vector()
	return &k
})

// ExpSum finds the greatest number m of x, replaces every x[i] by exp(x[i]-m), and returns m and their sum. -Inf and
// 0 if x is empty.
func ExpSum(x []float32) (m, sum float32) {
	if len(x) == 0 {
		return asm.Log32(0), 0
	}
	const atOnce = 1 << 16 // a garbage collection waits for a kernel's end
	k := anyKernels()
	if len(x) <= 2*atOnce {
		return k.ExpSum(x)
	}
	var l lanes
	for m = maximum(k, x); len(x) > 0; x = x[min(len(x), atOnce):] {
		e := x[:min(len(x), atOnce)]
		l.addExps(k, e, e, m)
	}
	return m, l.sum()
}

// lanes are the partial sums of asm's lanes: element i goes to lane i mod 16, ascending.
type lanes [asm.PanelRows]float32

// addExps sets dst[i] to exp(x[i]-m), 0 where that is subnormal, and adds it. What was added before is a multiple of 16
// elements.
func (l *lanes) addExps(k *asm.Kernels, dst, x []float32, m float32) {
	for i, v := range x {
		dst[i] = v - m
	}
	k.Exp(dst, dst)
	for i, v := range dst {
		if v < asm.LeastNormal {
			dst[i], v = 0, 0
		}
		l[i%len(l)] += v
	}
}

func (l *lanes) sum() float32 {
	for half := len(l) / 2; half > 0; half /= 2 {
		for j := range half {
			l[j] += l[j+half]
		}
	}
	return l[0]
}

// maximum is the greatest number of x that is not NaN, -Inf if there is none; never -0.
func maximum(k *asm.Kernels, x []float32) float32 {
	m := x[k.ArgMax(x)]
	if m != m {
		return asm.Log32(0)
	}
	return m + 0
}

// Softmax turns x into probabilities, in place: x[i] = exp(x[i]-max) / sum. An empty x stays empty.
func Softmax(x []float32) {
	_, sum := ExpSum(x)
	for i := range x {
		x[i] /= sum
	}
}

// exps is the scratch of LogSumExp.
var exps = sync.Pool{New: func() any { return new([256]float32) }}

// LogSumExp is log(sum of exp(x[i])), without overflow: x[i] minus it is the log-probability of i. -Inf if x is empty.
// x is not changed.
func LogSumExp(x []float32) float32 {
	if len(x) == 0 {
		return asm.Log32(0)
	}
	k := anyKernels()
	m := x[k.ArgMax(x)]
	if m < -maxFloat32 {
		return m
	}
	buf := exps.Get().(*[256]float32)
	defer exps.Put(buf)
	var l lanes
	for ; len(x) > 0; x = x[min(len(x), len(buf)):] {
		n := min(len(x), len(buf))
		l.addExps(k, buf[:n], x[:n], m)
	}
	return m + asm.Log32(l.sum())
}

const maxFloat32 = 0x1p127 * (1 + (1 - 0x1p-23))

// ArgMax is the index of the greatest number; the least index wins ties, NaN never wins. -1 if x is empty.
func ArgMax(x []float32) int {
	if len(x) == 0 {
		return -1
	}
	return anyKernels().ArgMax(x)
}

// Log is the natural logarithm, the same bits on every machine.
func Log(x float32) float32 { return asm.Log32(x) }

// Log64 is Log for numbers that are computed once, when a model is opened.
func Log64(x float64) float64 { return asm.Log64(x) }

// Exp is e to the power x, the same on every machine.
func Exp(x float32) float32 { return asm.Exp32(x) }

// FMA is x*y + z, rounded once.
func FMA(x, y, z float32) float32 { return asm.FMA(x, y, z) }

// Key makes a stream of random numbers out of a seed and what the numbers are for (position, purpose, …).
func Key(seed uint64, parts ...uint64) uint64 { return asm.Key(seed, parts...) }

// Uniform is the number in [0, 1) that belongs to a key.
func Uniform(key uint64) float64 { return asm.Uniform(key) }

// Noise is token id's draw of a standard Gumbel distribution under key.
func Noise(key uint64, id uint32) float32 { return asm.Noise(key, id) }

// Gumbel fills dst with the Noise of the tokens first, first+1, ….
func Gumbel(dst []float32, first uint32, key uint64) {
	const atOnce = 4096 // a garbage collection waits for a kernel's end: a whole vocabulary takes some 200 µs
	for k := anyKernels(); len(dst) > 0; first += atOnce {
		n := min(len(dst), atOnce)
		k.Gumbel(dst[:n], first, key)
		dst = dst[n:]
	}
}

// MostNoise bounds the Noise of the tokens first … first+n-1: none exceeds it, and for large noise the bound is
// close. It takes a fraction of the time of Gumbel.
func MostNoise(n int, first uint32, key uint64) float32 {
	return asm.MostNoise(anyKernels().MaxHash(n, first, key))
}

// Finite reports whether no number of x is NaN or infinite.
func Finite(x []float32) bool { return anyKernels().Finite(x) }

// Normalize makes x a vector of length 1: it divides by the square root of the sum of squares. Zeros stay zeros.
func Normalize(x []float32) {
	k := anyKernels()
	if length := float32(math.Sqrt(float64(k.SumSquares(x)))); length > 0 {
		k.Divide(x, length)
	}
}
