package engine

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/tensor"
)

// admitHidden checks what hidden states segment g of n tokens wants, makes room for them, and returns their number of
// rows.
func (m *Model) admitHidden(g *Segment, n int) (rows int, err error) {
	rows = int(g.Hidden)
	if g.Hidden == All {
		rows = n
	}
	if rows < 0 || rows > n {
		return 0, fmt.Errorf("%w: hidden states of %d positions wanted, %d tokens", ErrUsage, rows, n)
	}
	for _, k := range g.Layers {
		if m.head != nil {
			if err := m.head.gives(g.Session, k); err != nil {
				return 0, err
			}
		}
		if (k < 0 || k > g.Session.layers) && k != FinalNorm {
			return 0, fmt.Errorf("%w: hidden states of layer %d wanted, the session computes 0 to %d", ErrUsage, k,
				g.Session.layers)
		}
	}
	size := m.StateSize(g.Layers)
	for _, k := range g.Layers {
		if n := m.StateSize([]int{k}); n != size {
			return 0, fmt.Errorf("%w: hidden states of %d and of %d numbers wanted, of layers %d: those after the final norm "+
				"have another size in this model", ErrUsage, size, n, g.Layers)
		}
	}
	sized(&g.Session.hidden, rows*len(g.Layers)*size)
	return rows, nil
}

// keep copies the states before layer k, which are in p.x, to the sessions that want them. Those that are not finite
// fail their segment.
func (p *pass) keep(k int) {
	for i := range p.hidden {
		if r := &p.hidden[i]; p.err == nil {
			d := len(p.x) / len(p.tokens)
			p.deliverState(r, k, p.x[r.row*d:(r.row+1)*d])
		}
	}
}

// keepNormed is keep for the states after the final norm.
func (p *pass) keepNormed(m *Model) {
	if p.err != nil {
		return
	}
	d, n := len(p.x)/len(p.tokens), 0
	h := sized(&p.h, len(p.hidden)*d)
	p.given = p.given[:0]
	for i := range p.hidden {
		if r := &p.hidden[i]; slices.Contains(r.layers, FinalNorm) {
			copy(h[n*d:(n+1)*d], p.x[r.row*d:])
			p.given = append(p.given, int32(r.row))
			n++
		}
	}
	if n == 0 {
		return
	}
	h = m.net.finalNorm(p, h[:n*d])
	if m.head != nil {
		h = m.head.next(p, h)
	}
	d = len(h) / n
	n = 0
	for i := range p.hidden {
		if r := &p.hidden[i]; p.err == nil && slices.Contains(r.layers, FinalNorm) {
			p.deliverState(r, FinalNorm, h[n*d:(n+1)*d])
			n++
		}
	}
}

func (p *pass) deliverState(r *hiddenRow, k int, x []float32) {
	for j, layer := range r.layers {
		if layer != k {
			continue
		}
		if e := &p.results[r.segment].Err; *e == nil && !tensor.Finite(x) {
			*e = fmt.Errorf("hidden states of layer %d: %w", k, ErrNotFinite)
		}
		copy(r.s.hidden[(r.index*len(r.layers)+j)*len(x):], x)
	}
}
