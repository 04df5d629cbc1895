package asm

import (
	"bytes"
	"testing"
)

// Transpose moves every number, whatever its bits, to its place, and writes nothing between columns.
func TestTranspose(t *testing.T) {
	eachSet(t, func(t *testing.T, k, _ *Kernels) {
		for _, apart := range []int{0, 3} {
			for rows := range 20 {
				for _, cols := range []int{0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 40} {
					to, from := rows+apart, cols+apart
					src, dst := tail[float32](t, max(0, (rows-1)*from+cols)), tail[float32](t, max(0, (cols-1)*to+rows))
					for i := range src {
						src[i] = float32(i + 1)
					}
					clear(dst)
					k.Transpose(dst, to, src, from, rows, cols)
					for i, got := range dst {
						want := float32(0)
						if r, c := i%max(1, to), i/max(1, to); r < rows {
							want = float32(r*from + c + 1)
						}
						if got != want {
							t.Fatalf("%d x %d, %d apart: %v at %d, not %v", rows, cols, apart, got, i, want)
						}
					}
				}
			}
		}
	})
}

// KeyPage and ValuePage leave a page as StoreK and StoreV do position by position.
func TestPages(t *testing.T) {
	eachSet(t, func(t *testing.T, k, _ *Kernels) {
		r := newRand(50)
		for _, dim := range []int{1, 7, 8, 20, 32, 64} {
			for _, n := range []int{0, 1, 7, 8, 9, 31, 128, Page - 1, Page} {
				stride := dim + n%3
				x := tail[float32](t, max(0, (n-1)*stride+dim))
				normal(r, x, 1)
				for name, side := range map[string]struct {
					all func(page []byte, x []float32, stride, dim, n int)
					one func(t KV, page []byte, pos int, x []float32)
				}{"keys": {k.KeyPage, StoreK}, "values": {k.ValuePage, StoreV}} {
					got, want := tail[byte](t, KPageBytes(KVF32, dim)), make([]byte, KPageBytes(KVF32, dim))
					clear(got)
					side.all(got, x, stride, dim, n)
					for j := range n {
						side.one(KVF32, want, j, x[j*stride:][:dim])
					}
					if !bytes.Equal(got, want) {
						t.Fatalf("%d %s of %d dimensions, %d apart: another page", n, name, dim, stride)
					}
				}
			}
		}
	})
}
