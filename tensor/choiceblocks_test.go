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

// TestChooseBlocks: the positions that a plain sort of blocks chooses, for chains and trees, with scores that are equal
// (0, of blocks that no head wants), blocks of a few sizes, and keys of every type. Neither depends on kernels,
// threads, or what else is in the pass.
func TestChooseBlocks(t *testing.T) {
	const heads, dim, context = 2, 20, 1400
	rope, err := NewRopeTable(RopeOptions{Dims: 8, Base: 100})
	ok(t, err)
	norm, keys := normal(4, dim), normal(1, context*dim)
	parents := []int32{-1, -1, 1, 0, 2, 4, -1, 6, 5, 8}
	line := []int32{-1, 0, 1, 2, 3, 4, 5, 6, 7}
	for i, c := range []struct {
		start, n, size, top int
		parents             []int32
		kv                  KVType
	}{{0, 30, 4, 3, nil, KVF32}, {254, 5, 4, 9, nil, KVF32}, {1290, 40, 4, 300, nil, KVF32}, {300, 3, 256, 1, nil, KVF32},
		{505, 10, 4, 30, parents, KVF32}, {1150, 10, 4, 9, parents, KVF32}, {3, 10, 4, 1, parents, KVF32},
		{3, 10, 2, 1, parents, KVF32}, {3, 10, 1, 2, parents, KVF32},
		{5, 9, 1, 4, line, KVF32}, {6, 9, 2, 2, line, KVF16}, {301, 9, 8, 11, line, KVQ8_0}, {255, 9, 2, 17, line, KVQ4_0}} {
		kv, err := NewKV(KVShape{Layers: 2, Heads: 1, HeadDim: dim, ValueDim: 1, Type: c.kv, Context: context})
		ok(t, err)
		ok(t, kv.Grow(context))
		stored := make([]float32, len(keys))
		for i := range context {
			ok(t, kv.Store(1, i, keys[i*dim:][:dim], []float32{0}))
			for d := range dim {
				asm.KeyRow(c.kv, stored[i*dim+d:][:1], kv.keys(i/asm.Page, 1, 0), d, dim, i%asm.Page)
			}
		}
		q := normal(2, c.n*heads*dim)
		o := BlockChoice{Layer: 1, Heads: heads, Size: c.size, Top: c.top, Norm: norm, Eps: 1e-3, Rope: rope}
		s := AttentionSegment{KV: kv, Start: c.start, Tokens: c.n, Parents: c.parents}
		one := s
		one.Tokens, one.Parents = min(c.n, 2), nil // a segment before it, of the same rows but the last
		var first []uint64
		for j, simd := range asm.Available() {
			if j != 0 && j != 1+i%max(1, len(asm.Available())-1) && !testkit.IsLong(t) {
				continue
			}
			rt := runtimeWith(t, Options{Threads: 1 + i%3, SIMD: simd})
			var choice, both Choice
			ok(t, rt.ChooseBlocks(&choice, q, o, []AttentionSegment{s}))
			if first == nil {
				first = slices.Clone(choice.bits)
			} else if !slices.Equal(first, choice.bits) {
				t.Errorf("%s, from %d: another choice", simd, c.start)
			}
			ok(t, rt.ChooseBlocks(&both, slices.Concat(q[:one.Tokens*heads*dim], q), o, []AttentionSegment{one,
				{KV: kv, Row: one.Tokens, Start: c.start, Tokens: c.n, Parents: c.parents}}))
			if !slices.Equal(both.bits[one.Tokens*both.words:], first) {
				t.Errorf("%s, from %d: another choice beside another segment", simd, c.start)
			}
			if slices.Equal(c.parents, line) { // the chain of these tokens
				s.Parents = nil
				ok(t, rt.ChooseBlocks(&choice, q, o, []AttentionSegment{s}))
				if !slices.Equal(choice.bits, first) {
					t.Errorf("%s, from %d: a tree of one path is another choice than the chain", simd, c.start)
				}
				s.Parents = line
			}
			for row := range c.n {
				path := pathOf(c.start, row, c.parents)
				want := bestBlocks(path, stored, q[row*heads*dim:][:heads*dim], dim, o)
				for p := range path {
					if got := first[row*choice.words+p/64]>>(p%64)&1 == 1; got != want[p] {
						t.Fatalf("%s, from %d, token %d, blocks of %d: position %d seen: %v", simd, c.start, row, c.size, p, got)
					}
				}
			}
		}
	}
}

// bestBlocks says, in float64, which positions of a path are seen.
func bestBlocks(path []int, keys, q []float32, dim int, o BlockChoice) []bool {
	n := len(path) / o.Size
	scores := make([]float64, n)
	for b := range scores {
		key, squares := make([]float64, dim), 0.0
		for _, slot := range path[b*o.Size : (b+1)*o.Size] {
			for d := range key {
				key[d] += float64(keys[slot*dim+d]) / float64(o.Size)
			}
		}
		for _, v := range key {
			squares += v * v
		}
		for d := range key {
			key[d] *= float64(o.Norm[d]) / math.Sqrt(squares/float64(dim)+float64(o.Eps))
		}
		cos, sin := o.Rope.At(b * o.Size)
		for d, half := 0, len(cos); d < half; d++ {
			x, y := key[d], key[half+d]
			key[d] = x*float64(cos[d]) - y*float64(sin[d])
			key[half+d] = y*float64(cos[d]) + x*float64(sin[d])
		}
		for h := range o.Heads {
			dot := 0.0
			for d, v := range key {
				dot += float64(q[h*dim+d]) * v
			}
			scores[b] += max(0, dot)
		}
	}
	best := count(0, n)
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	seen := make([]bool, len(path))
	for _, b := range best[:min(o.Top, n)] {
		for p := b * o.Size; p < (b+1)*o.Size; p++ {
			seen[p] = true
		}
	}
	for p := n * o.Size; p < len(path); p++ {
		seen[p] = true
	}
	return seen
}

// TestLongChooseBlocks: by every set of kernels.
func TestLongChooseBlocks(t *testing.T) {
	testkit.Long(t)
	TestChooseBlocks(t)
}

// TestChooseBlocksRefused: what cannot be chosen is an error.
func TestChooseBlocksRefused(t *testing.T) {
	const dim = 8
	rt := runtimeOf(t, 1)
	rope, err := NewRopeTable(RopeOptions{Dims: dim, Base: 100})
	ok(t, err)
	wide, err := NewRopeTable(RopeOptions{Dims: 2 * dim, Base: 100})
	ok(t, err)
	kv, err := NewKV(KVShape{Layers: 1, Heads: 1, HeadDim: dim, Type: KVF32, Context: 20})
	ok(t, err)
	ok(t, kv.Grow(20))
	segs := []AttentionSegment{{KV: kv, Start: 3, Tokens: 2}}
	right := BlockChoice{Heads: 1, Size: 4, Top: 1, Norm: make([]float32, dim), Rope: rope}
	var choice Choice
	ok(t, rt.ChooseBlocks(&choice, make([]float32, 2*dim), right, segs))
	for i, change := range []func(o *BlockChoice){
		func(o *BlockChoice) { o.Heads = 0 }, func(o *BlockChoice) { o.Heads = 3 },
		func(o *BlockChoice) { o.Size = 0 }, func(o *BlockChoice) { o.Size = 3 }, func(o *BlockChoice) { o.Size = 512 },
		func(o *BlockChoice) { o.Top = 0 }, func(o *BlockChoice) { o.Norm = o.Norm[1:] },
		func(o *BlockChoice) { o.Rope = nil }, func(o *BlockChoice) { o.Rope = wide },
		func(o *BlockChoice) { o.Layer = 1 },
	} {
		o := right
		if change(&o); rt.ChooseBlocks(&choice, make([]float32, 2*dim), o, segs) == nil {
			t.Error(fmt.Sprint(i), "is taken")
		}
	}
	segs[0].Keys = 5
	if rt.ChooseBlocks(&choice, make([]float32, 2*dim), right, segs) == nil {
		t.Error("a choice among given keys")
	}
}
