package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/tensor"
)

// openRecipe opens a random model of reference_families_test.go.
func openRecipe(tb testing.TB, rt *Runtime, name string) *Model {
	tb.Helper()
	m, err := openBytes(tb, rt, recipes()[name].file(tb), name, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// hybrids have a kind of recurrent layer each, one of them windows as well, and one experts; gemma4 has layers that share keys and values.
var hybrids = []string{"gemma4", "gemma4 experts", "qwen35moe", "lfm2", "lfm2 windows", "lfm2moe", "granitehybrid", "falcon-h1", "qwen35"}

// TestRecurrentOneAnswer: promise P1 on every kind of recurrent layer: all ways to feed a text, kernel sets, thread counts, caches.
func TestRecurrentOneAnswer(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	for i, name := range hybrids {
		m := openRecipe(t, rt, name)
		ids := randomTokens(300, m.config.Vocab, 4)
		for j, kv := range []string{"f16", "q8_0"} {
			if testing.Short() && j > 0 {
				continue
			}
			want := eval(t, newSession(t, m, SessionOptions{KV: kv}), ids, nil, All)
			for k, way := range ways {
				if !testing.Short() || (i+k)%2 == 0 {
					sameBits(t, fmt.Sprintf("%s, KV %s, %s", name, kv, way.name), way.feed(t, m, SessionOptions{KV: kv}, ids), want)
				}
			}
		}
		var want []float32
		for _, simd := range asm.Available() {
			for _, threads := range []int{1, 5} {
				if testing.Short() && threads > 1 && simd != "scalar" {
					continue
				}
				got := ways[2].feed(t, openRecipe(t, newRuntime(t, RuntimeOptions{Threads: threads, SIMD: simd}), name), SessionOptions{}, ids[:120])
				if want == nil {
					want = got
				}
				sameBits(t, fmt.Sprintf("%s, %s, %d threads", name, simd, threads), got, want)
			}
		}
	}
}

// goesOn feeds a chain or a tree to a session of ids that was cut to some tokens, and compares with the logits of all of ids.
func goesOn(t *testing.T, what string, f *Session, cut int, ids []int32, want []float32) {
	t.Helper()
	v := f.m.config.Vocab
	if cut%2 == 0 {
		sameBits(t, what+", chain", eval(t, f, ids[cut:cut+5], nil, All), want[cut*v:(cut+5)*v])
	} else {
		tree := eval(t, f, []int32{1, ids[cut], 2, ids[cut+1]}, []int32{-1, -1, 1, 1}, All)
		sameBits(t, what+", first node", tree[v:2*v], want[cut*v:(cut+1)*v])
		sameBits(t, what+", second node", tree[3*v:], want[(cut+1)*v:(cut+2)*v])
		if err := f.Commit([]int32{1, 3}); err != nil {
			t.Fatal(err)
		}
		sameBits(t, what+", after the tree", eval(t, f, ids[cut+2:cut+3], nil, All), want[(cut+2)*v:(cut+3)*v])
	}
}

// TestRecurrentTruncate cuts a text at every position, and goes on with a chain or a tree.
func TestRecurrentTruncate(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	for _, name := range hybrids {
		m := openRecipe(t, rt, name)
		const n = 500
		v := m.config.Vocab
		ids := randomTokens(n+5, v, 4)
		want := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
		s := newSession(t, m, SessionOptions{})
		eval(t, s, ids[:390], nil, None)
		for i := 390; i < n; i++ { // as in decoding
			eval(t, s, ids[i:i+1], nil, None)
		}
		step := 7
		if testkit.IsLong(t) {
			step = 1
		}
		for cut := n; cut >= 0; cut -= step {
			f, err := s.Fork()
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("%s cut to %d", name, cut)
			at, before := f.Restorable(cut), f.Recomputed()
			if at > cut || cut >= n-pointStep && at != cut {
				t.Errorf("%s: restorable is %d", what, at)
			}
			if err := f.Truncate(cut); err != nil {
				t.Fatal(err)
			}
			goesOn(t, what, f, cut, ids, want)
			if got := f.Recomputed() - before; got != cut-at {
				t.Errorf("%s: %d tokens are recomputed, restorable was %d", what, got, at)
			}
			f.Close()
		}
	}
}

// TestLongRecurrentTruncate: cut to every length.
func TestLongRecurrentTruncate(t *testing.T) {
	testkit.Long(t)
	TestRecurrentTruncate(t)
}

// TestRecurrentWalk does what decoders do, in random order, and compares every logit with that of a fresh session.
func TestRecurrentWalk(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	steps := 60
	if testkit.IsLong(t) {
		steps = 400
	}
	for i, name := range hybrids {
		m := openRecipe(t, rt, name)
		v := m.config.Vocab
		rng := rand.New(rand.NewPCG(uint64(i), 8))
		s := newSession(t, m, SessionOptions{StateBytes: int64(i % 2)}) // every other one with the least memory
		var text []int32
		check := func(what string, got []float32, path []int32) { // got: the logits after the last tokens of text and path
			t.Helper()
			all := eval(t, newSession(t, m, SessionOptions{}), slices.Concat(text, path), nil, All)
			sameBits(t, fmt.Sprintf("%s, %d tokens, %s", name, len(text), what), got, all[len(all)-len(got):])
		}
		some := func(n int) []int32 { return randomTokens(1+rng.IntN(n), v, rng.Uint64()) }
		for step := range steps {
			if s.Len() != len(text) || !slices.Equal(s.Tokens(), text) {
				t.Fatalf("%s: the session has another text", name)
			}
			room := s.Context() - len(text)
			if room < 310 { // a new turn that shares the beginning
				cut := rng.IntN(len(text))
				if err := s.Truncate(cut); err != nil {
					t.Fatal(err)
				}
				text = text[:cut]
				continue
			}
			switch rng.IntN(7) {
			case 0: // a prompt
				ids := some(300)
				got := eval(t, s, ids, nil, Last)
				text = append(text, ids...)
				check("prompt", got, nil)
			case 1, 2: // verification of a chain
				ids := some(12)
				if step%10 == 0 {
					ids = some(190)
				}
				got := eval(t, s, ids, nil, All)
				check("chain", got, ids)
				keep := rng.IntN(len(ids) + 1)
				if err := s.Truncate(len(text) + keep); err != nil {
					t.Fatal(err)
				}
				before := s.Recomputed()
				text = append(text, ids[:keep]...)
				check("token after", eval(t, s, ids[:1], nil, All), ids[:1])
				if s.Recomputed() != before {
					t.Errorf("%s: %d tokens are recomputed after a verification of %d", name, s.Recomputed()-before, len(ids))
				}
				if err := s.Truncate(len(text)); err != nil {
					t.Fatal(err)
				}
			case 3, 4: // a tree, and a path of it
				ids := some(20)
				if step%10 == 0 {
					ids = some(256)
				}
				parents := make([]int32, len(ids))
				for j := range parents {
					parents[j] = int32(rng.IntN(min(j, 60)+1)+max(0, j-60)) - 1
				}
				got := eval(t, s, ids, parents, All)
				node := int32(rng.IntN(len(ids)))
				var path, tokens []int32
				for j := node; j >= 0; j = parents[j] {
					path, tokens = append(path, j), append(tokens, ids[j])
				}
				slices.Reverse(path)
				slices.Reverse(tokens)
				check("tree", got[int(node)*v:int(node+1)*v], tokens)
				if rng.IntN(3) == 0 {
					path, tokens = nil, nil
				}
				if err := s.Commit(path); err != nil {
					t.Fatal(err)
				}
				text = append(text, tokens...)
			case 5: // a draft: token by token, then taken back
				n := len(text)
				for range 1 + rng.IntN(30) {
					id := some(1)
					got := eval(t, s, id, nil, Last)
					text = append(text, id...)
					if rng.IntN(8) == 0 {
						check("draft", got, nil)
					}
				}
				keep := n + rng.IntN(len(text)-n+1)
				if err := s.Truncate(keep); err != nil {
					t.Fatal(err)
				}
				text = text[:keep]
			case 6: // goes on in a fork, after a pass that is cancelled
				for _, ids := range [][]int32{some(20), some(300)} {
					var parents []int32
					if len(ids) <= 20 {
						parents = slices.Repeat([]int32{-1}, len(ids))
					}
					if _, err := s.Eval(&countdown{context.Background(), rng.IntN(8)}, ids, parents, Last); err == nil && parents == nil {
						text = append(text, ids...)
					} else if err != nil && !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
				}
				f, err := s.Fork()
				if err != nil {
					t.Fatal(err)
				}
				eval(t, s, some(20), nil, None) // goes astray
				s.Close()
				s = f
			}
		}
		s.Close()
	}
}

// TestLongRecurrentWalk: a walk of seven times the steps.
func TestLongRecurrentWalk(t *testing.T) {
	testkit.Long(t)
	TestRecurrentWalk(t)
}

// TestRecurrentFailure: activations that are not finite fail a session's segment; its state is that of before.
func TestRecurrentFailure(t *testing.T) {
	m := openRecipe(t, newRuntime(t, RuntimeOptions{Threads: 2}), "lfm2")
	v := m.config.Vocab
	ids := randomTokens(60, v, 3)
	want := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
	s := newSession(t, m, SessionOptions{})
	eval(t, s, ids[:50], nil, None)
	// The context does not suffice; an id is wrong: the other session of the batch goes on.
	o := newSession(t, m, SessionOptions{})
	for _, bad := range [][]int32{{int32(v)}, make([]int32, m.config.Context)} {
		out, err := m.Forward(context.Background(), Batch{{Session: s, Tokens: bad}, {Session: o, Tokens: ids[:5], Logits: All}})
		if err != nil || out[0].Err == nil || out[1].Err != nil {
			t.Fatalf("%v, %+v", err, out)
		}
		sameBits(t, "the other session", out[1].Logits.Data, want[:5*v])
		if err := o.Truncate(0); err != nil {
			t.Fatal(err)
		}
	}
	sameBits(t, "after the failures", eval(t, s, ids[50:], nil, All), want[50*v:])
}

// wide is a recurrence with a large state that counts tokens: a state is right if it says how many.
type wide struct{ size int }

func (w wide) shape() recurrentShape {
	return recurrentShape{units: 1, state: w.size, inputs: [inputParts]int{1}, output: 1}
}

func (w wide) scan(_ *tensor.Runtime, _ int, state []float32, in []tokenInput, _ []float32, _ *scanScratch) {
	state[0] += float32(len(in))
}

// TestRecurrentPoints: however a text is cut into passes, a session can be cut back by pointStep tokens, has points all over the
// text, and keeps within its budget.
func TestRecurrentPoints(t *testing.T) {
	for _, c := range []struct {
		size   int
		budget int64
		most   int
	}{{1 << 10, 0, 64}, {1 << 20, 0, 16}, {1 << 24, 0, 1}, {1 << 25, 0, 0}, {1 << 20, 40 << 20, 4}, {1 << 20, 28 << 20, 1}, {1 << 20, 1, 0}, {1 << 10, 1 << 40, 64}} {
		size := c.size
		l := loader{}
		l.recur(0, wide{size})
		m := &Model{recurrent: l.recurrent}
		r := newRecurrent(m.recurrent, 1, c.budget)
		most, bound := c.most, m.Describe().Recurrent.Most(c.budget)
		n, rng := 0, rand.New(rand.NewPCG(3, 3))
		for n < 20000 {
			tokens := []int{1, 1, 1, 5, 256, 100}[rng.IntN(6)]
			s := scan{r: r, start: n, tokens: tokens}
			r.plan(&s, 1)
			if s.save != nil {
				clear(s.save[:1])
				r.add(point{at: n + s.saveAt, state: s.save})
			}
			n += tokens
			if cut := rng.IntN(8); cut < 5 && rng.IntN(2) == 0 && r.restorable(n-cut) == n-cut && tokens < 10 {
				n -= cut
				r.rewind(n)
			}
			if got := r.restorable(n); got != n {
				t.Fatalf("%d tokens: restorable is %d", n, got)
			}
			if back := max(0, n-20); r.restorable(back) != back {
				t.Fatalf("%d tokens, 20 fewer: restorable is %d; points %d, journal %d to %d", n, r.restorable(back), at(r.points), r.from, r.from+r.n)
			}
			if len(r.points) > most+nearPoints || len(r.points)+len(r.spare) > most+nearPoints+sparePoints {
				t.Fatalf("%d tokens: %d points and %d more, %d may be kept", n, len(r.points), len(r.spare), most)
			}
			if r.bytes() > bound+4*256 { // the journal of this test's long drafts
				t.Fatalf("%d tokens: %d bytes, the bound is %d", n, r.bytes(), bound)
			}
			if !slices.IsSortedFunc(r.points, func(a, b point) int { return a.at - b.at }) {
				t.Fatalf("points %d", at(r.points))
			}
			if cut := rng.IntN(n + 1); most > 1 && n > 1000 && cut-r.restorable(cut) > max(3*n/most, 2*keptStep+pointStep) {
				t.Fatalf("%d tokens cut to %d: restorable is %d; points %d", n, cut, r.restorable(cut), at(r.points))
			}
		}
	}
}

func at(points []point) (list []int) {
	for _, p := range points {
		list = append(list, p.at)
	}
	return list
}
