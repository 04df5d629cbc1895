package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/internal/randommodel"
)

// mtpRecipe is a random model with several MTP blocks; with ends, each has embeddings, a final norm and an output
// matrix of its own.
func mtpRecipe(arch string, blocks int, ends bool) randommodel.Recipe {
	r := randommodel.HybridRecipes()[arch]
	r.MTP = blocks
	if ends {
		r.Parts += " ends"
	}
	return r
}

// openMTP opens a file's model and its MTP blocks.
func openMTP(tb testing.TB, rt *Runtime, file []byte, o Options) (target, head *Model) {
	tb.Helper()
	open := func(o Options) *Model {
		m, err := openBytes(tb, rt, file, "mtp.gguf", o)
		if err != nil {
			tb.Fatal(err)
		}
		return m
	}
	target = open(o)
	o.MTP, o.Target = true, target
	return target, open(o)
}

// mtpText is a text and the states that go in with its tokens, as if they were a model's own.
type mtpText struct {
	ids    []int32
	states []float32 // [len(ids)][recipeWidth]
}

func newMTPText(n int, seed uint64) mtpText {
	x := mtpText{ids: randomTokens(n, randommodel.Vocab, seed), states: make([]float32, n*randommodel.Width)}
	rng := rand.New(rand.NewPCG(seed, 5))
	for i := range x.states[randommodel.Width:] { // zeros before the first token
		x.states[randommodel.Width+i] = float32(rng.NormFloat64())
	}
	return x
}

// segment is the positions from to to, with logits and the state of the last one.
func (x mtpText) segment(from, to int) Segment {
	return Segment{Tokens: x.ids[from:to], States: x.states[from*randommodel.Width : to*randommodel.Width],
		FromTarget: true, Logits: Last, Hidden: Last, Layers: []int{FinalNorm}}
}

// pairs are the first n positions, for the reference.
func (x mtpText) pairs(n int) (pairs []mtpPair) {
	for i := range n {
		h := make([]float64, randommodel.Width)
		for j := range h {
			h[j] = float64(x.states[i*randommodel.Width+j])
		}
		pairs = append(pairs, mtpPair{x.ids[i], h})
	}
	return pairs
}

// mtpSequence is a session, or one that a Scheduler shares.
type mtpSequence interface {
	EvalSegment(context.Context, Segment) (Result, error)
	Truncate(int) error
	Len() int
}

// mtpDraft is what one draft gave: of every step the state and the logits.
type mtpDraft struct {
	text           int     // tokens of the text before it
	drafted        []int32 // tokens that went in after it
	states, logits [][]float32
	accepted       int // tokens of the draft that the text goes on with
}

// flat is all the numbers.
func (d *mtpDraft) flat() (all []float32) {
	for i := range d.states {
		all = append(append(all, d.states[i]...), d.logits[i]...)
	}
	return all
}

// mtpRounds drafts and goes on with the text after a prompt of so many tokens, several times: of the drafted tokens
// none, some or all are the text's. step evaluates a segment.
func mtpRounds(t *testing.T, s mtpSequence, x mtpText, blocks, prompt, chunk int,
	step func(Segment) Result) (all []mtpDraft) {
	t.Helper()
	n := prompt
	for round := 0; n+blocks+1 < len(x.ids); round++ {
		d := mtpDraft{text: n, accepted: []int{0, blocks, 1}[round%3]}
		for n-s.Len() > chunk {
			step(x.segment(s.Len(), s.Len()+chunk))
		}
		r := step(x.segment(s.Len(), n))
		keep := func() {
			d.states, d.logits = append(d.states, slices.Clone(r.Hidden.Row(0))), append(d.logits, slices.Clone(r.Logits.Row(0)))
		}
		keep()
		for i := range blocks - 1 {
			id := x.ids[n+i]
			if i >= d.accepted {
				id = (id + 1 + int32(round)) % randommodel.Vocab
			}
			d.drafted = append(d.drafted, id)
			r = step(Segment{Tokens: []int32{id}, States: d.states[i], Logits: Last, Hidden: Last, Layers: []int{FinalNorm}})
			keep()
		}
		all = append(all, d)
		if err := s.Truncate(n); err != nil {
			t.Fatal(err)
		}
		n += d.accepted + 1
	}
	return all
}

func (d *mtpDraft) check(t *testing.T, what string, r *reference, x mtpText) {
	t.Helper()
	states, logits := r.draft(x.pairs(d.text), d.drafted)
	for i := range states {
		if worst := difference(t, d.states[i], states[i]); !(worst < 1e-4) {
			t.Errorf("%s, after %d tokens and %d drafted: the state is off by %g", what, d.text, i, worst)
		}
		if worst := difference(t, d.logits[i], logits[i]); !(worst < 1e-4) {
			t.Errorf("%s, after %d tokens and %d drafted: the logits are off by %g", what, d.text, i, worst)
		}
	}
}

// TestMTPBlocks: the state and the logits of every block at every step of drafts, against the reference: after
// prompts in chunks, after rounds that accepted none, some and all of the tokens, after cuts, in forks, and with the
// blocks in a file of their own.
func TestMTPBlocks(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, c := range []struct {
		arch   string
		blocks int
		ends   bool
	}{{"qwen35", 2, false}, {"qwen35", 3, true}, {"qwen35", 3, false}, {"qwen35 a list", 2, true},
		{"qwen35moe", 2, false}, {"qwen35moe", 3, true}} {
		what := fmt.Sprintf("%s, %d blocks, ends %v", c.arch, c.blocks, c.ends)
		recipe := mtpRecipe(c.arch, c.blocks, c.ends)
		if list, ok := recipe.Keys["attention.recurrent_layers"].([]bool); ok {
			recipe.Keys["attention.recurrent_layers"] = append(slices.Clone(list), make([]bool, c.blocks)...)
		}
		file := recipe.File(t)
		r := newReference(t, file)
		target, head := openMTP(t, rt, file, Options{})
		if h := head.Head(); h.Longest != c.blocks || !target.HasMTP() || head.HasMTP() ||
			head.Config().Layers != c.blocks || target.Config().Layers != 4 {
			t.Fatalf("%s: %+v, %+v", what, h, head.Config())
		}
		if shapes := head.Caches(0); len(shapes) != 1 || shapes[0].Layers != c.blocks {
			t.Errorf("%s: caches %+v", what, shapes)
		}
		x, y := newMTPText(34, 1), newMTPText(34, 2)
		s := newSession(t, head, SessionOptions{KV: "f32"})
		plain := func(s *Session) func(Segment) Result {
			return func(g Segment) Result {
				out, err := s.EvalSegment(context.Background(), g)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
		}
		drafts := mtpRounds(t, s, x, c.blocks, 18, 7, plain(s))
		seen := map[int]bool{}
		for i := range drafts {
			drafts[i].check(t, what, r, x)
			seen[drafts[i].accepted] = true
		}
		if len(drafts) < 5 || !seen[0] || !seen[1] || !seen[c.blocks] {
			t.Fatalf("%s: %d drafts, accepted %v", what, len(drafts), seen)
		}
		// Another text after a cut, in a fork that was made in the middle of a draft.
		if err := s.Truncate(11); err != nil {
			t.Fatal(err)
		}
		first := plain(s)(x.segment(11, 13))
		plain(s)(Segment{Tokens: []int32{3}, States: slices.Clone(first.Hidden.Row(0)), Logits: Last, Hidden: Last,
			Layers: []int{FinalNorm}})
		fork, err := s.Fork()
		if err != nil {
			t.Fatal(err)
		}
		if err := fork.Truncate(9); err != nil {
			t.Fatal(err)
		}
		copy(y.ids, x.ids[:9])
		copy(y.states, x.states[:9*randommodel.Width])
		for _, d := range mtpRounds(t, fork, y, c.blocks, 20, 100, plain(fork)) {
			d.check(t, what+", fork", r, y)
		}
		if err := s.Truncate(13); err != nil {
			t.Fatal(err)
		}
		for _, d := range mtpRounds(t, s, x, c.blocks, 25, 100, plain(s))[:1] {
			d.check(t, what+", forked", r, x)
		}

		other, err := openBytes(t, rt, aloneFile(t, file, nil), "mtp-x.gguf", Options{Target: target})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		so := newSession(t, other, SessionOptions{KV: "f32"})
		for i, d := range mtpRounds(t, so, x, c.blocks, 18, 7, plain(so)) {
			sameBits(t, what+", alone", d.flat(), drafts[i].flat())
		}
		other.Close()
	}
}

// mtpOther is a session beside another one in a batch, always at another step of its drafts.
type mtpOther struct {
	s      *Session
	x      mtpText
	blocks int
	at     int // tokens that have been drafted
	state  []float32
	turn   int
}

// segment is its next one.
func (o *mtpOther) segment(t *testing.T) Segment {
	t.Helper()
	o.turn++
	all := Segment{Session: o.s, Logits: All, Hidden: All, Layers: []int{o.blocks, FinalNorm}}
	left := o.blocks - 1 - o.at
	if o.state == nil || left <= 0 {
		if err := o.s.Truncate(min(o.turn%3, o.s.fed)); err != nil {
			t.Fatal(err)
		}
		g := o.x.segment(o.s.Len(), o.s.Len()+1+o.turn%5)
		all.Tokens, all.States, all.FromTarget = g.Tokens, g.States, true
		o.at = 0
		return all
	}
	n := 1 + o.turn%left
	all.Tokens, all.States = o.x.ids[20:20+n], slices.Repeat(o.state, n)
	o.at += n
	return all
}

func (o *mtpOther) keep(r Result) []float32 {
	o.state = slices.Clone(r.Hidden.At(r.Hidden.Rows()-1, 1))
	return append(slices.Clone(r.Hidden.Data), r.Logits.Data...)
}

// TestMTPBlocksOneAnswer: promise P1 for several MTP blocks: chunks, sessions at other steps of their drafts in the
// same pass, several drafted tokens at once and trees, on all kernels and threads.
func TestMTPBlocksOneAnswer(t *testing.T) {
	for _, c := range []struct {
		arch   string
		blocks int
		ends   bool
		types  string
	}{{"qwen35", 3, false, "q8_0"}, {"qwen35", 3, true, "f32"}, {"qwen35moe", 2, true, "q4_0"}} {
		file := mtpRecipe(c.arch, c.blocks, c.ends).File(t)
		var want, wantOther []float32
		for i, simd := range asm.Available() {
			rt := newRuntime(t, RuntimeOptions{Threads: 1 + i%2, SIMD: simd})
			_, head := openMTP(t, rt, file, Options{Weights: c.types})
			x := newMTPText(34, 3)
			for mode := range 3 { // passes of one session; of two, in either order
				what := fmt.Sprint(c.arch, " ", c.types, " ", simd, ", mode ", mode)
				s, o := newSession(t, head, SessionOptions{}),
					&mtpOther{s: newSession(t, head, SessionOptions{}), x: newMTPText(34, 4), blocks: c.blocks}
				var got, gotOther []float32
				drafts := mtpRounds(t, s, x, c.blocks, 18, 9, func(g Segment) Result {
					g.Session = s
					b := Batch{g, o.segment(t)}
					var r Result
					switch mode {
					case 0:
						gotOther = append(gotOther, o.keep(forward(t, head, b[1:])[0])...)
						r = forward(t, head, b[:1])[0]
					case 1:
						out := forward(t, head, b)
						gotOther = append(gotOther, o.keep(out[1])...)
						r = out[0]
					case 2:
						b[0], b[1] = b[1], b[0]
						out := forward(t, head, b)
						gotOther = append(gotOther, o.keep(out[0])...)
						r = out[1]
					}
					return r
				})
				for _, d := range drafts {
					got = append(got, d.flat()...)
				}
				if want == nil {
					want, wantOther = got, gotOther
				}
				sameBits(t, what, got, want)
				sameBits(t, what+", the other", gotOther, wantOther)

				if mode > 0 {
					continue
				}
				// The whole text at once, then all drafted tokens at once.
				for _, d := range drafts {
					whole := newSession(t, head, SessionOptions{})
					out := forward(t, head, Batch{func() Segment { g := x.segment(0, d.text); g.Session = whole; return g }()})[0]
					one := append(slices.Clone(out.Hidden.Data), out.Logits.Data...)
					g := Segment{Session: whole, Tokens: d.drafted, Logits: All, Hidden: All, Layers: []int{FinalNorm}}
					for _, y := range d.states[:len(d.drafted)] {
						g.States = append(g.States, y...)
					}
					out = forward(t, head, Batch{g})[0]
					for i := range d.drafted {
						one = append(append(one, out.Hidden.Row(i)...), out.Logits.Row(i)...)
					}
					sameBits(t, what+", at once", one, d.flat())
				}
				// The end of the text as a tree's path.
				d := drafts[0]
				tree := newSession(t, head, SessionOptions{})
				forward(t, head, Batch{func() Segment { g := x.segment(0, d.text-2); g.Session = tree; return g }()})
				g := x.segment(d.text-2, d.text)
				g.Session, g.Parents = tree, []int32{-1, -1, 1}
				g.Tokens = []int32{9, g.Tokens[0], g.Tokens[1]}
				g.States = append(slices.Clone(g.States[:randommodel.Width]), g.States...)
				out := forward(t, head, Batch{g})[0]
				one := append(slices.Clone(out.Hidden.Data), out.Logits.Data...)
				if err := tree.Commit([]int32{1, 2}); err != nil {
					t.Fatal(err)
				}
				for i, id := range d.drafted {
					out := forward(t, head, Batch{{Session: tree, Tokens: []int32{id}, States: d.states[i], Logits: Last,
						Hidden: Last, Layers: []int{FinalNorm}}})[0]
					one = append(append(one, out.Hidden.Data...), out.Logits.Data...)
				}
				sameBits(t, what+", a tree", one, d.flat())
			}
		}
	}
}

// TestMTPBlocksStreamed: several MTP blocks whose weights are read from disk draft as those in memory do.
func TestMTPBlocksStreamed(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, arch := range []string{"qwen35", "qwen35moe"} {
		file := written(t, mtpRecipe(arch, 3, true).File(t))
		target := openModel(t, rt, file, Options{})
		whole, streamed := both(t, rt, file, Options{MTP: true, Target: target, Weights: "q8_0"})
		x := newMTPText(34, 7)
		var want, got []float32
		for _, m := range []*Model{whole, streamed} {
			s := newSession(t, m, SessionOptions{})
			want, got = got, nil
			for _, d := range mtpRounds(t, s, x, 3, 18, 9, func(g Segment) Result {
				g.Session = s
				return forward(t, m, Batch{g})[0]
			}) {
				got = append(got, d.flat()...)
			}
		}
		sameBits(t, arch, got, want)
	}
}
