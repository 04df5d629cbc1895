package speculative

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/testdata"
)

// randomHead is an EAGLE-3 head with random weights for a target.
func randomHead(t testing.TB, rt *engine.Runtime, target *engine.Model) *engine.Model {
	return randomHeadOf(t, rt, target, []int32{0, 1, 2}, false)
}

// headOptions configure headed.
type headOptions struct {
	Tree    bool              // drafts are best-first trees (EAGLE-2); otherwise chains
	Sources []CandidateSource // of candidates beside the head's; nil: none
}

// headed drafts with a draft head.
func headed(head Sequence, o headOptions) Drafter {
	sources := append([]CandidateSource{}, o.Sources...)
	switch {
	case o.Tree:
		return Tree(head, TreeOptions{Sources: sources})
	case len(sources) > 0:
		return Splice(head, TreeOptions{Sources: sources})
	}
	return Model(head)
}

// randomHeadOf is a random head that reads these layers of its target. With few it knows a third of the target's
// tokens only.
func randomHeadOf(t testing.TB, rt *engine.Runtime, target *engine.Model, layers []int32, few bool) *engine.Model {
	t.Helper()
	const heads, kv, ff = 4, 2, 96
	width, vocab := target.Config().HiddenSize, target.Config().Vocab
	key := func(k string, v gguf.Value) gguf.KV { return gguf.KV{Key: "eagle3." + k, Value: v} }
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: "eagle3"}, key("vocab_size", uint32(vocab)), key("context_length", uint32(512)),
		key("embedding_length", uint32(width)),
		key("block_count", uint32(1)), key("feed_forward_length", uint32(ff)), key("attention.head_count", uint32(heads)),
		key("attention.head_count_kv", uint32(kv)),
		key("attention.layer_norm_rms_epsilon", float32(1e-5)), key("target_layers", layers),
		key("target_hidden_size", uint32(width)),
	}
	rng := rand.New(rand.NewPCG(7, 8))
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float64, dims ...int) {
		tensors = append(tensors, randomTensor(rng, name, mean, spread, dims...))
	}
	matrix := func(name string, rows, cols int) { add(name, 0, 1/math.Sqrt(float64(cols)), cols, rows) }
	matrix("fc.weight", width, 3*width)
	for _, name := range []string{"blk.0.attn_norm.weight", "blk.0.attn_norm_2.weight", "blk.0.ffn_norm.weight",
		"output_norm.weight"} {
		add(name, 1, 0.2, width)
	}
	matrix("blk.0.attn_q.weight", width, 2*width)
	matrix("blk.0.attn_k.weight", width*kv/heads, 2*width)
	matrix("blk.0.attn_v.weight", width*kv/heads, 2*width)
	matrix("blk.0.attn_output.weight", width, width)
	matrix("blk.0.ffn_gate.weight", ff, width)
	matrix("blk.0.ffn_up.weight", ff, width)
	matrix("blk.0.ffn_down.weight", width, ff)
	if few {
		var ids []int64
		for id := int64(1); id < int64(vocab); id += 3 {
			ids = append(ids, id)
		}
		matrix("output.weight", len(ids), width)
		tensors = append(tensors, gguf.TensorSource{
			Name: "d2t", Type: gguf.Type(27), Dims: []uint64{uint64(len(ids))},
			Write: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, ids) }})
	}
	return openTensors(t, rt, kvs, tensors, engine.Options{Name: "head", Target: target})
}

// anew are logits of a head that are computed from nothing, each once: after a text and after each token of a branch.
type anew struct {
	compute func(t *testing.T, target, head *engine.Model, text, branch []int32) [][]float32
	rows    map[string][]float32
}

func (a *anew) row(t *testing.T, target, head *engine.Model, text, branch []int32) []float32 {
	t.Helper()
	key := fmt.Sprint(text, branch)
	if a.rows[key] == nil {
		if a.rows == nil {
			a.rows = map[string][]float32{}
		}
		for i, row := range a.compute(t, target, head, text, branch) {
			a.rows[fmt.Sprint(text, branch[:i])] = row
		}
	}
	return a.rows[key]
}

// headRow is the last of headRows.
func headRow(t *testing.T, target, head *engine.Model, text, branch []int32) []float32 {
	t.Helper()
	return headRows(t, target, head, text, branch)[len(branch)]
}

// headRows computes the head's logits after text and after each token of branch from nothing: one pass of the target
// over the text but its last token, one of the head over all pairs, then token by token on the head's own states.
func headRows(t *testing.T, target, head *engine.Model, text, branch []int32) (rows [][]float32) {
	t.Helper()
	n, layers := len(text), target.StatesFor(head)
	states, err := session(t, target, 0).EvalSegment(
		context.Background(), engine.Segment{Tokens: text[:n-1], Hidden: engine.All, Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	s, tokens, fed := session(t, head, 0), text[1:], states.Hidden.Data
	output := []int{head.Head().Output}
	if head.Head().FirstToken {
		tokens, fed = text, append(make([]float32, head.Config().HiddenSize), fed...)
	}
	r, err := s.EvalSegment(context.Background(), engine.Segment{
		Tokens: tokens, States: fed, FromTarget: true, Logits: engine.Last, Hidden: engine.Last, Layers: output,
	})
	for _, id := range branch {
		if err != nil {
			break
		}
		rows = append(rows, slices.Clone(r.Logits.Row(0)))
		r, err = s.EvalSegment(context.Background(), engine.Segment{
			Tokens: []int32{id}, States: slices.Clone(r.Hidden.Data), Logits: engine.Last, Hidden: engine.Last, Layers: output,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(rows, slices.Clone(r.Logits.Row(0)))
}

// witness is a drafter that looks at another one's chains: each token must be the one that the head picks when it
// computes everything anew.
type witness struct {
	Attentive
	t            *testing.T
	target, head *engine.Model
	sampling     engine.Sampling
	anew         anew
	drafted      int
}

func (w *witness) Draft(ctx context.Context, sequence []int32, d *Draft) error {
	text := slices.Clone(sequence)
	before := d.Len()
	if err := w.Attentive.Draft(ctx, sequence, d); err != nil {
		return err
	}
	if len(text) < 2 {
		return nil
	}
	sampler, err := sampling.New(w.target.Config().Vocab, w.sampling)
	if err != nil {
		w.t.Fatal(err)
	}
	own := d.Tokens[before:]
	for i, id := range slices.Backward(own) {
		if i > 0 && i < len(own)-1 {
			continue // the last one depends on all
		}
		row := w.anew.row(w.t, w.target, w.head, text, own[:i])
		if want := sampler.Pick(row, append(slices.Clone(text), own[:i]...)); want != id {
			w.t.Errorf("after %d tokens, drafted token %d is %d, computed anew it is %d", len(text), i, id, want)
		}
		w.drafted++
	}
	if len(own) == 0 {
		w.t.Errorf("nothing drafted after %d tokens", len(text))
	}
	return nil
}

// TestEagleStates: whatever is accepted, a head's drafts are those that it makes of the whole text at once, with its
// cache and its states kept from round to round and from text to text.
func TestEagleStates(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := randomModel(t, rt, 0)
	testHeadStates(t, target, randomHead(t, rt, target), greedyAndSampled...)
}

// TestMTPStates: likewise for the MTP block of a model with recurrent layers.
func TestMTPStates(t *testing.T) {
	file := testkit.Shared(t, "families/models/qwen35.gguf")
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, err := engine.Open(context.Background(), rt, file, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	head, err := engine.Open(context.Background(), rt, file, engine.Options{MTP: true, Target: target})
	if err != nil {
		t.Fatal(err)
	}
	testHeadStates(t, target, head, greedyAndSampled...)
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 2}} {
		want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 40}), matrixPrompt, s)
		for _, tree := range []bool{false, true} {
			for _, context := range []int{0, 25} {
				d := New(session(t, target, 0), headed(session(t, head, context), headOptions{Tree: tree}),
					Options{Schedule: Constant(ConstantOptions{Length: 6}), MaxTokens: 40})
				for range 2 {
					if got, _ := collect(t, d, matrixPrompt, s); !slices.Equal(got, want) {
						t.Errorf("%+v, tree %v: got %v, want %v", s, tree, got, want)
					}
				}
				if st := d.Stats(); st.Drafted < 20 || context == 0 && st.Reused != len(matrixPrompt)-2 {
					t.Errorf("%+v", st)
				}
			}
		}
	}
}

// greedyAndSampled are two ways to write the texts of testHeadStates.
var greedyAndSampled = []engine.Sampling{{}, {Temperature: 0.8, Seed: 3}}

func testHeadStates(t *testing.T, target, head *engine.Model, samplings ...engine.Sampling) {
	t.Helper()
	one := session(t, target, 0)
	for _, s := range samplings {
		w := &witness{Attentive: headed(session(t, head, 0), headOptions{}).(Attentive), t: t, target: target,
			head: head, sampling: s, anew: anew{compute: headRows}}
		testTexts(t, target, one, w, s, 4, 30, 90)
		if w.drafted < 100 {
			t.Errorf("%d drafted tokens were looked at", w.drafted)
		}
	}
}

// testTexts decodes eight texts (four sampled ones) of so many tokens on one session, with a drafter alone and beside
// a record, or two in tests that take long; each is plain decoding's text. Most prompts begin as the text before; two
// go on otherwise, with the token other and the next one.
func testTexts(t *testing.T, target *engine.Model, one *engine.Session, w Drafter, s engine.Sampling, length,
	tokens int, other int32) {
	t.Helper()
	prompt := matrixPrompt
	texts := 8
	if s.Temperature > 0 && !testkit.IsLong(t) { // what is drawn differs, not how texts follow each other
		texts = 4
	}
	for text := range texts {
		want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: tokens}), prompt, s)
		// A record that is wrong now and then makes the rounds accept 0 to length tokens.
		for i, drafter := range []Drafter{w, Merge(w, Replay(ReplayOptions{Tokens: want, ErrorEvery: 4})),
			Merge(Replay(ReplayOptions{Tokens: want, ErrorEvery: 7}), w)} {
			if i == 1+text%2 && !testkit.IsLong(t) { // the records take turns
				continue
			}
			d := New(one, drafter, Options{Schedule: Constant(ConstantOptions{Length: length}), MaxTokens: tokens})
			got, _ := collect(t, d, prompt, s)
			if !slices.Equal(got, want) {
				t.Fatalf("text %d: got %v, want %v", text, got, want)
			}
			if text == 1 { // others use the target in between
				if err := one.Truncate(3); err != nil {
					t.Fatal(err)
				}
			}
		}
		all := append(slices.Clone(prompt), want...)
		prompt = [][]int32{all, all[:len(all)-1], append(slices.Clone(all[:20]), other, other+1),
			append(slices.Clone(all[:3]), other+1), {5, 4, 3, 2, 1}, {5, 4, 3, 2, 1}, {7}, {7}}[text]
	}
}

// TestEagleTreeStates: likewise for every node of a tree.
func TestEagleTreeStates(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := randomModel(t, rt, 0)
	head := randomHead(t, rt, target)
	nodes, aside := 0, 0
	var lastText []int32
	for _, o := range []headOptions{{Tree: true},
		{Tree: true, Sources: []CandidateSource{SuffixSource(SuffixOptions{})}}} {
		d := New(session(t, target, 0), headed(session(t, head, 0), o), Options{
			Schedule: Constant(ConstantOptions{Length: 24}), MaxTokens: 20,
			Trace: func(r *Round) {
				// The candidates after a node are its most likely tokens: the first of the model's children is the likeliest.
				if len(o.Sources) > 0 {
					return
				}
				text := slices.Clone(lastText[:r.Position])
				for i := range r.Draft.Len() {
					if r.Draft.firstChild(r.Draft.Parent(i)) != i {
						continue
					}
					var branch []int32
					for at := r.Draft.Parent(i); at >= 0; at = r.Draft.Parent(at) {
						branch = slices.Insert(branch, 0, r.Draft.Tokens[at])
					}
					if at := r.Draft.Parent(i); at >= 0 && r.Draft.firstChild(r.Draft.Parent(at)) != at {
						aside++
					}
					row := headRow(t, target, head, text, branch)
					if want := int32(argmax(row)); want != r.Draft.Tokens[i] {
						t.Errorf("round at %d, after %d: drafted %d, computed anew it is %d", r.Position, branch, r.Draft.Tokens[i], want)
					}
					nodes++
				}
			},
		})
		want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 20}), matrixPrompt, engine.Sampling{})
		lastText = append(slices.Clone(matrixPrompt), want...)
		if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if nodes < 40 || aside < 10 {
		t.Errorf("%d nodes were looked at, %d after a second choice", nodes, aside)
	}
}

func argmax(x []float32) (best int) {
	for i := range x {
		if x[i] > x[best] {
			best = i
		}
	}
	return best
}

// TestEagleIdentity: promise P2 with a head, for all verifiers that keep it, schedules and shapes of drafts.
func TestEagleIdentity(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := randomModel(t, rt, 0)
	head := randomHead(t, rt, target)
	eagle := func(_ *engine.Session, o headOptions) Drafter { return headed(session(t, head, 0), o) }
	for turn, s := range []engine.Sampling{{}, {Temperature: 0.8, TopP: 0.95, Seed: 1},
		{Temperature: 1, RepeatPenalty: 1.2, Seed: 2}} {
		want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 40}), matrixPrompt, s)
		testHeadIdentity(t, target, matrixPrompt, want, s, turn, eagle, map[string]func(*engine.Session) Drafter{
			"splice": func(*engine.Session) Drafter { return Splice(session(t, head, 0), TreeOptions{}) },
			"tree":   func(*engine.Session) Drafter { return Tree(session(t, head, 0), TreeOptions{}) },
			"short":  func(*engine.Session) Drafter { return headed(session(t, head, 25), headOptions{}) },
			"merged": func(one *engine.Session) Drafter {
				return Merge(eagle(one, headOptions{Tree: true}), NGram(NGramOptions{}),
					Replay(ReplayOptions{Tokens: want, ErrorEvery: 5}))
			},
		})
	}
}

// TestLongEagleIdentity: every schedule with each way to sample.
func TestLongEagleIdentity(t *testing.T) {
	testkit.Long(t)
	TestEagleIdentity(t)
}

// testHeadIdentity: a head's chains and other drafters write want, the 40 tokens that plain decoding writes after a
// prompt, under half of the schedules, the other ones in the next turn, or all in tests that take long; sampled, the
// head drafts for verifiers that write other texts too. The drafters are for a target's session.
func testHeadIdentity(t *testing.T, target *engine.Model, prompt, want []int32, s engine.Sampling, turn int,
	head func(*engine.Session, headOptions) Drafter, others map[string]func(*engine.Session) Drafter) {
	t.Helper()
	others["chain"] = func(one *engine.Session) Drafter { return head(one, headOptions{}) }
	for i, name := range slices.Sorted(maps.Keys(others)) {
		for k, schedule := range matrixSchedules(5) {
			if (i+k+turn)%2 > 0 && !testkit.IsLong(t) {
				continue
			}
			one := session(t, target, 0)
			d := New(one, others[name](one), Options{Schedule: schedule.make(), MaxTokens: 40})
			for range 2 {
				if got, _ := collect(t, d, prompt, s); !slices.Equal(got, want) {
					t.Errorf("%+v, %s, %s:\n got %v\nwant %v", s, name, schedule.name, got, want)
				}
			}
			if d.Stats().Drafted == 0 && schedule.name != "auto" { // auto finds out that random weights draft nothing of use
				t.Errorf("%s, %s: nothing was drafted", name, schedule.name)
			}
		}
	}
	if s.Temperature == 0 {
		return
	}
	for _, verifier := range []Verifier{Rejection(), Block()} { // the texts are others; the head must follow them
		for _, tree := range []bool{false, true} {
			one := session(t, target, 0)
			d := New(one, head(one, headOptions{Tree: tree}),
				Options{Schedule: Constant(ConstantOptions{Length: 5}), Verifier: verifier, MaxTokens: 40})
			if got, _ := collect(t, d, prompt, s); len(got) != 40 || d.Stats().Drafted < 40 {
				t.Errorf("%d tokens, %+v", len(got), d.Stats())
			}
		}
	}
}

// A head whose context ends within a text keeps no states of what comes behind it. A text that begins beyond it costs
// the target no token again, and after it a shorter one is drafted for as before.
func TestHeadsOfAShorterContext(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := randomModel(t, rt, 0)
	small := randomHead(t, rt, target)
	one, o := session(t, target, 0), Options{MaxTokens: 100, Schedule: Constant(ConstantOptions{Length: 4})}
	d := New(one, Model(session(t, small, 25)), o)
	write := func(d *Decoder, prompt []int32) Stats {
		t.Helper()
		want, _ := collect(t, New(session(t, target, 0), nil, o), prompt, engine.Sampling{})
		if got, _ := collect(t, d, prompt, engine.Sampling{}); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		return d.Stats()
	}
	s := write(d, matrixPrompt)
	h := d.drafter.(*modelDrafter).head.(*head)
	if len(h.waiting) > 8*h.width || s.Drafted == 0 {
		t.Errorf("%d states wait, of %d numbers each; %+v", len(h.waiting)/h.width, h.width, s)
	}
	long := append(slices.Clone(matrixPrompt), d.sequence[len(matrixPrompt):]...)
	for _, x := range []*Decoder{d, New(one, Model(session(t, small, 25)), o)} {
		if s := write(x, long); s.Reused != len(long)-1 || s.Drafted > 0 {
			t.Errorf("%d tokens, of which the target had all but the last: %+v", len(long), s)
		}
	}
	if s := write(d, matrixPrompt); s.Drafted == 0 || s.Reused != len(matrixPrompt)-2 {
		t.Errorf("a shorter text after it: %+v", s)
	}
}

func TestEagleRefused(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := randomModel(t, rt, 0)
	head := session(t, randomHead(t, rt, target), 0)
	failed := func(seq Sequence, o Options) (err error) {
		for _, e := range New(seq, headed(head, headOptions{}), o).Generate(
			context.Background(), matrixPrompt, engine.Sampling{}) {
			err = e
		}
		return err
	}
	if err := failed(newFake(t, 96, 100, random(1)), Options{}); !errors.Is(err, ErrOptions) {
		t.Errorf("a target without hidden states: %v", err)
	}
	if err := failed(session(t, target, 0), Options{
		Verifier: Stairs(StairsOptions{Recompute: true})}); !errors.Is(err, ErrOptions) {
		t.Errorf("a verifier that evaluates by itself: %v", err)
	}
	if _, ok := headed((*engine.Session)(nil), headOptions{}).(Attentive); !ok {
		t.Error("no session")
	}
}

// A round with a head allocates nothing.
func TestEagleRoundsAllocateNothing(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := randomModel(t, rt, 0)
	head := randomHead(t, rt, target)
	for _, tree := range []bool{false, true} {
		d := New(session(t, target, 0), headed(session(t, head, 0), headOptions{Tree: tree}),
			Options{Schedule: Constant(ConstantOptions{Length: 4})})
		roundsAllocateNothing(t, fmt.Sprint("tree ", tree), d, engine.Sampling{})
	}
}

// TestEagleTargets: EAGLE-3 heads on every architecture that they are made for, among them ones with windows,
// experts, sinks, layers that share keys and values, and recurrent layers: drafts are what the head makes of the
// whole text at once, and chains, trees and merges write plain decoding's text.
func TestEagleTargets(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	for i, name := range []string{"llama-tied", "qwen3", "qwen3moe", "gemma4", "gpt-oss", "qwen35"} {
		t.Run(name, func(t *testing.T) {
			file := testkit.Shared(t, "families/models", name+".gguf")
			target, err := engine.Open(context.Background(), rt, file, engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			last := int32(target.Config().Layers)
			// In every second one the state after the last layer, and a head that knows some of the tokens.
			head := randomHeadOf(t, rt, target, []int32{1, 0, last - int32((i+1)%2)}, i%2 == 0)
			defer head.Close()
			switch {
			case testkit.IsLong(t):
				testHeadStates(t, target, head, greedyAndSampled...)
			case i == 3:
				testHeadStates(t, target, head, greedyAndSampled[0])
			case i == 5:
				testHeadStates(t, target, head, greedyAndSampled[1])
			}
			one := session(t, target, 0)
			for k, s := range []engine.Sampling{{}, {Temperature: 0.9, Seed: 4}} {
				if !testkit.IsLong(t) && (i+k)%2 == 1 && i != 5 {
					continue
				}
				want, _ := collect(t, New(one, nil, Options{MaxTokens: 24}), matrixPrompt, s)
				// so that drafts are accepted
				record := func() Drafter { return Replay(ReplayOptions{Tokens: want, ErrorEvery: 5}) }
				for what, drafter := range map[string]Drafter{
					"chain": headed(session(t, head, 0), headOptions{}), "tree": headed(session(t, head, 0), headOptions{Tree: true}),
					"chain, merged": Merge(headed(session(t, head, 0), headOptions{}), record()),
					"tree, merged":  Merge(record(), Tree(session(t, head, 0), TreeOptions{})),
				} {
					d := New(session(t, target, 0), drafter, Options{Schedule: Constant(ConstantOptions{Length: 6}), MaxTokens: 24})
					for turn := range 2 { // the second text begins as the first one
						got, _ := collect(t, d, matrixPrompt[:len(matrixPrompt)-turn], s)
						if turn == 0 && !slices.Equal(got, want) {
							t.Errorf("%s, temperature %v: got %v, want %v", what, s.Temperature, got, want)
						}
						if st := d.Stats(); st.Drafted < 24 {
							t.Errorf("%s: %d tokens were drafted", what, st.Drafted)
						}
					}
				}
			}
		})
	}
}

// TestLongEagleTargets: the states of the heads of every architecture, and each of them greedily and sampled.
func TestLongEagleTargets(t *testing.T) {
	testkit.Long(t)
	TestEagleTargets(t)
}

// pairHead opens the head of the embedded target.
func pairHead(t testing.TB, target *engine.Model) *engine.Model {
	t.Helper()
	m, err := engine.New(context.Background(), target.Runtime(), testdata.Head(), testdata.Head().Size(),
		engine.Options{Name: "head", Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEaglePair: the trained head on held-out prompts writes plain decoding's text, and brings more tokens per pass
// of the target than the draft model at the same draft length, greedily and sampled.
func TestEaglePair(t *testing.T) {
	n := 60
	if !testkit.IsLong(t) {
		n = 3
	}
	texts := prompts(t, "prompts-code.jsonl", n)
	target, draft := pair(t)
	one, drafters := session(t, target, 0), []named[Drafter]{
		{"model", func() Drafter { return Model(session(t, draft, 0)) }},
		{"eagle", func() Drafter { return headed(session(t, pairHead(t, target), 0), headOptions{}) }},
		{"tree", func() Drafter { return Tree(session(t, draft, 0), TreeOptions{Sources: []CandidateSource{}}) }},
		{"eagle tree", func() Drafter { return headed(session(t, pairHead(t, target), 0), headOptions{Tree: true}) }},
	}
	type sum struct {
		tokens, passes int
		at             [5]int
	}
	temperatures := []float32{0, 0.8}
	sums, made := make([][2]sum, len(drafters)), make([]Drafter, len(drafters))
	for k := range drafters {
		made[k] = drafters[k].make()
	}
	for i, text := range texts { // one after the other, so that its prompt is kept
		prompt := target.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true})
		var want [2][]int32
		for j, temperature := range temperatures {
			if i < 4 {
				want[j] = pairText(t, prompt, engine.Sampling{Temperature: temperature, Seed: uint64(i)}, 64)
			}
		}
		for k, drafter := range drafters {
			for j, temperature := range temperatures {
				d := New(one, made[k], Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 64})
				got, _ := collect(t, d, prompt, engine.Sampling{Temperature: temperature, Seed: uint64(i)})
				if i < 4 && !slices.Equal(got, want[j]) {
					t.Errorf("%s, temperature %v, prompt %d: got %v, want %v", drafter.name, temperature, i, got, want[j])
				}
				st, x := d.Stats(), &sums[k][j]
				x.tokens, x.passes = x.tokens+st.Generated, x.passes+st.TargetPasses
				for depth := range min(len(x.at), len(st.AcceptedAt)) {
					x.at[depth] += st.AcceptedAt[depth]
				}
			}
		}
	}
	for j, temperature := range temperatures {
		perPass := map[string]float64{}
		for k, drafter := range drafters {
			x := sums[k][j]
			perPass[drafter.name] = float64(x.tokens) / float64(x.passes)
			t.Logf("temperature %v, %s: %.3f tokens per pass, accepted at depths 1 to 5: %d of %d passes", temperature,
				drafter.name, perPass[drafter.name], x.at, x.passes)
		}
		if perPass["eagle"] < 1.15*perPass["model"] {
			t.Errorf("temperature %v: %.3f tokens per pass with the head, %.3f with the draft model", temperature,
				perPass["eagle"], perPass["model"])
		}
	}
}

// TestLongEaglePair: with twenty times the texts.
func TestLongEaglePair(t *testing.T) {
	testkit.Long(t)
	TestEaglePair(t)
}

// TestSharedEagle: decoders of several goroutines share the passes of target and head.
func TestSharedEagle(t *testing.T) {
	texts := prompts(t, "prompts-code.jsonl", 3)
	target, _ := pair(t)
	targets := shared.New(target, shared.Options{})
	defer targets.Close()
	head := pairHead(t, target)
	heads := shared.New(head, shared.Options{})
	defer heads.Close()
	one := session(t, target, 0)
	var wait sync.WaitGroup
	for i := range 6 {
		s := engine.Sampling{Temperature: float32(i%2) * 0.8, Seed: uint64(i)}
		prompt := target.Tokenizer().Encode(texts[i%3], bpe.EncodeOptions{AddSpecial: true})[:100]
		want, _ := collect(t, New(one, nil, Options{MaxTokens: 24}), prompt, s)
		alone := New(one, headed(session(t, head, 0), headOptions{Tree: i >= 3}),
			Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 24})
		collect(t, alone, prompt, s)
		wait.Go(func() {
			a, err1 := targets.NewSession(context.Background(), shared.SessionOptions{})
			b, err2 := heads.NewSession(context.Background(), shared.SessionOptions{})
			if err := errors.Join(err1, err2); err != nil {
				t.Error(err)
				return
			}
			defer a.Close()
			defer b.Close()
			d := New(a, headed(b, headOptions{Tree: i >= 3}),
				Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 24})
			for range 2 {
				var got []int32
				for token, err := range d.Generate(context.Background(), prompt, s) {
					if err != nil {
						t.Error(err)
						return
					}
					got = append(got, token.ID)
				}
				if !slices.Equal(got, want) {
					t.Errorf("decoder %d: got %v, want %v", i, got, want)
				}
				if i < 3 && d.Stats().Accepted != alone.Stats().Accepted { // a tree's order depends on time
					t.Errorf("decoder %d: %d tokens accepted, alone %d", i, d.Stats().Accepted, alone.Stats().Accepted)
				}
			}
		})
	}
	wait.Wait()
}
