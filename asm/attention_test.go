package asm

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// pages makes a page of keys and one of values of random positions, and what they hold, read by the layout's
// definition: keys and values as [Page][dim].
func pages(t testing.TB, r *rand.Rand, kv KV, dim int) (k, v []byte, keys, values []float32) {
	k, v = tail[byte](t, KPageBytes(kv, dim)), tail[byte](t, VPageBytes(kv, dim))
	x := make([]float32, dim)
	for pos := range Page {
		normal(r, x, 1)
		StoreK(kv, k, pos, x)
		normal(r, x, 1)
		StoreV(kv, v, pos, x)
	}
	f32 := func(p []byte, i int) float32 { return math.Float32frombits(le.Uint32(p[4*i:])) }
	f16 := func(p []byte, i int) float32 { return FromF16(le.Uint16(p[2*i:])) }
	groups := (dim + 31) / 32
	for pos := range Page {
		for d := range dim {
			var a, b float32
			switch kv {
			case KVF32:
				a, b = f32(k, d*Page+pos), f32(v, pos*dim+d)
			case KVF16:
				a, b = f16(k, d*Page+pos), f16(v, pos*dim+d)
			case KVQ8_0:
				a = float32(int8(k[d*Page+pos])) * f16(k[dim*Page:], d/32*Page+pos)
				b = float32(int8(v[pos*dim+d])) * f16(v[dim*Page:], pos*groups+d/32)
			case KVQ4_0:
				signed := func(n byte) float32 { return float32(int(n^8) - 8) } // of two's complement
				a = signed(k[d/2*Page+pos]>>(d%2*4)&15) * f16(k[(dim+1)/2*Page:], d/32*Page+pos)
				bytes := dim/32*16 + min(16, dim%32)
				b = signed(v[pos*bytes+d/32*16+d%16]>>(d%32/16*4)&15) * f16(v[bytes*Page:], pos*groups+d/32)
			}
			keys, values = append(keys, a), append(values, b)
		}
	}
	return k, v, keys, values
}

// TestAttention holds every kernel set against rule 6 read literally.
func TestAttention(t *testing.T) {
	var sets []Kernels
	for _, name := range vectorSets() {
		k, err := Select(name)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, k)
	}
	for kv := range kvCount {
		t.Run(kv.String(), func(t *testing.T) {
			r := newRand(20)
			for _, dim := range []int{1, 8, 24, 32, 40, 48, 64, 80, 128, 256} {
				k, v, keys, values := pages(t, r, kv, dim)
				each := []int{1, 2, 3, 4, 5, 7, 8, 9, 16, 17}
				if dim == 256 { // wide keys
					each = []int{9, 17}
				}
				for _, rows := range each {
					n := []int{1, 15, 16, 17, 255, 256, 1 + r.IntN(255)}[r.IntN(7)]
					if dim == 256 {
						n = Page - rows
					}
					scale := float32(1 / math.Sqrt(float64(dim)))
					q, p := tail[float32](t, dim*rows), tail[float32](t, rows*Page)
					out, o := tail[float32](t, rows*Page), tail[float32](t, rows*dim)
					noise, start := make([]float32, rows*Page), make([]float32, rows*dim)
					for _, x := range [][]float32{q, p, noise, start} {
						normal(r, x, 1)
					}
					scores := make([]float32, rows*n)
					for row := range rows {
						for j := range n {
							var s float32
							for d := range dim {
								s = FMA(q[d*rows+row], keys[j*dim+d], s)
							}
							scores[row*n+j] = s * scale
						}
					}
					sums, from := slices.Clone(start), r.IntN(n)
					for row := range rows {
						for d := range dim {
							for j := from; j < n; j++ {
								sums[row*dim+d] = FMA(p[row*Page+j], values[j*dim+d], sums[row*dim+d])
							}
						}
					}
					for _, set := range sets {
						what := fmt.Sprintf("%s, dim %d, %d rows, keys %d to %d", set.Name, dim, rows, from, n)
						copy(out, noise)
						set.Scores[kv](out, q, k, dim, rows, n, scale, v)
						for row := range rows {
							wantSame(t, what+": scores", out[row*Page:][:n], scores[row*n:][:n])
						}
						copy(o, start)
						set.Values[kv](o, p, v, dim, rows, from, n, k)
						wantSame(t, what+": values", o, sums)
						set.Values[kv](o, p, v, dim, rows, n, n, nil) // none
						wantSame(t, what+": no values", o, sums)
					}
				}
			}
		})
	}
}

func TestStore(t *testing.T) {
	r := newRand(21)
	for kv, limit := range map[KV]float64{KVF32: 0, KVF16: 0x1p-11, KVQ8_0: 0.6 / 127, KVQ4_0: 1.01 / 8} {
		for _, dim := range []int{1, 32, 40, 56, 64} {
			k, v := make([]byte, KPageBytes(kv, dim)), make([]byte, VPageBytes(kv, dim))
			x := make([]float32, dim)
			normal(r, x, 2)
			amax, _ := absMax(x)
			StoreK(kv, k, 200, x)
			StoreV(kv, v, 13, x)
			k2, v2 := make([]byte, len(k)), make([]byte, len(v))
			CopyK(kv, k2, 0, k, 200, dim)
			CopyV(kv, v2, 255, v, 13, dim)
			set := Scalar()
			for d := range dim {
				// Read through the kernels: a one-hot query, a weight of one.
				q, p := make([]float32, dim), make([]float32, Page)
				q[d], p[255] = 1, 1
				s, o := make([]float32, Page), make([]float32, dim)
				set.Scores[kv](s, q, k2, dim, 1, 1, 1, nil)
				set.Values[kv](o, p, v2, dim, 1, 255, 256, nil)
				for _, got := range []float32{s[0], o[d]} {
					if math.Abs(float64(got-x[d])) > limit*float64(amax) {
						t.Fatalf("%v: dimension %d of %d: %g, want %g", kv, d, dim, got, x[d])
					}
				}
			}
		}
	}
	// What cannot be stored is not hidden.
	x := []float32{1, float32(math.NaN()), 2}
	for kv, bytes := range map[KV]int{KVQ8_0: 3, KVQ4_0: 3} {
		page := make([]byte, VPageBytes(kv, 3))
		StoreV(kv, page, 0, x)
		if d := FromF16(le.Uint16(page[bytes*Page:])); d == d {
			t.Errorf("%v: scale of a group with a NaN: %g", kv, d)
		}
	}
}

// TestStoreQ4 holds the quantization of KVQ4_0 to its rule: the first x of the greatest magnitude becomes -8.
func TestStoreQ4(t *testing.T) {
	for _, c := range []struct {
		x    []float32
		d    float32
		want []float32 // x over d
	}{
		{[]float32{8, -8, 1, 0.5, 1.5, -3, 7.6}, -1, []float32{-8, 7, -1, 0, -2, 3, -8}}, // halves to even, 8 to 7
		{[]float32{-2, 2, 0.25}, 0.25, []float32{-8, 7, 1}},
		{[]float32{0x1p-101, 0}, 0, []float32{0, 0}},
		{[]float32{3e6, -1.5e6}, -65504, []float32{-8, 4}},
		{[]float32{-3e6, 1e6}, 65504, []float32{-8, 3}},
	} {
		dim := len(c.x)
		k, v := make([]byte, KPageBytes(KVQ4_0, dim)), make([]byte, VPageBytes(KVQ4_0, dim))
		StoreK(KVQ4_0, k, 3, c.x)
		StoreV(KVQ4_0, v, 3, c.x)
		if a, b := FromF16(le.Uint16(k[(dim+1)/2*Page+6:])), FromF16(le.Uint16(v[dim*Page+6:])); a != c.d || b != c.d {
			t.Errorf("%v: scales %g and %g, want %g", c.x, a, b, c.d)
		}
		for d, want := range c.want {
			a := float32(int8(k[d/2*Page+3]<<(4-d%2*4)) >> 4)
			if b := float32(int8(v[3*dim+d]<<4) >> 4); a != want || b != want {
				t.Errorf("%v: dimension %d: %g and %g, want %g", c.x, d, a, b, want)
			}
		}
	}
}

// ValuesOfKeys lays out the first numbers of keys as values, with their scales: the scalar set by what a weight of one
// reads, the others byte by byte.
func TestValuesOfKeys(t *testing.T) {
	eachSet(t, func(t *testing.T, set, scalar *Kernels) {
		for kv := range kvCount {
			r := newRand(22)
			for _, c := range [][2]int{{1, 1}, {24, 7}, {40, 33}, {80, 64}, {144, 130}, {560, 512}} {
				dim, values := c[0], c[1]
				k := tail[byte](t, KPageBytes(kv, dim))
				for i := range k {
					k[i] = byte(r.Uint32()) &^ 0x44 // no float16 or float32 is NaN or infinite
				}
				for _, n := range []int{0, 1, 31, 33, 65, Page} {
					got, want := tail[byte](t, VPageBytes(kv, values)), make([]byte, VPageBytes(kv, values))
					for i := range got {
						got[i] = byte(r.Uint32())
					}
					dirtyStack()
					set.ValuesOfKeys[kv](got, k, dim, values, n)
					scalar.ValuesOfKeys[kv](want, k, dim, values, n)
					at := 0
					for _, part := range VRows(kv, values) {
						if i := n * part.bytes; !bytes.Equal(got[at:at+i], want[at:at+i]) {
							t.Fatalf("%v, %d of %d dimensions, %d positions: not what the scalar set lays out", kv, values, dim, n)
						}
						at += part.bytes * Page
					}
					if n == 0 || set.Name != "scalar" {
						continue
					}
					j, q, s := r.IntN(n), make([]float32, dim), make([]float32, Page)
					p, o := make([]float32, Page), make([]float32, values)
					p[j] = 1
					scalar.Values[kv](o, p, got, values, 1, j, j+1, nil)
					for _, d := range []int{0, values - 1, r.IntN(values)} {
						q[d] = 1
						if scalar.Scores[kv](s, q, k, dim, 1, j+1, 1, nil); o[d] != s[j] {
							t.Fatalf("%v: dimension %d of %d of position %d is %v, of the key %v", kv, d, values, j, o[d], s[j])
						}
						q[d] = 0
					}
				}
			}
		}
	})
}
