package engine

import (
	"math"
	"slices"
)

// The recurrent layers of the reference: sums over the whole text where the engine keeps a state.

// recurrentLayer reports whether a layer has no attention.
func (r *reference) recurrentLayer(l int) bool {
	if r.is("qwen35", "qwen35moe") {
		if list, ok := r.f.Value(r.arch + ".attention.recurrent_layers"); ok {
			return list.([]bool)[l]
		}
		return (l+1)%r.integer("full_attention_interval", 4) != 0
	}
	list, err := r.f.Uint32s(r.arch + ".attention.head_count_kv")
	return err == nil && list[l] == 0
}

// past is what a recurrent layer's tokens have left: the inputs of the convolution, and what the rest of the layer
// made of each.
type past struct{ raw, seen [][]float64 }

// convolved is the causal convolution of the last raw inputs, [channels][taps] by w.
func (p *past) convolved(w []float64) []float64 {
	n := len(p.raw[0])
	taps := len(w) / n
	y := make([]float64, n)
	for c := range y {
		for tap := range taps {
			if at := len(p.raw) - taps + tap; at >= 0 {
				y[c] += w[c*taps+tap] * p.raw[at][c]
			}
		}
	}
	return y
}

func softplus64(x float64) float64 { return math.Log1p(math.Exp(x)) }

func siluEach(x []float64) {
	for i, v := range x {
		x[i] = v * sigmoid(v)
	}
}

func (r *reference) shortConv(b string, h []float64, p *past) []float64 {
	in := r.linear(b+"shortconv.in_proj", h)
	d := len(h)
	y := make([]float64, d)
	for i := range y {
		y[i] = in[i] * in[2*d+i]
	}
	p.raw = append(p.raw, y)
	z := p.convolved(r.t[b+"shortconv.conv.weight"])
	for i := range z {
		z[i] *= in[d+i]
	}
	return r.linear(b+"shortconv.out_proj", z)
}

// mamba2 is the sum over the earlier tokens: token j's x, b and dt, decayed by every token after it, and seen by this
// one's c.
func (r *reference) mamba2(b string, h []float64, p *past) []float64 {
	inner, state, heads, groups := r.integer("ssm.inner_size", 0), r.integer("ssm.state_size", 0),
		r.integer("ssm.time_step_rank", 0), r.integer("ssm.group_count", 0)
	dim := inner / heads
	in := r.linear(b+"ssm_in", h)
	z, raw, dt := in[:inner], in[inner:2*inner+2*groups*state], slices.Clone(in[2*inner+2*groups*state:])
	p.raw = append(p.raw, raw)
	conv := p.convolved(r.t[b+"ssm_conv1d.weight"])
	addTo(conv, r.t[b+"ssm_conv1d.bias"])
	siluEach(conv)
	for i := range dt {
		dt[i] = softplus64(dt[i] + r.t[b+"ssm_dt.bias"][i])
	}
	p.seen = append(p.seen, append(conv, dt...))
	y := make([]float64, inner)
	for head := range heads {
		a, group := r.t[b+"ssm_a"][head], head/(heads/groups)
		c := conv[inner+(groups+group)*state:]
		decay := 0.0
		for j := len(p.seen) - 1; j >= 0; j-- {
			x, dt := p.seen[j], p.seen[j][len(p.seen[j])-heads+head]
			bc := 0.0
			for s := range state {
				bc += x[inner+group*state+s] * c[s]
			}
			for i := range dim {
				y[head*dim+i] += math.Exp(decay) * bc * dt * x[head*dim+i]
			}
			decay += dt * a
		}
		for i := range dim {
			y[head*dim+i] += r.t[b+"ssm_d"][head] * conv[head*dim+i]
		}
	}
	for i, v := range z {
		y[i] *= v * sigmoid(v)
	}
	if w := r.t[b+"ssm_norm.weight"]; w != nil {
		var normed []float64
		for g := 0; g < inner; g += inner / groups {
			normed = append(normed, r.normalize(y[g:g+inner/groups], w[g:g+inner/groups], nil)...)
		}
		y = normed
	}
	return r.linear(b+"ssm_out", y)
}

// delta is a gated delta net: the state is made anew from all tokens each time.
func (r *reference) delta(b string, h []float64, p *past) []float64 {
	s, nk, nv := r.integer("ssm.state_size", 0), r.integer("ssm.group_count", 0), r.integer("ssm.time_step_rank", 0)
	p.raw = append(p.raw, r.linear(b+"attn_qkv", h))
	conv := p.convolved(r.t[b+"ssm_conv1d.weight"])
	siluEach(conv)
	eps := r.number("attention.layer_norm_rms_epsilon", 0)
	for at := 0; at < 2*nk*s; at += s {
		sum := 0.0
		for _, v := range conv[at : at+s] {
			sum += v * v
		}
		for i := range s {
			conv[at+i] /= math.Max(math.Sqrt(sum), eps)
		}
	}
	alpha, beta := r.linear(b+"ssm_alpha", h), r.linear(b+"ssm_beta", h)
	for i := range nv {
		alpha[i] = math.Exp(r.t[b+"ssm_a"][i] * softplus64(alpha[i]+r.t[b+"ssm_dt.bias"][i]))
		beta[i] = sigmoid(beta[i])
	}
	p.seen = append(p.seen, slices.Concat(conv, alpha, beta))
	z := r.linear(b+"attn_gate", h)
	var y []float64
	for head := range nv {
		m := make([][]float64, s)
		for i := range m {
			m[i] = make([]float64, s)
		}
		for _, x := range p.seen {
			k, v := x[(nk+head%nk)*s:][:s], x[(2*nk+head)*s:][:s]
			g, beta := x[len(conv)+head], x[len(conv)+nv+head]
			for j := range s {
				u := 0.0
				for i := range s {
					m[i][j] *= g
					u += k[i] * m[i][j]
				}
				for i := range s {
					m[i][j] += k[i] * beta * (v[j] - u)
				}
			}
		}
		out := make([]float64, s)
		for j := range s {
			for i := range s {
				out[j] += conv[head%nk*s+i] * m[i][j] / math.Sqrt(float64(s))
			}
		}
		y = append(y, r.normalize(out, r.t[b+"ssm_norm.weight"], nil)...)
	}
	for i, v := range z {
		y[i] *= v * sigmoid(v)
	}
	return r.linear(b+"ssm_out", y)
}

// recurrent is a recurrent layer, or what is beside the attention of falcon-h1.
func (r *reference) recurrent(b string, h []float64, p *past) []float64 {
	switch r.arch {
	case "lfm2", "lfm2moe":
		return r.shortConv(b, h, p)
	case "qwen35", "qwen35moe":
		return r.delta(b, h, p)
	}
	return r.mamba2(b, h, p)
}

// gemma4Layer is the size of a layer's heads, the number of those of keys and values, and the layer whose keys and
// values it uses.
func (r *reference) gemma4Layer(l, layers int) (headDim, kvHeads, source int) {
	headDim, source = r.integer("attention.key_length", 0), l
	if r.windowed(l) {
		headDim = r.integer("attention.key_length_swa", headDim)
	}
	list, _ := r.f.Uint32s(r.arch + ".attention.head_count_kv")
	if own := layers - r.integer("attention.shared_kv_layers", 0); l >= own {
		if source = own - 1; r.windowed(l) {
			source = own - 2
		}
	}
	return headDim, int(list[l]), source
}

// layerInputs is what a token gives each layer besides the residual stream x.
func (r *reference) layerInputs(x []float64, id, layers int) [][]float64 {
	inputs := make([][]float64, layers)
	p := r.integer("embedding_length_per_layer_input", 0)
	if p == 0 {
		return inputs
	}
	made := r.linear("per_layer_model_proj", x)
	for i := range made {
		made[i] /= math.Sqrt(float64(len(x)))
	}
	for l := range inputs {
		inputs[l] = r.norm("per_layer_proj_norm", made[l*p:(l+1)*p])
		for i := range p {
			e := r.t["per_layer_token_embd.weight"][id*layers*p+l*p+i] * math.Sqrt(float64(p))
			inputs[l][i] = (inputs[l][i] + e) / math.Sqrt2
		}
	}
	return inputs
}

// layerInput adds what a layer makes of it to x.
func (r *reference) layerInput(b string, x, input []float64) {
	if input != nil {
		y := r.linear(b+"proj", r.gated(r.linear(b+"inp_gate", x), input))
		addTo(x, r.norm(b+"post_norm", y))
	}
	if s := r.t[b+"layer_output_scale.weight"]; s != nil {
		for i := range x {
			x[i] *= s[0]
		}
	}
}

// gemma4Experts is what experts make of the residual stream x beside the feed-forward's y.
func (r *reference) gemma4Experts(b string, y, x []float64) []float64 {
	by := r.normalize(x, r.t[b+"ffn_gate_inp.scale"], nil)
	for i := range by {
		by[i] /= math.Sqrt(float64(len(x)))
	}
	y = r.norm(b+"post_ffw_norm_1", y)
	addTo(y, r.norm(b+"post_ffw_norm_2", r.experts(b, r.norm(b+"pre_ffw_norm_2", x), by)))
	return y
}
