package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/tensor"
)

// FinalNorm in [Segment].Layers stands for the hidden states after the final norm, which the output matrix is multiplied with.
const FinalNorm = -1

// HiddenStates are the hidden states that a segment asked for, in the order of its tokens.
type HiddenStates struct {
	Size   int       // numbers of a hidden state: [Config].HiddenSize; of heads with [Head].SharesCache their target's
	Layers []int     // whose states they are: the segment's
	Data   []float32 // [row][layer][Size]
}

// Rows is the number of positions.
func (h HiddenStates) Rows() int {
	if len(h.Layers) == 0 {
		return 0
	}
	return len(h.Data) / (h.Size * len(h.Layers))
}

// Row is all states of the i-th position, in the order of Layers.
func (h HiddenStates) Row(i int) []float32 {
	n := h.Size * len(h.Layers)
	return h.Data[i*n : (i+1)*n : (i+1)*n]
}

// At is the state of the i-th position at Layers[j].
func (h HiddenStates) At(i, j int) []float32 {
	from := (i*len(h.Layers) + j) * h.Size
	return h.Data[from : from+h.Size : from+h.Size]
}

// hiddenRow is a row whose hidden states are wanted, and where they go: row index of s.hidden.
type hiddenRow struct {
	row     int
	segment int // of the batch
	s       *Session
	index   int
	layers  []int
}

// admitHidden checks what hidden states segment g of n tokens wants, makes room for them, and returns their number of rows.
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
			return 0, fmt.Errorf("%w: hidden states of layer %d wanted, the session computes 0 to %d", ErrUsage, k, g.Session.layers)
		}
	}
	sized(&g.Session.hidden, rows*len(g.Layers)*m.stateSize())
	return rows, nil
}

// keep copies the states before layer k, which are in p.x, to the sessions that want them. Those that are not finite fail their
// segment.
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
	h = h[:n*d]
	m.net.finalNorm(p, h)
	if m.head != nil {
		h, d = m.head.next(p, h), m.stateSize()
	}
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

// EvalSegment is [Session.Eval] with everything that a segment can ask for, such as hidden states. g.Session is not used. What
// it returns is valid until the session's next pass. If it fails, the session has not moved.
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
