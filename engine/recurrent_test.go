package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// openRecipe opens a random model of reference_families_test.go or of asked_test.go.
func openRecipe(tb testing.TB, rt *Runtime, name string) *Model {
	tb.Helper()
	var file []byte
	if recipe, ok := randommodel.Recipes()[name]; ok {
		file = recipe.File(tb)
	} else if name == "qwen4exp" {
		file = randommodel.Qwen4exp{}.File(tb)
	} else {
		file = askedModels()[name].file(tb, name)
	}
	m, err := openBytes(tb, rt, file, name, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// hybrids have a kind of recurrent layer each, one of them windows as well, and one experts; gemma4 has layers that
// share keys and values.
var hybrids = []string{"gemma4", "gemma4 experts", "qwen35moe", "lfm2", "lfm2 windows", "lfm2moe",
	"granitehybrid", "falcon-h1", "qwen35", "bailingmoe3", "qwen4exp"}

// TestRecurrentOneAnswer: promise P1 on every kind of recurrent layer: all ways to feed a text, kernel sets, thread
// counts, caches.
func TestRecurrentOneAnswer(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for i, name := range hybrids {
		m := openRecipe(t, rt, name)
		n, every := 270, 4
		if testing.Short() {
			n, every = 120, 6
		}
		ids := randomTokens(n, m.config.Vocab, 4)
		for j, kv := range []string{"f16", "q8_0", "q4_0"} {
			if !testkit.IsLong(t) && j > 0 {
				continue
			}
			want := eval(t, newSession(t, m, SessionOptions{KV: kv}), ids, nil, All)
			for k, way := range ways {
				if testkit.IsLong(t) || (i+k)%every == 0 {
					sameBits(t, fmt.Sprintf("%s, KV %s, %s", name, kv, way.name), way.feed(t, m, SessionOptions{KV: kv}, ids), want)
				}
			}
		}
		var want []float32
		for j, simd := range asm.Available() {
			for _, threads := range []int{1, 5} {
				few := 40
				if testkit.IsLong(t) {
					few = 120
				} else if threads > 1 && j != i%len(asm.Available()) { // by turns
					continue
				}
				got := ways[2].feed(t, openRecipe(t, newRuntime(t, RuntimeOptions{Threads: threads, SIMD: simd}), name),
					SessionOptions{}, ids[:few])
				if want == nil {
					want = got
				}
				sameBits(t, fmt.Sprintf("%s, %s, %d threads", name, simd, threads), got, want)
			}
		}
	}
}

// TestLongRecurrentOneAnswer: every way for every model, with both cache types and all kernels.
func TestLongRecurrentOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestRecurrentOneAnswer(t)
}

// goesOn feeds a chain or a tree to a session of ids that was cut to some tokens, and compares with the logits of all
// of ids.
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
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
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
		step := 31
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
			if at > cut || cut >= n-64 && at != cut {
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

// TestForksOverwriteNoSharedPoints: after a fork, points belong to both sessions. One goes back, so that it drops
// points, and makes others of another text; the other one goes back to its own points, and its logits are those of
// its own text. So it is when the fork moves, when the original does, and with a fork of a fork.
func TestForksOverwriteNoSharedPoints(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for i, name := range []string{"lfm2", "qwen35", "granitehybrid"} {
		m := openRecipe(t, rt, name)
		const n = 400
		ids, others := randomTokens(n+5, m.config.Vocab, 4), randomTokens(n, m.config.Vocab, 5)
		want := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
		for j, x := range []struct {
			what string
			pick func(s, f, g *Session) (moves, stays *Session)
		}{
			{"the original moves", func(s, f, g *Session) (*Session, *Session) { return s, f }},
			{"the fork moves", func(s, f, g *Session) (*Session, *Session) { return f, s }},
			{"the fork's fork moves", func(s, f, g *Session) (*Session, *Session) { return g, s }},
			{"the fork's original does", func(s, f, g *Session) (*Session, *Session) { return f, g }},
		} {
			for k, cut := range []int{65, 257, 300, 390} {
				if (i+j+k)%2 > 0 && !testkit.IsLong(t) {
					continue
				}
				s := newSession(t, m, SessionOptions{})
				for i := 0; i < n; i += 40 {
					eval(t, s, ids[i:i+40], nil, None)
				}
				f, err := s.Fork()
				if err != nil {
					t.Fatal(err)
				}
				g, err := f.Fork()
				if err != nil {
					t.Fatal(err)
				}
				moves, stays := x.pick(s, f, g)
				for _, back := range []int{300, 10} {
					if err := moves.Truncate(back); err != nil {
						t.Fatal(err)
					}
					for i := back; i+30 < n; i += 30 {
						eval(t, moves, others[i:i+30], nil, None)
					}
				}
				if err := stays.Truncate(cut); err != nil {
					t.Fatal(err)
				}
				goesOn(t, fmt.Sprintf("%s, %s, cut to %d", name, x.what, cut), stays, cut, ids, want)
				for _, x := range []*Session{s, f, g} {
					x.Close()
				}
			}
		}
	}
}

// TestLongForksOverwriteNoSharedPoints: each session at each place.
func TestLongForksOverwriteNoSharedPoints(t *testing.T) {
	testkit.Long(t)
	TestForksOverwriteNoSharedPoints(t)
}

// TestLongRecurrentTruncate: cut to every length.
func TestLongRecurrentTruncate(t *testing.T) {
	testkit.Long(t)
	TestRecurrentTruncate(t)
}

// TestRecurrentWalk does what decoders do, in random order, and compares every logit with that of a fresh session.
func TestRecurrentWalk(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	steps := 16
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
					if _, err := s.Eval(&countdown{context.Background(),
						rng.IntN(8)}, ids, parents, Last); err == nil && parents == nil {
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
		out, err := m.Forward(context.Background(),
			Batch{{Session: s, Tokens: bad}, {Session: o, Tokens: ids[:5], Logits: All}})
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
