package engine

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Forward feeds every segment's tokens to its session, all in one pass over the weights, and
// returns one Result for each segment. The results belong to the batch: they are valid until the next pass
// with any of its sessions.
//
// A chain (Parents nil) is appended to the session's sequence. A tree leaves the sequence as it is and waits
// for [Session.Commit]; a pass before that drops it.
//
// A segment that fails (see [Result]) does not move its session; the others do. If Forward itself returns an
// error, no session has moved: that is so when ctx is cancelled, which is looked at between layers, and when the
// model is closed. Trees that waited for Commit may be lost in both cases.
//
// Forward is safe for concurrent use with distinct sessions; passes of one [Runtime] run one after
// the other.
func (m *Model) Forward(ctx context.Context, b Batch) ([]Result, error) {
	if m == nil {
		return nil, fmt.Errorf("%w: no model", ErrUsage)
	}
	if len(b) == 0 {
		return nil, nil
	}
	m.rt.t.Lock()
	defer m.rt.t.Unlock()
	begin := time.Now()
	results, err := m.forward(ctx, b)
	if err == nil {
		m.learn(b, results, time.Since(begin))
	}
	return results, err
}

// forward is Forward for those who hold the runtime's lock.
func (m *Model) forward(ctx context.Context, b Batch) ([]Result, error) {
	if m.closed.Load() || m.rt.closed.Load() {
		return nil, fmt.Errorf("%s: %w", m.name, ErrClosed)
	}
	p := m.rt.pass
	p.begin(ctx, m.results(b))
	defer p.end()
	defer m.count(b)
	p.most = m.rows()
	p.masked = m.head != nil && m.head.info().masked
	p.watch = nil
	if s := b[0].Session; len(b) == 1 && s != nil {
		p.watch = s.watch
	}
	for i := range b {
		if err := m.admit(p, i, &b[i]); err != nil {
			p.results[i].Err = fmt.Errorf("%s: %w", m.name, err)
		}
	}
	for first := true; p.fill(); first = false {
		if m.config.Experts > 0 { // of a pass of several rounds, the first
			p.routing.read.begin(first && p.form == nil)
		}
		m.net.forward(p)
		if len(p.hidden) > 0 {
			p.keep(p.layers)
			p.keepNormed(m)
		}
		m.project(p)
		p.recurrent.Settle(p.failed)
		if p.err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, p.err)
		}
	}
	for i := range b {
		s, r := b[i].Session, &p.results[i]
		if r.Err != nil {
			continue
		}
		if s.lender == nil {
			s.advance(&b[i])
		}
		r.Logits = Logits{Vocab: m.config.Vocab, Data: s.logits}
		r.Hidden = HiddenStates{Size: m.StateSize(b[i].Layers), Layers: b[i].Layers, Data: s.hidden}
	}
	return p.results, nil
}

// advance takes the tokens of a segment that succeeded.
func (s *Session) advance(g *Segment) {
	if !s.noCache {
		s.valid = len(s.tokens)
	}
	if g.Parents != nil {
		s.nodes = append(s.nodes, g.Tokens...)
		s.parents = append(s.parents, g.Parents...)
		s.treeFed = g.FromTarget
		return
	}
	s.tokens = append(s.tokens, g.Tokens...)
	if !s.noCache {
		s.valid = len(s.tokens)
	}
	if g.FromTarget {
		s.fed = len(s.tokens)
	}
}

// results is room for a batch's results. It is kept by the first session of the batch that is the model's.
func (m *Model) results(b Batch) []Result {
	var own []Result
	keep := &own
	for i := range b {
		if s := b[i].Session; s != nil && s.m == m {
			keep = &s.results
			break
		}
	}
	r := sized(keep, len(b))
	clear(r)
	return r
}

// project computes the logits of the round's wanted rows: the final norm, then the
// output matrix, which is read once for up to headRows rows.
func (m *Model) project(p *pass) {
	c := &m.config
	p.wanted = slices.DeleteFunc(p.wanted, func(r wantedRow) bool { return p.results[r.segment].Err != nil })
	for w := p.wanted; len(w) > 0 && p.err == nil; {
		n := min(len(w), headRows)
		alone := 1 // the first rows of w that belong to one session
		for alone < n && w[alone].s == w[0].s {
			alone++
		}
		if alone >= 8 {
			n = alone // enough rows to read the matrix for them only, and to write the logits where they belong
		}
		d := len(p.x) / len(p.tokens)
		h := sized(&p.h, n*d)
		p.given = p.given[:0]
		for i, r := range w[:n] {
			copy(h[i*d:(i+1)*d], p.x[r.row*d:])
			p.given = append(p.given, int32(r.row))
		}
		h = m.net.finalNorm(p, h)
		out := w[0].s.logits[w[0].index*c.Vocab:][:min(n, alone)*c.Vocab]
		if alone < n {
			out = sized(&p.logits, n*c.Vocab)
		}
		p.projected = w[:n]
		m.net.logits(p, out, h)
		p.projected = nil
		p.deliver(out, w[:n], alone < n)
		w = w[n:]
	}
	if b, ok := m.net.(*blockHead); ok {
		b.follow(p)
	}
}

// Eval feeds tokens to the session: a [Model.Forward] of one segment. parents is nil, or makes the tokens a tree as in
// [Segment]. The logits are valid until the session's next pass. If it fails, the session has not moved.
func (s *Session) Eval(ctx context.Context, tokens, parents []int32, want Rows) (Logits, error) {
	if s == nil || s.m == nil {
		return Logits{}, fmt.Errorf("%w: no session", ErrUsage)
	}
	s.one[0] = Segment{Session: s, Tokens: tokens, Parents: parents, Logits: want}
	out, err := s.m.Forward(ctx, s.one[:])
	s.one[0] = Segment{}
	if err != nil {
		return Logits{}, err
	}
	return out[0].Logits, out[0].Err
}

// EvalSegment is [Session.Eval] with everything that a segment can ask for, such as hidden states. g.Session is not
// used. What it returns is valid until the session's next pass. If it fails, the session has not moved.
func (s *Session) EvalSegment(ctx context.Context, g Segment) (Result, error) {
	if s == nil || s.m == nil {
		return Result{}, fmt.Errorf("%w: no session", ErrUsage)
	}
	s.one[0], s.one[0].Session = g, s
	out, err := s.m.Forward(ctx, s.one[:])
	s.one[0] = Segment{}
	if err != nil {
		return Result{}, err
	}
	return out[0], out[0].Err
}
