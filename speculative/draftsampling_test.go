package speculative

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/testkit"
)

// The shapes of the temperature study: greedy drafts are accepted less the higher the temperature; drafts that share
// the target's noise agree again where it decides; independent drafts never more often than those that share it. The
// text is plain sampling's.
func TestDraftSamplingByTemperature(t *testing.T) {
	const vocab, tokens = 64, 300
	model := random(7)
	acceptance := func(how DraftSampling, temperature float32) float64 {
		s := engine.Sampling{Temperature: temperature, Seed: 5}
		d := New(newFake(t, vocab, 400, model), Model(newFake(t, vocab, 400, noisy(model, 0.5))), Options{
			DraftSampling: how, Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: tokens,
		})
		if got, _ := collect(t, d, matrixPrompt, s); !slices.Equal(got, plain(t, vocab, model, matrixPrompt, tokens, s)) {
			t.Fatalf("sampling %d, temperature %v: other text", how, temperature)
		}
		st := d.Stats() // of the first tokens of drafts only: later ones follow accepted ones
		return float64(st.AcceptedAt[0]) / float64(st.DraftedAt[0])
	}
	shares := map[DraftSampling][]float64{}
	temperatures := []float32{0.1, 0.7, 2, 30}
	for _, how := range []DraftSampling{DraftGreedy, DraftShared, DraftFromQ} {
		for _, temperature := range temperatures {
			shares[how] = append(shares[how], acceptance(how, temperature))
		}
	}
	t.Logf("temperatures %v: greedy %.2f, shared %.2f, q %.2f", temperatures, shares[DraftGreedy],
		shares[DraftShared], shares[DraftFromQ])
	g, s, q := shares[DraftGreedy], shares[DraftShared], shares[DraftFromQ]
	if !(g[0] > g[1] && g[1] > g[2] && g[2] > g[3]) || g[3] > 0.1 {
		t.Errorf("greedy drafts: %.2f, want a fall to nothing", g)
	}
	if s[3] < 0.9 || s[3] < s[1] || s[2] < g[2]+0.2 {
		t.Errorf("drafts that share the noise: %.2f, greedy %.2f", s, g)
	}
	for i := range q {
		if q[i] > s[i]+0.03 {
			t.Errorf("temperature %v: independent drafts %.2f, shared noise %.2f", temperatures[i], q[i], s[i])
		}
	}
	if q[3] > 0.1 {
		t.Errorf("independent drafts at a high temperature: %.2f", q[3])
	}
}

// Greedy drafts are the draft model's most likely tokens also where the target's temperature is one that varies.
func TestGreedyDraftsHaveNoTemperature(t *testing.T) {
	model := random(7)
	s := engine.Sampling{Temperature: 5, Dynatemp: sampling.Dynatemp{Range: 4}, Seed: 5}
	row := make([]float32, matrixVocab)
	var d *Decoder
	d = New(newFake(t, matrixVocab, 400, model), Model(newFake(t, matrixVocab, 400, model)), Options{
		DraftSampling: DraftGreedy, Schedule: Constant(ConstantOptions{Length: 3}), MaxTokens: 60,
		Trace: func(r *Round) {
			if r.Draft.Len() == 0 {
				return
			}
			if model(d.sequence[:r.Position], row); int32(argmax(row)) != r.Draft.Tokens[0] {
				t.Errorf("after %d tokens: drafted %d, the most likely is %d", r.Position, r.Draft.Tokens[0], argmax(row))
			}
		},
	})
	if got, _ := collect(t, d, matrixPrompt, s); !slices.Equal(got, plain(t, matrixVocab, model, matrixPrompt, 60, s)) {
		t.Error("other text")
	}
}

// Rejection and block verification keep the distribution with every way to sample drafts.
func TestDraftSamplingKeepsTheDistribution(t *testing.T) {
	texts := 40000
	if !testkit.IsLong(t) {
		texts = 4000
	}
	for _, verifier := range []func() Verifier{Rejection, Block} {
		for _, how := range []DraftSampling{DraftGreedy, DraftShared, DraftFromQ} {
			for _, tree := range []bool{false, true} {
				x := chiSquared(t, engine.Sampling{Temperature: 1.2}, texts, func() *Decoder {
					drafter := Model(newFake(t, tinyVocab, 64, tiny(4)))
					if tree {
						drafter = Tree(newFake(t, tinyVocab, 64, tiny(4)), TreeOptions{})
					}
					return New(newFake(t, tinyVocab, 64, tiny(3)), drafter, Options{
						DraftSampling: how, Verifier: verifier(), Schedule: Constant(ConstantOptions{Length: 3}), MaxTokens: 3,
					})
				})
				if math.Abs(x) > 5 {
					t.Errorf("%T, sampling %d, tree %v: %.1f standard deviations off", verifier(), how, tree, x)
				}
			}
		}
	}
}

// TestLongDraftSamplingKeepsTheDistribution: with so many texts that a bend of less than half the size shows.
func TestLongDraftSamplingKeepsTheDistribution(t *testing.T) {
	testkit.Long(t)
	TestDraftSamplingKeepsTheDistribution(t)
}

func TestParseDraftSampling(t *testing.T) {
	for name, want := range map[string]DraftSampling{
		"": DraftDefault, "greedy": DraftGreedy, "shared": DraftShared, "q": DraftFromQ} {
		if got, err := ParseDraftSampling(name); got != want || err != nil {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if _, err := ParseDraftSampling("x"); !errors.Is(err, ErrOptions) {
		t.Errorf("x: %v", err)
	}
	d := New(newFake(t, 16, 64, random(1)), NGram(NGramOptions{}), Options{DraftSampling: 9})
	for _, err := range d.Generate(t.Context(), []int32{1}, engine.Sampling{}) {
		if !errors.Is(err, ErrOptions) {
			t.Errorf("sampling 9: %v", err)
		}
	}
}
