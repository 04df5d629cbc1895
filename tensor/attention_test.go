package tensor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/internal/testkit"
)

// A sequence under test: its keys and values by token, as they were before storage.
type sequence struct {
	kv   *KV
	k, v []float32 // [token][heads*dim]
}

const (
	testHeads = 2
	testGroup = 3
	testDim   = 40 // not a multiple of 32 or 16
	testWidth = testHeads * testDim
)

func newSequence(t testing.TB, typ KVType, seed uint64, tokens int) *sequence {
	t.Helper()
	kv, err := NewKV(KVShape{Layers: 2, Heads: testHeads, HeadDim: testDim, Type: typ, Context: 2000})
	ok(t, err)
	s := &sequence{kv, normal(seed, tokens*testWidth), normal(seed+1, tokens*testWidth)}
	ok(t, kv.Grow(tokens))
	for i := range tokens {
		ok(t, s.store(i, i))
	}
	return s
}

// store puts token i into a slot.
func (s *sequence) store(i, slot int) error {
	return s.kv.Store(1, slot, s.k[i*testWidth:][:testWidth], s.v[i*testWidth:][:testWidth])
}

// queries of n tokens.
func queries(seed uint64, n int) []float32 { return normal(seed, n*testWidth*testGroup) }

const testScale = 0.158

// attention of one segment with its own buffers.
func attention(t testing.TB, rt *Runtime, q []float32, window int, s AttentionSegment) []float32 {
	t.Helper()
	return attentionWith(t, rt, q, AttentionOptions{Window: window}, s)
}

// attentionWith is attention of the test's layer with options.
func attentionWith(t testing.TB, rt *Runtime, q []float32, o AttentionOptions, s AttentionSegment) []float32 {
	t.Helper()
	out := make([]float32, len(q))
	o.Layer, o.Heads, o.Scale = 1, testHeads*testGroup, testScale
	ok(t, rt.Attention(out, q, o, []AttentionSegment{s}))
	return out
}

// testReach is the greatest distance with a bias of its own.
const testReach = 70

// testOptions are all that changes scores, apart and together.
var testOptions = []AttentionOptions{
	{}, {Window: 90}, {Window: 300}, {Window: -64}, {Window: -300}, {Cap: 1.5},
	{Slopes: ALiBiSlopes(testHeads*testGroup, 8)}, {Sinks: []float32{1, -1, 3, 0.5, -30, 5}},
	{Bias: normal(60, testHeads*testGroup*(2*testReach+1))},
	{Window: 270, Cap: 2, Bias: normal(61, testHeads*testGroup*(2*testReach+1)),
		Slopes: ALiBiSlopes(testHeads*testGroup, 0.1), Sinks: []float32{1, 9, 3, 2, -3, 0}},
}

// naive is attention in float64, of one query row over tokens path[...] of the sequence.
func (s *sequence) naive(q []float32, path []int) []float64 {
	out := make([]float64, len(q))
	for h := range testHeads * testGroup {
		at := h / testGroup * testDim
		scores, most := make([]float64, len(path)), math.Inf(-1)
		for i, tok := range path {
			for d := range testDim {
				scores[i] += float64(q[h*testDim+d]) * float64(s.k[tok*testWidth+at+d])
			}
			scores[i] *= testScale
			most = max(most, scores[i])
		}
		sum := 0.0
		for i := range scores {
			scores[i] = math.Exp(scores[i] - most)
			sum += scores[i]
		}
		for i, tok := range path {
			for d := range testDim {
				out[h*testDim+d] += scores[i] / sum * float64(s.v[tok*testWidth+at+d])
			}
		}
	}
	return out
}

func count(from, to int) []int {
	var list []int
	for ; from < to; from++ {
		list = append(list, from)
	}
	return list
}

func TestAttention(t *testing.T) {
	rt := runtimeOf(t, 2)
	for typ, tolerance := range map[KVType]float64{KVF32: 2e-6, KVF16: 2e-3, KVQ8_0: 4e-2, KVQ4_0: 0.5} {
		s := newSequence(t, typ, 10, 700)
		for _, window := range []int{0, 1, 100, 300} {
			for _, c := range [][2]int{{0, 1}, {0, 20}, {5, 3}, {250, 8}, {255, 2}, {256, 1}, {500, 20}, {699, 1}} {
				start, n := c[0], c[1]
				q := queries(20, n)
				out := attention(t, rt, q, window, AttentionSegment{KV: s.kv, Start: start, Tokens: n})
				size := len(q) / n
				for i := range n {
					from := 0
					if window > 0 {
						from = max(0, start+i+1-window)
					}
					want := s.naive(q[i*size:][:size], count(from, start+i+1))
					near(t, fmt.Sprintf("%v window %d tokens %d+%d", typ, window, start, i), out[i*size:][:size], want, tolerance)
				}
			}
		}
	}
}

// ruled is attention of one query row over the first n tokens of a sequence, of which it is the last.
func (s *sequence) ruled(q []float32, n int, opt AttentionOptions) []float32 {
	return s.ruledAt(q, n-1, n, opt)
}

// ruledAt is attention of one query row at position pos over the first n tokens of a sequence with a float32 cache,
// operation by operation as the numeric specification says (DESIGN.md 3, rule 6).
func (s *sequence) ruledAt(q []float32, pos, n int, opt AttentionOptions) []float32 {
	out := make([]float32, len(q))
	for h := range testHeads * testGroup {
		at, o := h/testGroup*testDim, out[h*testDim:][:testDim]
		m, l := float32(0), float32(-1)
		for chunk := 0; chunk < n; chunk += asm.Page {
			from := chunk
			if opt.Window > 0 {
				from = max(from, pos+1-opt.Window)
			} else if opt.Window < 0 {
				from = max(from, pos/-opt.Window*-opt.Window)
			}
			var p []float32
			for j := from; j < min(chunk+asm.Page, n); j++ {
				dot := float32(0)
				for d := range testDim {
					dot = asm.FMA(q[h*testDim+d], s.k[j*testWidth+at+d], dot)
				}
				score := dot * testScale
				if opt.Cap > 0 {
					score = opt.Cap * asm.Tanh32(score/opt.Cap)
				}
				if opt.Slopes != nil {
					score -= float32(opt.Slopes[h] * float32(pos-j))
				}
				if opt.Bias != nil {
					far := j - pos
					if far > testReach {
						far = testReach
					} else if far < -testReach {
						far = -testReach
					}
					score += opt.Bias[h*(2*testReach+1)+testReach+far]
				}
				p = append(p, score)
			}
			if len(p) == 0 {
				continue
			}
			most := slices.Max(p)
			var lanes [16]float32
			for i, score := range p {
				p[i] = asm.Exp32(score - most)
				lanes[i%16] += p[i]
			}
			for _, half := range []int{8, 4, 2, 1} {
				for i := range half {
					lanes[i] += lanes[i+half]
				}
			}
			part := make([]float32, testDim)
			for i, p := range p {
				for d := range testDim {
					part[d] = asm.FMA(p, s.v[(from+i)*testWidth+at+d], part[d])
				}
			}
			if l < 0 {
				m, l = most, lanes[0]
				copy(o, part)
				continue
			}
			both := max(m, most)
			a, b := asm.Exp32(m-both), asm.Exp32(most-both)
			m, l = both, asm.FMA(l, a, float32(lanes[0]*b))
			for d := range o {
				o[d] = asm.FMA(o[d], a, float32(part[d]*b))
			}
		}
		if opt.Sinks != nil {
			both := max(m, opt.Sinks[h])
			a, b := asm.Exp32(m-both), asm.Exp32(opt.Sinks[h]-both)
			l = asm.FMA(l, a, b)
			for d := range o {
				o[d] *= a
			}
		}
		for d := range o {
			o[d] /= l
		}
	}
	return out
}

// TestAttentionRule: every bit is what the specification's operations give, over one, two and three chunks.
func TestAttentionRule(t *testing.T) {
	rt := runtimeOf(t, 2)
	s := newSequence(t, KVF32, 10, 700)
	cuts := [][2]int{{0, 9}, {250, 10}, {530, 3}, {560, 12}, {699, 1}}
	for _, o := range testOptions {
		for _, c := range cuts {
			start, n := c[0], c[1]
			q := queries(20, n)
			out, size := attentionWith(t, rt, q, o, AttentionSegment{KV: s.kv, Start: start, Tokens: n}), len(q)/n
			for i := range n {
				sameBits(t, fmt.Sprintf("%+v, tokens %d+%d", o, start, i), out[i*size:][:size],
					s.ruled(q[i*size:][:size], start+i+1, o))
			}
		}
	}
}

// TestAttentionKeys: tokens that all see the same keys, before and behind them, with biases by distance, and with
// windows shorter and longer than the tokens and what is before them: every bit is what the specification's operations
// give, with every kernel set, few and many tokens, one, two and three chunks, beside a segment that sees only what is
// before it.
func TestAttentionKeys(t *testing.T) {
	s := newSequence(t, KVF32, 10, 700)
	bias := normal(62, testHeads*testGroup*(2*testReach+1))
	sets := map[string]*Runtime{}
	for _, name := range asm.Available() {
		sets[name] = runtimeWith(t, Options{Threads: 2, SIMD: name})
	}
	for i, o := range []AttentionOptions{{}, {Bias: bias}, {Window: 1}, {Window: 4, Bias: bias}, {Window: 5}, {Window: 90},
		{Window: 257}, {Window: 300, Bias: bias}, {Window: 2000}} {
		o.Layer, o.Heads, o.Scale = 1, testHeads*testGroup, testScale
		for k, c := range [][3]int{{0, 30, 30}, {0, 3, 1}, {10, 5, 12}, {250, 20, 700}, {690, 4, 300},
			{5000, 9, 257}, {3, 2, 512}, {255, 7, 262}, {254, 7, 520}, {600, 16, 616}, {693, 7, 700}} {
			start, n, keys := c[0], c[1], c[2]
			if o.Window > 0 && keys < start+n || n*keys > 4000 && (i+k)%2 > 0 && !testkit.IsLong(t) {
				continue
			}
			q := queries(20, n+2)
			size := len(q) / (n + 2)
			var want []float32
			for i := range n {
				want = append(want, s.ruledAt(q[i*size:][:size], start+i, keys, o)...)
			}
			beside := s.ruled(q[(n+1)*size:], 302, o)
			for name, rt := range sets {
				out := make([]float32, len(q))
				ok(t, rt.Attention(out, q, o, []AttentionSegment{
					{KV: s.kv, Start: start, Tokens: n, Keys: keys}, {KV: s.kv, Row: n, Start: 300, Tokens: 2}}))
				what := fmt.Sprintf("%s, bias %v, window %d, %d tokens at %d, %d keys", name, o.Bias != nil, o.Window, n, start,
					keys)
				sameBits(t, what, out[:n*size], want)
				sameBits(t, what+", beside it", out[(n+1)*size:], beside)
			}
		}
	}
}

// TestLongAttentionKeys: many tokens over many keys with all biases and windows.
func TestLongAttentionKeys(t *testing.T) {
	testkit.Long(t)
	TestAttentionKeys(t)
}

// TestAttentionOneAnswer: the same bits however the tokens of a text are cut, batched and threaded.
func TestAttentionOneAnswer(t *testing.T) {
	const tokens = 600
	rows := 30
	if testing.Short() {
		rows = 12
	}
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		s, other := newSequence(t, typ, 10, tokens), newSequence(t, typ, 30, 300)
		q := queries(20, tokens)
		size := len(q) / tokens
		for _, window := range []int{0, 270} {
			last := AttentionSegment{KV: s.kv, Start: tokens - rows, Tokens: rows}
			want := attention(t, runtimeWith(t, Options{Threads: 1, SIMD: "scalar"}), q[last.Start*size:], window, last)
			for _, name := range asm.Available()[1:] {
				got := attention(t, runtimeWith(t, Options{SIMD: name}), q[last.Start*size:], window, last)
				sameBits(t, fmt.Sprint(typ, " window ", window, " ", name), got, want)
			}
			for _, threads := range []int{1, 2, 5} {
				rt := runtimeOf(t, threads)
				for _, chunk := range map[int][]int{1: {7}, 2: {1, 3, 7, 64}, 5: {3, 64}}[threads] {
					var got []float32
					for from := last.Start; from < tokens; from += chunk {
						n := min(chunk, tokens-from)
						got = append(got, attention(t, rt, q[from*size:][:n*size], window,
							AttentionSegment{KV: s.kv, Start: from, Tokens: n})...)
					}
					sameBits(t, fmt.Sprint(typ, " window ", window, " chunks of ", chunk), got, want)
				}
				// Between segments of another sequence, rows not in order.
				batch := slices.Concat(q[:5*size], q[last.Start*size:], queries(7, 9))
				out := make([]float32, len(batch))
				ok(t, rt.Attention(out, batch, AttentionOptions{
					Layer: 1, Heads: testHeads * testGroup, Scale: testScale, Window: window}, []AttentionSegment{
					{KV: other.kv, Row: 5 + rows, Start: 100, Tokens: 9},
					{KV: s.kv, Row: 5, Start: last.Start, Tokens: rows},
					{KV: other.kv, Row: 0, Start: 290, Tokens: 5},
				}))
				sameBits(t, fmt.Sprint(typ, " in a batch"), out[5*size:][:rows*size], want)
			}
		}
	}
}

// TestAttentionTree: every node gives what a chain of its path gives, bit for bit, also where a tree crosses pages,
// and the path taken gives it again after its slots have been moved together.
func TestAttentionTree(t *testing.T) {
	rt := runtimeOf(t, 3)
	//              0   1  2  3   4  5  6  7   8  9 10
	parents := []int32{-1, 0, 0, 1, -1, 3, 2, 5, 7, 4, 8}
	starts := []int{0, 1, 17, 248, 250, 252, 255, 256, 500, 510}
	if testing.Short() {
		starts = []int{0, 250, 510}
	}
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		for i, start := range starts {
			if typ != KVF16 && i%3 > 0 && !testkit.IsLong(t) {
				continue
			}
			for _, o := range append([]AttentionOptions{{Window: 4}, {Window: 254}}, testOptions...) {
				if one := (o.Window > 5) != (o.Cap > 0); !testkit.IsLong(t) && (one || o.Sinks == nil) &&
					o.Window != 4 && o.Window != 254 {
					continue // all together are there
				}
				what := fmt.Sprintf("%v start %d %+v", typ, start, o)
				all := newSequence(t, typ, 40, start+len(parents))
				q := queries(41, len(parents))
				size := len(q) / len(parents)
				tree := AttentionSegment{KV: all.kv, Start: start, Tokens: len(parents), Parents: parents}
				got := attentionWith(t, rt, q, o, tree)
				for node := range parents {
					var path []int
					for i := node; i >= 0; i = int(parents[i]) {
						path = append([]int{i}, path...)
					}
					fork, err := all.kv.Fork(start)
					ok(t, err)
					chain := &sequence{fork, all.k, all.v}
					ok(t, fork.Grow(start+len(path)))
					var pathQ []float32
					for i, p := range path {
						ok(t, chain.store(start+p, start+i))
						pathQ = append(pathQ, q[p*size:][:size]...)
					}
					want := attentionWith(t, rt, pathQ, o, AttentionSegment{KV: fork, Start: start, Tokens: len(path)})
					sameBits(t, fmt.Sprint(what, " node ", node), got[node*size:][:size], want[len(want)-size:])
					if node != len(parents)-1 {
						continue
					}
					for i, p := range path {
						ok(t, all.kv.Move(start+p, start+i))
					}
					moved := attentionWith(t, rt, pathQ, o, AttentionSegment{KV: all.kv, Start: start, Tokens: len(path)})
					sameBits(t, what+" moved", moved, want)
				}
			}
		}
	}
}

// TestLongAttentionTree: every option by itself too, and every type of cache at every place.
func TestLongAttentionTree(t *testing.T) {
	testkit.Long(t)
	TestAttentionTree(t)
}

func TestAttentionErrors(t *testing.T) {
	rt := runtimeOf(t, 1)
	s := newSequence(t, KVF16, 1, 20)
	closed := newSequence(t, KVF16, 1, 20)
	closed.kv.Close()
	closed.kv.Close()
	q := queries(2, 4)
	out := make([]float32, len(q))
	good := AttentionSegment{KV: s.kv, Start: 3, Tokens: 4}
	call := func(layer, heads, window int, change func(*AttentionSegment)) error {
		seg := good
		change(&seg)
		return rt.Attention(out, q, AttentionOptions{Layer: layer, Heads: heads, Scale: 1, Window: window},
			[]AttentionSegment{good, seg}[1:])
	}
	same := func(*AttentionSegment) {}
	ok(t, call(1, 6, 0, same))
	ok(t, call(1, 6, 3, func(s *AttentionSegment) { s.Keys = 7 }))
	for name, err := range map[string]error{
		"layer":           call(2, 6, 0, same),
		"layer below":     call(-1, 6, 0, same),
		"heads":           call(1, 5, 0, same),
		"no heads":        call(1, 0, 0, same),
		"no cache":        call(1, 6, 0, func(s *AttentionSegment) { s.KV = nil }),
		"row":             call(1, 6, 0, func(s *AttentionSegment) { s.Row = 1 }),
		"row below":       call(1, 6, 0, func(s *AttentionSegment) { s.Row = -1 }),
		"tokens":          call(1, 6, 0, func(s *AttentionSegment) { s.Tokens = 0 }),
		"start":           call(1, 6, 0, func(s *AttentionSegment) { s.Start = 1 << 20 }),
		"start below":     call(1, 6, 0, func(s *AttentionSegment) { s.Start = -1 }),
		"parents":         call(1, 6, 0, func(s *AttentionSegment) { s.Parents = []int32{-1} }),
		"parent later":    call(1, 6, 0, func(s *AttentionSegment) { s.Parents = []int32{-1, 1, 0, 0} }),
		"parent below":    call(1, 6, 0, func(s *AttentionSegment) { s.Parents = []int32{-2, 0, 0, 0} }),
		"keys":            call(1, 6, 0, func(s *AttentionSegment) { s.Keys = 257 }),
		"keys below":      call(1, 6, 0, func(s *AttentionSegment) { s.Keys = -1 }),
		"keys and tree":   call(1, 6, 0, func(s *AttentionSegment) { s.Keys, s.Parents = 4, []int32{-1, 0, 0, 0} }),
		"keys and window": call(1, 6, 3, func(s *AttentionSegment) { s.Keys = 6 }),
		"window far off":  call(1, 6, 3, func(s *AttentionSegment) { s.Keys, s.Start = 7, math.MaxInt }),
		"keys and chunks": call(1, 6, -3, func(s *AttentionSegment) { s.Keys = 7 }),
		"biases": rt.Attention(out, q, AttentionOptions{Layer: 1, Heads: 6, Scale: 1, Bias: make([]float32, 12)},
			[]AttentionSegment{good}),
		"output":          rt.Attention(out[1:], q, AttentionOptions{Layer: 1, Heads: 6, Scale: 1}, []AttentionSegment{good}),
		"keys and values": rt.StoreKV(1, q[:testWidth], q[:2*testWidth], []AttentionSegment{good}),
	} {
		if !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := call(1, 6, 0, func(s *AttentionSegment) { s.KV = closed.kv }); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	ok(t, rt.Attention(nil, nil, AttentionOptions{Heads: 6, Scale: 1}, nil))
}

func TestAttentionAllocatesNothing(t *testing.T) {
	rt := runtimeOf(t, 2)
	s := newSequence(t, KVF16, 1, 600)
	q := queries(2, 30)
	out := make([]float32, len(q))
	segs := []AttentionSegment{
		{KV: s.kv, Start: 590, Tokens: 5, Parents: []int32{-1, 0, 0, 1, 2}},
		{KV: s.kv, Row: 5, Start: 300, Tokens: 20},
		{KV: s.kv, Row: 25, Start: 580, Tokens: 5},
	}
	step := func() {
		if err := rt.Attention(out, q, AttentionOptions{
			Layer: 1, Heads: testHeads * testGroup, Scale: testScale, Window: 0}, segs); err != nil {
			t.Error(err)
		}
		if err := rt.StoreKV(1, s.k[:30*testWidth], s.v[:30*testWidth], segs[1:2]); err != nil {
			t.Error(err)
		}
	}
	for range 20 {
		step() // every thread's scratch grows
	}
	if n := testkit.Allocs(20, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAttention(b *testing.B) {
	const heads, group, dim = 4, 4, 64
	rt := runtimeOf(b, 0)
	for _, c := range []struct{ start, tokens int }{{1000, 1}, {1000, 8}, {0, 256}} {
		b.Run(fmt.Sprintf("4x64/%d+%d", c.start, c.tokens), func(b *testing.B) {
			n := c.start + c.tokens
			kv, err := NewKV(KVShape{Layers: 1, Heads: heads, HeadDim: dim, Context: n})
			ok(b, err)
			ok(b, kv.Grow(n))
			k, q := normal(1, n*heads*dim), normal(2, c.tokens*heads*group*dim)
			ok(b, rt.StoreKV(0, k, k, []AttentionSegment{{KV: kv, Tokens: n}}))
			out := make([]float32, len(q))
			segs := []AttentionSegment{{KV: kv, Start: c.start, Tokens: c.tokens}}
			b.SetBytes(int64(n) * heads * dim * 4)
			for b.Loop() {
				ok(b, rt.Attention(out, q, AttentionOptions{Heads: heads * group, Scale: 0.125}, segs))
			}
		})
	}
}

// TestValuesOfAnotherSize: values with fewer numbers than keys, or with more, give what values and keys of one size
// give that are filled up with zeros, bit for bit: of chains, of trees, in a fork, and after a move.
func TestValuesOfAnotherSize(t *testing.T) {
	rt := runtimeOf(t, 2)
	const tokens, large, small = 300, 24, 16
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		for _, sizes := range [][2]int{{large, small}, {small, large}} {
			run := func(keys, values int) []float32 {
				fill := func(seed uint64, heads, have, want int) (x []float32) { // rows of want numbers, of which have are not zero
					for i, v := range normal(seed, tokens*heads*have) {
						if x = append(x, v); i%have == have-1 {
							x = append(x, make([]float32, want-have)...)
						}
					}
					return x
				}
				kv, err := NewKV(KVShape{Layers: 1, Heads: 2, HeadDim: keys, ValueDim: values, Type: typ, Context: 600})
				ok(t, err)
				ok(t, kv.Grow(tokens+2))
				k, v := fill(1, 2, sizes[0], keys), fill(2, 2, sizes[1], values)
				ok(t, rt.StoreKV(0, k, v, []AttentionSegment{{KV: kv, Tokens: tokens}}))
				ok(t, kv.Move(7, tokens))
				ok(t, kv.Store(0, tokens+1, k[9*2*keys:][:2*keys], v[9*2*values:][:2*values]))
				if bytes := (KVShape{Layers: 1, Heads: 2, HeadDim: keys,
					ValueDim: values, Type: KVF16}).SlotBytes(); bytes != int64(2*2*(keys+values)) {
					t.Errorf("%d bytes for %d and %d numbers", bytes, keys, values)
				}
				fork, err := kv.Fork(tokens + 2)
				ok(t, err)
				q := fill(3, 4, sizes[0], keys)[:11*4*keys]
				out := make([]float32, 11*4*values)
				ok(t, rt.Attention(out, q, AttentionOptions{
					Heads: 4, Scale: testScale, Sinks: []float32{1, 2, 3, 4}}, []AttentionSegment{
					{KV: kv, Start: tokens - 3, Tokens: 5},
					{KV: fork, Row: 5, Start: tokens - 2, Tokens: 4, Parents: []int32{-1, 0, 0, 2}},
					{KV: kv, Row: 9, Start: 20, Tokens: 2}}))
				var numbers []float32
				for i := 0; i < len(out); i += values {
					numbers = append(numbers, out[i:i+sizes[1]]...)
				}
				kv.Close()
				fork.Close()
				return numbers
			}
			sameBits(t, fmt.Sprintf("%v, keys of %d, values of %d", typ, sizes[0], sizes[1]),
				run(sizes[0], sizes[1]), run(large, large))
		}
	}
}

// TestValuesInKeys: a cache whose values are the first numbers of its keys takes the memory of the keys, and gives bit
// for bit what one gives that has these values beside its keys: of chains of a few tokens and of many, of trees, in
// forks that share pages, after moves, packed, and exported and imported.
func TestValuesInKeys(t *testing.T) {
	rt := runtimeOf(t, 2)
	const tokens, packed, keys, values, heads, rows = 390, 380, 80, 64, 2, 22
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		shape := KVShape{Layers: 2, Heads: heads, HeadDim: keys, ValueDim: values, Type: typ, Context: 600}
		if typ != KVF32 { // a group of 32 that a value has in part has the key's scale
			ragged := KVShape{Layers: 1, Heads: 1, HeadDim: 40, ValueDim: 33, Type: typ, Context: 9, ValuesInKeys: true}
			kv, err := NewKV(ragged)
			ok(t, err)
			ok(t, kv.Grow(1))
			k := make([]float32, 40)
			k[39] = 100
			k[32] = 1
			ok(t, kv.Store(0, 0, k, nil))
			out := make([]float32, 33)
			ok(t, rt.Attention(out, k, AttentionOptions{Heads: 1, Scale: 1}, []AttentionSegment{{KV: kv, Tokens: 1}}))
			want := map[KVType]float32{KVF16: 1, KVQ8_0: 100. / 127, KVQ4_0: 0}[typ]
			if math.Abs(float64(out[32]-want)) > 1e-3 {
				t.Errorf("%v: %v beside 100, want %v", typ, out[32], want)
			}
		}
		run := func(inKeys bool) []float32 {
			shape.ValuesInKeys = inKeys
			make1 := func() *KV {
				kv, err := NewKV(shape)
				ok(t, err)
				return kv
			}
			kv := make1()
			ok(t, kv.Grow(tokens+2))
			k := normal(1, (tokens+1)*heads*keys)
			v := make([]float32, (tokens+1)*heads*values)
			for i := range len(v) / values {
				copy(v[i*values:][:values], k[i*keys:])
			}
			if inKeys {
				v = nil
			}
			part := func(from, to int) ([]float32, []float32) {
				if inKeys {
					return k[from*heads*keys : to*heads*keys], nil
				}
				return k[from*heads*keys : to*heads*keys], v[from*heads*values : to*heads*values]
			}
			some, theirs := part(0, tokens)
			ok(t, rt.StoreKV(1, some, theirs, []AttentionSegment{{KV: kv, Tokens: tokens}}))
			ok(t, kv.Move(7, tokens))
			some, theirs = part(tokens, tokens+1)
			ok(t, kv.Store(1, tokens+1, some, theirs))
			fork, err := kv.Fork(tokens + 2)
			ok(t, err)
			data, err := kv.Export(nil, 0, tokens+2)
			ok(t, err)
			copied := make1()
			ok(t, copied.Grow(tokens+2))
			ok(t, copied.Import(data, 0, tokens+2))
			copied.Shrink(packed)
			back, err := copied.Fork(packed)
			ok(t, err)
			q := normal(3, rows*2*heads*keys)
			out := make([]float32, rows*2*heads*values)
			ok(t, rt.Attention(out, q, AttentionOptions{Layer: 1, Heads: 2 * heads, Scale: testScale}, []AttentionSegment{
				{KV: kv, Start: tokens - 3, Tokens: 5},
				{KV: fork, Row: 5, Start: tokens - 2, Tokens: 4, Parents: []int32{-1, 0, 0, 2}},
				{KV: kv, Row: 9, Start: 20, Tokens: 2},
				{KV: back, Row: 11, Start: packed - 2, Tokens: 2},
				{KV: fork, Row: 13, Start: 254, Tokens: 9}}))
			for _, kv := range []*KV{kv, fork, copied, back} {
				kv.Close()
			}
			if bytes, want := shape.SlotBytes(), int64(len(data)/(tokens+2)); bytes != want {
				t.Errorf("%v: %d bytes of a slot, %d exported", typ, bytes, want)
			}
			return out
		}
		want := run(false)
		beside := shape.SlotBytes()
		sameBits(t, typ.String(), run(true), want)
		alone := KVShape{Layers: 2, Heads: heads, HeadDim: values, Type: typ}.SlotBytes() / 2 // of values of that size
		if got := shape.SlotBytes(); got != beside-alone {
			t.Errorf("%v: %d bytes of a slot with values in keys, %d beside them", typ, got, beside)
		}
	}
}

// TestSharedPages: sequences that begin with the same pages, beside one that does not, give in one operation the bits
// that each gives alone: chains and trees, of several lengths, behind several prompts, with windows and biases, more
// tokens than one leader takes. Each shared page is one unit of work for all.
func TestSharedPages(t *testing.T) {
	const prompt, most = 1100, 1400
	text := newSequence(t, KVF16, 50, most)
	other := newSequence(t, KVF16, 52, most)
	branch := func(shared, tokens int) *KV { // the first slots of text, then those of other
		kv, err := text.kv.Fork(shared)
		ok(t, err)
		ok(t, kv.Grow(tokens))
		for i := shared; i < tokens; i++ {
			ok(t, (&sequence{kv, other.k, other.v}).store(i, i))
		}
		return kv
	}
	tree := []int32{-1, 0, 0, 1, -1}
	segs := []AttentionSegment{
		{KV: text.kv, Start: 1350, Tokens: 1},
		{KV: text.kv, Start: prompt, Tokens: 2},
		{KV: branch(prompt, most), Start: prompt + 30, Tokens: 1},
		{KV: other.kv, Start: prompt, Tokens: 2}, // shares nothing
		{KV: branch(600, most), Start: 700, Tokens: 5, Parents: tree},
		{KV: branch(prompt, most), Start: prompt + 200, Tokens: 5, Parents: tree},
		{KV: branch(600, most), Start: 800, Tokens: 8}, // too many for the first leader
		{KV: branch(100, 300), Start: 250, Tokens: 2},
		{KV: branch(600, most), Start: 603, Tokens: 40}, // too many for any
		{KV: branch(512, most), Start: 900, Tokens: 4},
		{KV: text.kv, Start: 1120, Tokens: 3, Parents: tree[:3]}, // of the cache of another segment
		{KV: text.kv, Start: 1, Tokens: 2, Keys: 1030},
	}
	rows := 0
	for i := range segs {
		segs[i].Row = rows
		rows += segs[i].Tokens
	}
	q := queries(54, rows)
	size, one := len(q)/rows, runtimeOf(t, 1)
	for _, o := range testOptions {
		if o.Window < 0 {
			segs[len(segs)-1].Keys = 0 // not with chunks
		}
		o.Layer, o.Heads, o.Scale = 1, testHeads*testGroup, testScale
		want := make([]float32, len(q))
		for _, s := range segs {
			at, n := s.Row*size, s.Tokens*size
			s.Row = 0
			ok(t, one.Attention(want[at:][:n], q[at:][:n], o, []AttentionSegment{s}))
		}
		for _, threads := range []int{1, 3} {
			got := make([]float32, len(q))
			ok(t, runtimeOf(t, threads).Attention(got, q, o, segs))
			for i, s := range segs {
				at, n := s.Row*size, s.Tokens*size
				sameBits(t, fmt.Sprintf("%+v, segment %d of %d threads", o, i, threads), got[at:][:n], want[at:][:n])
			}
		}
		segs[len(segs)-1].Keys = 1030
	}

	// Of text's pages 4 are read for segments 0, 1, 2, 5 and 11 at once, 2 of these also for 4; 2 for 6, 9 and 10.
	j := &one.attend
	j.k, j.o, j.heads, j.group, j.dim, j.values = &one.k, AttentionOptions{}, testHeads, testGroup, testDim, testDim
	alone := 0
	for _, s := range segs {
		alone += j.plan([]AttentionSegment{s})
	}
	if units, saved := j.plan(segs), testHeads*(4+4+2+4+2+2+4); units != alone-saved {
		t.Errorf("%d units of work, %d for each segment alone: %d are shared, not %d", units, alone, alone-units, saved)
	}
}

// BenchmarkSharedPages: sequences of one prompt, whose pages they share or have each for themselves.
func BenchmarkSharedPages(b *testing.B) {
	const heads, group, dim, prompt = 4, 4, 64, 4096
	rt := runtimeOf(b, 0)
	for _, n := range []int{2, 4, 8, 16, 32} {
		for _, shared := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/shared=%v", n, shared), func(b *testing.B) {
				var segs []AttentionSegment
				text := normal(1, prompt*heads*dim)
				for i := range n {
					kv, err := NewKV(KVShape{Layers: 1, Heads: heads, HeadDim: dim, Context: prompt + 256})
					ok(b, err)
					if i > 0 && shared {
						kv, err = segs[0].KV.Fork(prompt)
						ok(b, err)
					}
					ok(b, kv.Grow(prompt+1))
					if i == 0 || !shared {
						ok(b, rt.StoreKV(0, text, text, []AttentionSegment{{KV: kv, Tokens: prompt}}))
					}
					segs = append(segs, AttentionSegment{KV: kv, Start: prompt, Tokens: 1, Row: i})
				}
				q := normal(2, n*heads*group*dim)
				out := make([]float32, len(q))
				for b.Loop() {
					ok(b, rt.Attention(out, q, AttentionOptions{Heads: heads * group, Scale: 0.125}, segs))
				}
			})
		}
	}
}

// TestAttentionReadsAhead: while a thread computes with the keys or the values of a page, its kernels prefetch what it
// reads next, the values of the page or the next page's keys: whole pages alone, and nothing else.
func TestAttentionReadsAhead(t *testing.T) {
	type call struct{ page, ahead *byte }
	var calls []call
	note := func(page, ahead []byte) {
		c := call{page: &page[0]}
		if len(ahead) > 0 {
			c.ahead = &ahead[0]
		}
		if n := len(calls); n == 0 || calls[n-1].page != c.page {
			calls = append(calls, c)
		}
	}
	rt := runtimeOf(t, 1)
	scores, values := rt.k.Scores[KVF16], rt.k.Values[KVF16]
	rt.k.Scores[KVF16] = func(out, q []float32, k []byte, dim, rows, keys int, scale float32, ahead []byte) {
		note(k, ahead)
		scores(out, q, k, dim, rows, keys, scale, ahead)
	}
	rt.k.Values[KVF16] = func(o, p []float32, v []byte, dim, rows, from, to int, ahead []byte) {
		note(v, ahead)
		values(o, p, v, dim, rows, from, to, ahead)
	}
	s := newSequence(t, KVF16, 1, 1283)
	for _, c := range []struct{ start, tokens, chunks int }{{1282, 1, 6}, {1270, 9, 5}} {
		calls = nil
		attention(t, rt, queries(2, c.tokens), 0, AttentionSegment{KV: s.kv, Start: c.start, Tokens: c.tokens})
		if units := testHeads * ((c.tokens + groupTokens - 1) / groupTokens); len(calls) != 2*c.chunks*units {
			t.Fatalf("%d calls for %d units of %d chunks", len(calls), units, c.chunks)
		}
		for i, got := range calls {
			var want *byte
			at := i % (2 * c.chunks) // of the last chunk no keys are prefetched, and values only if there are many
			if few := c.start%asm.Page < asm.Page/2; i+1 < len(calls) && at != 2*c.chunks-3 && (at != 2*c.chunks-2 || !few) {
				want = calls[i+1].page
			}
			if got.ahead != want {
				t.Errorf("%d tokens at %d: call %d prefetches %p, what follows is %p", c.tokens, c.start, i, got.ahead, want)
			}
		}
	}
}
