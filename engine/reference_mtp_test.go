package engine

import (
	"fmt"
	"math"
	"slices"
)

// mtpPair is what goes into an MTP block at a position.
type mtpPair struct {
	id int32
	h  []float64
}

// mtpBlock computes block l of a qwen35 model on the pairs of all positions, from nothing, and returns the state and
// the logits at the last one.
func (r *reference) mtpBlock(l int, pairs []mtpPair) (h, logits []float64) {
	b, width, heads := fmt.Sprintf("blk.%d.", l), r.integer("embedding_length", 0), r.integer("attention.head_count", 0)
	kvHeads, dim := r.integer("attention.head_count_kv", heads), width/heads
	either := func(name, other string) []float64 {
		if r.t[b+name] != nil {
			return r.t[b+name]
		}
		return r.t[other]
	}
	var keys, values [][]float64
	var x []float64
	for position, p := range pairs {
		e := either("nextn.embed_tokens.weight", "token_embd.weight")[int(p.id)*width:][:width]
		x = r.linear(b+"nextn.eh_proj", slices.Concat(r.norm(b+"nextn.enorm", e), r.norm(b+"nextn.hnorm", p.h)))
		h := r.norm(b+"attn_norm", x)
		var q, gates []float64
		both := r.linear(b+"attn_q", h)
		for at := 0; at < len(both); at += 2 * dim {
			q, gates = append(q, both[at:at+dim]...), append(gates, both[at+dim:at+2*dim]...)
		}
		q, k := r.headNorm(b+"attn_q_norm", q, dim), r.headNorm(b+"attn_k_norm", r.linear(b+"attn_k", h), dim)
		r.rotate(q, dim, position, l)
		r.rotate(k, dim, position, l)
		keys, values = append(keys, k), append(values, r.linear(b+"attn_v", h))
		a := make([]float64, heads*dim)
		for head := range heads {
			at := head / (heads / kvHeads) * dim
			scores := make([]float64, position+1)
			for j := range scores {
				for d := range dim {
					scores[j] += q[head*dim+d] * keys[j][at+d] / math.Sqrt(float64(dim))
				}
			}
			for j, weight := range softmax(scores) {
				for d := range dim {
					a[head*dim+d] += weight * values[j][at+d]
				}
			}
		}
		for i, g := range gates {
			a[i] *= sigmoid(g)
		}
		addTo(x, r.linear(b+"attn_output", a))
		h = r.norm(b+"post_attention_norm", x)
		if r.t[b+"ffn_gate_inp.weight"] != nil {
			addTo(x, r.experts(b, h, h))
		} else {
			addTo(x, r.feedForward(b, "", h))
		}
	}
	h = r.normalize(x, either("nextn.shared_head_norm.weight", "output_norm.weight"), nil)
	output := "token_embd.weight"
	if r.t["output.weight"] != nil {
		output = "output.weight"
	}
	return h, r.matrix(either("nextn.shared_head_head.weight", output), nil, h)
}

// draft is a draft of a model with several MTP blocks: text is the pairs of the text, with the model's own states,
// drafted the tokens that are chosen. The first block reads the text; every further one reads the text as well and
// then the drafted tokens, each with the state that the block before it ended with.
func (r *reference) draft(text []mtpPair, drafted []int32) (states, logits [][]float64) {
	pairs := slices.Clone(text)
	first := r.integer("block_count", 0) - r.integer("nextn_predict_layers", 0)
	for j := 0; ; j++ {
		h, y := r.mtpBlock(first+j, pairs)
		states, logits = append(states, h), append(logits, y)
		if j == len(drafted) {
			return states, logits
		}
		pairs = append(pairs, mtpPair{drafted[j], h})
	}
}
