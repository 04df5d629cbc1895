package speculative

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/specgo/spec/engine"
)

// Intersect drafts with a model of another vocabulary, in the tokens that both have: token-level
// intersection (Timor et al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding
// Algorithms for Heterogeneous Vocabularies"). The draft's distribution is restricted to the shared
// tokens, carried over to the target's ids and renormalized there, so it can be drawn from and
// weighed as any q; at temperature 0, and with the noise that [Match] shares, it serves as well.
//
// Tokens are shared that stand for the same bytes, and the end of the text.
func Intersect(seq Sequence, t Tokenizers) Drafter {
	return &intersect{foreign: newForeign(seq, t)}
}

type intersect struct {
	foreign
	picker
	shared  []couple
	toDraft []int32   // [target id] the draft's id, -1 where there is none
	row     []float32 // [target id] logits; -Inf where there is no shared token
}

// couple is a token that both vocabularies have.
type couple struct{ target, draft int32 }

func (x *intersect) Start(ctx context.Context, s Setup) error {
	if err := x.picker.start(s); err != nil {
		return err
	}
	if err := x.foreign.start(ctx, s); err != nil {
		return err
	}
	if len(x.row) != s.Vocab { // the first text
		x.pairUp(s.Vocab)
	}
	if len(x.shared) == 0 {
		return fmt.Errorf("draft model: %w: it has none in common with the target", engine.ErrVocabulary)
	}
	return nil
}

// pairUp finds the shared tokens of a target of vocab ids.
func (x *intersect) pairUp(vocab int) {
	x.shared = shared(x.target, x.draft, vocab)
	x.row, x.toDraft = make([]float32, vocab), make([]int32, vocab)
	for id := range x.row {
		x.row[id], x.toDraft[id] = float32(math.Inf(-1)), -1
	}
	for _, c := range x.shared {
		x.toDraft[c.target] = c.draft
	}
}

func (x *intersect) Draft(ctx context.Context, text []int32, d *Draft) error {
	if !d.More() {
		return nil
	}
	if err := x.listen(text); err != nil {
		return err
	}
	x.begin()
	for d.More() {
		row, ok, err := x.next(ctx, d)
		if !ok || err != nil {
			return err
		}
		x.carry(row)
		id, q := x.pick(x.row, text, d)
		if id < 0 {
			return nil
		}
		own := x.toDraft[id]
		d.Add(id, x.confidence(row, own), q)
		x.say(own)
		text = append(text, id)
	}
	return nil
}

// carry copies the logits of shared tokens to the target's ids.
func (x *intersect) carry(row []float32) {
	for _, c := range x.shared {
		x.row[c.target] = row[c.draft]
	}
}

// shared lists the tokens that two vocabularies have in common, of the target those below vocab.
func shared(target, draft words, vocab int) (all []couple) {
	other := draft.byPiece()
	for piece, id := range target.byPiece() {
		if own, ok := other[piece]; ok && int(id) < vocab {
			all = append(all, couple{id, own})
		}
	}
	if t, d := target.EOS(), draft.EOS(); t >= 0 && d >= 0 && int(t) < vocab && target.piece(t) == "" && draft.piece(d) == "" {
		all = append(all, couple{t, d})
	}
	return all
}

// byPiece finds the token of some bytes. Where several have the same, it is the first that is not a
// SentencePiece vocabulary's last resort, spelled <0x41>.
func (w words) byPiece() map[string]int32 {
	last := func(id int32) bool {
		return len(w.pieces[id]) == 1 && strings.HasPrefix(w.Token(id), "<0x")
	}
	all := make(map[string]int32, len(w.pieces))
	for i, piece := range w.pieces {
		id := int32(i)
		if old, ok := all[piece]; piece != "" && (!ok || last(old) && !last(id)) {
			all[piece] = id
		}
	}
	return all
}

func (x *intersect) Observe(*Round) {}
