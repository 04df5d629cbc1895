package engine

import (
	"errors"
	"fmt"

	"github.com/specgo/spec/engine/internal/panels"
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
	if len(p.hidden) > 0 {
		p.keep(i)
	}
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

// product is a linear map that takes part in a matmul: out [n][rows] = x Wᵀ · scale + bias.
type product struct {
	linear
	out  []float32
	rows *outputRows // of the matrix that take part; nil: all
}

// times is the product of a linear map and the input of a matmul.
func (l linear) times(out []float32) product { return product{linear: l, out: out} }

// matmul multiplies x [n][cols] with several matrices in one parallel phase, and adds what adapters give.
func (p *pass) matmul(x []float32, cols int, products ...product) {
	p.multiplied(x, cols, products...)
	if p.adapted.switched.of != nil {
		p.switchProducts(x, cols, products)
	}
}

// multiplied is matmul without the adapters of the model's own file.
func (p *pass) multiplied(x []float32, cols int, products ...product) {
	if p.err != nil {
		return
	}
	p.products = p.products[:0]
	for _, m := range products {
		o := p.operand(m)
		p.held.Want(o.W)
		p.products = append(p.products, o)
	}
	apart, err := p.held.Fetch(p.ctx)
	if err != nil {
		p.fail(err)
		return
	}
	if apart {
		for _, m := range products {
			p.multiplied(x, cols, m)
		}
		return
	}
	defer p.held.Release()
	if err = p.in.Set(p.t, x, len(x)/cols, cols); err == nil {
		err = p.t.MatMul(&p.in, p.products...)
	}
	if errors.Is(err, tensor.ErrNotFinite) && p.reject(x, cols) {
		if err = p.in.Set(p.t, x, len(x)/cols, cols); err == nil {
			err = p.t.MatMul(&p.in, p.products...)
		}
	}
	if p.fail(err); len(p.adapted.sets) > 0 {
		p.adapt(x, cols, products)
	}
	if p.watch != nil && p.err == nil {
		p.watch.add(x, cols, products)
	}
}

// matmulEach multiplies matrices of cols columns, each with a part of its own of x [len(products)][n][cols], in one
// parallel phase where that is possible.
func (p *pass) matmulEach(x []float32, cols int, products []product) {
	if p.err == nil && !p.together(x, cols, products) {
		n := len(x) / len(products)
		for i, m := range products {
			p.matmul(x[i*n:(i+1)*n], cols, m)
		}
	}
}

// together is matmulEach in one phase. It reports false where that is not possible: matrices on disk, adapters, a
// watch, or activations that are not finite.
func (p *pass) together(x []float32, cols int, products []product) bool {
	if len(p.adapted.sets) > 0 || p.adapted.switched.of != nil || p.watch != nil {
		return false
	}
	if len(p.eachInput) < len(products) {
		p.eachInput = make([]tensor.Input, len(products))
	}
	p.products = p.products[:0]
	n := len(x) / len(products)
	for i, m := range products {
		o := p.operand(m)
		if o.In = &p.eachInput[i]; panels.OnDisk(o.W) || o.In.Set(p.t, x[i*n:(i+1)*n], n/cols, cols) != nil {
			return false
		}
		p.products = append(p.products, o)
	}
	return p.t.MatMul(nil, p.products...) == nil
}

// operand is a product with the matrix that takes part in it in this pass.
func (p *pass) operand(m product) tensor.Product {
	if m.rows != nil {
		return tensor.Product{W: m.rows.w, Scale: m.scale, Bias: m.rows.b, Out: m.out}
	}
	return tensor.Product{W: p.form.of(m.w), Scale: m.scale, Bias: m.b, Out: m.out}
}

// reject fails the segments of the rows of x [n][cols] that are not finite and clears the rows, so that the others
// can go on. It reports whether there were any.
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
// out [rows][H][d] = softmax(q Kᵀ scale) V, every row on its own path. Rows of whole texts need no cache.
func (p *pass) attend(out []float32, cache int, o tensor.AttentionOptions, q, k, v []float32) {
	if p.texts != nil {
		if p.err == nil {
			heads := o.Heads * len(k) / len(q)
			p.fail(p.t.AttendTexts(out, q, k, v, heads, o, p.texts))
		}
		return
	}
	if k != nil {
		p.remember(cache, o.Layer, k, v)
	}
	if p.err == nil {
		p.fail(p.t.Attention(out, q, o, p.segments[cache]))
	}
}

// remember stores the round's keys and values in a layer of a cache.
func (p *pass) remember(cache, layer int, k, v []float32) {
	if p.err == nil {
		p.fail(p.t.StoreKV(layer, k, v, p.segments[cache]))
	}
}

// rope rotates every head of x [rows][heads][d] by the angles of its row's position.
func (p *pass) rope(style tensor.RopeStyle, x []float32, heads, headDim int, angles *tensor.RopeTable) {
	if p.err == nil {
		p.fail(p.t.Rope(style, x, heads, headDim, angles, p.positions))
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

// mulWeights multiplies every row of x by w.
func (p *pass) mulWeights(x, w []float32) {
	if p.err == nil {
		p.fail(p.t.MulWeights(x, w))
	}
}

// unzip takes both [n][2][width] apart into a and b [n][width].
func (p *pass) unzip(a, b, both []float32, width int) {
	for i := 0; i < len(a) && p.err == nil; i += width {
		copy(a[i:i+width], both[2*i:])
		copy(b[i:i+width], both[2*i+width:])
	}
}

// recur takes the round's rows through recurrent layer l: out [rows][output] of the parts of the inputs, each
// [rows][…].
func (p *pass) recur(l int, out []float32, in ...[]float32) {
	if p.err == nil {
		p.recurrent.Recur(l, out, in...)
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

// each is x[i] = f(x[i]).
func (p *pass) each(x []float32, f func(float32) float32) {
	if p.err == nil {
		p.fail(p.t.Map(x, f))
	}
}

// clamp limits x to -limit … limit; 0 leaves it as it is.
func (p *pass) clamp(x []float32, limit float32) {
	if p.err == nil && limit > 0 {
		p.fail(p.t.Clamp(x, limit))
	}
}

// cap limits x to -limit … limit by a tanh; 0 leaves it as it is.
func (p *pass) cap(x []float32, limit float32) {
	if p.err == nil && limit != 0 {
		p.fail(p.t.SoftCap(x, limit))
	}
}

// linear is a matrix [rows][cols], the factor of what it gives, and a bias [rows].
type linear struct {
	w     *tensor.Matrix
	scale float32   // 0: none
	b     []float32 // nil: none
}
