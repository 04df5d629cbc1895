package asm

// tableIQ2 has the values of IQ2: 8, 25 and 43, in the middle of the table.
var tableIQ2 = table{values: [16]int8{5: -43, 6: -25, 7: -8, 8: 8, 9: 25, 10: 43}, f: 1. / 8}

// halvesIQ2 is tableIQ2 with a scale per 16 weights.
var halvesIQ2 = table{values: tableIQ2.values, f: tableIQ2.f, halves: true}

// positiveIQ2 are the nibbles of the magnitudes.
var positiveIQ2 = [4]byte{8, 9, 10}

// IQ2_S. A super-block of 256 weights takes 82 bytes: d binary16; 32 bytes with the low 8 bits of the entries of 32
// groups of 8 weights; 32 bytes of signs; 8 bytes with two higher bits of the entries, of byte g those of groups
// 4g … 4g+3; 8 bytes of scales s, nibbles, one per 16 weights. f = 1/8, u = 2s+1, q = plus or minus a magnitude of the
// entry of gridIQ2_S.
var formatIQ2_S = (&grid{octets: octets(gridIQ2_S[:], positiveIQ2), high: 2, read: readIQ2_S}).compact(
	halvesIQ2, "iq2_s", 82, 0)

func readIQ2_S(block []byte, b *gridBlock) {
	b.d = le.Uint16(block)
	copy(b.signs[:], block[34:66])
	for k, e := range block[2:34] {
		b.entry[k] = uint16(e) | uint16(block[66+k/4]>>(k%4*2)&3)<<8
	}
	b.scales(block[74:82])
}

// IQ2_XS. A super-block of 256 weights takes 74 bytes: d binary16; 32 numbers of 16 bits, one per 8 weights: 9 bits of
// the entry, 7 signs; 8 bytes of scales as in IQ2_S. f = 1/8, u = 2s+1, q = plus or minus a magnitude of the entry of
// gridIQ2_XS.
var formatIQ2_XS = (&grid{octets: octets(gridIQ2_XS[:], positiveIQ2), high: 1, read: readIQ2_XS}).compact(
	halvesIQ2, "iq2_xs", 74, 0)

func readIQ2_XS(block []byte, b *gridBlock) {
	b.d = le.Uint16(block)
	for k := range 32 {
		v := le.Uint16(block[2+2*k:])
		b.entry[k], b.signs[k] = v&511, parity(byte(v>>9))
	}
	b.scales(block[66:74])
}

// IQ2_XXS. A super-block of 256 weights takes 66 bytes: d binary16; 8 times 8 bytes, one per 32 weights: 4 entries, of
// 8 weights each, and 32 bits of signs and scale as in IQ3_XXS. f = 1/8, u = 2s+1, q = plus or minus a magnitude of the
// entry of gridIQ2_XXS.
var formatIQ2_XXS = (&grid{octets: octets(gridIQ2_XXS[:], positiveIQ2), read: readIQ2_XXS}).compact(
	tableIQ2, "iq2_xxs", 66, 0)

func readIQ2_XXS(block []byte, b *gridBlock) {
	b.d = le.Uint16(block)
	for g := range 8 {
		group := block[2+8*g:][:8]
		for k, e := range group[:4] {
			b.entry[4*g+k] = uint16(e)
		}
		b.signsAndScale(g, le.Uint32(group[4:]))
	}
}
