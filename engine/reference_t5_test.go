package engine

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// t5Reference computes a model in float64 by the formulas of the paper, with naive loops.
type t5Reference struct {
	*reference
	heads, dim, width int
	eps               float64
}

func newT5Reference(tb testing.TB, file []byte) *t5Reference {
	r := &t5Reference{reference: newReference(tb, file)}
	r.heads, r.dim, r.width = r.integer("attention.head_count", 0), r.integer("attention.key_length", 0),
		r.integer("embedding_length", 0)
	r.eps = r.number("attention.layer_norm_rms_epsilon", 0)
	return r
}

func (r *t5Reference) norm(x []float64, name string) []float64 {
	squares := 0.0
	for _, v := range x {
		squares += v * v
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v / math.Sqrt(squares/float64(len(x))+r.eps) * r.t[name+".weight"][i]
	}
	return y
}

// bucket is the published formula, with logarithms.
func (r *t5Reference) bucket(distance int, both bool) int {
	n := r.integer("attention.relative_buckets_count", 0)
	base, a := 0, max(0, -distance)
	if both {
		if n /= 2; distance > 0 {
			base = n
		}
		a = max(distance, -distance)
	}
	exact := n / 2
	if a < exact {
		return base + a
	}
	far := math.Log(float64(a)/float64(exact)) / math.Log(128/float64(exact)) * float64(n-exact)
	return base + min(n-1, exact+int(far+1e-12)) // the exact powers of two are on the border
}

// attend is attention of the rows x to the rows y. stack is "enc" or "dec" for attention with biases, "" for
// cross-attention.
func (r *t5Reference) attend(name string, x, y [][]float64, stack string) [][]float64 {
	project := func(part string, rows [][]float64) (out [][]float64) {
		for _, row := range rows {
			out = append(out, r.linear(name+part, row))
		}
		return out
	}
	q, k, v := project("_q", x), project("_k", y), project("_v", y)
	var bias []float64
	if stack != "" {
		if bias = r.t[name+"_rel_b.weight"]; bias == nil {
			bias = r.t[stack+".blk.0.attn_rel_b.weight"]
		}
	}
	out := make([][]float64, len(x))
	for i := range x {
		all := make([]float64, r.heads*r.dim)
		for h := range r.heads {
			var scores []float64
			for j := range y {
				if stack == "dec" && j > i {
					break
				}
				s := 0.0
				for d := h * r.dim; d < (h+1)*r.dim; d++ {
					s += q[i][d] * k[j][d]
				}
				if bias != nil {
					s += bias[r.bucket(j-i, stack == "enc")*r.heads+h]
				}
				scores = append(scores, s)
			}
			most, sum := slices.Max(scores), 0.0
			for j, s := range scores {
				scores[j] = math.Exp(s - most)
				sum += scores[j]
			}
			for j, p := range scores {
				for d := h * r.dim; d < (h+1)*r.dim; d++ {
					all[d] += p / sum * v[j][d]
				}
			}
		}
		out[i] = r.linear(name+"_o", all)
	}
	return out
}

// stack is the blocks of "enc" or "dec"; states are the encoder's, for the decoder.
func (r *t5Reference) stack(name string, blocks int, ids []int32, states [][]float64) [][]float64 {
	var x [][]float64
	for _, id := range ids {
		x = append(x, slices.Clone(r.t["token_embd.weight"][int(id)*r.width:(int(id)+1)*r.width]))
	}
	normed := func(n string) (h [][]float64) {
		for _, row := range x {
			h = append(h, r.norm(row, n))
		}
		return h
	}
	add := func(y [][]float64) {
		for i := range x {
			addTo(x[i], y[i])
		}
	}
	for i := range blocks {
		b := fmt.Sprintf("%s.blk.%d.", name, i)
		h := normed(b + "attn_norm")
		add(r.attend(b+"attn", h, h, name))
		if states != nil {
			add(r.attend(b+"cross_attn", normed(b+"cross_attn_norm"), states, ""))
		}
		for j, h := range normed(b + "ffn_norm") {
			up := r.linear(b+"ffn_up", h)
			if r.t[b+"ffn_gate.weight"] != nil {
				for k, g := range r.linear(b+"ffn_gate", h) {
					up[k] *= 0.5 * g * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g)))
				}
			} else {
				for k := range up {
					up[k] = math.Max(up[k], 0)
				}
			}
			addTo(x[j], r.linear(b+"ffn_down", up))
		}
	}
	return normed(name + ".output_norm")
}

func (r *t5Reference) encode(ids []int32) [][]float64 {
	return r.stack("enc", r.integer("block_count", 0), ids, nil)
}

func (r *t5Reference) logits(input, ids []int32) (out []float64) {
	blocks := r.integer("decoder_block_count", r.integer("block_count", 0))
	for _, y := range r.stack("dec", blocks, ids, r.encode(input)) {
		if r.t["output.weight"] != nil {
			out = append(out, r.linear("output", y)...)
			continue
		}
		for _, logit := range r.linear("token_embd", y) {
			out = append(out, logit/math.Sqrt(float64(r.width)))
		}
	}
	return out
}
