package spec

import (
	"errors"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// Documents come by falling score, each with what it has alone.
func TestRank(t *testing.T) {
	m, err := Open(t.Context(), testkit.Shared(t, "families/encoders", "bert-rank.gguf"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	documents := []string{"the cat", "a ship at sea", "a cat sat", "the cat"}
	list, err := m.Rank(t.Context(), "which cat sat", documents)
	if err != nil || len(list) != len(documents) {
		t.Fatal(list, err)
	}
	for i := range list[1:] {
		if a, b := list[i], list[i+1]; a.Score < b.Score || a.Score == b.Score && a.Index > b.Index {
			t.Errorf("%+v before %+v", a, b)
		}
	}
	for _, r := range list {
		alone, err := m.Rank(t.Context(), "which cat sat", documents[r.Index:r.Index+1])
		if err != nil || alone[0].Score != r.Score || alone[0].Tokens != r.Tokens {
			t.Errorf("document %d: %+v, alone %+v, %v", r.Index, r, alone, err)
		}
	}
	if _, err := m.Rank(t.Context(), "x", nil); err == nil {
		t.Error("no documents are ranked")
	}
	if _, err := m.Embed(t.Context(), []string{"a"}, EmbedOptions{}); err == nil {
		t.Error("a reranker embeds")
	}
}

// A model without a classification head says so.
func TestOnlyRerankersRank(t *testing.T) {
	m := newModel(t, Options{})
	if _, err := m.Rank(t.Context(), "a", []string{"b"}); !errors.Is(err, ErrNoRank) {
		t.Error(err)
	}
}

// One output is a probability by the logistic function; several are left as they are.
func TestProbabilityOfARank(t *testing.T) {
	for x, want := range map[float32]float32{0: 0.5, 2: 0.880797, -30: 9.357623e-14} {
		r := Ranked{Score: x, Outputs: []float32{x}}
		if got := r.Probability(); got < want*0.99999 || got > want*1.00001 {
			t.Errorf("%v: %v, expected %v", x, got, want)
		}
	}
	if r := (Ranked{Score: 3, Outputs: []float32{3, 1}}); r.Probability() != 3 {
		t.Error(r.Probability())
	}
}
