package main

import (
	"context"
	"fmt"
	"math"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/speculative/lookup"
)

// draftVocab are the flags of the tokens that drafts may have.
type draftVocab struct {
	tokens int      // 0: all
	from   []string // texts whose tokens they are
}

// countedTexts is the most bytes of texts whose tokens are counted.
const countedTexts = 64 << 20

func (v *draftVocab) rows() []flag {
	return []flag{v.row(), v.fromRow()}
}

// row is --draft-vocab.
func (v *draftVocab) row() flag {
	return intFlag("--draft-vocab", &v.tokens, 0, math.MaxInt32, "draft models, draft heads and --drafter self draft so "+
		"many tokens of the vocabulary, the likely ones, and those of the text, and read no more of the output matrix").
		or("0: all")
}

// fromRow is --draft-vocab-from.
func (v *draftVocab) fromRow() flag {
	return listFlag("--draft-vocab-from", &v.from, "PATH", fmt.Sprintf("the likely tokens of --draft-vocab are those of "+
		"texts, of which the first %s are read: a file or folder of texts, or lines of JSON with answers; may be repeated",
		size(countedTexts))).or("the first ones of the vocabulary")
}

func (v *draftVocab) check() error {
	if v.tokens == 0 && len(v.from) > 0 {
		return usagef("--draft-vocab-from needs --draft-vocab N: of how many tokens drafts are")
	}
	return nil
}

// of lists the tokens, nil for all.
func (v *draftVocab) of(ctx context.Context, tok *bpe.Tokenizer) ([]int32, error) {
	if v.tokens == 0 || tok == nil {
		return nil, nil
	}
	var counts []uint64
	if len(v.from) > 0 {
		o := lookup.Options{Vocab: tok.Size(), Encode: func(text string) []int32 {
			return tok.Encode(text, bpe.EncodeOptions{})
		}}
		var err error
		if counts, err = lookup.Count(ctx, v.from, o, countedTexts); err != nil {
			return nil, fmt.Errorf("--draft-vocab-from: %w", err)
		}
	}
	return speculative.DraftVocab(tok, v.tokens, counts), nil
}
