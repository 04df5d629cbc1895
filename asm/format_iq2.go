package asm

// The values of IQ2: 8, 25 and 43, in the middle of the table.
var valuesIQ2 = [16]int8{5: -43, 6: -25, 7: -8, 8: 8, 9: 25, 10: 43}

// IQ2_S. A super-block of 256 weights takes 82 bytes: d binary16; 32 bytes with the low 8 bits of the entries of 32
// groups of 8 weights; 32 bytes of signs; 8 bytes with two higher bits of the entries, of byte g those of groups
// 4g … 4g+3; 8 bytes of scales s, nibbles, one per 16 weights. f = 1/8, u = 2s+1, q = plus or minus a magnitude of the
// entry of gridIQ2_S.
var formatIQ2_S = (&table{values: valuesIQ2, f: 1. / 8, halves: true, read: readIQ2_S}).format("iq2_s", 82, 0)

func readIQ2_S(block []byte, b *tableBlock) {
	b.d = le.Uint16(block)
	signs, high := block[34:66], block[66:74]
	for k, e := range block[2:34] {
		b.digits(8*k, 8, gridIQ2_S[int(e)|int(high[k/4]>>(k%4*2)&3)<<8], 2, 8)
		b.signs(8*k, signs[k])
	}
	b.oddScales(block[74:82])
}

// IQ2_XS. A super-block of 256 weights takes 74 bytes: d binary16; 32 numbers of 16 bits, one per 8 weights: 9 bits of
// the entry, 7 signs; 8 bytes of scales as in IQ2_S. f = 1/8, u = 2s+1, q = plus or minus a magnitude of the entry of
// gridIQ2_XS.
var formatIQ2_XS = (&table{values: valuesIQ2, f: 1. / 8, halves: true, read: readIQ2_XS}).format("iq2_xs", 74, 0)

func readIQ2_XS(block []byte, b *tableBlock) {
	b.d = le.Uint16(block)
	for k := range 32 {
		v := le.Uint16(block[2+2*k:])
		b.digits(8*k, 8, gridIQ2_XS[v&511], 2, 8)
		b.signs(8*k, parity(byte(v>>9)))
	}
	b.oddScales(block[66:74])
}

// IQ2_XXS. A super-block of 256 weights takes 66 bytes: d binary16; 8 times 8 bytes, one per 32 weights: 4 entries, of
// 8 weights each, and 32 bits of signs and scale as in IQ3_XXS. f = 1/8, u = 2s+1, q = plus or minus a magnitude of the
// entry of gridIQ2_XXS.
var formatIQ2_XXS = (&table{values: valuesIQ2, f: 1. / 8, read: readIQ2_XXS}).format("iq2_xxs", 66, 0)

func readIQ2_XXS(block []byte, b *tableBlock) {
	b.d = le.Uint16(block)
	for g := range 8 {
		group := block[2+8*g:][:8]
		for k, e := range group[:4] {
			b.digits(32*g+8*k, 8, gridIQ2_XXS[e], 2, 8)
		}
		b.signsAndScale(g, le.Uint32(group[4:]))
	}
}
