package asm

// Sizes every kernel is built around.
const (
	PanelRows  = 16  // output rows in a panel: a lane of a vector register is a row
	BlockSize  = 32  // weights per quantization block
	SuperBlock = 256 // weights per super-block of the K formats
	TileTokens = 8   // most tokens in a Tile
	Page       = 256 // positions in a page of the KV cache and in a chunk of attention
)

// Format is a weight type: how weights are stored in a GGUF row and in a panel. The names are GGUF's; the order of
// bytes in a panel is this package's own.
//
// A panel holds [PanelRows] rows of cols weights, little endian, and takes a multiple of 64 bytes. Everything that
// differs between types is one entry of the table formats and one file, format_<type>.go, which describes the block
// and the panel, packs a row, reads it back, and multiplies in plain Go: that loop is the numeric specification of
// the type.
//
// Rows past the end of a matrix are zero rows, whose products are 0.
//
// The panels of most integer types are built of the same parts, for a block or sub-block of 32 weights of 16 rows, so
// that a kernel is composed of parts, too. Lane r of a vector of 32-bit lanes is row r; its 4 bytes are 4 weights
// side by side in the row, a group. Groups 0 … 3 are weights 0 … 15, groups 4 … 7 weights 16 … 31:
//
//	bytes    [8 groups][16 rows][4 weights], 512 bytes
//	nibbles  [4][16 rows][4 bytes], 256 bytes: byte j of vector h has weight j of group h in its low nibble and
//	         weight j of group 4+h in its high nibble
//	crumbs   [2][16 rows][4 bytes], 128 bytes: byte j of vector c has weight j of group 4c+i at bits 2i and 2i+1, i < 4
//	bits     [16 rows][4 bytes], 64 bytes: byte j has weight j of group g at bit (g+4)%8: groups 0 … 3 at bits 4 … 7, so
//	         that H>>g, and after H <<= 4 again H>>(g-4), has it at bit 4
//
// Types of few bits per weight have compact panels, about as large as the rows in their file.
// [WeightKernels].Inflate turns one into the panel that products take, which is as above.
//
// A row that ends within a larger unit of a panel (a pair or four blocks that share a section of scales) ends after
// the quants of its last block.
type Format uint8

// The formats, in the order of their bits per weight.
const (
	F32 Format = iota
	F16
	BF16
	Q8_0
	Q6_K
	Q5_1
	Q5_K
	Q5_0
	Q4_1
	Q4_K
	IQ4_NL
	Q4_0
	NVFP4
	IQ4_XS
	MXFP4
	Q3_K
	IQ3_S
	IQ3_XXS
	Q2_K
	IQ2_S
	IQ2_XS
	Q2_0
	IQ2_XXS
	TQ2_0
	IQ1_M
	TQ1_0
	IQ1_S
	Q1_0
	formatCount
)

var formats = [formatCount]format{
	F32:     formatF32,
	F16:     formatF16,
	BF16:    formatBF16,
	Q8_0:    formatQ8_0,
	Q6_K:    formatQ6_K,
	Q5_1:    formatQ5_1,
	Q5_K:    formatQ5_K,
	Q5_0:    formatQ5_0,
	Q4_1:    formatQ4_1,
	Q4_K:    formatQ4_K,
	IQ4_NL:  formatIQ4_NL,
	Q4_0:    formatQ4_0,
	NVFP4:   formatNVFP4,
	IQ4_XS:  formatIQ4_XS,
	MXFP4:   formatMXFP4,
	Q3_K:    formatQ3_K,
	IQ3_S:   formatIQ3_S,
	IQ3_XXS: formatIQ3_XXS,
	Q2_K:    formatQ2_K,
	IQ2_S:   formatIQ2_S,
	IQ2_XS:  formatIQ2_XS,
	Q2_0:    formatQ2_0,
	IQ2_XXS: formatIQ2_XXS,
	TQ2_0:   formatTQ2_0,
	IQ1_M:   formatIQ1_M,
	TQ1_0:   formatTQ1_0,
	IQ1_S:   formatIQ1_S,
	Q1_0:    formatQ1_0,
}

// format is everything that differs between weight types.
type format struct {
	name         string
	integer      bool // products take quantized activations
	blockWeights int  // weights per block of a GGUF row: 1, 32, 64, 128 or 256
	blockBytes   int  // bytes per block of a GGUF row
	panelBytes   int  // bytes per block of a panel, all sections together
	offset       bool // the panel's bytes depend on MatrixKernels.Offset
	sums         sums // which sums of a tile the products take, besides quants and scales

	// scales says where a block has its binary16 scales: if they are finite, so are its weights. Types without such scales
	// have notFinite, which looks at the weights of a row themselves.
	scales    []int
	notFinite func(row []byte) (block int)

	table *table // of types whose weights are indices of a table and share its panel; nil for others

	// inflate, of types whose panels are compact, writes the panel that products take, productBytes per block, of cols
	// columns; see WeightKernels.Inflate.
	inflate      func(dst, panel []byte, cols int)
	productBytes int

	// sections say how the bytes of rows lie in a panel, in a unit that repeats until its end.
	sections []section

	// pack writes row r of a panel, columns from to to, which are whole blocks. row is nil for a zero row.
	pack func(panel, row []byte, r, from, to int, offset bool)

	// row reads row r of a panel back as float32, exactly what the type says its weights are.
	row func(panel []byte, r int, dst []float32, offset bool)

	// matMul is the scalar product: the numeric specification, and what a kernel set without a kernel for the type uses.
	matMul MatMul
}

// section is part of a panel: n times [16 rows][width bytes]. What pads a panel is part of a section, too.
type section struct{ n, width int }

// sums says which sums of a tile's quants a product takes.
type sums uint8

const (
	noSums   sums = iota
	biasSums      // Tile.Bias: weights stored plus a power of two
	dSums         // Tile.DSum: types with a minimum
	halfSums      // Tile.Half: types with a scale per 16 weights
)

// Formats lists all formats, the one with the most bits per weight first.
func Formats() []Format {
	all := make([]Format, formatCount)
	for i := range all {
		all[i] = Format(i)
	}
	return all
}

// Valid reports whether f is one of the formats.
func (f Format) Valid() bool { return f < formatCount }

// String gives the format's usual name in lower case.
func (f Format) String() string {
	if !f.Valid() {
		return "unknown"
	}
	return formats[f].name
}

// Integer reports whether a product with weights of this format takes quantized activations.
func (f Format) Integer() bool { return formats[f].integer }

// Offset reports whether the bytes of a panel depend on [MatrixKernels].Offset.
func (f Format) Offset() bool { return formats[f].offset }

// BlockWeights is the number of weights in a block: a row's length is a multiple of it. 1, 32, 64, 128 or 256.
func (f Format) BlockWeights() int { return formats[f].blockWeights }

// BlockBytes is the size of a block in a GGUF row.
func (f Format) BlockBytes() int { return formats[f].blockBytes }

// RowBytes is the size of a GGUF row of cols weights.
func (f Format) RowBytes(cols int) int { return cols / formats[f].blockWeights * formats[f].blockBytes }

// PanelBytes is the size of a panel of 16 rows of cols weights, a multiple of 64.
func (f Format) PanelBytes(cols int) int {
	return align64(cols / formats[f].blockWeights * formats[f].panelBytes)
}

// ProductBytes is the size of a panel of 16 rows of cols weights as products take it, a multiple of 64: where a type's
// panels are compact, what [WeightKernels].Inflate writes; else PanelBytes.
func (f Format) ProductBytes(cols int) int {
	return align64(cols / formats[f].blockWeights * f.productBlock())
}

// productBlock is the bytes of ProductBytes of a block.
func (f Format) productBlock() int {
	if f.Compact() {
		return formats[f].productBytes
	}
	return formats[f].panelBytes
}

// Compact reports whether panels of this format are smaller than what products take.
func (f Format) Compact() bool { return formats[f].inflate != nil }

// Steps is the number of steps of a [MatMul] with cols columns, the unit of [Prefetch].Step: a step is a block of 32
// columns of integer weights, or one column of float weights.
func (f Format) Steps(cols int) int {
	if f.Integer() {
		return cols / BlockSize
	}
	return cols
}

// Scales lists the offsets of the binary16 scales in a block of a GGUF row. F32, F16, BF16 and MXFP4 have none.
func (f Format) Scales() []int { return append([]int(nil), formats[f].scales...) }

// NotFinite is the index of the first block of a GGUF row that has a weight which is NaN or infinite, or -1. The row's
// length is a multiple of f.BlockBytes().
func (f Format) NotFinite(row []byte) int {
	t := &formats[f]
	if t.notFinite != nil {
		return t.notFinite(row)
	}
	for b := 0; b*t.blockBytes < len(row); b++ {
		for _, at := range t.scales {
			if row[b*t.blockBytes+at+1]&0x7c == 0x7c {
				return b
			}
		}
	}
	return -1
}

func align64(n int) int { return (n + 63) &^ 63 }
