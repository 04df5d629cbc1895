package engine

import (
	"slices"

	"github.com/specgo/spec/tensor"
)

// normKind is a kind of normalization.
type normKind interface {
	epsilon() string                                            // the key of its epsilon
	read(l *loader, name string, n int) (w, b []float32)        // weights and biases of a norm over n numbers
	apply(t *tensor.Runtime, dst, x []float32, norm norm) error // normalizes the rows of x into dst, which may be x
}

// rmsNorm divides by the root mean square (Zhang and Sennrich 2019, arXiv:1910.07467).
type rmsNorm struct{}

func (rmsNorm) epsilon() string { return "attention.layer_norm_rms_epsilon" }

func (rmsNorm) read(l *loader, name string, n int) (w, b []float32) {
	return l.vector(name+".weight", n), nil
}

func (rmsNorm) apply(t *tensor.Runtime, dst, x []float32, n norm) error {
	return t.RMSNorm(dst, x, n.w, n.eps)
}

// layerNorm is LayerNorm (Ba, Kiros and Hinton 2016, arXiv:1607.06450), with or without biases.
type layerNorm struct{}

func (layerNorm) epsilon() string { return "attention.layer_norm_epsilon" }

func (layerNorm) read(l *loader, name string, n int) (w, b []float32) {
	return l.vector(name+".weight", n), l.biases(name, n)
}

func (layerNorm) apply(t *tensor.Runtime, dst, x []float32, n norm) error {
	return t.LayerNorm(dst, x, n.w, n.b, n.eps)
}

// biases reads name.bias; zeros if it is not there.
func (l *loader) biases(name string, n int) []float32 {
	if b := l.optional(name+".bias", n); b != nil {
		return b
	}
	return make([]float32, n)
}

// ones are the weights of a norm that has none.
func ones(n int) []float32 { return slices.Repeat([]float32{1}, n) }

// norm normalizes rows of len(w) numbers. The zero value does nothing.
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
	if n.kind != nil {
		p.fail(n.kind.apply(p.t, dst, x, n))
	} else if &dst[0] != &x[0] {
		copy(dst, x)
	}
	if n.own != nil && p.err == nil {
		p.fail(p.t.MulWeights(dst, n.own))
	}
}
