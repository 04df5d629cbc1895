package asm

// MatMul multiplies a panel with a tile: the type of [WeightKernels].MatMul, which has the contract.
type MatMul func(panel []byte, x *Tile, out []float32, stride int, prefetch Prefetch)

// MatMulTiles multiplies count consecutive panels with tiles that hold at most [MostTokens] tokens altogether: the
// products of panel p and token t are out[t*stride+p*PanelRows+r]. Every tile has [MatrixKernels].TilesTokens
// tokens; the last one may have fewer, but if a tile has more than TileTokens it is as large as the others, and what
// it holds beyond the tokens does not count. It expands a panel, some columns at a time, into buffer, which has
// TilesBytes and is not shared during the call. The prefetch is of each panel, as MatMul's.
type MatMulTiles func(panels []byte, count int, tiles []Tile, tokens int, out []float32, stride int, buffer []byte,
	prefetch Prefetch)

// MostTokens is the most tokens that a MatMulTiles multiplies at once.
const MostTokens = 256

// Prefetch is the range of weights that a [MatMul] prefetches, spread evenly over its work: Step bytes at each of its
// [Format.Steps]. The range begins From bytes after the beginning of the panel; it need not be mapped memory, and
// results do not depend on it. Scalar kernels ignore it; so do those for arm64, which prefetch their own panel at a
// fixed distance.
type Prefetch struct{ From, Step int }

// InflateDistance is how many bytes ahead [WeightKernels].Inflate of amd64 prefetches.
const InflateDistance = 4096

// FirstPass is how many of a tile's tokens MatMul multiplies in its first pass over a panel. The passes have about
// equally many.
func (k *Kernels) FirstPass(f Format, tokens int) int {
	if most := k.Weights[f].Pass; most > 0 {
		return part(tokens, most)
	}
	return tokens
}

// FloatTile is how many of so many tokens a tile of float32 activations has, but for the last one, which has the rest.
func (k *Kernels) FloatTile(tokens int) int {
	if k.Weights[F32].MatMulTiles == nil || tokens < k.Weights[F32].TilesFrom {
		return TileTokens
	}
	return part(tokens, k.FloatTokens)
}

// part is the size of the next part of n tokens, when n is divided into as few parts of at most most as suffice,
// about equal.
func part(n, most int) int {
	if n <= most {
		return n
	}
	parts := (n + most - 1) / most
	return (n + parts - 1) / parts
}

// Kernels is a kernel set: the kernels of one instruction set. It is a value, chosen once by [Select] and then only
// read. The scalar set is complete and is the specification; every other set is a copy of it with some fields
// replaced.
//
// "lanes" in their comments is the sum over 16 lanes of the package comment: element i in lane i mod 16. fma is [FMA].
// A slice that is written does not overlap one that is read, unless the comment says that they may be the same slice.
type Kernels struct {
	Name string // scalar avx2 avxvnni avx512 amx neon dotprod i8mm

	MatrixKernels
	NormKernels
	ElementKernels
	AttentionKernels
	RecurrentKernels
	ChoiceKernels
	MemoryKernels
}

// MatrixKernels multiply weights with activations.
type MatrixKernels struct {
	// Offset says that panels of Q8_0 hold unsigned quants (q^0x80), for instruction sets that multiply u8 x s8.
	Offset bool

	// Prefetches says that MatMul and MatMulPanels read their Prefetch.
	Prefetches bool

	// Weights are the products with each weight type.
	Weights [formatCount]WeightKernels

	// What MatMulTiles takes: tiles of TilesTokens tokens, and a buffer of TilesBytes. 0 if there is none. That of float
	// weights takes no buffer, and tiles of [Kernels.FloatTile] tokens.
	TilesTokens, TilesBytes int

	// FloatTokens is the most tokens of float32 activations that are multiplied in one pass over a panel; 0 if there is no
	// MatMulTiles of float weights.
	FloatTokens int

	// Forms[f], where it is not nil, fills form f of a quantized tile, which a MatMulTiles reads whose TilesForm it is.
	Forms [TileForms]func(x *Tile)

	// Quantize fills the quantized form of token t of a tile from x.Cols activations; see quantize.go. It returns false,
	// leaving the token undefined, if one of them is NaN or infinite.
	Quantize func(v []float32, x *Tile, t int) bool

	// EncodeQ4_0 is the function of that name.
	EncodeQ4_0 func(dst []byte, x []float32) bool
}

// WeightKernels are the products with one weight type.
type WeightKernels struct {
	// MatMul multiplies a panel with a tile: out[t*stride+r] = sum over k of w[r][k]*x[t][k] for t < x.Tokens, r < 16.
	// It overwrites out. stride >= 16. A compact panel is inflated before. The order of operations is that of the
	// format's scalar product, in format_<type>.go, which a set without a kernel for the format uses.
	MatMul MatMul

	// Inflate, where it is not nil, turns a compact panel of cols columns into the panel that MatMul takes, of
	// f.ProductBytes(cols) bytes: dst. It leaves out bytes of dst that are padding.
	Inflate func(dst, panel []byte, cols int)

	// MatMulCompact, where it is not nil, is MatMul for one token and a compact panel that is not inflated.
	MatMulCompact func(panel []byte, x *Tile, out []float32)

	// Pass is the most tokens that MatMul multiplies in one pass over a panel; 0: all tokens of a tile.
	Pass int

	// MatMulPair, where it is not nil, is MatMul for two consecutive panels and a tile of TileTokens tokens:
	// out[t*stride+r] and out[t*stride+PanelRows+r]. A load of an activation serves both panels, so it is faster than
	// MatMul where arithmetic is the limit; it reads two streams of weights.
	MatMulPair MatMul

	// MatMulPanels, where it is not nil, is MatMul for count consecutive panels and at most PanelsTokens tokens:
	// out[t*stride+p*PanelRows+r]. It is faster than MatMul where one panel's sums wait for each other. It prefetches
	// weights prefetch.From bytes before it multiplies them, the panels that it reads at once counted together.
	MatMulPanels func(panels []byte, count int, x *Tile, out []float32, stride int, prefetch Prefetch)
	PanelsTokens int

	// MatMulTiles, where it is not nil, multiplies panels with several tiles. It is faster than MatMul from TilesFrom
	// tokens on.
	MatMulTiles MatMulTiles
	TilesFrom   int
	TilesForm   TileForm
}

// NormKernels are sums of squares of a vector, and what divides by them.
type NormKernels struct {
	// SumSquares: for i: lane[i%16] = fma(x[i], x[i], lane[i%16]); sum of lanes.
	SumSquares func(x []float32) float32

	// RMSNorm: s = SumSquares(x)/n; inv = 1/sqrt(s+eps); dst[i] = (x[i]*inv)*w[i]. dst may be x.
	RMSNorm func(dst, x, w []float32, eps float32)

	// LayerNorm: mean = lanes(x)/n; var = (lanes of fma(x-mean, x-mean))/n; inv = 1/sqrt(var+eps);
	// dst[i] = fma((x[i]-mean)*inv, w[i], b[i]). dst may be x.
	LayerNorm func(dst, x, w, b []float32, eps float32)
}

// ElementKernels take vectors element by element.
type ElementKernels struct {
	// Add: dst[i] = dst[i] + x[i].
	Add func(dst, x []float32)

	// Blend: dst[i] = fma(dst[i], a, x[i]*b).
	Blend func(dst, x []float32, a, b float32)

	// Divide: x[i] = x[i] / d.
	Divide func(x []float32, d float32)

	// SiLUMul: dst[i] = (gate[i] / (1 + exp(-gate[i]))) * up[i]. dst may be gate or up.
	SiLUMul func(dst, gate, up []float32)

	// SigmoidMul: dst[i] = dst[i] * (1 / (1 + exp(-x[i]))).
	SigmoidMul func(dst, x []float32)

	// GELU: dst[i] = x / (1 + exp(x*fma(x*x, geluCubic, geluLinear))), the tanh form. dst may be x.
	GELU func(dst, x []float32)

	// GELUErf: a = |x|; dst[i] = fma(-a, UpperTail32(a), max(x, +0)), the exact form: x*(1+erf(x/sqrt(2)))/2. dst may be
	// x.
	GELUErf func(dst, x []float32)

	// Exp: dst[i] = Exp32(x[i]). dst may be x.
	Exp func(dst, x []float32)
}

// AttentionKernels rotate positions, and weight the values of a KV cache with the softmax of scores.
type AttentionKernels struct {
	// RopeInterleaved rotates one head x in place: pairs (2i, 2i+1); y0 = fma(x0, cos[i], -(x1*sin[i]));
	// y1 = fma(x1, cos[i], x0*sin[i]). len(cos) = len(sin) = len(x)/2.
	RopeInterleaved func(x, cos, sin []float32)

	// RopeHalves is RopeInterleaved with pairs (i, i+len(x)/2).
	RopeHalves func(x, cos, sin []float32)

	// ExpSum is the numerator and denominator of a softmax: m = the greatest s[i] that is not NaN, plus 0 (-Inf if there
	// is none); s[i] = Weight32(s[i]-m); l = lanes(s).
	ExpSum func(s []float32) (m, l float32)
	// ExpSums: for r < len(m): m[r], l[r] = ExpSum(s[r*stride:][:n]).
	ExpSums func(s []float32, stride, n int, m, l []float32)

	// KeyPage is StoreK with KVF32 for several keys of dim dimensions: position j of the page gets x[j*stride:][:dim], for
	// j < n.
	KeyPage func(page []byte, x []float32, stride, dim, n int)
	// ValuePage is StoreV likewise.
	ValuePage func(page []byte, x []float32, stride, dim, n int)

	// Scores: for r < rows, j < keys: s = 0; for d < dim: s = fma(q[d*rows+r], k[d][j], s); out[r*Page+j] = s*scale. q
	// is [dim][rows], k one page of K, out [rows][Page], keys <= Page. It may write out up to the next multiple of 16
	// keys. Meanwhile it prefetches ahead, at most about as many bytes as k has: what is read next, or nil.
	Scores [kvCount]func(out, q []float32, k []byte, dim, rows, keys int, scale float32, ahead []byte)

	// Values: for r < rows, d < dim, j = from .. to-1 ascending: o[r*dim+d] = fma(p[r*Page+j], v[j][d], o[r*dim+d]).
	// o is [rows][dim] and is added to, p is [rows][Page], v one page of V. ahead is as for Scores.
	Values [kvCount]func(o, p []float32, v []byte, dim, rows, from, to int, ahead []byte)

	// ValuesOfKeys makes the page of values, v, that has at positions j < n what a page of keys has of their first values
	// dimensions: the same numbers and scales. dim is that of keys, at least values. It may write v at later positions.
	ValuesOfKeys [kvCount]func(v, k []byte, dim, values, n int)
}

// RecurrentKernels go over time.
type RecurrentKernels struct {
	// Conv is a causal convolution over time with a filter for each channel: out[t][c] = sum over i of
	// w[i][c]*x[t+i][c], by fma from +0, i ascending. w is [taps][channels], out [tokens][channels], x
	// [taps-1+tokens][channels].
	Conv func(out, x, w []float32, channels int)

	// DeltaScan is the gated delta rule (Yang et al. 2024, arXiv:2412.06464) of one head, token by token:
	//
	//	u[j] = sum over i of k[i]*state[i][j]
	//	u[j] = (v[j] - u[j]*decay)*beta
	//	state[i][j] = fma(state[i][j], decay, u[j]*k[i])
	//	out[j] = (sum over i of q[i]*state[i][j])*scale
	//
	// Sums run by fma from +0, i ascending. state is [keys][values], in panels of 16 values ([values/16][keys][16]), of
	// which the last one is narrower if values is not a multiple of 16. out shares no memory with what is read.
	DeltaScan func(state []float32, keys, values int, x *DeltaTokens)

	// Mamba2Scan is the recurrence of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060) of one head, token by token; state as
	// in DeltaScan, transposed so that a lane is an element of x:
	//
	//	state[i][j] = fma(state[i][j], decay, (x[j]*step)*b[i])
	//	out[j] = fma(skip, x[j], sum over i of c[i]*state[i][j])
	Mamba2Scan func(state []float32, keys, values int, x *Mamba2Tokens)
}

// ChoiceKernels choose a token.
type ChoiceKernels struct {
	// ArgMax is the least index of the greatest element. NaN never wins; 0 if all are NaN.
	ArgMax func(x []float32) int

	// Gumbel: dst[i] = Noise(key, first+i).
	Gumbel func(dst []float32, first uint32, key uint64)

	// MaxHash is the greatest of the hashes from which Noise computes the noise of tokens first … first+n-1; 0 if n is
	// 0. [MostNoise] turns it into an upper bound of that noise, in a fraction of the time of Gumbel.
	MaxHash func(n int, first uint32, key uint64) uint32
}

// MemoryKernels convert, move and read numbers.
type MemoryKernels struct {
	// EncodeF16: dst[i] = binary16 of src[i], nearest even. len(dst) = len(src).
	EncodeF16 func(dst []uint16, src []float32)
	// DecodeF16: dst[i] = float32 of src[i], exact.
	DecodeF16 func(dst []float32, src []uint16)

	// Transpose makes columns of rows: dst[c*to+r] = src[r*from+c] for r < rows, c < cols. to >= rows, from >= cols. It
	// writes nothing else.
	Transpose func(dst []float32, to int, src []float32, from, rows, cols int)

	// Finite reports whether no element is NaN or infinite.
	Finite func(x []float32) bool

	// ReadSum is the sum of the little-endian 64-bit words of b, modulo 2^64, the last one padded with zeros. It serves
	// to measure memory bandwidth. If distance > 0, assembly prefetches what lies distance bytes after each read, also
	// past the end of b.
	ReadSum func(b []byte, distance int) uint64
}
