package engine

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/specgo/spec/tensor"
)

// graniteSwitch is Granite Switch (IBM 2026): granite with low-rank adapters in its file, of which the tokens of a text
// choose one for each position. Some tokens stand for an adapter, numbered from 1; they are embedded as others are. An
// attention head over the whole text finds out which one a position has:
//
//	k_j = g, v_j = n at a token of adapter n; k_j = -g, v_j = 0 at others;  n_i = round(softmax(k) v)
//
// so that behind one such token all positions have its adapter, those in front of it none. Products with the matrices
// of the blocks become
//
//	y = W x + B_n (A_n x)
func graniteSwitch(l *loader, c *Config) family {
	f, s := granite(l, c), l.switches()
	f.ends.start = func(b *build, m *decoder) network {
		m.embedding = b.embedding(b.c)
		if s.dim = b.c.HeadDim; b.ok() {
			s.checkTokens(b)
		}
		s.cache, s.options.Layer = b.place(0, 1, s.dim, 0)
		return &switchedDecoder{m, s}
	}
	f.attention.own = func(b *build, i int) mixer {
		a, n, d := b.attention(i), b.block(i), c.HiddenSize
		s.read(b, n+"attn_q", a.q, a.heads*a.headDim, d)
		s.read(b, n+"attn_k", a.k, a.kvHeads*a.headDim, d)
		s.read(b, n+"attn_v", a.v, a.kvHeads*a.headDim, d)
		s.read(b, n+"attn_output", a.o, d, a.heads*a.headDim)
		return a
	}
	f.feed.own = func(b *build, i int) sublayer {
		n, d, inner := b.block(i), c.HiddenSize, b.ffn[i]
		x := b.feedForward(n, "", inner)
		s.read(b, n+"ffn_gate", x.gate, inner, d)
		s.read(b, n+"ffn_up", x.up, inner, d)
		s.read(b, n+"ffn_down", x.down, d, inner)
		return x
	}
	return f
}

// switches are the adapters of a model.
type switches struct {
	count, rank int
	gain        float32
	number      map[int32]int32 // of the tokens that stand for an adapter: its number
	instead     map[int32]int32 // of them: the token as which they are embedded
	parts       map[*tensor.Matrix]switchedPart

	dim, cache int // of the head that finds adapters
	options    tensor.AttentionOptions
}

// switchedPart is what adapters have for a matrix [rows][cols]: of each, the first one included, which is of positions
// without an adapter and zero.
type switchedPart struct{ a, b []linear } // [r][cols], [rows][r]

// mostSwitches is the greatest number of adapters: a cache in q8_0 holds their numbers nearly enough.
const mostSwitches = 255

// switches reads the keys.
func (l *loader) switches() *switches {
	s := &switches{number: map[int32]int32{}, instead: map[int32]int32{}, parts: map[*tensor.Matrix]switchedPart{},
		options: tensor.AttentionOptions{Heads: 1, Scale: 1}}
	s.count, s.rank = l.integer("adapters.count"), l.integer("adapters.lora_rank")
	const most = 1 << 12
	if s.gain = l.positive("adapters.router_gain", 15); s.gain > 40 { // beyond which exp underflows
		l.fail("adapters.router_gain", ErrValue, "%v, at most 40", s.gain)
	}
	if s.count > mostSwitches || s.rank > most {
		l.fail("adapters.count", ErrUnsupported, "%d adapters of rank %d, at most %d and %d", s.count, s.rank, mostSwitches,
			most)
	}
	var lists [2][]int32
	for i, key := range []string{"adapters.token_ids_activate", "adapters.token_ids_substitute"} {
		l.keys[key] = true
		list, err := l.f.Int32s(l.arch + "." + key)
		l.keep(err)
		if l.ok() && len(list) != s.count {
			l.fail(key, ErrValue, "%d tokens of %d adapters", len(list), s.count)
		}
		lists[i] = list
	}
	for i := 0; i < s.count && l.ok(); i++ {
		s.number[lists[0][i]], s.instead[lists[0][i]] = int32(i+1), lists[1][i]
	}
	if l.ok() && len(s.number) != s.count {
		l.fail("adapters.token_ids_activate", ErrValue, "a token that stands for two adapters")
	}
	return s
}

// checkTokens checks that tokens are those of the vocabulary.
func (s *switches) checkTokens(b *build) {
	for _, id := range slices.Sorted(maps.Keys(s.instead)) {
		other := s.instead[id]
		if id < 0 || other < 0 || int(id) >= b.c.Vocab || int(other) >= b.c.Vocab {
			b.fail("adapters.token_ids_substitute", ErrValue, "token %d for %d, of a vocabulary of %d", other, id, b.c.Vocab)
		}
	}
}

// read reads what the adapters have for the matrix w [rows][cols], NAME.lora_a and NAME.lora_b.
func (s *switches) read(b *build, name string, w linear, rows, cols int) {
	n := s.count + 1
	p := switchedPart{
		a: b.loader.read(request{name: name + loraA, dims: []int{cols, s.rank, n}, rows: slices.Repeat([]int{s.rank}, n)}),
		b: b.loader.read(request{name: name + loraB, dims: []int{s.rank, rows, n}, rows: slices.Repeat([]int{rows}, n)}),
	}
	if b.ok() && w.w != nil {
		s.parts[w.w] = p
		s.zero(b, name+loraB)
	}
}

// zero checks that positions without an adapter have none: the first matrix B of a tensor is zero.
func (s *switches) zero(b *build, name string) {
	t, _ := b.f.Tensor(name)
	typ, err := tensor.ParseType(strings.ToLower(t.Type.String()))
	n := int(t.Elements()) / (s.count + 1)
	raw, x := make([]byte, int(t.Size)/(s.count+1)), make([]float32, n)
	if err == nil {
		_, err = b.f.Reader().ReadAt(raw, t.Offset)
	}
	if err == nil {
		err = tensor.Decode(typ, x, raw)
	}
	if err != nil {
		b.bad(name, ErrDamaged, "%v", err)
	} else if slices.ContainsFunc(x, func(v float32) bool { return v != 0 }) {
		b.bad(name, ErrUnsupported, "an adapter of positions that have none")
	}
}

// switchedDecoder is a decoder with such adapters.
type switchedDecoder struct {
	*decoder
	switches *switches
}

func (m *switchedDecoder) forward(p *pass) {
	w := &p.adapted.switched
	m.switches.choose(p, w)
	tokens := p.tokens
	w.tokens = append(w.tokens[:0], tokens...)
	for i, id := range tokens {
		if other, ok := m.switches.instead[id]; ok {
			w.tokens[i] = other
		}
	}
	x := p.matrix(&p.x, m.c.HiddenSize)
	p.tokens = w.tokens
	m.embed(p, x)
	p.tokens = tokens
	w.of = m.switches
	m.layers(p, x)
	w.of = nil
}

// lends is what the decoder lends, but for the embeddings.
func (m *switchedDecoder) lends() lends {
	l := m.decoder.lends()
	l.embeds = false
	return l
}

// switchedRows are the adapters of a round's rows, and the scratch memory of their products.
type switchedRows struct {
	of     *switches // of the blocks that the rows go through; nil: they have none
	number []int32   // [rows]
	tokens []int32   // [rows] that are embedded
	rows   []int32   // of one adapter
	x      []float32 // [rows][cols]
	low    []float32 // [rows][r] of one product after the other
	out    []float32 // [rows][rows of a matrix]
	lower  []product
}

// choose finds the adapters of the round's rows.
func (s *switches) choose(p *pass, w *switchedRows) {
	d := s.dim
	q, k, v := p.matrix(&p.q, d), p.matrix(&p.k, d), p.matrix(&p.v, d)
	clear(q)
	clear(k)
	clear(v)
	for i, id := range p.tokens {
		number, gain := s.number[id], -s.gain
		if number > 0 {
			gain = s.gain
		}
		q[i*d], k[i*d], v[i*d] = 1, gain, float32(number)
	}
	a := p.matrix(&p.a, d)
	p.attend(a, s.cache, s.options, q, k, v)
	w.number = w.number[:0]
	for i := range p.tokens {
		x := math.Round(min(max(float64(a[i*d]), 0), float64(s.count)))
		w.number = append(w.number, int32(x))
	}
}

// switchProducts adds to products of x [rows][cols] what the adapters of the rows give.
func (p *pass) switchProducts(x []float32, cols int, products []product) {
	w := &p.adapted.switched
	changed := slices.ContainsFunc(products, func(m product) bool { return w.of.parts[m.w].a != nil })
	for number := 1; changed && number <= w.of.count; number++ {
		w.rows = w.rows[:0]
		for i, of := range w.number {
			if int(of) == number {
				w.rows = append(w.rows, int32(i))
			}
		}
		if len(w.rows) > 0 && p.err == nil {
			p.part = w.rows
			p.switchRows(number, x, cols, products)
			p.part = nil
		}
	}
}

// switchRows is switchProducts for the rows of one adapter.
func (p *pass) switchRows(number int, x []float32, cols int, products []product) {
	w := &p.adapted.switched
	n, r := len(w.rows), w.of.rank
	some, low := sized(&w.x, n*cols), sized(&w.low, n*r*len(products))
	for i, row := range w.rows {
		copy(some[i*cols:(i+1)*cols], x[int(row)*cols:])
	}
	w.lower = w.lower[:0]
	for j, m := range products {
		if part := w.of.parts[m.w]; part.a != nil {
			w.lower = append(w.lower, part.a[number].times(low[j*n*r:(j+1)*n*r]))
		}
	}
	p.multiplied(some, cols, w.lower...)
	for j, m := range products {
		part := w.of.parts[m.w]
		if part.a == nil || p.err != nil {
			continue
		}
		width := m.w.Rows()
		y := sized(&w.out, n*width)
		p.multiplied(low[j*n*r:(j+1)*n*r], r, part.b[number].times(y))
		for i, row := range w.rows {
			p.add(m.out[int(row)*width:(int(row)+1)*width], y[i*width:(i+1)*width])
		}
	}
	clear(w.lower[:cap(w.lower)])
}
