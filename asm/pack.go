package asm

import "encoding/binary"

var le = binary.LittleEndian

// Pack fills a panel from the first rows rows of raw, GGUF's row-major bytes of the same format, f.RowBytes(cols) each.
// 1 <= rows <= 16; further rows become zero rows. cols is a multiple of f.BlockWeights(), len(panel) at least
// f.PanelBytes(cols). offset is the kernel set's.
func Pack(f Format, offset bool, panel, raw []byte, rows, cols int) {
	size := f.RowBytes(cols)
	panel = panel[:f.PanelBytes(cols)]
	clear(panel)
	for r := range PanelRows {
		var row []byte // nil for a zero row
		if r < rows {
			row = raw[r*size:][:size]
		}
		switch f {
		case F32:
			for k := 0; k < len(row)/4; k++ {
				le.PutUint32(panel[(k*PanelRows+r)*4:], le.Uint32(row[4*k:]))
			}
		case F16, BF16:
			for k := 0; k < len(row)/2; k++ {
				le.PutUint16(panel[(k*PanelRows+r)*2:], le.Uint16(row[2*k:]))
			}
		case Q8_0:
			packQ8_0(panel, row, r, cols, offset)
		case Q4_0:
			packQ4_0(panel, row, r, cols)
		case Q4_K:
			packQ4_K(panel, row, r)
		case Q6_K:
			packQ6_K(panel, row, r, cols)
		}
	}
}

func packQ8_0(panel, row []byte, r, cols int, offset bool) {
	var flip uint32
	if offset {
		flip = 0x80808080
	}
	nb := cols / 32
	scales := panel[nb*512:]
	for b := range nb {
		quants := panel[b*512+4*r:]
		if row == nil {
			for g := range 8 {
				le.PutUint32(quants[g*64:], flip)
			}
			continue
		}
		block := row[b*34:][:34] // d, qs[32]
		for g := range 8 {
			le.PutUint32(quants[g*64:], le.Uint32(block[2+4*g:])^flip)
		}
		copy(scales[(b*PanelRows+r)*2:], block[:2])
	}
}

func packQ4_0(panel, row []byte, r, cols int) {
	nb := cols / 32
	scales := panel[nb*256:]
	for b := range nb {
		quants := panel[b*256+4*r:]
		if row == nil {
			for g := range 4 {
				le.PutUint32(quants[g*64:], 0x88888888)
			}
			continue
		}
		block := row[b*18:][:18] // d, qs[16]
		for g := range 4 {
			le.PutUint32(quants[g*64:], le.Uint32(block[2+4*g:]))
		}
		copy(scales[(b*PanelRows+r)*2:], block[:2])
	}
}

func packQ4_K(panel, row []byte, r int) {
	for b := 0; b < len(row)/144; b++ {
		block := row[b*144:][:144] // d, dmin, scales[12], qs[128]
		super := panel[b*q4kPanel:][:q4kPanel]
		for g := range 32 {
			le.PutUint32(super[g*64+4*r:], le.Uint32(block[16+4*g:]))
		}
		copy(super[2048+2*r:], block[0:2])
		copy(super[2080+2*r:], block[2:4])
		sc, mn := unpackScales(block[4:16])
		for i := range 8 {
			super[2112+16*i+r] = sc[i]
			super[2240+16*i+r] = mn[i]
		}
	}
}

// unpackScales reads the eight 6-bit scales and minimums of a Q4_K block.
func unpackScales(s []byte) (sc, mn [8]byte) {
	for i := range 4 {
		sc[i] = s[i] & 63
		mn[i] = s[i+4] & 63
		sc[i+4] = s[i+8]&15 | s[i]>>6<<4
		mn[i+4] = s[i+8]>>4 | s[i+4]>>6<<4
	}
	return sc, mn
}

func packQ6_K(panel, row []byte, r, cols int) {
	for b := range cols / SuperBlock {
		super := panel[b*q6kPanel:][:q6kPanel]
		low, high := super[4*r:], super[2048+4*r:]
		if row == nil {
			for g := range 16 {
				le.PutUint32(high[g*64:], 0xaaaaaaaa) // 2 in all high bits: q+32 = 32
			}
			continue
		}
		block := row[b*210:][:210] // ql[128], qh[64], scales[16], d
		for n := range 2 {         // halves of 128 weights: sub-blocks 4n .. 4n+3
			for g := range 8 {
				// GGUF pairs sub-blocks 0 and 2, 1 and 3 in a byte; here 0 and 1, 2 and 3.
				a, c := le.Uint32(block[64*n+4*g:]), le.Uint32(block[64*n+32+4*g:])
				le.PutUint32(low[(16*n+g)*64:], a&0x0f0f0f0f|c&0x0f0f0f0f<<4)
				le.PutUint32(low[(16*n+8+g)*64:], a>>4&0x0f0f0f0f|c&0xf0f0f0f0)
				le.PutUint32(high[(8*n+g)*64:], le.Uint32(block[128+32*n+4*g:]))
			}
		}
		for i := range 16 {
			super[3072+16*i+r] = block[192+i]
		}
		copy(super[3328+2*r:], block[208:210])
	}
}
