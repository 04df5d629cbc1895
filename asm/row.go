package asm

import "math"

// Row reads row r of a panel back as float32, exactly what the format says its weights are. cols is len(dst).
func Row(f Format, offset bool, panel []byte, r int, dst []float32) {
	switch f {
	case F32:
		for k := range dst {
			dst[k] = math.Float32frombits(le.Uint32(panel[(k*PanelRows+r)*4:]))
		}
	case F16:
		for k := range dst {
			dst[k] = FromF16(le.Uint16(panel[(k*PanelRows+r)*2:]))
		}
	case BF16:
		for k := range dst {
			dst[k] = FromBF16(le.Uint16(panel[(k*PanelRows+r)*2:]))
		}
	case Q8_0:
		rowQ8_0(panel, r, dst, offset)
	case Q4_0:
		rowQ4_0(panel, r, dst)
	case Q4_K:
		rowQ4_K(panel, r, dst)
	case Q6_K:
		rowQ6_K(panel, r, dst)
	}
}

// rowQ8_0: dst = d*q.
func rowQ8_0(panel []byte, r int, dst []float32, offset bool) {
	var flip byte
	if offset {
		flip = 0x80
	}
	for b := range len(dst) / 32 {
		scales, quants := pairedBlock(b, 512)
		d := FromF16(le.Uint16(panel[scales+2*r:]))
		for k, out := 0, dst[b*32:][:32]; k < 32; k++ {
			q := int8(panel[quants+k/4*64+4*r+k%4] ^ flip)
			out[k] = d * float32(q)
		}
	}
}

// rowQ4_0: dst = d*q.
func rowQ4_0(panel []byte, r int, dst []float32) {
	for b := range len(dst) / 32 {
		scales, quants := pairedBlock(b, 256)
		d := FromF16(le.Uint16(panel[scales+2*r:]))
		for k, out := 0, dst[b*32:][:32]; k < 16; k++ {
			q := int(panel[quants+k/4*64+4*r+k%4])
			out[k] = d * float32(q&15-8)
			out[16+k] = d * float32(q>>4-8)
		}
	}
}

// rowQ4_K: dst = (d*sc)*q - dmin*m.
func rowQ4_K(panel []byte, r int, dst []float32) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*q4kPanel:][:q4kPanel]
		d, dmin := FromF16(le.Uint16(super[2048+2*r:])), FromF16(le.Uint16(super[2080+2*r:]))
		for i := range 8 {
			s := d * float32(super[2112+16*i+r])
			m := float32(dmin * float32(super[2240+16*i+r]))
			for k, out := 0, dst[b*SuperBlock+32*i:][:32]; k < 32; k++ {
				q := super[i/2*512+k/4*64+4*r+k%4] >> (i % 2 * 4) & 15
				out[k] = float32(s*float32(q)) - m
			}
		}
	}
}

// rowQ6_K: dst = (d*sc)*q.
func rowQ6_K(panel []byte, r int, dst []float32) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*q6kPanel:][:q6kPanel]
		d := FromF16(le.Uint16(super[3328+2*r:]))
		for i := range 16 {
			s := d * float32(int8(super[3072+16*i+r]))
			for k, out := 0, dst[b*SuperBlock+16*i:][:16]; k < 16; k++ {
				sub, w := i/2, i%2*16+k // sub-block of 32 and weight in it
				at := w/4*64 + 4*r + w%4
				low := super[sub/2*512+at] >> (sub % 2 * 4) & 15
				high := super[2048+sub/4*512+at] >> (sub % 4 * 2) & 3
				out[k] = s * float32(int(low|high<<4)-32)
			}
		}
	}
}
