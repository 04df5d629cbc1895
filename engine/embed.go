package engine

import (
	"context"
	"fmt"

	"github.com/specgo/spec/tensor"
)

// Embed computes the vectors of texts, each given with the marks that the model wants: the texts of a pass go through
// the layers one behind the other, without padding and without a KV cache, the longest first. A vector depends on its
// own text alone, bit for bit. The first error of a pass itself, and ctx's, end it.
//
// It is safe for concurrent use: texts of several calls with the same options share passes, and calls take turns.
// Passes of one [Runtime] run one after the other.
func (m *Model) Embed(ctx context.Context, texts [][]int32, o EmbedOptions) ([]Embedding, error) {
	switch {
	case m == nil:
		return nil, fmt.Errorf("%w: no model", ErrUsage)
	case !m.vectors.texts:
		return nil, fmt.Errorf("%s: %w: a %s model computes no vectors of whole texts", m.name, ErrUsage,
			m.config.Architecture)
	}
	if o.Pooling == PoolDefault {
		o.Pooling = m.vectors.pooling
	}
	if o.Pooling < PoolNone || o.Pooling > PoolRank {
		return nil, fmt.Errorf("%s: %w: pooling %d", m.name, ErrUsage, o.Pooling)
	}
	if o.Pooling == PoolRank && m.vectors.outputs() == 0 {
		return nil, fmt.Errorf("%s: %w: no classification head", m.name, ErrUsage)
	}
	out := make([]Embedding, len(texts))
	for i, text := range texts {
		if err := m.checkText(text); err != nil {
			out[i].Err = fmt.Errorf("%s: text %d: %w", m.name, i, err)
		}
	}
	call, idle := m.queue.add(ctx, texts, o, out)
	if idle {
		go m.vectorPasses()
	}
	select {
	case <-call.done:
	case <-ctx.Done():
		m.queue.drop(call)
		call = &vectorCall{err: ctx.Err()}
	}
	if call.err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, call.err)
	}
	return out, nil
}

// vectorPasses makes passes until no text waits. One goroutine makes them all: where passes changed hands, the next one
// would wait for another thread to wake up.
func (m *Model) vectorPasses() {
	for m.vectorPass() {
	}
}

// checkText checks a text: every position must have a place.
func (m *Model) checkText(text []int32) error {
	switch {
	case len(text) == 0:
		return fmt.Errorf("%w: an empty text", ErrInput)
	case len(text) > m.config.Context:
		return fmt.Errorf("%w: %d tokens; the model takes %d", ErrContextFull, len(text), m.config.Context)
	}
	for j, id := range text {
		if id < 0 || int(id) >= m.config.Vocab {
			return fmt.Errorf("token %d: %w: id %d of %d", j, ErrVocabulary, id, m.config.Vocab)
		}
	}
	return nil
}

// vectorPass makes a pass of texts that wait, as many as go through the layers together, and reports whether there
// were any. The runtime is reserved for that long. A panic is an error of the texts' calls.
func (m *Model) vectorPass() bool {
	m.rt.t.Lock()
	defer m.rt.t.Unlock()
	p := m.rt.pass
	p.begin(context.Background(), nil)
	defer p.end()
	p.tokens, p.positions, p.owner, p.texts = p.tokens[:0], p.positions[:0], p.owner[:0], []tensor.Text{}
	p.wanted, p.hidden, p.fed, p.crossed = p.wanted[:0], p.hidden[:0], p.fed[:0], p.crossed[:0]
	p.layers = max(m.config.Layers, m.config.EncoderLayers)
	var texts []vectorText
	m.queue.take(m.rows(), func(t vectorText) {
		text := t.call.texts[t.number]
		p.texts = append(p.texts, tensor.Text{Row: len(p.tokens), Tokens: len(text)})
		p.tokens = append(p.tokens, text...)
		for i := range text {
			p.positions, p.owner = append(p.positions, int32(i)), append(p.owner, len(texts))
		}
		texts = append(texts, t)
	})
	if len(texts) == 0 {
		return false
	}
	p.ctx, p.results = passContext(texts), make([]Result, len(texts))
	made, err := m.vectorsOf(p, texts[0].call.o)
	if len(p.tokens) > m.rows() {
		p.shrink()
	}
	m.queue.deliver(texts, made, err)
	return true
}

// vectorsOf computes the vectors of the pass's texts. The error is that of the pass.
func (m *Model) vectorsOf(p *pass, o EmbedOptions) (made []Embedding, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("%w: %v", ErrPanic, x)
		}
	}()
	if m.closed.Load() || m.rt.closed.Load() {
		return nil, ErrClosed
	}
	made = make([]Embedding, len(p.texts))
	m.net.forward(p)
	if p.err == nil {
		m.net.finalNorm(p, p.x) // in place, in every network that takes texts
	}
	m.deliverVectors(p, o, made)
	for i, r := range p.results {
		if r.Err != nil {
			made[i] = Embedding{Err: r.Err}
		}
	}
	return made, p.err
}

// deliverVectors makes vectors of the states p.x of the pass's texts.
func (m *Model) deliverVectors(p *pass, o EmbedOptions, made []Embedding) {
	if p.err != nil {
		return
	}
	v, d, how := &m.vectors, m.config.HiddenSize, o.Pooling
	if how == PoolRank {
		how = v.reads
	}
	var rows []float32 // [n][D] pooled
	if how == PoolNone {
		rows = append(rows, p.x[:len(p.tokens)*d]...)
	} else {
		rows = make([]float32, len(made)*d)
		p.owner = p.owner[:0]
		for i, t := range p.texts {
			pool(rows[i*d:(i+1)*d], p.x[t.Row*d:(t.Row+t.Tokens)*d], how)
			p.owner = append(p.owner, i)
		}
	}
	if o.Pooling == PoolRank {
		rows = v.apply(p, rows)
	} else {
		for _, w := range v.dense {
			y := make([]float32, len(rows)/w.w.Cols()*w.w.Rows())
			p.matmul(rows, w.w.Cols(), w.times(y))
			rows = y
		}
	}
	if p.err != nil {
		return
	}
	size, at := m.VectorSize(o.Pooling), 0
	for i := range made {
		n := size
		if how == PoolNone {
			n *= p.texts[i].Tokens
		}
		data := rows[at : at+n : at+n]
		if at += n; !tensor.Finite(data) && p.results[i].Err == nil {
			p.results[i].Err = ErrNotFinite
		}
		if o.Normalize && o.Pooling != PoolNone && o.Pooling != PoolRank {
			tensor.Normalize(data)
		}
		made[i].Data = data
	}
}

// pool makes one row y of a text's rows x [n][len(y)]. A mean is summed over positions ascending.
func pool(y, x []float32, how Pooling) {
	switch d := len(y); how {
	case PoolCLS:
		copy(y, x)
	case PoolLast:
		copy(y, x[len(x)-d:])
	default:
		n := float32(len(x) / d)
		for ; len(x) > 0; x = x[d:] {
			for i, e := range x[:d] {
				y[i] += e
			}
		}
		for i := range y {
			y[i] /= n
		}
	}
}
