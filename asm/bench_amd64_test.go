//go:build !purego

package asm

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// cyclesPerSecond is measured with a chain of instructions of known latency, so that it is the clock the kernels run
// at.
func cyclesPerSecond() float64 {
	best := time.Hour
	for range 20 {
		t := time.Now()
		spinCycles(200_000)
		best = min(best, time.Since(t))
	}
	return 200_000 / best.Seconds()
}

// BenchmarkCycles reports cycles per block of 16 rows x 32 weights, operands in cache: the best call, so that what
// else runs on the machine hardly matters. Where a set multiplies several panels at once, four of them are.
func BenchmarkCycles(b *testing.B) {
	hz := cyclesPerSecond()
	for _, name := range Available() {
		k, err := Select(name)
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range Formats() {
			for tokens := 1; tokens <= TileTokens; tokens++ {
				if name == "scalar" || k.Weights[f].MatMul == nil {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/T%d", f, name, tokens), func(b *testing.B) {
					cols, count := 2048, 1
					if tokens <= k.Weights[f].PanelsTokens {
						cols, count = 512, 4
					}
					panel := benchmarkPanel(&k, f, cols)
					x, _ := newTile(b, &k, newRand(2), tokens, cols)
					out := make([]float32, tokens*count*PanelRows)
					ahead := Prefetch{8 << 10, len(panel) / f.Steps(x.Cols)}
					panels := bytes.Repeat(panel, count)
					best := time.Hour
					for b.Loop() {
						t := time.Now()
						for range 8 {
							if count > 1 {
								k.Weights[f].MatMulPanels(panels, count, x, out, count*PanelRows, ahead)
							} else {
								k.Weights[f].MatMul(panel, x, out, PanelRows, ahead)
							}
						}
						best = min(best, time.Since(t)/8)
					}
					b.ReportMetric(best.Seconds()*hz/float64(cols/BlockSize*count), "cycles/block")
				})
			}
		}
	}
}

// BenchmarkAttentionCycles reports cycles for a page of 256 positions of one head, in cache. The second shape is latent
// attention's, of DeepSeek V2 Lite: 16 query heads, keys of 576 numbers, of which 512 are the value.
func BenchmarkAttentionCycles(b *testing.B) {
	hz := cyclesPerSecond()
	for _, name := range Available()[1:] {
		k, err := Select(name)
		if err != nil {
			b.Fatal(err)
		}
		for t := range kvCount {
			for _, shape := range [][3]int{{1, 64, 64}, {4, 64, 64}, {8, 64, 64}, {32, 64, 64}, {16, 576, 512}} {
				rows, dim, size := shape[0], shape[1], shape[2]
				name := fmt.Sprintf("%s/%s/R%d", t, name, rows)
				if size < dim {
					name += "latent"
				}
				q, out, page := make([]float32, dim*rows), make([]float32, Page*rows), make([]byte, KPageBytes(t, dim))
				cycles := func(kernel func()) func(*testing.B) {
					return func(b *testing.B) {
						best := time.Hour
						for b.Loop() {
							t := time.Now()
							kernel()
							best = min(best, time.Since(t))
						}
						b.ReportMetric(best.Seconds()*hz, "cycles/page")
					}
				}
				b.Run("scores/"+name, cycles(func() { k.Scores[t](out, q, page, dim, rows, Page, 1, nil) }))
				values := make([]byte, VPageBytes(t, size))
				b.Run("values/"+name, cycles(func() { k.Values[t](q, out, values, size, rows, 0, Page, nil) }))
				if size < dim {
					b.Run("laid out/"+name, cycles(func() { k.ValuesOfKeys[t](values, page, dim, size, Page) }))
				}
				if t == KVF16 {
					m, l := make([]float32, rows), make([]float32, rows)
					b.Run("softmax/"+name, cycles(func() { k.ExpSums(out, Page, Page, m, l) }))
				}
			}
		}
	}
}

// BenchmarkStream is BenchmarkCycles with weights that come from memory, on one thread and on two; the best pass
// counts.
func BenchmarkStream(b *testing.B) {
	const cols, size = 2048, 256 << 20
	for _, f := range Formats() {
		for _, name := range Available()[1:] {
			k, err := Select(name)
			if err != nil {
				b.Fatal(err)
			}
			panel := benchmarkPanel(&k, f, cols)
			memory := alignedBytes(size / (2 * len(panel)) * 2 * len(panel))
			for i := 0; i < len(memory); i += len(panel) {
				copy(memory[i:], panel)
			}
			for _, tokens := range []int{1, 2, 4, 8} {
				for threads := 1; threads <= 2; threads++ {
					b.Run(fmt.Sprintf("%s/%s/T%d/%dthread", f, name, tokens, threads), func(b *testing.B) {
						x, _ := newTile(b, &k, newRand(2), tokens, cols)
						share := len(memory) / threads
						best := time.Hour
						for b.Loop() {
							var wait sync.WaitGroup
							start := time.Now()
							for i := range threads {
								wait.Go(func() {
									out := make([]float32, tokens*PanelRows)
									for part := memory[i*share:][:share]; len(part) > 0; part = part[len(panel):] {
										k.Weights[f].MatMul(part[:len(panel)], x, out, PanelRows, Prefetch{8 << 10, len(panel) / f.Steps(x.Cols)})
									}
								})
							}
							wait.Wait()
							best = min(best, time.Since(start))
						}
						b.ReportMetric(float64(len(memory))/best.Seconds()/1e9, "GB/s")
					})
				}
			}
		}
	}
}

// BenchmarkAttentionStream is attention of one token over 16,384 positions that come from memory, of 16 layers with 8
// heads of 64 numbers, page after page of a head as a thread of package tensor reads them, and beside it the same pages
// merely read; the median pass counts.
func BenchmarkAttentionStream(b *testing.B) {
	const layers, heads, pages, dim = 16, 8, 64, 64
	for t := range kvCount {
		keys, values := KPageBytes(t, dim), VPageBytes(t, dim)
		memory := alignedBytes(pages * layers * heads * (keys + values))
		at := func(page, layer, head int) []byte {
			return memory[((page*layers+layer)*heads+head)*(keys+values):][:keys+values]
		}
		for _, name := range Available()[1:] {
			k, err := Select(name)
			if err != nil {
				b.Fatal(err)
			}
			for _, rows := range []int{0, 1, 4, 8} { // 0: read alone
				for threads := 1; threads <= 2; threads++ {
					b.Run(fmt.Sprintf("%s/%s/R%d/%dthread", t, name, rows, threads), func(b *testing.B) {
						pass := func(heads []int) {
							q, scores := make([]float32, dim*rows), make([]float32, Page*rows)
							o, m, l := make([]float32, rows*dim), make([]float32, rows), make([]float32, rows)
							for i := range layers * len(heads) * pages {
								page, head, layer := i%pages, heads[i/pages%len(heads)], i/pages/len(heads)
								now, next := at(page, layer, head), at((page+1)%pages, layer, head)
								if rows == 0 {
									k.ReadSum(now, 1<<10)
									continue
								}
								k.Scores[t](scores, q, now, dim, rows, Page, 1, now[keys:])
								k.ExpSums(scores, Page, Page, m, l)
								k.Values[t](o, scores, now[keys:], dim, rows, 0, Page, next[:keys])
							}
						}
						var took []float64
						for b.Loop() {
							var wait sync.WaitGroup
							start := time.Now()
							for i := range threads {
								var own []int
								for h := i * heads / threads; h < (i+1)*heads/threads; h++ {
									own = append(own, h)
								}
								wait.Go(func() { pass(own) })
							}
							wait.Wait()
							took = append(took, time.Since(start).Seconds())
						}
						slices.Sort(took)
						b.ReportMetric(float64(len(memory))/took[len(took)/2]/1e9, "GB/s")
					})
				}
			}
		}
	}
}

func alignedBytes(n int) []byte {
	b := make([]byte, n+64)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & 63)
	return b[off : off+n : off+n]
}

// benchmarkPanel is a panel of random rows, on a cache line as tensor allocates them.
func benchmarkPanel(k *Kernels, f Format, cols int) []byte {
	panel := alignedBytes(f.ProductBytes(cols))
	packProduct(f, k.Offset, panel, randomRows(newRand(1), f, PanelRows, cols), PanelRows, cols)
	return panel
}
