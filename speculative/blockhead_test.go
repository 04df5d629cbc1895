package speculative

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// randomBlockHead is a DFlash head with random weights for a target, or with a rank a DSpark head, of whose layers one
// has a window.
func randomBlockHead(t testing.TB, rt *engine.Runtime, target *engine.Model, rank int, layers ...int32) *engine.Model {
	t.Helper()
	c := target.Config()
	x := randommodel.DFlash{Width: c.HiddenSize, Vocab: c.Vocab, Layers: layers, Rank: rank}
	if rank > 0 {
		x.Window, x.Windows = 9, []bool{false, true}
	}
	file := x.File(t)
	return openRandom(t, rt, file, engine.Options{Name: "block head", Target: target})
}

// blockRanks are those of a DFlash and of a DSpark head.
var blockRanks = []int{0, 32}

// blockDrafters draft with a block head: chains, trees, with what a source adds, and in a short context.
func blockDrafters(t testing.TB, head *engine.Model) map[string]func() Drafter {
	of := func(o headOptions) func() Drafter {
		return func() Drafter { return headed(session(t, head, 0), o) }
	}
	return map[string]func() Drafter{
		"chain": of(headOptions{}), "tree": of(headOptions{Tree: true}),
		"splice": func() Drafter { return Splice(session(t, head, 0), TreeOptions{}) },
		"lookup": func() Drafter { return Tree(session(t, head, 0), TreeOptions{}) },
		"short":  func() Drafter { return headed(session(t, head, 25), headOptions{}) },
	}
}

// blockRows computes a head's block of n drafted tokens after a text from nothing.
func blockRows(t *testing.T, target, head *engine.Model, text []int32, n int) (rows [][]float32) {
	t.Helper()
	ctx, fed := context.Background(), text[:len(text)-1]
	states, err := session(t, target, 0).EvalSegment(ctx, engine.Segment{Tokens: fed, Hidden: engine.All,
		Layers: target.StatesFor(head)})
	if err != nil {
		t.Fatal(err)
	}
	s := session(t, head, 0)
	g := engine.Segment{Tokens: fed, States: states.Hidden.Data, FromTarget: true}
	if _, err := s.EvalSegment(ctx, g); err != nil {
		t.Fatal(err)
	}
	r, err := s.EvalSegment(ctx, head.Head().Drafts(text[len(text)-1], n))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		rows = append(rows, slices.Clone(r.Logits.Row(i)))
	}
	return rows
}

// blockWitness is a drafter that looks at the chains of a block head: each token must be the one that is picked from
// the block when everything is computed anew.
type blockWitness struct {
	Attentive
	t            *testing.T
	target, head *engine.Model
	sampling     engine.Sampling
	drafted      int
}

func (w *blockWitness) Draft(ctx context.Context, sequence []int32, d *Draft) error {
	text, before := slices.Clone(sequence), d.Len()
	if err := w.Attentive.Draft(ctx, sequence, d); err != nil || len(text) < 2 {
		return err
	}
	own, n := d.Tokens[before:], w.Attentive.(*modelDrafter).head.(*blockHead).rows.Rows()
	if len(own) != min(n, d.maxDepth) || n != min(d.maxDepth, w.head.Head().Longest) {
		w.t.Errorf("after %d tokens: %d of a block of %d, of a draft of at most %d", len(text), len(own), n, d.maxDepth)
	}
	sampler, err := sampling.New(w.target.Config().Vocab, w.sampling)
	if err != nil {
		w.t.Fatal(err)
	}
	rows := blockRows(w.t, w.target, w.head, text, n)
	for i, id := range own {
		if want := sampler.Pick(rows[i], append(slices.Clone(text), own[:i]...)); want != id {
			w.t.Errorf("after %d tokens, drafted token %d is %d, computed anew it is %d", len(text), i, id, want)
		}
		w.drafted++
	}
	return nil
}

// TestBlockHeadStates: whatever is accepted, and from text to text, a block is the one that the head makes of the whole
// text at once, and one pass makes all of a draft.
func TestBlockHeadStates(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := openRandom(t, rt, randommodel.Llama().File(t), engine.Options{})
	for _, rank := range blockRanks {
		testBlockHeadStates(t, target, randomBlockHead(t, rt, target, rank))
	}
}

func testBlockHeadStates(t *testing.T, target, head *engine.Model) {
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 3}} {
		one := session(t, target, 0)
		w := &blockWitness{Attentive: Model(session(t, head, 0)).(Attentive), t: t, target: target, head: head,
			sampling: s}
		testTexts(t, target, one, w, s, 4, 20, 50)
		if w.drafted < 100 {
			t.Errorf("%d drafted tokens were looked at", w.drafted)
		}
	}
	d := New(session(t, target, 0), Model(session(t, head, 0)),
		Options{Schedule: Constant(ConstantOptions{Length: 9}), MaxTokens: 40})
	collect(t, d, matrixPrompt, engine.Sampling{})
	s, most := d.Stats(), head.Head().Longest
	if s.Drafted <= (most-1)*s.DraftPasses-most || s.Drafted > most*s.DraftPasses || s.DraftPasses > s.Rounds {
		t.Errorf("drafts of blocks of %d: %+v", most, s)
	}
}

// TestBlockHeadWindows: layers with a window keep what a block sees of a text that is much longer, and where the next
// text parts from it far back, the head reads it again: every block is the one that is computed anew.
func TestBlockHeadWindows(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	shape := randommodel.Llama()
	shape.Context = 2000
	target := openRandom(t, rt, shape.File(t), engine.Options{})
	long := randommodel.Tokens(1100, 70, 3)
	prompts := [][]int32{long, slices.Concat(long[:1000], long[:5]), slices.Concat(long[:300], long[:400])}
	var texts [][]int32
	for _, prompt := range prompts {
		text, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 10}), prompt, engine.Sampling{})
		texts = append(texts, text)
	}
	for _, windows := range [][]bool{{true, true}, {true, false}} {
		file := randommodel.DFlash{Window: 20, Windows: windows}.File(t)
		head := openRandom(t, rt, file, engine.Options{Target: target})
		w := &blockWitness{Attentive: Model(session(t, head, 0)).(Attentive), t: t, target: target, head: head}
		one := session(t, target, 0)
		for i, prompt := range prompts {
			want := texts[i]
			d := New(one, Merge(w, Replay(ReplayOptions{Tokens: want, ErrorEvery: 4})),
				Options{Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: 10})
			if got, _ := collect(t, d, prompt, engine.Sampling{}); !slices.Equal(got, want) {
				t.Errorf("%d tokens: got %v, want %v", len(prompt), got, want)
			}
		}
		if w.drafted < 25 {
			t.Errorf("%d drafted tokens were looked at", w.drafted)
		}
	}
}

// TestBlockHeadLattice: the candidates of a tree are the best of the row of their depth, whatever comes before them.
func TestBlockHeadLattice(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := openRandom(t, rt, randommodel.Llama().File(t), engine.Options{})
	head := randomBlockHead(t, rt, target, 0)
	want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 12}), matrixPrompt, engine.Sampling{})
	text := append(slices.Clone(matrixPrompt), want...)
	drafter := headed(session(t, head, 0), headOptions{Tree: true})
	nodes, aside := 0, 0
	d := New(session(t, target, 0), drafter, Options{Schedule: Constant(ConstantOptions{Length: 24}), MaxTokens: 12,
		Trace: func(r *Round) {
			n := drafter.(*tree).model.head.(*blockHead).rows.Rows()
			rows := blockRows(t, target, head, text[:r.Position], n)
			for i := range r.Draft.Len() {
				parent := r.Draft.Parent(i)
				if r.Draft.firstChild(parent) != i {
					continue
				}
				if best := int32(argmax(rows[r.Draft.Depth(i)-1])); best != r.Draft.Tokens[i] {
					t.Errorf("round at %d, depth %d: drafted %d, computed anew it is %d", r.Position, r.Draft.Depth(i),
						r.Draft.Tokens[i], best)
				}
				if nodes++; parent >= 0 && r.Draft.firstChild(r.Draft.Parent(parent)) != parent {
					aside++
				}
			}
			if r.Draft.Passes != 1 && r.Draft.Len() > 0 {
				t.Errorf("a tree of %d tokens in %d passes", r.Draft.Len(), r.Draft.Passes)
			}
		}})
	if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if nodes < 40 || aside < 1 {
		t.Errorf("%d nodes were looked at, %d after a second choice", nodes, aside)
	}
}

// TestBlockHeadIdentity: promise P2 with a block head, for all verifiers that keep it, schedules and shapes of drafts,
// with penalties and a grammar.
func TestBlockHeadIdentity(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := openRandom(t, rt, randommodel.Llama().File(t), engine.Options{})
	head := randomBlockHead(t, rt, target, 32)
	block := func(_ *engine.Session, o headOptions) Drafter { return headed(session(t, head, 0), o) }
	grammar := records(target.Config().Vocab)
	for i, s := range []engine.Sampling{{}, {Temperature: 0.8, TopP: 0.95, Seed: 1},
		{Temperature: 1, RepeatPenalty: 1.2, Seed: 2}, {Constraint: grammar, ConstraintFrom: len(matrixPrompt)}} {
		want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 40}), matrixPrompt, s)
		others := map[string]func(*engine.Session) Drafter{
			"merged": func(one *engine.Session) Drafter {
				return Merge(block(one, headOptions{Tree: true}), NGram(NGramOptions{}),
					Replay(ReplayOptions{Tokens: want, ErrorEvery: 5}))
			},
		}
		for k, name := range []string{"tree", "splice", "lookup", "short"} {
			if make := blockDrafters(t, head)[name]; testkit.IsLong(t) || (i+k)%2 == 0 {
				others[name] = func(*engine.Session) Drafter { return make() }
			}
		}
		testHeadIdentity(t, target, matrixPrompt, want, s, i/2, block, others)
	}
}

// TestLongBlockHeadIdentity: every drafter and schedule with every sampling.
func TestLongBlockHeadIdentity(t *testing.T) {
	testkit.Long(t)
	TestBlockHeadIdentity(t)
}

// TestBlockHeadTargets: with recurrent layers, windows and experts.
func TestBlockHeadTargets(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	for i, name := range []string{"qwen35", "qwen3moe", "gemma2"} {
		target := openRandom(t, rt, randommodel.Recipes()[name].File(t), engine.Options{})
		head := randomBlockHead(t, rt, target, blockRanks[i%2], 2, 0, 1)
		for _, s := range []engine.Sampling{{}, {Temperature: 0.9, Seed: 4}} {
			want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 24}), matrixPrompt, s)
			record := func() Drafter { return Replay(ReplayOptions{Tokens: want, ErrorEvery: 5}) }
			for what, make := range blockDrafters(t, head) {
				d := New(session(t, target, 0), Merge(make(), record()),
					Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 24})
				if got, _ := collect(t, d, matrixPrompt, s); !slices.Equal(got, want) || d.Stats().Drafted < 24 {
					t.Errorf("%s, %s, temperature %v: got %v, want %v; %d were drafted", name, what, s.Temperature, got, want,
						d.Stats().Drafted)
				}
			}
		}
	}
}

// A round with a block head allocates nothing.
func TestBlockHeadRoundsAllocateNothing(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := openRandom(t, rt, randommodel.Llama().File(t), engine.Options{})
	for i, tree := range []bool{false, true} {
		head := randomBlockHead(t, rt, target, blockRanks[1-i])
		d := New(session(t, target, 0), headed(session(t, head, 0), headOptions{Tree: tree}),
			Options{Schedule: Constant(ConstantOptions{Length: 4})})
		roundsAllocateNothing(t, fmt.Sprint("tree ", tree), d, engine.Sampling{})
	}
}
