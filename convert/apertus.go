package convert

import "github.com/specgo/spec/gguf"

// apertus converts Apertus: norms of queries and keys, and a feed-forward without a gate whose activation has four
// numbers that are trained, which are keys in GGUF. The source turns halves, as GGUF's does.
func apertus(b *builder) {
	c := b.config
	c.must("hidden_act", "GGUF's apertus has this activation", "xielu")
	c.must("qk_norm", "GGUF's apertus has norms of queries and keys", true)
	c.must("post_norm", "GGUF's apertus has norms before", false)
	s, ok := b.llamaKeys(options{activation: "xielu"}, 0)
	if !ok {
		return
	}
	numbers := map[string][]float32{}
	b.model(llamaModel, s.width, s.layers, b.rmsNorm, func(_ int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"attention_layernorm", s.width)
		b.projections(s, to, from+"self_attn.", nil)
		b.headNorms(s, to, from, "self_attn.q_norm", "self_attn.k_norm")
		b.rmsNorm(to+"ffn_norm", from+"feedforward_layernorm", s.width)
		b.feedForward(b.biased, s, plainParts, to, from+"mlp.")
		for _, name := range xieluNumbers {
			numbers[name] = append(numbers[name], b.numberOf(from+"mlp.act_fn."+name))
		}
	})
	for _, name := range xieluNumbers {
		b.kvs = append(b.kvs, gguf.KV{Key: "xielu." + name, Value: numbers[name]})
	}
}

// xieluNumbers are those of the activation (Huang and Schlag 2024, arXiv:2411.13010).
var xieluNumbers = []string{"alpha_n", "alpha_p", "beta", "eps"}

// numberOf is the only number of a tensor, which becomes no tensor.
func (b *builder) numberOf(name string) float32 {
	b.skip(name)
	t, ok := b.weights.tensors[name]
	if !ok && len(b.weights.names) == 0 {
		return 0 // the weights of an adapter's base are not there
	}
	if n := elementBytes[t.dtype]; !ok || n == 0 || t.size != n {
		b.config.fail("hidden_act", "%s needs a number in the tensor %s, whose shape is %v", b.config.text("hidden_act"),
			name, t.shape)
		return 0
	}
	x, err := t.read()
	if err != nil {
		b.config.fail("hidden_act", "the number in the tensor %s: %v", name, err)
		return 0
	}
	return x[0]
}
