package engine

import (
	"cmp"

	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/tensor"
)

// build reads the weights of a model whose parts a family says.
type build struct {
	*loader
	family
	c     *Config
	ropes ropes
}

// newBuild reads what the layers have in common.
func newBuild(l *loader, c *Config, f family) *build {
	c.Epsilon = l.float(f.norms.kind.epsilon())
	return &build{loader: l, family: f, c: c, ropes: l.ropes(c, &f)}
}

// decoder reads a decoder.
func (l *loader) decoder(c *Config, f family) network {
	b := newBuild(l, c, f)
	m := &decoder{c: c, embeddingScale: f.scales.embedding, logitScale: f.scales.logit, logitCap: f.scales.logitCap}
	var net network = m
	if f.ends.start != nil {
		net = f.ends.start(b, m)
	} else {
		m.embedding = l.embedding(c)
	}
	if f.ends.positions {
		m.positions = l.floats("position_embd.weight", c.HiddenSize, c.Context)
	}
	for i := 0; i < c.Layers && l.ok(); i++ {
		m.blocks = append(m.blocks, b.decoderBlock(i))
	}
	if name := b.called("output_norm"); name != "" {
		m.outputNorm = b.norm(name, c.HiddenSize)
	}
	m.output = linear{w: m.embedding}
	if f.ends.output == outputRequired || f.ends.output == outputOptional && l.holds("output.weight") {
		m.output = l.matrix("output.weight", c.Vocab, c.HiddenSize)
	}
	if f.ends.outputBias {
		m.output.b = l.optional("output.bias", c.Vocab)
	}
	return net
}

// called is what the file calls a norm.
func (b *build) called(name string) string {
	if other, ok := b.norms.names[name]; ok {
		return other
	}
	return name
}

// decoderBlock reads layer i.
func (b *build) decoderBlock(i int) block {
	n, d, f := b.block(i), b.c.HiddenSize, &b.norms
	block := block{parallel: f.parallel, residualScale: b.scales.residual}
	if b.mixer != nil {
		block.mixer = b.mixer(b, i)
	}
	attnNorm, ffnNorm := n+b.called("attn_norm"), n+b.called("ffn_norm")
	switch f.at {
	case atInputs, atBoth:
		if _, none := block.mixer.(noMixer); !none && (!f.lacking || i > 0 || b.holds(attnNorm+".weight")) {
			block.attnNorm = b.norm(attnNorm, d)
		}
		if b.ffn[i] > 0 && (!f.parallel || b.holds(ffnNorm+".weight")) {
			block.ffnNorm = b.norm(ffnNorm, d)
		}
		if second := n + "attn_norm_2"; f.parallel && b.holds(second+".weight") {
			block.attnNorm, block.ffnNorm = b.norm(second, d), block.attnNorm
		}
	case atMixer:
		block.attnNorm = b.norm(attnNorm, d)
	case atResidual:
		block.attnAfter, block.ffnAfter = b.norm(attnNorm, d), b.norm(ffnNorm, d)
	}
	if f.at == atOutputs || f.at == atBoth {
		block.attnPostNorm, block.ffnPostNorm = b.norm(n+"post_attention_norm", d), b.norm(n+"post_ffw_norm", d)
		if f.postEpsilon > 0 {
			block.attnPostNorm.eps, block.ffnPostNorm.eps = f.postEpsilon, f.postEpsilon
		}
	}
	switch {
	case block.mixer != nil:
	case b.family.attention.own != nil:
		block.mixer = b.family.attention.own(b, i)
	default:
		block.mixer = b.attention(i)
	}
	if b.end != nil {
		block.end = b.end(b, i)
	}
	if f.at == atMixer || b.ffn[i] == 0 {
		block.apart = true
		return block
	}
	switch {
	case b.feed.own != nil:
		block.feed = b.feed.own(b, i)
	case b.feed.experts != nil && (b.feed.experts.dense == nil || !b.feed.experts.dense(i)):
		block.feed = b.expertBlock(b.feed.experts, n)
	default:
		block.feed = b.feedForward(n, "", b.ffn[i])
	}
	_, plain := block.feed.(*feedForward)
	block.apart = f.parallel || !plain
	return block
}

// attention reads layer i's.
func (b *build) attention(i int) *attention {
	a := b.heads(i, b.c.HeadDim)
	if !b.ok() {
		return a
	}
	n, d, heads, kvHeads := b.block(i), b.c.HiddenSize, a.heads*a.headDim, a.kvHeads*a.headDim
	if b.holds(n + "attn_qkv.weight") {
		qkv, bias := b.split(n+"attn_qkv.weight", d, heads, kvHeads, kvHeads), b.optional(n+"attn_qkv.bias", heads+2*kvHeads)
		if !b.ok() {
			return a
		}
		a.q, a.k, a.v = qkv[0], qkv[1], qkv[2]
		if bias != nil {
			a.q.b, a.k.b, a.v.b = bias[:heads], bias[heads:heads+kvHeads], bias[heads+kvHeads:]
		}
	} else {
		a.q, a.k, a.v = b.linear(n+"attn_q", heads, d), b.linear(n+"attn_k", kvHeads, d), b.linear(n+"attn_v", kvHeads, d)
	}
	b.finish(a, i)
	return a
}

// heads is attention of layer i with heads of that size, of which nothing has been read.
func (b *build) heads(i, dim int) *attention {
	a := &attention{heads: b.queryHeads[i], kvHeads: b.kvHeads[i], headDim: dim, clamp: b.family.attention.clamp}
	if b.ok() && (a.kvHeads < 1 || a.heads%a.kvHeads != 0) {
		b.fail("attention.head_count_kv", ErrValue, "%d heads cannot share %d KV heads", a.heads, a.kvHeads)
	}
	return a
}

// finish reads what attention of layer i has beside queries, keys and values, and finds it a place in the caches.
func (b *build) finish(a *attention, i int) {
	n, f := b.block(i), &b.family.attention
	a.o = b.linear(n+"attn_output", b.c.HiddenSize, a.heads*a.headDim)
	a.normLast = f.norms == perHeadLast
	switch q, k := n+"attn_q_norm", n+"attn_k_norm"; f.norms {
	case perHead, perHeadLast:
		a.qNorm, a.kNorm = b.norm(q, a.headDim), b.norm(k, a.headDim)
	case perToken:
		a.qNorm, a.kNorm = b.norm(q, a.heads*a.headDim), b.norm(k, a.kvHeads*a.headDim)
	case ownHead:
		a.qNorm, a.kNorm = b.headNorm(q, a.heads), b.headNorm(k, a.kvHeads)
	}
	a.scores = tensor.AttentionOptions{Heads: a.heads, Scale: f.scale, Slopes: b.ropes.slopes}
	if a.scores.Scale == 0 {
		a.scores.Scale = headScale(a.headDim)
	}
	window := f.windowed != nil && f.windowed(i)
	if a.scores.Both = f.both; window && f.both {
		a.scores.Reach = f.window / 2
	} else if window {
		a.scores.Window = f.window
	}
	a.cache, a.scores.Layer = b.place(i, a.kvHeads, a.headDim, a.scores.Window)
	if b.rope.layers == nil || b.rope.layers(i) {
		a.style = b.rope.pairing.style()
		if a.rope = b.ropes.full; window {
			a.rope = b.ropes.window
		}
	}
}

// feedForward reads the matrices block.ffn_gate, ffn_up and ffn_down with a suffix to their names.
func (b *build) feedForward(block, suffix string, inner int) *feedForward {
	ffn, d := &feedForward{act: cmp.Or[activation](b.feed.activation, silu)}, b.c.HiddenSize
	switch up := block + "ffn_up" + suffix; b.feed.gate {
	case gateInUp:
		both, bias := b.split(up+".weight", d, inner, inner), b.optional(up+".bias", 2*inner)
		if !b.ok() {
			return ffn
		}
		ffn.gate, ffn.up = both[0], both[1]
		if bias != nil {
			ffn.gate.b, ffn.up.b = bias[:inner], bias[inner:]
		}
	case gated:
		ffn.gate = b.linear(block+"ffn_gate"+suffix, inner, d)
		ffn.up = b.linear(up, inner, d)
	default:
		ffn.up = b.linear(up, inner, d)
	}
	ffn.down = b.linear(block+"ffn_down"+suffix, d, inner)
	return ffn
}

// expertBlock reads the experts of a block.
func (b *build) expertBlock(o *expertOptions, n string) *experts {
	l, d := b.loader, b.c.HiddenSize
	in := cmp.Or(o.inputs, d)
	e := &experts{used: o.used, gating: o.gating, normalize: o.normalize, scale: o.scale, groups: o.groups,
		groupsUsed: o.groupsUsed, weighInputs: o.weighInputs}
	// Routers are not converted: a rounded one chooses other experts.
	e.router.w, e.router.b = l.exact(n+"ffn_gate_inp.weight", o.count, d), l.optional(n+"ffn_gate_inp.bias", o.count)
	if o.shared > 0 && o.sharedGate {
		e.sharedGate.w = l.exact(n+"ffn_gate_inp_shexp.weight", 1, d)
	}
	if name := n + cmp.Or(o.choice, "exp_probs_b.bias"); o.mustChoose || l.holds(name) {
		e.choice = l.vector(name, o.count)
	}
	gate, up := make([]linear, o.count), []linear(nil)
	switch {
	case l.holds(n + "ffn_gate_up_exps.weight"):
		gate, up = l.gatesAndUps(n+"ffn_gate_up_exps.weight", o.count, o.width, in)
	case b.feed.gate == gated:
		gate = l.linears(n+"ffn_gate_exps", o.count, o.width, in)
		fallthrough
	default:
		up = l.linears(n+"ffn_up_exps", o.count, o.width, in)
	}
	down := l.linears(n+"ffn_down_exps", o.count, in, o.width)
	if !l.ok() {
		return e
	}
	act := cmp.Or[activation](b.feed.activation, silu)
	for i := range o.count {
		e.each = append(e.each, feedForward{gate: gate[i], up: up[i], down: down[i], act: act})
	}
	if o.shared > 0 {
		e.shared = b.feedForward(n, "_shexp", o.shared)
	}
	return e
}

// norm reads a norm of the family's kind over n numbers.
func (b *build) norm(name string, n int) norm {
	w := norm{kind: b.norms.kind, eps: b.c.Epsilon}
	w.w, w.b = b.norms.kind.read(b.loader, name, n)
	return w
}

// headNorm reads a norm with weights [heads][d] over single heads.
func (b *build) headNorm(name string, heads int) norm {
	d := b.c.HeadDim
	return norm{kind: b.norms.kind, eps: b.c.Epsilon, w: ones(d), b: make([]float32, d),
		own: b.floats(name+".weight", d, heads)}
}

// linear reads name.weight [rows][cols] and, if there, name.scale and name.bias [rows].
func (l *loader) linear(name string, rows, cols int) linear {
	m := l.matrix(name+".weight", rows, cols)
	m.b = l.optional(name+".bias", rows)
	return m
}

// place finds a place for the keys and values of a layer: which of the model's caches, and which layer of that cache.
func (l *loader) place(layer, heads, headDim, window int) (at, number int) {
	return l.placeValues(layer, heads, headDim, 0, window)
}

// placeValues is place for values of another size than keys.
func (l *loader) placeValues(layer, heads, headDim, valueDim, window int) (at, number int) {
	return l.placeIn(layer, cache{heads: heads, headDim: headDim, window: window, valueDim: valueDim})
}

// placeKeys is place for one head whose values are the first valueDim numbers of its keys.
func (l *loader) placeKeys(layer, headDim, valueDim int) (at, number int) {
	return l.placeIn(layer, cache{heads: 1, headDim: headDim, valueDim: valueDim, inKeys: true})
}

// placeIn adds a layer to the cache of that kind.
func (l *loader) placeIn(layer int, kind cache) (at, number int) {
	for i := range l.caches {
		if c := &l.caches[i]; c.same(&kind) {
			c.layers = append(c.layers, layer)
			return i, len(c.layers) - 1
		}
	}
	kind.layers = []int{layer}
	l.caches = append(l.caches, kind)
	return len(l.caches) - 1, 0
}

// recur adds a recurrence to the model and returns its number.
func (l *loader) recur(layer int, r recurrent.Recurrence) int {
	l.recurrent = append(l.recurrent, recurrent.NewLayer(layer, r))
	return len(l.recurrent) - 1
}
