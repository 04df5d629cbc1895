// Package recurrent keeps and moves the states of recurrent layers.
//
// A recurrent layer folds the text into a state of a fixed size, token by token: what a token adds cannot be taken
// out again. A session keeps, besides the state, copies of it at a few earlier points, and a journal of what the
// latest tokens gave the layers. From a point and the journal every state since the point is recomputed by the same
// steps, without the weights.
//
// A verification leaves the state where it is: of a tree, each node's path is walked from there. The next pass first
// takes the state by the journal's inputs of the tokens that were accepted, while it has the state in the cache
// anyway; Commit moves those of a tree's path together. A long chain moves the state on, and so does a draft's chain
// of single tokens; Truncate then makes the next pass begin at the nearest point.
package recurrent

import "github.com/specgo/spec/tensor"

// Recurrence is the recurrent part of a layer. Its units (heads, or groups of channels) do not depend on each other.
type Recurrence interface {
	shape() sizes
	// scan takes a unit by up to scanTokens tokens, of inputs in: it changes its state and writes its part of out
	// [tokens][output]. out may be nil: then only the state moves on.
	scan(t *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32, scratch *scanScratch)
}

const (
	inputParts = 3 // of a token's input, at most
	scanTokens = 8 // most tokens of a scan: kernels keep a head's state in the first caches over them
)

// tokenInput is a token's inputs of all units, in parts that come from different matrices.
type tokenInput [inputParts][]float32

// sizes is the sizes of a recurrence, in float32 numbers.
type sizes struct {
	units   int
	state   int             // of a unit; zeros before the first token
	inputs  [inputParts]int // of a token: what the journal keeps
	output  int             // of a token
	scratch int             // of a unit's scan
}

// input is the numbers of a token's input.
func (s sizes) input() int { return s.inputs[0] + s.inputs[1] + s.inputs[2] }

// scanScratch is the memory of a unit's scan.
type scanScratch struct {
	numbers []float32 // as many as the shape says
	in      [scanTokens]tokenInput
	path    []int32 // of a tree
	delta   tensor.DeltaTokens
	mamba   tensor.Mamba2Tokens
}

// convolved is the scratch memory of convolve.
func convolved(channels, taps int) int { return (taps - 1 + 2*scanTokens) * channels }

// shift puts a unit's channels of the tokens in, which gather appends, behind those of the tokens before, which
// history holds, and moves history on. It returns the rows of both [taps-1+tokens][channels], at the beginning of
// numbers, and the rest of numbers.
func (s *scanScratch) shift(in []tokenInput, gather func(dst, all []float32) []float32, history []float32,
	channels int) (x, rest []float32) {
	x = append(s.numbers[:0], history...)
	for i := range in {
		x = gather(x, in[i][0])
	}
	copy(history, x[len(in)*channels:])
	return x, s.numbers[len(x):]
}

// convolve is silu(conv(x) + bias) [tokens][channels] of shift's x.
func (s *scanScratch) convolve(t *tensor.Runtime, in []tokenInput, gather func(dst, all []float32) []float32, history,
	filters, bias []float32, channels int) (y, rest []float32) {
	x, rest := s.shift(in, gather, history, channels)
	y, rest = rest[:len(in)*channels], rest[len(in)*channels:]
	t.Conv(y, x, filters, channels)
	for i := 0; i < len(y) && bias != nil; i += channels {
		t.AddRow(y[i:i+channels], bias)
	}
	t.SiLU(y)
	return y, rest
}

// Layer is a layer of a model with a recurrence.
type Layer struct {
	Recurrence
	sizes
	At int // among all of the model's layers
}

// NewLayer is the model's layer at, with a recurrence.
func NewLayer(at int, r Recurrence) Layer { return Layer{r, r.shape(), at} }

// StateBytes is the memory of the layer's state.
func (l *Layer) StateBytes() int64 { return 4 * int64(l.units*l.state) }

// TokenBytes is the memory of a token in the layer's journal.
func (l *Layer) TokenBytes() int64 { return 4 * int64(l.input()) }
