package speculative

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// gemmaShape is that of a small gemma4 model or of a draft head for one. Heads have 16 dimensions in blocks with a
// window, 32 in others.
type gemmaShape struct {
	arch        string
	width, kept int // hidden size; of a head also its target's
	vocab       int
	windows     []bool // for each block
	window      uint32
	kvFull, kv  uint32 // heads of keys and values in blocks without and with a window
	dim         int    // of heads in blocks with a window; twice that in the others
}

func smallGemma() gemmaShape {
	return gemmaShape{arch: "gemma4", width: 64, vocab: 96, windows: []bool{true, false, true, false}, window: 11,
		kvFull: 1, kv: 2, dim: 16}
}

// headFor is a head's shape for a target of this shape.
func (g gemmaShape) headFor() gemmaShape {
	g.arch, g.width, g.kept, g.windows = "gemma4-assistant", 48, g.width, []bool{true, true, false}
	return g
}

// open writes the file of a random model and loads it.
func (g gemmaShape) open(t testing.TB, rt *engine.Runtime, o engine.Options) *engine.Model {
	t.Helper()
	const heads, ff = 4, 96
	blocks := len(g.windows)
	var kv []uint32
	for _, w := range g.windows {
		n := g.kvFull
		if w {
			n = g.kv
		}
		kv = append(kv, n)
	}
	key := func(k string, v gguf.Value) gguf.KV { return gguf.KV{Key: g.arch + "." + k, Value: v} }
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: g.arch}, key("vocab_size", uint32(g.vocab)),
		key("context_length", uint32(2000)), key("embedding_length", uint32(g.width)),
		key("block_count", uint32(blocks)), key("feed_forward_length", uint32(ff)),
		key("attention.head_count", uint32(heads)), key("attention.head_count_kv", kv),
		key("attention.layer_norm_rms_epsilon", float32(1e-6)), key("attention.key_length", uint32(2*g.dim)),
		key("attention.value_length", uint32(2*g.dim)),
		key("attention.key_length_swa", uint32(g.dim)), key("attention.value_length_swa", uint32(g.dim)),
		key("attention.sliding_window", g.window),
		key("attention.sliding_window_pattern", g.windows), key("rope.freq_base", float32(1e5)),
		key("rope.dimension_count_swa", uint32(g.dim)),
	}
	rng := rand.New(rand.NewPCG(17, uint64(g.width)))
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float64, dims ...int) {
		tensors = append(tensors, randomTensor(rng, name, mean, spread, dims...))
	}
	matrix := func(name string, rows, cols int) { add(name+".weight", 0, 1.3/math.Sqrt(float64(cols)), cols, rows) }
	norm := func(name string, n int) { add(name+".weight", 1, 0.2, n) }
	add("token_embd.weight", 0, 0.7, g.width, g.vocab)
	add("rope_freqs.weight", 2, 0.4, g.dim)
	norm("output_norm", g.width)
	if g.kept > 0 {
		kvs = append(kvs, key("nextn_predict_layers", uint32(blocks)), key("embedding_length_out", uint32(g.kept)))
		matrix("nextn.pre_projection", g.width, 2*g.kept)
		matrix("nextn.post_projection", g.kept, g.width)
	}
	for i, window := range g.windows {
		b, dim := fmt.Sprintf("blk.%d.", i), 2*g.dim
		if window {
			dim = g.dim
		}
		for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
			norm(b+name, g.width)
		}
		norm(b+"attn_q_norm", dim)
		matrix(b+"attn_q", heads*dim, g.width)
		matrix(b+"attn_output", g.width, heads*dim)
		if g.kept == 0 {
			norm(b+"attn_k_norm", dim)
			matrix(b+"attn_k", int(kv[i])*dim, g.width)
			matrix(b+"attn_v", int(kv[i])*dim, g.width)
		}
		matrix(b+"ffn_gate", ff, g.width)
		matrix(b+"ffn_up", ff, g.width)
		matrix(b+"ffn_down", g.width, ff)
		add(b+"layer_output_scale.weight", 0.8, 0.1, 1)
	}
	o.Name = g.arch
	m := openTensors(t, rt, kvs, tensors, o)
	t.Cleanup(m.Close)
	return m
}

func gemmaPair(t testing.TB) (target, head *engine.Model) {
	t.Helper()
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target = smallGemma().open(t, rt, engine.Options{})
	return target, smallGemma().headFor().open(t, rt, engine.Options{Target: target})
}

// reading is a session of a head that looks at a target's session.
func reading(t testing.TB, head *engine.Model, target *engine.Session) *engine.Session {
	t.Helper()
	s, err := head.NewSession(engine.SessionOptions{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// assistantRows is headRows for heads that look at their target's cache.
func assistantRows(t *testing.T, target, head *engine.Model, text, branch []int32) (rows [][]float32) {
	t.Helper()
	s := session(t, target, 0)
	r, err := s.EvalSegment(context.Background(),
		engine.Segment{Tokens: text[:len(text)-1], Hidden: engine.Last, Layers: head.TargetLayers()})
	if err != nil {
		t.Fatal(err)
	}
	own := reading(t, head, s)
	for _, id := range append([]int32{text[len(text)-1]}, branch...) {
		r, err = own.EvalSegment(context.Background(),
			engine.Segment{Tokens: []int32{id}, States: slices.Clone(r.Hidden.Data), Logits: engine.Last, Hidden: engine.Last,
				Layers: []int{engine.FinalNorm}})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, slices.Clone(r.Logits.Row(0)))
	}
	return rows
}

// observer is a drafter that looks at another one's drafts: each token must be the one that the head picks when it
// computes everything anew, or, in a tree, one of its candidates.
type observer struct {
	Attentive
	t            *testing.T
	target, head *engine.Model
	sampling     engine.Sampling
	tree         bool
	anew         anew
	looked       int
	most         int
	skip         int
}

func (o *observer) Draft(ctx context.Context, sequence []int32, d *Draft) error {
	text, before := slices.Clone(sequence), d.Len()
	if err := o.Attentive.Draft(ctx, sequence, d); err != nil || len(text) < 2 {
		return err
	}
	if d.Len() == before {
		o.t.Errorf("nothing drafted after %d tokens", len(text))
	}
	if o.skip++; o.skip%3 != 0 && len(text) > 60 {
		return nil
	}
	sampler, err := sampling.New(o.target.Config().Vocab, o.sampling)
	if err != nil {
		o.t.Fatal(err)
	}
	for i := d.Len() - 1; i >= before; i-- {
		var branch []int32
		for at := d.Parent(i); at >= 0; at = d.Parent(at) {
			branch = slices.Insert(branch, 0, d.Tokens[at])
		}
		row, path := o.anew.row(o.t, o.target, o.head, text, branch), append(slices.Clone(text), branch...)
		best := []sampling.Prob{{ID: sampler.Pick(row, path)}}
		if o.tree { // which of them comes first is a matter of experience
			best = sampler.AppendBest(nil, candidatesPerNode, row, path)
		}
		if !slices.ContainsFunc(best, func(p sampling.Prob) bool { return p.ID == d.Tokens[i] }) {
			o.t.Errorf("after %d tokens and %d: drafted %d, computed anew it is %v", len(text), branch, d.Tokens[i], best)
		}
		o.looked++
		o.most = max(o.most, len(branch)+1)
	}
	return nil
}

// TestAssistantStates: whatever is accepted, the drafts of a head that looks at its target's cache are those that it
// makes of the whole text at once, in chains and in trees, from round to round and from text to text.
func TestAssistantStates(t *testing.T) {
	target, head := gemmaPair(t)
	testAssistant(t, target, head)
}

// TestAssistantSharedTarget: likewise with the gemma4 model of ../shared, whose last layers share keys and values.
func TestAssistantSharedTarget(t *testing.T) {
	file := testkit.Shared(t, "families/models/gemma4.gguf")
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, err := engine.Open(context.Background(), rt, file, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	c := target.Config()
	g := gemmaShape{width: c.HiddenSize, vocab: c.Vocab, dim: c.HeadDim / 2}
	for _, shape := range target.Caches(0) {
		if shape.Window > 0 {
			g.window, g.kv = uint32(shape.Window), uint32(shape.Heads)
		} else {
			g.kvFull = uint32(shape.Heads)
		}
	}
	head := g.headFor().open(t, rt, engine.Options{Target: target})
	defer head.Close()
	testAssistant(t, target, head)
}

// TestLongAssistantSharedTarget: in trees too.
func TestLongAssistantSharedTarget(t *testing.T) {
	testkit.Long(t)
	TestAssistantSharedTarget(t)
}

func testAssistant(t *testing.T, target, head *engine.Model) {
	one := session(t, target, 0)
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 3}} {
		for _, tree := range []bool{false, true} {
			if tree && (s.Temperature > 0 || !testkit.IsLong(t) && target.Config().Vocab > 100) {
				continue // the children of a node are no draws then
			}
			w := &observer{Attentive: headed(reading(t, head, one), headOptions{Tree: tree}).(Attentive), t: t, target: target,
				head: head, sampling: s, tree: tree, anew: anew{compute: assistantRows}}
			length := 5
			if tree { // siblings are among its nodes
				length = 12
			}
			testTexts(t, target, one, w, s, length, 24, 50)
			if w.looked < 100 || w.most < 5 {
				t.Errorf("%d drafted tokens were looked at, in branches of up to %d", w.looked, w.most)
			}
		}
	}
}

// TestAssistantIdentity: promise P2 with a head that looks at its target's cache, for all schedules and shapes of
// drafts.
func TestAssistantIdentity(t *testing.T) {
	target, head := gemmaPair(t)
	long := random32(4, 700, 90)
	mtp := func(one *engine.Session, o headOptions) Drafter { return headed(reading(t, head, one), o) }
	for i, s := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 1},
		{Temperature: 1, TopP: 0.95, RepeatPenalty: 1.2, Seed: 2}} {
		// with the long one, the windows' caches have given up its beginning
		for j, prompt := range [][]int32{matrixPrompt, long} {
			if (i < 2) == (j > 0) && !testkit.IsLong(t) {
				continue // the way to sample that has everything has the long one
			}
			want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 40}), prompt, s)
			testHeadIdentity(t, target, prompt, want, s, i, mtp, map[string]func(*engine.Session) Drafter{
				"splice": func(one *engine.Session) Drafter { return Splice(reading(t, head, one), TreeOptions{}) },
				"tree":   func(one *engine.Session) Drafter { return Tree(reading(t, head, one), TreeOptions{}) },
				"merged": func(one *engine.Session) Drafter {
					return Merge(Tree(reading(t, head, one), TreeOptions{}), NGram(NGramOptions{}),
						Replay(ReplayOptions{Tokens: want, ErrorEvery: 5}))
				},
			})
		}
	}
}

// TestLongAssistantIdentity: greedy and each way to sample with both prompts and every schedule.
func TestLongAssistantIdentity(t *testing.T) {
	testkit.Long(t)
	TestAssistantIdentity(t)
}

// TestAssistantRefused: the decoder's target is the one that the head looks at; a text may be longer than the head's
// context.
func TestAssistantRefused(t *testing.T) {
	target, head := gemmaPair(t)
	one, other := session(t, target, 0), session(t, target, 0)
	failed := func(d *Decoder) (err error) {
		for _, e := range d.Generate(context.Background(), matrixPrompt, engine.Sampling{}) {
			err = e
		}
		return err
	}
	if err := failed(New(one, headed(reading(t, head, other),
		headOptions{}), Options{MaxTokens: 9})); !errors.Is(err, ErrOptions) {
		t.Errorf("the cache of another session: %v", err)
	}
	if err := failed(New(one, headed(reading(t, head, one), headOptions{}), Options{MaxTokens: 9})); err != nil {
		t.Error(err)
	}
	s, err := head.NewSession(engine.SessionOptions{Target: one, Context: len(matrixPrompt) + 4})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := New(one, headed(s, headOptions{}), Options{MaxTokens: 20, Schedule: Constant(ConstantOptions{Length: 3})})
	got, _ := collect(t, d, matrixPrompt, engine.Sampling{})
	if want, _ := collect(t, New(other, nil, Options{MaxTokens: 20}), matrixPrompt, engine.Sampling{}); !slices.Equal(
		got, want) || d.Stats().Drafted == 0 || d.Stats().Drafted > 15 {
		t.Errorf("a short context: %v, want %v; %+v", got, want, d.Stats())
	}
}

// TestAssistantRoundsAllocateNothing: nor do rounds with such a head.
func TestAssistantRoundsAllocateNothing(t *testing.T) {
	target, head := gemmaPair(t)
	for _, tree := range []bool{false, true} {
		one := session(t, target, 0)
		d := New(one, headed(reading(t, head, one), headOptions{Tree: tree}),
			Options{Schedule: Constant(ConstantOptions{Length: 4})})
		roundsAllocateNothing(t, fmt.Sprint("tree ", tree), d, engine.Sampling{})
	}
}

var (
	_ Metered   = (*shared.LentSession)(nil)
	_ Modeled   = (*shared.LentSession)(nil)
	_ Segmented = (*shared.LentSession)(nil)
)

// TestAssistantSharedPasses: decoders of many goroutines share the passes of the target, and each has a head that
// looks at its own sequence's cache: the texts are plain decoding's, also where memory is short.
func TestAssistantSharedPasses(t *testing.T) {
	target, head := gemmaPair(t)
	one := session(t, target, 0)
	if _, err := one.Eval(context.Background(), []int32{1}, nil, engine.None); err != nil {
		t.Fatal(err)
	}
	for _, budget := range []int64{0, 4 * one.Bytes()} {
		targets := shared.New(target, shared.Options{KVBytes: budget})
		var wait sync.WaitGroup
		for i := range 6 {
			prompt, s := random32(uint64(i/2), 30, 90), engine.Sampling{}
			if i%2 == 1 {
				s = engine.Sampling{Temperature: 0.8, Seed: uint64(i)}
			}
			want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 30}), prompt, s)
			wait.Go(func() {
				a, err := targets.NewSession(context.Background(), shared.SessionOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				defer a.Close()
				b, err := shared.NewLentSession(head, a, engine.SessionOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				defer b.Close()
				drafter := []Drafter{headed(b, headOptions{}), Tree(b, TreeOptions{}),
					Merge(Splice(b, TreeOptions{}), Replay(ReplayOptions{Tokens: want, ErrorEvery: 4}))}[i%3]
				schedule := []Schedule{Constant(ConstantOptions{Length: 4}), Auto(AutoOptions{})}[i/3]
				d := New(a, drafter, Options{Schedule: schedule, MaxTokens: 30})
				for range 2 {
					if got, _ := collect(t, d, prompt, s); !slices.Equal(got, want) {
						t.Errorf("budget %d, decoder %d: got %v, want %v", budget, i, got, want)
					}
				}
				if i < 3 && d.Stats().Drafted == 0 {
					t.Errorf("budget %d, decoder %d: nothing was drafted", budget, i)
				}
			})
		}
		wait.Wait()
		targets.Close()
		if n := targets.Stats().KVBytes; n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	}
	// Another sequence's cache than the decoder's target.
	targets := shared.New(target, shared.Options{})
	defer targets.Close()
	a, err := targets.NewSession(context.Background(), shared.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := shared.NewLentSession(head, a, engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range New(session(t, target, 0), headed(b, headOptions{}), Options{MaxTokens: 9}).Generate(
		context.Background(), matrixPrompt, engine.Sampling{}) {
	}
	if !errors.Is(err, ErrOptions) {
		t.Errorf("the cache of another sequence: %v", err)
	}
}

// poorHead is a head's session whose target has now and then given up its memory.
type poorHead struct {
	*engine.Session
	n, lost int
}

func (f *poorHead) EvalSegment(ctx context.Context, g engine.Segment) (engine.Result, error) {
	if f.n++; f.n%3 == 0 {
		f.lost++
		return engine.Result{}, engine.ErrKVBudget
	}
	return f.Session.EvalSegment(ctx, g)
}

// TestAssistantWithoutMemory: where the target's sequence has given up its memory, drafts end, and the text goes on.
func TestAssistantWithoutMemory(t *testing.T) {
	target, head := gemmaPair(t)
	want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 40}), matrixPrompt, engine.Sampling{})
	for _, tree := range []bool{false, true} {
		one := session(t, target, 0)
		f := &poorHead{Session: reading(t, head, one)}
		d := New(one, headed(f, headOptions{Tree: tree}),
			Options{Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: 40})
		if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) || f.lost < 10 ||
			d.Stats().Drafted < 10 {
			t.Errorf("tree %v: %v, want %v; %d steps without memory, %+v", tree, got, want, f.lost, d.Stats())
		}
	}
}

// After a draft a head goes on from the target's state at the last token that was accepted, the text's own if none was.
func TestHeadsGoOnFromTheAcceptedState(t *testing.T) {
	for _, x := range []struct {
		path  []int32
		state float32
		fed   int
	}{{nil, 10, 6}, {[]int32{0}, 11, 7}, {[]int32{1}, 12, 7}, {[]int32{0, 1}, 12, 8}, {[]int32{0, 2}, 13, 8}} {
		a := &assistant{ahead: true, width: 1, position: 5, states: []float32{10, 11, 12, 13}}
		a.accept(x.path)
		if len(a.state) != 1 || a.state[0] != x.state || a.fed != x.fed || len(a.states) != 0 {
			t.Errorf("%v: the state %v after %d tokens, want %v after %d", x.path, a.state, a.fed, x.state, x.fed)
		}
		a.accept(x.path) // a draft is told of once
		if a.fed != x.fed {
			t.Errorf("%v: told twice", x.path)
		}
	}
}
