package tensor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/internal/testkit"
)

// TestChoose: the positions that a plain sort chooses, for chains and trees of several segments, with scores that are
// equal, and attention to them is attention to those keys alone. Neither depends on kernels, threads, or what else is
// in the pass.
func TestChoose(t *testing.T) {
	const heads, dim, context = 3, 20, 700
	kv, err := NewKV(KVShape{Layers: 2, Heads: 1, HeadDim: dim, ValueDim: 1, Type: KVF32, Context: context})
	ok(t, err)
	ok(t, kv.Grow(context))
	keys := normal(1, context*dim)
	copy(keys[300*dim:], keys[:200*dim]) // each equals one before it
	for i := range context {
		ok(t, kv.Store(1, i, keys[i*dim:][:dim], []float32{0}))
	}
	seen := newSequence(t, KVF32, 10, context)
	parents := []int32{-1, -1, 1, 0, 2, 4, -1, 6}
	for _, c := range []struct {
		start, n, top int
		parents       []int32
	}{{0, 30, 7, nil}, {255, 3, 40, nil}, {500, 40, 1, nil}, {505, 8, 300, parents}, {640, 8, 9, parents},
		{640, 8, 2, parents}, {3, 8, 6, parents}} {
		q, w := normal(2, c.n*heads*dim), normal(3, c.n*heads)
		attends := queries(20, c.n)
		var first []float32
		for i, simd := range asm.Available() {
			if i > 0 && i < len(asm.Available())-1 && !testkit.IsLong(t) { // the scalar ones and the best
				continue
			}
			rt := runtimeWith(t, Options{Threads: 2, SIMD: simd})
			var choice Choice
			s := AttentionSegment{KV: kv, Start: c.start, Tokens: c.n, Parents: c.parents}
			one := s
			one.Tokens, one.Parents = min(c.n, 2), nil // a segment before it, of the same rows but the last
			ok(t, rt.Choose(&choice, q, w, ChoiceOptions{Layer: 1, Heads: heads, Top: c.top}, []AttentionSegment{s}))
			out := attentionWith(t, rt, attends, AttentionOptions{Only: &choice}, AttentionSegment{KV: seen.kv, Start: c.start,
				Tokens: c.n, Parents: c.parents})
			if first == nil {
				first = out
			}
			sameBits(t, fmt.Sprint(simd, c.start), out, first)
			for row := range c.n {
				path := pathOf(c.start, row, c.parents)
				chosen := bestOf(path, keys, q[row*heads*dim:][:heads*dim], w[row*heads:][:heads], dim, c.top)
				for p := range path {
					if got := choice.chunk(row, p/asm.Page)[p%asm.Page/64]>>(p%64)&1 == 1; got != slices.Contains(chosen, p) {
						t.Fatalf("%s, from %d, token %d of path %d: position %d seen: %v", simd, c.start, row, path, p, got)
					}
				}
				var slots []int
				for _, p := range chosen {
					slots = append(slots, path[p])
				}
				size := len(attends) / c.n
				for d, want := range seen.naive(attends[row*size:][:size], slots) {
					if got := float64(out[row*size+d]); !(math.Abs(got-want) < 3e-6) {
						t.Fatalf("%s, from %d, token %d: %v, expected %v", simd, c.start, row, got, want)
					}
				}
			}
			var both Choice
			ok(t, rt.Choose(&both, slices.Concat(q[:one.Tokens*heads*dim], q), slices.Concat(w[:one.Tokens*heads], w),
				ChoiceOptions{Layer: 1, Heads: heads, Top: c.top}, []AttentionSegment{one, {KV: kv, Row: one.Tokens, Start: c.start,
					Tokens: c.n, Parents: c.parents}}))
			if !slices.Equal(both.bits[one.Tokens*both.words:], choice.bits) {
				t.Errorf("%s, from %d: another choice beside another segment", simd, c.start)
			}
		}
	}
}

// pathOf are the slots of the positions that a row sees.
func pathOf(start, row int, parents []int32) (slots []int) {
	for t := row; t >= 0; {
		slots = append(slots, start+t)
		if parents == nil {
			t--
		} else {
			t = int(parents[t])
		}
	}
	slices.Reverse(slots)
	return slices.Concat(count(0, start), slots)
}

// bestOf are the positions, ascending, of the best scores.
func bestOf(path []int, keys, q, w []float32, dim, top int) []int {
	scores := make([]float32, len(path))
	for p, slot := range path {
		for h := range w {
			dot := float32(0)
			for d := range dim {
				dot = asm.FMA(q[h*dim+d], keys[slot*dim+d], dot)
			}
			scores[p] += float32(w[h] * max(dot, 0))
		}
	}
	best := count(0, len(path))
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	best = best[:min(top, len(best))]
	slices.Sort(best)
	return best
}

// TestLongChoose: by every set of kernels.
func TestLongChoose(t *testing.T) {
	testkit.Long(t)
	TestChoose(t)
}

// TestChoiceRefused: what cannot be chosen or attended is an error.
func TestChoiceRefused(t *testing.T) {
	rt := runtimeOf(t, 1)
	s := newSequence(t, KVF32, 10, 20)
	segs := []AttentionSegment{{KV: s.kv, Start: 3, Tokens: 2}}
	var choice Choice
	first := ChoiceOptions{Heads: 1, Top: 1}
	if err := rt.Choose(&choice, make([]float32, 2*testDim), make([]float32, 2), first, segs); err == nil {
		t.Error("keys of two heads are chosen from")
	}
	one, err := NewKV(KVShape{Layers: 1, Heads: 1, HeadDim: testDim, Type: KVF32, Context: 20})
	ok(t, err)
	ok(t, one.Grow(20))
	segs[0].KV = one
	for _, o := range []ChoiceOptions{{Heads: 0, Top: 1}, {Heads: 1, Top: 0}, {Heads: 3, Top: 1},
		{Layer: 1, Heads: 1, Top: 1}} {
		if err := rt.Choose(&choice, make([]float32, 2*testDim), make([]float32, 2), o, segs); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	ok(t, rt.Choose(&choice, make([]float32, 2*testDim), make([]float32, 2), first, segs))
	q := queries(1, 2)
	for _, o := range []AttentionOptions{{Only: &choice, Window: 3}, {Only: new(Choice)}} {
		o.Layer, o.Heads, o.Scale = 1, testHeads*testGroup, testScale
		at := []AttentionSegment{{KV: s.kv, Start: 3, Tokens: 2}}
		if err := rt.Attention(make([]float32, len(q)), q, o, at); err == nil {
			t.Errorf("%+v is attended", o)
		}
	}
}
