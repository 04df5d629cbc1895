package engine

import "github.com/specgo/spec/tensor"

// spark25 is Spark X2.5 (iFlytek 2026): Llama's block with windows in most layers, which have angles of their own and
// rotate more of a head; gates of attention's heads; a gate of GELU.
func spark25(l *loader, c *Config) family {
	f := family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves},
		attention: attentionParts{window: l.integer("attention.sliding_window"), windowed: l.windows()},
		feed:      feedParts{gate: gated, activation: l.gelu()},
	}
	f.rope.windowDims = l.windowDims(c)
	f.attention.own = func(b *build, i int) mixer { return b.outputGate(i, 1, tensor.Sigmoid) }
	return f
}
