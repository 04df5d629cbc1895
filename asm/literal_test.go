package asm

import "math"

// literalBlock is 32 weights of a GGUF row, read literally from the definition of its type: (d*scale)*q -
// dmin*minimum, or + m.
type literalBlock struct {
	q        [BlockSize]int
	d        float32 // of products
	halves   bool    // with a scale and a minimum per 16 weights
	scale    [2]int  // of both halves, or of the block in the first
	minimum  [2]int  // as scale
	dmin     float32 // of minimum
	m        float32 // Q4_1, Q5_1
	minimums bool    // there are some: of dmin, or m
	w        [BlockSize]float32
}

// values sets the weights, each rounded once from a number that is exact in float64.
func (b *literalBlock) values() {
	for k, q := range b.q {
		half := 0
		if b.halves {
			half = k / 16
		}
		exact := float64(b.d) * float64(b.scale[half]) * float64(q)
		if b.minimums {
			exact -= float64(b.dmin)*float64(b.minimum[half]) - float64(b.m)
		}
		b.w[k] = float32(exact)
	}
}

// literals read a block of each integer type.
var literals = map[Format]func(block []byte) []literalBlock{
	Q8_0: func(p []byte) []literalBlock {
		return simple(f16(p, 0), 0, false, func(j int) int { return int(int8(p[2+j])) })
	},
	Q4_0: func(p []byte) []literalBlock {
		return simple(f16(p, 0), 0, false, func(j int) int { return nibbleOf(p[2:], j) - 8 })
	},
	Q4_1: func(p []byte) []literalBlock {
		return simple(f16(p, 0), f16(p, 2), true, func(j int) int { return nibbleOf(p[4:], j) })
	},
	Q5_0: func(p []byte) []literalBlock {
		return simple(f16(p, 0), 0, false, func(j int) int { return nibbleOf(p[6:], j) + int(p[2+j/8]>>(j%8)&1)*16 - 16 })
	},
	Q5_1: func(p []byte) []literalBlock {
		return simple(f16(p, 0), f16(p, 2), true, func(j int) int { return nibbleOf(p[8:], j) + int(p[4+j/8]>>(j%8)&1)*16 })
	},
	IQ4_NL: func(p []byte) []literalBlock {
		return simple(f16(p, 0), 0, false, func(j int) int { return literalIQ4[nibbleOf(p[2:], j)] })
	},
	MXFP4: func(p []byte) []literalBlock {
		d := float32(math.Ldexp(1, int(p[0])-128))
		return simple(d, 0, false, func(j int) int { return literalMXFP4[nibbleOf(p[1:], j)] })
	},
	IQ4_XS: func(p []byte) (list []literalBlock) {
		for s := range 8 {
			b := literalBlock{d: f16(p, 0)}
			b.scale[0] = int(p[4+s/2]>>(4*(s%2))&15) + int((uint(p[2])|uint(p[3])<<8)>>(2*s)&3)<<4 - 32
			for j := range b.q {
				b.q[j] = literalIQ4[nibbleOf(p[8+16*s:], j)]
			}
			b.values()
			list = append(list, b)
		}
		return list
	},
	Q4_K: func(p []byte) []literalBlock {
		return withMinimums(p, func(s, l int) int { return int(p[16+s/2*32+l] >> (4 * (s % 2)) & 15) })
	},
	Q5_K: func(p []byte) []literalBlock {
		return withMinimums(p, func(s, l int) int {
			return int(p[48+s/2*32+l]>>(4*(s%2))&15) + int(p[16+l]>>s&1)*16
		})
	},
	Q6_K: func(p []byte) []literalBlock {
		var y [256]int
		ql, qh := p[:128], p[128:192]
		for n := range 2 {
			for l := range 32 {
				low, high := ql[64*n:], qh[32*n+l]
				y[128*n+l] = int(low[l]&15|high&3<<4) - 32
				y[128*n+32+l] = int(low[32+l]&15|high>>2&3<<4) - 32
				y[128*n+64+l] = int(low[l]>>4|high>>4&3<<4) - 32
				y[128*n+96+l] = int(low[32+l]>>4|high>>6<<4) - 32
			}
		}
		return inHalves(f16(p, 208), 0, false, func(k int) int { return y[k] },
			func(s int) (int, int) { return int(int8(p[192+s])), 0 })
	},
	Q3_K: func(p []byte) []literalBlock {
		hmask, qs, sc := p[:32], p[32:96], p[96:108]
		weight := func(k int) int {
			n, j, l := k/128, k/32%4, k%32
			q := int(qs[32*n+l] >> (2 * j) & 3)
			if hmask[l]>>(4*n+j)&1 == 0 {
				q -= 4
			}
			return q
		}
		return inHalves(f16(p, 108), 0, false, weight, func(s int) (int, int) {
			low := sc[s%8] & 15
			if s >= 8 {
				low = sc[s-8] >> 4
			}
			return (int(low) | int(sc[8+s%4]>>(2*(s/4))&3)<<4) - 32, 0
		})
	},
	Q2_K: func(p []byte) []literalBlock {
		weight := func(k int) int { return int(p[16+k/128*32+k%32] >> (2 * (k / 32 % 4)) & 3) }
		return inHalves(f16(p, 80), f16(p, 82), true, weight,
			func(s int) (int, int) { return int(p[s] & 15), int(p[s] >> 4) })
	},
}

var (
	literalIQ4   = []int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	literalMXFP4 = []int{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

func f16(p []byte, at int) float32 { return FromF16(uint16(p[at]) | uint16(p[at+1])<<8) }

// nibbleOf is weight j of 32 in 16 bytes.
func nibbleOf(p []byte, j int) int {
	if j < 16 {
		return int(p[j] & 15)
	}
	return int(p[j-16] >> 4)
}

// simple is a block of 32 weights: d*q + m.
func simple(d, m float32, minimums bool, q func(j int) int) []literalBlock {
	b := literalBlock{d: d, m: m, scale: [2]int{1}, minimums: minimums}
	for j := range b.q {
		b.q[j] = q(j)
	}
	b.values()
	return []literalBlock{b}
}

// withMinimums is a super-block of 8 sub-blocks with scales and minimums as in Q4_K: d*sc*q - dmin*m.
func withMinimums(p []byte, q func(s, l int) int) (list []literalBlock) {
	scales := p[4:16]
	for s := range 8 {
		b := literalBlock{d: f16(p, 0), dmin: f16(p, 2), minimums: true}
		if s < 4 {
			b.scale[0], b.minimum[0] = int(scales[s]&63), int(scales[s+4]&63)
		} else {
			b.scale[0] = int(scales[s+4]&15 | scales[s-4]>>6<<4)
			b.minimum[0] = int(scales[s+4]>>4 | scales[s]>>6<<4)
		}
		for l := range b.q {
			b.q[l] = q(s, l)
		}
		b.values()
		list = append(list, b)
	}
	return list
}

// inHalves is a super-block of 16 sub-blocks of 16 weights: d*sc*q - dmin*m.
func inHalves(d, dmin float32, minimums bool, q func(k int) int, scale func(s int) (sc, m int)) (list []literalBlock) {
	for i := range 8 {
		b := literalBlock{d: d, dmin: dmin, halves: true, minimums: minimums}
		for h := range 2 {
			b.scale[h], b.minimum[h] = scale(2*i + h)
		}
		for k := range b.q {
			b.q[k] = q(32*i + k)
		}
		b.values()
		list = append(list, b)
	}
	return list
}

// literalRow is a GGUF row, literalToken a token's activations, both for literalDot.
type (
	literalRow struct {
		w      []float32
		blocks []literalBlock
	}
	literalToken struct {
		x []float32
		q [][]int   // of each block
		d []float32 // of each block
	}
)

// literalRows decodes rows that lie one after the other.
func literalRows(f Format, raw []byte, rows int) []literalRow {
	list := make([]literalRow, rows)
	for i := range list {
		n := len(raw) / rows
		list[i].w, list[i].blocks = decodeRow(f, raw[i*n:][:n])
	}
	return list
}

// literalTokens quantizes tokens that lie one after the other.
func literalTokens(x []float32, tokens int) []literalToken {
	list := make([]literalToken, tokens)
	for i := range list {
		t, n := &list[i], len(x)/tokens
		t.x = x[i*n:][:n]
		for at := 0; at+BlockSize <= n; at += BlockSize {
			q, d := literalQuantize(t.x[at:][:BlockSize])
			t.q, t.d = append(t.q, q), append(t.d, d)
		}
	}
	return list
}

// decodeRow reads the weights of a GGUF row, and for integer types its blocks.
func decodeRow(f Format, row []byte) (w []float32, blocks []literalBlock) {
	for at := 0; at < len(row); at += f.BlockBytes() {
		switch f {
		case F32:
			w = append(w, math.Float32frombits(uint32(row[at])|uint32(row[at+1])<<8|uint32(row[at+2])<<16|uint32(row[at+3])<<24))
		case F16:
			w = append(w, f16(row, at))
		case BF16:
			w = append(w, math.Float32frombits(uint32(row[at])<<16|uint32(row[at+1])<<24))
		case NVFP4:
			for k := range 64 {
				s := int(row[at+k/16])
				scale := math.Ldexp(float64(8+s&7), s>>3&15-11) // half of it
				if s>>3&15 == 0 {
					scale = float64(s&7) / 1024
				} else if s == 0x7f {
					scale = 0
				}
				w = append(w, float32(scale)*float32(literalMXFP4[row[at+4+k/16*8+k%8]>>(k/8%2*4)&15]))
			}
		default:
			for _, b := range literals[f](row[at:][:f.BlockBytes()]) {
				w, blocks = append(w, b.w[:]...), append(blocks, b)
			}
		}
	}
	return w, blocks
}

// literalDot is rules 2 to 4 of the numeric specification for one row and one token, with exact fused multiply-adds.
func literalDot(f Format, row literalRow, token literalToken) (acc float32) {
	if !f.Integer() {
		for k, x := range token.x {
			acc = exactFMA(row.w[k], x, acc)
		}
	}
	for i := range row.blocks {
		b, qx, dx := &row.blocks[i], token.q[i], token.d[i]
		var isum, sum [2]int
		for k, e := range qx {
			isum[k/16] += e * b.q[k]
			sum[k/16] += e
		}
		switch {
		case b.halves:
			acc = exactFMA(float32(b.scale[0]*isum[0]+b.scale[1]*isum[1]), b.d*dx, acc)
			if b.minimums {
				acc = exactFMA(-float32(b.minimum[0]*sum[0]+b.minimum[1]*sum[1]), b.dmin*dx, acc)
			}
			continue
		case f.BlockWeights() == SuperBlock:
			acc = exactFMA(float32(isum[0]+isum[1]), (b.d*float32(b.scale[0]))*dx, acc)
		default:
			acc = exactFMA(float32(isum[0]+isum[1]), b.d*dx, acc)
		}
		if b.minimums {
			acc = exactFMA(b.m-b.dmin*float32(b.minimum[0]), dx*float32(sum[0]+sum[1]), acc)
		}
	}
	return acc
}
