package engine

import (
	"errors"
	"fmt"

	"github.com/specgo/spec/tensor"
)

// The operations of a forward pass. They do nothing once one of them has failed, so that the
// architectures read like their papers; the pass's owner looks at p.err.

// layer begins layer i: it reports whether to go on, or to leave before it.
func (p *pass) layer(i int) bool {
	if p.err == nil {
		p.err = p.ctx.Err()
	}
	p.current = i
	if p.err != nil || i >= p.layers {
		return false
	}
	p.keep(i)
	return true
}

// fail keeps the first error, with the layer that it came from.
func (p *pass) fail(err error) {
	if err == nil || p.err != nil {
		return
	}
	p.err = fmt.Errorf("layer %d: %w", p.current, err)
}

// addPositions adds the position embeddings of the round's rows to x [rows][hidden size].
func (p *pass) addPositions(x, embeddings []float32) {
	width := len(x) / p.rows()
	for i, n := range p.positions {
		if p.err == nil {
			p.fail(p.t.Add(x[i*width:(i+1)*width], embeddings[int(n)*width:(int(n)+1)*width]))
		}
	}
}

// product is a linear map that takes part in a matmul: out [n][rows] = x Wᵀ + bias.
type product struct {
	linear
	out []float32
}

// times is the product of a linear map and the input of a matmul.
func (l linear) times(out []float32) product { return product{l, out} }

// matmul multiplies x [n][cols] with several matrices in one parallel phase.
func (p *pass) matmul(x []float32, cols int, products ...product) {
	if p.err != nil {
		return
	}
	if p.fetch(products) {
		for _, m := range products {
			p.matmul(x, cols, m)
		}
		return
	}
	defer p.unfetch()
	if p.err != nil {
		return
	}
	p.products = p.products[:0]
	for _, m := range products {
		p.products = append(p.products, tensor.Product{W: m.w, Bias: m.b, Out: m.out})
	}
	err := p.in.Set(p.t, x, len(x)/cols, cols)
	if err == nil {
		err = p.t.MatMul(&p.in, p.products...)
	}
	if errors.Is(err, tensor.ErrNotFinite) && p.reject(x, cols) {
		if err = p.in.Set(p.t, x, len(x)/cols, cols); err == nil {
			err = p.t.MatMul(&p.in, p.products...)
		}
	}
	p.fail(err)
}

// reject fails the segments of the rows of x [n][cols] that are not finite and clears the rows, so that the others can go on. It
// reports whether there were any.
func (p *pass) reject(x []float32, cols int) (found bool) {
	for i := 0; i*cols < len(x); i++ {
		row := x[i*cols : (i+1)*cols]
		if !tensor.Finite(row) {
			p.failRow(i, fmt.Errorf("layer %d: %w", p.current, ErrNotFinite))
			clear(row)
			found = true
		}
	}
	return found
}

// attend stores the round's keys and values in a cache, unless they are nil, and computes attention:
// out [rows][H][d] = softmax(q Kᵀ scale) V, every row on its own path.
func (p *pass) attend(out []float32, cache int, o tensor.AttentionOptions, q, k, v []float32) {
	if p.err == nil && k != nil {
		p.fail(p.t.StoreKV(o.Layer, k, v, p.segments[cache]))
	}
	if p.err == nil {
		p.fail(p.t.Attention(out, q, o, p.segments[cache]))
	}
}

// rope rotates every head of x [rows][heads][d] by the angles of its row's position.
func (p *pass) rope(x []float32, heads, headDim int, l *attention) {
	if p.err == nil {
		p.fail(p.t.Rope(l.style, x, heads, headDim, l.rope, p.positions))
	}
}

// normKind is a kind of normalization.
type normKind uint8

const (
	noNorm    normKind = iota
	rmsNorm            // Zhang and Sennrich 2019, arXiv:1910.07467
	layerNorm          // Ba, Kiros and Hinton 2016, arXiv:1607.06450
)

// norm normalizes rows of len(w) numbers.
type norm struct {
	kind normKind
	w, b []float32
	eps  float32
	own  []float32 // weights of several rows, one after the other, that w is too short for: those of each head
}

// norm normalizes the rows of x into dst, which may be x. Without a norm it copies.
func (p *pass) norm(dst, x []float32, n norm) {
	if p.err != nil {
		return
	}
	switch n.kind {
	case rmsNorm:
		p.fail(p.t.RMSNorm(dst, x, n.w, n.eps))
	case layerNorm:
		p.fail(p.t.LayerNorm(dst, x, n.w, n.b, n.eps))
	default:
		if &dst[0] != &x[0] {
			copy(dst, x)
		}
	}
	if n.own != nil && p.err == nil {
		p.fail(p.t.MulWeights(dst, n.own))
	}
}

// add is dst += x.
func (p *pass) add(dst, x []float32) {
	if p.err == nil {
		p.fail(p.t.Add(dst, x))
	}
}

// scale is x *= s; 0 and 1 leave x as it is.
func (p *pass) scale(x []float32, s float32) {
	if p.err == nil && s != 0 && s != 1 {
		p.fail(p.t.Scale(x, s))
	}
}

// mulRows multiplies row i of x by s[i].
func (p *pass) mulRows(x, s []float32) {
	if p.err == nil {
		p.fail(p.t.MulRows(x, s))
	}
}

// unzip takes both [n][2][width] apart into a and b [n][width].
func (p *pass) unzip(a, b, both []float32, width int) {
	for i := 0; i < len(a) && p.err == nil; i += width {
		copy(a[i:i+width], both[2*i:])
		copy(b[i:i+width], both[2*i+width:])
	}
}

// mul is dst ∘= x.
func (p *pass) mul(dst, x []float32) {
	if p.err == nil {
		p.fail(p.t.Mul(dst, x))
	}
}

// sigmoidMul is dst ∘= sigmoid(x).
func (p *pass) sigmoidMul(dst, x []float32) {
	if p.err == nil {
		p.fail(p.t.SigmoidMul(dst, x))
	}
}

// clamp limits x to -limit … limit.
func (p *pass) clamp(x []float32, limit float32) {
	if p.err == nil {
		p.fail(p.t.Clamp(x, limit))
	}
}

// cap limits x to -limit … limit by a tanh; 0 leaves it as it is.
func (p *pass) cap(x []float32, limit float32) {
	if p.err == nil && limit != 0 {
		p.fail(p.t.SoftCap(x, limit))
	}
}

// temperature makes attention sharper far from the beginning: q *= 1 + scale * ln(floor(position/original) + 1).
type temperature struct {
	scale    float32 // 0: none
	original int     // positions
}

// temper applies a temperature to q [rows][H][d].
func (p *pass) temper(q []float32, t temperature) {
	if t.scale == 0 || p.err != nil {
		return
	}
	s := p.matrix(&p.factors, 1)
	for i, position := range p.positions {
		s[i] = 1 + float32(t.scale*tensor.Log(float32(int(position)/t.original+1)))
	}
	p.mulRows(q, s)
}

// activation is the nonlinearity of a feed-forward.
type activation uint8

const (
	silu        activation = iota // Shazeer 2020, arXiv:2002.05202 (with a gate: SwiGLU)
	gelu                          // the tanh form (with a gate: GEGLU)
	reluSquared                   // So et al. 2021, arXiv:2109.08668
	clampedSiLU                   // gpt-oss, with a gate only
	relu                          // Nair and Hinton 2010
)

// activate is x = act(x).
func (p *pass) activate(x []float32, act activation) {
	switch {
	case p.err != nil:
	case act == gelu:
		p.fail(p.t.GELU(x, x))
	case act == reluSquared:
		p.fail(p.t.ReLUSquared(x))
	case act == relu:
		p.fail(p.t.ReLU(x))
	default:
		p.fail(errors.New("an activation that needs a gate"))
	}
}

// gateMul is gate = act(gate) ∘ up.
func (p *pass) gateMul(gate, up []float32, act activation) {
	if p.err != nil {
		return
	}
	if act == silu {
		p.fail(p.t.SiLUMul(gate, gate, up))
		return
	}
	if act == clampedSiLU {
		p.fail(p.t.ClampedSwiGLU(gate, up, 1.702, 7))
		return
	}
	if p.activate(gate, act); p.err == nil {
		p.fail(p.t.Mul(gate, up))
	}
}
