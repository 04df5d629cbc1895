package asm

import (
	"fmt"
	"math"
	"testing"
)

// TestMatMulTiles: several tiles, taken piece by piece, give the bits that the scalar kernel gives one after the other.
func TestMatMulTiles(t *testing.T) {
	scalar := Scalar()
	for _, name := range Available() {
		k, err := Select(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Formats() {
			if k.MatMulTiles[f] == nil {
				continue
			}
			for _, cols := range []int{256, 1024, 1280, 2560} {
				t.Run(fmt.Sprintf("%s/%v/%d", name, f, cols), func(t *testing.T) {
					raw := randomRows(newRand(1), f, PanelRows, cols)
					panel, plain := make([]byte, f.PanelBytes(cols)), make([]byte, f.PanelBytes(cols))
					Pack(f, k.Offset, panel, raw, PanelRows, cols)
					Pack(f, scalar.Offset, plain, raw, PanelRows, cols)
					var tiles []Tile
					for i, tokens := range []int{TileTokens, TileTokens, 5} {
						x, _ := newTile(t, &scalar, newRand(uint64(2+i)), tokens, cols)
						tiles = append(tiles, *x)
					}
					const stride = PanelRows + 3
					got, want := make([]float32, 21*stride), make([]float32, 21*stride)
					k.MatMulTiles[f](panel, tiles, got, stride)
					for i := range tiles {
						scalar.MatMul[f](plain, &tiles[i], want[i*TileTokens*stride:], stride)
					}
					for i := range want {
						if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
							t.Fatalf("token %d, row %d: %v, want %v", i/stride, i%stride, got[i], want[i])
						}
					}
				})
			}
		}
	}
}
