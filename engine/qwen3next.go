package engine

import "github.com/specgo/spec/engine/internal/recurrent"

// qwen3Next is Qwen3-Next: as Qwen 3.5 with experts, but for where the heads of its delta nets are.
func qwen3Next(l *loader, c *Config) family {
	f := deltaHybrid(l, c, func(i int, s recurrent.HeadSizes) mixer { return l.nextDeltaNet(c, i, s) })
	l.gatedExperts(c, &f)
	return f
}

// nextDeltaNet is a gated delta net whose heads of values are neighbours where they use the same queries and keys. One
// matrix makes the strengths and decays of those heads; in older files one makes their q, k, v and z.
type nextDeltaNet struct {
	deltaNet
	in linear // [NK*(2S+2rS)][D]; none: qkv and gate
	ba linear // [NK*2r][D]
}

func (l *loader) nextDeltaNet(c *Config, i int, s recurrent.HeadSizes) *nextDeltaNet {
	n, d, conv := l.block(i), c.HiddenSize, s.State*(2*s.Groups+s.Heads)
	m := &nextDeltaNet{deltaNet: deltaNet{sizes: s}}
	if l.holds(n + "ssm_in.weight") {
		m.in = l.linear(n+"ssm_in", conv+s.Inner, d)
	} else {
		m.qkv, m.gate = l.linear(n+"attn_qkv", conv, d), l.linear(n+"attn_gate", s.Inner, d)
	}
	m.ba = l.linear(n+"ssm_ba", 2*s.Heads, d)
	l.finishDeltaNet(&m.deltaNet, c, i, true)
	return m
}

func (m *nextDeltaNet) forward(p *pass, c *Config, y, h []float32) {
	s := m.sizes
	conv, r := s.State*(2*s.Groups+s.Heads), s.Heads/s.Groups
	qkv, z, ba := p.matrix(&p.q, conv), p.matrix(&p.gate, s.Inner), p.matrix(&p.up, 2*s.Heads)
	if m.in.w != nil {
		all := p.matrix(&p.wide, conv+s.Inner) // [rows][NK][2S+2rS]
		p.matmul(h, c.HiddenSize, m.in.times(all), m.ba.times(ba))
		m.sort(qkv, z, all)
	} else {
		p.matmul(h, c.HiddenSize, m.qkv.times(qkv), m.gate.times(z), m.ba.times(ba))
	}
	alpha, beta := p.matrix(&p.k, s.Heads), p.matrix(&p.v, s.Heads)
	columns(beta, ba, r, 0, 2*r)
	columns(alpha, ba, r, r, 2*r)
	m.finish(p, y, qkv, z, alpha, beta)
}

// sort takes all [rows][NK]{q [S], k [S], v [r][S], z [r][S]} apart: qkv [rows]{q [NK][S], k [NK][S], v [NV][S]} and
// z [rows][NV][S].
func (m *nextDeltaNet) sort(qkv, z, all []float32) {
	s := m.sizes
	values := s.Inner / s.Groups // r*S
	each, conv := 2*s.State+2*values, 2*s.State*s.Groups+s.Inner
	for i := 0; i < len(all)/each; i++ {
		from, row, head := all[i*each:(i+1)*each], qkv[i/s.Groups*conv:], i%s.Groups
		copy(row[head*s.State:], from[:s.State])
		copy(row[(s.Groups+head)*s.State:], from[s.State:2*s.State])
		copy(row[2*s.Groups*s.State+head*values:], from[2*s.State:2*s.State+values])
		copy(z[i*values:], from[2*s.State+values:])
	}
}
