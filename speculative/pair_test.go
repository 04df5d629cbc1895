package speculative

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/testdata"
)

// prompts reads n prompts of a file in shared/text, which lies beside the project.
func prompts(t testing.TB, name string, n int) (all []string) {
	t.Helper()
	f, err := os.Open(testkit.Shared(t, "text", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && len(all) < n {
		var line struct{ Prompt string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		all = append(all, line.Prompt)
	}
	return all
}

// pair opens the embedded models.
func pair(t testing.TB) (target, draft *engine.Model) {
	t.Helper()
	p, err := openPair()
	if err != nil {
		t.Fatal(err)
	}
	return p[0], p[1]
}

// openPair opens the embedded pair for all tests, once; nobody closes it.
var openPair = sync.OnceValues(func() (p [2]*engine.Model, err error) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		return p, err
	}
	for i, r := range []*strings.Reader{testdata.Target(), testdata.Draft()} {
		o := engine.Options{Name: []string{"target", "draft"}[i]}
		if p[i], err = engine.New(context.Background(), rt, r, r.Size(), o); err != nil {
			return p, err
		}
	}
	return p, nil
})

// pairTexts are the texts that pairText has written, by prompt and sampling; pairReaders hold the prompts.
var pairTexts, pairReaders = map[string][]int32{}, map[string]*engine.Session{}

// pairText is n tokens that plain decoding writes with the embedded target, in a session of their own: the reference
// of several tests, so written once.
func pairText(t testing.TB, prompt []int32, s engine.Sampling, n int) []int32 {
	t.Helper()
	read := fmt.Sprint(prompt)
	key := fmt.Sprintf("%s %+v", read, s)
	if len(pairTexts[key]) < n {
		if pairReaders[read] == nil {
			target, _ := pair(t)
			pairReaders[read] = session(t, target, 0)
		}
		pairTexts[key], _ = collect(t, New(pairReaders[read], nil, Options{MaxTokens: n}), prompt, s)
	}
	return pairTexts[key][:n:n]
}

// P2 on the embedded pair: real text, real acceptance, and sessions that go from text to text.
func TestPairIdentity(t *testing.T) {
	n, tokens, seeds := 2, 24, uint64(2)
	if testkit.IsLong(t) {
		n, seeds = 12, 5
	} else if testing.Short() {
		tokens, seeds = 16, 1
	}
	texts := prompts(t, "prompts-code.jsonl", n)
	target, draft := pair(t)
	one, two := session(t, target, 0), session(t, draft, 0) // kept, so that a prompt is fed once
	drafted, accepted := 0, 0
	for _, text := range texts {
		prompt := target.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true})
		settings := []engine.Sampling{{}}
		for seed := range seeds {
			settings = append(settings, engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: seed})
		}
		for i, s := range settings {
			want := pairText(t, prompt, s, tokens)
			for _, c := range []struct {
				name     string
				drafter  Drafter
				schedule Schedule
			}{
				{"model, heuristic", Model(two), Heuristic(HeuristicOptions{Length: 5})},
				{"model, auto", Model(two), Auto(AutoOptions{})},
				{"model, dynamic", Model(two), Dynamic(DynamicOptions{Length: 16, MinConfidence: 0.4, Adapt: true})},
				{"ngram, constant", NGram(NGramOptions{}), Constant(ConstantOptions{Length: 9})},
				{"replay, constant", Replay(ReplayOptions{Tokens: want, ErrorEvery: 10}), Constant(ConstantOptions{Length: 16})},
			} {
				if i > 0 && c.name != "model, heuristic" {
					continue
				}
				d := New(one, c.drafter, Options{Schedule: c.schedule, MaxTokens: tokens})
				if got, _ := collect(t, d, prompt, s); !slices.Equal(got, want) {
					t.Errorf("%.40q, %s, %+v:\n got %v\nwant %v", text, c.name, s, got, want)
				}
				if st := d.Stats(); c.name == "model, heuristic" {
					drafted, accepted = drafted+st.Drafted, accepted+st.Accepted
				}
			}
			for k := 1; i == 0 && k <= 16; k++ { // draft lengths, on the first text
				if text != texts[0] {
					break
				}
				if !testkit.IsLong(t) && k&(k-1) > 0 && k != 3 || testing.Short() && k != 1 && k != 16 {
					continue
				}
				d := New(one, Model(two), Options{Schedule: Constant(ConstantOptions{Length: k}), MaxTokens: tokens})
				if got, _ := collect(t, d, prompt, s); !slices.Equal(got, want) {
					t.Errorf("%.40q, drafts of %d: got %v, want %v", text, k, got, want)
				}
			}
		}
	}
	t.Logf("%d of %d drafted tokens accepted", accepted, drafted)
	if accepted < drafted/5 {
		t.Error("few drafts are accepted: the pair should agree more often")
	}
}

// TestLongPairIdentity: with six times the texts, five seeds, and every draft length.
func TestLongPairIdentity(t *testing.T) {
	testkit.Long(t)
	TestPairIdentity(t)
}
