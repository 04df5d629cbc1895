package engine

import (
	"cmp"
	"math"
	"slices"
)

// experts is a mixture of experts: the sum of those that the router ranks highest by what it reads, and a shared one.
func (r *reference) experts(b string, h, by []float64) []float64 {
	logits, n, used := r.linear(b+"ffn_gate_inp", by), r.integer("expert_count", 0), r.integer("expert_used_count", 0)
	p := logits
	switch r.arch {
	case "gpt-oss":
	case "lfm2moe":
		p = slices.Clone(logits)
		for i, z := range p {
			p[i] = sigmoid(z)
		}
	default:
		p = softmax(logits)
	}
	rank := slices.Clone(p)
	addTo(rank, r.t[b+"exp_probs_b.bias"])
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(rank[j], rank[i]) })
	var w []float64
	for _, e := range order[:used] {
		w = append(w, p[e])
	}
	if r.arch == "gpt-oss" {
		w = softmax(w)
	}
	if !r.is("olmoe", "qwen2moe", "gpt-oss") {
		sum := 0.0
		for _, v := range w {
			sum += v
		}
		for i := range w {
			w[i] /= math.Max(sum, 1.0/(1<<14))
		}
	}
	scale := r.number("expert_weights_scale", 0)
	if scale == 0 {
		scale = 1
	}
	y := make([]float64, len(h))
	for i, e := range order[:used] {
		gate, up := r.expert(b+"ffn_gate_exps", e, n, h), r.expert(b+"ffn_up_exps", e, n, h)
		if r.t[b+"ffn_gate_up_exps.weight"] != nil {
			both := r.expert(b+"ffn_gate_up_exps", e, n, h)
			gate, up = both[:len(both)/2], both[len(both)/2:]
		}
		for j, v := range r.expert(b+"ffn_down_exps", e, n, r.gated(gate, up)) {
			y[j] += w[i] * scale * v
		}
	}
	if r.t[b+"ffn_up_shexp.weight"] != nil {
		gate := 1.0
		if g := r.t[b+"ffn_gate_inp_shexp.weight"]; g != nil {
			gate = sigmoid(r.matrix(g, nil, h)[0])
		}
		for j, v := range r.feedForward(b, "_shexp", h) {
			y[j] += gate * v
		}
	}
	return y
}
