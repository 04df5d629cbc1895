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
	return p.err == nil && i < p.layers
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

// product is a matrix [rows][cols] that takes part in a matmul: out [n][rows] = x Wᵀ + bias.
type product struct {
	w    *tensor.Matrix
	bias []float32 // nil: none
	out  []float32
}

// matmul multiplies x [n][cols] with several matrices in one parallel phase.
func (p *pass) matmul(x []float32, cols int, products ...product) {
	if p.err != nil {
		return
	}
	p.products = p.products[:0]
	for _, m := range products {
		p.products = append(p.products, tensor.Product{W: m.w, Bias: m.bias, Out: m.out})
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

// attend stores the round's keys and values in the caches and computes attention:
// out [rows][heads][head size] = softmax(q Kᵀ scale) V, every row on its own path.
func (p *pass) attend(out []float32, layer, heads int, scale float32, q, k, v []float32) {
	if p.err == nil {
		p.fail(p.t.StoreKV(layer, k, v, p.segments))
	}
	if p.err == nil {
		p.fail(p.t.Attention(out, q, tensor.AttentionOptions{Layer: layer, Heads: heads, Scale: scale}, p.segments))
	}
}

// rope rotates every head of x [rows][heads][head size] by the angles of its row's position.
func (p *pass) rope(x []float32, heads, headDim int, t *tensor.RopeTable) {
	if p.err == nil {
		p.fail(p.t.Rope(tensor.RopeInterleaved, x, heads, headDim, t, p.positions))
	}
}

// rmsNorm normalizes the rows of x [n][hidden size] into dst.
func (p *pass) rmsNorm(dst, x, w []float32, eps float32) {
	if p.err == nil {
		p.fail(p.t.RMSNorm(dst, x, w, eps))
	}
}

// layerNorm normalizes the rows of x [n][hidden size] into dst.
func (p *pass) layerNorm(dst, x []float32, n norm, eps float32) {
	if p.err == nil {
		p.fail(p.t.LayerNorm(dst, x, n.w, n.b, eps))
	}
}

// add is dst += x.
func (p *pass) add(dst, x []float32) {
	if p.err == nil {
		p.fail(p.t.Add(dst, x))
	}
}

// siluMul is dst = gate / (1 + exp(-gate)) * up.
func (p *pass) siluMul(dst, gate, up []float32) {
	if p.err == nil {
		p.fail(p.t.SiLUMul(dst, gate, up))
	}
}

// gelu is dst = GELU(x), the tanh form.
func (p *pass) gelu(dst, x []float32) {
	if p.err == nil {
		p.fail(p.t.GELU(dst, x))
	}
}
