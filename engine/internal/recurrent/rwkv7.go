package recurrent

import "github.com/specgo/spec/tensor"

// RWKV7 is the state of RWKV-7 (Peng et al. 2025, arXiv:2503.14456) as a recurrence. A unit is a head, its state
// [S values][S keys]. A token's input is r, w, k, v, kappa before it has its length, and a, each [H*S].
type RWKV7 struct{ heads, size int }

// NewRWKV7 makes the recurrence of so many heads.
func NewRWKV7(heads, size int) *RWKV7 { return &RWKV7{heads, size} }

func (m *RWKV7) shape() sizes {
	n := m.heads * m.size
	return sizes{units: m.heads, state: m.size * m.size, inputs: [inputParts]int{6 * n}, output: n, scratch: 2 * m.size}
}

// scan is, for each token, with kappa divided by its length (at least 1e-12), and every row M of the state, ascending,
//
//	z = sum over s of M[s]*kappa[s], by fma from +0
//	M[s] = fma(-z, kappa[s]*a[s], fma(v, k[s], M[s]*w[s]))
//	out = sum over s of M[s]*r[s], likewise
func (m *RWKV7) scan(t *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32,
	scratch *scanScratch) {
	n, s := m.heads*m.size, m.size
	kappa, replaced := scratch.numbers[:s], scratch.numbers[s:2*s]
	for i := range in {
		part := func(j int) []float32 { return in[i][0][j*n+unit*s:][:s] }
		r, w, k, v, a := part(0), part(1), part(2), part(3), part(5)
		copy(kappa, part(4))
		t.L2Norm(kappa, 1e-12)
		for j := range replaced {
			replaced[j] = kappa[j] * a[j]
		}
		for j := range s {
			row := state[j*s : (j+1)*s]
			z, sum := float32(0), float32(0)
			for d, x := range row {
				z = tensor.FMA(x, kappa[d], z)
			}
			for d, x := range row {
				row[d] = tensor.FMA(-z, replaced[d], tensor.FMA(v[j], k[d], float32(x*w[d])))
				sum = tensor.FMA(row[d], r[d], sum)
			}
			if out != nil {
				out[i*n+unit*s+j] = sum
			}
		}
	}
}
