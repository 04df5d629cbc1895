package tensor

import (
	"encoding/binary"
	"math"

	"github.com/specgo/spec/asm"
)

// decode dequantizes a GGUF row of type t: raw holds t.RowBytes(len(dst)) bytes.
func decode(t Type, dst []float32, raw []byte) {
	le := binary.LittleEndian
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(raw[4*i:]))
		}
		return
	case F16:
		for i := range dst {
			dst[i] = asm.FromF16(le.Uint16(raw[2*i:]))
		}
		return
	case BF16:
		for i := range dst {
			dst[i] = asm.FromBF16(le.Uint16(raw[2*i:]))
		}
		return
	}
	weights, size := t.BlockWeights(), t.BlockBytes()
	for ; len(dst) > 0; dst, raw = dst[weights:], raw[size:] {
		switch t {
		case Q8_0:
			decodeQ8(dst[:32], raw[:34])
		case Q4_0:
			decodeQ4(dst[:32], raw[:18])
		case Q4_K:
			decodeQ4K(dst[:256], raw[:144])
		case Q6_K:
			decodeQ6K(dst[:256], raw[:210])
		}
	}
}

// decodeQ8: scale; 32 signed bytes.
func decodeQ8(dst []float32, block []byte) {
	d := asm.FromF16(binary.LittleEndian.Uint16(block))
	for i := range dst {
		dst[i] = d * float32(int8(block[2+i]))
	}
}

// decodeQ4: scale; 16 bytes whose low nibbles are weights 0 … 15 and whose high nibbles are weights 16 … 31, each plus 8.
func decodeQ4(dst []float32, block []byte) {
	d := asm.FromF16(binary.LittleEndian.Uint16(block))
	for i, b := range block[2:18] {
		dst[i] = d * float32(int(b&15)-8)
		dst[16+i] = d * float32(int(b>>4)-8)
	}
}

// decodeQ4K: scale of scales; scale of minima; 8 scales and 8 minima of 6 bits in 12 bytes; 4 x 32 bytes, each holding two
// runs of 32 weights, low nibbles first. The products are exact, the difference rounds once.
func decodeQ4K(dst []float32, block []byte) {
	d := asm.FromF16(binary.LittleEndian.Uint16(block))
	dmin := asm.FromF16(binary.LittleEndian.Uint16(block[2:]))
	packed, quants := block[4:16], block[16:]
	for sub := range 8 {
		var scale, minimum byte
		if sub < 4 {
			scale, minimum = packed[sub]&63, packed[sub+4]&63
		} else {
			scale = packed[sub+4]&15 | packed[sub-4]>>6<<4
			minimum = packed[sub+4]>>4 | packed[sub]>>6<<4
		}
		s, m := d*float32(scale), float32(dmin*float32(minimum))
		for i := range 32 {
			q := quants[sub/2*32+i] >> (sub % 2 * 4) & 15
			dst[sub*32+i] = float32(s*float32(q)) - m
		}
	}
}

// decodeQ6K: 128 bytes of low nibbles; 64 bytes of high pairs of bits; 16 signed scales; the scale of scales. A weight is
// stored plus 32.
func decodeQ6K(dst []float32, block []byte) {
	low, high, scales := block[:128], block[128:192], block[192:208]
	d := asm.FromF16(binary.LittleEndian.Uint16(block[208:]))
	for i := range dst {
		half, run, k := i/128, i/32%4, i%32 // each half of the block has four runs of 32
		l := low[half*64+run%2*32+k] >> (run / 2 * 4) & 15
		h := high[half*32+k] >> (run * 2) & 3
		s := float32(d * float32(int8(scales[i/16])))
		dst[i] = s * float32(int(l|h<<4)-32)
	}
}
