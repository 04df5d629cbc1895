package speculative

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/specgo/spec/engine"
)

// Intersect drafts with a model of another vocabulary, in the tokens that both have: token-level intersection (Timor
// et al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous
// Vocabularies"). The draft's distribution is restricted to the shared tokens, mapped to the target's ids and
// renormalized. It can be sampled from and compared with p like any q; it also works at temperature 0 and with the
// noise that [Match] shares.
//
// Shared are tokens that stand for the same bytes, and the end-of-text token.
func Intersect(seq Sequence, t Tokenizers) Drafter {
	return &intersect{crossVocab: newCrossVocab(seq, t)}
}

type intersect struct {
	crossVocab
	picker
	shared  []sharedToken
	toDraft []int32   // [target id] the draft's id, -1 where there is none
	row     []float32 // [target id] logits; -Inf where there is no shared token
}

// sharedToken is a token that both vocabularies have.
type sharedToken struct{ target, draft int32 }

func (x *intersect) Start(ctx context.Context, s Setup) error {
	if err := x.picker.start(s); err != nil {
		return err
	}
	if err := x.crossVocab.start(ctx, s); err != nil {
		return err
	}
	if len(x.row) != s.Vocab { // the first text
		x.matchTokens(s.Vocab)
	}
	if len(x.shared) == 0 {
		return fmt.Errorf("draft model: %w: it has none in common with the target", engine.ErrVocabulary)
	}
	return nil
}

// matchTokens finds the shared tokens of a target of vocab ids.
func (x *intersect) matchTokens(vocab int) {
	x.shared = sharedTokens(x.target, x.draft, vocab)
	x.row, x.toDraft = make([]float32, vocab), make([]int32, vocab)
	for id := range x.row {
		x.row[id], x.toDraft[id] = float32(math.Inf(-1)), -1
	}
	for _, c := range x.shared {
		x.toDraft[c.target] = c.draft
	}
}

func (x *intersect) Draft(ctx context.Context, sequence []int32, d *Draft) error {
	if !d.More() {
		return nil
	}
	if err := x.follow(sequence); err != nil {
		return err
	}
	for d.More() {
		row, ok, err := x.next(ctx, d)
		if !ok || err != nil {
			return err
		}
		x.mapLogits(row)
		id, q := x.pick(x.row, sequence, d)
		if id < 0 {
			return nil
		}
		own := x.toDraft[id]
		if own < 0 {
			return nil // not shared: nothing else is allowed
		}
		d.Add(id, x.confidence(row, own), q)
		x.extend(own)
		sequence = append(sequence, id)
	}
	return nil
}

// mapLogits copies the logits of shared tokens to the target's ids.
func (x *intersect) mapLogits(row []float32) {
	for _, c := range x.shared {
		x.row[c.target] = row[c.draft]
	}
}

// sharedTokens lists the tokens that two vocabularies have in common; of the target's only ids below vocab count.
func sharedTokens(target, draft pieces, vocab int) (all []sharedToken) {
	other := draft.idsByText()
	for text, id := range target.idsByText() {
		if own, ok := other[text]; ok && int(id) < vocab {
			all = append(all, sharedToken{id, own})
		}
	}
	if t, d := target.EOS(), draft.EOS(); t >= 0 && d >= 0 && int(t) < vocab && target.Piece(t) == "" &&
		draft.Piece(d) == "" {
		all = append(all, sharedToken{t, d})
	}
	return all
}

// idsByText maps bytes to a token. Where several tokens have the same bytes, it is the first that is not one of the
// single-byte tokens, such as <0x41>, that a SentencePiece vocabulary falls back to.
func (w pieces) idsByText() map[string]int32 {
	last := func(id int32) bool {
		return len(w.Piece(id)) == 1 && strings.HasPrefix(w.Token(id), "<0x")
	}
	all := make(map[string]int32, w.Size())
	for id := range int32(w.Size()) {
		text := w.Piece(id)
		if old, ok := all[text]; text != "" && (!ok || last(old) && !last(id)) {
			all[text] = id
		}
	}
	return all
}

func (x *intersect) Observe(*Round) {}
