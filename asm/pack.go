package asm

import "encoding/binary"

var le = binary.LittleEndian

// Pack fills a panel from the first rows rows of raw, GGUF's row-major bytes of the same format, f.RowBytes(cols) each.
// 1 <= rows <= 16; further rows become zero rows. cols is a multiple of f.BlockWeights(), len(panel) at least
// f.PanelBytes(cols). offset is the kernel set's.
func Pack(f Format, offset bool, panel, raw []byte, rows, cols int) {
	size := f.RowBytes(cols)
	panel = panel[:f.PanelBytes(cols)]
	if rows < PanelRows {
		clear(panel)
	}
	for from := 0; from < cols; from += packCols {
		to := min(from+packCols, cols)
		for r := range PanelRows {
			var row []byte // nil for a zero row
			if r < rows {
				row = raw[r*size:][:size]
			}
			switch f {
			case F32:
				for k := from; k < to && row != nil; k++ {
					le.PutUint32(panel[(k*PanelRows+r)*4:], le.Uint32(row[4*k:]))
				}
			case F16, BF16:
				for k := from; k < to && row != nil; k++ {
					le.PutUint16(panel[(k*PanelRows+r)*2:], le.Uint16(row[2*k:]))
				}
			case Q8_0:
				packQ8_0(panel, row, r, from, to, offset)
			case Q4_0:
				packQ4_0(panel, row, r, from, to)
			case Q4_K:
				packQ4_K(panel, row, r, from, to)
			case Q6_K:
				packQ6_K(panel, row, r, from, to)
			}
		}
	}
}

// packCols is how many columns are packed of all rows before the next ones, so that the panel's lines, each of which holds a bit
// of every row, stay in the first cache meanwhile.
const packCols = SuperBlock

// column4 is from the first to the last of 4 groups of 4 weights of a row.
const column4 = 3*64 + 4

// put4 puts 16 bytes of a row in their places, 64 bytes apart.
func put4(panel *[column4]byte, row *[16]byte, flip uint32) {
	le.PutUint32(panel[0:], le.Uint32(row[0:])^flip)
	le.PutUint32(panel[64:], le.Uint32(row[4:])^flip)
	le.PutUint32(panel[128:], le.Uint32(row[8:])^flip)
	le.PutUint32(panel[192:], le.Uint32(row[12:])^flip)
}

func packQ8_0(panel, row []byte, r, from, to int, offset bool) {
	var flip uint32
	if offset {
		flip = 0x80808080
	}
	for b := from / BlockSize; b < to/BlockSize; b++ {
		scales, at := pairedBlock(b, 512)
		quants := panel[at+4*r:]
		if row == nil {
			for g := range 8 {
				le.PutUint32(quants[g*64:], flip)
			}
			continue
		}
		block := (*[34]byte)(row[b*34:]) // d, qs[32]
		put4((*[column4]byte)(quants), (*[16]byte)(block[2:]), flip)
		put4((*[column4]byte)(quants[256:]), (*[16]byte)(block[18:]), flip)
		le.PutUint16(panel[scales+2*r:], le.Uint16(block[:]))
	}
}

func packQ4_0(panel, row []byte, r, from, to int) {
	for b := from / BlockSize; b < to/BlockSize; b++ {
		scales, at := pairedBlock(b, 256)
		quants := panel[at+4*r:]
		if row == nil {
			for g := range 4 {
				le.PutUint32(quants[g*64:], 0x88888888)
			}
			continue
		}
		block := row[b*18:][:18] // d, qs[16]
		put4((*[column4]byte)(quants), (*[16]byte)(block[2:]), 0)
		le.PutUint16(panel[scales+2*r:], le.Uint16(block))
	}
}

func packQ4_K(panel, row []byte, r, from, to int) {
	for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
		block := row[b*144:][:144] // d, dmin, scales[12], qs[128]
		super := panel[b*q4kPanel:][:q4kPanel]
		for g := 0; g < 32; g += 4 {
			put4((*[column4]byte)(super[g*64+4*r:]), (*[16]byte)(block[16+4*g:]), 0)
		}
		le.PutUint16(super[2048+2*r:], le.Uint16(block[0:]))
		le.PutUint16(super[2080+2*r:], le.Uint16(block[2:]))
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

func packQ6_K(panel, row []byte, r, from, to int) {
	for b := from / SuperBlock; b < to/SuperBlock; b++ {
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
		le.PutUint16(super[3328+2*r:], le.Uint16(block[208:]))
	}
}
