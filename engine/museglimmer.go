package engine

import "github.com/specgo/spec/tensor"

// museGlimmer is Muse Glimmer (Meta 2026): embeddings normalized without weights; norms before and after the
// sublayers, of which those after have an epsilon that files do not say; gates of attention's result; windows in most
// layers, which alone are rotated; scaled and capped logits. A file that does not say the cap has 30, as in the
// reference engine.
func museGlimmer(l *loader, c *Config) family {
	const postEpsilon = 1e-8
	f := qwen3(l, c)
	f.norms.at, f.norms.postEpsilon = atBoth, postEpsilon
	f.attention.window, f.attention.windowed = l.integer("attention.sliding_window"), l.window(0)
	if pattern := "attention.sliding_window_pattern"; !l.has(pattern) {
		l.integer(pattern) // which it must say
	}
	f.attention.own = func(b *build, i int) mixer { return b.outputGate(i, c.HeadDim, tensor.Sigmoid) }
	f.rope.pairing, f.rope.layers = pairs, f.attention.windowed
	// The file format's own engine scales positions of layers without a window only, which are not rotated.
	if x := l.floatOr("rope.scaling.factor", 0); x != 0 && x != 1 {
		l.fail("rope.scaling.factor", ErrUnsupported, "%v: scaled positions in layers with a window, which alone are rotated",
			x)
	}
	f.scales.logit, f.scales.logitCap = l.positive("logit_scale", 0), l.floatOr("final_logit_softcapping", 30)
	f.ends.output = outputRequired
	f.ends.start = func(b *build, m *decoder) network {
		m.embedding = b.embedding(b.c)
		return &plainLender{normalized{m, norm{kind: b.norms.kind, w: ones(b.c.HiddenSize), eps: b.c.Epsilon}}}
	}
	return f
}

// plainLender is a decoder with normalized embeddings whose draft heads were trained with those of the matrix.
type plainLender struct{ normalized }

func (m *plainLender) lends() lends { return m.decoder.lends() }
