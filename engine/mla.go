package engine

import (
	"math"
	"slices"

	"github.com/specgo/spec/tensor"
)

// latentAttention is multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): the keys and values of
// all heads are made of one latent c [R] of a token, beside which r [n], for all heads, is rotated. Of a query the last
// n numbers are rotated.
//
//	s = q·[K_h c; r] * scale, and of the result, y = Wo [V_h Σ p c]
//
// The cache holds c and r, as a key whose first R numbers are the value. The matrices K_h are on the side of the
// queries: q·K_h c = (K_hᵀ q)·c, for all sizes of a pass. Files of an older form have K_h and V_h in one matrix the
// other way round; then the cache holds keys and values of every head.
type latentAttention struct {
	latentSizes
	qa     linear // [Rq][D]; none: q reads the block's input
	qaNorm norm
	q      linear // [H*dk][Rq]
	kva    linear // [R+n][D]
	kvNorm norm
	kb     []linear // [H] of [R][nope]; nil: kvb
	vb     []linear // [H] of [dv][R]
	kvb    linear   // [H*(nope+dv)][R]: of every head the rows of keys, then those of values
	o      linear   // [D][H*dv]
	gate   linear   // [H][D]: what a head gives is multiplied by the sigmoid of this; none: it is not

	rope   *tensor.RopeTable // nil: not rotated
	style  tensor.RopeStyle
	temper func(p *pass, q []float32) // makes queries sharper; nil: nothing
	index  *index                     // chooses the positions of this layer and those after it; nil: none does here
	only   bool                       // it looks at the chosen positions alone
	cache  int
	scores tensor.AttentionOptions
}

// latentSizes are those of latent attention.
type latentSizes struct {
	heads  int // H
	rank   int // R
	nope   int // numbers of a key that are not rotated
	rot    int // n: those that are
	values int // dv
	qRank  int // Rq; 0: none
}

// latentSizes reads them. A file of the newer form says how large the latents are as keys and values.
func (l *loader) latentSizes(c *Config) latentSizes {
	s := latentSizes{heads: c.Heads, rank: l.integer("attention.kv_lora_rank"),
		qRank: l.integerOr("attention.q_lora_rank", 0), rot: l.integerOr("rope.dimension_count", 0)}
	if l.holds(l.block(0) + "attn_q.weight") {
		s.qRank = 0
	}
	key, value := c.HeadDim, l.valueDim
	if l.has("attention.key_length_mla") {
		if l.ok() && (c.KVHeads != 1 || key != s.rank+s.rot || value != s.rank) {
			l.fail("attention.key_length", ErrValue, "%d, values of %d, of latents of %d and %d", key, value, s.rank, s.rot)
		}
		key, value = l.integer("attention.key_length_mla"), l.integer("attention.value_length_mla")
	}
	if s.nope, s.values = key-s.rot, value; l.ok() && (s.nope < 1 || s.rot < 2) {
		l.fail("rope.dimension_count", ErrValue, "%d of %d numbers", s.rot, key)
	}
	return s
}

// latentAttention reads layer i's.
func (b *build) latentAttention(i int, s latentSizes, scale float32, angles *tensor.RopeTable) *latentAttention {
	n, d := b.block(i), b.c.HiddenSize
	a := &latentAttention{latentSizes: s, rope: angles, style: b.rope.pairing.style()}
	if dk := s.nope + s.rot; s.qRank > 0 {
		a.qa, a.qaNorm = b.linear(n+"attn_q_a", s.qRank, d), b.norm(n+"attn_q_a_norm", s.qRank)
		a.q = b.linear(n+"attn_q_b", s.heads*dk, s.qRank)
	} else {
		a.q = b.linear(n+"attn_q", s.heads*dk, d)
	}
	a.kva, a.kvNorm = b.linear(n+"attn_kv_a_mqa", s.rank+s.rot, d), b.norm(n+"attn_kv_a_norm", s.rank)
	a.scores = tensor.AttentionOptions{Heads: s.heads, Scale: scale}
	if b.holds(n + "attn_kv_b.weight") {
		a.kvb = b.linear(n+"attn_kv_b", s.heads*(s.nope+s.values), s.rank)
		a.cache, a.scores.Layer = b.placeValues(i, s.heads, s.nope+s.rot, s.values, 0)
	} else {
		heads := func(name string, rows, cols int) []linear {
			return b.read(request{name: n + name, dims: []int{cols, rows, s.heads}, rows: slices.Repeat([]int{rows}, s.heads)})
		}
		a.kb, a.vb = heads("attn_k_b.weight", s.rank, s.nope), heads("attn_v_b.weight", s.values, s.rank)
		a.cache, a.scores.Layer = b.placeKeys(i, s.rank+s.rot, s.rank)
	}
	a.o = b.linear(n+"attn_output", d, s.heads*s.values)
	return a
}

// newLatentAttention is latentAttention of families that have no files of the older form.
func (b *build) newLatentAttention(i int, s latentSizes, scale float32, angles *tensor.RopeTable) *latentAttention {
	if older := b.block(i) + "attn_kv_b.weight"; b.holds(older) {
		b.bad(older, ErrUnsupported, "latent attention of an older form in a %s model", b.arch)
	}
	return b.latentAttention(i, s, scale, angles)
}

func (l *latentAttention) forward(p *pass, c *Config, y, h []float32) {
	q, kv := p.matrix(&p.q, l.heads*(l.nope+l.rot)), p.matrix(&p.k, l.rank+l.rot)
	if l.qRank > 0 {
		a := p.matrix(&p.gate, l.qRank)
		l.project(p, c, h, l.qa.times(a), l.kva.times(kv))
		p.norm(a, a, l.qaNorm)
		p.matmul(a, l.qRank, l.q.times(q))
		if l.index != nil {
			l.index.choose(p, h, a)
		}
	} else {
		l.project(p, c, h, l.q.times(q), l.kva.times(kv))
	}
	latent := l.latents(p, kv)
	rotated := p.matrix(&p.wide, l.heads*l.rot) // [rows][H][n]
	columns(rotated, q, l.rot, l.nope, l.nope+l.rot)
	if l.rope != nil {
		p.rope(l.style, rotated, l.heads, l.rot, l.rope)
	}
	spread(q, rotated, l.rot, l.nope, l.nope+l.rot)
	if l.kb != nil {
		l.absorbed(p, y, q, kv, latent)
	} else {
		l.expanded(p, y, q, kv, latent)
	}
}

// project multiplies h [rows][D] with two matrices, and with that of the gates. These are in p.up until output takes
// them; an index, which no model with gates has, needs p.up too.
func (l *latentAttention) project(p *pass, c *Config, h []float32, first, second product) {
	if l.gate.w == nil {
		p.matmul(h, c.HiddenSize, first, second)
	} else {
		p.matmul(h, c.HiddenSize, first, second, l.gate.times(p.matrix(&p.up, l.heads)))
	}
}

// output computes y of what the heads give, a [rows][H][dv].
func (l *latentAttention) output(p *pass, y, a []float32) {
	if l.gate.w != nil {
		gates := p.matrix(&p.up, l.heads)
		p.each(gates, tensor.Sigmoid)
		p.mulRows(a, gates)
	}
	p.matmul(a, l.heads*l.values, l.o.times(y))
}

// latents makes of kv [rows][R+n] what the cache of the newer form holds, and returns c [rows][R] alone.
func (l *latentAttention) latents(p *pass, kv []float32) []float32 {
	latent, rotated := p.matrix(&p.v, l.rank), p.matrix(&p.wide, l.rot)
	columns(latent, kv, l.rank, 0, l.rank+l.rot)
	columns(rotated, kv, l.rot, l.rank, l.rank+l.rot)
	p.norm(latent, latent, l.kvNorm)
	if l.rope != nil {
		p.rope(l.style, rotated, 1, l.rot, l.rope)
	}
	spread(kv, latent, l.rank, 0, l.rank+l.rot)
	spread(kv, rotated, l.rot, l.rank, l.rank+l.rot)
	return latent
}

// absorbed computes y of the queries q [rows][H][nope+n], of the latents kv [rows][R+n], and of the cache.
func (l *latentAttention) absorbed(p *pass, y, q, kv, latent []float32) {
	dk, key := l.nope+l.rot, l.rank+l.rot
	queries := p.matrix(&p.other, l.heads*key) // [rows][H][R+n]
	for i := 0; i < len(q)/dk; i++ {
		copy(queries[i*key+l.rank:(i+1)*key], q[i*dk+l.nope:])
	}
	l.perHead(p, queries, key, q, dk, l.kb)
	if l.temper != nil {
		l.temper(p, queries)
	}
	a, out := p.matrix(&p.a, l.heads*l.rank), p.matrix(&p.q, l.heads*l.values)
	if p.texts == nil {
		p.remember(l.cache, l.scores.Layer, kv, nil)
		kv, latent = nil, nil
	}
	p.attend(a, l.cache, l.options(p), queries, kv, latent)
	l.perHead(p, out, l.values, a, l.rank, l.vb)
	l.output(p, y, out)
}

// perHead multiplies the first numbers of every head of x [rows][H][from] with the head's matrix, into the first
// numbers of out [rows][H][to].
func (l *latentAttention) perHead(p *pass, out []float32, to int, x []float32, from int, w []linear) {
	if p.err != nil {
		return
	}
	cols, rows, n := w[0].w.Cols(), w[0].w.Rows(), p.rows()
	group := min(l.heads, max(1, rowsOfHeads/n))
	scratch := sized(&p.gate, group*n*(cols+rows))
	for first := 0; first < l.heads; first += group {
		list := sized(&p.eachProducts, min(group, l.heads-first))
		in, sums := scratch[:len(list)*n*cols], scratch[len(list)*n*cols:][:len(list)*n*rows]
		for i := range list {
			columns(in[i*n*cols:(i+1)*n*cols], x, cols, (first+i)*from, l.heads*from)
			list[i] = w[first+i].times(sums[i*n*rows : (i+1)*n*rows])
		}
		p.matmulEach(in, cols, list)
		for i := range list {
			spread(out, list[i].out, rows, (first+i)*to, l.heads*to)
		}
		clear(list)
	}
}

// rowsOfHeads is how many rows of heads are multiplied in one parallel phase, where a head has fewer: of one token a
// head's matrix is read in about a microsecond, less than a phase takes to begin and end. With more rows a head is work
// enough, and all heads would take much memory.
const rowsOfHeads = 64

// expanded computes y of the queries q [rows][H][nope+n], and of the keys and values that the latents are made to.
func (l *latentAttention) expanded(p *pass, y, q, kv, latent []float32) {
	dk, key, width := l.nope+l.rot, l.rank+l.rot, l.nope+l.values
	k, v := l.expand(p, kv, latent, dk, key, width)
	if l.temper != nil {
		l.temper(p, q)
	}
	a := p.matrix(&p.a, l.heads*l.values)
	p.attend(a, l.cache, l.options(p), q, k, v)
	l.output(p, y, a)
}

// expand makes keys [rows][H][nope+n] and values [rows][H][dv].
func (l *latentAttention) expand(p *pass, kv, latent []float32, dk, key, width int) (k, v []float32) {
	both := p.matrix(&p.other, l.heads*width)
	p.matmul(latent, l.rank, l.kvb.times(both))
	k, v = p.matrix(&p.wide, l.heads*dk), p.matrix(&p.gate, l.heads*l.values)
	columns(v, both, l.values, l.nope, width)
	for i := 0; i < len(k)/dk; i++ {
		copy(k[i*dk:][:l.nope], both[i*width:])
		copy(k[i*dk+l.nope:(i+1)*dk], kv[i/l.heads*key+l.rank:])
	}
	return k, v
}

// remember puts the keys and values of h [rows][D] into the cache, as forward does, and computes no more.
func (l *latentAttention) remember(p *pass, h []float32) {
	kv := p.matrix(&p.k, l.rank+l.rot)
	p.matmul(h, l.kva.w.Cols(), l.kva.times(kv))
	latent := l.latents(p, kv)
	if l.kb != nil {
		p.remember(l.cache, l.scores.Layer, kv, nil)
		return
	}
	k, v := l.expand(p, kv, latent, l.nope+l.rot, l.rank+l.rot, l.nope+l.values)
	p.remember(l.cache, l.scores.Layer, k, v)
}

// options are those of attention to the positions that the rows of the round look at.
func (l *latentAttention) options(p *pass) tensor.AttentionOptions {
	o := l.scores
	if l.only {
		o.Only = &p.choice
	}
	return o
}

// columns copies n of width numbers of every row of x, from one on, to the rows of dst [rows][n].
func columns(dst, x []float32, n, from, width int) {
	for i := 0; i < len(dst)/n; i++ {
		copy(dst[i*n:(i+1)*n], x[i*width+from:])
	}
}

// spread copies the rows of x [rows][n] to where columns finds them.
func spread(dst, x []float32, n, to, width int) {
	for i := 0; i < len(x)/n; i++ {
		copy(dst[i*width+to:], x[i*n:(i+1)*n])
	}
}

// latentScaling is how YaRN, and a linear factor, change latent attention: the magnitude of the angles' sines and
// cosines, and the scale of all scores. multiplier is ten times rope.scaling.yarn_log_multiplier, M; reduced says that
// the magnitude is divided by what M makes of it, as in DeepSeek V3.2, and not left at 1.
func (b *build) latentScaling(s latentSizes, multiplier float32, reduced bool) (
	angles *tensor.RopeTable, scale float32) {
	o := b.ropes.options
	if !b.ok() {
		return nil, 1
	}
	m, ln, yarn := float64(multiplier), tensor.Log64(1/o.Scale), o.Yarn.Original > 0
	magnitude := o.Magnitude * (1 + float64(0.1*ln))
	if yarn && m != 0 {
		if o.Yarn.LogMultiplier = 1; reduced {
			o.Yarn.LogMultiplier = m
		}
		magnitude /= 1 + float64(0.1*o.Yarn.LogMultiplier*ln)
	}
	magnitude *= 1 + float64(0.1*m*ln)
	angles = b.ropeTable(o, "rope_freqs.weight")
	return angles, float32(magnitude * magnitude / math.Sqrt(float64(s.nope+s.rot)))
}
