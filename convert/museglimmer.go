package convert

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/specgo/spec/gguf"
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
			b.feedForward(b.unbiased, s, llamaParts, to, from+"mlp.")
		}})
	for i, turned := range b.turnedLayers() {
		if kind := c.texts("layer_types")[i]; turned != (kind == "sliding_attention") {
			c.fail(layerBases, "layer %d: GGUF's muse-glimmer rotates layers with a window, and no others", i)
		}
	}
	b.pictures()
}

// layerBases are the bases of rotation of each layer, 0 where it is not rotated.
const layerBases = "layer_rope_theta"

// turnedLayers are the layers that are rotated, all with one base; nil: config.json does not say it for each.
func (b *builder) turnedLayers() (turned []bool) {
	c := b.config
	list := c.numbers(layerBases)
	if len(list) == 0 {
		return nil
	}
	if layers := c.layers("num_hidden_layers"); len(list) != layers {
		c.fail(layerBases, "%d values for %d layers", len(list), layers)
		return nil
	}
	for i, base := range list {
		want := slices.ContainsFunc(b.kvs, func(kv gguf.KV) bool {
			return kv.Key == b.arch+".rope.freq_base" && kv.Value == base
		})
		if base != 0 && !want {
			c.fail(layerBases, "layer %d has %v: GGUF's %s has one base for all layers that are rotated", i, base, b.arch)
			return nil
		}
		turned = append(turned, base != 0)
	}
	return turned
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
