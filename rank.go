package spec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/tensor"
)

// ErrNoRank is wrapped by errors about models that judge no documents.
var ErrNoRank = errors.New("no classification head for query and document")

// Ranked is a document as a reranker judges it.
type Ranked struct {
	Index   int       // of the document
	Score   float32   // the first of Outputs
	Outputs []float32 // of the classification head, named by engine's Model.Labels; not limited to any range
	Tokens  int       // of query and document with their marks
}

// Probability is the score of a head with one output as a number between 0 and 1, by the logistic function. It is Score
// where there are several.
func (r *Ranked) Probability() float32 {
	if len(r.Outputs) != 1 {
		return r.Score
	}
	return 1 / (1 + tensor.Exp(-r.Score))
}

// Rank judges documents by a query with a reranker: the best first, the earlier first among equals.
func (m *Model) Rank(ctx context.Context, query string, documents []string) ([]Ranked, error) {
	pairs, err := m.RankTokens(ctx, query, documents)
	if err != nil {
		return nil, err
	}
	return m.RankIDs(ctx, pairs)
}

// RankTokens are the token ids of a query with each document. What is wrong with one is a *[RequestError]. ctx ends it
// between two documents.
func (m *Model) RankTokens(ctx context.Context, query string, documents []string) ([][]int32, error) {
	t := m.parts.Target
	switch {
	case !t.Ranks():
		return nil, &RequestError{Field: "model", Err: ErrNoRank, Reason: fmt.Sprintf("%s has %v", m.name, ErrNoRank)}
	case len(documents) == 0:
		return nil, bad("documents", "missing")
	}
	pairs := make([][]int32, len(documents))
	for i, document := range documents {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ids, err := t.RankTokens(query, document)
		if err != nil {
			return nil, err
		}
		if len(ids) > m.context {
			return nil, &RequestError{Field: fmt.Sprintf("documents[%d]", i), Code: CodeContext, Tokens: len(ids),
				Context: m.context, Reason: fmt.Sprintf("%d tokens with the query; the context holds %d", len(ids), m.context)}
		}
		if err := m.fitsWhole(fmt.Sprintf("documents[%d]", i), len(ids)); err != nil {
			return nil, err
		}
		pairs[i] = ids
	}
	return pairs, nil
}

// RankIDs judges pairs that RankTokens has made.
func (m *Model) RankIDs(ctx context.Context, pairs [][]int32) ([]Ranked, error) {
	if set, err := m.adapterSet(nil); err != nil || set.Len() > 0 {
		return nil, cmp.Or(err, bad("model", "has adapters, which do not change the scores of pairs"))
	}
	list, err := m.parts.Target.Embed(ctx, pairs, engine.EmbedOptions{Pooling: engine.PoolRank})
	if err != nil {
		return nil, err
	}
	ranked := make([]Ranked, len(list))
	for i, e := range list {
		if e.Err != nil {
			return nil, e.Err
		}
		ranked[i] = Ranked{Index: i, Score: e.Data[0], Outputs: e.Data, Tokens: len(pairs[i])}
	}
	slices.SortStableFunc(ranked, func(a, b Ranked) int { return cmp.Compare(b.Score, a.Score) })
	return ranked, nil
}
