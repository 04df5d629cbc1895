package convert

import (
	"encoding/json"
	"slices"
	"strconv"
)

// museGlimmer converts Muse Glimmer, for texts. The norms of queries and keys have no weights in the source, which
// multiplies queries by a factor; GGUF's have it as their weights.
func museGlimmer(b *builder) {
	c := b.config
	c.must("hidden_activation", "this architecture's gate is SiLU", "silu")
	c.required("post_norm_eps", "GGUF's muse-glimmer has this one in the norms behind sublayers", 1e-8)
	b.real("logit_scale", c.number("output_multiplier"))
	b.real("final_logit_softcapping", c.number("final_logit_softcapping"))
	factor := float32(c.number("qk_scale_factor"))
	b.llamaLike(options{interleave: true, sandwich: true, addToNorms: 1, plainEnd: true, windows: true,
		feed: func(s sizes, to, from string) {
			b.matrix(to+"attn_gate.weight", from+"self_attn.gate_proj.weight", s.heads*s.head, s.width)
			b.values(to+"attn_q_norm.weight", slices.Repeat([]float32{factor}, s.head))
			b.values(to+"attn_k_norm.weight", slices.Repeat([]float32{1}, s.head))
			b.gatedFeedForward(s, to, from)
		}})
	b.turnedWindows()
	b.pictures()
}

// turnedWindows checks that the layers with a window, and no others, are rotated, all with one base.
func (b *builder) turnedWindows() {
	c := b.config
	const bases = "layer_rope_theta"
	list, types := c.numbers(bases), c.texts("layer_types")
	if len(list) == 0 {
		return // as layer_types says
	}
	base := float32(0)
	for _, kv := range b.kvs {
		if x, ok := kv.Value.(float32); ok && kv.Key == b.arch+".rope.freq_base" {
			base = x
		}
	}
	if len(list) != len(types) {
		c.fail(bases, "%d values for %d layers", len(list), len(types))
	}
	for i := 0; i < len(list) && *c.err == nil; i++ {
		want := float32(0)
		if types[i] == "sliding_attention" {
			want = base
		}
		if list[i] != want {
			c.fail(bases, "layer %d has %v: GGUF's %s rotates layers with a window alone, by %v", i, list[i], b.arch, base)
		}
	}
}

// museAssistant converts Muse Glimmer's draft head: a DFlash head whose config.json has no object of its own, no
// vocabulary, and windows without a switch.
func museAssistant(b *builder) {
	c := b.config
	if !c.has("vocab_size") {
		c.values["vocab_size"] = json.Number(strconv.Itoa(b.vocab))
	}
	c.values["use_sliding_window"] = c.has("sliding_window") && c.has("layer_types")
	dflash(b, dflashForm{flat: true, fc: "encoder.fc.weight", norm: "encoder.output_norm_enc.weight"})
}
