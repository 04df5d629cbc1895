package asm

import "math"

// ToF16 rounds to binary16, half to even; subnormals kept, overflow to Inf. NaN keeps its sign and upper payload,
// quiet.
func ToF16(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x477ff000: // 65520 and more
		return sign | 0x7c00
	case b < 0x38800000: // less than 2^-14: the sum's unit is the unit of binary16 subnormals, 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
	}
	return sign | uint16((b-0x38000000+0xfff+b>>13&1)>>13)
}

// FromF16 is exact; a NaN becomes quiet.
func FromF16(h uint16) float32 {
	b := uint32(h&0x7fff) << 13
	f := math.Float32frombits(b) * 0x1p112
	if b >= 0x0f800000 {
		f = math.Float32frombits(b | 0x7f800000 | (b&0x7fffff+0x7fffff)>>23<<22)
	}
	return math.Float32frombits(math.Float32bits(f) | uint32(h&0x8000)<<16)
}

// ToBF16 rounds to bfloat16, half to even. NaN keeps its sign and upper payload, quiet.
func ToBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromBF16 is exact.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

func encodeF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = ToF16(x)
	}
}

func decodeF16(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = FromF16(h)
	}
}
