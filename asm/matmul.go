package asm

// perRow holds a number for each row of a panel.
type perRow = [PanelRows]float32

func matMulF32(panel []byte, x *Tile, out []float32, stride int, _ Ahead) {
	matMulFloat(F32, panel, x, out, stride)
}
func matMulF16(panel []byte, x *Tile, out []float32, stride int, _ Ahead) {
	matMulFloat(F16, panel, x, out, stride)
}
func matMulBF16(panel []byte, x *Tile, out []float32, stride int, _ Ahead) {
	matMulFloat(BF16, panel, x, out, stride)
}

// matMulFloat: for k ascending: acc = fma(w[k], x[k], acc).
func matMulFloat(f Format, panel []byte, x *Tile, out []float32, stride int) {
	var acc [TileTokens]perRow
	var w perRow
	for k := range x.Cols {
		switch f {
		case F32:
			readF32(w[:], panel[k*4*PanelRows:])
		case F16:
			readF16(w[:], panel[k*2*PanelRows:])
		case BF16:
			for r := range w {
				w[r] = FromBF16(le.Uint16(panel[(k*PanelRows+r)*2:]))
			}
		}
		for t, e := range x.F[k*x.Tokens:][:x.Tokens] {
			axpy(acc[t][:], e, w[:])
		}
	}
	store(&acc, x.Tokens, out, stride)
}

// The integer formats. Per block of 32 weights, isum is exact, and only then floating point begins, blocks ascending.
//
// Three tokens share one multiplication: their quants, 21 bits apart, make one 64-bit number, so that one product and one sum
// serve all three. A sum stays below 32*128*127 < 2^20 in magnitude, so it is found again exactly.

// pack3 holds the quants of up to three tokens for the 32 weights of a block.
type pack3 [BlockSize]int64

// set packs tokens t, t+1 and t+2 (those there are) of block b.
func (p *pack3) set(x *Tile, b, t int) {
	q := x.Q[(b*x.Tokens+t)*BlockSize:]
	q0 := (*[BlockSize]int8)(q)
	switch x.Tokens - t {
	case 1:
		for k := range p {
			p[k] = int64(q0[k])
		}
	case 2:
		q1 := (*[BlockSize]int8)(q[BlockSize:])
		for k := range p {
			p[k] = int64(q0[k]) + int64(q1[k])<<21
		}
	default:
		q1 := (*[BlockSize]int8)(q[BlockSize:])
		q2 := (*[BlockSize]int8)(q[2*BlockSize:])
		for k := range p {
			p[k] = int64(q0[k]) + int64(q1[k])<<21 + int64(q2[k])<<42
		}
	}
}

// sums are the 16 rows' sums for three tokens, still packed.
type sums [PanelRows]int64

// next takes the sums of the next token out, for each row.
func (s *sums) next(isum *[PanelRows]int32) {
	for r, v := range s {
		n := v << 43 >> 43
		isum[r] = int32(n)
		s[r] = (v - n) >> 21
	}
}

// matMulQ8_0: for blocks ascending: acc = fma(float(isum), dw*dx, acc).
func matMulQ8_0(panel []byte, x *Tile, out []float32, stride int, _ Ahead) {
	var acc [TileTokens]perRow
	for b := range x.Cols / BlockSize {
		scales, at := pairedBlock(b, 512)
		var dw perRow
		readF16(dw[:], panel[scales:])
		quants := (*[512]byte)(panel[at:])
		for t0 := 0; t0 < x.Tokens; t0 += 3 {
			var q pack3
			q.set(x, b, t0)
			var s sums
			dotInt8(&s, quants, &q)
			for t := t0; t < min(t0+3, x.Tokens); t++ {
				accumulate(&acc[t], &s, 0, &dw, x.D[b*x.Tokens+t])
			}
		}
	}
	store(&acc, x.Tokens, out, stride)
}

// matMulQ4_0: as Q8_0; isum starts at -8*sum(q) because weights are stored as w+8.
func matMulQ4_0(panel []byte, x *Tile, out []float32, stride int, _ Ahead) {
	var acc [TileTokens]perRow
	for b := range x.Cols / BlockSize {
		scales, at := pairedBlock(b, 256)
		var dw perRow
		readF16(dw[:], panel[scales:])
		quants := (*[256]byte)(panel[at:])
		for t0 := 0; t0 < x.Tokens; t0 += 3 {
			var q pack3
			q.set(x, b, t0)
			var s sums
			dotNibbles(&s, quants, (*[16]int64)(q[:16]), (*[16]int64)(q[16:]))
			for t := t0; t < min(t0+3, x.Tokens); t++ {
				i := b*x.Tokens + t
				accumulate(&acc[t], &s, x.Bias[i]>>4, &dw, x.D[i])
			}
		}
	}
	store(&acc, x.Tokens, out, stride)
}

// accumulate is for r: acc = fma(float(start+isum), dw*dx, acc) with the next token's sums.
func accumulate(acc *perRow, s *sums, start int32, dw *perRow, dx float32) {
	var isum [PanelRows]int32
	s.next(&isum)
	var a, d perRow
	for r, n := range isum {
		a[r] = float32(start + n)
		d[r] = dw[r] * dx
	}
	fmaRows(acc, &a, &d)
}

// dotInt8 adds the products of [8 groups][16 rows][4 weights] with the quants.
func dotInt8(s *sums, w *[512]byte, q *pack3) {
	for g := range 8 {
		p := (*[64]byte)(w[g*64:])
		q0, q1, q2, q3 := q[4*g], q[4*g+1], q[4*g+2], q[4*g+3]
		for r := range s {
			v := le.Uint32(p[4*r:])
			s[r] += int64(int8(v))*q0 + int64(int8(v>>8))*q1 + int64(int8(v>>16))*q2 + int64(int32(v)>>24)*q3
		}
	}
}

// dotNibbles adds the products of [4 groups][16 rows][4 bytes]: low nibbles with lo, high nibbles with hi.
func dotNibbles(s *sums, w *[256]byte, lo, hi *[16]int64) {
	for g := range 4 {
		p := (*[64]byte)(w[g*64:])
		l0, l1, l2, l3 := lo[4*g], lo[4*g+1], lo[4*g+2], lo[4*g+3]
		h0, h1, h2, h3 := hi[4*g], hi[4*g+1], hi[4*g+2], hi[4*g+3]
		for r := range s {
			v := int64(le.Uint32(p[4*r:]))
			s[r] += v&15*l0 + v>>8&15*l1 + v>>16&15*l2 + v>>24&15*l3 +
				v>>4&15*h0 + v>>12&15*h1 + v>>20&15*h2 + v>>28*h3
		}
	}
}

func store(acc *[TileTokens]perRow, tokens int, out []float32, stride int) {
	for t := range tokens {
		copy(out[t*stride:][:PanelRows], acc[t][:])
	}
}
