package tensor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
)

func TestKVFork(t *testing.T) {
	rt := runtimeOf(t, 2)
	const tokens = 600
	q := queries(20, 1)
	look := func(kv *KV, n int) []float32 {
		return attention(t, rt, q, 0, AttentionSegment{KV: kv, Start: n - 1, Tokens: 1})
	}
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		s := newSequence(t, typ, 10, tokens)
		for _, n := range []int{0, 1, 100, 256, 300, 512, 600} {
			fork, err := s.kv.Fork(n)
			ok(t, err)
			if n > 0 {
				sameBits(t, "fork", look(fork, n), look(s.kv, n))
			}
			if whole := n / 256; whole > 0 && fork.pages[0] != s.kv.pages[0] {
				t.Errorf("fork of %d slots does not share its first page", n)
			}
			// Each side writes over its own slots: the other one sees nothing of it.
			before := look(s.kv, tokens)
			ok(t, fork.Grow(n+1))
			other := &sequence{fork, s.v, s.k}
			for i := range n + 1 {
				ok(t, other.store(i%tokens, i))
			}
			sameBits(t, "parent after its fork's write", look(s.kv, tokens), before)
			mine := look(fork, n+1)
			ok(t, s.store(5, 0))
			sameBits(t, "fork after its parent's write", look(fork, n+1), mine)
			ok(t, s.store(0, 0))
			sameBits(t, "parent", look(s.kv, tokens), before)
			fork.Close()
		}
	}
}

// TestKVCloseTwice: a cache gives up its pages once, whoever else holds them.
func TestKVCloseTwice(t *testing.T) {
	rt := runtimeOf(t, 1)
	s := newSequence(t, KVF16, 10, 300)
	fork, err := s.kv.Fork(300)
	ok(t, err)
	look := func(kv *KV) []float32 {
		return attention(t, rt, queries(20, 1), 0, AttentionSegment{KV: kv, Start: 299, Tokens: 1})
	}
	want, page := look(s.kv), s.kv.pages[0]
	s.kv.Close()
	s.kv.Close()
	if n := page.owners.Load(); n != 1 {
		t.Fatalf("%d owners of a page that the fork alone holds", n)
	}
	sameBits(t, "fork", look(fork), want)
}

// TestKVForkConcurrent: forks belong to different goroutines; run it with -race.
func TestKVForkConcurrent(t *testing.T) {
	s := newSequence(t, KVF16, 1, 512)
	var wait sync.WaitGroup
	for range 4 {
		fork, err := s.kv.Fork(512)
		ok(t, err)
		wait.Go(func() {
			mine := &sequence{fork, s.v, s.k}
			for _, slot := range []int{3, 300, 4} {
				if err := mine.store(slot, slot); err != nil {
					t.Error(err)
				}
			}
			if second, err := fork.Fork(256); err == nil {
				second.Close()
			}
			fork.Close()
		})
	}
	wait.Wait()
	for i, p := range s.kv.pages {
		if n := p.owners.Load(); n != 1 {
			t.Errorf("page %d has %d owners", i, n)
		}
	}
	s.kv.Close()
}

func TestKVErrors(t *testing.T) {
	for _, shape := range []KVShape{
		{Heads: 1, HeadDim: 1, Context: 1}, {Layers: 1, HeadDim: 1, Context: 1}, {Layers: 1, Heads: 1, Context: 1},
		{Layers: 1, Heads: 1, HeadDim: 1}, {Layers: -1, Heads: 1, HeadDim: 1, Context: 1},
		{Layers: 1, Heads: 1, HeadDim: 1, Context: 1, ValueDim: -1},
		{Layers: 1, Heads: 1, HeadDim: 8, ValueDim: 9, Context: 1, ValuesInKeys: true},
		{Layers: 1 << 20, Heads: 1 << 20, HeadDim: 1 << 20, Type: KVF32, Context: 1 << 20},
	} {
		if _, err := NewKV(shape); !errors.Is(err, ErrShape) {
			t.Errorf("%v: %v", shape, err)
		}
	}
	if _, err := NewKV(KVShape{Layers: 1, Heads: 1, HeadDim: 1, Type: 9, Context: 1}); !errors.Is(err, ErrType) {
		t.Errorf("type 9: %v", err)
	}
	kv, err := NewKV(KVShape{Layers: 2, Heads: 2, HeadDim: 8, Context: 300})
	ok(t, err)
	if err := kv.Grow(301); !errors.Is(err, ErrFull) {
		t.Errorf("Grow: %v", err)
	}
	ok(t, kv.Grow(257))
	if kv.Slots() != 300 || kv.Bytes() != 2*256*2*2*8*2*2 {
		t.Errorf("%d slots, %d bytes", kv.Slots(), kv.Bytes())
	}
	x := make([]float32, 16)
	_, forkErr := kv.Fork(301)
	_, forkErr2 := kv.Fork(-1)
	for name, err := range map[string]error{
		"layer": kv.Store(2, 0, x, x), "slot": kv.Store(0, 300, x, x), "slot below": kv.Store(0, -1, x, x),
		"short": kv.Store(0, 0, x[1:], x), "move from": kv.Move(300, 1), "move to": kv.Move(1, 300),
		"move to the end of numbers": kv.Move(1, int(^uint(0)>>1)),
		"fork":                       forkErr, "fork below": forkErr2,
	} {
		if !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	kv.Close()
	if err := kv.Store(0, 0, x, x); !errors.Is(err, ErrClosed) {
		t.Errorf("Store: %v", err)
	}
	if err := kv.Grow(1); !errors.Is(err, ErrClosed) {
		t.Errorf("Grow: %v", err)
	}
	if _, err := kv.Fork(0); !errors.Is(err, ErrClosed) {
		t.Errorf("Fork: %v", err)
	}
}

// TestMemoryIsGivenBack: what is mapped is unmapped when its owner is collected.
func TestMemoryIsGivenBack(t *testing.T) {
	freed := make(chan bool, 1)
	func() {
		m := new(memory)
		ok(t, m.allocate(3<<20))
		for i := range m.data {
			if i%4096 == 0 && m.data[i] != 0 {
				t.Fatal("memory is not zero")
			}
		}
		if m.release == nil {
			t.Skip("memory is the garbage collector's here")
		}
		runtime.AddCleanup(m, func(int) { freed <- true }, 0)
	}()
	for range 10 {
		runtime.GC()
		select {
		case <-freed:
			return
		default:
			runtime.Gosched()
		}
	}
	<-freed
}

// TestStoreKV: storing in parallel is storing one by one, and writes to no page that another cache holds.
func TestStoreKV(t *testing.T) {
	rt := runtimeOf(t, 3)
	q := queries(20, 1)
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		const tokens = 600
		one, parent := newSequence(t, typ, 1, tokens), newSequence(t, typ, 5, tokens)
		look := func(kv *KV, n int) []float32 {
			return attention(t, rt, q, 0, AttentionSegment{KV: kv, Start: n - 1, Tokens: 1})
		}
		before := look(parent.kv, tokens)
		for _, start := range []int{0, 250, 256, 300} { // over pages shared in part and in whole
			fork, err := parent.kv.Fork(512)
			ok(t, err)
			ok(t, fork.Grow(tokens))
			for i := range start {
				ok(t, fork.Store(1, i, one.k[i*testWidth:][:testWidth], one.v[i*testWidth:][:testWidth]))
			}
			ok(t, rt.StoreKV(1, one.k, one.v, []AttentionSegment{{KV: fork, Row: start, Start: start, Tokens: tokens - start}}))
			sameBits(t, "stored in parallel", look(fork, tokens), look(one.kv, tokens))
			sameBits(t, "parent", look(parent.kv, tokens), before)
			fork.Close()
		}
	}
}

// TestKVDiscard: a cache without its first pages gives the attention of one that has them, where the window does not
// reach them, and refuses one that looks at them.
func TestKVDiscard(t *testing.T) {
	rt := runtimeOf(t, 2)
	const tokens, window = 900, 100
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		whole, s := newSequence(t, typ, 10, tokens), newSequence(t, typ, 10, tokens)
		s.kv.Discard(767)
		if s.kv.First() != 512 || s.kv.Slots() != whole.kv.Slots() || s.kv.Bytes() != whole.kv.Bytes()-whole.kv.Bytes()/4 {
			t.Errorf("the first slot is %d, of %d, %d bytes; 512 slots are given up, one page kept for later", s.kv.First(),
				s.kv.Slots(), s.kv.Bytes())
		}
		q := queries(1, 40)
		look := func(kv *KV, start int, parents []int32, keys int) []float32 {
			n := 40
			return attention(t, rt, q, window, AttentionSegment{KV: kv, Start: start, Tokens: n, Parents: parents, Keys: keys})
		}
		parents := make([]int32, 40)
		for i := range parents {
			parents[i] = int32(i-1) / 2
		}
		parents[0] = -1
		for _, start := range []int{512 + window - 1, 700, tokens - 40} {
			sameBits(t, "chain", look(s.kv, start, nil, 0), look(whole.kv, start, nil, 0))
			sameBits(t, "tree", look(s.kv, start, parents, 0), look(whole.kv, start, parents, 0))
			sameBits(t, "block", look(s.kv, start, nil, tokens), look(whole.kv, start, nil, tokens))
		}
		for _, w := range []int{0, window} {
			o := AttentionOptions{Layer: 1, Heads: testHeads * testGroup, Scale: 1, Window: w}
			seg := AttentionSegment{KV: s.kv, Start: 512 + window - 2, Tokens: 40}
			for _, seg.Keys = range []int{0, tokens} {
				if err := rt.Attention(make([]float32, len(q)), q, o, []AttentionSegment{seg}); !errors.Is(err, ErrShape) {
					t.Errorf("window %d, %d keys: what is given up is looked at: %v", w, seg.Keys, err)
				}
			}
		}
		if _, err := s.kv.Fork(511); !errors.Is(err, ErrShape) {
			t.Errorf("fork of what is given up: %v", err)
		}
		if err := s.kv.Move(511, 600); !errors.Is(err, ErrShape) {
			t.Errorf("move of what is given up: %v", err)
		}
		if err := s.store(0, 511); !errors.Is(err, ErrShape) {
			t.Errorf("store to what is given up: %v", err)
		}
		fork, err := s.kv.Fork(tokens)
		ok(t, err)
		page := fork.pages[2]
		s.kv.Discard(1000)
		if page.owners.Load() != 1 {
			t.Errorf("%d owners of a page that the fork alone holds", page.owners.Load())
		}
		sameBits(t, "fork", look(fork, 700, nil, 0), look(whole.kv, 700, nil, 0))
		// Pages that a fork has too are not written again.
		shared := newSequence(t, typ, 10, tokens)
		other, err := shared.kv.Fork(tokens)
		ok(t, err)
		shared.kv.Reset()
		ok(t, shared.kv.Grow(tokens))
		for i := range tokens {
			ok(t, shared.store(tokens-1-i, i))
		}
		sameBits(t, "fork of what is written anew", look(other, 700, nil, 0), look(whole.kv, 700, nil, 0))
		other.Close()
		shared.kv.Close()
		// From the beginning again: the pages come back with other contents.
		s.kv.Reset()
		if s.kv.First() != 0 || s.kv.Slots() != 0 {
			t.Errorf("after Reset: slots %d to %d", s.kv.First(), s.kv.Slots())
		}
		ok(t, s.kv.Grow(tokens))
		for i := range tokens {
			ok(t, s.store(i, i))
		}
		sameBits(t, "again", look(s.kv, 0, nil, 0), look(whole.kv, 0, nil, 0))
		fork.Close()
		s.kv.Close()
		s.kv.Close()
	}
}

// TestKVMeterAgain: what one Meter has counted goes over to the next one's, but for pages that a fork shares.
func TestKVMeterAgain(t *testing.T) {
	var first, second atomic.Int64
	kv, err := NewKV(KVShape{Layers: 2, Heads: 2, HeadDim: 8, Context: 2000})
	ok(t, err)
	page := int64(kv.pageBytes())
	counts := func(what string, want, later int64) {
		t.Helper()
		if first.Load() != want*page || second.Load() != later*page {
			t.Errorf("%s: %d and %d bytes, want %d and %d pages of %d", what, first.Load(), second.Load(), want, later, page)
		}
	}
	kv.Meter(&first)
	ok(t, kv.Grow(700))
	kv.Discard(256) // a page that is kept as the spare one
	counts("3 pages", 3, 0)
	kv.Meter(&second)
	counts("moved", 0, 3)
	fork, err := kv.Fork(512)
	ok(t, err)
	kv.Meter(&first)
	counts("a page is shared", 2, 1)
	kv.Close()
	fork.Close()
	counts("closed", 0, 0)
}

// TestKVMeter: bytes are counted once for each page that is there, and Need says beforehand how many a write will add.
func TestKVMeter(t *testing.T) {
	var used atomic.Int64
	kv, err := NewKV(KVShape{Layers: 2, Heads: 2, HeadDim: 8, Context: 2000})
	ok(t, err)
	kv.Meter(&used)
	page := int64(kv.pageBytes())
	write := func(kv *KV, from, to int) {
		t.Helper()
		before, need := used.Load(), kv.Need(from, to)
		ok(t, kv.Grow(to))
		x := make([]float32, 16)
		for i := from; i < to; i++ {
			ok(t, kv.Store(0, i, x, x))
		}
		if got := used.Load() - before; got != need {
			t.Errorf("slots %d to %d: %d bytes more, Need said %d", from, to, got, need)
		}
	}
	write(kv, 0, 1)
	write(kv, 1, 256)
	write(kv, 256, 700)
	if used.Load() != 3*page {
		t.Errorf("%d bytes for 3 pages of %d", used.Load(), page)
	}
	fork, err := kv.Fork(600)
	ok(t, err)
	if used.Load() != 4*page { // two pages are shared, one is copied
		t.Errorf("%d bytes with a fork", used.Load())
	}
	write(fork, 600, 800)
	write(fork, 100, 101) // copies
	write(kv, 100, 101)   // is the only owner now
	kv.Close()
	kv.Close()
	write(fork, 300, 301)
	fork.Close()
	if used.Load() != 0 {
		t.Errorf("%d bytes are left", used.Load())
	}
}

// TestKVShare: caches that hold the same numbers have the whole pages of the slots that are named in common, from the
// first one on that both have; each counts once, and what one cache writes later the other does not see. Pages of
// fewer layers stay apart.
func TestKVShare(t *testing.T) {
	rt := runtimeOf(t, 2)
	const tokens = 600
	var used, kept atomic.Int64
	filled := func() *sequence {
		s := newSequence(t, KVF16, 10, tokens)
		kv, err := NewKV(s.kv.Shape())
		ok(t, err)
		s.kv.Close()
		s.kv = kv
		kv.Meter(&used)
		ok(t, kv.Grow(tokens))
		for i := range tokens {
			ok(t, s.store(i, i))
		}
		return s
	}
	for _, c := range []struct{ n, discarded, from, to int }{ // pages from … to-1 become the other's
		{n: 0}, {n: 255}, {n: 256, to: 1}, {n: 511, to: 1}, {n: 512, to: 2}, {n: tokens, to: 2},
		{n: tokens, discarded: 300, from: 1, to: 2},
	} {
		window := 0
		if c.discarded > 0 {
			window = 300 // does not reach what is given up
		}
		look := func(s *sequence) []float32 {
			return attention(t, rt, queries(20, 1), window, AttentionSegment{KV: s.kv, Start: tokens - 1, Tokens: 1})
		}
		one, two := filled(), filled()
		two.kv.Discard(c.discarded)
		want := look(one)
		one.kv.Keep(&kept)
		two.kv.Keep(&kept)
		beforeUsed, beforeKept := used.Load(), kept.Load()
		one.kv.Share(two.kv, c.n)
		for i := range one.kv.pages {
			if same := one.kv.pages[i] == two.kv.pages[i]; same != (c.from <= i && i < c.to) {
				t.Errorf("%+v: page %d is the other's: %v", c, i, same)
			}
		}
		bytes := int64(c.to-c.from) * int64(one.kv.pageBytes())
		if used.Load() != beforeUsed-bytes || kept.Load() != beforeKept-bytes {
			t.Errorf("%+v: %d bytes used and %d kept of %d and %d, %d are shared", c, used.Load(), kept.Load(), beforeUsed,
				beforeKept, bytes)
		}
		sameBits(t, "shared", look(one), want)
		one.kv.Keep(nil)
		two.kv.Keep(nil)
		ok(t, one.store(5, 0))
		ok(t, one.store(5, 400))
		sameBits(t, "the other, after a write", look(two), want)
		one.kv.Close()
		sameBits(t, "the other, alone", look(two), want)
		two.kv.Close()
		if used.Load() != 0 || kept.Load() != 0 {
			t.Errorf("%+v: %d bytes are left, %d kept", c, used.Load(), kept.Load())
		}
	}
	s := filled()
	small, err := s.kv.ForkLayers(tokens, 1)
	ok(t, err)
	page := s.kv.pages[2] // the fork has one of its own, for one layer
	if s.kv.Share(small, 3*KVPage); s.kv.pages[2] != page {
		t.Error("a page of one layer is shared with a cache of two")
	}
}

// TestKVForkAgain: a fork in the place of an earlier one holds what one by itself does, wherever the cache was cut and
// written, and the earlier one was written, since; its memory is that of one fork.
func TestKVForkAgain(t *testing.T) {
	rt := runtimeOf(t, 1)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		var used atomic.Int64
		s := newSequence(t, typ, 10, 900)
		s.kv.Close()
		kv, err := NewKV(KVShape{Layers: 2, Heads: testHeads, HeadDim: testDim, Type: typ, Context: 2000})
		ok(t, err)
		kv.Meter(&used)
		s.kv = kv
		var fork *KV
		n, same, reused := 0, 0, 0
		for range 60 {
			cut := max(0, n-rng.IntN(40))
			if n, same = min(900, cut+rng.IntN(60)), min(same, cut); n == 0 {
				continue
			}
			ok(t, kv.Grow(n))
			for i := cut; i < n; i++ { // anything, of what there is
				ok(t, s.store(rng.IntN(900), i))
			}
			before, page := used.Load(), (*kvPage)(nil)
			if fork == nil {
				fork, err = kv.Fork(n)
			} else {
				page = fork.last()
				fork, err = kv.ForkAgain(n, fork, same)
			}
			ok(t, err)
			if page != nil && fork.last() == page {
				reused++
			}
			if most := int64(kv.pageBytes()); used.Load() > before+most {
				t.Errorf("%v: %d bytes more", typ, used.Load()-before)
			}
			q, at := queries(20, 1), AttentionSegment{Start: n - 1, Tokens: 1}
			look := func(kv *KV) []float32 { at.KV = kv; return attention(t, rt, q, 0, at) }
			sameBits(t, fmt.Sprintf("%v, %d slots, %d the same", typ, n, same), look(fork), look(kv))
			same = max(0, n-rng.IntN(9)) // the fork is cut and written, too
			ok(t, fork.Grow(n+20))
			for i := same; i < n+20; i++ {
				ok(t, (&sequence{fork, s.k, s.v}).store(rng.IntN(900), i))
			}
		}
		if fork.Close(); reused < 20 {
			t.Errorf("%v: memory is used again %d times of 60", typ, reused)
		}
		kv.Close()
		if used.Load() != 0 {
			t.Errorf("%v: %d bytes are left", typ, used.Load())
		}
	}
}

// TestKVDirtyPages: what the memory of a page held before a slot is written changes no attention to other slots, for a
// closed cache's pages go to the next ones as they are.
func TestKVDirtyPages(t *testing.T) {
	rt := runtimeOf(t, 2)
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		for _, tokens := range []int{1, 3, 17, 255, 257, 300} {
			clean := newSequence(t, typ, 10, tokens)
			kv, err := NewKV(clean.kv.Shape())
			ok(t, err)
			ok(t, kv.Grow(tokens))
			for _, p := range kv.pages {
				for i := range p.memory.data {
					p.memory.data[i] = 0xff // NaN as a float of any size
				}
			}
			dirty := &sequence{kv, clean.k, clean.v}
			for i := range tokens {
				ok(t, dirty.store(i, i))
			}
			for i, o := range testOptions {
				for _, n := range []int{1, min(tokens, 9)} {
					s, q := AttentionSegment{KV: clean.kv, Start: tokens - n, Tokens: n}, queries(20, n)
					want := attentionWith(t, rt, q, o, s)
					s.KV = kv
					sameBits(t, fmt.Sprintf("%v, %d tokens, options %d", typ, tokens, i), attentionWith(t, rt, q, o, s), want)
				}
			}
			kv.Close()
			clean.kv.Close()
		}
	}
}

// TestKVPagesAllocOnce: a closed cache's pages in Go's heap are the next one's.
func TestKVPagesAllocOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pool
	shape := KVShape{Layers: 2, Heads: 2, HeadDim: 8, Context: 2000}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const caches = 20
	page := 0
	for range caches {
		kv, err := NewKV(shape)
		ok(t, err)
		ok(t, kv.Grow(1))
		page = kv.pageBytes()
		kv.Close()
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(caches/2*page) {
		t.Errorf("%d caches of a page of %d bytes allocated %d", caches, page, got)
	}
}
