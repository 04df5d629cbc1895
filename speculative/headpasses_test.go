package speculative

import (
	"context"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/testdata"
)

// segments is a head's session that notes how many drafted tokens each of its passes feeds.
type segments struct {
	*engine.Session
	drafted []int
}

func (s *segments) EvalSegment(ctx context.Context, g engine.Segment) (engine.Result, error) {
	if !g.FromTarget {
		s.drafted = append(s.drafted, len(g.Tokens))
	}
	return s.Session.EvalSegment(ctx, g)
}

// TestHeadFeedsEachDraftedTokenOnce: a chain's next token is all that a pass of a head feeds; those before it are in
// its cache.
func TestHeadFeedsEachDraftedTokenOnce(t *testing.T) {
	target, err := engine.New(t.Context(), newRuntime(t, engine.RuntimeOptions{Threads: 1}), testdata.Target(),
		testdata.Target().Size(),
		engine.Options{Name: "target"})
	if err != nil {
		t.Fatal(err)
	}
	head := &segments{Session: session(t, pairHead(t, target), 0)}
	d := New(session(t, target, 0), Model(head), Options{Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: 20})
	collect(t, d, matrixPrompt, engine.Sampling{})
	if len(head.drafted) < 10 || slices.Max(head.drafted) != 1 {
		t.Errorf("passes fed %v drafted tokens", head.drafted)
	}
}
