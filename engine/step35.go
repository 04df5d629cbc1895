package engine

import "github.com/specgo/spec/tensor"

// step35 is Step 3.5 Flash (StepFun): windows in three of four layers, which have more heads and are rotated as a
// whole, the others by half; gates of heads; experts behind plain layers, with limits of their activations.
func step35(l *loader, c *Config) family {
	f := family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves, keys: freqFactors, windowBase: 10000, windowUnscaled: true},
		attention: attentionParts{window: l.integer("attention.sliding_window"), windowed: l.windows()},
		feed:      feedParts{gate: gated},
		ends:      endParts{output: outputRequired},
	}
	if l.holds(l.block(0) + "attn_q_norm.weight") {
		f.attention.norms = perHead
	}
	var whole, half *tensor.RopeTable
	f.attention.own = func(b *build, i int) mixer {
		if whole == nil && b.ok() {
			whole, half = b.step35Angles()
		}
		angles := half
		if f.attention.windowed(i) {
			angles = whole
		}
		if b.holds(b.block(i) + "attn_gate.weight") {
			o := b.outputGate(i, 1, tensor.Sigmoid)
			o.rope = angles
			return o
		}
		a := b.attention(i)
		a.rope = angles
		return a
	}
	f.feed.experts = l.experts(c, l.byKeys(gateSigmoid, expertOptions{
		width:  l.integerOr("expert_feed_forward_length", c.FeedForward),
		shared: l.integerOr("expert_shared_feed_forward_length", 0), dense: l.routerless,
	}))
	l.leadingDense() // layers without a router are
	l.limitFeeds(&f)
	return f
}

// step35Angles are those of layers with a window, and of the others: these rotate half of the numbers, with the first
// of the factors.
func (b *build) step35Angles() (whole, half *tensor.RopeTable) {
	o := b.ropes.options
	window := unscaled(o)
	window.Base, window.Factors = float64(b.floatOr("rope.freq_base_swa", 10000)), nil
	if o.Dims /= 2; o.Dims%2 != 0 {
		b.fail("rope.dimension_count", ErrValue, "half of %d is odd", 2*o.Dims)
		return nil, nil
	}
	if o.Factors != nil {
		o.Factors = o.Factors[:o.Dims/2]
	}
	const factors = "rope_freqs.weight"
	return b.ropeTable(window, factors), b.ropeTable(o, factors)
}

// limitFeeds limits the activations of a family's feed-forwards and experts, whose options are complete, in the layers
// that the file names: swiglu_clamp_exp those of the experts that a router chooses, swiglu_clamp_shexp the others.
func (l *loader) limitFeeds(f *family) {
	routed, plain := l.limits("swiglu_clamp_exp"), l.limits("swiglu_clamp_shexp")
	o := f.feed.experts
	f.feed.own = func(b *build, i int) sublayer {
		n := b.block(i)
		if o == nil || o.dense != nil && o.dense(i) {
			ffn := b.feedForward(n, "", b.ffn[i])
			ffn.act = plain(i)
			return ffn
		}
		e := b.expertBlock(o, n)
		for j := range e.each {
			e.each[j].act = routed(i)
		}
		if e.shared != nil {
			e.shared.act = plain(i)
		}
		return e
	}
}

// limits reads the limits of the layers' activations; 0 is none.
func (l *loader) limits(key string) func(layer int) activation {
	if !l.has(key) {
		return func(int) activation { return silu }
	}
	list, err := l.f.Float32s(l.arch + "." + key)
	l.keep(err)
	if l.ok() && (len(list) < l.layers || !tensor.Finite(list)) {
		l.fail(key, ErrValue, "%v, expected a number for each of %d blocks", list, l.layers)
	}
	return func(layer int) activation {
		if !l.ok() || list[l.first+layer] < 1e-6 {
			return silu
		}
		limit := list[l.first+layer]
		return limitedSiLU{limit, func(x float32) float32 { return min(x*tensor.Sigmoid(x), limit) }}
	}
}

// limitedSiLU is min(silu(gate), limit) ∘ (up within -limit … limit).
type limitedSiLU struct {
	limit float32
	silu  func(float32) float32 // with the limit
}

func (a limitedSiLU) alone(p *pass, x []float32) { p.each(x, a.silu) }

func (a limitedSiLU) gated(p *pass, gate, up []float32) {
	p.each(gate, a.silu)
	p.clamp(up, a.limit)
	p.mul(gate, up)
}
