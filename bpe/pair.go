package bpe

// PairOptions says how [Tokenizer.EncodePair] puts two texts together.
type PairOptions struct {
	// Limit is the most ids to return, 0 for any number. More are cut off, from the end of the second text and
	// then of the first. Marks are never cut off, so that there may be more ids than Limit if it is less than them.
	Limit int
}

// EncodePair returns two texts as one sequence, as models take them that judge a
// document by a query: BOS, first, EOS, the separator, second, EOS, of which the
// vocabulary's flags say what is there ([Config].AddBOS, AddEOS and AddSEP). Without EOS
// the separator stands for it. Special tokens in the texts are not parsed. Token types,
// where a model has them, are 0 throughout, as in the reference engine.
func (t *Tokenizer) EncodePair(first, second string, o PairOptions) []int32 {
	a, b := t.Encode(first, EncodeOptions{}), t.Encode(second, EncodeOptions{})
	var front, end, between []int32
	if t.addBOS {
		front = []int32{t.bos}
	}
	if t.addEOS {
		end = []int32{t.eos}
		if t.eos < 0 {
			end[0] = t.sep
		}
	}
	if t.addSEP {
		between = []int32{t.sep}
	}
	marks := len(front) + len(between) + 2*len(end)
	if over := marks + len(a) + len(b) - o.Limit; o.Limit > 0 && over > 0 {
		cut := min(over, len(b))
		b = b[:len(b)-cut]
		a = a[:len(a)-min(over-cut, len(a))]
	}
	ids := make([]int32, 0, marks+len(a)+len(b))
	for _, part := range [][]int32{front, a, end, between, b, end} {
		ids = append(ids, part...)
	}
	return ids
}
