package asm

import (
	"encoding/binary"
	"math"
)

var le = binary.LittleEndian

// Pack fills a panel from the first rows rows of raw, GGUF's row-major bytes of the same format, f.RowBytes(cols) each.
// 1 <= rows <= 16; further rows become zero rows. cols is a multiple of f.BlockWeights(), len(panel) at least
// f.PanelBytes(cols). offset is the kernel set's.
func Pack(f Format, offset bool, panel, raw []byte, rows, cols int) {
	size, pack := f.RowBytes(cols), formats[f].pack
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
			pack(panel, row, r, from, to, offset)
		}
	}
}

// CopyRow copies row r of a panel of cols columns to row i of another one. r and i are less than PanelRows, both panels
// f.PanelBytes(cols) long, and packed with the same offset.
func CopyRow(f Format, to []byte, i int, panel []byte, r, cols int) {
	t := &formats[f]
	size := cols / t.blockWeights * t.panelBytes // without what fills the last 64 bytes
	for at := 0; at < size; {
		for _, s := range t.sections {
			for range s.n {
				if at >= size {
					return
				}
				copy(to[at+i*s.width:][:s.width], panel[at+r*s.width:][:s.width])
				at += PanelRows * s.width
			}
		}
	}
}

// ZeroRow makes row r of a panel, where nothing has been written yet, a zero row.
func ZeroRow(f Format, offset bool, panel []byte, r, cols int) {
	formats[f].pack(panel, nil, r, 0, cols, offset)
}

// packCols is how many columns of all rows are packed before the next ones, so that the cache lines of the panel,
// each of which holds weights of every row, stay in the first-level cache. It is a multiple of every type's
// BlockWeights.
const packCols = SuperBlock

// Row reads row r of a panel back as float32, exactly what the format says its weights are. cols is len(dst).
func Row(f Format, offset bool, panel []byte, r int, dst []float32) {
	formats[f].row(panel, r, dst, offset)
}

// column4 is the bytes from the first to the last of 4 groups of 4 weights of a row.
const column4 = 3*64 + 4

// put4 writes 16 bytes of a row to their places in a panel, 4 each, 64 bytes apart.
func put4(panel *[column4]byte, row *[16]byte, flip uint32) {
	le.PutUint32(panel[0:], le.Uint32(row[0:])^flip)
	le.PutUint32(panel[64:], le.Uint32(row[4:])^flip)
	le.PutUint32(panel[128:], le.Uint32(row[8:])^flip)
	le.PutUint32(panel[192:], le.Uint32(row[12:])^flip)
}

// pairedBlock says where the scales and the quants of block b begin in a panel of a type that stores blocks in pairs:
// the binary16 scales of both, [2][16 rows], then the quants of both, quantBytes each. So every section starts at a
// multiple of 64 bytes. An odd last block is the first half of a pair.
func pairedBlock(b, quantBytes int) (scales, quants int) {
	pair := b / 2 * 2 * (2*PanelRows + quantBytes)
	return pair + b%2*2*PanelRows, pair + 4*PanelRows + b%2*quantBytes
}

// putNibbles writes 16 bytes of a row, in the order of a Q4_0 block, to the nibbles of a panel's block. panel begins
// with the row's lane.
func putNibbles(panel, row []byte) { put4((*[column4]byte)(panel), (*[16]byte)(row), 0) }

// putHalves is putNibbles for 32 bytes of a row that have a block's weights, in order, in their low nibbles, or after
// a shift by 4.
func putHalves(panel, row []byte, shift int) {
	for h := range 4 {
		low, high := le.Uint32(row[4*h:])>>shift, le.Uint32(row[16+4*h:])>>shift
		le.PutUint32(panel[64*h:], low&0x0f0f0f0f|high&0x0f0f0f0f<<4)
	}
}

// putCrumbs puts the 2-bit weights of a block in their places: 32 bytes of a row have them, in order, at bit shift.
func putCrumbs(panel, row []byte, shift int) {
	for c := range 2 {
		var v uint32
		for i := range 4 {
			v |= le.Uint32(row[16*c+4*i:]) >> shift & 0x03030303 << (2 * i)
		}
		le.PutUint32(panel[64*c:], v)
	}
}

// putBits puts one bit of each weight of a block in its place: 32 bytes of a row have them, in order, at bit shift.
func putBits(panel, row []byte, shift int) {
	var v uint32
	for g := range 8 {
		v |= le.Uint32(row[4*g:]) >> shift & 0x01010101 << ((g + 4) % 8)
	}
	le.PutUint32(panel, v)
}

// putBits32 is putBits of 32 bits, the first weight's the lowest.
func putBits32(panel []byte, bits uint32) {
	var v uint32
	for g := range 8 {
		v |= bits >> (4 * g) & 15 * 0x204081 & 0x01010101 << ((g + 4) % 8) // bit j to bit 0 of byte j
	}
	le.PutUint32(panel, v)
}

// exponents is the index of the first number of a row that is NaN or infinite (all bits of its exponent set), or -1;
// a number has size bytes. mask has the exponents of the numbers in 64 bits, ones their lowest bits: adding these
// carries into the sign bits.
func exponents(row []byte, size int, mask, ones uint64) int {
	at := 0
	for ; len(row)-at >= 8; at += 8 {
		if ((le.Uint64(row[at:])&mask)+ones)&^mask != 0 {
			break
		}
	}
	for ; at < len(row); at += size {
		if size == 4 && uint64(le.Uint32(row[at:]))&mask == mask&math.MaxUint32 ||
			size == 2 && uint64(le.Uint16(row[at:]))&mask == mask&math.MaxUint16 {
			return at / size
		}
	}
	return -1
}
