package shared

import (
	"context"
	"errors"
	"testing"

	"github.com/specgo/spec/engine"
)

// TestDraftsLeaveRoomForTheText: in the least budget in which a text of recurrent layers is computed token by token,
// it is computed with drafts in between too: those may be refused, and copies of states that they left are given up.
func TestDraftsLeaveRoomForTheText(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	m := openRecipe(t, rt, "qwen35")
	ids := randomTokens(200, recipeVocab, 4)
	text := func(budget int64, draft int) (refused int, err error) {
		c := New(m, Options{KVBytes: budget})
		defer c.Close()
		ctx := context.Background()
		s, err := c.NewSession(ctx, SessionOptions{})
		if err != nil {
			return 0, err
		}
		defer s.Close()
		if _, err := s.Eval(ctx, ids[:60], nil, engine.None); err != nil {
			return 0, err
		}
		for n := 60; n < len(ids)-draft; n++ {
			if draft > 0 {
				if _, err := s.Eval(ctx, ids[n:n+draft], nil, engine.All); errors.Is(err, engine.ErrKVBudget) {
					refused++
				} else if err != nil {
					return refused, err
				} else if err := s.Truncate(n); err != nil {
					return refused, err
				}
			}
			if _, err := s.Eval(ctx, ids[n:n+1], nil, engine.Last); err != nil {
				return refused, err
			}
		}
		return refused, nil
	}
	const step = 4 << 10
	least := int64(step)
	for ; ; least += step {
		if _, err := text(least, 0); err == nil {
			break
		} else if !errors.Is(err, engine.ErrKVBudget) || least > 4<<20 {
			t.Fatal(err)
		}
	}
	for _, draft := range []int{5, 17, 40} {
		for _, budget := range []int64{least, least + 8<<10, least + 40<<10} {
			if refused, err := text(budget, draft); err != nil {
				t.Errorf("drafts of %d tokens, %d bytes more than %d: %v (%d drafts refused)", draft, budget-least, least, err,
					refused)
			}
		}
	}
}
