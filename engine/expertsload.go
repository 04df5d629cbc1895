package engine

import "slices"

// expertOptions say how an architecture uses experts.
type expertOptions struct {
	count, used int
	width       int    // of an expert
	gating      gating // 0: gateSoftmax
	normalize   bool   // the weights of the chosen sum to 1
	scale       float32
	shared      int  // width of the expert that every token is sent to; 0: none
	sharedGate  bool // that one has a gate, b.ffn_gate_inp_shexp
}

// experts completes the options from the file; nil if it has no experts.
func (l *loader) experts(c *Config, o expertOptions) *expertOptions {
	if o.count = l.integerOr("expert_count", 0); o.count == 0 || !l.ok() {
		return nil
	}
	const most = 1 << 12
	if o.count > most {
		l.fail("expert_count", ErrValue, "%d", o.count)
		return nil
	}
	if o.used = l.integer("expert_used_count"); o.used > o.count {
		l.fail("expert_used_count", ErrValue, "%d of %d experts", o.used, o.count)
	}
	if o.gating == 0 {
		o.gating = gateSoftmax
	}
	if n := l.integerOr("expert_gating_func", 0); n != 0 && gating(n) != o.gating {
		l.fail("expert_gating_func", ErrUnsupported, "%d", n)
	}
	o.scale = l.floatOr("expert_weights_scale", 0)
	if l.has("expert_weights_norm") && l.boolOr("expert_weights_norm", false) != o.normalize {
		l.fail("expert_weights_norm", ErrUnsupported, "%v", !o.normalize)
	}
	if o.width < 1 || o.width > largest {
		l.fail("expert_feed_forward_length", ErrValue, "%d", o.width)
	}
	c.Experts, c.ExpertsUsed = o.count, o.used
	return &o
}

// expertBlock reads the experts of a block.
func (l *loader) expertBlock(c *Config, f family, n string) *experts {
	o, d := f.experts, c.HiddenSize
	e := &experts{used: o.used, gating: o.gating, normalize: o.normalize, scale: o.scale}
	convert := l.convert
	l.convert = false // routers stay as they are: a rounded one chooses other experts
	e.router = l.linear(n+"ffn_gate_inp", o.count, d)
	if o.shared > 0 && o.sharedGate {
		e.sharedGate.w = l.matrix(n+"ffn_gate_inp_shexp.weight", 1, d)
	}
	l.convert = convert
	e.choice = l.optional(n+"exp_probs_b.bias", o.count)
	var gate, up []linear
	if l.holds(n + "ffn_gate_up_exps.weight") {
		gate, up = l.gatesAndUps(n+"ffn_gate_up_exps.weight", o.count, o.width, d)
	} else {
		gate = l.linears(n+"ffn_gate_exps", o.count, o.width, d)
		up = l.linears(n+"ffn_up_exps", o.count, o.width, d)
	}
	down := l.linears(n+"ffn_down_exps", o.count, d, o.width)
	if !l.ok() {
		return e
	}
	for i := range o.count {
		e.each = append(e.each, feedForward{gate: gate[i], up: up[i], down: down[i], act: f.activation})
	}
	if o.shared > 0 {
		shared := l.feedForward(f, n, "_shexp", o.shared, d)
		e.shared = &shared
	}
	return e
}

// gatesAndUps reads a tensor of n matrices [2*rows][cols]: the rows of a gate, then those of what it multiplies.
func (l *loader) gatesAndUps(name string, n, rows, cols int) (gate, up []linear) {
	both := l.cut(name, []int{cols, 2 * rows, n}, slices.Repeat([]int{rows}, 2*n), 2)
	if !l.ok() {
		return nil, nil
	}
	for i := range n {
		gate, up = append(gate, linear{w: both[2*i]}), append(up, linear{w: both[2*i+1]})
	}
	return gate, up
}

// linears reads n matrices and, if there, n biases from one tensor each.
func (l *loader) linears(name string, n, rows, cols int) []linear {
	w := l.stack(name+".weight", n, rows, cols)
	var b []float32
	if _, ok := l.find(name + ".bias"); ok {
		b = l.floats(name+".bias", rows, n)
	}
	if !l.ok() {
		return nil
	}
	all := make([]linear, n)
	for i := range all {
		if all[i].w = w[i]; b != nil {
			all[i].b = b[i*rows : (i+1)*rows : (i+1)*rows]
		}
	}
	return all
}
