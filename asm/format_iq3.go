package asm

// IQ3_S. A super-block of 256 weights takes 110 bytes: d binary16; 64 bytes with the low 8 bits of the entries of 64
// groups of 4 weights; 8 bytes with their ninth bits, of byte g those of groups 8g … 8g+7; 32 bytes of signs; 4 bytes
// of scales s, nibbles, one per 32 weights. u = 2s+1, q = plus or minus a magnitude of the entry of gridIQ3_S.
var formatIQ3_S = (&table{
	values: [16]int8{-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15}, read: readIQ3_S,
}).format("iq3_s", 110, 0)

func readIQ3_S(block []byte, b *tableBlock) {
	b.d = le.Uint16(block)
	low, high, signs := block[2:66], block[66:74], block[74:106]
	for k, e := range low {
		b.digits(4*k, 4, gridIQ3_S[int(e)|int(high[k/8]>>(k%8)&1)<<8], 3, 8)
	}
	for k, s := range signs {
		b.signs(8*k, s)
	}
	b.oddScales(block[106:110])
}

// IQ3_XXS. A super-block of 256 weights takes 98 bytes: d binary16; 64 bytes, the entries of 64 groups of 4 weights;
// 8 numbers of 32 bits, one per 32 weights: four times 7 signs, of 8 weights each, and the scale s. f = 1/2, u = 2s+1,
// q = plus or minus a magnitude of the entry of gridIQ3_XXS.
var formatIQ3_XXS = (&table{
	values: [16]int8{-31, -26, -22, -18, -14, -10, -6, -2, 2, 6, 10, 14, 18, 22, 26, 31}, f: 1. / 2, read: readIQ3_XXS,
}).format("iq3_xxs", 98, 0)

func readIQ3_XXS(block []byte, b *tableBlock) {
	b.d = le.Uint16(block)
	for k, e := range block[2:66] {
		b.digits(4*k, 4, gridIQ3_XXS[e], 3, 8)
	}
	for g := range 8 {
		b.signsAndScale(g, le.Uint32(block[66+4*g:]))
	}
}

// signsAndScale reads 32 weights' number of four times 7 signs and a scale.
func (b *tableBlock) signsAndScale(g int, v uint32) {
	for k := range 4 {
		b.signs(32*g+8*k, parity(byte(v>>(7*k))&127))
	}
	b.u[2*g] = oddScale(byte(v >> 28))
	b.u[2*g+1] = b.u[2*g]
}
