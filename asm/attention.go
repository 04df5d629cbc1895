package asm

import "math"

func scoresF16(out, q []float32, k []byte, dim, rows, keys int, scale float32, _ []byte) {
	scores(KVF16, out, q, k, dim, rows, keys, scale)
}

func scoresF32(out, q []float32, k []byte, dim, rows, keys int, scale float32, _ []byte) {
	scores(KVF32, out, q, k, dim, rows, keys, scale)
}

func scoresQ8_0(out, q []float32, k []byte, dim, rows, keys int, scale float32, _ []byte) {
	scores(KVQ8_0, out, q, k, dim, rows, keys, scale)
}

func scoresQ4_0(out, q []float32, k []byte, dim, rows, keys int, scale float32, _ []byte) {
	scores(KVQ4_0, out, q, k, dim, rows, keys, scale)
}

// scores is [AttentionKernels].Scores. It goes dimension by dimension, so that keys are decoded once for all rows;
// out holds the partial sums.
func scores(t KV, out, q []float32, k []byte, dim, rows, keys int, scale float32) {
	var buf [Page]float32
	key := buf[:keys]
	for r := range rows {
		clear(out[r*Page:][:keys])
	}
	for d := range dim {
		KeyRow(t, key, k, d, dim, 0)
		for r, e := range q[d*rows:][:rows] {
			axpy(out[r*Page:][:keys], e, key)
		}
	}
	for r := range rows {
		s := out[r*Page:][:keys]
		for j := range s {
			s[j] *= scale
		}
	}
}

func valuesF16(o, p []float32, v []byte, dim, rows, from, to int, _ []byte) {
	values(KVF16, o, p, v, 0, dim, rows, from, to)
}

func valuesF32(o, p []float32, v []byte, dim, rows, from, to int, _ []byte) {
	values(KVF32, o, p, v, 0, dim, rows, from, to)
}

func valuesQ8_0(o, p []float32, v []byte, dim, rows, from, to int, _ []byte) {
	values(KVQ8_0, o, p, v, 0, dim, rows, from, to)
}

func valuesQ4_0(o, p []float32, v []byte, dim, rows, from, to int, _ []byte) {
	values(KVQ4_0, o, p, v, 0, dim, rows, from, to)
}

// values is [AttentionKernels].Values for dimensions d … dim-1. It goes position by position, 256 dimensions at a time,
// so that values are decoded once for all rows.
func values(t KV, o, p []float32, v []byte, d, dim, rows, from, to int) {
	var buf [256]float32
	for ; d < dim; d += len(buf) {
		val := buf[:min(len(buf), dim-d)]
		for j := from; j < to; j++ {
			switch t {
			case KVF32:
				readF32(val, v[(j*dim+d)*4:])
			case KVF16:
				readF16(val, v[(j*dim+d)*2:])
			case KVQ8_0:
				scales := v[dim*Page+j*kvGroups(dim)*2:]
				for i, q := range v[j*dim+d:][:len(val)] {
					val[i] = float32(int8(q)) * FromF16(le.Uint16(scales[(d+i)/BlockSize*2:]))
				}
			case KVQ4_0:
				for i := range val {
					val[i] = valueQ4_0(v, dim, j, d+i)
				}
			}
			for r := range rows {
				axpy(o[r*dim+d:][:len(val)], p[r*Page+j], val)
			}
		}
	}
}

// valueQ4_0 is dimension d of the value at position pos of a page.
func valueQ4_0(v []byte, dim, pos, d int) float32 {
	bytes := vBytes(KVQ4_0, dim)
	b, q := v[pos*bytes+d/BlockSize*(BlockSize/2)+d%(BlockSize/2)], int8(0)
	if d%BlockSize < BlockSize/2 {
		q = lowNibble(b)
	} else {
		q = highNibble(b)
	}
	return float32(q) * FromF16(le.Uint16(v[bytes*Page+(pos*kvGroups(dim)+d/BlockSize)*2:]))
}

func valuesOfKeysF16(v, k []byte, dim, values, n int) { valuesOfKeys(KVF16, v, k, dim, values, n) }

func valuesOfKeysF32(v, k []byte, dim, values, n int) { valuesOfKeys(KVF32, v, k, dim, values, n) }

func valuesOfKeysQ8_0(v, k []byte, dim, values, n int) { valuesOfKeys(KVQ8_0, v, k, dim, values, n) }

func valuesOfKeysQ4_0(v, k []byte, dim, values, n int) { valuesOfKeys(KVQ4_0, v, k, dim, values, n) }

// valuesOfKeys is [AttentionKernels].ValuesOfKeys.
func valuesOfKeys(t KV, v, k []byte, dim, values, n int) {
	valueColumns(t, v, k, 0, values, n)
	valueScales(t, v, k, dim, 0, values, n)
}

// valueColumns lays out dimensions d … values-1 of n positions; d is a multiple of 32.
func valueColumns(t KV, v, k []byte, d, values, n int) {
	for ; d < values; d++ {
		switch t {
		case KVF32:
			for j := range n {
				copy(v[(j*values+d)*4:][:4], k[(d*Page+j)*4:])
			}
		case KVF16:
			for j := range n {
				copy(v[(j*values+d)*2:][:2], k[(d*Page+j)*2:])
			}
		case KVQ8_0:
			for j := range n {
				v[j*values+d] = k[d*Page+j]
			}
		case KVQ4_0:
			bytes, half := vBytes(t, values), d%BlockSize/(BlockSize/2)
			for j := range n {
				at, q := j*bytes+d/BlockSize*(BlockSize/2)+d%(BlockSize/2), k[d/2*Page+j]>>(d%2*4)&15
				if half == 0 {
					v[at] = q
				} else {
					v[at] |= q << 4
				}
			}
		}
	}
}

// valueScales lays out the scales of n positions, of the groups of 32 dimensions from one on.
func valueScales(t KV, v, k []byte, dim, group, values, n int) {
	if !t.scaled() {
		return
	}
	k, v = k[kScales(t, dim):], v[vBytes(t, values)*Page:]
	for groups := kvGroups(values); group < groups; group++ {
		for j := range n {
			copy(v[(j*groups+group)*2:][:2], k[(group*Page+j)*2:])
		}
	}
}

func readF32(dst []float32, p []byte) {
	p = p[:4*len(dst)]
	for i := range dst {
		dst[i] = math.Float32frombits(le.Uint32(p[4*i:]))
	}
}

func readF16(dst []float32, p []byte) {
	p = p[:2*len(dst)]
	for i := range dst {
		dst[i] = FromF16(le.Uint16(p[2*i:]))
	}
}
