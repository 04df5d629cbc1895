package engine

// Rows says for which of a segment's positions the logits are wanted: None, Last, All, or a count
// n > 0 of positions at its end.
type Rows int

const (
	None Rows = 0  // no logits: prefill
	Last Rows = 1  // the last position's
	All  Rows = -1 // every position's
)

// Segment is the part of a [Batch] that belongs to one session: the tokens that follow its sequence.
type Segment struct {
	Session *Session
	Tokens  []int32

	// Parents makes the tokens a tree: Parents[i] is the index in Tokens of token i's parent,
	// less than i, or -1 where token i follows the session's sequence directly. nil is a chain.
	Parents []int32

	Logits Rows

	// Chunk says that the tokens are part of a longer prompt, so that [Model.Costs] counts them as such though they are
	// few: the last ones of a prompt, which was fed in several passes.
	Chunk bool

	// Hidden says for which positions hidden states are wanted, as Logits does for logits, and Layers of which layers: k
	// is the input of layer k, so 0 is the embeddings; the session's number of layers ([Session.Layers]) is the output
	// of the last one; [FinalNorm] is that after the final norm.
	Hidden Rows
	Layers []int

	// States are the hidden states that a draft head takes beside each token ([Model.TargetLayers]): if FromTarget is
	// set, the target's, one after the other; otherwise what the head itself computed for the token before, the output
	// of its last layer.
	States     []float32
	FromTarget bool
}

// Batch is what one pass over the weights computes. Its sessions are distinct and belong to one model.
type Batch []Segment

// Result is what a pass gives for one segment.
type Result struct {
	Logits Logits       // the rows that the segment asked for; none if Err is set
	Hidden HiddenStates // likewise

	// Err says why the segment failed: no room in the context, a token outside the vocabulary, activations that are not
	// finite. Its session has not moved. The other segments of the batch are not affected.
	Err error
}

// Logits are the rows that a segment asked for, in the order of its tokens.
type Logits struct {
	Vocab int       // length of a row
	Data  []float32 // [row][Vocab]
}

// Rows is the number of rows.
func (l Logits) Rows() int {
	if l.Vocab == 0 {
		return 0
	}
	return len(l.Data) / l.Vocab
}

// Row is the i-th row: one logit for each token of the vocabulary.
func (l Logits) Row(i int) []float32 { return l.Data[i*l.Vocab : (i+1)*l.Vocab : (i+1)*l.Vocab] }

// HiddenStates are the hidden states that a segment asked for, in the order of its tokens.
type HiddenStates struct {
	Size   int       // numbers of a hidden state: those of [Model.StateSize]
	Layers []int     // whose states they are: the segment's
	Data   []float32 // [row][layer][Size]
}

// Rows is the number of positions.
func (h HiddenStates) Rows() int {
	if len(h.Layers) == 0 {
		return 0
	}
	return len(h.Data) / (h.Size * len(h.Layers))
}

// Row is all states of the i-th position, in the order of Layers.
func (h HiddenStates) Row(i int) []float32 {
	n := h.Size * len(h.Layers)
	return h.Data[i*n : (i+1)*n : (i+1)*n]
}

// At is the state of the i-th position at Layers[j].
func (h HiddenStates) At(i, j int) []float32 {
	from := (i*len(h.Layers) + j) * h.Size
	return h.Data[from : from+h.Size : from+h.Size]
}

// FinalNorm in [Segment].Layers stands for the hidden states after the final norm, which the output matrix is
// multiplied with.
const FinalNorm = -1

const (
	// most rows (tokens) that go through the layers together, unless weights are read from disk; bounds the scratch
	// memory
	passRows = 256
	headRows = 64 // most rows that go through the output matrix together
)
