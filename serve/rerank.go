package serve

import (
	"context"
	"errors"
	"strings"

	"github.com/specgo/spec"
)

// Rerankers: /v1/rerank in the form of Jina and Cohere, and of text-embeddings-inference (TEI) where a body has texts
// instead of documents.

// ranking is a query with the documents that it is to judge.
type ranking struct {
	query     string
	documents []string
	tei       bool // the answer is a list, in TEI's form
	best      int  // of the best; 0: all
	withText  bool
	rawScores bool // of TEI: scores as the model has them
}

// maxPairBytes is the most bytes of a query with all its documents: it is read and encoded with each of them.
const maxPairBytes = 32 << 20

// pairBytes is the length of the documents, each with the query.
func (r *ranking) pairBytes() (n int64) {
	for _, document := range r.documents {
		n += int64(len(r.query) + len(document))
	}
	return n
}

// rankFields are the fields of /v1/rerank.
func rankFields() []field {
	return []field{
		{"query", honored, formRerank, "the text that documents are judged by",
			func(r *request, v value) (e *Error) { r.query, e = v.text(); return }},
		{"documents", honored, formRerank, `texts, or objects with a text; at most 2048`, readDocuments},
		{"texts", honored, formRerank, "the same, TEI's name: the answer has TEI's form", func(r *request, v value) *Error {
			r.tei = true
			return readDocuments(r, v)
		}},
		{"top_n", honored, formRerank, "only so many of the best", func(r *request, v value) *Error {
			n, err := v.whole(1, anyNumber)
			r.best = int(n)
			return err
		}},
		{"return_documents", honored, formRerank, "true: with their texts",
			func(r *request, v value) (e *Error) { r.withText, e = v.boolean(); return }},
		{"return_text", honored, formRerank, "the same, TEI's name",
			func(r *request, v value) (e *Error) { r.withText, e = v.boolean(); return }},
		{"raw_scores", honored, formRerank, "with texts; true: scores as the model has them, else between 0 and 1",
			func(r *request, v value) (e *Error) { r.rawScores, e = v.boolean(); return }},
		{"truncate", honored, formRerank, "only false, or true for documents that fit: one that does not fit is refused",
			func(_ *request, v value) *Error { _, err := v.boolean(); return err }},
	}
}

// readDocuments reads texts, or objects that hold one.
func readDocuments(r *request, v value) *Error {
	items, err := v.list()
	if err != nil {
		return err
	}
	if len(items) > maxInputs {
		return v.bad("more than %d texts", maxInputs)
	}
	if r.documents != nil {
		return v.bad("there are documents and texts")
	}
	r.documents = []string{}
	for _, item := range items {
		text, err := item.text()
		if err != nil {
			given := false
			err = item.object(map[string]func(value) *Error{
				"text": func(v value) (e *Error) { text, e = v.text(); given = true; return },
			})
			if err == nil && !given {
				err = badField(item.path+".text", "missing")
			}
		}
		if err != nil {
			return err
		}
		r.documents = append(r.documents, text)
	}
	return nil
}

// rerank answers /v1/rerank.
func (s *Server) rerank(ctx context.Context, body []byte, log *record) (any, error) {
	r, e := s.parse(ctx, formRerank, log.client, body, true)
	if e != nil {
		return nil, e
	}
	if r.query == "" {
		return nil, badField("query", "missing")
	}
	field := "documents"
	if r.tei {
		field = "texts"
	}
	if n := r.pairBytes(); n > maxPairBytes {
		return nil, badField(field, "%d bytes, with the query at each: more than %d", n, maxPairBytes)
	}
	m, release, err := s.models.acquire(ctx, r.model)
	if err != nil {
		return nil, err
	}
	defer release()
	log.model = m.name
	if full := log.visit.hold(r.pairBytes()); full != nil { // the tokens wait with the request
		return nil, full
	}
	var pairs [][]int32
	r.large = r.large || r.pairBytes() > largeBody
	err = s.early(ctx, r, true, func() (err error) { pairs, err = m.RankTokens(ctx, r.query, r.documents); return err })
	if wrong := (*spec.RequestError)(nil); errors.As(err, &wrong) { // by the name that the form has for them
		named := *wrong
		named.Field = strings.Replace(wrong.Field, "documents", field, 1)
		return nil, &named
	}
	if err != nil {
		return nil, err
	}
	tokens := 0
	for _, ids := range pairs {
		tokens += len(ids)
	}
	_, waited, leave, err := s.enter(ctx, m, r.client, 1, true, nil)
	if err != nil {
		return nil, err
	}
	defer leave()
	log.queued = waited
	begun := s.now()
	list, err := m.RankIDs(ctx, pairs)
	if err != nil {
		return nil, err
	}
	s.metrics.embedded(m.name, tokens, s.now().Sub(begun).Seconds())
	if r.best > 0 {
		list = list[:min(r.best, len(list))]
	}
	if r.tei {
		return r.teiAnswer(list), nil
	}
	return r.rankAnswer(m.name, list, tokens), nil
}

// rankAnswer is the answer in Jina's form, which Cohere's clients read too.
func (r *ranking) rankAnswer(model string, list []spec.Ranked, tokens int) any {
	type document struct {
		Text string `json:"text"`
	}
	type result struct {
		Index    int       `json:"index"`
		Score    jsonFloat `json:"relevance_score"`
		Document *document `json:"document,omitempty"`
	}
	type usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
	results := make([]result, len(list))
	for i, x := range list {
		results[i] = result{Index: x.Index, Score: jsonFloat(x.Score)}
		if r.withText {
			results[i].Document = &document{r.documents[x.Index]}
		}
	}
	return struct {
		Model   string   `json:"model"`
		Object  string   `json:"object"`
		Usage   usage    `json:"usage"`
		Results []result `json:"results"`
	}{model, "list", usage{tokens, tokens}, results}
}

// teiAnswer is the answer in TEI's form: a score of one output becomes a probability unless it is to stay.
func (r *ranking) teiAnswer(list []spec.Ranked) any {
	type result struct {
		Index int       `json:"index"`
		Text  *string   `json:"text,omitempty"`
		Score jsonFloat `json:"score"`
	}
	results := make([]result, len(list))
	for i, x := range list {
		score := x.Score
		if !r.rawScores {
			score = x.Probability()
		}
		results[i] = result{Index: x.Index, Score: jsonFloat(score)}
		if r.withText {
			results[i].Text = &r.documents[x.Index]
		}
	}
	return results
}
