package engine

import "strings"

// falconH1 is Falcon-H1 (Zuo et al. 2025, arXiv:2507.22448): attention and Mamba-2 side by side in every layer.
func falconH1(l *loader, c *Config) family {
	l.find("rope_freqs.weight") // the reference takes files with it and does not use it
	s := l.mambaSizes()
	return family{
		norms: normParts{kind: falconNorm{}},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{gate: gated},
		mixer: func(b *build, i int) mixer {
			a := b.attention(i)
			if !l.ok() {
				return a
			}
			return &sideBySide{a, l.mamba2(c, i, s)}
		},
	}
}

// falconNorm is rmsNorm, with a name of the feed-forward's that ends without .weight.
type falconNorm struct{ rmsNorm }

func (falconNorm) read(l *loader, name string, n int) (w, b []float32) {
	if strings.HasSuffix(name, ".ffn_norm") {
		return l.vector(name, n), nil
	}
	return l.vector(name+".weight", n), nil
}

// sideBySide is attention and another mixer of the same input, added.
type sideBySide struct {
	attention *attention
	other     mixer
}

func (s *sideBySide) forward(p *pass, c *Config, y, h []float32) {
	other := p.matrix(&p.other, c.HiddenSize)
	s.other.forward(p, c, other, h)
	s.attention.forward(p, c, y, h)
	p.add(y, other)
}
