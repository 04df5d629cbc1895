package asm

import "math"

// Q4_0. A block of 32 weights takes 18 bytes: d binary16; 16 bytes whose low nibbles are weights 0 … 15 and whose
// high nibbles are weights 16 … 31, each stored as q+8. A weight is d*q.
//
// A panel is pairs of blocks (see pairedBlock): d [2][16 rows] binary16; nibbles of q+8 [2]. Their products start at
// -8*sum(q), which is Tile.Bias >> 4.
var formatQ4_0 = format{
	name: "q4_0", integer: true, blockWeights: 32, blockBytes: 18, panelBytes: 32 + nibbleBytes,
	sums: biasSums, scales: []int{0}, pack: packQ4_0, row: rowQ4_0, matMul: matMulQ4_0,
	sections: []section{{2, 2}, {2 * 4, 4}},
}

func packQ4_0(panel, row []byte, r, from, to int, _ bool) {
	for b := from / BlockSize; b < to/BlockSize; b++ {
		scales, at := pairedBlock(b, nibbleBytes)
		quants := panel[at+4*r:]
		if row == nil {
			for g := range 4 {
				le.PutUint32(quants[g*64:], 0x88888888)
			}
			continue
		}
		block := row[b*18:][:18]
		put4((*[column4]byte)(quants), (*[16]byte)(block[2:]), 0)
		le.PutUint16(panel[scales+2*r:], le.Uint16(block))
	}
}

// rowQ4_0: dst = d*q.
func rowQ4_0(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / 32 {
		scales, quants := pairedBlock(b, nibbleBytes)
		d := FromF16(le.Uint16(panel[scales+2*r:]))
		for k, out := 0, dst[b*32:][:32]; k < 32; k++ {
			out[k] = d * float32(int(nibble(panel[quants:], r, k))-8)
		}
	}
}

// matMulQ4_0: for blocks ascending: acc = fma(float(isum), d*dx, acc), isum = sum of q*qx.
func matMulQ4_0(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		scales, quants := pairedBlock(b, nibbleBytes)
		var d perRow
		readF16(d[:], panel[scales:])
		w.nibbles(panel[quants:])
		acc.block(x, b, &w, &d, 8)
	}
	acc.store(x.Tokens, out, stride)
}

// tooLargeQ4_0 is the least magnitude of which the scale rounds to infinity in binary16.
const tooLargeQ4_0 = 8 * 65520

// EncodeQ4_0 writes x, of whole blocks, as a row of Q4_0: d = the number of greatest magnitude, the first of several,
// over -8, so that it becomes -8 itself; q = x/d + 8, halves up, at most 15. These are the bytes of ggml's reference
// quantizer. It returns false, leaving dst undefined, if a number is NaN or infinite or a d exceeds binary16.
func EncodeQ4_0(dst []byte, x []float32) bool {
	for ; len(x) >= BlockSize; dst, x = dst[18:], x[BlockSize:] {
		v, block := (*[BlockSize]float32)(x), (*[18]byte)(dst)
		var top float32
		var greatest uint32 // its bits; magnitudes compare as those
		for _, e := range v {
			if b := math.Float32bits(e) &^ (1 << 31); b > greatest {
				greatest, top = b, e
			}
		}
		if greatest >= math.Float32bits(tooLargeQ4_0) {
			return false
		}
		d, inverse := top/-8, float32(0)
		if math.Float32bits(d)&^(1<<31) >= 0x00800000 { // a subnormal d is 0 in binary16, and may have no 1/d
			inverse = 1 / d
		}
		le.PutUint16(block[:], ToF16(d))
		for i := range 16 {
			low := min(15, byte(int8(float32(v[i]*inverse)+8.5)))
			high := min(15, byte(int8(float32(v[16+i]*inverse)+8.5)))
			block[2+i] = low | high<<4
		}
	}
	return true
}
