package asm

// matMulQ4_K: for sub-blocks of 32 ascending: s = (d*float(sc))*dx; acc = fma(float(isum), s, acc);
// acc = fma(-(dmin*float(m)), dx*float(sum), acc).
func matMulQ4_K(panel []byte, x *Tile, out []float32, stride int, _ Ahead) {
	var acc [TileTokens]perRow
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*q4kPanel:][:q4kPanel], b%8
		var dw, low perRow
		readF16(dw[:], super[2048:])
		readF16(low[:], super[2080:])
		sc, mn := (*[PanelRows]byte)(super[2112+16*i:]), (*[PanelRows]byte)(super[2240+16*i:])
		for r := range dw {
			dw[r] *= float32(sc[r])
			low[r] = -float32(low[r] * float32(mn[r]))
		}
		quants := (*[512]byte)(super[i/2*512:])
		shift := i % 2 * 4
		for t0 := 0; t0 < x.Tokens; t0 += 3 {
			var q pack3
			q.set(x, b, t0)
			var s sums
			for g := range 8 {
				p := (*[64]byte)(quants[g*64:])
				q0, q1, q2, q3 := q[4*g], q[4*g+1], q[4*g+2], q[4*g+3]
				for r := range s {
					v := int64(le.Uint32(p[4*r:]) >> shift)
					s[r] += v&15*q0 + v>>8&15*q1 + v>>16&15*q2 + v>>24&15*q3
				}
			}
			for t := t0; t < min(t0+3, x.Tokens); t++ {
				accumulate(&acc[t], &s, 0, &dw, x.D[b*x.Tokens+t])
				axpy(acc[t][:], x.DSum[b*x.Tokens+t], low[:])
			}
		}
	}
	store(&acc, x.Tokens, out, stride)
}

// matMulQ6_K: for sub-blocks of 32 ascending: t = sc0*isum0 + sc1*isum1, exact, of the two halves of 16 weights;
// acc = fma(float(t), d*dx, acc). An isum starts at -32*sum(q) because weights are stored as w+32.
func matMulQ6_K(panel []byte, x *Tile, out []float32, stride int, _ Ahead) {
	var acc [TileTokens]perRow
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*q6kPanel:][:q6kPanel], b%8
		var dw perRow
		readF16(dw[:], super[3328:])
		low, high := (*[512]byte)(super[i/2*512:]), (*[512]byte)(super[2048+i/4*512:])
		sc := (*[2 * PanelRows]byte)(super[3072+32*i:])
		for t0 := 0; t0 < x.Tokens; t0 += 3 {
			var q pack3
			q.set(x, b, t0)
			var s [2]sums
			for g := range 8 {
				dotSixBits(&s[g/4], (*[64]byte)(low[g*64:]), (*[64]byte)(high[g*64:]), i, (*[4]int64)(q[4*g:]))
			}
			for t := t0; t < min(t0+3, x.Tokens); t++ {
				at := b*x.Tokens + t
				var s0, s1 [PanelRows]int32
				s[0].next(&s0)
				s[1].next(&s1)
				var a, d perRow
				for r := range a {
					a[r] = float32(int32(int8(sc[r]))*(s0[r]+x.Half[2*at]) + int32(int8(sc[PanelRows+r]))*(s1[r]+x.Half[2*at+1]))
					d[r] = dw[r] * x.D[at]
				}
				fmaRows(&acc[t], &a, &d)
			}
		}
	}
	store(&acc, x.Tokens, out, stride)
}

// dotSixBits adds the products of one group of 4 weights of 16 rows; the weights are sub-block i's, 4 bits in low, 2 in high.
func dotSixBits(s *sums, low, high *[64]byte, i int, q *[4]int64) {
	nibble, pair := i%2*4, i%4*2
	q0, q1, q2, q3 := q[0], q[1], q[2], q[3]
	for r := range s {
		v := int64(le.Uint32(low[4*r:])>>nibble&0x0f0f0f0f | le.Uint32(high[4*r:])>>pair&0x03030303<<4)
		s[r] += v&255*q0 + v>>8&255*q1 + v>>16&255*q2 + v>>24*q3
	}
}
