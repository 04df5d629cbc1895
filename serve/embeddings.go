package serve

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"

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
				return nil, badField(field, "the vocabulary has the ids 0 to %d, not %d", m.Target.Config().Vocab-1, id)
			}
		}
		switch {
		case len(ids) == 0:
			return nil, badField(field, "has no tokens")
		case len(ids) > m.context:
			return nil, &Error{Status: http.StatusBadRequest, Type: typeInvalid, Param: field, Code: "context_length_exceeded", Tokens: len(ids), Context: m.context,
				Message: fmt.Sprintf("%s: %d tokens; the context holds %d", field, len(ids), m.context)}
		}
		out.tokens += len(ids)
		texts = append(texts, ids)
	}
	_, leave, err := s.queue.enter(ctx, 1, bounded)
	if err != nil {
		return nil, err
	}
	defer leave()
	for _, ids := range texts {
		v, err := m.embed(ctx, ids, pooling)
		if err != nil {
			return nil, err
		}
		out.vectors = append(out.vectors, v)
	}
	return out, nil
}

// embedChunk is the most tokens of one pass: a cancelled request ends soon, and others get their turn.
const embedChunk = 256

// embed is one text's embedding.
func (m *loaded) embed(ctx context.Context, ids []int32, pooling string) ([]float32, error) {
	session, err := m.Target.NewSession(engine.SessionOptions{Context: m.context, KV: m.server.o.KV})
	if err != nil {
		return nil, err
	}
	defer session.Close()
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
			return nil, err
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
	r, e := s.parse(form, body)
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
