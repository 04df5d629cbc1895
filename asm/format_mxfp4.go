package asm

import "math"

// MXFP4 (OCP Microscaling Formats 1.0). A block of 32 weights takes 17 bytes: e, a power of two; 16 bytes whose low
// nibbles are weights 0 … 15 and whose high nibbles are weights 16 … 31. A weight is d*q, q = tableMXFP4[nibble]
// (twice the E2M1 number), d = 2^(e-128).
//
// A panel is fours of blocks: e [4][16 rows]; nibbles [4]. d is exact in float32, with subnormals 2^-128 and 2^-127
// for e = 0 and 1: as bits, the greater of the int32 numbers (e<<23)-0x00800000 and (e<<21)+0x00200000. The second is
// greater for e = 0 and 1 only. A kernel that multiplies u8 x s8 may look up q+128, whose products start at
// -128*sum(q) = Tile.Bias, or q+16 with Tile.Bias >> 3.
//
// Of a block with e > 252 some values overflow float32: q = 8 and 12 for 253, q >= 4 for 254, q >= 2 for 255, which
// is not NaN here.
var formatMXFP4 = format{
	name: "mxfp4", integer: true, blockWeights: 32, blockBytes: 17, panelBytes: 16 + nibbleBytes,
	sums: biasSums, notFinite: notFiniteMXFP4, pack: packMXFP4, row: rowMXFP4, matMul: matMulMXFP4,
	sections: []section{{4, 1}, {4 * 4, 4}},
}

// tableMXFP4 maps nibbles to weights: twice the E2M1 numbers.
var tableMXFP4 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// powerMXFP4 is 2^(e-128).
func powerMXFP4(e byte) float32 {
	bits := max(int32(e)<<23-0x00800000, int32(e)<<21+0x00200000)
	return math.Float32frombits(uint32(bits))
}

// notFiniteMXFP4 checks the weights of blocks with e > 252; the others cannot overflow.
func notFiniteMXFP4(row []byte) int {
	for b := 0; b < len(row)/17; b++ {
		block := row[b*17:][:17]
		if block[0] <= 252 {
			continue
		}
		d := powerMXFP4(block[0])
		for _, v := range block[1:] {
			if d*float32(tableMXFP4[v&7]) > math.MaxFloat32 || d*float32(tableMXFP4[v>>4&7]) > math.MaxFloat32 {
				return b
			}
		}
	}
	return -1
}

// blockMXFP4 says where in a panel the powers and the quants of block b begin.
func blockMXFP4(b int) (scales, quants int) {
	four := b / 4 * 4 * (PanelRows + nibbleBytes)
	return four + b%4*PanelRows, four + 4*PanelRows + b%4*nibbleBytes
}

func packMXFP4(panel, row []byte, r, from, to int, _ bool) {
	for b := from / BlockSize; b < to/BlockSize && row != nil; b++ {
		scales, quants := blockMXFP4(b)
		block := row[b*17:][:17]
		panel[scales+r] = block[0]
		putNibbles(panel[quants+4*r:], block[1:])
	}
}

// rowMXFP4: dst = d*q.
func rowMXFP4(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / BlockSize {
		scales, quants := blockMXFP4(b)
		d := powerMXFP4(panel[scales+r])
		for k, out := 0, dst[b*BlockSize:][:BlockSize]; k < BlockSize; k++ {
			out[k] = d * float32(tableMXFP4[nibble(panel[quants:], r, k)])
		}
	}
}

// matMulMXFP4: for blocks ascending: acc = fma(float(isum), d*dx, acc), isum = sum of q*qx.
func matMulMXFP4(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		scales, quants := blockMXFP4(b)
		var d perRow
		for r, e := range panel[scales:][:PanelRows] {
			d[r] = powerMXFP4(e)
		}
		w.nibbles(panel[quants:])
		w.lookup(&tableMXFP4)
		acc.block(x, b, &w, &d, 0)
	}
	acc.store(x.Tokens, out, stride)
}
