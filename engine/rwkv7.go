package engine

import (
	"slices"

	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/tensor"
)

// rwkv7 is RWKV-7 (Peng et al. 2025, arXiv:2503.14456): in place of attention a state that forgets and replaces, and a
// feed-forward; both mix what they read with what the token before gave them.
func rwkv7(l *loader, c *Config) family {
	size := l.integer("wkv.head_size")
	if l.ok() && (size != 64 || c.HiddenSize%size != 0) {
		l.fail("wkv.head_size", ErrUnsupported, "%d of %d numbers; these models have heads of 64", size, c.HiddenSize)
	}
	if n := l.integerOr("token_shift_count", 2); n != 2 {
		l.fail("token_shift_count", ErrUnsupported, "%d", n)
	}
	ranks := rwkvRanks{
		decay: l.integer("attention.decay_lora_rank"), rate: l.integer("attention.iclr_lora_rank"),
		value: l.integer("attention.value_residual_mix_lora_rank"), gate: l.integer("attention.gate_lora_rank"),
	}
	return family{
		norms: normParts{kind: layerNorm{}, names: map[string]string{"ffn_norm": "attn_norm_2"}},
		mixer: func(b *build, i int) mixer { return b.timeMix(i, size, ranks) },
		feed:  feedParts{own: func(b *build, i int) sublayer { return b.channelMix(i) }},
		ends: endParts{output: outputRequired, start: func(b *build, m *decoder) network {
			m.embedding = b.embedding(c)
			return &normalized{m, b.norm("token_embd_norm", c.HiddenSize)}
		}},
	}
}

// rwkvRanks are those of the pairs of small matrices.
type rwkvRanks struct{ decay, rate, value, gate int }

// tokenShift gives what the token before gave: a filter of two taps.
func (l *loader) tokenShift(i, width int) int {
	filters := append(slices.Repeat([]float32{1}, width), make([]float32, width)...) // [2][width]: before, now
	return l.recur(i, recurrent.NewConvolution(filters, 2, width))
}

// timeMix is RWKV-7's sublayer in place of attention.
type timeMix struct {
	lerp                     [rwkvMixes][]float32 // [D] how much of the token before goes into r, w, k, v, a and g
	r, k, v, out             linear               // [D][D]
	decay, rate, value, gate lowRank              // w, a, v and g
	keyNorm, keyRate         []float32            // [D] k_k and k_a
	bonus                    []float32            // [D] r_k
	norm                     norm                 // over a head
	scale, shift             []float32            // [D] of the normalized result
	first                    bool                 // the values are those that later layers mix theirs with
	size                     int                  // S
	before, state            int                  // of the model's recurrent layers
}

// lowRank is base + up(act(down x)); the base is added by who uses it.
type lowRank struct {
	down, up linear                     // [rank][D], [D][rank]
	base     []float32                  // [D]; nil: none
	act      func(p *pass, x []float32) // nil: none
}

const rwkvMixes = 6

func (b *build) timeMix(i, size int, ranks rwkvRanks) *timeMix {
	n, d := b.block(i)+"time_mix_", b.c.HiddenSize
	pair := func(name string, rank int) lowRank {
		return lowRank{down: b.linear(n+name+"1", rank, d), up: b.linear(n+name+"2", d, rank)}
	}
	m := &timeMix{first: i == 0, size: size}
	all := b.floats(n+"lerp_fused.weight", d, 1, 1, rwkvMixes)
	m.r, m.k, m.v = b.linear(n+"receptance", d, d), b.linear(n+"key", d, d), b.linear(n+"value", d, d)
	m.out = b.linear(n+"output", d, d)
	values := ranks.value
	if m.first {
		values = ranks.rate // so files have it; it is not used
	}
	m.decay, m.rate = pair("w", ranks.decay), pair("a", ranks.rate)
	m.value, m.gate = pair("v", values), pair("g", ranks.gate)
	m.decay.base, m.rate.base = b.vector(n+"w0.weight", d), b.vector(n+"a0.weight", d)
	m.value.base = b.vector(n+"v0.weight", d)
	m.decay.act = func(p *pass, x []float32) { p.cap(x, 1) } // tanh
	m.gate.act = func(p *pass, x []float32) { p.each(x, tensor.Sigmoid) }
	m.keyNorm, m.keyRate, m.bonus = b.vector(n+"k_k.weight", d), b.vector(n+"k_a.weight", d), b.vector(n+"r_k.weight", d)
	m.scale, m.shift = b.vector(n+"ln.weight", d), b.vector(n+"ln.bias", d)
	m.norm = norm{kind: layerNorm{}, eps: 64e-5, w: ones(size), b: make([]float32, size)}
	if !b.ok() {
		return m
	}
	for j := range m.lerp {
		m.lerp[j] = all[j*d : (j+1)*d]
	}
	m.before = b.tokenShift(i, d)
	m.state = b.recur(i, recurrent.NewRWKV7(d/size, size))
	return m
}

func (m *timeMix) forward(p *pass, c *Config, y, h []float32) {
	d, n := c.HiddenSize, len(h)
	before := p.matrix(&p.other, d)
	p.recur(m.before, before, h)
	in := p.matrix(&p.wide, rwkvMixes*d) // [6][rows][D] what r, w, k, v, a and g are made of
	for j := range m.lerp {
		lerpRows(in[j*n:(j+1)*n], h, before, m.lerp[j])
	}
	mixed := func(j int) []float32 { return in[j*n : (j+1)*n] }
	r, k, v := p.matrix(&p.q, d), p.matrix(&p.k, d), p.matrix(&p.v, d)
	w, a, g := p.matrix(&p.up, d), p.matrix(&p.gate, d), p.matrix(&p.a, d)
	p.matmul(mixed(0), d, m.r.times(r))
	p.matmul(mixed(2), d, m.k.times(k))
	p.matmul(mixed(3), d, m.v.times(v))
	m.decay.forward(p, w, mixed(1))
	m.rate.forward(p, a, mixed(4))
	m.gate.forward(p, g, mixed(5))
	if m.first {
		copy(p.matrix(&p.inputs, d), v)
	} else {
		mix := mixed(0) // which is free
		m.value.forward(p, mix, mixed(3))
		first := p.matrix(&p.inputs, d)
		for i := range v {
			v[i] += float32((first[i] - v[i]) * tensor.Sigmoid(mix[i]+m.value.base[i%d]))
		}
	}
	if p.err != nil {
		return
	}
	// What the state takes of a token: [rows]{r, w, k, v, kappa, kappa ∘ a}.
	token := p.matrix(&p.wide, rwkvMixes*d)
	for i := range n {
		at, j := i/d*rwkvMixes*d+i%d, i%d
		rate := tensor.Sigmoid(a[i] + m.rate.base[j])
		token[at] = r[i]
		token[at+d] = tensor.Exp(-0.606531 * tensor.Sigmoid(w[i]+m.decay.base[j]))
		token[at+2*d] = k[i] + float32(float32((rate-1)*k[i])*m.keyRate[j])
		token[at+3*d] = v[i]
		token[at+4*d] = k[i] * m.keyNorm[j]
		token[at+5*d] = rate // the scan multiplies it by kappa, when that has its length
	}
	out := p.matrix(&p.q, d)
	p.recur(m.state, out, token)
	p.norm(out, out, m.norm)
	for i := 0; i < n; i += m.size {
		row, j := token[i/d*rwkvMixes*d+i%d:], i%d
		sum := float32(0)
		for s := range m.size {
			sum += float32(float32(row[2*d+s]*row[s]) * m.bonus[j+s])
		}
		for s := range m.size {
			x := float32(out[i+s]*m.scale[j+s]) + m.shift[j+s]
			out[i+s] = (x + float32(sum*row[3*d+s])) * g[i+s]
		}
	}
	p.matmul(out, d, m.out.times(y))
}

// forward computes out = up(act(down x)).
func (l *lowRank) forward(p *pass, out, x []float32) {
	rank := l.down.w.Rows()
	low := p.matrix(&p.y, rank)
	p.matmul(x, l.down.w.Cols(), l.down.times(low))
	if l.act != nil {
		l.act(p, low)
	}
	p.matmul(low, rank, l.up.times(out))
}

// lerpRows is dst = x + (before - x)∘w, row by row.
func lerpRows(dst, x, before, w []float32) {
	for i, v := range x {
		dst[i] = v + float32((before[i]-v)*w[i%len(w)])
	}
}

// channelMix is RWKV-7's feed-forward: down(relu(up)²) of a mix with the token before.
type channelMix struct {
	lerp    []float32
	up      linear // [F][D]
	down    linear // [D][F]
	shifted int    // of the model's recurrent layers
}

func (b *build) channelMix(i int) *channelMix {
	n, d := b.block(i)+"channel_mix_", b.c.HiddenSize
	m := &channelMix{lerp: b.floats(n+"lerp_k.weight", d, 1, 1), up: b.linear(n+"key", b.ffn[i], d),
		down: b.linear(n+"value", d, b.ffn[i])}
	if b.ok() {
		m.shifted = b.tokenShift(i, d)
	}
	return m
}

func (m *channelMix) forward(p *pass, c *Config, y, h []float32) {
	d, f := c.HiddenSize, m.up.w.Rows()
	before, x, inner := p.matrix(&p.other, d), p.matrix(&p.q, d), p.matrix(&p.up, f)
	p.recur(m.shifted, before, h)
	lerpRows(x, h, before, m.lerp)
	p.matmul(x, d, m.up.times(inner))
	p.activate(inner, reluSquared)
	p.matmul(inner, f, m.down.times(y))
}
