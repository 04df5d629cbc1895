package serve

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

// embedded are the vectors of a request's texts.
type embedded struct {
	model   string
	vectors [][]float32
	tokens  int
}

// embed computes the embeddings of a request's texts: hidden states after the final norm, pooled, of length 1.
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
	size := m.Target.Config().HiddenSize
	if r.dims != 0 && r.dims != size {
		return nil, badField("dimensions", "%s has %d", m.name, size)
	}
	pooling := r.pooling
	if pooling == "" {
		pooling = s.o.Pooling
	}
	out := &embedded{model: m.name}
	var texts [][]int32
	for i, p := range r.prompts {
		field := "input"
		if len(r.prompts) > 1 {
			field = fmt.Sprintf("input[%d]", i)
		}
		ids := p.ids
		if !p.given {
			ids = m.tok.Encode(p.text, bpe.EncodeOptions{AddSpecial: true})
		}
		for _, id := range ids {
			if int(id) >= m.Target.Config().Vocab {
				return nil, badField(
					field, "the vocabulary has the ids 0 to %d, not %d", m.Target.Config().Vocab-1, id,
				)
			}
		}
		switch {
		case len(ids) == 0:
			return nil, badField(field, "has no tokens")
		case len(ids) > m.context:
			return nil, &Error{Status: http.StatusBadRequest, Type: typeInvalid, Param: field,
				Code: "context_length_exceeded", Tokens: len(ids), Context: m.context,
				Message: fmt.Sprintf("%s: %d tokens; the context holds %d", field, len(ids), m.context)}
		}
		out.tokens += len(ids)
		texts = append(texts, ids)
	}
	places, leave, err := s.queue.enter(
		ctx, &r.client.places, min(len(texts), max(1, s.o.Parallel/embedShare)), bounded,
	)
	if err != nil {
		return nil, err
	}
	defer leave()
	begun := s.now()
	out.vectors, err = m.embedAll(ctx, r.salt(s), texts, pooling, places)
	if err != nil {
		return nil, err
	}
	s.metrics.embedded(out.tokens, s.now().Sub(begun).Seconds())
	return out, nil
}

// embedShare is the part of all places that one request for embeddings takes at most: 1 of so many. Its texts share
// passes, and others keep theirs.
const embedShare = 2

// embedAll computes the vectors of texts, so many at a time. The first error ends the others.
func (m *loaded) embedAll(
	ctx context.Context, salt string, texts [][]int32, pooling string, places int,
) ([][]float32, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	vectors := make([][]float32, len(texts))
	var next atomic.Int64
	var first sync.Once
	var failed error
	var running sync.WaitGroup
	for range places {
		running.Go(func() {
			take := func() int { return int(next.Add(1)) - 1 }
			if err := m.embedSome(ctx, salt, texts, vectors, pooling, take); err != nil {
				first.Do(func() { failed = err; cancel() })
			}
		})
	}
	running.Wait()
	return vectors, failed
}

// embedSome computes the vectors of those texts that take names, in one session, for which passes wait between two
// texts. A panic is its error.
func (m *loaded) embedSome(
	ctx context.Context, salt string, texts [][]int32, vectors [][]float32, pooling string, take func() int,
) (err error) {
	defer m.server.recovered(&err)
	session, err := m.target.open(ctx, salt)
	if err != nil {
		return err
	}
	defer func() {
		// it is not kept for prompts that begin alike: conversations have better use of that memory
		_ = session.Truncate(0)
		session.Close()
	}()
	for i := take(); i < len(texts); i = take() {
		if vectors[i], err = m.embed(ctx, session, texts[i], pooling); err != nil {
			return err
		}
		if err := session.Truncate(0); err != nil {
			return err
		}
	}
	return nil
}

// embedChunk is the most tokens that are submitted at once: their hidden states are all in memory.
const embedChunk = 256

// embed is one text's embedding, by an empty session.
func (m *loaded) embed(ctx context.Context, session sequence, ids []int32, pooling string) ([]float32, error) {
	sum := make([]float64, m.Target.Config().HiddenSize)
	for from := 0; from < len(ids); from += embedChunk {
		chunk := ids[from:min(from+embedChunk, len(ids))]
		last := from+len(chunk) == len(ids)
		seg := engine.Segment{Tokens: chunk, Layers: []int{engine.FinalNorm}, Hidden: engine.All}
		if pooling == PoolLast {
			if seg.Hidden = engine.None; last {
				seg.Hidden = engine.Last
			} else {
				seg.Layers = nil
			}
		}
		out, err := session.EvalSegment(ctx, seg)
		if err != nil {
			return nil, kvError(err)
		}
		for i := range out.Hidden.Rows() {
			for j, x := range out.Hidden.At(i, 0) {
				sum[j] += float64(x)
			}
		}
	}
	length := 0.0
	for _, x := range sum {
		length += float64(x * x)
	}
	length = math.Sqrt(length)
	v := make([]float32, len(sum))
	for i, x := range sum {
		if length > 0 {
			v[i] = float32(x / length)
		}
	}
	return v, nil
}

// embeddings answers /v1/embeddings.
func (s *Server) embeddings(ctx context.Context, form forms, body []byte, bounded bool, log *record) (any, error) {
	r, e := s.parse(form, log.client, body)
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
	answer := struct {
		Object string `json:"object"`
		Data   []item `json:"data"`
		Model  string `json:"model"`
		Usage  usage  `json:"usage"`
	}{"list", nil, out.model, usage{out.tokens, out.tokens}}
	for i, v := range out.vectors {
		one := item{"embedding", i, v}
		if r.base64 {
			raw := make([]byte, 0, 4*len(v))
			for _, x := range v {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
			one.Embedding = base64.StdEncoding.EncodeToString(raw)
		}
		answer.Data = append(answer.Data, one)
	}
	return answer, nil
}
