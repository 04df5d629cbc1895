package engine

// exaone is EXAONE 3.
func exaone(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: halves, keys: freqFactors},
		feed:  feedParts{gate: gated},
	}
}

// exaone4 is EXAONE 4: norms of the sublayers' outputs instead of their inputs. The model of 64 blocks has windows,
// and rotates in the layers that have one only.
func exaone4(l *loader, c *Config) family {
	f := exaone(l, c)
	f.norms.at, f.attention.norms = atOutputs, perHead
	if window := l.integerOr("attention.sliding_window", 0); c.Layers == 64 {
		if window == 0 {
			window = 4096
		}
		f.attention.window, f.attention.windowed = window, l.window(4)
		f.rope.layers = f.attention.windowed
	} else if l.has("attention.sliding_window_pattern") {
		l.integerOr("attention.sliding_window_pattern", 0) // without windows it says nothing
	}
	return f
}
