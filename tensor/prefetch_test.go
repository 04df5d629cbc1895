package tensor

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/specgo/spec/asm"
)

// TestPrefetch follows what kernels prefetch: all of a matrix in one stream without gaps, and, but for the first
// panels, each byte before the first pass over its panel comes there.
func TestPrefetch(t *testing.T) {
	const cols, panels = 2048, 33
	for _, pair := range []bool{false, true} {
		for _, most := range []int{0, 6} {
			rt := runtimeWith(t, Options{Threads: 1, SIMD: "scalar"})
			w, err := Pack(rt, Q8_0, panels*asm.PanelRows-3, cols, make([]byte, Q8_0.RowBytes(cols)*(panels*asm.PanelRows-3)))
			ok(t, err)
			rt.k.Weights[Q8_0].Pass = most
			rt.matmul.cache = 1 << 20
			var calls, reached, seen int
			follow := func(n int) asm.MatMul {
				return func(data []byte, x *asm.Tile, _ []float32, _ int, a asm.Prefetch) {
					at := int(uintptr(unsafe.Pointer(&data[0])) - uintptr(unsafe.Pointer(&w.memory.data[0])))
					calls++
					if a.Step < 0 || calls > 1 && at+a.From > reached {
						t.Fatalf("call %d: reads %+d, %d bytes a step, read so far %+d", calls, a.From, a.Step, reached-at)
					}
					if at+n*w.panel > seen { // the first pass over them; it takes so many tokens
						seen = at + n*w.panel
						firsts := rt.k.FirstPass(Q8_0, x.Tokens)
						ends := max(reached, at+a.From+a.Step*w.steps*firsts/x.Tokens)
						begins := max(reached, at+a.From)
						if at >= 2*w.panel && (begins < at+(n-1)*w.panel+prefetchDistance || ends < seen+prefetchDistance) {
							t.Fatalf("call %d: %d panels of %d at %d: read when it begins %d, when it ends %d", calls, n,
								w.panel, at, begins, ends)
						}
					}
					reached = max(reached, at+a.From+a.Step*w.steps)
				}
			}
			rt.k.Weights[Q8_0].MatMul = follow(1)
			if pair {
				rt.k.Weights[Q8_0].MatMulPair = follow(2)
			}
			for _, tokens := range []int{1, 5, 8, 9, 12, 16, 17, 24, 33, 70, 128} {
				t.Run(fmt.Sprint(pair, most, tokens), func(t *testing.T) {
					calls, reached, seen = 0, 0, 0
					var in Input
					ok(t, in.Set(rt, make([]float32, tokens*cols), tokens, cols))
					ok(t, rt.MatMul(&in, Product{W: w, Out: make([]float32, tokens*w.rows)}))
					if wasted := reached - panels*w.panel - prefetchDistance; wasted < 0 || wasted > 2*w.panel {
						t.Errorf("%d panels of %d: read %d", panels, w.panel, reached)
					}
				})
			}
		}
	}
}
