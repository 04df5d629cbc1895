package speculative

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// confirmRows is how many positions of a text are computed in a pass: enough for the speed of prefill, few enough to
// bound the memory of their logits.
const confirmRows = 64

// Confirmation is what [Confirm] did.
type Confirmation struct {
	Tokens int // of the text, each checked
	Passes int // of the model, over prompt and text
}

// Confirm checks that a model wrote a receipt's text, with its settings: model and file agree with the receipt, each
// token is the one that plain decoding chooses there, and the text ends where and why it says. It makes one pass over
// prompt and text at the speed of prefill, in a session of its own, after the encoder's input where there is one;
// whoever wrote the text may have used other kernels, threads, pass sizes and drafts. file is the fingerprint of the
// file that m was loaded from, with the Options.Weights and the rotary table of the receipt. adapters are those of the
// receipt, for m, in any order; their scales are the receipt's.
//
// The error is a [*Mismatch] for a text that the model does not write, wraps [ErrReceipt] for a receipt that cannot be
// checked, and is otherwise that of the pass.
func Confirm(ctx context.Context, m *engine.Model, file engine.Fingerprint, r *Receipt, adapters ...*engine.Adapter) (
	c Confirmation, err error) {
	if m == nil || r == nil {
		return c, fmt.Errorf("%w: no model or no receipt", ErrOptions)
	}
	if i := slices.Index(adapters, nil); i >= 0 {
		return c, fmt.Errorf("%w: adapters[%d] is nil", ErrOptions, i)
	}
	if err := r.check(); err != nil {
		return c, err
	}
	if err := r.Matches(file); err != nil {
		return c, err
	}
	for _, x := range [][3]string{
		{"weights", r.Model.Weights, m.Weights()}, {"weight_types", r.Model.Types, m.WeightTypes()},
		{"rope_factors", r.Model.Rope, m.Config().RopeFactors},
	} {
		if x[1] != x[2] {
			return c, &Mismatch{Field: x[0], Position: -1, Written: fmt.Sprintf("%q", x[1]), Expected: fmt.Sprintf("%q", x[2])}
		}
	}
	tok := m.Tokenizer()
	if tok == nil && (len(r.Stop) > 0 || r.Text != "") {
		return c, fmt.Errorf("%w: text or stop strings, and the model has no tokenizer", ErrReceipt)
	}
	s, err := r.Sampling.sampling()
	if err != nil {
		return c, err
	}
	s.ConstraintFrom = len(r.Prompt)
	if tok != nil && slices.Contains(s.Order, sampling.StepInfill) {
		s.Infill.Pieces = tok
	}
	sampler, err := sampling.New(m.Config().Vocab, s)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	set, err := r.Model.set(adapters)
	if err != nil {
		return c, err
	}
	session, err := m.NewSession(engine.SessionOptions{Context: r.Context, KV: r.Model.KV, Adapters: set})
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	defer session.Close()
	switch {
	case m.Encodes() && len(r.Input) == 0:
		return c, fmt.Errorf("%w: no encoder_token_ids, and the model has an encoder", ErrReceipt)
	case !m.Encodes() && len(r.Input) > 0:
		return c, fmt.Errorf("%w: encoder_token_ids, and the model has no encoder", ErrReceipt)
	case m.Encodes():
		if err := session.Encode(ctx, r.Input); err != nil {
			return c, fmt.Errorf("%w: %w", ErrReceipt, err)
		}
	}

	sequence := append(slices.Clone(r.Prompt), r.Tokens...)
	last, end := len(r.Prompt)-1, len(sequence)-1 // the row of last predicts the first token of the text
	for i, id := range sequence[:end] {
		if id < 0 || int(id) >= m.Config().Vocab {
			if end = i; i <= last {
				return c, fmt.Errorf("%w: token %d of the prompt: %w: %d", ErrReceipt, i, engine.ErrVocabulary, id)
			}
			break // the row before it says what it should have been
		}
	}
	for at := 0; at < end; {
		n, want := min(session.PassRows(), last-at), engine.None
		if at >= last {
			n, want = min(confirmRows, end-at), engine.All
		}
		logits, err := session.Eval(ctx, sequence[at:at+n], nil, want)
		if err != nil {
			return c, err
		}
		c.Passes++
		for i := range logits.Rows() {
			p := at + i + 1
			if id := sampler.Pick(logits.Row(i), sequence[:p]); id < 0 || id != sequence[p] {
				return c, &Mismatch{
					Field: "token_ids", Position: p, WrittenID: sequence[p], ExpectedID: id,
					Written: quoted(tok, sequence[p]), Expected: quoted(tok, id),
				}
			}
			c.Tokens++
		}
		at += n
	}
	return c, r.ends(tok)
}

// Matches checks that a receipt is about the model and the tokenizer of a file.
func (r *Receipt) Matches(file engine.Fingerprint) error {
	for _, x := range [][3]string{{"model_sha256", r.Model.Model, file.Model},
		{"tokenizer_sha256", r.Model.Tokenizer, file.Tokenizer}} {
		if x[1] != x[2] {
			return &Mismatch{Field: x[0], Position: -1, Written: fmt.Sprintf("%q", x[1]),
				Expected: fmt.Sprintf("%q, that of this file", x[2])}
		}
	}
	return nil
}

// quoted is a token's text for messages.
func quoted(tok *bpe.Tokenizer, id int32) string {
	if tok == nil || id < 0 || int(id) >= tok.Size() {
		return "(no text)"
	}
	return fmt.Sprintf("%q", tok.Token(id))
}

// ending is where a text ends.
type ending struct {
	text   string
	tokens int // up to the end
	end    End // "": the text goes on
}

// replay ends the receipt's text by the rules of Decoder.emit.
func (r *Receipt) replay(tok *bpe.Tokenizer) (x ending) {
	var print printer
	if tok != nil {
		print = printer{decoder: tok.NewDecoder(), stops: r.Stop, shown: r.Shown}
	}
	ends := make(map[int32]bool, len(r.EOG))
	for _, id := range r.EOG {
		ends[id] = true
	}
	var text strings.Builder
	for i, id := range r.Tokens {
		stop := false
		if ends[id] {
			x.end = EndOfText
		} else {
			var shown string
			shown, stop = print.next(id)
			text.WriteString(shown)
			switch {
			case stop:
				x.end = EndStop
			case r.Max > 0 && i+1 >= r.Max:
				x.end = EndLength
			case len(r.Prompt)+i+1 > r.Context:
				x.end = EndContext
			}
		}
		if x.tokens = i + 1; x.end != "" {
			break
		}
	}
	if x.end != EndStop { // what was held back is not the beginning of a stop string, or is one and no more
		text.WriteString(print.rest())
	}
	x.text = text.String()
	return x
}

// ends checks that the tokens, which are the model's, end where and why the receipt says, and are its text. A text
// that was cut short may end anywhere before its own end.
func (r *Receipt) ends(tok *bpe.Tokenizer) error {
	x := r.replay(tok)
	says, should := string(r.End), string(x.end)
	cut := r.End == EndCancel || r.End == EndError
	switch {
	case x.tokens < len(r.Tokens):
		return &Mismatch{Field: "token_ids", Position: -1,
			Written:  fmt.Sprintf("%d tokens", len(r.Tokens)),
			Expected: fmt.Sprintf("%d: there the text ends (%s)", x.tokens, should)}
	case should == "" && !cut:
		return &Mismatch{Field: "end_reason", Position: -1, Written: fmt.Sprintf("%q", says),
			Expected: "none: the text goes on"}
	case should != "" && says != should:
		return &Mismatch{Field: "end_reason", Position: -1, Written: fmt.Sprintf("%q", says),
			Expected: fmt.Sprintf("%q", should)}
	case r.Text != x.text:
		return &Mismatch{Field: "text", Position: -1, Written: cut80(r.Text), Expected: cut80(x.text)}
	}
	return nil
}

// cut80 quotes a text, cut to about a line.
func cut80(s string) string {
	const most = 80 // bytes
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
