//go:build !purego

package asm

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkTilesCycles reports cycles per block and 8 tokens of many panels with many tiles, as in prefill.
func BenchmarkTilesCycles(b *testing.B) {
	hz := cyclesPerSecond()
	for _, name := range Available()[1:] {
		k, err := Select(name)
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range []Format{Q8_0, Q4_0, Q4_K, Q6_K, F16} {
			for _, cols := range []int{2048, 8192} {
				for _, n := range []int{1, 16} {
					b.Run(fmt.Sprintf("%s/%s/%d/%dtiles", f, name, cols, n), func(b *testing.B) {
						one := benchmarkPanel(&k, f, cols)
						panels := alignedBytes(len(one) * 16)
						for i := range 16 {
							copy(panels[i*len(one):], one)
						}
						tokens := n * TileTokens
						tiled := k.Weights[f].MatMulTiles != nil && tokens >= k.Weights[f].TilesFrom
						size := TileTokens
						if tiled {
							size = tilesSize(&k, f)
						}
						tiles := make([]Tile, (tokens+size-1)/size)
						for i := range tiles {
							x, _ := newTile(b, &k, newRand(2), min(size, tokens-i*size), cols)
							if form := k.Forms[k.Weights[f].TilesForm]; form != nil {
								form(x)
							}
							tiles[i] = *x
						}
						out := make([]float32, n*TileTokens*16*PanelRows)
						buffer := alignedBytes(max(1, k.TilesBytes))
						best := time.Hour
						for b.Loop() {
							for p := 0; p < 16; p += 2 {
								t := time.Now()
								two := panels[p*len(one):][:2*len(one)]
								for i := range tiles {
									if tiled {
										k.Weights[f].MatMulTiles(two, 2, tiles, tokens, out[p*PanelRows:], 16*PanelRows, buffer,
											Prefetch{8 << 10, len(one) / f.Steps(cols)})
										break
									}
									out := out[i*TileTokens*16*PanelRows+p*PanelRows:]
									if k.Weights[f].MatMulPair != nil && i > 0 {
										k.Weights[f].MatMulPair(two, &tiles[i], out, 16*PanelRows,
											Prefetch{len(two), 2 * len(one) / n / f.Steps(tiles[i].Cols)})
										continue
									}
									k.Weights[f].MatMul(two[:len(one)], &tiles[i], out, 16*PanelRows,
										Prefetch{len(two), 2 * len(one) / n / f.Steps(tiles[i].Cols)})
									k.Weights[f].MatMul(two[len(one):], &tiles[i], out[PanelRows:], 16*PanelRows,
										Prefetch{len(two), 2 * len(one) / n / f.Steps(tiles[i].Cols)})
								}
								best = min(best, time.Since(t)/2)
							}
						}
						b.ReportMetric(best.Seconds()*hz/float64(cols/BlockSize*n), "cycles/block")
					})
				}
			}
		}
	}
}
