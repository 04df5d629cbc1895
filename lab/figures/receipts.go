package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// receipt is a text that was written, and then confirmed in one pass.
type receipt struct {
	Tokens    int     `json:"n"`
	Writing   float64 `json:"write"`   // seconds, plain decoding, without the prompt
	Drafted   float64 `json:"drafted"` // seconds with drafts of the draft model, likewise
	Confirm   float64 `json:"confirm"` // seconds, prompt and text
	Passes    int     `json:"passes"`  // of the confirmation
	Tampered  int     `json:"tampered"`
	Refused   int     `json:"refused"`   // of the tampered texts
	Positions int     `json:"positions"` // of these, with the changed token's position named
}

const (
	receiptTokens = 192
	receiptTemp   = 0.8
	tampering     = 8 // texts with one changed token each
)

// certify writes a text, confirms its receipt, and tries receipts with one token changed. The file's hash is not
// taken: the enlarged model is in no file, so receipt and confirmation are given the same made-up one.
func certify(l *lab, _ *experiment, c *cell) error {
	pair := l.models.pair
	file := engine.Fingerprint{Model: strings.Repeat("0", 64), Tokenizer: strings.Repeat("0", 64)}
	drafter, err := pair.Drafter("model")
	if err != nil {
		return err
	}
	ids := pair.Tokenizer.Encode(promptSet(code)[0].Text, bpe.EncodeOptions{AddSpecial: true})
	var r *speculative.Receipt
	var took [2]float64
	for i, d := range []speculative.Drafter{nil, drafter} {
		dec := speculative.New(pair.Target, d, speculative.Options{MaxTokens: receiptTokens, Tokenizer: pair.Tokenizer})
		for _, err := range dec.Generate(l.ctx, ids, engine.Sampling{Temperature: receiptTemp, Seed: seed}) {
			if err != nil {
				return err
			}
		}
		s := dec.Stats()
		took[i] = s.Total - s.Prefill
		x, err := dec.Receipt(speculative.ReceiptOptions{Fingerprint: file})
		if err != nil {
			return err
		}
		if r != nil && !slices.Equal(r.Tokens, x.Tokens) {
			l.broken = append(l.broken, "receipt, with drafts")
		}
		r = x
	}
	start := l.now()
	done, err := speculative.Confirm(l.ctx, l.models.target, file, r)
	if err != nil {
		return fmt.Errorf("a text that was just written is not confirmed: %w", err)
	}
	out := receipt{Tokens: done.Tokens, Passes: done.Passes, Writing: digits(took[0]), Drafted: digits(took[1]),
		Confirm: digits(l.now().Sub(start).Seconds())}
	for i := range tampering {
		changed := *r
		changed.Tokens = slices.Clone(r.Tokens)
		at := i * len(r.Tokens) / tampering
		changed.Tokens[at] = (changed.Tokens[at] + 1) % int32(pair.Target.Vocab())
		out.Tampered++
		_, err := speculative.Confirm(l.ctx, l.models.target, file, &changed)
		var m *speculative.Mismatch
		if errors.As(err, &m) {
			out.Refused++
			if m.Position == len(r.Prompt)+at {
				out.Positions++
			}
		} else if err != nil && !errors.Is(err, speculative.ErrReceipt) {
			return err
		}
	}
	c.Receipt = &out
	return nil
}

// receipts is the table.
func (r *report) receipts() string {
	m := markdown{head: []string{"kernels", "tokens", "written plainly, s", "with drafts, s", "confirmed, s", "passes",
		"writing over confirming", "texts with one token changed: refused, position named"}}
	for _, v := range r.with("receipt") {
		for _, c := range v.cells {
			if x := c.Receipt; x != nil && c.Column == v.column && c.Disturbed == "" {
				m.add(r.name(v), fmt.Sprint(x.Tokens), fmt.Sprintf("%.2f", x.Writing), fmt.Sprintf("%.2f", x.Drafted),
					fmt.Sprintf("%.2f", x.Confirm), fmt.Sprint(x.Passes),
					fmt.Sprintf("%.1f", x.Writing/x.Confirm), fmt.Sprintf("%d of %d, %d", x.Refused, x.Tampered, x.Positions))
			}
		}
	}
	if len(m.rows) == 0 {
		return ""
	}
	return notes(m.String(), fmt.Sprintf("One code prompt, temperature %v; confirming includes the prompt.", receiptTemp))
}
