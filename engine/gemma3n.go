package engine

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// gemma3n reads Gemma 3n (Google 2025): four streams of states of which each block computes one and predicts the others
// (AltUp, Baykal et al. 2023, arXiv:2301.13310), a small detour around each block (LAuReL, Menghani et al. 2024,
// arXiv:2411.07501), sparse feed-forwards at the beginning, inputs for each layer and shared keys and values as in
// Gemma 4.
func (l *loader) gemma3n(model *Model) network {
	c := &model.config
	f := gemma(l, c)
	b := newBuild(l, c, f)
	const own = 20                                                   // layers with keys and values of their own
	sharing := l.wholeOr("attention.shared_kv_layers", c.Layers-own) // a float in files of the first week
	if l.ok() && sharing != c.Layers-own {
		l.fail("attention.shared_kv_layers", ErrUnsupported, "%d of %d layers; in these models %d have keys and values",
			sharing, c.Layers, own)
	}
	for key, want := range map[string]int{"altup.num_inputs": streams, "altup.active_idx": 0,
		"embedding_length_per_layer_input": layerInputSize} {
		if n := l.integerOr(key, want); l.ok() && n != want {
			l.fail(key, ErrUnsupported, "%d, these models have %d", n, want)
		}
	}
	const period = 5
	w := &gemma4Windows{size: l.integer("attention.sliding_window"), headDim: c.HeadDim, dims: c.RopeDims,
		layers: l.fixedWindow(func(layer int) bool { return layer%period < period-1 })}
	if w.rotate(b); !l.ok() {
		return nil
	}
	d := c.HiddenSize
	m := &altUp{decoder: &decoder{c: c, embeddingScale: f.scales.embedding}}
	m.logitCap = l.floatOr("final_logit_softcapping", 30)
	m.embedding, m.inputs = l.embedding(c), b.layerInputs(layerInputSize)
	m.project, m.unproject = l.square("altup_proj.weight", d), l.square("altup_unembd_proj.weight", d)
	sparse := l.sparsity()
	for i := 0; i < c.Layers && l.ok(); i++ {
		deviations, ok := sparse(i)
		m.layer = append(m.layer, b.altUpBlock(i, w, sharing, deviations, ok))
	}
	m.outputNorm, m.output = b.norm("output_norm", d), linear{w: m.embedding}
	if l.holds("output.weight") {
		m.output = l.matrix("output.weight", c.Vocab, d)
	}
	return m
}

const (
	streams        = 4
	layerInputSize = 256 // of each layer
)

// square reads three matrices [D][D].
func (l *loader) square(name string, d int) (list [streams - 1]linear) {
	all := l.read(request{name: name, dims: []int{d, d, streams - 1}, rows: []int{d, d, d}})
	copy(list[:], all)
	return list
}

// sparsity says how many standard deviations above their mean the gates of a layer's feed-forward begin, in the layers
// where ok: those of activation_sparsity_scale, or the first ten.
func (l *loader) sparsity() func(layer int) (deviations float32, ok bool) {
	const key, usual, most = "activation_sparsity_scale", 1.6448533535003662, 10 // the 95th percentile
	if !l.has(key) {
		return func(layer int) (float32, bool) { return usual, layer < most }
	}
	list, err := l.f.Float32s(l.arch + "." + key)
	l.keep(err)
	if l.ok() && len(list) < l.layers {
		l.fail(key, ErrValue, "%d numbers for %d blocks", len(list), l.layers)
	}
	for _, x := range list {
		if x != x || x > 1e6 {
			l.fail(key, ErrValue, "%v", x)
		}
	}
	return func(layer int) (float32, bool) { return list[layer], list[layer] > -1e6 }
}

// altUp is a decoder with several streams of states. The first is the residual stream of other decoders.
type altUp struct {
	*decoder
	inputs             *layerInputs
	project, unproject [streams - 1]linear // [D][D]
	layer              []*altUpBlock
}

func (m *altUp) forward(p *pass) {
	d := m.c.HiddenSize
	x := p.matrix(&p.x, d)                   // [rows][D]
	more := p.matrix(&p.wide, (streams-1)*d) // [3][rows][D]
	m.embed(p, x)
	m.inputs.forward(p, m.c, x)
	n := len(x)
	for j := range m.project {
		part := more[j*n : (j+1)*n]
		p.matmul(x, d, m.project[j].times(part))
		p.rescale(part, x)
	}
	for i, b := range m.layer {
		if !p.layer(i) {
			break
		}
		b.forward(p, m.c, x, more)
	}
	sum, y := p.matrix(&p.h, d), p.matrix(&p.y, d)
	copy(sum, x)
	for j := range m.unproject {
		p.matmul(more[j*n:(j+1)*n], d, m.unproject[j].times(y))
		p.rescale(y, x)
		p.add(sum, y)
	}
	copy(x, sum)
	p.scale(x, 1.0/streams)
}

// rescale gives the rows of y [rows][D] the lengths of those of x.
func (p *pass) rescale(y, x []float32) {
	s := p.matrix(&p.factors, 1)
	d := len(x) / len(s)
	for i := range s {
		const least = 1e-30 // no row of the trained models is that short
		s[i] = length(x[i*d:(i+1)*d], 0) / max(length(y[i*d:(i+1)*d], 0), least)
	}
	p.mulRows(y, s)
}

// length is the square root of the sum of (x-mean)², in 16 lanes.
func length(x []float32, mean float32) float32 {
	var lanes [16]float32
	for i, v := range x {
		v -= mean
		lanes[i%16] += float32(v * v)
	}
	return float32(math.Sqrt(float64(fold(lanes))))
}

// fold adds 16 lanes: lane j and lane j+8, then 4, 2, 1.
func fold(lanes [16]float32) float32 {
	for n := 8; n > 0; n /= 2 {
		for j := range n {
			lanes[j] += lanes[j+n]
		}
	}
	return lanes[0]
}

// altUpBlock is a block of altUp.
type altUpBlock struct {
	router           linear // [4][D]
	routerNorm       norm
	predict, correct linear // [16][4], [4][4]
	correctScale     []float32
	down, up         linear // of the detour: [64][D], [D][64]
	detourNorm       norm
	block            block
	input            *layerInput
}

func (b *build) altUpBlock(i int, w *gemma4Windows, sharing int, deviations float32, sparse bool) *altUpBlock {
	const rank = 64 // of the detour
	n, d := b.block(i), b.c.HiddenSize
	m := &altUpBlock{
		routerNorm: b.norm(n+"altup_router_norm", d), correctScale: b.vector(n+"altup_correct_scale.weight", d),
		down: b.linear(n+"laurel_l", rank, d), up: b.linear(n+"laurel_r", d, rank),
		detourNorm: b.norm(n+"laurel_post_norm", d), input: b.layerInput(i, layerInputSize),
	}
	m.router.w = b.exact(n+"altup_router.weight", streams, d)
	m.predict.w = b.exact(n+"altup_predict_coef.weight", streams*streams, streams)
	m.correct.w = b.exact(n+"altup_correct_coef.weight", streams, streams)
	m.block = block{
		attnNorm: b.norm(n+"attn_norm", d), mixer: b.gemma4Attention(i, w, sharing),
		attnPostNorm: b.norm(n+"post_attention_norm", d), ffnNorm: b.norm(n+"ffn_norm", d),
		ffnPostNorm: b.norm(n+"post_ffw_norm", d),
	}
	ffn := b.feedForward(n, "", b.ffn[i])
	if sparse {
		ffn.act = topGates{deviations}
	}
	m.block.feed = ffn
	return m
}

// forward takes the streams x [rows][D] and more [3][rows][D] through the block.
func (m *altUpBlock) forward(p *pass, c *Config, x, more []float32) {
	d, n := c.HiddenSize, len(x)
	stream := func(j int) []float32 {
		if j == 0 {
			return x
		}
		return more[(j-1)*n : j*n]
	}
	predicted := p.matrix(&p.other, streams*d) // [4][rows][D]
	shares := p.matrix(&p.v, streams*streams)
	p.matmul(m.modalities(p, x, d), streams, m.predict.times(shares))
	for j := range streams {
		to := predicted[j*n : (j+1)*n]
		copy(to, stream(j))
		for a := range streams {
			mulAddRows(to, stream(a), shares, j*streams+a, streams*streams)
		}
	}
	first := predicted[:n]

	// y = (x + attention(norm(x)) + h + detour(h))/sqrt(2), h = norm(x), and its feed-forward
	b := &m.block
	h, y := p.matrix(&p.h, d), p.matrix(&p.y, d)
	p.norm(h, first, b.attnNorm)
	b.mixer.forward(p, c, y, h)
	p.norm(y, y, b.attnPostNorm)
	p.add(y, first)
	low, detour := p.matrix(&p.gate, m.down.w.Rows()), p.matrix(&p.a, d)
	p.matmul(h, d, m.down.times(low))
	p.matmul(low, m.down.w.Rows(), m.up.times(detour))
	p.norm(detour, detour, m.detourNorm)
	p.add(h, detour)
	p.add(y, h)
	p.scale(y, float32(1/math.Sqrt2))
	p.norm(h, y, b.ffnNorm)
	b.feed.forward(p, c, h, h)
	p.norm(h, h, b.ffnPostNorm)
	p.add(y, h)

	corrections := p.matrix(&p.v, streams)
	p.matmul(m.modalities(p, y, d), streams, m.correct.times(corrections))
	for i := range corrections {
		corrections[i]++
	}
	for i, v := range first {
		y[i] -= v
	}
	for j := range streams {
		to := stream(j)
		copy(to, predicted[j*n:(j+1)*n])
		mulAddRows(to, y, corrections, j, streams)
	}
	copy(h, x)
	p.mulWeights(h, m.correctScale)
	m.input.make(p, c, y, h)
	for j := 1; j < streams; j++ {
		p.add(stream(j), y)
	}
}

// modalities is tanh(router norm(x)/D) [rows][4].
func (m *altUpBlock) modalities(p *pass, x []float32, d int) []float32 {
	h, out := p.matrix(&p.q, d), p.matrix(&p.k, streams)
	p.norm(h, x, m.routerNorm)
	p.scale(h, 1/float32(d))
	p.matmul(h, d, m.router.times(out))
	p.cap(out, 1)
	return out
}

// mulAddRows adds the rows of x, times number at of width numbers of each row, to those of dst.
func mulAddRows(dst, x, factors []float32, at, width int) {
	rows := len(factors) / width
	d := len(x) / rows
	for i := range rows {
		tensor.MulAdd(dst[i*d:(i+1)*d], x[i*d:(i+1)*d], factors[i*width+at])
	}
}

// topGates is GELU of what is more than so many standard deviations above the mean of a token's gates.
type topGates struct{ deviations float32 }

func (a topGates) alone(p *pass, x []float32) {
	a.cut(x, p.rows())
	p.activate(x, gelu)
}

func (a topGates) gated(p *pass, gate, up []float32) {
	a.cut(gate, p.rows())
	p.gateMul(gate, up, gelu)
}

func (a topGates) cut(x []float32, rows int) {
	n := len(x) / rows
	for i := range rows {
		row := x[i*n : (i+1)*n]
		var lanes [16]float32
		for j, v := range row {
			lanes[j%16] += v
		}
		mean := fold(lanes) / float32(n)
		from := mean + float32(a.deviations*(length(row, mean)/float32(math.Sqrt(float64(n-1)))))
		for j, v := range row {
			row[j] = max(0, v-from)
		}
	}
}
