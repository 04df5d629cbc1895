package engine

import (
	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/tensor"
)

// qwen35 is Qwen 3.5: gated delta nets, and gated attention in every fourth layer.
func qwen35(l *loader, c *Config) family {
	return deltaHybrid(l, c, func(i int, s recurrent.HeadSizes) mixer { return l.deltaNet(c, i, s) })
}

// deltaHybrid has such delta nets, and gated attention in every n-th layer.
func deltaHybrid(l *loader, c *Config, delta func(i int, s recurrent.HeadSizes) mixer) family {
	f := qwen3(l, c)
	l.sections()
	f.norms.names = map[string]string{"ffn_norm": "post_attention_norm"}
	f.attention.own = func(b *build, i int) mixer { return b.gatedAttention(i) }
	s := l.mambaSizes()
	if l.ok() && s.Inner != s.State*s.Heads {
		l.fail("ssm.inner_size", ErrValue, "%d, %d heads of %d", s.Inner, s.Heads, s.State)
	}
	in := l.recurrentLayers()
	f.mixer = func(_ *build, i int) mixer {
		if !l.ok() || !in(i) {
			return nil
		}
		return delta(i, s)
	}
	return f
}

// qwen35MoE is Qwen 3.5 with experts.
func qwen35MoE(l *loader, c *Config) family {
	f := qwen35(l, c)
	l.gatedExperts(c, &f)
	return f
}

// gatedExperts gives a family a choice of experts, and a further one that a gate decides about.
func (l *loader) gatedExperts(c *Config, f *family) {
	f.feed.experts = l.experts(c, expertOptions{
		width:  l.integerOr("expert_feed_forward_length", c.FeedForward/max(1, l.integerOr("expert_used_count", 1))),
		shared: l.integerOr("expert_shared_feed_forward_length", c.FeedForward), sharedGate: true, normalize: true,
	})
	if l.ok() && f.feed.experts == nil {
		l.fail("expert_count", ErrValue, "0")
	}
}

// recurrentLayers says which layers of qwen35 are recurrent: attention.recurrent_layers, or all but every n-th.
func (l *loader) recurrentLayers() func(layer int) bool {
	const key = "attention.recurrent_layers"
	interval := l.integerOr("full_attention_interval", 4)
	if v, ok := l.f.Value(l.arch + "." + key); ok {
		l.keys[key] = true
		list, ok := v.([]bool)
		if !ok || len(list) < l.layers {
			l.fail(key, ErrValue, "expected a bool for each of %d blocks", l.layers)
			return nil
		}
		return func(layer int) bool { return list[layer] }
	}
	if l.ok() && interval < 1 {
		l.fail("full_attention_interval", ErrValue, "%d", interval)
	}
	return func(layer int) bool { return (layer+1)%interval != 0 }
}

// gatedAttention is attention whose result is multiplied by the sigmoid of gates, a number for each of every head. q
// has [H*2d][D]: a head's queries, then its gates.
type gatedAttention struct{ *attention }

func (b *build) gatedAttention(i int) *gatedAttention {
	a, n, d := b.heads(i, b.c.HeadDim), b.block(i), b.c.HiddenSize
	if !b.ok() {
		return &gatedAttention{a}
	}
	a.q = b.linear(n+"attn_q", 2*a.heads*a.headDim, d)
	a.k, a.v = b.linear(n+"attn_k", a.kvHeads*a.headDim, d), b.linear(n+"attn_v", a.kvHeads*a.headDim, d)
	b.finish(a, i)
	return &gatedAttention{a}
}

func (l *gatedAttention) forward(p *pass, _ *Config, y, h []float32) { l.attend(p, y, h, l.scores) }

// attend is forward with scores that are computed as o says.
func (l *gatedAttention) attend(p *pass, y, h []float32, o tensor.AttentionOptions) {
	q, k, v := l.scratch(p)
	a, gates := p.matrix(&p.a, l.heads*l.headDim), p.matrix(&p.gate, l.heads*l.headDim)
	both := p.matrix(&p.up, 2*l.heads*l.headDim) // [rows][H][2][d]
	p.matmul(h, l.q.w.Cols(), l.q.times(both), l.k.times(k), l.v.times(v))
	p.unzip(q, gates, both, l.headDim)
	l.place(p, q, l.heads, l.qNorm)
	l.place(p, k, l.kvHeads, l.kNorm)
	p.attend(a, l.cache, o, q, k, v)
	p.sigmoidMul(a, gates)
	p.matmul(a, l.heads*l.headDim, l.o.times(y))
}
