package engine

import "slices"

// nanbeige is Nanbeige 4.2: Llama's blocks, through which the states go several times, each time with keys and values
// of their own.
func nanbeige(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs, keys: freqFactors},
		feed:  feedParts{gate: gated},
	}
}

// looped reads a decoder whose blocks are used num_loops times. Between two rounds comes the final norm.
func (l *loader) looped(m *Model) network {
	const most = 64 // rounds
	c := &m.config
	rounds, unnormed := l.integerOr("num_loops", 1), l.boolOr("skip_loop_final_norm", false)
	if l.ok() && (rounds < 1 || rounds > most) {
		l.fail("num_loops", ErrValue, "%d rounds, at most %d", rounds, most)
	}
	net := l.decoder(c, nanbeige(l, c))
	d, ok := net.(*decoder)
	if !l.ok() || !ok {
		return net
	}
	once := slices.Clone(d.blocks)
	for round := 1; round < rounds; round++ {
		if !unnormed {
			d.blocks[len(d.blocks)-1].end = &d.outputNorm
		}
		for _, b := range once {
			a := *b.mixer.(*attention) // it is: the family has no other
			a.cache, a.scores.Layer = l.place(len(d.blocks), a.kvHeads, a.headDim, a.scores.Window)
			b.mixer = &a
			d.blocks = append(d.blocks, b)
		}
	}
	c.Layers = len(d.blocks)
	return net
}

// forward makes a norm the end of a block.
func (n *norm) forward(p *pass, _ *Config, x []float32) { p.norm(x, x, *n) }
