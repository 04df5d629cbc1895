package speculative

import (
	"context"
	"math"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// siblings drafts trees of certain tokens: two children at each node, two deep.
type siblings struct{}

func (siblings) Start(context.Context, Setup) error { return nil }
func (siblings) Observe(*Round)                     {}
func (siblings) Draft(_ context.Context, text []int32, d *Draft) error {
	x := text[len(text)-1]
	for i := range int32(2) {
		if d.AddChild(-1, (x+i)%tinyVocab, 1, nil) {
			n := d.Len() - 1
			d.AddChild(n, (x+i+1)%tinyVocab, 1, nil)
		}
	}
	return nil
}

// Two tokens, two drafts, by hand: p = (2/3, 1/3), q = (1/3, 2/3) at each place (the example of Sun
// et al., section 2). Rejection keeps 1 + 1/3 ... of them on average; block verification keeps
// more.
func TestBlockKeepsMore(t *testing.T) {
	kept := func(verifier Verifier) float64 {
		p := func(_ []int32, row []float32) { row[0], row[1] = 0.6931472, 0 }
		q := func(_ []int32, row []float32) { row[0], row[1] = 0, 0.6931472 }
		d := New(newFake(t, 2, 64, p), Model(newFake(t, 2, 64, q)),
			Options{Schedule: Constant(ConstantOptions{Length: 2}), Verifier: verifier, MaxTokens: 3})
		sum, rounds := 0.0, 0.0
		for seed := range uint64(4000) {
			first := true
			d.o.Trace = func(r *Round) {
				if first {
					sum, rounds = sum+float64(r.Accepted()), rounds+1
				}
				first = false
			}
			for _, err := range d.Generate(context.Background(), []int32{0}, engine.Sampling{Temperature: 1, Seed: seed}) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		return sum / rounds
	}
	// A token by itself is kept with 1/3 + 1/3 = 2/3, two with 4/9: 10/9. As a block: 11/9.
	if got := kept(Rejection()); math.Abs(got-10./9) > 0.04 {
		t.Errorf("rejection keeps %.3f, expected 10/9", got)
	}
	if got := kept(Block()); math.Abs(got-11./9) > 0.04 {
		t.Errorf("block verification keeps %.3f, expected 11/9", got)
	}
}

// The same, and a second candidate at the first place, which is certain: the other token. Where the first is
// lost, with 1/3, token 0 is left for certain, and was not the first: the second is kept.
func TestBlockOfATreeKeepsMore(t *testing.T) {
	p := func(_ []int32, row []float32) { row[0], row[1] = 0.6931472, 0 }
	q := []sampling.Prob{{ID: 0, P: 1. / 3}, {ID: 1, P: 2. / 3}}
	for _, c := range []struct {
		verifier Verifier
		want     float64
	}{{Rejection(), 10./9 + 1./3}, {Block(), 11./9 + 1./3}} {
		kept, rounds := 0.0, 20000
		verifier := c.verifier
		target := newFake(t, 2, 64, p)
		d := New(target, nil, Options{Verifier: verifier})
		for seed := range uint64(rounds) {
			if err := d.start(context.Background(), []int32{0}, engine.Sampling{Temperature: 1, Seed: seed}); err != nil {
				t.Fatal(err)
			}
			roll := func(i int) int32 { return draw(q, randomStream{seed}.uniform(1, forDraft, 0, i)) }
			first, second := roll(0), roll(1)
			d.draft.alloc(3)
			d.draft.reset(3, fakeTree, 2)
			d.draft.AddChild(-1, first, 1, q)
			d.draft.AddChild(0, second, 1, q)
			d.draft.AddChild(-1, 1-first, 1, []sampling.Prob{{ID: 1 - first, P: 1}})
			logits, err := d.evaluate(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			d.verification = Verification{Sequence: d.sequence, Draft: &d.draft, Logits: logits}
			verifier.Verify(&d.verification)
			kept += float64(len(d.verification.Path))
		}
		if got := kept / float64(rounds); math.Abs(got-c.want) > 0.02 {
			t.Errorf("%T keeps %.3f, expected %.3f", verifier, got, c.want)
		}
	}
}
