//go:build !purego && (amd64 || arm64)

package asm

import "math"

// scoresKernel multiplies n of rows queries with 16*blocks keys; see stubs_*.go. scales is for keys of 8 and 4 bits.
type scoresKernel func(out, q *float32, k, scales *byte, dim, n, rows, blocks int, scale float32)

// scoresOf makes a Scores of a scoresKernel that multiplies up to most rows at once.
func scoresOf(kernel scoresKernel, t KV, most int) func([]float32, []float32, []byte, int, int, int, float32) {
	return func(out, q []float32, k []byte, dim, rows, keys int, scale float32) {
		blocks := (keys + 15) / 16
		if dim == 0 || blocks == 0 || rows == 0 || t == KVQ4_0 && dim%2 != 0 {
			scores(t, out, q, k, dim, rows, keys, scale)
			return
		}
		_, _, _ = out[(rows-1)*Page+16*blocks-1], q[dim*rows-1], k[KPageBytes(t, dim)-1]
		scales := &k[0]
		if t.scaled() {
			scales = &k[kScales(t, dim)]
		}
		n := 0
		for r := 0; r < rows; r += n {
			n = part(rows-r, most)
			kernel(&out[r*Page], &q[r], &k[0], scales, dim, n, rows, blocks, scale)
		}
	}
}

// valuesKernel adds count values to 16*blocks dimensions of n rows.
type valuesKernel func(o, p *float32, v, scales *byte, dim, n, count, blocks int)

// valuesOf makes a Values of a valuesKernel that multiplies up to most rows at once. Dimensions past the last
// multiple of 16 are computed in Go.
func valuesOf(kernel valuesKernel, t KV, most int) func([]float32, []float32, []byte, int, int, int, int) {
	return func(o, p []float32, v []byte, dim, rows, from, to int) {
		if dim == 0 || rows == 0 || from >= to {
			return
		}
		_, _, _ = o[rows*dim-1], p[(rows-1)*Page+to-1], v[VPageBytes(t, dim)-1]
		if dim < 16 {
			values(t, o, p, v, dim, rows, from, to)
			return
		}
		for d := dim &^ 15; d < dim; d++ {
			valuesColumn(t, o, p, v, dim, rows, from, to, d)
		}
		bytes, scales := vBytes(t, dim), &v[0]
		if t.scaled() {
			scales = &v[bytes*Page+from*kvGroups(dim)*2]
		}
		n := 0
		for r := 0; r < rows; r += n {
			n = part(rows-r, most)
			kernel(&o[r*dim], &p[r*Page+from], &v[from*bytes], scales, dim, n, to-from, dim/16)
		}
	}
}

// valuesColumn is values for one dimension d.
func valuesColumn(t KV, o, p []float32, v []byte, dim, rows, from, to, d int) {
	for j := from; j < to; j++ {
		var e float32
		switch t {
		case KVF16:
			e = FromF16(le.Uint16(v[(j*dim+d)*2:]))
		case KVF32:
			e = math.Float32frombits(le.Uint32(v[(j*dim+d)*4:]))
		case KVQ8_0:
			e = float32(int8(v[j*dim+d])) * FromF16(le.Uint16(v[dim*Page+(j*kvGroups(dim)+d/BlockSize)*2:]))
		case KVQ4_0:
			e = valueQ4_0(v, dim, j, d)
		}
		for r := range rows {
			o[r*dim+d] = FMA(p[r*Page+j], e, o[r*dim+d])
		}
	}
}
