package speculative

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// formOf is a model's draft form, as [Self] takes it.
func formOf(t testing.TB, m *engine.Model) func() *engine.DraftForm {
	t.Helper()
	f, err := m.NewDraftForm(context.Background(), engine.DraftFormOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return func() *engine.DraftForm { return f }
}

// hiddenSession is a session of which nothing can be taken over.
type hiddenSession struct{ Sequence }

// TestSelf: a model that drafts for itself in fewer bits writes the text of plain decoding, where its sequence is a
// session, one of shared passes, or cannot be taken over; with windows, recurrent layers and experts. What it drafts
// depends on the text alone: where texts follow from drafts they are the same in each, and when they are written again.
func TestSelf(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, _ := pair(t)
	models := map[string]*engine.Model{"pair": target}
	names := []string{"qwen35moe", "lfm2 windows"}
	if !testing.Short() {
		names = append(names, "gemma4", "falcon-h1", "granitehybrid")
	}
	for _, name := range names {
		models[name] = openRandom(t, rt, randommodel.Recipes()[name].File(t), engine.Options{})
	}
	code := target.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	for k, name := range slices.Sorted(maps.Keys(models)) {
		m := models[name]
		form, n := formOf(t, m), 24
		prompt := code
		if name != "pair" {
			prompt, n = plain(t, m.Config().Vocab, random(3), []int32{1}, 250, engine.Sampling{}), 16 // across a page
		}
		c := shared.New(m, shared.Options{})
		defer c.Close()
		plainSession := session(t, m, 0)
		for i, o := range []struct {
			s engine.Sampling
			v Verifier
		}{{}, {s: engine.Sampling{Temperature: 0.8, Seed: 3}}, {s: penalties(engine.Sampling{Temperature: 0.8, Seed: 4})},
			{s: engine.Sampling{Temperature: 0.9, Seed: 5}, v: Rejection()},
			{s: engine.Sampling{Temperature: 0.9, Seed: 6}, v: Block()}, {v: Stairs(StairsOptions{})},
			{s: engine.Sampling{Constraint: records(m.Config().Vocab)}}} {
			if (i+k)%3 > 0 && (name != "pair" || i > 0) && !testkit.IsLong(t) {
				continue
			}
			want, _ := collect(t, New(plainSession, nil, Options{MaxTokens: n}), prompt, o.s)
			if o.v != nil && i < 5 {
				want = nil // what the first one writes
			}
			one, err := c.NewSession(context.Background(), shared.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer one.Close()
			own := session(t, m, 0)
			for j, seq := range []Sequence{own, one, own, hiddenSession{session(t, m, 0)}} {
				d, err := Self(m, form, engine.SessionOptions{})
				if err != nil {
					t.Fatal(err)
				}
				decoder := New(seq, d, Options{MaxTokens: n, Verifier: o.v, Schedule: Constant(ConstantOptions{Length: 4})})
				got, _ := collect(t, decoder, prompt, o.s)
				if want == nil {
					want = got
				}
				follows := o.v != nil && i < 5 && j == 3 // what the form has read itself is not what the model has
				if !slices.Equal(got, want) && !follows {
					t.Errorf("%s, %d, sequence %d:\n got %v\nwant %v", name, i, j, got, want)
				}
				st := decoder.Stats()
				if st.Drafted == 0 || name == "pair" && i == 0 && float64(st.Accepted) < 0.8*float64(st.Drafted) {
					t.Errorf("%s, %d, sequence %d: %d of %d accepted", name, i, j, st.Accepted, st.Drafted)
				}
			}
		}
	}
}

// What drafts by the model itself take beside a session is no more than a plan counts for them, over texts that have
// nothing in common too, and is given back at a text's end.
func TestOwnDraftsTakeWhatIsPlanned(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	const rows, tokens = 9, 60
	for _, name := range []string{"llama", "qwen35", "gemma3"} {
		m := randomModel(t, rt, 0)
		if name != "llama" {
			m = openRandom(t, rt, randommodel.Recipes()[name].File(t), engine.Options{})
		}
		layers := m.Config().Layers
		for what, make := range map[string]func() (Drafter, error){
			"self":       func() (Drafter, error) { return Self(m, formOf(t, m), engine.SessionOptions{}) },
			"early exit": func() (Drafter, error) { return EarlyExit(m, engine.SessionOptions{Layers: layers}) },
		} {
			drafter, err := make()
			if err != nil {
				t.Fatal(name, what, err)
			}
			s := session(t, m, 0)
			var used atomic.Int64
			s.Meter(&used)
			most := int64(0)
			d := New(s, drafter, Options{MaxTokens: tokens, Rows: rows, Schedule: Constant(ConstantOptions{Length: 20}),
				Trace: func(*Round) { most = max(most, used.Load()) }, Prefilled: func(int) { most = max(most, used.Load()) }})
			planned := engine.Sessions{Count: 1, Rows: rows, Own: true, Alone: true}
			for i, n := range []int{250, 40, 130} {
				prompt := plain(t, m.Config().Vocab, random(uint64(i)), []int32{1}, n, engine.Sampling{})
				planned.Tokens = max(planned.Tokens, n+tokens+rows)
				if collect(t, d, prompt, engine.Sampling{}); d.Stats().Drafted == 0 {
					t.Errorf("%s, %s: nothing was drafted", name, what)
				}
				if used.Load() != s.Bytes() {
					t.Errorf("%s, %s: %d bytes are left to drafts", name, what, used.Load()-s.Bytes())
				}
			}
			all := m.Describe()
			own := planned.OwnDrafts(all) - planned.DraftLogits(all)
			if most > planned.Bytes(all)+own || most <= s.Bytes() {
				t.Errorf("%s, %s: %d bytes, planned %d and %d for drafts", name, what, most, planned.Bytes(all), own)
			}
			if e, ok := drafter.(*earlyExit); ok && e.own != nil {
				t.Errorf("%s: early exit has a sequence of %d tokens by itself", name, e.own.Len())
			}
		}
	}
}

// TestLongSelf: each model with each way to write.
func TestLongSelf(t *testing.T) {
	testkit.Long(t)
	TestSelf(t)
}

// TestSelfSplice: the form drafts beside what is looked up in the text, and the text is that of plain decoding. While
// there is no form the lookup drafts alone, with no pass of a form and no pause.
func TestSelfSplice(t *testing.T) {
	target, _ := pair(t)
	form := formOf(t, target)
	prompt := target.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	c := shared.New(target, shared.Options{})
	defer c.Close()
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 3}} {
		want := pairText(t, prompt, s, 48)
		for _, never := range []bool{false, true} {
			one, err := c.NewSession(context.Background(), shared.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer one.Close()
			for i, seq := range []Sequence{session(t, target, 0), one} {
				d, err := SelfSplice(target, func() *engine.DraftForm {
					if never {
						return nil
					}
					return form()
				}, engine.SessionOptions{}, TreeOptions{})
				if err != nil {
					t.Fatal(err)
				}
				decoder := New(seq, d, Options{MaxTokens: 48, Schedule: Constant(ConstantOptions{Length: 4})})
				got, _ := collect(t, decoder, prompt, s)
				if !slices.Equal(got, want) {
					t.Errorf("never %v, sequence %d:\n got %v\nwant %v", never, i, got, want)
				}
				st := decoder.Stats()
				if (st.DraftPasses == 0) != never || st.Drafted == 0 || !never && st.Accepted < st.Drafted/2 {
					t.Errorf("never %v, sequence %d: %d passes of the form, %d of %d accepted", never, i, st.DraftPasses,
						st.Accepted, st.Drafted)
				}
			}
		}
	}
	if _, err := SelfSplice(nil, form, engine.SessionOptions{}, TreeOptions{}); !errors.Is(err, ErrOptions) {
		t.Errorf("no model: %v", err)
	}
}

// Until there is a draft form nothing is drafted; then drafting begins in the text.
func TestSelfBeginsWhenThereIsAForm(t *testing.T) {
	m := randomModel(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 0)
	form, asked := formOf(t, m), 0
	d, err := Self(m, func() *engine.DraftForm {
		if asked++; asked < 3 {
			return nil
		}
		return form()
	}, engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := collect(t, New(session(t, m, 0), nil, Options{MaxTokens: 60}), []int32{1, 2, 3}, engine.Sampling{})
	decoder := New(session(t, m, 0), d, Options{MaxTokens: 60, Schedule: Constant(ConstantOptions{Length: 2})})
	got, _ := collect(t, decoder, []int32{1, 2, 3}, engine.Sampling{})
	if st := decoder.Stats(); !slices.Equal(got, want) || asked < 3 || st.Drafted == 0 {
		t.Errorf("asked %d times, %d drafted:\n got %v\nwant %v", asked, st.Drafted, got, want)
	}
	if _, err := Self(nil, form, engine.SessionOptions{}); !errors.Is(err, ErrOptions) {
		t.Errorf("no model: %v", err)
	}
	if _, err := Self(m, nil, engine.SessionOptions{}); !errors.Is(err, ErrOptions) {
		t.Errorf("no form: %v", err)
	}
}
