package engine

import "math"

// minicpm is MiniCPM (Hu et al. 2024, arXiv:2404.06395): scaled embeddings, sublayers and logits.
func minicpm(l *loader, c *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs, keys: freqFactors | longrope},
		feed:  feedParts{gate: gated},
		scales: scaleParts{
			embedding: l.floatOr("embedding_scale", 12),
			residual:  l.floatOr("residual_scale", float32(1.4/math.Sqrt(float64(c.Layers)))),
			logit:     1 / l.positive("logit_scale", 256/float32(c.HiddenSize)),
		},
	}
}
