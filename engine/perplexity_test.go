package engine

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// TestPerplexity: the definition, computed the long way round.
func TestPerplexity(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.GPT2(), Options{})
	ids := randomTokens(3*100+20, m.config.Vocab, 3)
	sum, n := 0.0, 0
	for chunk := range 3 {
		c := ids[chunk*100 : (chunk+1)*100]
		out := eval(t, newSession(t, m, SessionOptions{}), c, nil, All)
		for i := 50; i < 99; i++ {
			sum -= float64(sampling.LogProb(out[i*m.config.Vocab:(i+1)*m.config.Vocab], c[i+1]))
			n++
		}
	}
	got, err := Perplexity(context.Background(), m, ids, SessionOptions{Context: 100})
	if want := math.Exp(sum / float64(n)); err != nil || got != want {
		t.Errorf("%v, %v; expected %v", got, err, want)
	}
	for _, window := range []int{-1, 3, 513} {
		if _, err := Perplexity(context.Background(), m, ids, SessionOptions{Context: window}); !errors.Is(err, ErrUsage) {
			t.Errorf("chunks of %d: %v", window, err)
		}
	}
	// A text shorter than the window is one chunk.
	for _, n := range []int{3, 20, 100} {
		want, err := Perplexity(context.Background(), m, ids[:n], SessionOptions{Context: max(n, 4)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Perplexity(context.Background(), m, ids[:n], SessionOptions{Context: 400}); err != nil || got != want {
			t.Errorf("%d tokens: %v, %v; expected %v", n, got, err, want)
		}
	}
	out := eval(t, newSession(t, m, SessionOptions{}), ids[:2], nil, Last)
	if got, err := Perplexity(context.Background(), m, ids[:3], SessionOptions{Context: 400}); err != nil ||
		got != math.Exp(-float64(sampling.LogProb(out, ids[2]))) {
		t.Errorf("three tokens: %v, %v", got, err)
	}
	if _, err := Perplexity(context.Background(), m, ids[:2], SessionOptions{Context: 400}); !errors.Is(err, ErrUsage) {
		t.Errorf("two tokens: %v", err)
	}
}

// TestLongPerplexityGolden measures go-target on the whole held-out text, its weights converted while loading to each
// type that an independent engine was measured with. That one quantizes activations, and Q4_K and Q6_K weights, in
// other ways.
func TestLongPerplexityGolden(t *testing.T) {
	testkit.Long(t)
	data, err := os.ReadFile(testkit.Shared(t, "models/golden/perplexity.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Context int                `json:"context"`
		Target  map[string]float64 `json:"go-target"`
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	heldout, err := os.ReadFile(testkit.Shared(t, "text/go-heldout.txt"))
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, weights := range []string{"f32", "q8_0", "q4_0", "q4_k", "q6_k"} {
		t.Run(weights, func(t *testing.T) {
			m := openShared(t, rt, "go-target", Options{Weights: weights})
			ids := m.Tokenizer().Encode(string(heldout), bpe.EncodeOptions{AddSpecial: true})
			got, err := Perplexity(context.Background(), m, ids, SessionOptions{Context: g.Context})
			if err != nil {
				t.Fatal(err)
			}
			want := g.Target[weights]
			t.Logf("%.4f, expected %.4f (%+.3f %%)", got, want, 100*(got/want-1))
			if !(math.Abs(got/want-1) <= 0.005) {
				t.Errorf("perplexity %v, expected %v", got, want)
			}
		})
	}
}
