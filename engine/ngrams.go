package engine

import (
	"math"

	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/tensor"
)

// ngrams adds to streams what the last tokens of the text are known for (Qwen 3.8; Engram, DeepSeek 2026): the rows of
// a large table that hashes of the last two, three, … N tokens choose, several of each. With e the rows of a token, one
// after the other, and x its streams:
//
//	v_s = value e · sigmoid(root(norm(key e)_s · norm(x)_s / sqrt(D))),  root(a) = sign(a) sqrt(max(|a|, 10^-6))
//	x = x + v + silu(conv(norm(v))),  conv a filter for each number of each stream, of every N-th token
//
// The tokens before are a recurrence too, so that they are those of a row's own path. In the place of what comes before
// an end token, or before the text, stands the end token.
type ngrams struct {
	streamSizes
	table       *tensor.Matrix // [rows][E/heads]
	multipliers []uint64       // [N]
	heads       []hashHead     // (N-1) times as many, by the number of tokens
	end         uint64         // the id of the end token
	before      int            // of the model's recurrent layers: the tokens before

	key, value                    linear // [S*D][E], [D][E]
	keyNorm, queryNorm, valueNorm norm   // of each stream
	conv                          int    // of the model's recurrent layers
}

// hashHead is the part of the table that one hash chooses a row of.
type hashHead struct{ first, rows uint64 }

// ngrams reads the keys, and returns how layer i's are read: nil if it has none.
func (l *loader) ngrams(c *Config, s streamSizes) func(b *build, i int) *ngrams {
	none := func(*build, int) *ngrams { return nil }
	const layers, mostTokens, mostHeads, mostTaps = "ple.layers", 8, 256, 16
	if !l.has(layers) {
		return none
	}
	at, err := l.f.Uint32s(l.arch + "." + layers)
	l.keep(err)
	if l.ok() && len(at) > 1 {
		l.fail(layers, ErrUnsupported, "%d layers, in these models there is one", len(at))
	}
	l.has("ple.image_token_id") // of pictures, which are refused
	if !l.ok() || len(at) == 0 {
		return none
	}
	if int(min(at[0], largest)) >= c.Layers {
		l.fail(layers, ErrValue, "layer %d of %d", at[0], c.Layers)
	}
	n, each, taps := l.integer("ple.ngram_size"), l.integer("ple.heads_per_ngram"), l.integer("ple.conv_kernel")
	size, end := l.integer("embedding_length_per_layer_input"), l.integerOr("ple.eos_token_id", -1)
	switch {
	case !l.ok():
		return none
	case n < 2 || n > mostTokens:
		l.fail("ple.ngram_size", ErrValue, "%d tokens, 2 to %d", n, mostTokens)
	case (n-1)*each > mostHeads:
		l.fail("ple.heads_per_ngram", ErrValue, "%d of %d numbers of tokens, at most %d in all", each, n-1, mostHeads)
	case taps > mostTaps:
		l.fail("ple.conv_kernel", ErrValue, "%d, at most %d", taps, mostTaps)
	case end < 0:
		l.fail("ple.eos_token_id", ErrMissing, "not in the file")
	}
	l.tooLarge("ple.conv_kernel", s.width(), mostTaps*mostTokens)
	numbers := func(key string, count int) []uint64 {
		l.keys[key] = true
		list, err := l.f.Uint64s(l.arch + "." + key)
		if l.keep(err); l.ok() && len(list) != count {
			l.fail(key, ErrValue, "%d numbers, expected %d", len(list), count)
		}
		return list
	}
	g := &ngrams{streamSizes: s, multipliers: numbers("ple.layer_multipliers", n), end: uint64(end)}
	first, rows := numbers("ple.head_offsets", (n-1)*each), numbers("ple.head_vocab_sizes", (n-1)*each)
	for i := 0; l.ok() && i < len(rows); i++ {
		if rows[i] < 1 || rows[i] > math.MaxInt32 || first[i] > math.MaxInt32-rows[i] {
			l.fail("ple.head_vocab_sizes", ErrValue, "%d rows from %d on", rows[i], first[i])
		}
		g.heads = append(g.heads, hashHead{first[i], rows[i]})
	}
	return func(b *build, i int) *ngrams {
		if !b.ok() || i != int(at[0]) {
			return nil
		}
		b.readNgrams(g, i, size, taps)
		return g
	}
}

// readNgrams reads the tensors of layer i's.
func (b *build) readNgrams(g *ngrams, i, size, taps int) {
	const table = "per_layer_token_embd.weight"
	n, width, tokens := b.block(i)+"ple_", g.width(), len(g.multipliers)
	rows := 0 // that the hashes choose from; more are padding
	for _, h := range g.heads {
		rows = max(rows, int(h.first+h.rows))
	}
	if t, ok := b.f.Tensor(table); ok && len(t.Dims) == 2 {
		rows = max(rows, int(min(t.Dims[1], math.MaxInt32)))
	}
	g.table = b.lookup(table, rows, size)
	all := size * len(g.heads)
	if b.ok() {
		b.parameters.unchosen += int64(rows)*int64(size) - int64(all)
	}
	g.key, g.value = b.linear(n+"key", width, all), b.linear(n+"value", g.size, all)
	g.keyNorm, g.queryNorm = b.streamNorm(n+"norm_key", g.streamSizes), b.streamNorm(n+"norm_query", g.streamSizes)
	g.valueNorm = b.streamNorm(n+"norm_conv", g.streamSizes)
	filters := b.filters(n+"conv1d.weight", taps, width)
	if !b.ok() {
		return
	}
	if b.c.Vocab >= 1<<24 {
		b.fail("ple.layers", ErrUnsupported, "a vocabulary of %d tokens", b.c.Vocab)
		return
	}
	// Channel s of the tokens before is the token s places before: a filter that is 1 there.
	shifts := make([]float32, tokens*tokens)
	for s := range tokens {
		shifts[(tokens-1-s)*tokens+s] = 1
	}
	g.before = b.recur(i, recurrent.NewConvolution(shifts, tokens, tokens))
	// Between the taps are tokens that do not count.
	spaced := make([]float32, ((taps-1)*tokens+1)*width)
	for tap := range taps {
		copy(spaced[tap*tokens*width:], filters[tap*width:(tap+1)*width])
	}
	g.conv = b.recur(i, recurrent.NewConvolution(spaced, (taps-1)*tokens+1, width))
}

// forward adds to x [rows][S][D].
func (g *ngrams) forward(p *pass, _ *Config, x []float32) {
	all := g.table.Cols() * len(g.heads)
	e := p.matrix(&p.other, all)
	p.lookup(e, g.table, g.rows(p))
	key, value, query := p.matrix(&p.wide, g.width()), p.matrix(&p.y, g.size), p.matrix(&p.gate, g.width())
	p.matmul(e, all, g.key.times(key), g.value.times(value))
	p.norm(key, key, g.keyNorm)
	p.norm(query, x, g.queryNorm)
	factors := p.matrix(&p.factors, g.count)
	scale := headScale(g.size)
	for i := range factors {
		factors[i] = dot(key[i*g.size:(i+1)*g.size], query[i*g.size:(i+1)*g.size]) * scale
	}
	p.each(factors, rootSigmoid)
	v, in, out := key, query, p.matrix(&p.a, g.width())
	g.repeat(v, value)
	p.mulRows(v, factors)
	p.norm(in, v, g.valueNorm)
	p.recur(g.conv, out, in)
	p.silu(out)
	p.add(out, v)
	p.add(x, out)
}

// rows are the rows of the table [rows][heads] that the round's tokens, and those before them, choose.
func (g *ngrams) rows(p *pass) []int32 {
	n, each := len(g.multipliers), len(g.heads)/(len(g.multipliers)-1)
	in, out := p.matrix(&p.q, n), p.matrix(&p.k, n)
	for i, id := range p.tokens {
		for s := range n {
			in[i*n+s] = float32(id + 1) // 0 is none: before the text
		}
	}
	p.recur(g.before, out, in)
	ids := sized(&p.routing.rows, p.rows()*len(g.heads))
	if p.err != nil {
		return ids
	}
	for i, id := range p.tokens {
		hash, ended := uint64(id)*g.multipliers[0], false
		for s := 1; s < n; s++ {
			token := g.end
			if before := uint64(out[i*n+s]); !ended && before > 0 {
				token = before - 1
			}
			ended = ended || token == g.end
			hash ^= token * g.multipliers[s]
			for j := (s - 1) * each; j < s*each; j++ {
				ids[i*len(g.heads)+j] = int32(hash%g.heads[j].rows + g.heads[j].first)
			}
		}
	}
	return ids
}

// rootSigmoid is the sigmoid of the square root of what is at least 10^-6, with the sign of x.
func rootSigmoid(x float32) float32 {
	root := float32(math.Sqrt(float64(max(x, -x, 1e-6))))
	switch {
	case x < 0:
		root = -root
	case x == 0:
		root = 0
	}
	return tensor.Sigmoid(root)
}

// dot is the sum of a[i]*b[i], in 16 lanes.
func dot(a, b []float32) float32 {
	var lanes [16]float32
	for i, v := range a {
		lanes[i%16] += float32(v * b[i])
	}
	return fold(lanes)
}
