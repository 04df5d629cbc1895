package asm

import (
	"fmt"
	"math"
	"testing"
)

// TestMatMulPair: two panels at once give the bits that the scalar kernel gives one after the other.
func TestMatMulPair(t *testing.T) {
	scalar := Scalar()
	for _, name := range vectorSets() {
		k, err := Select(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Formats() {
			if k.Weights[f].MatMulPair == nil {
				continue
			}
			for blocks := 1; blocks <= 70; blocks++ {
				cols := blocks * f.BlockWeights()
				t.Run(fmt.Sprintf("%s/%v/%d", name, f, cols), func(t *testing.T) {
					x, _ := newTile(t, &scalar, newRand(uint64(cols)), TileTokens, cols)
					extreme := blocks > 66
					if extreme {
						setExtremes(&scalar, x)
					}
					size := f.ProductBytes(cols)
					const stride = 2*PanelRows + 3
					panels, plain := tail[byte](t, 2*size), make([]byte, size)
					got, want := tail[float32](t, (TileTokens-1)*stride+2*PanelRows), make([]float32, TileTokens*stride)
					for i := range got {
						got[i] = 7
						if i%stride >= 2*PanelRows {
							want[i] = 7 // between the rows of out nothing is written
						}
					}
					for p := range 2 {
						raw := randomRows(newRand(uint64(cols+p)), f, PanelRows, cols)
						if extreme {
							raw = extremeRows(f, cols)
						}
						packProduct(f, k.Offset, panels[p*size:], raw, PanelRows, cols)
						packProduct(f, scalar.Offset, plain, raw, PanelRows, cols)
						scalar.Weights[f].MatMul(plain, x, want[p*PanelRows:], stride, Prefetch{})
					}
					k.Weights[f].MatMulPair(panels, x, got, stride, anyPrefetch(newRand(uint64(cols))))
					for i := range got {
						if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
							t.Fatalf("token %d, row %d: %v, want %v", i/stride, i%stride, got[i], want[i])
						}
					}
				})
			}
		}
	}
}
