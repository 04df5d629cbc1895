package serve

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"github.com/specgo/spec"
)

// embedded are the vectors of a request's texts.
type embedded struct {
	model   string
	vectors [][]float32
	counts  []int // of each text: how many vectors stand in its own
	tokens  int
}

// embed computes the embeddings of a request's texts: hidden states after the final norm, pooled, of length 1 unless
// the request says otherwise.
func (s *Server) embed(ctx context.Context, r *request, bounded bool, log *record) (*embedded, error) {
	if len(r.prompts) == 0 {
		return nil, badField("input", "missing")
	}
	m, release, err := s.models.acquire(ctx, r.model)
	if err != nil {
		return nil, err
	}
	defer release()
	log.model = m.name
	if size := m.VectorSize(); r.dims > size {
		return nil, badField("dimensions", "%s has %d", m.name, size)
	}
	pooling := r.pooling
	if pooling == "" {
		pooling = s.o.Pooling
	}
	if pooling == spec.PoolNone && !r.each {
		return nil, badField("pooling", "none has a vector of each token, which /embedding answers")
	}
	var texts [][]int32
	err = s.early(ctx, r, bounded, func() (err error) { texts, err = m.EmbedTokens(ctx, r.prompts); return err })
	if wrong := (*spec.RequestError)(nil); errors.As(err, &wrong) { // by the name that the form has for them
		named := *wrong
		named.Field = r.texts + strings.TrimPrefix(wrong.Field, "input")
		return nil, &named
	}
	if err != nil {
		return nil, err
	}
	out, vectors := &embedded{model: m.name}, len(texts)
	for _, ids := range texts {
		out.tokens += len(ids)
		out.counts = append(out.counts, 1)
		if pooling == spec.PoolNone {
			out.counts[len(out.counts)-1] = len(ids)
		}
	}
	if pooling == spec.PoolNone {
		vectors = out.tokens
	}
	if size := m.VectorSize(); pooling == spec.PoolNone && out.tokens > maxNumbers/size {
		return nil, badField(r.texts, "%d tokens in all: with pooling none at most %d, of which each has a vector of %d "+
			"numbers", out.tokens, maxNumbers/size, size)
	}
	want := 1
	if !m.EmbedsWhole() {
		want = min(len(texts), max(1, s.o.Parallel/embedShare))
	}
	places, waited, leave, err := s.enter(ctx, m, r.client, want, bounded, nil)
	if err != nil {
		return nil, err
	}
	defer leave()
	log.queued = waited
	if bounded { // the vectors are there until the client has read them; they become text one by one
		if full := log.visit.hold(4 * int64(vectors) * int64(m.VectorSize())); full != nil {
			return nil, full
		}
	}
	begun := s.now()
	out.vectors, err = m.EmbedIDs(ctx, texts, spec.EmbedOptions{Pooling: pooling, AtOnce: places, Salt: r.salt(s),
		Dimensions: r.dims, Norm: r.norm})
	if err != nil {
		return nil, err
	}
	s.metrics.embedded(m.name, out.tokens, s.now().Sub(begun).Seconds())
	return out, nil
}

// maxNumbers is the most numbers that the vectors of single tokens have in one answer: they are in memory together.
const maxNumbers = 1 << 25

// embedShare is the part of all places that one request for embeddings takes at most: 1 of so many. Its texts share
// passes, and others keep theirs. With an embedding model it takes one: its texts hold no memory while they wait, and
// the more requests wait, the fuller passes are.
const embedShare = 2

// embeddings answers /v1/embeddings.
func (s *Server) embeddings(ctx context.Context, form forms, body []byte, bounded bool, log *record) (any, error) {
	r, e := s.parse(ctx, form, log.client, body, bounded)
	if e != nil {
		return nil, e
	}
	out, err := s.embed(ctx, r, bounded, log)
	if err != nil {
		return nil, err
	}
	type item struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	type usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
	data := arrayText(len(out.vectors), func(i int) any {
		v := out.vectors[i]
		one := item{"embedding", i, v}
		if r.base64 {
			raw := make([]byte, 0, 4*len(v))
			for _, x := range v {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
			one.Embedding = base64.StdEncoding.EncodeToString(raw)
		}
		return one
	})
	return objectText("object", "list", "data", data, "model", out.model, "usage", usage{out.tokens, out.tokens}), nil
}

// teiEmbeddings answers /embed, in the form of text-embeddings-inference (TEI): the vectors and nothing else.
func (s *Server) teiEmbeddings(ctx context.Context, body []byte, log *record) (any, error) {
	r, e := s.parse(ctx, formTEI, log.client, body, true)
	if e != nil {
		return nil, e
	}
	if len(r.prompts) == 0 {
		return nil, badField("inputs", "missing")
	}
	out, err := s.embed(ctx, r, true, log)
	if err != nil {
		return nil, err
	}
	return out.list(), nil
}

// list is the vectors as an array.
func (e *embedded) list() pieces {
	return arrayText(len(e.vectors), func(i int) any { return e.vectors[i] })
}

// llamaEmbeddings answers /embedding as llama.cpp does: of each text a list of vectors, one, or without pooling one of
// each token.
func (s *Server) llamaEmbeddings(ctx context.Context, body []byte, log *record) (any, error) {
	r, e := s.parse(ctx, formEmbedding, log.client, body, true)
	if e != nil {
		return nil, e
	}
	r.each = true
	out, err := s.embed(ctx, r, true, log)
	if err != nil {
		return nil, err
	}
	return arrayText(len(out.vectors), func(i int) any {
		all, n := out.vectors[i], out.counts[i]
		size := len(all) / n
		return objectText("index", i, "embedding", arrayText(n, func(k int) any { return all[k*size:][:size] }))
	}), nil
}
