package tensor

import (
	"cmp"
	"slices"

	"github.com/specgo/spec/asm"
)

// TQ2_0: a super-block of 256 weights is 64 bytes of pairs of bits, and d binary16. Weight l of sub-block i, of 32, has
// bits 2(i%4) of byte 32(i/4)+l. A weight, stored as q+1, is d*q.

func decodeTQ2_0(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[66:] {
		d := asm.FromF16(le.Uint16(row[64:]))
		for k := range dst[:256] {
			dst[k] = d * float32(int(row[k/128*32+k%32]>>(k/32%4*2)&3)-1)
		}
	}
}

// TQ1_0: a super-block of 256 weights is 52 bytes whose digits of base 3 are weights q+1, and d binary16. Bytes 0 …
// 31 have 5 digits each, the first digits of all before the second ones; then bytes 32 … 47 5 digits, bytes 48 …
// 51 4. Digit n of a byte v is the integer part of 3*frac(v*3^n/256).

func decodeTQ1_0(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[54:] {
		d, k := asm.FromF16(le.Uint16(row[52:])), 0
		for _, part := range [][]byte{row[:32], row[32:48], row[48:52]} {
			for power := 1; power <= 81 && k < 256; power *= 3 {
				for _, v := range part {
					dst[k] = d * float32(int(v)*power%256*3/256-1)
					k++
				}
			}
		}
	}
}

func encodeTQ2_0(row []byte, x, importance []float32) error {
	return encodeBlocks(TQ2_0, row, x, importance, func(block []byte, x, importance []float32) float32 {
		q, d := ternary(x, importance)
		clear(block)
		for k, v := range q {
			block[k/128*32+k%32] |= v << (k / 32 % 4 * 2)
		}
		le.PutUint16(block[64:], asm.ToF16(d))
		return d
	})
}

func encodeTQ1_0(row []byte, x, importance []float32) error {
	return encodeBlocks(TQ1_0, row, x, importance, func(block []byte, x, importance []float32) float32 {
		q, d := ternary(x, importance)
		for _, part := range [][2]int{{0, 32}, {32, 48}, {48, 52}} {
			for i := part[0]; i < part[1]; i++ {
				n, at := part[1]-part[0], 5*part[0]+i-part[0]
				v := 0
				for digit := range 5 {
					v *= 3
					if at+digit*n < 256 {
						v += int(q[at+digit*n])
					}
				}
				block[i] = byte((v*256 + 242) / 243) // rounded up: 3^5 numbers as fractions of 256
			}
		}
		le.PutUint16(block[52:], asm.ToF16(d))
		return d
	})
}

// ternary finds the scale and the integers for 256 numbers x = d*(q-1) with q in 0 … 2 that have the least error:
// those whose magnitudes are greatest are not 0, and d is their mean.
func ternary(x, importance []float32) (q [256]byte, d float32) {
	if amax := greatest(x); amax >= maxK {
		return q, amax
	}
	var order [256]int
	for i := range order {
		order[i], q[i] = i, 1
	}
	slices.SortFunc(order[:], func(i, j int) int {
		return cmp.Or(cmp.Compare(abs32(x[j]), abs32(x[i])), cmp.Compare(i, j))
	})
	var sum, all, most float64
	n := 0
	for i, k := range order {
		w := 1.0
		if importance != nil {
			w = float64(importance[k])
		}
		sum, all = sum+float64(w*float64(abs32(x[k]))), all+w
		if gain := sum * sum / all; gain > most {
			most, n, d = gain, i+1, float32(sum/all)
		}
	}
	for _, k := range order[:n] {
		if q[k] = 2; x[k] < 0 {
			q[k] = 0
		}
	}
	return q, d
}
