package engine

import "math"

// llama is Llama (Touvron et al. 2023, arXiv:2302.13971) and what shares its block: Mistral, Mixtral, SmolLM, Yi, TinyLlama.
func llama(l *loader, c *Config) family {
	return family{
		norm: rmsNorm, rotation: pairs, factors: true, longrope: true, gated: true,
		experts: l.experts(c, expertOptions{width: c.FeedForward, normalize: true}),
	}
}

// plainLlama is llama without options: ERNIE 4.5 (dense), InternLM 2.
func plainLlama(*loader, *Config) family {
	return family{norm: rmsNorm, rotation: pairs, gated: true}
}

// mistral3 is Ministral 3: YaRN with keys of its own, and attention that gets sharper with the position.
func mistral3(l *loader, c *Config) family {
	return family{
		norm: rmsNorm, rotation: pairs, factors: true, longrope: true, yarnKeys: true, gated: true,
		warmth: temperature{l.floatOr("attention.temperature_scale", 0), l.originalContext(c)},
	}
}

// smollm3 is SmolLM 3: every fourth layer is not rotated.
func smollm3(*loader, *Config) family {
	return family{norm: rmsNorm, rotation: pairs, rotates: func(i int) bool { return (i+1)%4 != 0 }, gated: true}
}

// arcee is Arcee AFM: a feed-forward without a gate.
func arcee(*loader, *Config) family {
	return family{norm: rmsNorm, rotation: pairs, factors: true, activation: reluSquared}
}

// hunyuanDense is Hunyuan (dense): queries and keys are normalized after the rotation.
func hunyuanDense(*loader, *Config) family {
	return family{norm: rmsNorm, rotation: halves, alphaKey: true, qkNorm: perHead, qkLast: true, gated: true}
}

// exaone is EXAONE 3.
func exaone(*loader, *Config) family {
	return family{norm: rmsNorm, rotation: halves, factors: true, gated: true}
}

// exaone4 is EXAONE 4: norms of the sublayers' outputs instead of their inputs. The model of 64 blocks has windows, and rotates in
// the layers that have one only.
func exaone4(l *loader, c *Config) family {
	f := family{norm: rmsNorm, noInput: true, output: true, rotation: halves, factors: true, qkNorm: perHead, gated: true}
	if window := l.integerOr("attention.sliding_window", 0); c.Layers == 64 {
		if window == 0 {
			window = 4096
		}
		f.window, f.windowed = window, l.window(4)
		f.rotates = f.windowed
	} else if l.has("attention.sliding_window_pattern") {
		l.integerOr("attention.sliding_window_pattern", 0) // without windows it says nothing
	}
	return f
}

// minicpm is MiniCPM (Hu et al. 2024, arXiv:2404.06395): scaled embeddings, sublayers and logits.
func minicpm(l *loader, c *Config) family {
	return family{
		norm: rmsNorm, rotation: pairs, factors: true, longrope: true, gated: true,
		embeddingScale: l.floatOr("embedding_scale", 12),
		residualScale:  l.floatOr("residual_scale", float32(1.4/math.Sqrt(float64(c.Layers)))),
		logitScale:     1 / l.positive("logit_scale", 256/float32(c.HiddenSize)),
	}
}

// granite is IBM Granite 3 and 4 (dense): scaled embeddings, sublayers, attention and logits.
func granite(l *loader, c *Config) family {
	f := family{
		norm: rmsNorm, rotation: pairs, factors: true, longrope: true, gated: true,
		embeddingScale: l.floatOr("embedding_scale", 0),
		residualScale:  l.floatOr("residual_scale", 0),
		scale:          l.floatOr("attention.scale", 0),
		logitScale:     1 / l.positive("logit_scale", 0),
	}
	if !l.boolOr("rope.scaling.finetuned", true) {
		f.rotation = none
		l.ignoreRope()
	}
	return f
}

// graniteMoE is granite with experts, and possibly one that every token is sent to.
func graniteMoE(l *loader, c *Config) family {
	f := granite(l, c)
	f.experts = l.experts(c, expertOptions{width: c.FeedForward, normalize: true, shared: l.integerOr("expert_shared_feed_forward_length", 0)})
	return f
}
