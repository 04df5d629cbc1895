package engine

// modernBERT is ModernBERT (Warner et al. 2024, arXiv:2412.13663): norms without biases before the sublayers, gates,
// and windows in all blocks but the first of each period, which are rotated by another base.
func modernBERT(l *loader, _ *Config) family {
	f := family{
		norms: normParts{kind: layerNorm{}, lacking: true},
		rope:  ropeParts{pairing: halves, windowBase: 10000},
		feed:  feedParts{gate: gateInUp},
		ends:  endParts{embeddingNorm: true},
	}
	switch act := l.stringOr("hidden_activation", "gelu"); act {
	case "gelu":
		f.feed.activation = l.gelu()
	case "silu":
	default:
		l.fail("hidden_activation", ErrUnsupported, "%q", act)
	}
	windowed := l.windowAfter(3)
	if f.attention.window = l.integerOr("attention.sliding_window", 0); f.attention.window > 0 {
		f.attention.windowed = windowed
	}
	return f
}

// windowAfter is the pattern of windowed layers of attention.sliding_window_pattern p, by which layer i has none if i
// mod p = 0 (p = 0: all have one), or one bool per block.
func (l *loader) windowAfter(period int) func(layer int) bool {
	const key = "attention.sliding_window_pattern"
	if v, _ := l.f.Value(l.arch + "." + key); l.has(key) {
		if _, ok := v.([]bool); ok {
			return l.window(0)
		}
		period = l.integerOr(key, 0)
	}
	return func(layer int) bool { return period == 0 || layer%period != 0 }
}
