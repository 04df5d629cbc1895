package speculative

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
)

// TestHeadWithoutMemory: where a head's cache finds no memory beside another user's, its text goes on without drafts; the next text
// drafts again.
func TestHeadWithoutMemory(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := randomModel(t, rt, 0)
	head := randomHead(t, rt, target)
	page := int64(0)
	for _, c := range head.Caches(0) {
		b, err := c.Bytes("f16")
		if err != nil {
			t.Fatal(err)
		}
		page += 256 * b
	}
	heads := shared.New(head, shared.Options{KVBytes: 3 * page})
	defer heads.Close()
	ctx := context.Background()
	const n = 60
	prompts := [2][]int32{random32(1, 220, 90), random32(2, 220, 90)}
	var sessions [2]*shared.Session
	for i := range sessions {
		var err error
		if sessions[i], err = heads.NewSession(ctx, shared.SessionOptions{}); err != nil {
			t.Fatal(err)
		}
		defer sessions[i].Close()
	}
	var wait sync.WaitGroup
	var drafted [2]int
	for i, prompt := range prompts {
		want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: n}), prompt, engine.Sampling{})
		d := New(session(t, target, 0), Eagle(sessions[i], EagleOptions{Tree: i == 1}), Options{Schedule: Constant(ConstantOptions{Length: 3}), MaxTokens: n})
		wait.Go(func() {
			var got []int32
			for token, err := range d.Generate(ctx, prompt, engine.Sampling{}) {
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, token.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("text %d: got %v, want %v", i, got, want)
			}
			drafted[i] = d.Stats().Drafted
		})
		wait.Wait() // the second one meets the memory that the first one holds
	}
	if drafted[0] < 2*n || drafted[1] == 0 || drafted[1] >= drafted[0] {
		t.Errorf("%d tokens were drafted", drafted)
	}
	sessions[0].Close()
	d := New(session(t, target, 0), Eagle(sessions[1], EagleOptions{}), Options{Schedule: Constant(ConstantOptions{Length: 3}), MaxTokens: n})
	if collect(t, d, prompts[0], engine.Sampling{}); d.Stats().Drafted < 2*n {
		t.Errorf("%d tokens were drafted with memory again", d.Stats().Drafted)
	}
}
