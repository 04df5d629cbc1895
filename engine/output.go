package engine

import (
	"fmt"
	"math"

	"github.com/specgo/spec/tensor"
)

// unlisted is the logit of a token that has no row in an output matrix: drafts do not propose it.
var unlisted = float32(math.Inf(-1))

// output is how logits are made of hidden states: a product with the output matrix, then a factor and a soft cap.
type output struct {
	linear             // [V][cols], or [W][cols] where there are ids
	ids        []int32 // [W] whose rows they are; nil: all tokens, in order
	scale, cap float32 // 0: none
}

// outputRows are rows of an output matrix, those of some tokens.
type outputRows struct {
	w   *tensor.Matrix // [W][cols]
	b   []float32      // [W]; nil: no bias
	ids []int32        // [W] the tokens
}

// of takes the rows' numbers of y [n][width] into to, [n][W].
func (r *outputRows) of(to *[]float32, y []float32, width int) []float32 {
	w, n := len(r.ids), len(y)/width
	some := sized(to, n*w)
	for i := range n {
		row := y[i*width : (i+1)*width]
		for j, id := range r.ids {
			some[i*w+j] = row[id]
		}
	}
	return some
}

// masks reports whether logits of the round may be -Inf.
func (p *pass) masks() bool { return p.masked || p.form != nil && p.form.tokens != nil }

// output computes the logits out [n][V] of the normalized x [n][cols]. Those of tokens without a row, in the matrix or
// in the round's draft form, are -Inf, but for tokens of the text where the form takes some.
func (p *pass) output(out, x []float32, cols int, o output) {
	rows, ids := p.form.rowsOf(o.w), o.ids
	if rows != nil {
		ids = rows.ids
	}
	known, n := out, len(x)/cols
	if ids != nil {
		known = sized(&p.gate, n*len(ids))
	}
	p.matmul(x, cols, product{linear: o.linear, out: known, rows: rows})
	p.scale(known, o.scale)
	p.cap(known, o.cap)
	if ids == nil || p.err != nil {
		return
	}
	w, v := len(ids), len(out)/n
	for i := range n {
		row, to := known[i*w:(i+1)*w], out[i*v:(i+1)*v]
		if !tensor.Finite(row) {
			p.failRow(i, fmt.Errorf("logits: %w", ErrNotFinite))
		}
		for j := range to {
			to[j] = unlisted
		}
		for j, id := range ids {
			to[id] = row[j]
		}
	}
	if rows != nil {
		p.textLogits(out, x, cols, o)
	}
}
