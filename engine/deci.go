package engine

// deci is what neural architecture search made of Llama 3 (Bercovich et al. 2024, arXiv:2411.19146): Llama Nemotron
// Super and Ultra, DeciLM. Layers have their own numbers of heads and sizes of the feed-forward; some have no
// attention, or a matrix in its place, and some have no feed-forward.
func deci(l *loader, c *Config) family {
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: pairs, keys: freqFactors | longrope},
		attention: attentionParts{scale: l.floatOr("attention.scale", 0)},
		feed:      feedParts{gate: gated},
		mixer: func(b *build, i int) mixer {
			switch {
			case !l.ok() || l.kvHeads[i] > 0 && l.queryHeads[i] > 0:
				return nil
			case l.queryHeads[i] == 0:
				return noMixer{}
			}
			return alone{b.linear(b.block(i)+"attn_output", c.HiddenSize, c.HiddenSize)}
		},
	}
}

// noMixer is no attention: the tokens do not look at each other.
type noMixer struct{}

func (noMixer) forward(_ *pass, _ *Config, y, _ []float32) { clear(y) }

// alone is a matrix in place of attention.
type alone struct{ o linear } // [D][D]

func (m alone) forward(p *pass, c *Config, y, h []float32) { p.matmul(h, c.HiddenSize, m.o.times(y)) }
