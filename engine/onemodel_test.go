package engine

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// Promise P1: the logits at a position depend on the tokens up to it and on nothing else.

// ways are ways to feed ids to a fresh session of m; all return the logits of every position.
var ways = []struct {
	name string
	feed func(t *testing.T, m *Model, o SessionOptions, ids []int32) []float32
}{
	{"chunks of 1", chunks(1)},
	{"chunks of 3", chunks(3)},
	{"chunks of 7", chunks(7)},
	{"chunks of 64", chunks(64)},
	{"batch", func(t *testing.T, m *Model, o SessionOptions, ids []int32) []float32 {
		// Three others share the passes, with texts of other lengths; ours is cut in uneven pieces.
		var out []float32
		ours := newSession(t, m, o)
		others := []*Session{newSession(t, m, SessionOptions{KV: "f32"}), newSession(t, m, SessionOptions{}),
			newSession(t, m, SessionOptions{KV: "q8_0"})}
		eval(t, others[1], randomTokens(40, m.config.Vocab, 9), nil, None)
		for i, rest := 0, ids; len(rest) > 0; i++ {
			n := min(len(rest), []int{100, 1, 5, 33}[i%4])
			b := Batch{{Session: others[0], Tokens: randomTokens(1+i, m.config.Vocab, 10), Logits: Last},
				{Session: ours, Tokens: rest[:n], Logits: All},
				{Session: others[1], Tokens: randomTokens(3, m.config.Vocab, 11), Logits: All},
				{Session: others[2], Tokens: randomTokens(2, m.config.Vocab, 12), Parents: []int32{-1, -1}, Logits: None}}
			logits := forward(t, m, b)
			out = append(out, logits[1].Logits.Data...)
			rest = rest[n:]
		}
		return out
	}},
	{"tree", func(t *testing.T, m *Model, o SessionOptions, ids []int32) []float32 {
		// Each token of ids has a wrong sibling in front; trees of 2*20 nodes, then the path is kept.
		s := newSession(t, m, o)
		v, vocab := m.config.Vocab, int32(m.config.Vocab)
		var out []float32
		for rest := ids; len(rest) > 0; {
			n := min(len(rest), 20)
			var tokens, parents, path []int32
			parent := int32(-1)
			for _, id := range rest[:n] {
				tokens = append(tokens, (id+1)%vocab, id)
				parents = append(parents, parent, parent)
				parent = int32(len(tokens) - 1)
				path = append(path, parent)
			}
			before := s.Len()
			logits := eval(t, s, tokens, parents, All)
			if s.Len() != before {
				t.Fatalf("a tree moved the session from %d to %d tokens", before, s.Len())
			}
			for _, j := range path {
				out = append(out, logits[int(j)*v:int(j+1)*v]...)
			}
			if err := s.Commit(path); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if !slices.Equal(s.Tokens(), ids) {
			t.Fatalf("Commit left another text")
		}
		return out
	}},
	{"truncate", func(t *testing.T, m *Model, o SessionOptions, ids []int32) []float32 {
		// Wrong tokens are fed after every piece and taken back.
		s := newSession(t, m, o)
		var out []float32
		for i, rest := 0, ids; len(rest) > 0; i++ {
			n := min(len(rest), 60+i)
			out = append(out, eval(t, s, rest[:n], nil, All)...)
			keep := s.Len()
			if wrong := min(30, s.Context()-keep); wrong > 0 {
				eval(t, s, randomTokens(wrong, m.config.Vocab, uint64(i)), nil, Last)
			}
			if err := s.Truncate(keep); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		return out
	}},
	{"fork", func(t *testing.T, m *Model, o SessionOptions, ids []int32) []float32 {
		// The text goes on in forks while the original goes astray.
		s := newSession(t, m, o)
		var out []float32
		for rest := ids; len(rest) > 0; {
			n := min(len(rest), 37)
			out = append(out, eval(t, s, rest[:n], nil, All)...)
			f, err := s.Fork()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Close)
			if wrong := min(5, s.Context()-s.Len()); wrong > 0 {
				eval(t, s, randomTokens(wrong, m.config.Vocab, 5), nil, None)
			}
			s, rest = f, rest[n:]
		}
		return out
	}},
	{"no cache", func(t *testing.T, m *Model, o SessionOptions, ids []int32) []float32 {
		o.NoCache = true
		s := newSession(t, m, o)
		out := eval(t, s, ids[:3], nil, All)
		out = append(out, eval(t, s, ids[3:len(ids)-2], nil, All)...)
		v := m.config.Vocab
		tree := eval(t, s, []int32{0, ids[len(ids)-2]}, []int32{-1, -1}, All)
		if err := s.Commit([]int32{1}); err != nil {
			t.Fatal(err)
		}
		out = append(out, tree[v:]...)
		return append(out, eval(t, s, ids[len(ids)-1:], nil, All)...)
	}},
}

func chunks(size int) func(t *testing.T, m *Model, o SessionOptions, ids []int32) []float32 {
	return func(t *testing.T, m *Model, o SessionOptions, ids []int32) []float32 {
		s := newSession(t, m, o)
		var out []float32
		for rest := ids; len(rest) > 0; {
			n := min(len(rest), size)
			out = append(out, eval(t, s, rest[:n], nil, All)...)
			rest = rest[n:]
		}
		return out
	}
}

// variants are models that differ in everything the forward passes distinguish.
func variants() map[string]randommodel.Shape {
	untied := randommodel.Llama()
	untied.Weights, untied.Untied, untied.Biases, untied.Factors, untied.RopeDims, untied.Scaling = gguf.Q8_0, true, true,
		true, 8, 4
	q4 := randommodel.Llama()
	q4.Weights, q4.KV = gguf.Q4_0, 1
	half := randommodel.GPT2()
	half.Weights = gguf.F16
	return map[string]randommodel.Shape{"llama f32": randommodel.Llama(), "llama q8_0 untied biases factors": untied,
		"llama q4_0": q4, "gpt2 f16": half}
}

func TestOneModelOneAnswer(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	for name, v := range variants() {
		m := openDrawn(t, rt, v, Options{})
		ids := randomTokens(270, m.config.Vocab, 4)
		for _, kv := range []string{"f16", "f32", "q8_0", "q4_0"} {
			want := eval(t, newSession(t, m, SessionOptions{KV: kv}), ids, nil, All)
			for i, way := range ways {
				if testing.Short() && kv != "f16" && i%3 != 0 || !testkit.IsLong(t) && (kv == "q8_0" && i%2 != 0 ||
					kv == "q4_0" && i%2 == 0 && i%3 != 0 || kv == "f32" && i%3 == 1) {
					continue
				}
				got := way.feed(t, m, SessionOptions{KV: kv}, ids)
				sameBits(t, fmt.Sprintf("%s, KV %s, %s", name, kv, way.name), got, want)
			}
		}
	}
}

// TestLongOneModelOneAnswer: every way with every type of cache.
func TestLongOneModelOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestOneModelOneAnswer(t)
}

// TestThreadsAndKernels feeds in uneven pieces, so that all tile sizes occur, on 1, 2 and 5 threads and
// with every kernel set of the machine.
func TestThreadsAndKernels(t *testing.T) {
	all := variants()
	for i, name := range slices.Sorted(maps.Keys(all)) {
		v := all[name]
		for j, kv := range []string{"f16", "f32", "q8_0", "q4_0"} {
			var want []float32
			for _, simd := range asm.Available() {
				for _, threads := range []int{1, 2, 5} {
					slow := simd == "scalar" && len(asm.Available()) > 1
					if !testkit.IsLong(t) && (threads == 2 || threads == 5 && (kv != "f16" || slow) || slow && (i+j)%2 > 0) {
						continue
					}
					rt := newRuntime(t, RuntimeOptions{Threads: threads, SIMD: simd})
					m := openDrawn(t, rt, v, Options{})
					s := newSession(t, m, SessionOptions{KV: kv})
					ids := randomTokens(290, m.config.Vocab, 5)
					got := eval(t, s, ids[:250], nil, All)
					for rest, n := ids[250:], 1; len(rest) > 0; n++ {
						n = min(n, len(rest))
						got = append(got, eval(t, s, rest[:n], nil, All)...)
						rest = rest[n:]
					}
					if want == nil {
						want = got
					}
					sameBits(t, fmt.Sprintf("%s, KV %s, %s, %d threads", name, kv, simd, threads), got, want)
				}
			}
		}
	}
}

// TestLongThreadsAndKernels: every kernel set on every number of threads with every type of cache.
func TestLongThreadsAndKernels(t *testing.T) {
	testkit.Long(t)
	TestThreadsAndKernels(t)
}

// TestWideBatch fills several rounds of a pass: many sessions with a row each, a long chain, and a tree
// that finds no room in the round where it would begin.
func TestWideBatch(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{}), randommodel.Llama(), Options{})
	v := m.config.Vocab
	var b Batch
	var want [][]float32
	add := func(prefix, tokens, parents []int32, rows Rows) {
		alone, s := newSession(t, m, SessionOptions{}), newSession(t, m, SessionOptions{})
		eval(t, alone, prefix, nil, None)
		eval(t, s, prefix, nil, None)
		want = append(want, eval(t, alone, tokens, parents, rows))
		b = append(b, Segment{Session: s, Tokens: tokens, Parents: parents, Logits: rows})
	}
	chain := randomTokens(230, v, 1)
	add(chain[:30], chain[30:], nil, All)
	tree := make([]int32, 100)
	for i := range tree {
		tree[i] = int32((i - 1) / 2)
	}
	tree[0] = -1
	for i := range 75 {
		if i == 30 {
			add(chain[:10], chain[:100], tree, 60)
		}
		add(chain[i:i+1+i%3], chain[i:i+1], nil, Rows(i%2))
	}
	out := forward(t, m, b)
	for i := range b {
		sameBits(t, fmt.Sprintf("segment %d", i), out[i].Logits.Data, want[i])
	}
}
