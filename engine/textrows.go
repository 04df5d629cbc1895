package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/specgo/spec/tensor"
)

// The tokens of a text itself as a part of a draft form's vocabulary: names are written again and again in the text
// that has them, and are not frequent anywhere else. The form has room for rows of an output matrix beside those of its
// list. A pass fills it with those of its sessions' texts that are not there, and multiplies the rows of each text with
// them. Which tokens those of a row are depends on nothing but the tokens up to it.

// textTokens are the tokens of a sequence that the list of a draft form does not have.
type textTokens struct {
	form *DraftForm // nil: nothing has been read
	read int        // tokens of the sequence that have been looked at
	ids  []int32    // each once, in the order in which they come, at most as many as the form takes of a text
	at   []int      // [ids] where each is first
}

// follow reads what there is more of the sequence.
func (t *textTokens) follow(f *DraftForm, tokens []int32) {
	if t.form != f {
		t.form, t.read, t.ids, t.at = f, 0, t.ids[:0], t.at[:0]
	}
	for ; t.read < len(tokens) && len(t.ids) < f.text; t.read++ {
		if id := tokens[t.read]; f.lacks(id) && !slices.Contains(t.ids, id) {
			t.ids, t.at = append(t.ids, id), append(t.at, t.read)
		}
	}
}

// cut leaves those of the first n tokens of the sequence.
func (t *textTokens) cut(n int) {
	t.read = min(t.read, n)
	for len(t.at) > 0 && t.at[len(t.at)-1] >= n {
		t.ids, t.at = t.ids[:len(t.ids)-1], t.at[:len(t.at)-1]
	}
}

// upTo is a copy for the first n tokens of the sequence.
func (t *textTokens) upTo(n int) textTokens {
	c := textTokens{t.form, t.read, slices.Clone(t.ids), slices.Clone(t.at)}
	c.cut(n)
	return c
}

// lacks reports whether a token is not in the form's list.
func (f *DraftForm) lacks(id int32) bool { return f.listed[id/64]>>(id%64)&1 == 0 }

// textRows are the rows of an output matrix that a draft form has of its sessions' texts. Each is in a slot.
type textRows struct {
	from    *tensor.Matrix // whose rows they are: the output matrix
	bias    []float32      // [V] of it; nil: none
	w       *tensor.Matrix // [slots][cols]
	ids     []int32        // [slots] the tokens
	b       []float32      // [slots]; nil: no bias
	slots   map[int32]int  // of the tokens
	held    []uint64       // [slots] the last group of rows that wanted it
	group   uint64
	most    int              // slots of the group: those before it
	missing []int32          // scratch
	views   []*tensor.Matrix // [panels] of so many panels and one
}

// newTextRows makes room for n rows, which is filled with some of the form's list. They are in the bits of its rows.
func (f *DraftForm) newTextRows(ctx context.Context, o linear, n int, to tensor.Type) (*textRows, error) {
	t, rt := &textRows{from: o.w, bias: o.b, slots: map[int32]int{}, held: make([]uint64, n)}, f.m.rt
	for i := range n {
		t.ids = append(t.ids, f.tokens[i%len(f.tokens)])
	}
	if o.b != nil {
		t.b = make([]float32, n)
	}
	w, err := tensor.Gather(ctx, rt.t, o.w, t.ids)
	if err == nil && w.Type() != to {
		whole := w
		w, err = tensor.Recode(ctx, rt.t, whole, to)
		whole.Close()
	}
	t.w, t.views = w, make([]*tensor.Matrix, (n+panelRows-1)/panelRows)
	return t, err
}

// begin begins a group of rows that are multiplied together.
func (t *textRows) begin() { t.group, t.most = t.group+1, 0 }

// hold has the tokens in slots until the next group begins. It reports false if there is no room for all of them, with
// those of the group. A row whose scale would not be finite in fewer bits is left out.
func (t *textRows) hold(ctx context.Context, rt *tensor.Runtime, ids []int32) (bool, error) {
	free := 0
	for _, g := range t.held {
		if g != t.group {
			free++
		}
	}
	t.missing = t.missing[:0]
	for _, id := range ids {
		if i, ok := t.slots[id]; !ok {
			t.missing = append(t.missing, id)
		} else if t.held[i] != t.group {
			free--
		}
	}
	if len(t.missing) > free {
		return false, nil
	}
	for _, id := range ids {
		if i, ok := t.slots[id]; ok {
			t.keep(i)
		}
	}
	for _, id := range t.missing {
		i := 0
		for j, g := range t.held { // that has not been wanted for longest, the first of them
			if g < t.held[i] {
				i = j
			}
		}
		if err := t.fill(ctx, rt, i, id); errors.Is(err, tensor.ErrNotFinite) {
			continue
		} else if err != nil {
			return false, err
		}
		t.keep(i)
	}
	return true, nil
}

func (t *textRows) keep(i int) { t.held[i], t.most = t.group, max(t.most, i+1) }

// fill puts the row of a token into a slot.
func (t *textRows) fill(ctx context.Context, rt *tensor.Runtime, i int, id int32) error {
	w, row := t.from, int(id)
	if w.Type() != t.w.Type() {
		one, err := tensor.Gather(ctx, rt, t.from, []int32{id})
		if err != nil {
			return err
		}
		defer one.Close()
		if w, err = tensor.Recode(ctx, rt, one, t.w.Type()); err != nil {
			return err
		}
		defer w.Close()
		row = 0
	}
	if err := t.w.CopyRow(i, w, row); err != nil {
		return err
	}
	delete(t.slots, t.ids[i])
	t.slots[id], t.ids[i] = i, id
	if t.b != nil {
		t.b[i] = t.bias[id]
	}
	return nil
}

// rows are the slots of the group, and others among them.
func (t *textRows) rows(rt *tensor.Runtime) (*outputRows, error) {
	n := (t.most + panelRows - 1) / panelRows
	if t.views[n-1] == nil {
		v, err := tensor.NewView(rt, t.w.Type(), min(n*panelRows, t.w.Rows()), t.w.Cols(), t)
		if err == nil {
			err = v.Bind(t.w.Panels()[:n*t.w.PanelBytes()])
		}
		if err != nil {
			return nil, err
		}
		t.views[n-1] = v
	}
	r := &outputRows{w: t.views[n-1], ids: t.ids[:t.views[n-1].Rows()]}
	if t.b != nil {
		r.b = t.b[:len(r.ids)]
	}
	return r, nil
}

func (t *textRows) close() {
	t.w.Close()
	for _, v := range t.views {
		if v != nil {
			_ = v.Bind(nil)
		}
	}
}

// ownText is the scratch memory of the tokens of texts.
type ownText struct {
	ids   []int32   // of one row after the other
	ends  []int     // [rows] where those of a row end
	known []float32 // [rows][slots]
}

// textOf appends to ids the tokens of the text up to a row that its form's list does not have.
func (p *pass) textOf(ids []int32, r wantedRow) []int32 {
	var c *chunk
	for i := range p.chunks {
		if x := &p.chunks[i]; x.segment == r.segment && x.wanted < len(x.tokens) {
			c = x
		}
	}
	s, first := r.s, len(ids)
	s.text.follow(s.form, s.tokens)
	ids = append(ids, s.text.ids...)
	known := len(ids)
	if c.block { // its other tokens are masks
		return ids
	}
	path := len(ids)
	for i := c.wanted + r.index; i >= 0; { // up the path
		if id := c.tokens[i]; s.form.lacks(id) && !slices.Contains(ids[first:known], id) {
			ids = append(ids, id)
		}
		if i--; c.parents != nil {
			i = int(c.parents[i+1])
		}
	}
	slices.Reverse(ids[path:])
	n := path
	for _, id := range ids[path:] {
		if n-first < s.form.text && !slices.Contains(ids[path:n], id) {
			ids[n], n = id, n+1
		}
	}
	return ids[:n]
}

// textLogits computes the logits of p.projected, in out [n][V] of x [n][cols], that the tokens of each row's text have
// beside those of the form's list.
func (p *pass) textLogits(out, x []float32, cols int, o output) {
	t, all := p.form.texts[o.w], p.projected
	if t == nil || p.err != nil {
		return
	}
	defer func() { p.projected = all }()
	v, own := len(out)/len(all), &p.own
	for from, to := 0, 0; from < len(all) && p.err == nil; from = to {
		t.begin()
		own.ids, own.ends = own.ids[:0], own.ends[:0]
		for to = from; to < len(all); to++ {
			n := len(own.ids)
			own.ids = p.textOf(own.ids, all[to])
			ok, err := t.hold(p.ctx, p.t, own.ids[n:])
			if p.fail(err); !ok {
				break
			}
			own.ends = append(own.ends, len(own.ids))
		}
		if p.err != nil || t.most == 0 {
			continue
		}
		rows, err := t.rows(p.t)
		if p.fail(err); p.err != nil {
			return
		}
		p.projected = all[from:to]
		w := len(rows.ids)
		known := sized(&own.known, (to-from)*w)
		p.matmul(x[from*cols:to*cols], cols, product{linear: o.linear, out: known, rows: rows})
		p.scale(known, o.scale)
		p.cap(known, o.cap)
		if p.err != nil {
			return
		}
		begin := 0
		for i, end := range own.ends {
			for _, id := range own.ids[begin:end] {
				slot, ok := t.slots[id]
				if !ok {
					continue
				}
				y := known[i*w+slot]
				if math.IsNaN(float64(y)) || math.IsInf(float64(y), 0) {
					p.failRow(i, fmt.Errorf("logits: %w", ErrNotFinite))
				}
				out[(from+i)*v+int(id)] = y
			}
			begin = end
		}
	}
}
