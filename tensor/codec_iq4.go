package tensor

import (
	"math"

	"github.com/specgo/spec/asm"
)

// tableIQ4 maps the nibbles of IQ4_NL and IQ4_XS to weights.
var tableIQ4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// IQ4_NL: a block of 32 weights is d binary16 and 16 bytes whose low nibbles are weights 0 … 15 and whose high
// nibbles are weights 16 … 31. A weight is d*tableIQ4[nibble].

func decodeIQ4_NL(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[32:], row[18:] {
		d := asm.FromF16(le.Uint16(row))
		for i, b := range row[2:18] {
			dst[i] = d * tableIQ4[b&15]
			dst[16+i] = d * tableIQ4[b>>4]
		}
	}
}

func encodeIQ4_NL(row []byte, x, importance []float32) error {
	return encodeBlocks(IQ4_NL, row, x, importance, blockIQ4_NL)
}

// blockIQ4_NL: x = d*tableIQ4[q].
func blockIQ4_NL(block []byte, x, importance []float32) (d float32) {
	if amax := greatest(x); amax >= maxK {
		return amax
	}
	var w [32]float32
	weigh(w[:], x, importance)
	d = fitTable(x, w[:])
	h := asm.ToF16(d)
	le.PutUint16(block, h)
	nibblesIQ4(block[2:18], x, reciprocal(asm.FromF16(h)))
	return d
}

// fitTable finds the scale for x = scale*tableIQ4[q], of 32 numbers. The number of greatest magnitude is mapped near
// one end of the table or the other.
func fitTable(x, w []float32) (scale float32) {
	top := greatestSigned(x)
	if abs32(top) < minK {
		return 0
	}
	var u [32]float32
	least := float32(math.MaxFloat32)
	for _, end := range []float32{tableIQ4[0], tableIQ4[15]} {
		for step := range 17 {
			// The end is what the greatest magnitude becomes, or up to a fifth more or less before it is clipped.
			s := top / float32(end*(0.8+float32(0.025*float32(step))))
			lookUp(u[:], x, reciprocal(s))
			s = solveScale(x, w, u[:], s)
			lookUp(u[:], x, reciprocal(s))
			if e := rangeError(x, w, u[:], s, 0); e < least {
				least, scale = e, s
			}
		}
	}
	return scale
}

// nibblesIQ4 writes the nibbles of 32 numbers x*inverse.
func nibblesIQ4(dst []byte, x []float32, inverse float32) {
	for i := range 16 {
		dst[i] = byte(nearestIQ4(float32(x[i]*inverse)) | nearestIQ4(float32(x[16+i]*inverse))<<4)
	}
}

// lookUp sets q to the numbers of tableIQ4 nearest to x*inverse.
func lookUp(q, x []float32, inverse float32) {
	for i, v := range x {
		q[i] = tableIQ4[nearestIQ4(float32(v*inverse))]
	}
}

// nearestIQ4 is the index of the number of tableIQ4 nearest to v, the greater of two; of NaN it is 0. A product is
// rounded before it comes here: the compiler doubles v by an addition, which it would fuse.
func nearestIQ4(v float32) int {
	if !(v >= -lastHalf/2) {
		return 0
	}
	if v >= lastHalf/2 {
		return 15
	}
	below := int32(2 * v) // rounded to zero
	if float32(below) > 2*v {
		below--
	}
	return int(nearestHalves[lastHalf+below])
}

const lastHalf = 254 // no number of tableIQ4 has a greater magnitude than 127

// nearestHalves is, for each whole number from -lastHalf, the index of the number of tableIQ4 nearest to what lies
// between its half and that of the next: the middle of two numbers of the table is such a half.
var nearestHalves = func() (index [2*lastHalf + 1]uint8) {
	for i := range index {
		half := float32(i-lastHalf) / 2
		for j := 1; j < len(tableIQ4) && half >= (tableIQ4[j-1]+tableIQ4[j])/2; j++ {
			index[i] = uint8(j)
		}
	}
	return index
}()

// IQ4_XS: a super-block of 256 weights is d binary16, 16 bits with the high 2 bits of 8 scales, 4 bytes with their
// low 4 bits, and 8 sub-blocks of 16 bytes, nibbles as in IQ4_NL. A weight is (d*(scale-32))*tableIQ4[nibble].

func decodeIQ4_XS(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[136:] {
		d, high, low := asm.FromF16(le.Uint16(row)), le.Uint16(row[2:]), row[4:8]
		for j := range 8 {
			s := d * float32(int(low[j/2]>>(j%2*4)&15|byte(high>>(2*j)&3<<4))-32)
			for i, b := range row[8+16*j:][:16] {
				dst[32*j+i] = s * tableIQ4[b&15]
				dst[32*j+16+i] = s * tableIQ4[b>>4]
			}
		}
	}
}

func encodeIQ4_XS(row []byte, x, importance []float32) error {
	return encodeBlocks(IQ4_XS, row, x, importance, blockIQ4_XS)
}

// blockIQ4_XS: x = d*scale*tableIQ4[q] with, for each 32 numbers, scale in -32 … 31.
func blockIQ4_XS(block []byte, x, importance []float32) (d float32) {
	if amax := greatest(x); amax >= maxK {
		return amax
	}
	var (
		scales  [8]float32
		weights [256]float32
		u       [32]float32
	)
	for j := range scales {
		sub, w := x[32*j:][:32], weights[32*j:][:32]
		weigh(w, sub, part(importance, 32*j, 32))
		scales[j] = fitTable(sub, w)
	}
	top := greatestSigned(scales[:])
	h := asm.ToF16(0 - float32(top/32)) // so that the greatest uses all of its bits; never -0
	d = asm.FromF16(h)
	if abs32(d) > math.MaxFloat32 {
		return top / 32
	}
	clear(block)
	le.PutUint16(block, h)
	high := uint16(0)
	for j := range scales {
		sub, w := x[32*j:][:32], weights[32*j:][:32]
		least, best := float32(math.MaxFloat32), 0
		for _, s := range neighbors(nearest(scales[j], d), -32, 31) {
			scale := float32(d * float32(s))
			lookUp(u[:], sub, reciprocal(scale))
			if e := rangeError(sub, w, u[:], scale, 0); e < least {
				least, best = e, s
			}
		}
		ls := byte(best + 32)
		block[4+j/2] |= ls & 15 << (j % 2 * 4)
		high |= uint16(ls>>4) << (2 * j)
		nibblesIQ4(block[8+16*j:][:16], sub, reciprocal(d*float32(best)))
	}
	le.PutUint16(block[2:], high)
	return d
}
