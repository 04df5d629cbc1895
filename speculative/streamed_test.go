package speculative

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// streamedPair opens the embedded target from its file under the least limit, and the draft model.
func streamedPair(t *testing.T) (target, draft *engine.Model) {
	t.Helper()
	const file = "../testdata/go-target.q8_0.gguf"
	_, draft = pair(t)
	f, err := gguf.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plan, err := engine.PlanMemory(f, engine.Options{}, engine.Sessions{})
	if err != nil {
		t.Fatal(err)
	}
	target, err = engine.Open(context.Background(), draft.Runtime(), file,
		engine.Options{Memory: plan.Least, Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	if !target.Memory().Streams() {
		t.Fatal("all weights are in memory")
	}
	return target, draft
}

// diskBound is a session whose passes take what a disk takes, and a little for each token, of a virtual clock.
type diskBound struct {
	*engine.Session
	clock *time.Duration
}

func (diskBound) Costs() *costs.Costs { return nil } // it is the rounds that know this disk

func (d diskBound) spend(tokens int) {
	*d.clock += 200*time.Millisecond + time.Duration(tokens)*200*time.Microsecond
}

func (d diskBound) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	d.spend(len(tokens))
	return d.Session.Eval(ctx, tokens, parents, want)
}

func (d diskBound) EvalSegment(ctx context.Context, g engine.Segment) (engine.Result, error) {
	d.spend(len(g.Tokens))
	return d.Session.EvalSegment(ctx, g)
}

// TestStreamedIdentity is promise P2 over a target whose weights are read from disk: the text is that of plain decoding
// with the weights in memory. On a flat curve, as a disk makes it, auto drafts beyond 63 tokens where they are
// accepted. Time is virtual.
func TestStreamedIdentity(t *testing.T) {
	target, draft := streamedPair(t)
	one := session(t, target, 0)
	prompt := target.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	const tokens, short = 400, 60
	for i, s := range []engine.Sampling{{}, {Temperature: 0.8, TopP: 0.95, Seed: 3}} {
		tokens := tokens
		if i > 0 && !testkit.IsLong(t) {
			tokens = short
		}
		want := pairText(t, prompt, s, tokens)
		for _, c := range []struct {
			name    string
			drafter Drafter
			beyond  bool // auto finds lengths beyond 63
		}{
			{"record", Replay(ReplayOptions{Tokens: want}), true},
			{"record with errors", Replay(ReplayOptions{Tokens: want, ErrorEvery: 97}), false},
			{"model", Model(session(t, draft, 0)), false},
			{"head", headed(session(t, pairHead(t, target), 0), headOptions{}), false},
		} {
			n := tokens
			if !c.beyond {
				n = short
			} else if n == short {
				continue
			}
			var clock time.Duration
			longest := 0
			d := New(diskBound{one, &clock}, c.drafter,
				Options{Schedule: Auto(AutoOptions{}), MaxTokens: n, DraftMax: maxVerify - 1, Trace: func(r *Round) {
					longest = max(longest, r.Drafted())
				}})
			d.now = func() time.Duration { return clock }
			if got, _ := collect(t, d, prompt, s); !slices.Equal(got, want[:min(n, len(want))]) {
				t.Errorf("sampling %d, %s: got %v, want %v", i, c.name, got, want)
			}
			st := d.Stats()
			t.Logf("sampling %d, %s: longest draft %d, %d tokens in %d passes", i, c.name, longest, st.Generated,
				st.TargetPasses)
			if c.beyond && longest <= 63 {
				t.Errorf("sampling %d, %s: no draft beyond 63 tokens, the longest has %d", i, c.name, longest)
			}
		}
	}
	if read, _ := target.Disk(); read == 0 {
		t.Error("nothing was read")
	}
}

// TestLongStreamedIdentity: drafts beyond 63 tokens also of sampled texts.
func TestLongStreamedIdentity(t *testing.T) {
	testkit.Long(t)
	TestStreamedIdentity(t)
}
