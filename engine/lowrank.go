package engine

import (
	"errors"
	"fmt"

	"github.com/specgo/spec/tensor"
)

// The products of adapters. The matrices of the model are multiplied with all rows of a pass; then, for each set of
// adapters in the pass, its rows with the adapters of the set. A row's result is
//
//	y = (s W x + bias) + B₁ (c₁ (A₁ x)) + B₂ (c₂ (A₂ x)) + …
//
// from left to right, in the order of the set, with c = float32(s·alpha/r). Every product adds up its terms in order by
// fma, as those of float weights do, so that a row's bits depend on nothing but x and the set.

// lowRanks are the sets of adapters of a pass, and the scratch memory of their products.
type lowRanks struct {
	sets     []*AdapterSet // [segments of the batch], equal ones are the same; nil: no adapters
	distinct []*AdapterSet // each once

	rows     []int     // of one set
	parts    []applied // that it changes products by
	x        []float32 // [rows][cols], where rows are not neighbours
	low      []float32 // [rows][r] of one part after the other
	out      []float32 // [rows][rows of B]
	some     []float32 // [rows][W] of it, where a product is with rows of a matrix alone
	in       tensor.Input
	products []tensor.Product

	switched switchedRows // the adapters that a model has in its file
}

// applied is the change of one of a matmul's products.
type applied struct {
	change
	scale   float32 // c
	product int
	low     []float32 // [rows][r]
}

// add notes the set of a segment, one of n.
func (l *lowRanks) add(segment, n int, set *AdapterSet) {
	if set.n == 0 {
		return
	}
	if len(l.sets) == 0 {
		clear(sized(&l.sets, n))
	}
	for _, o := range l.distinct {
		if *o == *set {
			l.sets[segment] = o
			return
		}
	}
	l.distinct = append(l.distinct, set)
	l.sets[segment] = set
}

// end drops the references to what belongs to callers.
func (l *lowRanks) end() {
	if len(l.sets) > 0 {
		clear(l.sets)
		clear(l.distinct)
		clear(l.parts[:cap(l.parts)])
		clear(l.products[:cap(l.products)])
		l.sets, l.distinct, l.parts, l.products = l.sets[:0], l.distinct[:0], l.parts[:0], l.products[:0]
	}
}

// adapt adds to products of x [n][cols] what the adapters of each row give.
func (p *pass) adapt(x []float32, cols int, products []product) {
	if p.err != nil {
		return
	}
	n, all := len(x)/cols, p.rows()
	if p.projected != nil {
		all = len(p.projected)
	}
	if n != all {
		p.fail(errors.New("adapters of a product whose rows are not the pass's"))
		return
	}
	l := &p.adapted
	for _, set := range l.distinct {
		l.rows = l.rows[:0]
		for i := range n {
			if l.sets[p.segmentOf(i)] == set {
				l.rows = append(l.rows, i)
			}
		}
		if len(l.rows) > 0 {
			p.adaptRows(set, x, cols, products)
		}
	}
}

// adaptRows adds what the adapters of a set give for l.rows.
func (p *pass) adaptRows(set *AdapterSet, x []float32, cols int, products []product) {
	l := &p.adapted
	l.find(set, products)
	if len(l.parts) == 0 {
		return
	}
	n, first, run := len(l.rows), l.rows[0], l.neighbours()
	if run {
		x = x[first*cols : (first+n)*cols]
	} else {
		gathered := sized(&l.x, n*cols)
		for i, row := range l.rows {
			copy(gathered[i*cols:(i+1)*cols], x[row*cols:])
		}
		x = gathered
	}
	if p.lower(x, cols); p.err != nil {
		return
	}
	for i := range l.parts {
		a := &l.parts[i]
		p.limitLow(a)
		width := a.b.Rows()
		y := sized(&l.out, n*width)
		p.multiply(a.low, a.b.Cols(), tensor.Product{W: a.b, Out: y})
		if p.err != nil {
			return
		}
		out, rows := products[a.product].out, products[a.product].rows
		if rows != nil {
			y, width = rows.of(&l.some, y, width), len(rows.ids)
		}
		if run {
			p.add(out[first*width:(first+n)*width], y)
			continue
		}
		for i, row := range l.rows {
			p.add(out[row*width:(row+1)*width], y[i*width:(i+1)*width])
		}
	}
}

// find fills l.parts with what a set changes of products, in the order of the set.
func (l *lowRanks) find(set *AdapterSet, products []product) {
	l.parts = l.parts[:0]
	for _, s := range set.list[:set.n] {
		for j := range products {
			if w, ok := s.Adapter.parts[products[j].w]; ok {
				l.parts = append(l.parts, applied{change: w, scale: float32(float64(s.Scale) * w.factor), product: j})
			}
		}
	}
}

// neighbours reports whether l.rows follow each other.
func (l *lowRanks) neighbours() bool { return l.rows[len(l.rows)-1]-l.rows[0] == len(l.rows)-1 }

// lower computes c (A x) of the parts for x [n][cols], in one parallel phase.
func (p *pass) lower(x []float32, cols int) {
	l, size, n := &p.adapted, 0, len(x)/cols
	for i := range l.parts {
		size += n * l.parts[i].a.Rows()
	}
	low := sized(&l.low, size)
	l.products = l.products[:0]
	for i := range l.parts {
		a := &l.parts[i]
		a.low, low = low[:n*a.a.Rows()], low[n*a.a.Rows():]
		l.products = append(l.products, tensor.Product{W: a.a, Out: a.low})
	}
	p.multiply(x, cols, l.products...)
	for i := range l.parts {
		p.scale(l.parts[i].low, l.parts[i].scale)
	}
}

// limitLow fails the segments of rows whose A x is not finite, and clears the rows so that the others can go on.
func (p *pass) limitLow(a *applied) {
	r := a.a.Rows()
	for i, row := range p.adapted.rows {
		if low := a.low[i*r : (i+1)*r]; !tensor.Finite(low) {
			p.failRow(row, fmt.Errorf("layer %d: adapter: %w", p.current, ErrNotFinite))
			clear(low)
		}
	}
}

// multiply multiplies x [n][cols] with matrices of adapters.
func (p *pass) multiply(x []float32, cols int, products ...tensor.Product) {
	if p.err != nil {
		return
	}
	in := &p.adapted.in
	err := in.Set(p.t, x, len(x)/cols, cols)
	if err == nil {
		err = p.t.MatMul(in, products...)
	}
	p.fail(err)
}
