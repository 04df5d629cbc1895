package engine

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/tensor"
)

// Pooling says what of a text's rows its vector is made of; the key pooling_type has these numbers.
type Pooling int

// The kinds of pooling. PoolDefault is what the file says.
const (
	PoolDefault Pooling = iota - 1
	PoolNone            // a row for each token
	PoolMean            // the mean of all rows, those of marks included
	PoolCLS             // the first row
	PoolLast            // the last row
	PoolRank            // the outputs of the classification head
)

// poolings are their names.
var poolings = []string{"none", "mean", "cls", "last", "rank"}

func (p Pooling) String() string {
	if p >= 0 && int(p) < len(poolings) {
		return poolings[p]
	}
	return "default"
}

// ParsePooling is the pooling of that name; "" is PoolDefault.
func ParsePooling(name string) (Pooling, error) {
	if name == "" {
		return PoolDefault, nil
	}
	if i := slices.Index(poolings, name); i >= 0 {
		return Pooling(i), nil
	}
	return 0, fmt.Errorf("%w: pooling %q (there are %q)", ErrUsage, name, poolings)
}

// vectorParts is what a model makes of the rows of a text.
type vectorParts struct {
	texts   bool    // its passes take whole texts
	said    bool    // the file says which pooling
	pooling Pooling // it, or PoolNone
	dense   []linear
	row     int64 // bytes of the activations of a token, at most; 0: nobody computes vectors of whole texts
	classifier
}

// whole reports whether the model, of that kind, is there for vectors of whole texts: an embedding model or a reranker.
func (v *vectorParts) whole(is Kind) bool {
	return v.texts && (v.said || is == KindEncoder || v.outputs() > 0)
}

// classifier is a classification head: tanh(hidden z), or norm(gelu(hidden z)), then output, of which a file may have
// either.
type classifier struct {
	reads          Pooling // which row it reads
	hidden, output linear  // [D or 1][D], [C][D]
	act            func(p *pass, x []float32)
	norm           norm
	softmax        bool // over the outputs
	labels         []string
	size           int // of the outputs; 0 without a head
}

// outputs is the number of outputs; 0 without a head.
func (c *classifier) outputs() int { return c.size }

// apply computes the outputs of z [n][D].
func (c *classifier) apply(p *pass, z []float32) []float32 {
	if c.hidden.w != nil {
		y := make([]float32, len(z)/c.hidden.w.Cols()*c.hidden.w.Rows())
		p.matmul(z, c.hidden.w.Cols(), c.hidden.times(y))
		c.act(p, y)
		p.norm(y, y, c.norm)
		z = y
	}
	if c.output.w != nil {
		y := make([]float32, len(z)/c.output.w.Cols()*c.output.w.Rows())
		p.matmul(z, c.output.w.Cols(), c.output.times(y))
		z = y
	}
	for n, i := c.outputs(), 0; c.softmax && i < len(z); i += n {
		tensor.Softmax(z[i : i+n])
	}
	return z
}

// answering are the decoders whose files may have a classification head: the output matrix's rows of the tokens that a
// reranker answers with.
var answering = []string{"qwen3", "qwen3vl"}

// vectorParts reads what comes after the blocks of a model that makes vectors.
func (l *loader) vectorParts(m *Model) (v vectorParts) {
	v.pooling = PoolNone
	if !l.ok() || !m.takesTexts() {
		return v
	}
	v.texts = true
	const key = "pooling_type"
	if v.said = l.has(key); v.said {
		if v.pooling = Pooling(l.integerOr(key, 0)); v.pooling > PoolRank {
			l.fail(key, ErrUnsupported, "%d", v.pooling)
		}
	}
	d := m.config.HiddenSize
	if m.kind.is == KindEncoder || slices.Contains(answering, m.config.Architecture) && l.holds("cls.output.weight") {
		v.classifier = l.classifier(m, d)
	}
	if m.config.Architecture == "gemma-embedding" {
		for _, n := range []string{"2", "3"} {
			name := "dense_" + n
			cols, rows := l.integerOr(name+"_feat_in", d), l.integerOr(name+"_feat_out", d)
			if !l.holds(name + ".weight") {
				continue
			}
			if l.ok() && cols != d {
				l.fail(name+"_feat_in", ErrValue, "%d, there are %d numbers", cols, d)
			}
			v.dense, d = append(v.dense, l.matrix(name+".weight", rows, cols)), rows
		}
	}
	if l.ok() && v.pooling == PoolRank && v.outputs() == 0 {
		l.fail(key, ErrMissing, "4 (rank), and there is no cls.weight and no cls.output.weight")
	}
	return v
}

// takesTexts reports whether a pass over whole texts, without caches, computes the model.
func (m *Model) takesTexts() bool {
	switch net := m.net.(type) {
	case *textEncoder:
		return true
	case *decoder:
		for i := range net.blocks {
			if _, ok := net.blocks[i].mixer.(*attention); !ok {
				return false
			}
		}
		return len(net.blocks) > 0
	}
	return false
}

// classifier reads a classification head.
func (l *loader) classifier(m *Model, d int) classifier {
	c := classifier{reads: PoolCLS}
	c.act = func(p *pass, x []float32) { p.cap(x, 1) }
	switch arch := m.config.Architecture; {
	case m.kind.is != KindEncoder:
		c.reads, c.softmax = PoolLast, true
	case arch == "modern-bert":
		form := l.gelu()
		c.reads, c.act = PoolMean, form.alone
	}
	rows := func(name string) int {
		if t, ok := l.f.Tensor(name); ok && len(t.Dims) == 2 && t.Dims[1] <= largest {
			return int(t.Dims[1])
		}
		return 1
	}
	width := d // of what the output reads
	if name := "cls.weight"; l.holds(name) && m.kind.is == KindEncoder {
		width = rows(name)
		c.size = width
		c.hidden = l.linear("cls", width, d)
		if name := "cls.norm"; l.holds(name+".weight") && l.ok() {
			c.norm = norm{kind: layerNorm{}, eps: m.config.Epsilon}
			c.norm.w, c.norm.b = c.norm.kind.read(l, name, width)
		}
	}
	if name := "cls.output"; l.holds(name + ".weight") {
		c.size = rows(name + ".weight")
		c.output = l.linear(name, c.size, width)
	}
	const labels = "classifier.output_labels"
	if l.has(labels) {
		var err error
		c.labels, err = l.f.Strings(l.arch + "." + labels)
		l.keep(err)
	}
	if n := max(1, len(c.labels)); l.ok() && c.outputs() > 0 && c.outputs() != n {
		l.fail(labels, ErrValue, "%d labels, the head has %d outputs", n, c.outputs())
	}
	return c
}

// EmbedOptions say which vectors [Model.Embed] computes. The zero value is not that of the file: see Pooling.
type EmbedOptions struct {
	Pooling   Pooling // PoolDefault: what the file says
	Normalize bool    // vectors of length 1 (zeros stay); rows and outputs of a head are not
}

// Embedding is what [Model.Embed] computes of a text.
type Embedding struct {
	// The vector; with PoolNone the rows of all tokens, one after the other; with PoolRank the outputs of the head.
	Data []float32

	// Err says why the text failed: no token, too many, one outside the vocabulary, activations that are not finite. The
	// others are not affected.
	Err error
}

// TakesTexts reports whether [Model.Embed] computes vectors with the model: an encoder, or a decoder of nothing but
// attention and feed-forwards.
func (m *Model) TakesTexts() bool { return m != nil && m.vectors.texts }

// Pooling is what the file says, and whether it does.
func (m *Model) Pooling() (p Pooling, said bool) { return m.vectors.pooling, m.vectors.said }

// Labels are the names of the outputs of the classification head, if the file names them.
func (m *Model) Labels() []string { return slices.Clone(m.vectors.labels) }

// Outputs is the number of outputs of the classification head; 0 without one.
func (m *Model) Outputs() int { return m.vectors.outputs() }

// VectorSize is the number of numbers of a vector with that pooling.
func (m *Model) VectorSize(p Pooling) int {
	if p == PoolDefault {
		p = m.vectors.pooling
	}
	switch n := len(m.vectors.dense); {
	case p == PoolRank:
		return m.vectors.outputs()
	case n > 0:
		return m.vectors.dense[n-1].w.Rows()
	}
	return m.config.HiddenSize
}
