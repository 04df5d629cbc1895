package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// reference computes a model from its GGUF file in float64, by the formulas of the papers, with naive loops. It shares
// nothing with the engine but the parser of the file.
type reference struct {
	f    *gguf.File
	arch string
	t    map[string][]float64

	// What logits computed last: keys and values [layer][position][KV heads * head size] of layers that have some, and
	// the states after the final norm [position][width].
	keys, values [][][]float64
	states       [][]float64

	given func(tensor string, matrix int, x []float64) // is told what matrices are multiplied with; nil: nobody
}

func newReference(tb testing.TB, file []byte) *reference {
	tb.Helper()
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "reference.gguf")
	if err != nil {
		tb.Fatal(err)
	}
	r := &reference{f: f, t: map[string][]float64{}}
	if r.arch, err = f.String("general.architecture"); err != nil {
		tb.Fatal(err)
	}
	for _, t := range f.Tensors {
		raw := make([]byte, t.Size)
		if _, err := io.ReadFull(io.NewSectionReader(f.Reader(), t.Offset, t.Size), raw); err != nil {
			tb.Fatal(err)
		}
		x := make([]float64, t.Elements())
		switch t.Type {
		case gguf.F32:
			for i := range x {
				x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
			}
		case gguf.Q8_0: // blocks of a half-precision scale and 32 bytes
			for i := range x {
				block := raw[i/32*34:]
				x[i] = half(binary.LittleEndian.Uint16(block)) * float64(int8(block[2+i%32]))
			}
		case gguf.NVFP4: // what TestNVFP4Golden of tensor proves
			values := make([]float32, len(x))
			if err := tensor.Decode(tensor.NVFP4, values, raw); err != nil {
				tb.Fatal(err)
			}
			for i, v := range values {
				x[i] = float64(v)
			}
		default:
			tb.Fatalf("%s: the reference does not read %v", t.Name, t.Type)
		}
		r.t[t.Name] = x
	}
	for name, w := range r.t { // factors of matrices: one, or one for each expert
		s := r.t[strings.TrimSuffix(name, ".weight")+".scale"]
		if strings.HasSuffix(name, "ffn_gate_inp.weight") {
			continue // gemma4's vector of that name belongs to what the router reads
		}
		for i := range w {
			if s != nil {
				w[i] *= s[i*len(s)/len(w)]
			}
		}
	}
	return r
}

// half is the value of a binary16 number that is finite.
func half(bits uint16) float64 {
	exponent, fraction, sign := int(bits>>10&31), float64(bits&1023)/1024, 1-2*float64(bits>>15)
	if exponent == 0 {
		return sign * math.Ldexp(fraction, -14)
	}
	return sign * math.Ldexp(1+fraction, exponent-15)
}

// number is the value of a hyperparameter, or absent where the file has no such key.
func (r *reference) number(key string, absent float64) float64 {
	switch v, _ := r.f.Value(r.arch + "." + key); v := v.(type) {
	case uint32:
		return float64(v)
	case float32:
		return float64(v)
	}
	return absent
}

func (r *reference) integer(key string, absent int) int { return int(r.number(key, float64(absent))) }

// flag is the value of a bool, or absent where the file has no such key.
func (r *reference) flag(key string, absent bool) bool {
	if v, ok := r.f.Value(r.arch + "." + key); ok {
		return v.(bool)
	}
	return absent
}

// is reports whether the model is of one of these architectures.
func (r *reference) is(archs ...string) bool { return slices.Contains(archs, r.arch) }

// linear is W x + b for the tensors name.weight [rows][len(x)] and, if there, name.bias [rows].
func (r *reference) linear(name string, x []float64) []float64 {
	r.tell(name, 0, x)
	return r.matrix(r.t[name+".weight"], r.t[name+".bias"], x)
}

func (r *reference) tell(name string, matrix int, x []float64) {
	if r.given != nil && r.t[name+".weight"] != nil {
		r.given(name+".weight", matrix, x)
	}
}

func (r *reference) matrix(w, b, x []float64) []float64 {
	y := make([]float64, len(w)/len(x))
	for i := range y {
		row, sum := w[i*len(x):][:len(x)], 0.0
		for j, v := range x {
			sum += row[j] * v
		}
		y[i] = sum
	}
	addTo(y, b)
	return y
}

// expert is linear for matrix e of n that lie one after the other.
func (r *reference) expert(name string, e, n int, x []float64) []float64 {
	r.tell(name, e, x)
	w, b := r.t[name+".weight"], r.t[name+".bias"]
	return r.matrix(w[e*len(w)/n:(e+1)*len(w)/n], b[e*len(b)/n:(e+1)*len(b)/n], x)
}

func (r *reference) layerNorms() bool {
	return r.is("phi2", "gptneox", "gpt2", "starcoder", "starcoder2", "falcon", "mpt", "bloom", "stablelm", "command-r",
		"cohere2", "nemotron", "olmo", "gptj", "codegen", "opt")
}

// norm is LayerNorm or RMSNorm over len(x) numbers, with the weights and biases that there are; w, b may be those of
// several x.
func (r *reference) normalize(x, w, b []float64) []float64 {
	n := float64(len(x))
	mean, variance, eps := 0.0, 0.0, r.number("attention.layer_norm_rms_epsilon", 0)
	if r.layerNorms() {
		eps = r.number("attention.layer_norm_epsilon", 0)
		for _, v := range x {
			mean += v / n
		}
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / n
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (v - mean) / math.Sqrt(variance+eps)
		if w != nil {
			y[i] *= w[i]
		}
	}
	addTo(y, b)
	return y
}

func (r *reference) norm(name string, x []float64) []float64 {
	return r.normalize(x, r.t[name+".weight"], r.t[name+".bias"])
}

// postNorm is the norm of what a sublayer gives, of which Muse Glimmer has another epsilon.
func (r *reference) postNorm(name string, x []float64) []float64 {
	if r.arch != "muse-glimmer" {
		return r.norm(name, x)
	}
	squares := 0.0
	for _, v := range x {
		squares += v * v / float64(len(x))
	}
	var y []float64
	for i, v := range x {
		y = append(y, v/math.Sqrt(squares+1e-8)*r.t[name+".weight"][i])
	}
	return y
}

// headNorm normalizes q or k: every head with the weights that all share or with its own, or all heads at once.
func (r *reference) headNorm(name string, x []float64, headDim int) []float64 {
	w := r.t[name+".weight"]
	switch {
	case w == nil:
		return x
	case len(w) == len(x) && !r.is("stablelm", "command-r"):
		return r.normalize(x, w, r.t[name+".bias"])
	}
	var y []float64
	for h := 0; h < len(x); h += headDim {
		at := h % len(w)
		y = append(y, r.normalize(x[h:h+headDim], w[at:at+headDim], nil)...)
	}
	return y
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// activate is the feed-forward's nonlinearity.
func (r *reference) activate(x float64) float64 {
	switch {
	case r.is("arcee", "nemotron"):
		return math.Max(x, 0) * math.Max(x, 0)
	case r.is("opt"):
		return math.Max(x, 0)
	case r.is("falcon", "gptneox", "mpt", "spark2_5"):
		return x / 2 * (1 + math.Erf(x/math.Sqrt2))
	case r.is("gemma", "gemma2", "gemma3", "gemma4") || r.layerNorms() &&
		!r.is("stablelm", "command-r", "cohere2", "olmo"):
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	return x * sigmoid(x)
}

// gated is act(gate) * up.
func (r *reference) gated(gate, up []float64) []float64 {
	y := make([]float64, len(up))
	for i, g := range gate {
		if r.arch == "gpt-oss" {
			g = math.Min(g, 7)
			y[i] = g * sigmoid(1.702*g) * (math.Min(math.Max(up[i], -7), 7) + 1)
		} else {
			y[i] = r.activate(g) * up[i]
		}
	}
	return y
}

func (r *reference) feedForward(b, suffix string, h []float64) []float64 {
	up := r.linear(b+"ffn_up"+suffix, h)
	switch {
	case r.is("phi3", "glm4") || r.is("granite_swa") && suffix == "_shexp":
		up = r.gated(up[:len(up)/2], up[len(up)/2:])
	case r.t[b+"ffn_gate"+suffix+".weight"] != nil:
		up = r.gated(r.linear(b+"ffn_gate"+suffix, h), up)
	default:
		for i, v := range up {
			up[i] = r.activate(v)
		}
	}
	return r.linear(b+"ffn_down"+suffix, up)
}

func softmax(x []float64) []float64 {
	y, sum := make([]float64, len(x)), 0.0
	for i, v := range x {
		y[i] = math.Exp(v - slices.Max(x))
		sum += y[i]
	}
	for i := range y {
		y[i] /= sum
	}
	return y
}

// logits are those after every token of ids.
func (r *reference) logits(ids []int32) []float64 {
	layers, width, heads := r.integer("block_count", 0), r.integer("embedding_length", 0),
		r.integer("attention.head_count", 0)
	kvHeads, headDim := r.integer("attention.head_count_kv", heads), r.integer("attention.key_length", width/heads)
	keys, values := make([][][]float64, layers), make([][][]float64, layers)
	r.keys, r.values, r.states = keys, values, nil
	pasts := make([]past, layers)
	if list, err := r.f.Uint32s(r.arch + ".attention.head_count_kv"); err == nil {
		kvHeads = int(slices.Max(list))
	}
	post := r.is("gemma2", "gemma3", "gemma4", "olmo2", "exaone4", "glm4", "muse-glimmer")
	after := !r.flag("norm_before", true) // Vaswani et al. 2017: LayerNorm(x + Sublayer(x))
	noInput := r.is("olmo2", "exaone4") || after
	residual := r.number("residual_scale", 0)
	if residual == 0 {
		residual = 1
		if r.arch == "minicpm" {
			residual = 1.4 / math.Sqrt(float64(layers))
		}
	}
	attentionScale := r.number("attention.scale", 0)
	if attentionScale == 0 {
		attentionScale = 1 / math.Sqrt(float64(headDim))
	}
	alibi := 0.0
	if r.arch == "bloom" {
		alibi = 8
	} else if r.arch == "mpt" {
		alibi = r.number("attention.max_alibi_bias", 0)
	}
	var out []float64
	for position, id := range ids {
		wide := r.integer("word_embedding_length", width)
		x := append([]float64(nil), r.t["token_embd.weight"][int(id)*wide:][:wide]...)
		if wide != width {
			x = r.linear("project_in", x)
		}
		scale := r.number("embedding_scale", 0)
		switch {
		case r.is("gemma", "gemma2", "gemma3", "gemma4"):
			scale = math.Sqrt(float64(width))
		case scale == 0 && r.arch == "minicpm":
			scale = 12
		case scale == 0:
			scale = 1
		}
		for i := range x {
			x[i] *= scale
		}
		if p := r.t["position_embd.weight"]; p != nil {
			addTo(x, p[position*width:][:width])
		}
		if r.arch == "muse-glimmer" {
			x = r.normalize(x, nil, nil)
		}
		if r.t["token_embd_norm.weight"] != nil && !r.is("lfm2", "lfm2moe") {
			x = r.norm("token_embd_norm", x)
		}
		inputs := r.layerInputs(x, int(id), layers)
		for l := range layers {
			b := fmt.Sprintf("blk.%d.", l)
			headDim, kvHeads, attentionScale, source := headDim, kvHeads, attentionScale, l
			if r.arch == "gemma4" {
				headDim, kvHeads, source = r.gemma4Layer(l, layers)
				attentionScale = 1
			}
			h := x
			if !noInput {
				h = r.norm(b+"attn_norm", x)
			}
			ffnInput := h // of a parallel block
			if r.t[b+"attn_norm_2.weight"] != nil {
				h = r.norm(b+"attn_norm_2", x)
			}
			attention := func() []float64 {
				var q, k, v, gates []float64
				if r.t[b+"attn_qkv.weight"] != nil {
					qkv := r.linear(b+"attn_qkv", h)
					q, k, v = qkv[:heads*headDim], qkv[heads*headDim:(heads+kvHeads)*headDim], qkv[(heads+kvHeads)*headDim:]
				} else {
					q, k, v = r.linear(b+"attn_q", h), r.linear(b+"attn_k", h), r.linear(b+"attn_v", h)
					if r.is("qwen35", "qwen35moe") { // head by head, queries and gates
						var queries []float64
						for at := 0; at < len(q); at += 2 * headDim {
							queries, gates = append(queries, q[at:at+headDim]...), append(gates, q[at+headDim:at+2*headDim]...)
						}
						q = queries
					}
				}
				if r.is("muse-glimmer", "spark2_5") {
					gates = r.linear(b+"attn_gate", h)
				}
				if r.arch == "gemma4" {
					if len(v) == 0 {
						v = slices.Clone(k)
					}
					var normed []float64
					for at := 0; at < len(v); at += headDim {
						normed = append(normed, r.normalize(v[at:at+headDim], nil, nil)...)
					}
					v = normed
				}
				if limit := r.number("attention.clamp_kqv", 0); limit > 0 {
					for _, x := range [][]float64{q, k, v} {
						for i := range x {
							x[i] = math.Min(math.Max(x[i], -limit), limit)
						}
					}
				}
				if r.arch != "hunyuan-dense" {
					q, k = r.headNorm(b+"attn_q_norm", q, headDim), r.headNorm(b+"attn_k_norm", k, headDim)
				}
				if r.rotated(l) {
					r.rotate(q, headDim, position, l)
					r.rotate(k, headDim, position, l)
				}
				if r.arch == "hunyuan-dense" {
					q, k = r.headNorm(b+"attn_q_norm", q, headDim), r.headNorm(b+"attn_k_norm", k, headDim)
				}
				if t := r.number("attention.temperature_scale", 0); t != 0 {
					original := r.number("rope.scaling.original_context_length", r.number("context_length", 0))
					for i := range q {
						q[i] *= 1 + t*math.Log(math.Floor(float64(position)/original)+1)
					}
				}
				if source == l {
					keys[l], values[l] = append(keys[l], k), append(values[l], v)
				}
				first := 0
				if r.windowed(l) {
					first = max(0, position+1-r.integer("attention.sliding_window", 4096))
				}
				a := make([]float64, heads*headDim)
				for head := range heads {
					at := head / (heads / kvHeads) * headDim
					var p []float64
					for j := first; j <= position; j++ {
						s := 0.0
						for d := range headDim {
							s += q[head*headDim+d] * keys[source][j][at+d]
						}
						s *= attentionScale
						if r.arch == "gemma2" {
							limit := r.number("attn_logit_softcapping", 50)
							s = limit * math.Tanh(s/limit)
						}
						if alibi > 0 {
							n := math.Pow(2, math.Floor(math.Log2(float64(heads))))
							slope := math.Pow(2, -alibi/n*float64(head+1))
							if float64(head) >= n {
								slope = math.Pow(2, -alibi/(2*n)*(2*(float64(head)-n)+1))
							}
							s -= slope * float64(position-j)
						}
						p = append(p, s)
					}
					if sinks := r.t[b+"attn_sinks.weight"]; sinks != nil {
						p = append(p, sinks[head])
					}
					p = softmax(p)
					for j := first; j <= position; j++ {
						for d := range headDim {
							a[head*headDim+d] += p[j-first] * values[source][j][at+d]
						}
					}
				}
				for i := range gates { // of a head's numbers, or of each of them
					for each, j := len(a)/len(gates), 0; j < each; j++ {
						a[i*each+j] *= sigmoid(gates[i])
					}
				}
				return r.linear(b+"attn_output", a)
			}
			var y []float64
			if r.recurrentLayer(l) {
				y = r.recurrent(b, h, &pasts[l])
			} else {
				y = attention()
			}
			if r.arch == "falcon-h1" {
				addTo(y, r.recurrent(b, h, &pasts[l]))
			}
			ffn := func(h []float64) []float64 {
				switch {
				case r.t[b+"ffn_gate_inp.weight"] == nil:
					return r.feedForward(b, "", h)
				case r.arch == "gemma4":
					return r.gemma4Experts(b, r.feedForward(b, "", h), x)
				}
				return r.experts(b, h, h)
			}
			parallel := r.is("phi2", "falcon", "command-r", "cohere2", "gptj", "codegen") || r.arch == "stablelm" &&
				r.t[b+"ffn_norm.weight"] == nil
			if r.flag("use_parallel_residual", false) && r.arch == "gptneox" {
				parallel, ffnInput = true, r.norm(b+"ffn_norm", x)
			}
			if parallel {
				addTo(x, y)
				addTo(x, ffn(ffnInput))
				continue
			}
			if post {
				y = r.postNorm(b+"post_attention_norm", y)
			}
			for i, v := range y {
				x[i] += v * residual
			}
			if after {
				x = r.norm(b+"attn_norm", x)
			}
			if h = x; r.is("gpt-oss", "qwen35", "qwen35moe") {
				h = r.norm(b+"post_attention_norm", x)
			} else if r.arch == "falcon-h1" {
				h = r.normalize(x, r.t[b+"ffn_norm"], nil)
			} else if !noInput {
				h = r.norm(b+"ffn_norm", x)
			}
			y = ffn(h)
			if post {
				y = r.postNorm(b+"post_ffw_norm", y)
			}
			for i, v := range y {
				x[i] += v * residual
			}
			if after {
				x = r.norm(b+"ffn_norm", x)
			}
			r.layerInput(b, x, inputs[l])
		}
		head := r.t["output.weight"]
		if head == nil {
			head = r.t["token_embd.weight"]
		}
		final := "output_norm"
		if r.is("lfm2", "lfm2moe") {
			final = "token_embd_norm"
		}
		if r.t[final+".weight"] != nil || !r.is("opt") {
			x = r.norm(final, x)
		}
		r.states = append(r.states, x)
		if wide != width {
			x = r.linear("project_out", x)
		}
		y := r.matrix(head, r.t["output.bias"], x)
		logitScale, limit := r.number("logit_scale", 0), r.number("final_logit_softcapping", 0)
		if logitScale == 0 {
			logitScale = 1
			if r.arch == "minicpm" {
				logitScale = 256 / float64(width)
			}
		}
		if !r.is("command-r", "cohere2", "muse-glimmer") {
			logitScale = 1 / logitScale
		}
		if limit == 0 && r.arch == "gemma2" {
			limit = 30
		}
		for i := range y {
			if y[i] *= logitScale; limit > 0 {
				y[i] = limit * math.Tanh(y[i]/limit)
			}
		}
		out = append(out, y...)
	}
	return out
}

func addTo(x, y []float64) {
	for i, v := range y {
		x[i] += v
	}
}
