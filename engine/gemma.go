package engine

import "math"

// gemma is Gemma (Gemma Team 2024, arXiv:2403.08295): embeddings times sqrt(D), GELU gates.
func gemma(l *loader, c *Config) family {
	return family{
		norms:  normParts{kind: rmsNorm{}},
		rope:   ropeParts{pairing: halves},
		feed:   feedParts{activation: l.gelu(), gate: gated},
		scales: scaleParts{embedding: float32(math.Sqrt(float64(c.HiddenSize)))},
		ends:   endParts{output: outputTied},
	}
}

// gemma2 is Gemma 2 (arXiv:2408.00118): norms before and after the sublayers, windows in every other layer, soft caps.
func gemma2(l *loader, c *Config) family {
	f := gemma(l, c)
	f.norms.at = atBoth
	f.attention.window, f.attention.windowed = l.integerOr("attention.sliding_window", 4096), l.window(2)
	limit := l.floatOr("attn_logit_softcapping", 50)
	f.attention.own = func(b *build, i int) mixer {
		a := b.attention(i)
		a.scores.Cap = limit
		return a
	}
	f.scales.logitCap = l.floatOr("final_logit_softcapping", 30)
	if c.Layers == 46 { // 27B
		f.attention.scale = headScale(c.HiddenSize / c.Heads)
	}
	return f
}

// gemma3 is Gemma 3 (arXiv:2503.19786): as gemma2, with normalized queries and keys instead of caps of scores, and
// another rotation in layers with a window.
func gemma3(l *loader, c *Config) family {
	f := gemma(l, c)
	f.norms.at, f.attention.norms, f.ends.output = atBoth, perHead, outputOptional
	f.rope.base = l.floatOr("rope.global.freq_base", 0) // so the files of Ollama's library call it
	if f.attention.window = l.integerOr("attention.sliding_window", 0); f.attention.window > 0 {
		f.attention.windowed, f.rope.windowUnscaled = l.window(6), true
		f.rope.windowBase = l.positive("rope.local.freq_base", 10000)
	}
	f.scales.logitCap = l.floatOr("final_logit_softcapping", 0)
	if c.Layers == 62 { // 27B
		f.attention.scale = headScale(c.HiddenSize / c.Heads)
	}
	return f
}
