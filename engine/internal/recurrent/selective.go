package recurrent

import "github.com/specgo/spec/tensor"

// Selective is the scan of Mamba (Gu and Dao 2023, arXiv:2312.00752) as a recurrence. A unit is some of the channels,
// each of which has S numbers of state. A token's input is u [I], the steps [I], and B and C [2][S].
type Selective struct {
	channels, keys, units int
	a                     []float32 // [channels][S]
	skip                  []float32 // [channels]
}

// NewSelective makes the recurrence of A [channels][keys] and D [channels].
func NewSelective(channels, keys int, a, skip []float32) *Selective {
	return &Selective{channels: channels, keys: keys, units: unitsOf(channels), a: a, skip: skip}
}

func (m *Selective) shape() sizes {
	return sizes{units: m.units, state: m.channels / m.units * m.keys,
		inputs: [inputParts]int{m.channels, m.channels, 2 * m.keys}, output: m.channels}
}

// scan is, for each token, channel i and number s of its state, ascending,
//
//	state[i][s] = fma(state[i][s], exp(step*A[i][s]), (step*u[i])*B[s])
//	out[i] = fma(D[i], u[i], sum over s of state[i][s]*C[s]), the sum by fma from +0
func (m *Selective) scan(_ *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32, _ *scanScratch) {
	n := m.channels / m.units
	for t := range in {
		u, steps, b, c := in[t][0], in[t][1], in[t][2][:m.keys], in[t][2][m.keys:]
		for j := range n {
			i := unit*n + j
			a, x := m.a[i*m.keys:(i+1)*m.keys], state[j*m.keys:(j+1)*m.keys]
			step, sum := steps[i], float32(0)
			add := float32(step * u[i])
			for s := range x {
				x[s] = tensor.FMA(x[s], tensor.Exp(float32(step*a[s])), float32(add*b[s]))
				sum = tensor.FMA(x[s], c[s], sum)
			}
			if out != nil {
				out[t*m.channels+i] = tensor.FMA(m.skip[i], u[i], sum)
			}
		}
	}
}
