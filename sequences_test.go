package spec

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
)

// What is kept of finished sequences is divided between a target and its draft by what they take for the same tokens,
// to the byte, and what both keep of a text is worth as much for each byte. Without a draft the target has all of it.
func TestKeptBytesAreDivided(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	numbers := func(m *engine.Model) (n float64) { // of a token's keys and values
		for _, c := range m.Describe().Caches {
			n += float64(c.Layers * c.Heads * (c.HeadDim + cmp.Or(c.ValueDim, c.HeadDim)))
		}
		return n
	}
	same := func(x, y float64) bool { return math.Abs(x/y-1) < 1e-3 }
	ratio, work := numbers(p.Target)/numbers(p.Draft), float64(p.Target.ActiveParameters()+p.Draft.ActiveParameters())
	const budget = 1<<20 + 1
	for _, kv := range []string{"", "f32", "q8_0"} {
		target, draft := cacheShares(budget, p.Target, p.Draft, kv)
		if target.bytes+draft.bytes != budget || !same(float64(target.bytes)/float64(draft.bytes), ratio) ||
			!same(target.work+draft.work, work) || !same(target.work/draft.work, ratio) {
			t.Errorf("%q: %+v and %+v, as 1 to %v expected", kv, target, draft, 1/ratio)
		}
		if target, draft = cacheShares(-1, p.Target, p.Draft, kv); target.bytes >= 0 || draft.bytes >= 0 {
			t.Errorf("%q: nothing to keep: %+v and %+v", kv, target, draft)
		}
	}
	alone, none := cacheShares(budget, p.Target, nil, "")
	if alone != (cacheShare{budget, float64(p.Target.ActiveParameters())}) || none != (cacheShare{}) {
		t.Errorf("a target alone: %+v and %+v", alone, none)
	}
}

// There are never more sequences at once than Options.Parallel says. Others wait, as long as their context lasts, and
// answers are the same.
func TestParallelBoundsSequences(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Prompts: []Prompt{{Text: "func main() {"}}, N: 6, MaxTokens: 12,
		Sampling: engine.Sampling{Temperature: 0.8}}
	var want []Result
	for _, parallel := range []int{0, 2} {
		m, err := New(p, Options{Parallel: parallel})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		most := 0
		list, err := Collect(func(yield func(Event, error) bool) {
			for e, err := range m.Generate(t.Context(), r) {
				if most = max(most, m.Stats().Target.Sessions); !yield(e, err) {
					return
				}
			}
		})
		if err != nil || parallel > 0 && most > parallel || parallel == 0 && most < 3 {
			t.Errorf("parallel %d: up to %d sequences, %v", parallel, most, err)
		}
		if want == nil {
			want = list
		}
		if !slices.EqualFunc(list, want, func(a, b Result) bool { return a.Text == b.Text }) {
			t.Errorf("parallel %d: %v, want %v", parallel, list, want)
		}
		if parallel == 0 {
			continue
		}
		r.N = 1
		for range m.Generate(t.Context(), r) {
			for range m.Generate(t.Context(), r) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				for _, err := range m.Generate(ctx, r) {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("a third one: %v", err)
					}
				}
				break
			}
			break
		}
	}
}
