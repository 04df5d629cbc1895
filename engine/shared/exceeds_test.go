package shared

import (
	"context"
	"errors"
	"sort"
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
	const step, most = 4 << 10, 4 << 20
	least := int64(step + step*sort.Search(most/step, func(i int) bool {
		_, err := text(step+step*int64(i), 0)
		if err != nil && !errors.Is(err, engine.ErrKVBudget) {
			t.Fatal(err)
		}
		return err == nil
	}))
	if least > most {
		t.Fatalf("%d bytes are not enough", most)
	}
	for i, draft := range []int{5, 17, 40} {
		for _, budget := range []int64{least, least + []int64{8 << 10, 40 << 10, 8 << 10}[i]} {
			if refused, err := text(budget, draft); err != nil {
				t.Errorf("drafts of %d tokens, %d bytes more than %d: %v (%d drafts refused)", draft, budget-least, least, err,
					refused)
			}
		}
	}
}
