package tensor

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/specgo/spec/asm"
)

// BenchmarkPages walks one thread over pages of keys and values of one head of 64 dimensions, with 4 query rows: where
// the pages are one and the same, where they lie in the second-level cache, and in memory, one after the other, 8 MiB
// apart (as those of a head are in a cache of 16 layers and 8 heads), and in any order. read only reads a page; ahead
// has the kernels prefetch the next page.
func BenchmarkPages(b *testing.B) {
	const dim, rows, bytes = 64, 4, 512 << 20
	k := &runtimeOf(b, 1).k
	var m memory
	ok(b, m.allocate(bytes))
	defer m.free()
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < 1<<20; i += 2 { // halves between 1/2 and 1, of either sign
		m.data[i], m.data[i+1] = byte(r.Uint32()), byte(r.Uint32()&0x83|0x38)
	}
	for i := 1 << 20; i < bytes; i += 1 << 20 {
		copy(m.data[i:], m.data[:1<<20])
	}
	q, scores, o := normal(1, dim*rows), make([]float32, rows*asm.Page), make([]float32, rows*dim)
	maxima, sums := make([]float32, rows), make([]float32, rows)
	for _, typ := range []KVType{KVF16, KVQ8_0, KVQ4_0} {
		kBytes := asm.KPageBytes(typ, dim)
		size := kBytes + asm.VPageBytes(typ, dim)
		n := bytes / size
		places := map[string][]int{"one": {0}, "L2": {0, 1, 2, 3, 4, 5, 6, 7}, "memory": nil, "apart": nil, "any": r.Perm(n)}
		for i := range n {
			places["memory"] = append(places["memory"], i)
		}
		for i := range 128 {
			for j := i; j < n; j += 128 {
				places["apart"] = append(places["apart"], j)
			}
		}
		for _, place := range []string{"one", "L2", "memory", "apart", "any"} {
			at := places[place]
			for _, work := range []string{"read", "scores", "values", "exp", "all", "ahead"} {
				if (typ != KVF16 || place == "any") && work != "all" && work != "ahead" {
					continue
				}
				b.Run(fmt.Sprintf("%v/%s/%s", typ, place, work), func(b *testing.B) {
					b.SetBytes(int64(size))
					i := 0
					for b.Loop() {
						page := m.data[at[i]*size:][:size]
						if i++; i == len(at) {
							i = 0
						}
						var keys, values []byte
						if work == "ahead" {
							keys, values = m.data[at[i]*size:][:kBytes], page[kBytes:]
						}
						switch work {
						case "read":
							k.ReadSum(page[:size&^255], 0)
							continue
						case "scores":
							k.Scores[typ](scores, q, page[:kBytes], dim, rows, asm.Page, 0.125, nil)
							continue
						case "values":
							k.Values[typ](o, scores, page[kBytes:], dim, rows, 0, asm.Page, nil)
							continue
						case "exp":
							k.ExpSums(scores, asm.Page, asm.Page, maxima, sums)
							continue
						}
						k.Scores[typ](scores, q, page[:kBytes], dim, rows, asm.Page, 0.125, values)
						k.ExpSums(scores, asm.Page, asm.Page, maxima, sums)
						clear(o)
						k.Values[typ](o, scores, page[kBytes:], dim, rows, 0, asm.Page, keys)
					}
				})
			}
		}
	}
}
