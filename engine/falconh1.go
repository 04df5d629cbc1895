package engine

// falconH1 is Falcon-H1 (Zuo et al. 2025, arXiv:2507.22448): attention and Mamba-2 side by side in every layer.
func falconH1(l *loader, c *Config) family {
	f := family{norm: rmsNorm, rotation: halves, gated: true, bareNorm: true}
	l.find("rope_freqs.weight") // the reference takes files with it and does not use it
	s := l.mambaSizes()
	f.beside = func(i int) mixer {
		if !l.ok() {
			return nil
		}
		return l.mamba2(c, f, i, s)
	}
	return f
}

// sideBySide is attention and another mixer of the same input, added.
type sideBySide struct {
	attention attention
	other     mixer
}

func (s *sideBySide) forward(p *pass, c *Config, y, h []float32) {
	other := p.matrix(&p.other, c.HiddenSize)
	s.other.forward(p, c, other, h)
	s.attention.forward(p, c, y, h)
	p.add(y, other)
}
