package asm

// valuesIQ1 are the values of IQ1: 8g+1 or 8g-1, for g of -1, 0, 1.
var valuesIQ1 = [16]int8{5: -9, 6: -7, 7: -1, 8: 1, 9: 7, 10: 9}

// entriesIQ1 are the nibbles of 8g+1; those of 8g-1 are one less.
var entriesIQ1 = octets(gridIQ1[:], [4]byte{6, 8, 10})

// IQ1_M. A super-block of 256 weights takes 56 bytes: 32 bytes with the low 8 bits of the entries of 32 groups of 8
// weights; 16 bytes of nibbles, one per group: 3 higher bits of the entry, then whether minus; 4 numbers of 16 bits:
// four scales s of 3 bits, of 16 weights each, and 4 bits of d binary16, the lowest first. f = 1/8, u = 2s+1,
// q = 8g plus or minus 1, g of the entry of gridIQ1.
var formatIQ1_M = func() format {
	g := &grid{octets: entriesIQ1, high: 3, minus: true, read: readIQ1_M}
	f := g.compact(table{values: valuesIQ1, f: 1. / 8, halves: true}, "iq1_m", 56)
	f.notFinite = notFiniteIQ1_M
	return f
}()

func readIQ1_M(block []byte, b *gridBlock) {
	b.d = scaleIQ1_M(block)
	for k, e := range block[:32] {
		v := block[32+k/2] >> (k % 2 * 4)
		b.entry[k], b.signs[k] = uint16(e)|uint16(v&7)<<8, v>>3&1
	}
	for i := range b.s {
		b.s[i] = byte(le.Uint16(block[48+i/4*2:])>>(i%4*3)) & 7
	}
}

// scaleIQ1_M is a block's d.
func scaleIQ1_M(block []byte) (d uint16) {
	for i := range 4 {
		d |= le.Uint16(block[48+2*i:]) >> 12 << (4 * i)
	}
	return d
}

// notFiniteIQ1_M looks at d.
func notFiniteIQ1_M(row []byte) int {
	for b := 0; b < len(row)/56; b++ {
		if scaleIQ1_M(row[b*56:][:56])&0x7c00 == 0x7c00 {
			return b
		}
	}
	return -1
}

// IQ1_S. A super-block of 256 weights takes 50 bytes: d binary16; 32 bytes with the low 8 bits of the entries of 32
// groups of 8 weights; 8 numbers of 16 bits, one per 32 weights: four times 3 higher bits of an entry, the scale s of 3
// bits, whether minus. f = 1/8, u = 2s+1, q = 8g plus or minus 1, g of the entry of gridIQ1.
var formatIQ1_S = (&grid{octets: entriesIQ1, high: 3, minus: true, read: readIQ1_S}).compact(
	table{values: valuesIQ1, f: 1. / 8}, "iq1_s", 50, 0)

func readIQ1_S(block []byte, b *gridBlock) {
	b.d = le.Uint16(block)
	for g := range 8 {
		h := le.Uint16(block[34+2*g:])
		for k, e := range block[2+4*g:][:4] {
			b.entry[4*g+k], b.signs[4*g+k] = uint16(e)|h>>(3*k)&7<<8, byte(h>>15)
		}
		b.s[2*g] = byte(h>>12) & 7
		b.s[2*g+1] = b.s[2*g]
	}
}
