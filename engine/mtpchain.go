package engine

import "fmt"

// How several MTP blocks share a round. A row belongs to the block that computes its state and its logits: the first
// one where the state that goes in is the target's, the next one after each drafted token. The blocks after that one
// keep keys and values of the row too.

// blockRows is a part of a round, with the memory that selecting it needs.
type blockRows struct {
	roundRows
	of    []int32   // [n] rows of the round
	x     []float32 // [n][D]
	block []int32   // [rows] of the whole round: the block that a row belongs to
}

// end drops the references to what belongs to callers.
func (r *blockRows) end() {
	clear(r.fed)
	for i := range r.segments {
		clear(r.segments[i])
		r.segments[i] = r.segments[i][:0]
	}
	r.fed, r.of = r.fed[:0], r.of[:0]
}

// rowsOf is which of the rows of f belong to block j, or, with before, to one of the blocks before it: from, and to,
// which is not included.
func (f *fedRows) rowsOf(j int, before bool) (from, to int) {
	switch {
	case !f.fromTarget && before:
		return 0, min(max(j-f.ahead, 0), f.n)
	case !f.fromTarget:
		from = j - f.ahead
		return min(max(from, 0), f.n), min(max(from+1, 0), f.n)
	case before == (j > 0):
		return 0, f.n
	}
	return 0, 0
}

// choose makes p.blockRows the rows that belong to block j, or, with before, to one of the blocks before it. It
// reports whether there are any.
func (p *pass) choose(j int, before bool) bool {
	r := &p.blockRows
	r.end()
	r.tokens, r.positions, r.owner = r.tokens[:0], r.positions[:0], r.owner[:0]
	for len(r.segments) < len(p.segments) {
		r.segments = append(r.segments, nil)
	}
	for k := range p.fed {
		f := &p.fed[k]
		from, to := f.rowsOf(j, before)
		if from == to {
			continue
		}
		row, n, size := len(r.tokens), to-from, len(f.x)/f.n
		r.tokens = append(r.tokens, p.tokens[f.row+from:f.row+to]...)
		r.positions = append(r.positions, p.positions[f.row+from:f.row+to]...)
		r.owner = append(r.owner, p.owner[f.row+from:f.row+to]...)
		r.fed = append(r.fed, fedRows{row, n, fed{x: f.x[from*size : to*size]}})
		for i, list := range p.segments { // in the order of fed; a tree has the target's states and stays whole
			if k < len(list) {
				s := list[k]
				s.Row, s.Start, s.Tokens = row, s.Start+from, n
				r.segments[i] = append(r.segments[i], s)
			}
		}
		for i := from; i < to; i++ {
			r.of = append(r.of, int32(f.row+i))
		}
	}
	return len(r.tokens) > 0
}

// chain takes the round's rows through the blocks, one after the other. x [rows][D] becomes what each row's own block
// computes.
func (m *mtp) chain(p *pass, x []float32) {
	d, r, whole := m.c.HiddenSize, &p.blockRows, p.roundRows
	defer func() { p.roundRows = whole }() // also where a kernel panics
	block := sized(&r.block, len(p.tokens))
	for j := range m.blocks {
		if !p.layer(j) {
			return
		}
		b := &m.blocks[j]
		if p.choose(j, true) {
			p.roundRows = r.roundRows
			b.remember(p, m.c, p.matrix(&r.x, d))
			p.roundRows = whole
		}
		if p.choose(j, false) {
			p.roundRows = r.roundRows
			y := p.matrix(&r.x, d)
			b.input(p, m.c, y)
			b.block.forward(p, m.c, y)
			p.roundRows = whole
			for i, row := range r.of {
				copy(x[int(row)*d:int(row+1)*d], y[i*d:])
				block[row] = int32(j)
			}
		}
	}
}

// remember computes the block's keys and values of the rows, and no more. x [rows][D] is scratch.
func (b *mtpBlock) remember(p *pass, c *Config, x []float32) {
	b.input(p, c, x)
	h := p.matrix(&p.h, c.HiddenSize)
	p.norm(h, x, b.block.attnNorm)
	b.keys.remember(p, h)
}

// run finds how many of the rows p.given from one of them on belong to the same block, up to to, and the block.
func (m *mtp) run(p *pass, from int) (to int, b *mtpBlock) {
	if len(m.blocks) == 1 {
		return len(p.given), &m.blocks[0]
	}
	block := p.blockRows.block
	j := block[p.given[from]]
	for to = from + 1; to < len(p.given) && block[p.given[to]] == j; {
		to++
	}
	return to, &m.blocks[j]
}

// opens checks that all blocks take part: they draft together.
func (m *mtp) opens(c *Config, o SessionOptions) error {
	if o.Layers != c.Layers && m.Longest > 0 {
		return fmt.Errorf("%w: %d of %d MTP blocks, which draft together", ErrUsage, o.Layers, c.Layers)
	}
	return m.Head.opens(c, o)
}

// admit checks that several blocks can compute a segment.
func (m *mtp) admit(g *Segment) error {
	if err := m.Head.admit(g); err != nil || m.Longest == 0 {
		return err
	}
	switch n, ahead := len(g.Tokens), len(g.Session.tokens)-g.Session.fed; {
	case g.FromTarget && ahead > 0:
		return fmt.Errorf("%w: states of the target after %d drafted tokens, which have to be cut off first", ErrUsage, ahead)
	case g.FromTarget:
	case g.Parents != nil:
		return fmt.Errorf("%w: a tree of drafted tokens; several MTP blocks take chains", ErrUsage)
	case ahead+n >= m.Longest:
		return fmt.Errorf("%w: %d drafted tokens and %d more; %d MTP blocks draft so many tokens, of which the last goes "+
			"into none",
			ErrUsage, ahead, n, m.Longest)
	}
	return nil
}

// gives checks that the state is the one after a position's own block.
func (m *mtp) gives(s *Session, k int) error {
	if m.Longest > 0 && k != s.layers && k != FinalNorm {
		return fmt.Errorf("%w: hidden states of layer %d wanted, a position of %d MTP blocks has those after its own "+
			"block: %d",
			ErrUsage, k, s.layers, s.layers)
	}
	return nil
}
