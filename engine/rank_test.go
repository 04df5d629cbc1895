package engine

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
)

// Rerankers put query and document together as the independent engine does, and give its scores.
func TestRank(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	pairs := 0
	for _, name := range encoderNames(t) {
		g := readEncoderGolden(t, name)
		for _, text := range g.Texts {
			m := openEncoder(t, rt, name, Options{})
			if ids := m.Tokenizer().Encode(text.Text, bpe.EncodeOptions{AddSpecial: true}); !slices.Equal(ids, text.IDs) {
				t.Errorf("%s: %q is %d, expected %d", name, text.Text, ids, text.IDs)
			}
			m.Close()
		}
		if len(g.Pairs) == 0 {
			continue
		}
		m := openEncoder(t, rt, name, Options{tanhGELU: true})
		for _, pair := range g.Pairs {
			pairs++
			ids, err := m.RankTokens(pair.Query, pair.Document)
			if err != nil || !slices.Equal(ids, pair.IDs) {
				t.Errorf("%s: %q with %q is %d, expected %d: %v", name, pair.Query, pair.Document, ids, pair.IDs, err)
			}
			got, err := m.Rank(t.Context(), pair.Query, []string{"other", pair.Document})
			if err != nil || got[1].Err != nil || len(got[1].Data) != len(pair.Pooled) {
				t.Fatal(name, err, got)
			}
			for i, want := range pair.Pooled {
				if d := math.Abs(float64(got[1].Data[i]) - want); !(d <= 1e-4*g.RMS) {
					t.Errorf("%s: output %d is %v, expected %v", name, i, got[1].Data[i], want)
				}
			}
		}
	}
	if pairs < 20 {
		t.Errorf("%d pairs", pairs)
	}
	if _, err := openEncoder(t, rt, "bert", Options{}).Rank(t.Context(), "a", []string{"b"}); !errors.Is(err, ErrUsage) {
		t.Errorf("a model without a head: %v", err)
	}
}
