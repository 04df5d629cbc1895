package asm

// positiveIQ3 are the nibbles of the magnitudes of IQ3.
var positiveIQ3 = [8]byte{8, 9, 10, 11, 12, 13, 14, 15}

// IQ3_S. A super-block of 256 weights takes 110 bytes: d binary16; 64 bytes with the low 8 bits of the entries of 64
// groups of 4 weights; 8 bytes with their ninth bits, of byte g those of groups 8g … 8g+7; 32 bytes of signs; 4 bytes
// of scales s, nibbles, one per 32 weights. u = 2s+1, q = plus or minus a magnitude of the entry of gridIQ3_S.
//
// A panel has the form that products take, 1.27 times the rows' size.
var formatIQ3_S = (&grid{quads: quads(gridIQ3_S[:], positiveIQ3), read: readIQ3_S}).expanded(
	table{values: [16]int8{-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15}}, "iq3_s", 110, 0)

func readIQ3_S(block []byte, b *gridBlock) {
	b.d = le.Uint16(block)
	copy(b.signs[:], block[74:106])
	for k, e := range block[2:66] {
		b.entry[k] = uint16(e) | uint16(block[66+k/8]>>(k%8)&1)<<8
	}
	b.scales(block[106:110])
}

// IQ3_XXS. A super-block of 256 weights takes 98 bytes: d binary16; 64 bytes, the entries of 64 groups of 4 weights;
// 8 numbers of 32 bits, one per 32 weights: four times 7 signs, of 8 weights each, and the scale s. f = 1/2, u = 2s+1,
// q = plus or minus a magnitude of the entry of gridIQ3_XXS.
var formatIQ3_XXS = (&grid{quads: quads(gridIQ3_XXS[:], positiveIQ3), read: readIQ3_XXS}).compact(
	table{values: [16]int8{-31, -26, -22, -18, -14, -10, -6, -2, 2, 6, 10, 14, 18, 22, 26, 31}, f: 1. / 2},
	"iq3_xxs", 98, 0)

func readIQ3_XXS(block []byte, b *gridBlock) {
	b.d = le.Uint16(block)
	for k, e := range block[2:66] {
		b.entry[k] = uint16(e)
	}
	for g := range 8 {
		b.signsAndScale(g, le.Uint32(block[66+4*g:]))
	}
}
