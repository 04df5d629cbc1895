package asm

// Sizes every kernel is built around.
const (
	PanelRows  = 16  // output rows in a panel: a lane of a vector register is a row
	BlockSize  = 32  // weights per quantization block
	SuperBlock = 256 // weights per super-block of the K formats
	TileTokens = 8   // most tokens in a Tile
	Page       = 256 // positions in a page of the KV cache and in a chunk of attention
)

// Format says how the weights of a panel are stored. The names are GGUF's; the order of bytes in a panel is this package's.
//
// A panel holds [PanelRows] rows of cols weights, little endian. Its sections start at multiples of 64 bytes and so does its
// end. nb = cols/32, ns = cols/256:
//
//	F32       [cols][16 rows] float32
//	F16 BF16  [cols][16 rows] uint16
//	Q8_0      pairs of blocks: [2][16 rows] float16 scales, then [2][8 groups][16 rows][4 weights] int8; an odd last block
//	          is the first half of a pair. With offset (see Kernels.Offset) the quants lie as q^0x80, that is unsigned q+128.
//	Q4_0      the same of [2][4 groups][16 rows][4 bytes], byte j of group h: low nibble weight 4h+j, high nibble weight
//	          16+4h+j, each stored as q+8
//	Q4_K      ns super-blocks of 2368 bytes: [4 pairs][8 groups][16 rows][4 bytes], low nibble sub-block 2p, high nibble
//	          sub-block 2p+1, weight 4g+j of it; d [16] float16; dmin [16] float16; sc [8][16] uint8; mn [8][16] uint8.
//	          Weight (d*sc)*q - (dmin*mn).
//	Q6_K      ns super-blocks of 3392 bytes: low 4 bits as Q4_K (2048 bytes); high 2 bits [2][8 groups][16 rows][4 bytes],
//	          sub-block 4n+i at bits 2i (1024 bytes); sc [16][16] int8, one per 16 weights; d [16] float16; 32 bytes of padding.
//	          A weight is stored as q+32; its value is (d*sc)*q.
//
// Rows past the end of a matrix are zero rows: scales 0, quants the code of 0.
type Format uint8

// The formats.
const (
	F32 Format = iota
	F16
	BF16
	Q8_0
	Q4_0
	Q4_K
	Q6_K
	formatCount
)

var formats = [formatCount]struct {
	name         string
	integer      bool
	blockWeights int // weights per block of a GGUF row
	blockBytes   int // bytes per block of a GGUF row
	panelBytes   int // bytes per block of a panel, all sections together
}{
	F32:  {"f32", false, 1, 4, 64},
	F16:  {"f16", false, 1, 2, 32},
	BF16: {"bf16", false, 1, 2, 32},
	Q8_0: {"q8_0", true, 32, 34, 512 + 32},
	Q4_0: {"q4_0", true, 32, 18, 256 + 32},
	Q4_K: {"q4_k", true, 256, 144, q4kPanel},
	Q6_K: {"q6_k", true, 256, 210, q6kPanel},
}

const (
	q4kPanel = 2368
	q6kPanel = 3392
)

// Formats lists all formats.
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

// BlockWeights is the number of weights in a block: a row's length is a multiple of it. 1, 32 or 256.
func (f Format) BlockWeights() int { return formats[f].blockWeights }

// BlockBytes is the size of a block in a GGUF row.
func (f Format) BlockBytes() int { return formats[f].blockBytes }

// RowBytes is the size of a GGUF row of cols weights.
func (f Format) RowBytes(cols int) int { return cols / formats[f].blockWeights * formats[f].blockBytes }

// PanelBytes is the size of a panel of 16 rows of cols weights, a multiple of 64.
func (f Format) PanelBytes(cols int) int {
	return align64(cols / formats[f].blockWeights * formats[f].panelBytes)
}

// Steps is how many steps of a [MatMul] cols columns are: blocks of 32, or single columns of floating-point numbers.
func (f Format) Steps(cols int) int {
	if f.Integer() {
		return cols / BlockSize
	}
	return cols
}

// pairedBlock says where in a panel of Q8_0 or Q4_0 the scales and the quants of block b begin; quantBytes are those of a block.
func pairedBlock(b, quantBytes int) (scales, quants int) {
	pair := b / 2 * 2 * (2*PanelRows + quantBytes)
	return pair + b%2*2*PanelRows, pair + 4*PanelRows + b%2*quantBytes
}

func align64(n int) int { return (n + 63) &^ 63 }
