package convert

import "github.com/specgo/spec/gguf"

// exaone4 converts EXAONE 4. GGUF's has windows in the model of 64 blocks only, in all but every fourth.
func exaone4(b *builder) {
	c := b.config
	const hybrid, whole = 64, 4
	o := options{headNorms: true, postNorms: true, windows: c.layers("num_hidden_layers") == hybrid}
	if o.windows {
		c.must("sliding_window_pattern", "GGUF's exaone4 has whole attention in every fourth block", "LLLG", float64(whole))
		for i, t := range c.texts("layer_types") {
			if (t == "full_attention") != (i%whole == whole-1) {
				c.fail("layer_types", "layer %d is %q: GGUF's exaone4 has whole attention in every fourth", i,
					gguf.Printable(t, 40))
			}
		}
	} else {
		c.has("sliding_window_pattern")
		c.must("sliding_window", "GGUF's exaone4 has windows in the model of 64 blocks only")
	}
	b.llamaLike(o)
}

// seedOSS converts Seed-OSS.
func seedOSS(b *builder) {
	b.config.has("attention_out_bias") // whether there are biases is told by the tensors
	b.config.has("residual_dropout")   // of training
	b.llamaLike(options{ffnPost: true})
}
