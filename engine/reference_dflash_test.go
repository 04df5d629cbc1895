package engine

import (
	"fmt"
	"math"
	"slices"
)

// block computes a DFlash head's block in float64: states[p] is what the target gives at token p of the text, ids are
// the block's tokens, which come after them. It returns the logits at each of the block's tokens.
func (r *reference) block(target *reference, states [][]float64, ids []int32) (logits [][]float64) {
	width, heads := r.integer("embedding_length", 0), r.integer("attention.head_count", 0)
	kvHeads, dim := r.integer("attention.head_count_kv", heads), r.integer("attention.key_length", width/heads)
	var x [][]float64
	for _, id := range ids {
		x = append(x, slices.Clone(target.t["token_embd.weight"][int(id)*width:][:width]))
	}
	var read [][]float64
	for _, s := range states {
		read = append(read, r.norm("enc.output_norm", r.linear("fc", s)))
	}
	for l := range r.integer("block_count", 0) {
		b, window := fmt.Sprintf("blk.%d.", l), r.blockWindow(l)
		var keys, values, queries [][]float64
		see := func(h []float64) {
			k := r.headNorm(b+"attn_k_norm", r.linear(b+"attn_k", h), dim)
			r.rotate(k, dim, len(keys), l)
			keys, values = append(keys, k), append(values, r.linear(b+"attn_v", h))
		}
		for _, g := range read {
			see(g)
		}
		for _, row := range x {
			h := r.norm(b+"attn_norm", row)
			q := r.headNorm(b+"attn_q_norm", r.linear(b+"attn_q", h), dim)
			r.rotate(q, dim, len(keys), l)
			queries = append(queries, q)
			see(h)
		}
		for i, q := range queries {
			a := make([]float64, heads*dim)
			for head := range heads {
				at := head / (heads / kvHeads) * dim
				first := max(0, len(states)+i+1-window)
				scores := make([]float64, len(keys)-first)
				for j := range scores {
					for d := range dim {
						scores[j] += q[head*dim+d] * keys[first+j][at+d] / math.Sqrt(float64(dim))
					}
				}
				for j, weight := range softmax(scores) {
					for d := range dim {
						a[head*dim+d] += weight * values[first+j][at+d]
					}
				}
			}
			addTo(x[i], r.linear(b+"attn_output", a))
			addTo(x[i], r.feedForward(b, "", r.norm(b+"ffn_norm", x[i])))
		}
	}
	output := "token_embd.weight"
	if target.t["output.weight"] != nil {
		output = "output.weight"
	}
	for _, row := range x {
		logits = append(logits, r.matrix(target.t[output], nil, r.norm("output_norm", row)))
	}
	return logits
}

// blockWindow is the last positions that a row of a DFlash head's layer sees, its own included, beside those after it.
func (r *reference) blockWindow(layer int) int {
	pattern, _ := r.f.Value(r.arch + ".attention.sliding_window_pattern")
	switch list, ok := pattern.([]bool); {
	case ok && list[layer], !ok && r.number("attention.sliding_window_pattern", 0) > 0:
		return r.integer("attention.sliding_window", 0)
	}
	return math.MaxInt32
}

// follow adds to the logits of a DSpark head's block after the token last what the tokens before give.
func (r *reference) follow(logits [][]float64, last int) {
	rank := len(r.t["markov_w1.weight"]) / len(logits[0])
	for _, row := range logits {
		addTo(row, r.matrix(r.t["markov_w2.weight"], nil, r.t["markov_w1.weight"][last*rank:][:rank]))
		for id, x := range row {
			if id == 0 || x > row[last] {
				last = id
			}
		}
	}
}
