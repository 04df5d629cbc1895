package asm

// IQ4_XS. A super-block of 256 weights takes 136 bytes: d binary16; 16 bits with the high 2 bits of 8 scales; 4 bytes
// with their low 4 bits; 8 sub-blocks of 16 bytes, nibbles as in Q4_0. A weight of sub-block i is (d*ls[i])*q, q =
// tableIQ4[nibble], ls the 6-bit scale minus 32.
//
// It is a table type; its nibbles already are those of a panel.
var formatIQ4_XS = func() format {
	f := tableOfIQ4_XS.format("iq4_xs", 136, 0)
	f.pack = packIQ4_XS
	return f
}()

var tableOfIQ4_XS = &table{values: tableIQ4}

func packIQ4_XS(panel, row []byte, r, from, to int, _ bool) {
	size := tableOfIQ4_XS.panelBytes()
	for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
		block, super := row[b*136:][:136], panel[b*size:][:size]
		scales := super[tableScales:]
		high, low := le.Uint16(block[2:]), block[4:8]
		for i := range 8 {
			ls := low[i/2]>>(i%2*4)&15 | byte(high>>(2*i)&3<<4)
			scales[16*i+r] = ls - 32
			putNibbles(super[i*nibbleBytes+4*r:], block[8+16*i:])
		}
		le.PutUint16(scales[128+2*r:], le.Uint16(block))
	}
}
