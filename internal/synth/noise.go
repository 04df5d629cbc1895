package synth

import (
	"encoding/binary"
	"io"
	"math"
	"strings"

	"github.com/specgo/spec/convert"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// pattern makes valid weights out of random bits: 64-bit words are masked, then single bytes of each block. A byte
// becomes b&and | or. All weights of all patterns are a few hundredths in size.
type pattern struct {
	and, or uint64
	block   int64 // bytes
	patches []patch
}

type patch struct {
	at      int
	and, or byte
}

// patterns are those of some types. In the masks of binary16 numbers the exponent's five bits begin at bit 10, which
// is bit 2 of the upper byte; a normal number 2^(e-15) has exponent e.
var patterns = map[gguf.Type]*pattern{
	gguf.F32:  {and: 0x80ffffff_80ffffff, or: 0x3c000000_3c000000}, // 2^-7 <= |w| < 2^-5
	gguf.F16:  {and: 0x87ff87ff_87ff87ff, or: 0x20002000_20002000}, // the same
	gguf.BF16: {and: 0x80ff80ff_80ff80ff, or: 0x3c003c00_3c003c00}, // the same
	// block_q8_0: scale, 32 quants. Scale 2^-13 to 2^-11.
	gguf.Q8_0: {and: ^uint64(0), block: 34, patches: []patch{{1, 0x07, 2 << 2}}},
	// block_q4_0: scale, 16 bytes of quants. Scale 2^-8 to 2^-7.
	gguf.Q4_0: {and: ^uint64(0), block: 18, patches: []patch{{1, 0x03, 7 << 2}}},
	// block_q4_K: scale of the scales 2^-13 to 2^-12, scale of the minimums 2^-10 to 2^-9, 12 bytes of both, quants.
	gguf.Q4_K: {and: ^uint64(0), block: 144, patches: []patch{{1, 0x03, 2 << 2}, {3, 0x03, 5 << 2}}},
	// block_q6_K: 192 bytes of quants, 16 scales, their scale 2^-14 to 2^-13: scales of 8 to 15, so that it is a normal
	// number.
	gguf.Q6_K: {and: ^uint64(0), block: 210, patches: q6kPatches()},
	// block_mxfp4: a power of two, 2^-8 or 2^-7 of numbers up to 12, and 16 bytes of quants.
	gguf.MXFP4: {and: ^uint64(0), block: 17, patches: []patch{{0, 0x01, 120}}},
	// block_iq1_m: the scale, 2^-8 to 2^-7, is the highest 4 bits of 4 numbers, the lowest first.
	gguf.IQ1_M: {and: ^uint64(0), block: 56, patches: []patch{{53, 0x3f, 0xc0}, {55, 0x0f, 0x10}}},
}

func q6kPatches() []patch {
	list := []patch{{209, 0x03, 1 << 2}}
	for i := range 16 {
		list = append(list, patch{192 + i, 0x07, 8})
	}
	return list
}

// patternOf is the pattern of a type that the engine runs. One that has no pattern of its own is random but for its
// binary16 scales: the first so large that the weights are a few hundredths in size, the second, which minimums have,
// so that they are about as often negative as positive.
func patternOf(typ gguf.Type) *pattern {
	if n := patterns[typ]; n != nil {
		return n
	}
	t, err := tensor.ParseType(strings.ToLower(typ.String()))
	if err != nil {
		panic(err) // mixtures have no other types
	}
	n := &pattern{and: ^uint64(0), block: int64(t.BlockBytes())}
	first, size := meanOf(t, 0)
	exponent := func(x float64) byte { return byte(min(max(0, math.Ilogb(x)+15), 30)) << 2 }
	const typical = 0.04
	for i, at := range t.Scales() {
		scale, sign := typical/size, byte(0)
		if i == 1 {
			second, _ := meanOf(t, 1)
			if scale *= math.Abs(first / second); first > 0 == (second > 0) {
				sign = 0x80
			}
		}
		n.patches = append(n.patches, patch{at + 1, 0x03, sign | exponent(scale)})
	}
	return n
}

// meanOf is the mean of random weights, and of their magnitudes, where one of the type's scales is 1 and the other 0.
func meanOf(t tensor.Type, which int) (mean, magnitude float64) {
	const blocks = 64
	noise := &pattern{and: ^uint64(0)}
	raw, x := make([]byte, blocks*t.BlockBytes()), make([]float32, blocks*t.BlockWeights())
	noise.fill(raw, 0, 1)
	for b := range blocks {
		for i, at := range t.Scales() {
			one := uint16(0)
			if i == which {
				one = 0x3c00
			}
			binary.LittleEndian.PutUint16(raw[b*t.BlockBytes()+at:], one)
		}
	}
	if err := tensor.Decode(t, x, raw); err != nil {
		panic(err) // the sizes are right
	}
	for _, v := range x {
		mean += float64(v) / float64(len(x))
		magnitude += math.Abs(float64(v)) / float64(len(x))
	}
	return mean, magnitude
}

// constant is a pattern of one number.
func constant(word uint32) *pattern {
	return &pattern{or: uint64(word)<<32 | uint64(word)}
}

var (
	ones      = constant(0x3f800000) // 1.0
	zeros     = constant(0)
	minusOnes = constant(0xbf800000)
)

// fill writes the bytes [at, at+len(p)) of an endless tensor.
func (n *pattern) fill(p []byte, at int64, seed uint64) {
	i := 0
	if r := at % 8; r != 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], n.word(at/8, seed))
		i = copy(p, word[r:])
	}
	k := (at + int64(i)) / 8
	for ; len(p)-i >= 8; i += 8 {
		binary.LittleEndian.PutUint64(p[i:], n.word(k, seed))
		k++
	}
	if i < len(p) {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], n.word(k, seed))
		copy(p[i:], word[:])
	}
	if n.block == 0 {
		return
	}
	for start := -(at % n.block); start < int64(len(p)); start += n.block {
		for _, m := range n.patches {
			if i := start + int64(m.at); i >= 0 && i < int64(len(p)) {
				p[i] = p[i]&m.and | m.or
			}
		}
	}
}

// word is the k-th word: a hash of k and seed (splitmix64, Steele et al. 2014), masked.
func (n *pattern) word(k int64, seed uint64) uint64 {
	z := seed + uint64(k+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return (z^z>>31)&n.and | n.or
}

// tensor makes a tensor of the pattern. Its name is the seed.
func (n *pattern) tensor(name string, typ gguf.Type, dims ...int) source {
	seed := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(name) {
		seed = (seed ^ uint64(c)) * 1099511628211
	}
	t := source{name: name, typ: typ, fill: func(p []byte, at int64) { n.fill(p, at, seed) }}
	for _, d := range dims {
		t.dims = append(t.dims, uint64(d))
	}
	return t
}

// Rows is random rows of weights of a type that the engine runs, as a GGUF file has them: at every place the same
// bytes.
func Rows(t tensor.Type) io.ReaderAt {
	return rows{patternOf(convert.FileType(t))}
}

type rows struct{ pattern *pattern }

func (r rows) ReadAt(p []byte, at int64) (int, error) {
	r.pattern.fill(p, at, 1)
	return len(p), nil
}
