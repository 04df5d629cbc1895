package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/specgo/spec/tensor"
)

// family says which parts of a decoder an architecture has and where a file keeps them. The zero value of a field is what most
// architectures have. The block itself is decoder.go.
type family struct {
	// Norms. A block has those of its sublayers' inputs, b.attn_norm and b.ffn_norm, unless it is said otherwise.
	norm      normKind
	noWeights bool   // norms have no weights
	noInput   bool   // sublayers read the residual stream as it is
	output    bool   // sublayers' outputs are normalized: b.post_attention_norm, b.post_ffw_norm
	after     bool   // with noInput: the residual stream is normalized after each sublayer, by b.attn_norm and b.ffn_norm
	noFinal   bool   // there is no final norm
	ffnNorm   string // the name of the feed-forward's norm, where it is another
	finalNorm string // likewise the final norm's
	bareNorm  bool   // the feed-forward's norm is called b.ffn_norm, without .weight
	parallel  bool   // both sublayers read the block's input
	qkNorm    qkNorm
	qkLast    bool // q and k are normalized after the rotation

	// Positions.
	positions bool // learned embeddings, position_embd
	rotation  rotation
	rotates   func(layer int) bool // nil: all layers
	factors   bool                 // rope_freqs.weight is known
	longrope  bool                 // so is rope.scaling.type "longrope"
	phi3      bool                 // rope_factors_long and _short are there whatever the type is
	yarnKeys  bool                 // the keys of YaRN's bounds are known
	alphaKey  bool                 // rope.scaling.alpha is known
	alibi     float32              // the greatest ALiBi bias; 0: none

	// Attention.
	window     int                  // positions; 0: none
	windowed   func(layer int) bool // nil: no layer
	windowBase float32              // rope.freq_base of windowed layers; 0: that of the others
	windowRope bool                 // windowed layers are rotated without scaling
	windowDim  int                  // a head's size in windowed layers; 0: that of the others

	windowRopeDims int  // rotated numbers of a windowed layer's heads; 0: those of the others
	plainWindow    bool // factors of frequencies are for the layers without a window
	valueNorm      bool // values are normalized, without weights; without attn_v they are the keys before their norm
	sharing        int  // the last layers use the keys and values of the last ones before them of their kind
	layerInput     int  // P: numbers that a token gives each layer besides the residual stream; 0: none

	scale  float32 // 0: 1/sqrt(d)
	cap    float32
	clamp  float32
	sinks  bool
	gates  bool // attn_q has gates of the result beside the queries
	warmth temperature

	mixer  func(layer int) mixer // a layer's, instead of attention; nil, or a nil one: attention
	beside func(layer int) mixer // a layer's, added to attention; nil: none

	// Feed-forward.
	activation activation
	gated      bool // ffn_gate beside ffn_up
	gateInUp   bool // the first half of ffn_up's rows is the gate
	experts    *expertOptions
	besideFFN  *expertOptions // experts beside the feed-forward

	outputScale bool // layer_output_scale, a factor of a block's output, is known
	dense       int  // the first blocks that have no experts

	// Ends.
	embeddingSize                                       int // W of token embeddings, which project_in and project_out make hidden states of and back; 0: the hidden size
	embeddingNorm                                       bool
	embeddingScale, residualScale, logitScale, logitCap float32
	head                                                headKind
	outputBias                                          bool // output.bias is known
}

// rotation is the pairing of rotary position embeddings.
type rotation uint8

const (
	none   rotation = iota
	pairs           // 2i and 2i+1
	halves          // i and i + n/2
)

// qkNorm says what the norms of queries and keys, b.attn_q_norm and b.attn_k_norm, take together.
type qkNorm uint8

const (
	noQK     qkNorm = iota
	perHead         // a head; weights [d]
	perToken        // all heads at once; weights [H*d] and [K*d]
	ownHead         // a head; weights for each, [H][d] and [K][d]
)

// headKind says where the output matrix is.
type headKind uint8

const (
	headOptional headKind = iota // output.weight, or the embedding
	headRequired
	headTied // always the embedding
)

// decoder reads the weights of a model.
func (l *loader) decoder(c *Config, f family) network {
	eps := "attention.layer_norm_rms_epsilon"
	if f.norm == layerNorm {
		eps = "attention.layer_norm_epsilon"
	}
	c.Epsilon = l.float(eps)
	m := &decoder{c: c, embeddingScale: f.embeddingScale, logitScale: f.logitScale, logitCap: f.logitCap}
	ropes := l.ropes(c, f)
	width := c.HiddenSize
	if f.embeddingSize > 0 {
		width = f.embeddingSize
	}
	m.embedding = l.embeddingOf(c, width)
	if width != c.HiddenSize {
		m.projectIn, m.projectOut = l.matrix("project_in.weight", c.HiddenSize, width), l.matrix("project_out.weight", width, c.HiddenSize)
	}
	if f.positions {
		m.positions = l.floats("position_embd.weight", c.HiddenSize, c.Context)
	}
	if f.embeddingNorm {
		m.embeddingNorm = l.norm(c, f, "token_embd_norm", c.HiddenSize)
	}
	m.inputs = l.layerInputs(c, f)
	for i := 0; i < c.Layers && l.ok(); i++ {
		m.blocks = append(m.blocks, l.decoderBlock(c, f, i, ropes))
	}
	finalNorm := "output_norm"
	if f.finalNorm != "" {
		finalNorm = f.finalNorm
	}
	if !f.noFinal {
		m.outputNorm = l.norm(c, f, finalNorm, c.HiddenSize)
	}
	m.output = linear{w: m.embedding}
	if f.head == headRequired || f.head == headOptional && l.holds("output.weight") {
		m.output.w = l.matrix("output.weight", c.Vocab, c.HiddenSize)
	}
	if f.outputBias {
		m.output.b = l.optional("output.bias", c.Vocab)
	}
	return m
}

func (l *loader) decoderBlock(c *Config, f family, i int, ropes ropes) block {
	n, d := l.block(i), c.HiddenSize
	b := block{parallel: f.parallel, residualScale: f.residualScale}
	ffnNorm := n + "ffn_norm"
	if f.ffnNorm != "" {
		ffnNorm = n + f.ffnNorm
	}
	if !f.noInput {
		b.attnNorm = l.norm(c, f, n+"attn_norm", d)
		switch {
		case f.bareNorm:
			b.ffnNorm = norm{kind: f.norm, eps: c.Epsilon, w: l.vector(ffnNorm, d)}
		case !f.parallel || l.holds(ffnNorm+".weight"):
			b.ffnNorm = l.norm(c, f, ffnNorm, d)
		}
		if f.parallel && l.holds(n+"attn_norm_2.weight") {
			b.attnNorm, b.ffnNorm = l.norm(c, f, n+"attn_norm_2", d), b.attnNorm
		}
	}
	if f.after {
		b.attnAfter, b.ffnAfter = l.norm(c, f, n+"attn_norm", d), l.norm(c, f, ffnNorm, d)
	}
	if f.output {
		b.attnPostNorm, b.ffnPostNorm = l.norm(c, f, n+"post_attention_norm", d), l.norm(c, f, n+"post_ffw_norm", d)
	}
	if f.mixer != nil {
		b.mixer = f.mixer(i)
	}
	if b.mixer == nil {
		a := l.attention(c, f, i, ropes)
		b.mixer = &a
		if f.beside != nil {
			b.mixer = &sideBySide{a, f.beside(i)}
		}
	}
	if f.layerInput > 0 {
		b.input = l.layerInput(c, f, i)
	}
	if f.outputScale {
		if w := l.optional(n+"layer_output_scale.weight", 1); w != nil {
			b.outputScale = w[0]
			if l.ok() && b.outputScale == 0 {
				l.keep(fmt.Errorf("%s: tensor %q: %w: 0", l.f.Name, n+"layer_output_scale.weight", ErrDamaged))
			}
		}
	}
	b.beside = l.expertsBeside(c, f, n)
	if f.experts != nil && i >= f.dense {
		b.experts = l.expertBlock(c, f, n)
	} else {
		b.ffn = l.feedForward(f, n, "", l.ffn[i], d)
	}
	return b
}

func (l *loader) attention(c *Config, f family, i int, ropes ropes) attention {
	n, d := l.block(i), c.HiddenSize
	a := attention{heads: l.queryHeads[i], kvHeads: l.kvHeads[i], headDim: c.HeadDim, clamp: f.clamp, normLast: f.qkLast, gated: f.gates, temperature: f.warmth}
	window := f.windowed != nil && f.windowed(i)
	if window && f.windowDim > 0 {
		a.headDim = f.windowDim
	}
	a.shared = i >= l.layers-f.sharing
	if l.ok() && (a.kvHeads < 1 || a.heads%a.kvHeads != 0) {
		l.fail("attention.head_count_kv", ErrValue, "%d heads cannot share %d KV heads", a.heads, a.kvHeads)
		return a
	}
	heads, kvHeads := a.heads*a.headDim, a.kvHeads*a.headDim
	switch {
	case f.valueNorm:
		a.q = l.linear(n+"attn_q", heads, d)
		if !a.shared {
			a.k = l.linear(n+"attn_k", kvHeads, d)
			if a.keysAsValues = !l.holds(n + "attn_v.weight"); !a.keysAsValues {
				a.v = l.linear(n+"attn_v", kvHeads, d)
			}
			a.vNorm = norm{kind: rmsNorm, eps: c.Epsilon, w: slices.Repeat([]float32{1}, a.headDim)}
		}
	case l.holds(n+"attn_qkv.weight") && !f.gates:
		qkv, bias := l.split(n+"attn_qkv.weight", d, heads, kvHeads, kvHeads), l.optional(n+"attn_qkv.bias", heads+2*kvHeads)
		if !l.ok() {
			return a
		}
		a.q.w, a.k.w, a.v.w = qkv[0], qkv[1], qkv[2]
		if bias != nil {
			a.q.b, a.k.b, a.v.b = bias[:heads], bias[heads:heads+kvHeads], bias[heads+kvHeads:]
		}
	default:
		queries := heads
		if f.gates {
			queries *= 2
		}
		a.q = l.linear(n+"attn_q", queries, d)
		a.k = l.linear(n+"attn_k", kvHeads, d)
		a.v = l.linear(n+"attn_v", kvHeads, d)
	}
	a.o = l.linear(n+"attn_output", d, heads)
	switch f.qkNorm {
	case perHead:
		a.qNorm = l.norm(c, f, n+"attn_q_norm", a.headDim)
		if !a.shared {
			a.kNorm = l.norm(c, f, n+"attn_k_norm", a.headDim)
		}
	case perToken:
		a.qNorm, a.kNorm = l.norm(c, f, n+"attn_q_norm", heads), l.norm(c, f, n+"attn_k_norm", kvHeads)
	case ownHead:
		a.qNorm, a.kNorm = l.headNorm(c, f, n+"attn_q_norm", a.heads), l.headNorm(c, f, n+"attn_k_norm", a.kvHeads)
	}
	a.scores = tensor.AttentionOptions{Heads: a.heads, Scale: f.scale, Cap: f.cap, Slopes: ropes.slopes}
	if a.scores.Scale == 0 {
		a.scores.Scale = headScale(a.headDim)
	}
	if f.sinks {
		a.scores.Sinks = l.vector(n+"attn_sinks.weight", a.heads)
	}
	if window {
		a.scores.Window = f.window
	}
	if a.shared {
		a.cache, a.scores.Layer = l.source(f, i, a.kvHeads, a.headDim, a.scores.Window)
	} else {
		at := l.place(i, a.kvHeads, a.headDim, a.scores.Window)
		a.cache, a.scores.Layer = at.cache, at.layer
	}
	if f.rotation != none && (f.rotates == nil || f.rotates(i)) {
		a.style = tensor.RopeInterleaved
		if f.rotation == halves {
			a.style = tensor.RopeHalves
		}
		if a.rope = ropes.full; window {
			a.rope = ropes.window
		}
	}
	return a
}

// feedForward reads the matrices b.ffn_gate, b.ffn_up and b.ffn_down with a suffix to their names.
func (l *loader) feedForward(f family, block, suffix string, inner, d int) feedForward {
	ffn := feedForward{act: f.activation}
	switch up := block + "ffn_up" + suffix; {
	case f.gateInUp:
		both := l.split(up+".weight", d, inner, inner)
		if bias := l.optional(up+".bias", 2*inner); bias != nil {
			ffn.gate.b, ffn.up.b = bias[:inner], bias[inner:]
		}
		if !l.ok() {
			return ffn
		}
		ffn.gate.w, ffn.up.w = both[0], both[1]
	case f.gated:
		ffn.gate = l.linear(block+"ffn_gate"+suffix, inner, d)
		ffn.up = l.linear(up, inner, d)
	default:
		ffn.up = l.linear(up, inner, d)
	}
	ffn.down = l.linear(block+"ffn_down"+suffix, d, inner)
	return ffn
}

// linear reads name.weight [rows][cols] and, if there, name.bias [rows].
func (l *loader) linear(name string, rows, cols int) linear {
	return linear{l.matrix(name+".weight", rows, cols), l.optional(name+".bias", rows)}
}

// norm reads a norm over n numbers: name.weight and, for LayerNorm and if there, name.bias.
func (l *loader) norm(c *Config, f family, name string, n int) norm {
	w := norm{kind: f.norm, eps: c.Epsilon}
	if f.noWeights {
		w.w = slices.Repeat([]float32{1}, n)
	} else {
		w.w = l.vector(name+".weight", n)
	}
	if f.norm == layerNorm {
		if w.b = l.optional(name+".bias", n); w.b == nil && l.ok() {
			w.b = make([]float32, n)
		}
	}
	return w
}

// headNorm reads a LayerNorm with weights [heads][d] over single heads.
func (l *loader) headNorm(c *Config, f family, name string, heads int) norm {
	return norm{kind: f.norm, eps: c.Epsilon, w: slices.Repeat([]float32{1}, c.HeadDim), b: make([]float32, c.HeadDim),
		own: l.floats(name+".weight", c.HeadDim, heads)}
}

// holds reports whether the file has a tensor. Asking that is not asking for it.
func (l *loader) holds(name string) bool {
	_, ok := l.f.Tensor(name)
	return ok
}

// headScale is 1/sqrt(d).
func headScale(d int) float32 { return float32(1 / math.Sqrt(float64(d))) }

// window is the pattern of windowed layers: attention.sliding_window_pattern p, by which layer i has a window if i mod p < p-1
// (p = 0: all layers), or one bool per block.
func (l *loader) window(period int) func(layer int) bool {
	const key = "attention.sliding_window_pattern"
	if v, _ := l.f.Value(l.arch + "." + key); l.has(key) {
		if array, ok := v.([]bool); ok {
			if len(array) < l.layers {
				l.fail(key, ErrValue, "%d entries for %d blocks", len(array), l.layers)
				return nil
			}
			return func(layer int) bool { return array[layer] }
		}
		period = l.integerOr(key, 0)
	}
	return func(layer int) bool { return period == 0 || layer%period < period-1 }
}
