package speculative

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// The most likely tokens are those of a sort of all: of rows that rise, fall and repeat, with tokens that cannot be
// chosen, for every number of them.
func TestTopIsASort(t *testing.T) {
	const vocab = 300
	random := rand.New(rand.NewPCG(1, 2))
	rows := map[string]func(i int) float32{
		"rising":  func(i int) float32 { return float32(i) },
		"falling": func(i int) float32 { return float32(-i) },
		"equal":   func(int) float32 { return 1 },
		"few":     func(int) float32 { return float32(random.IntN(5)) },
		"any":     func(int) float32 { return random.Float32() },
		"banned": func(i int) float32 {
			if i%3 == 0 {
				return float32(math.Inf(-1))
			}
			return random.Float32()
		},
	}
	for name, at := range rows {
		row := make([]float32, vocab)
		all := make([]sampling.Prob, vocab)
		for i := range row {
			row[i] = at(i)
		}
		for i := range all {
			all[i] = sampling.Prob{ID: int32(i), P: sampling.LogProb(row, int32(i))}
		}
		slices.SortStableFunc(all, func(a, b sampling.Prob) int {
			switch x, y := row[a.ID], row[b.ID]; {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0
		})
		for _, n := range []int{1, 2, 3, 20, vocab - 1, vocab, vocab + 1, math.MaxInt} {
			got, want := top(row, n), all[:min(n, vocab)]
			same := func(a, b sampling.Prob) bool {
				return a.ID == b.ID && (a.P == b.P || math.Abs(float64(a.P-b.P)) < 1e-4)
			}
			if !slices.EqualFunc(got, want, same) {
				t.Fatalf("%s: the first %d are %v, want %v", name, n, got, want)
			}
		}
	}
}

// leaver is a verifier whose text's context ends while it verifies.
type leaver struct {
	Verifier
	leave func()
}

func (l leaver) Verify(v *Verification) {
	l.Verifier.Verify(v)
	if len(v.Path) > 4 {
		l.leave()
	}
}

// A round whose tokens are described in detail ends with the context, not behind its last token; what the target holds
// is the text as far as it came.
func TestDescribingEndsWithTheContext(t *testing.T) {
	model := random(14)
	var want []int32
	for tok, err := range New(newFake(t, matrixVocab, 100, model), nil, Options{MaxTokens: 40}).Generate(t.Context(),
		matrixPrompt, engine.Sampling{}) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, tok.ID)
	}
	target := newFake(t, matrixVocab, 100, model)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	whole := append(slices.Clone(matrixPrompt), want...)
	d := New(target, Replay(ReplayOptions{Tokens: want}), Options{Schedule: Constant(ConstantOptions{Length: 9}),
		MaxTokens: 40, LogProbs: true, Top: 3, Verifier: leaver{Greedy(), leave}})
	n, ended := 0, error(nil)
	for tok, err := range d.Generate(ctx, matrixPrompt, engine.Sampling{}) {
		if ended = err; err == nil {
			if n++; tok.ID != want[n-1] {
				t.Fatalf("token %d is %d, want %d", n, tok.ID, want[n-1])
			}
		}
	}
	if !errors.Is(ended, context.Canceled) || n > 0 || d.Stats().End != EndCancel {
		t.Errorf("%d tokens, then %v, %s", n, ended, d.Stats().End)
	}
	if held := len(matrixPrompt) + n; len(target.text) > held || !slices.Equal(target.text, whole[:len(target.text)]) {
		t.Errorf("the target holds %v of a text of %d tokens", target.text, held)
	}
}
