package asm

// perRow holds a number for each row of a panel.
type perRow = [PanelRows]float32

// accumulators are the sums of a product: one per token and row.
type accumulators [TileTokens]perRow

// column adds column k of a matrix of floating-point numbers: acc = fma(w[k], x[k], acc).
func (acc *accumulators) column(x *Tile, k int, w *perRow) {
	for t, e := range x.F[k*x.Tokens:][:x.Tokens] {
		axpy(acc[t][:], e, w[:])
	}
}

func (acc *accumulators) store(tokens int, out []float32, stride int) {
	for t := range tokens {
		copy(out[t*stride:][:PanelRows], acc[t][:])
	}
}

// The integer types. For each block of 32 weights, isum, the sum of the products, is an exact integer; it is then
// converted to float32, scaled and added, blocks ascending. A type unpacks a block into signed bytes and says how
// isum is scaled.
//
// Three tokens share one multiplication: their quants, 21 bits apart, make one 64-bit number, so that one product and
// one sum serve all three. Each sum is below 32*128*127 < 2^20 in magnitude, so that all three can be extracted
// exactly.

// weights are the unpacked weights of one block, for all rows of a panel: [8 groups][16 rows][4 weights] int8.
type weights [8 * PanelRows * 4]byte

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

// sums3 are the 16 rows' sums for three tokens, still packed.
type sums3 [PanelRows]int64

// next extracts and removes the sums of the next token, one for each row.
func (s *sums3) next(isum *[PanelRows]int32) {
	for r, v := range s {
		n := v << 43 >> 43
		isum[r] = int32(n)
		s[r] = (v - n) >> 21
	}
}

// dot adds the products of four groups of a block, [4 groups][16 rows][4 weights], with their quants.
func (s *sums3) dot(w *[256]byte, q *[BlockSize / 2]int64) {
	for g := range 4 {
		p := (*[64]byte)(w[g*64:])
		q0, q1, q2, q3 := q[4*g], q[4*g+1], q[4*g+2], q[4*g+3]
		for r := range s {
			v := le.Uint32(p[4*r:])
			s[r] += int64(int8(v))*q0 + int64(int8(v>>8))*q1 + int64(int8(v>>16))*q2 + int64(int32(v)>>24)*q3
		}
	}
}

// block adds block b: acc = fma(float(isum), dw*dx, acc), isum = sum over the block of (w-offset)*q.
func (acc *accumulators) block(x *Tile, b int, w *weights, dw *perRow, offset int32) {
	for t0 := 0; t0 < x.Tokens; t0 += 3 {
		var q pack3
		q.set(x, b, t0)
		var s sums3
		s.dot((*[256]byte)(w[:256]), (*[16]int64)(q[:16]))
		s.dot((*[256]byte)(w[256:]), (*[16]int64)(q[16:]))
		for t := t0; t < min(t0+3, x.Tokens); t++ {
			var isum [PanelRows]int32
			s.next(&isum)
			dx, start := x.D[b*x.Tokens+t], x.Bias[b*x.Tokens+t]/128*offset // Bias is -128 times the sum of q
			var n, d perRow
			for r, i := range isum {
				n[r] = float32(start + i)
				d[r] = dw[r] * dx
			}
			fmaRows(&acc[t], &n, &d)
		}
	}
}

// minimum adds the term of block b's minimum: acc = fma(m, dx*float(sum), acc), sum = sum over the block of q.
func (acc *accumulators) minimum(x *Tile, b int, m *perRow) {
	for t, dsum := range x.DSum[b*x.Tokens:][:x.Tokens] {
		axpy(acc[t][:], dsum, m[:])
	}
}

// halves adds block b of a type with a scale per 16 weights: acc = fma(float(sc0*isum0 + sc1*isum1), dw*dx, acc), the
// integer exact, isum0 and isum1 the sums over the block's halves of (w-offset)*q.
func (acc *accumulators) halves(x *Tile, b int, w *weights, sc *[2][PanelRows]int32, dw *perRow, offset int32) {
	for t0 := 0; t0 < x.Tokens; t0 += 3 {
		var q pack3
		q.set(x, b, t0)
		var s [2]sums3
		s[0].dot((*[256]byte)(w[:256]), (*[16]int64)(q[:16]))
		s[1].dot((*[256]byte)(w[256:]), (*[16]int64)(q[16:]))
		for t := t0; t < min(t0+3, x.Tokens); t++ {
			var s0, s1 [PanelRows]int32
			s[0].next(&s0)
			s[1].next(&s1)
			at := b*x.Tokens + t
			dx, start0, start1 := x.D[at], x.Half[2*at]/32*offset, x.Half[2*at+1]/32*offset // Half is -32 times the sums of q
			var n, d perRow
			for r := range n {
				n[r] = float32(sc[0][r]*(start0+s0[r]) + sc[1][r]*(start1+s1[r]))
				d[r] = dw[r] * dx
			}
			fmaRows(&acc[t], &n, &d)
		}
	}
}

// The parts of a panel's blocks; see [Format].
const (
	nibbleBytes = 256
	crumbBytes  = 128
	bitBytes    = 64
)

// nibbles unpacks the 4-bit weights of a block.
func (w *weights) nibbles(p []byte) {
	p = p[:nibbleBytes]
	for i := 0; i < len(p); i += 4 {
		v := le.Uint32(p[i:])
		le.PutUint32(w[i:], v&0x0f0f0f0f)
		le.PutUint32(w[nibbleBytes+i:], v>>4&0x0f0f0f0f)
	}
}

// crumbs unpacks the 2-bit weights of a block.
func (w *weights) crumbs(p []byte) {
	for g := range 8 {
		in, out := (*[64]byte)(p[g/4*64:]), (*[64]byte)(w[g*64:])
		for i := 0; i < len(in); i += 4 {
			le.PutUint32(out[i:], le.Uint32(in[i:])>>(g%4*2)&0x03030303)
		}
	}
}

// bits adds a bit to each weight of a block, as bit to.
func (w *weights) bits(p []byte, to int) {
	in := (*[bitBytes]byte)(p)
	for g := range 8 {
		out := (*[64]byte)(w[g*64:])
		for i := 0; i < len(in); i += 4 {
			le.PutUint32(out[i:], le.Uint32(out[i:])|le.Uint32(in[i:])>>((g+4)%8)&0x01010101<<to)
		}
	}
}

// lookup replaces 4-bit weights by the entries of a table.
func (w *weights) lookup(table *[16]int8) {
	for i, v := range w {
		w[i] = byte(table[v&15])
	}
}

// Weight k of row r in the parts of a block.

func nibble(p []byte, r, k int) byte { return p[k%16/4*64+4*r+k%4] >> (k / 16 * 4) & 15 }

func crumb(p []byte, r, k int) byte { return p[k/16*64+4*r+k%4] >> (k % 16 / 4 * 2) & 3 }

func bit(p []byte, r, k int) byte { return p[4*r+k%4] >> ((k/4 + 4) % 8) & 1 }
