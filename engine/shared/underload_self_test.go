package shared_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// A model that drafts for itself in fewer bits under load, in virtual time, on real texts: decoders share the passes of
// the model and those of its draft form, which take what was measured with a model of 1 B and half of that. At no load
// they have less than 0.98 of the tokens per second without drafts, and where rows are cheap they gain. Texts are the
// same.
func TestAutoSharesPassesOfDraftForms(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1}) // without workers, which do not belong to the bubble
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	r := testdata.Target()
	m, err := engine.New(context.Background(), rt, r, r.Size(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	form, err := m.NewDraftForm(context.Background(), engine.DraftFormOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer form.Close()
	var prompts [][]int32
	for _, text := range []string{
		"func (r *Ring) Push(", "type Server struct {", "func parse(s string) (", "if err != nil {", "for i := range ",
		"// Package cache ", "func TestAdd(t *testing.T) {", "var errClosed = ",
	} {
		prompts = append(prompts, m.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true}))
	}
	rounds, loads, names, machines := 150, []int{4}, []string{"self", "self-splice"}, 1
	if testkit.IsLong(t) {
		rounds, loads, names, machines = 400, []int{1, 2, 4, 8}, []string{"self", "self-splice", "ngram"}, 3
	}
	steps := passTimes{{1, 18}, {8, 20.2}, {9, 23.1}, {12, 26.2}, {16, 31.2}, {24, 46.3}, {32, 61.1}, {512, 900}}
	for _, c := range []struct {
		name         string
		target, form passTimes
		gain         float64 // of self of four decoders, at least
	}{
		// 1.08 or 1.14 of 150 rounds, by the order in which goroutines ran
		{"steps", steps, passTimes{{1, 9.6}, {8, 10.8}, {16, 17}, {32, 33}, {256, 260}}, 1.05},
		{"slow memory", passTimes{{1, 26.2}, {8, 28.3}, {12, 28.5}, {16, 29.5}, {24, 42.4}, {32, 55.6}, {512, 900}},
			passTimes{{1, 14}, {8, 15}, {16, 16}, {32, 33}, {256, 260}}, 1.15},
		{"expensive rows", passTimes{{1, 10}, {256, 2000}}, passTimes{{1, 9}, {256, 2000}}, 0.98},
	}[:machines] {
		var want [8][]int32
		run := func(n int, name string) (rate, rows float64) {
			synctest.Test(t, func(t *testing.T) {
				cpu := make(chan bool, 1) // passes of both forms run one after the other
				took := func(p passTimes) func(engine.Batch) time.Duration {
					return func(b engine.Batch) time.Duration {
						rows := 0
						for i := range b {
							rows += len(b[i].Tokens)
						}
						cpu <- true
						time.Sleep(p.of(rows))
						<-cpu
						return p.of(rows)
					}
				}
				m.Costs(0).Set(nil, true) // another machine
				form.Costs().Set(nil, true)
				s := shared.New(m, shared.Options{CacheBytes: -1})
				defer s.Close()
				s.SetPrepare(took(c.target))
				s.SetPrepareDrafts(took(c.form))
				begin, length := time.Now(), time.Duration(rounds)*c.target.of(n)
				ctx, cancel := context.WithDeadline(context.Background(), begin.Add(length))
				defer cancel()
				var wait sync.WaitGroup
				var counted atomic.Int64
				var experience speculative.Experience
				for i := range n {
					wait.Go(func() {
						one, err := s.NewSession(context.Background(), shared.SessionOptions{})
						if err != nil {
							t.Error(err)
							return
						}
						defer one.Close()
						var d speculative.Drafter
						forms := func() *engine.DraftForm { return form }
						switch name {
						case "self":
							d, err = speculative.Self(m, forms, engine.SessionOptions{})
						case "self-splice":
							d, err = speculative.SelfSplice(m, forms, engine.SessionOptions{}, speculative.TreeOptions{})
						case "ngram":
							d = speculative.NGram(speculative.NGramOptions{})
						}
						if err != nil {
							t.Error(err)
							return
						}
						var got []int32
						sampling := engine.Sampling{Temperature: 0.8, Seed: uint64(i)}
						o := speculative.Options{Experience: &experience}
						for tok, err := range speculative.New(one, d, o).Generate(ctx, prompts[i], sampling) {
							if err != nil {
								break // the time is over
							}
							if got = append(got, tok.ID); time.Since(begin) > length/4 { // afterwards: costs are known
								counted.Add(1)
							}
						}
						k := min(len(got), len(want[i]))
						if !slices.Equal(got[:k], want[i][:k]) {
							t.Errorf("%s, %d decoders, %s: another text", c.name, n, name)
						}
						if len(got) > k {
							want[i] = got
						}
					})
				}
				wait.Wait()
				st := s.Stats()
				rate = float64(counted.Load()) / (length * 3 / 4).Seconds()
				rows = float64(st.Tokens-st.PromptTokens) / float64(st.Passes)
			})
			return rate, rows
		}
		for _, name := range names {
			var line strings.Builder
			for _, n := range loads {
				plain, _ := run(n, "none")
				auto, rows := run(n, name)
				gain := auto / plain
				fmt.Fprintf(&line, "  %d: %.3f (%.1f rows a pass)", n, gain, rows)
				if gain < 0.98 || name == "self" && n == 4 && gain < c.gain {
					t.Errorf("%s, %s, %d decoders: %.3f of the tokens per second without drafts", c.name, name, n, gain)
				}
			}
			t.Logf("%-16s %-11s times plain by decoders:%s", c.name, name, &line)
		}
	}
}

// TestLongAutoSharesPassesOfDraftForms: for longer, at four loads, for three drafters.
func TestLongAutoSharesPassesOfDraftForms(t *testing.T) {
	testkit.Long(t)
	TestAutoSharesPassesOfDraftForms(t)
}
