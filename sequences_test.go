package spec

import (
	"cmp"
	"math"
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
