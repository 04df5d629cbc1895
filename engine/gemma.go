package engine

import "math"

// gemma is Gemma (Gemma Team 2024, arXiv:2403.08295): embeddings times sqrt(D), GELU gates.
func gemma(_ *loader, c *Config) family {
	return family{norm: rmsNorm, rotation: halves, activation: gelu, gated: true, embeddingScale: float32(math.Sqrt(float64(c.HiddenSize))), head: headTied}
}

// gemma2 is Gemma 2 (arXiv:2408.00118): norms before and after the sublayers, windows in every other layer, soft caps.
func gemma2(l *loader, c *Config) family {
	f := gemma(l, c)
	f.output = true
	f.window, f.windowed = l.integerOr("attention.sliding_window", 4096), l.window(2)
	f.cap, f.logitCap = l.floatOr("attn_logit_softcapping", 50), l.floatOr("final_logit_softcapping", 30)
	if c.Layers == 46 { // 27B
		f.scale = headScale(c.HiddenSize / c.Heads)
	}
	return f
}

// gemma3 is Gemma 3 (arXiv:2503.19786): as gemma2, with normalized queries and keys instead of caps of scores, and another rotation in
// layers with a window.
func gemma3(l *loader, c *Config) family {
	f := gemma(l, c)
	f.output, f.qkNorm, f.head = true, perHead, headOptional
	if f.window = l.integerOr("attention.sliding_window", 0); f.window > 0 {
		f.windowed, f.windowBase, f.windowRope = l.window(6), 10000, true
	}
	f.logitCap = l.floatOr("final_logit_softcapping", 0)
	if c.Layers == 62 { // 27B
		f.scale = headScale(c.HiddenSize / c.Heads)
	}
	return f
}
