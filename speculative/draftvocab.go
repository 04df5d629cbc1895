package speculative

import (
	"cmp"
	"slices"

	"github.com/specgo/spec/bpe"
)

// DraftText is how many tokens of a text itself drafts may have beside those of a draft vocabulary, unless it is said.
const DraftText = 512

// DraftVocab lists, ascending, n tokens of a vocabulary that texts are likely to need, for [engine.DraftFormOptions].
// First come those that end texts, then the control and added tokens of conversations, which take at most half of the
// list; then those of texts, the most frequent first: counts has how often each is there, nil is no texts; then those
// of one or two bytes, and the others in the order of the vocabulary, in which the more frequent merges come earlier.
// It has all tokens where there are no more than n.
func DraftVocab(t *bpe.Tokenizer, n int, counts []uint64) []int32 {
	var ends, special, frequent, short, others []int32
	for id := range int32(t.Size()) {
		switch {
		case t.IsPadding(id):
		case t.IsEOG(id):
			ends = append(ends, id)
		case t.IsControl(id), t.IsUserDefined(id):
			special = append(special, id)
		case int(id) < len(counts) && counts[id] > 0:
			frequent = append(frequent, id)
		case len(t.Piece(id)) <= 2: // SentencePiece has characters last
			short = append(short, id)
		default:
			others = append(others, id)
		}
	}
	slices.SortStableFunc(frequent, func(a, b int32) int { return cmp.Compare(counts[b], counts[a]) })
	first := special[:min(len(special), max(n/2-len(ends), 0))]
	list := slices.Concat(ends, first, frequent, short, others, special[len(first):])
	list = list[:min(max(n, 1), len(list))]
	slices.Sort(list)
	return list
}
