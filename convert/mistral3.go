package convert

// mistral3 converts Mistral Small 3.1 and later, and Ministral 3: Llama's block, in Ministral 3 with YaRN whose
// magnitude has factors, and attention that gets sharper with the position.
func mistral3(b *builder) {
	c := b.config
	in := c.rotary()
	if in == nil && c.text("model_type") == "ministral3" {
		c.fail("rope_parameters", "missing: how are positions scaled?")
	}
	if in != nil {
		const length = "max_position_embeddings"
		in.must(length, length+" beside it says something else", c.number(length))
		delete(in.values, length)
		kind := in.text(in.first("rope_type", "type"))
		if in.has("mscale") || in.has("mscale_all_dim") {
			in.required("mscale", "GGUF's mistral3 has a factor below YaRN's magnitude only", 1.0)
			b.real("rope.scaling.yarn_log_multiplier", in.number("mscale_all_dim"))
		}
		if beta := "llama_4_scaling_beta"; in.has(beta) {
			b.real("attention.temperature_scale", in.number(beta))
		}
		for _, key := range []string{"mscale", "mscale_all_dim", "llama_4_scaling_beta"} {
			if in.has(key) && kind != "yarn" { // which has the length that these go by
				in.fail(key, "of positions that YaRN scales only")
			}
			delete(in.values, key)
		}
	}
	b.llamaLike(options{interleave: true})
	b.pictures()
}
