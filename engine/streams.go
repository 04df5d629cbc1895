package engine

import "github.com/specgo/spec/tensor"

// streamSizes are those of several residual streams x [rows][S][D] (hyper-connections, Zhu et al. 2024,
// arXiv:2409.19606, in the form of Qwen 3.8): a sublayer reads a mixture of them, and adds what it computes to each of
// them, more or less.
type streamSizes struct{ count, size, rank int } // S, D, R

// mostStreams is the greatest number of streams that is accepted.
const mostStreams = 64

// width is the numbers of all streams of a token.
func (s streamSizes) width() int { return s.count * s.size }

// streamSizes reads the key hyper_connection.count and that of the rank of their mixers.
func (l *loader) streamSizes(c *Config) streamSizes {
	s := streamSizes{count: l.integer("hyper_connection.count"), size: c.HiddenSize,
		rank: l.integer("hyper_connection.low_rank")}
	if l.ok() && (s.count < 2 || s.count > mostStreams || s.width() > largest) {
		l.fail("hyper_connection.count", ErrValue, "%d streams of %d numbers, 2 to %d", s.count, s.size, mostStreams)
	}
	c.StateSize = s.width()
	return s
}

// streamMixer is what is before a sublayer, in the place of a norm. With n = norm(x), of each stream by itself:
//
//	h = mean over streams of n ∘ sigmoid(Wup silu(Wdown n / S))
//	the sublayer's y is added to stream s with the factor 2 sigmoid(w_s n / S)
type streamMixer struct {
	streamSizes
	norm     norm   // over D, with weights of each stream
	down, up linear // [R][S*D], [S*D][R]
	inject   linear // [S][S*D] the w; none where nothing is added
}

// streamNorm reads a norm of each stream by itself.
func (b *build) streamNorm(name string, s streamSizes) norm {
	return norm{kind: rmsNorm{}, eps: b.c.Epsilon, w: ones(s.size), own: b.vector(name+".weight", s.width())}
}

// streamMixer reads that of a sublayer, or, without one, the mixer at the end of a model.
func (b *build) streamMixer(name string, s streamSizes, sublayer bool) *streamMixer {
	m := &streamMixer{streamSizes: s, norm: b.streamNorm(name+"norm", s)}
	m.down, m.up = b.linear(name+"down", s.rank, s.width()), b.linear(name+"up", s.width(), s.rank)
	if sublayer {
		m.inject = b.linear(name+"inject", s.count, s.width())
	}
	return m
}

// mix computes h [rows][D] of x [rows][S][D], and the factors of the streams p.factors [rows][S].
func (m *streamMixer) mix(p *pass, h, x []float32) {
	n, low, gate := p.matrix(&p.wide, m.width()), p.matrix(&p.up, m.rank), p.matrix(&p.gate, m.width())
	p.norm(n, x, m.norm)
	if m.inject.w != nil {
		w := p.matrix(&p.factors, m.count)
		p.matmul(n, m.width(), m.down.times(low), m.inject.times(w))
		p.scale(w, 1/float32(m.count))
		p.each(w, twiceSigmoid)
	} else {
		p.matmul(n, m.width(), m.down.times(low))
	}
	p.scale(low, 1/float32(m.count))
	p.silu(low)
	p.matmul(low, m.rank, m.up.times(gate))
	p.sigmoidMul(n, gate)
	columns(h, n, m.size, 0, m.width())
	for s := 1; s < m.count; s++ {
		one := gate[:len(h)]
		columns(one, n, m.size, s*m.size, m.width())
		p.add(h, one)
	}
	p.scale(h, 1/float32(m.count))
}

// add adds a sublayer's y [rows][D] to x [rows][S][D].
func (m *streamMixer) add(p *pass, x, y []float32) { m.spread(p, x, y, p.factors) }

// spread adds y [rows][D] to x [rows][S][D], times factors [rows][S].
func (s streamSizes) spread(p *pass, x, y, factors []float32) {
	all := p.matrix(&p.wide, s.width())
	s.repeat(all, y)
	p.mulRows(all, factors)
	p.add(x, all)
}

// repeat makes every stream of x [rows][S][D] y [rows][D].
func (s streamSizes) repeat(x, y []float32) {
	for i := range len(x) / s.size {
		copy(x[i*s.size:(i+1)*s.size], y[i/s.count*s.size:])
	}
}

func twiceSigmoid(x float32) float32 { return 2 * tensor.Sigmoid(x) }

// silu is x = x sigmoid(x).
func (p *pass) silu(x []float32) {
	if p.err == nil {
		p.t.SiLU(x)
	}
}

// streamBlock is a layer of a decoder with streams.
type streamBlock struct {
	begin       ending // what one family adds to the streams at the beginning; nil: nothing
	beforeMixer *streamMixer
	mixer       mixer
	beforeFeed  *streamMixer
	feed        sublayer
}

// streamBlock reads what layer i of a family has, between mixers of streams.
func (b *build) streamBlock(i int, s streamSizes) streamBlock {
	n := b.block(i)
	m := streamBlock{beforeMixer: b.streamMixer(n+"hc_attn_", s, true), beforeFeed: b.streamMixer(n+"hc_ffn_", s, true)}
	if b.mixer != nil {
		m.mixer = b.mixer(b, i)
	}
	if m.mixer == nil {
		m.mixer = b.family.attention.own(b, i)
	}
	m.feed = b.expertBlock(b.feed.experts, n)
	return m
}

// forward takes x [rows][S][D] through the block.
func (m *streamBlock) forward(p *pass, c *Config, x []float32) {
	h, y := p.matrix(&p.h, c.HiddenSize), p.matrix(&p.y, c.HiddenSize)
	if m.begin != nil {
		m.begin.forward(p, c, x)
	}
	m.beforeMixer.mix(p, h, x)
	m.mixer.forward(p, c, y, h)
	m.beforeMixer.add(p, x, y)
	m.beforeFeed.mix(p, h, x)
	m.feed.forward(p, c, y, h)
	m.beforeFeed.add(p, x, y)
}

// streamed is a decoder with several residual streams. Its states are all streams of a token.
type streamed struct {
	*decoder
	streamSizes
	layer []streamBlock
	end   *streamMixer
}

func (m *streamed) forward(p *pass) {
	x, h := p.matrix(&p.x, m.width()), p.matrix(&p.h, m.size)
	m.embed(p, h)
	m.repeat(x, h)
	for i := range m.layer {
		if !p.layer(i) {
			return
		}
		m.layer[i].forward(p, m.c, x)
	}
}

func (m *streamed) finalNorm(p *pass, x []float32) []float32 { return m.end.given(p, x) }

// given makes [n][D] of the streams x [n][S][D] of the rows p.given.
func (m *streamMixer) given(p *pass, x []float32) []float32 {
	p.part = p.given
	y := p.matrix(&p.y, m.size)
	m.mix(p, y, x)
	p.part = nil
	return y
}

// lends is what the model shares with draft heads: no block, and no norm at the end.
func (m *streamed) lends() lends {
	return lends{embeds: true, embedding: m.embedding, projects: true, output: m.output}
}
