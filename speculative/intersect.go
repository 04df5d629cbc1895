package speculative

import (
	"context"
	"fmt"
	"math"
	"slices"
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

// sharedTokens lists the tokens that two vocabularies have in common, by the draft's ids; of the target's only ids
// below vocab count. Where several tokens of one have the same bytes, it is the first that is not one of the
// single-byte tokens, such as <0x41>, that a SentencePiece vocabulary falls back to.
func sharedTokens(target, draft pieces, vocab int) (all []sharedToken) {
	own := make(map[string]int32, draft.Size())
	for id := range int32(draft.Size()) {
		text := draft.Piece(id)
		if old, ok := own[text]; text != "" && (!ok || draft.fallback(old) && !draft.fallback(id)) {
			own[text] = id
		}
	}
	const none = -1
	of := slices.Repeat([]int32{none}, draft.Size()) // [draft's id] the target's
	for id := range int32(target.Size()) {
		if d, ok := own[target.Piece(id)]; ok && (of[d] == none || target.fallback(of[d]) && !target.fallback(id)) {
			of[d] = id
		}
	}
	for d, id := range of {
		if id != none && int(id) < vocab {
			all = append(all, sharedToken{id, int32(d)})
		}
	}
	if t, d := target.EOS(), draft.EOS(); t >= 0 && d >= 0 && int(t) < vocab && target.Piece(t) == "" &&
		draft.Piece(d) == "" {
		all = append(all, sharedToken{t, d})
	}
	return all
}

// fallback reports whether a token is one of the single bytes for what a vocabulary does not have.
func (w pieces) fallback(id int32) bool {
	return len(w.Piece(id)) == 1 && strings.HasPrefix(w.Token(id), "<0x")
}

func (x *intersect) Observe(*Round) {}
