package asm

// Tile holds the activations of up to [TileTokens] tokens in the layouts that kernels read: quantized for integer
// weights, float32 for float weights. Both forms may be present. The stride of tokens is Tokens, not TileTokens: a
// tile has no padding.
type Tile struct {
	Tokens, Cols int

	Q []int8    // [block][token][32] quants
	D []float32 // [block][token] scale dx

	// Sums of quants; a type takes one of the three. Where weights are stored as w+offset, the sum of products starts at
	// -offset times the sum of quants. So Bias and Half are stored times the greatest offset; for a smaller one they are
	// shifted right.
	Bias []int32   // [block][token] -128*sum of q; >>3 gives -16*sum, >>4 -8*sum
	DSum []float32 // [block][token] dx*float32(sum), for types with a minimum per 32 weights
	// [block][token][2] -32*sum of q 0..15 and of q 16..31, for types with a scale per 16 weights; >>3 gives -4*sum
	Half []int32

	Words []int16 // [block][token][8 groups] quants x0 x2 x1 x3 of every 4; form TileWords, as Cross
	Cross []int32 // [block][token]     sum of -x0*x1 over all pairs of neighbors

	// Form TileLanes: two numbers of 16 bits, of the quants k with k%4 < 2 and, in the upper bits, of the others.
	LaneBias []int32 // [block][token]    -16*sum
	LaneHalf []int32 // [block][token][2] -32*sum of q 0..15, and of q 16..31

	F []float32 // [k][token] float32 activations
}

// TileForm is what a MatMulTiles reads of a quantized tile. [Kernels].Forms makes it of the quants.
type TileForm int

// The forms.
const (
	TileQuants TileForm = iota // what Quantize fills, and no more
	TileWords                  // Words and Cross
	TileLanes                  // LaneBias and LaneHalf
	TileForms                  // how many there are
)

// ResizeQuantized makes room for the quantized form; MatrixKernels.Quantize fills it token by token. cols is a
// multiple of 32. Memory is reused when it suffices.
func (x *Tile) ResizeQuantized(tokens, cols int) {
	x.Tokens, x.Cols = tokens, cols
	n := cols / BlockSize * tokens
	x.Q = resize(x.Q, n*BlockSize)
	x.D = resize(x.D, n)
	x.Bias = resize(x.Bias, n)
	x.DSum = resize(x.DSum, n)
	x.Half = resize(x.Half, 2*n)
}

// ResizeFloat makes room for the float32 form, which is the transpose of the tokens' activations.
func (x *Tile) ResizeFloat(tokens, cols int) {
	x.Tokens, x.Cols = tokens, cols
	x.F = resize(x.F, cols*tokens)
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// tilesBytes is the size of the buffer of the MatMulTiles of AVX2: expandedBlocks of Q8_0, which takes most, and the
// float32 sums of a panel, 16 KB.
const (
	expandedBytes = expandedBlocks * (1024 + 128)
	tilesBytes    = expandedBytes + MostTokens*PanelRows*4
)

// expandedBlocks is how many blocks of a panel are expanded at once: those of a super-block, whose expanded form fits
// the L1 cache.
const expandedBlocks = SuperBlock / BlockSize
