package spec

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

// Ways in which hidden states become an embedding.
const (
	PoolMean = "mean" // of all tokens
	PoolLast = "last" // the last token's
	PoolCLS  = "cls"  // the first token's; of embedding models alone
)

// PoolNone leaves hidden states as they are: a text's vector has those of its tokens, one behind the other, of no norm.
const PoolNone = "none"

// Poolings are all ways to one vector.
func Poolings() []string { return []string{PoolMean, PoolLast, PoolCLS} }

// EmbedOptions say how texts are embedded. The zero value is a good choice.
type EmbedOptions struct {
	Pooling string // "": what the file says, or PoolMean; PoolNone
	AtOnce  int    // texts whose passes are shared, if not EmbedsWhole; 0: DefaultEmbedAtOnce
	Salt    string // as in Request

	// Dimensions is how many numbers of each vector are kept, the first ones, before it is normalized; 0: all. Only models
	// that were trained for it have their meaning in the first numbers (Kusupati et al. 2022, arXiv:2205.13147).
	Dimensions int

	Norm Norm // to what length vectors are brought; the zero value: 1
}

// DefaultEmbedAtOnce is how many texts are embedded at once unless [EmbedOptions] say otherwise.
const DefaultEmbedAtOnce = 8

// Embed computes the embeddings of texts: hidden states after the final norm, pooled, of length 1 unless the options
// say otherwise. A vector depends on its own text alone.
func (m *Model) Embed(ctx context.Context, texts []string, o EmbedOptions) ([][]float32, error) {
	var prompts []Prompt
	for _, text := range texts {
		prompts = append(prompts, Prompt{Text: text})
	}
	ids, err := m.EmbedTokens(ctx, prompts)
	if err != nil {
		return nil, err
	}
	return m.EmbedIDs(ctx, ids, o)
}

// EmbedTokens are the token ids of texts to embed, in which what is spelled like a control token is text, whatever
// [Prompt].Plain says. What is wrong with one is a *[RequestError]. ctx ends it between two texts.
func (m *Model) EmbedTokens(ctx context.Context, prompts []Prompt) (list [][]int32, err error) {
	if len(prompts) == 0 {
		return nil, bad("input", "missing")
	}
	for i, p := range prompts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		field := inputField(i, len(prompts))
		ids := p.IDs
		switch {
		case p.Parts != nil:
			parts := flat(p.Parts)
			for i := range parts {
				parts[i].Plain = true // as texts by themselves are
			}
			ids = m.joined(parts)
		case !p.given():
			ids = m.tok.Encode(p.Text, bpe.EncodeOptions{AddSpecial: true})
		}
		if err := m.checkIDs(field, ids); err != nil {
			return nil, err
		}
		switch {
		case len(ids) == 0:
			return nil, bad(field, "has no tokens")
		case len(ids) > m.context:
			return nil, &RequestError{Field: field, Code: CodeContext, Tokens: len(ids), Context: m.context,
				Reason: fmt.Sprintf("too large: %d tokens; the context holds %d", len(ids), m.context)}
		case m.EmbedsWhole():
			if err := m.fitsWhole(field, len(ids)); err != nil {
				return nil, err
			}
		}
		list = append(list, ids)
	}
	return list, nil
}

// inputField is what errors call text i of so many.
func inputField(i, texts int) string {
	if texts > 1 {
		return fmt.Sprintf("input[%d]", i)
	}
	return "input"
}

// fitsWhole refuses a text that the memory does not suffice for to go through the layers whole.
func (m *Model) fitsWhole(field string, tokens int) error {
	if most := m.most.whole; tokens > most {
		return &RequestError{Field: field, Code: CodeContext, Tokens: tokens, Context: most,
			Reason: fmt.Sprintf("too large: %d tokens; the memory that there is for one (--memory, Memory.Text) holds %d",
				tokens, most)}
	}
	return nil
}

// Pooling is how texts are embedded where "" leaves it to the file.
func (m *Model) Pooling(asked string) string {
	if how, said := m.parts.Target.Pooling(); asked == "" && said && how != engine.PoolNone {
		return how.String()
	}
	return cmp.Or(asked, PoolMean)
}

// EmbedsWhole reports whether it is an embedding model, whose passes take whole texts, those of all calls that wait, in
// turn. [EmbedOptions].AtOnce is of other models.
func (m *Model) EmbedsWhole() bool {
	t := m.parts.Target
	_, said := t.Pooling()
	return t.TakesTexts() && (said || t.Kind() == engine.KindEncoder)
}

// Embeds reports whether texts have embeddings: not those of an encoder-decoder model.
func (m *Model) Embeds() bool { return !m.parts.Target.Encodes() }

// EmbedIDs computes the embeddings of texts in token ids, as EmbedTokens makes them. The first error ends all of them.
func (m *Model) EmbedIDs(ctx context.Context, texts [][]int32, o EmbedOptions) ([][]float32, error) {
	if !m.Embeds() {
		return nil, bad("model", "%s is an encoder-decoder model, whose states are not made into vectors", m.name)
	}
	if err := m.checkDimensions(o); err != nil {
		return nil, err
	}
	if o.AtOnce < 0 {
		return nil, fmt.Errorf("%w: AtOnce %d: negative", ErrOptions, o.AtOnce)
	}
	if o.Pooling == PoolNone && o.Dimensions > 0 {
		return nil, bad("dimensions", "the vectors of single tokens (pooling none) are whole")
	}
	if m.EmbedsWhole() {
		o.Pooling = m.Pooling(o.Pooling)
		if set, err := m.adapterSet(nil); err != nil || set.Len() > 0 {
			return nil, cmp.Or(err, bad("model", "has adapters, which do not change the vectors of whole texts"))
		}
		return embedWhole(ctx, m.parts.Target, texts, o)
	}
	for i, ids := range texts {
		if len(ids) == 0 {
			return nil, bad(inputField(i, len(texts)), "has no tokens")
		}
	}
	switch o.Pooling {
	case "":
		o.Pooling = PoolMean
	case PoolMean, PoolLast, PoolNone:
	case PoolCLS:
		return nil, bad("pooling", "%q is of embedding models", o.Pooling)
	default:
		return nil, fmt.Errorf("%w: pooling %.20q", ErrOptions, o.Pooling)
	}
	o.AtOnce = cmp.Or(o.AtOnce, DefaultEmbedAtOnce)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	vectors := make([][]float32, len(texts))
	var next atomic.Int64
	var first sync.Once
	var failed error
	var running sync.WaitGroup
	for range min(o.AtOnce, len(texts)) {
		running.Go(func() {
			take := func() int { return int(next.Add(1)) - 1 }
			if err := m.embedSome(ctx, o, texts, vectors, take); err != nil {
				first.Do(func() { failed = err; cancel() })
			}
		})
	}
	running.Wait()
	return vectors, failed
}

// embedWhole computes the vectors of texts with an embedding model, whose passes take whole texts.
func embedWhole(ctx context.Context, t *engine.Model, texts [][]int32, o EmbedOptions) ([][]float32, error) {
	p, err := engine.ParsePooling(o.Pooling)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if p == engine.PoolRank {
		return nil, bad("model", "a reranker, which has scores of pairs of texts and no vectors")
	}
	list, err := t.Embed(ctx, texts, engine.EmbedOptions{Pooling: p})
	if err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(list))
	for i, e := range list {
		if e.Err != nil {
			return nil, e.Err
		}
		vectors[i] = e.Data
		if o.Dimensions > 0 {
			vectors[i] = slices.Clone(e.Data[:o.Dimensions]) // the others' memory is freed
		}
		if o.Pooling != PoolNone {
			o.Norm.apply(vectors[i])
		}
	}
	return vectors, nil
}

// embedSome computes the vectors of those texts that take names, in one sequence, for which passes wait between two
// texts. A panic is its error.
func (m *Model) embedSome(
	ctx context.Context, o EmbedOptions, texts [][]int32, vectors [][]float32, take func() int,
) (err error) {
	defer func() {
		if x := recover(); x != nil {
			m.tellPanic(x, debug.Stack())
			err = fmt.Errorf("%w: %v", engine.ErrPanic, x)
		}
	}()
	set, err := m.adapterSet(nil)
	if err != nil {
		return err
	}
	s, done, err := m.target.open(ctx, o.Salt, set)
	if err != nil {
		return err
	}
	defer func() {
		// it is not kept for prompts that begin alike: conversations have better use of that memory
		_ = s.Truncate(0)
		done()
	}()
	handed, err := m.handed(s)
	if err != nil {
		return err
	}
	for i := take(); i < len(texts); i = take() {
		if err := handed.Truncate(0); err != nil {
			return err
		}
		if vectors[i], err = embed(ctx, handed, texts[i], o); err != nil {
			return err
		}
	}
	return nil
}

// embedChunk is the most tokens that are submitted at once: their hidden states are all in memory.
const embedChunk = 256

// embed is one text's embedding, by an empty sequence.
func embed(ctx context.Context, s Sequence, ids []int32, o EmbedOptions) ([]float32, error) {
	sum := make([]float64, s.Model().Config().HiddenSize)
	var each []float32
	for from := 0; from < len(ids); from += embedChunk {
		chunk := ids[from:min(from+embedChunk, len(ids))]
		last := from+len(chunk) == len(ids)
		seg := engine.Segment{Tokens: chunk, Layers: []int{engine.FinalNorm}, Hidden: engine.All}
		if o.Pooling == PoolLast {
			if seg.Hidden = engine.None; last {
				seg.Hidden = engine.Last
			} else {
				seg.Layers = nil
			}
		}
		out, err := s.EvalSegment(ctx, seg)
		if err != nil {
			return nil, err
		}
		for i := range out.Hidden.Rows() {
			if o.Pooling == PoolNone {
				each = append(each, out.Hidden.At(i, 0)...)
				continue
			}
			for j, x := range out.Hidden.At(i, 0) {
				sum[j] += float64(x)
			}
		}
	}
	if o.Pooling == PoolNone {
		return each, nil
	}
	if o.Dimensions > 0 {
		sum = sum[:o.Dimensions]
	}
	scale := 1.0
	if o.Norm == NormL2 {
		length := 0.0
		for _, x := range sum {
			length += float64(x * x)
		}
		scale = math.Sqrt(length)
	} else if o.Pooling == PoolMean {
		scale = float64(len(ids))
	}
	v := make([]float32, len(sum))
	for i, x := range sum {
		if scale > 0 {
			v[i] = float32(x / scale)
		}
	}
	if o.Norm != NormL2 {
		o.Norm.apply(v)
	}
	return v, nil
}
