package engine

import "github.com/specgo/spec/engine/internal/recurrent"

// kimiLinear is Kimi Linear (Moonshot 2025, arXiv:2510.26692): Kimi delta attention, and latent attention without
// positions in the layers with KV heads; experts behind plain layers.
func kimiLinear(l *loader, c *Config) family {
	f := family{
		norms: normParts{kind: rmsNorm{}},
		feed: feedParts{gate: gated, experts: l.experts(c, l.kimiExperts(expertOptions{
			width: l.integerOr("expert_feed_forward_length", c.FeedForward), mustChoose: true, dense: l.leadingDense(),
		}))},
		ends: endParts{output: outputRequired},
	}
	s, form := l.latentSizes(c), l.kimiForm(c)
	l.ignoreKeys("rope.") // nothing is rotated
	f.mixer = func(b *build, i int) mixer {
		switch {
		case !l.ok():
			return nil
		case l.kvHeads[i] == 0:
			return l.kimiDelta(c, i, form)
		}
		return b.newLatentAttention(i, s, headScale(s.nope+s.rot), nil)
	}
	return f
}

// kimiExperts are always normalized.
func (l *loader) kimiExperts(o expertOptions) expertOptions {
	l.has("expert_weights_norm")
	o = l.byKeys(0, o)
	o.normalize = true
	return o
}

// kimiForm is what families with Kimi delta attention differ in.
type kimiForm struct {
	size, taps int     // S, and of the convolution
	floor      float32 // of the logarithms of the decays, below 0; 0: none
	whole      bool    // the matrices of decays and gates are not two of rank S each
}

// kimiForm reads the sizes.
func (l *loader) kimiForm(c *Config) kimiForm {
	f := kimiForm{size: l.integer("kda.head_dim"), taps: l.integer("ssm.conv_kernel")}
	l.tooLarge("kda.head_dim", f.size*c.Heads, f.size)
	l.tooLarge("ssm.conv_kernel", 3*f.size*c.Heads, f.taps)
	return f
}

// kimiDelta is Kimi delta attention: a gated delta net with a decay for each number of a key.
type kimiDelta struct {
	q, k, v, beta linear // [H*S][D], [H][D]
	fa, fb        linear // [S][D], [H*S][S]: the decays; without the second the first is [H*S][D]
	ga, gb        linear // likewise: the gates
	norm          norm   // over a head
	out           linear // [D][H*S]
	heads, size   int    // H, S
	id            int    // of the model's recurrent layers
}

func (l *loader) kimiDelta(c *Config, i int, f kimiForm) *kimiDelta {
	n, d, inner := l.block(i), c.HiddenSize, f.size*c.Heads
	m := &kimiDelta{heads: c.Heads, size: f.size}
	m.q, m.k, m.v = l.linear(n+"attn_q", inner, d), l.linear(n+"attn_k", inner, d), l.linear(n+"attn_v", inner, d)
	m.beta = l.linear(n+"ssm_beta", c.Heads, d)
	if f.whole {
		m.fa, m.ga = l.linear(n+"ssm_f_a", inner, d), l.linear(n+"ssm_g_a", inner, d)
	} else {
		m.fa, m.fb = l.linear(n+"ssm_f_a", f.size, d), l.linear(n+"ssm_f_b", inner, f.size)
		m.ga, m.gb = l.linear(n+"ssm_g_a", f.size, d), l.linear(n+"ssm_g_b", inner, f.size)
	}
	var filters [3][]float32
	for j, part := range []string{"q", "k", "v"} {
		filters[j] = l.floats(n+"ssm_conv1d_"+part+".weight", f.taps, 1, inner)
	}
	bias, a := l.vector(n+"ssm_dt.bias", inner), l.floats(n+"ssm_a", 1, c.Heads)
	m.norm = norm{kind: rmsNorm{}, eps: c.Epsilon, w: l.vector(n+"ssm_norm.weight", f.size)}
	m.out = l.linear(n+"attn_output", d, inner)
	if !l.ok() {
		return m
	}
	m.id = l.recur(i, recurrent.NewKimiDelta(recurrent.KimiSizes{Heads: c.Heads, Size: f.size, Taps: f.taps}, c.Epsilon,
		f.floor, filters, bias, a))
	return m
}

func (m *kimiDelta) forward(p *pass, c *Config, y, h []float32) {
	inner := m.heads * m.size
	qkv, part := p.matrix(&p.q, 3*inner), p.matrix(&p.wide, 3*inner)
	n := p.rows() * inner
	q, k, v := part[:n], part[n:2*n], part[2*n:]
	beta := p.matrix(&p.v, m.heads)
	decay, z, out := p.matrix(&p.up, inner), p.matrix(&p.gate, inner), p.matrix(&p.a, inner)
	if m.fb.w == nil {
		p.matmul(h, c.HiddenSize, m.q.times(q), m.k.times(k), m.v.times(v), m.beta.times(beta), m.fa.times(decay),
			m.ga.times(z))
	} else {
		low := p.matrix(&p.k, 2*m.size)
		fa, ga := low[:p.rows()*m.size], low[p.rows()*m.size:]
		p.matmul(h, c.HiddenSize, m.q.times(q), m.k.times(k), m.v.times(v), m.beta.times(beta), m.fa.times(fa),
			m.ga.times(ga))
		p.matmul(fa, m.size, m.fb.times(decay))
		p.matmul(ga, m.size, m.gb.times(z))
	}
	for j, x := range [][]float32{q, k, v} {
		spread(qkv, x, inner, j*inner, 3*inner)
	}
	p.recur(m.id, out, qkv, decay, beta)
	p.norm(out, out, m.norm)
	p.sigmoidMul(out, z)
	p.matmul(out, inner, m.out.times(y))
}
