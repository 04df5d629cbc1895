package speculative

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// randomModel is a two-layer llama with random weights. Two of the same seed and different noise
// agree often.
func randomModel(t testing.TB, rt *engine.Runtime, noise float32) *engine.Model {
	t.Helper()
	kvs, tensors := randomTensors(noise)
	return openTensors(t, rt, kvs, tensors, engine.Options{Name: "random", Weights: "q8_0"})
}

// randomTensors are what a randomModel consists of.
func randomTensors(noise float32) ([]gguf.KV, []gguf.TensorSource) {
	const width, heads, kv, ff, vocab, layers = 64, 4, 2, 96, 96, 2
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "tokenizer.ggml.model", Value: "no_vocab"},
		{Key: "llama.vocab_size", Value: uint32(vocab)},
		{Key: "llama.context_length", Value: uint32(512)},
		{Key: "llama.embedding_length", Value: uint32(width)},
		{Key: "llama.block_count", Value: uint32(layers)},
		{Key: "llama.feed_forward_length", Value: uint32(ff)},
		{Key: "llama.attention.head_count", Value: uint32(heads)},
		{Key: "llama.attention.head_count_kv", Value: uint32(kv)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: "llama.rope.freq_base", Value: float32(10000)},
		{Key: "llama.rope.dimension_count", Value: uint32(width / heads)},
	}
	tensor := noisyTensors(noise)
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float32, dims ...int) {
		tensors = append(tensors, tensor(name, mean, spread, dims...))
	}
	add("token_embd.weight", 0, 0.7, width, vocab)
	for i := range layers {
		b := fmt.Sprintf("blk.%d.", i)
		add(b+"attn_norm.weight", 1, 0.2, width)
		add(b+"attn_q.weight", 0, 0.2, width, width)
		add(b+"attn_k.weight", 0, 0.2, width, width*kv/heads)
		add(b+"attn_v.weight", 0, 0.2, width, width*kv/heads)
		add(b+"attn_output.weight", 0, 0.2, width, width)
		add(b+"ffn_norm.weight", 1, 0.2, width)
		add(b+"ffn_gate.weight", 0, 0.2, width, ff)
		add(b+"ffn_up.weight", 0, 0.2, width, ff)
		add(b+"ffn_down.weight", 0, 0.15, ff, width)
	}
	add("output_norm.weight", 1, 0.2, width)
	return kvs, tensors
}

func newRuntime(t testing.TB, o engine.RuntimeOptions) *engine.Runtime {
	t.Helper()
	rt, err := engine.NewRuntime(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	return rt
}

func session(t testing.TB, m *engine.Model, context int) *engine.Session {
	t.Helper()
	s, err := m.NewSession(engine.SessionOptions{Context: context})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The matrix of P2 on a real, small model.
func TestEngineIdentity(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, near, far := randomModel(t, rt, 0), randomModel(t, rt, 0.05), randomModel(t, rt, 3)
	tokens, lengths := 40, upTo(16)
	if !testkit.IsLong(t) {
		tokens, lengths = 24, []int{1, 4, 16}
	}
	samplings := []engine.Sampling{
		{},
		{RepeatPenalty: 1.2, BannedSequences: [][]int32{{1, 2}, {3, 4, 5}}},
		{Temperature: 0.8, TopP: 0.95, Seed: 1},
		{Temperature: 0.8, TopP: 0.95, Seed: 2, FrequencyPenalty: 0.4, PresencePenalty: 0.2, PenaltyLastN: 16},
		mirostat(engine.Sampling{Temperature: 0.8, Seed: 3}),
	}
	var want []int32
	drafters := []named[Drafter]{
		{"near", func() Drafter { return Model(session(t, near, 0)) }},
		{"far", func() Drafter { return Model(session(t, far, 0)) }},
		{"short", func() Drafter { return Model(session(t, near, 30)) }},
		{"ngram", func() Drafter { return NGram(NGramOptions{}) }},
		{"early exit", func() Drafter { return exit(t, target, 1) }},
		{"merged", func() Drafter {
			return Merge(Model(session(t, near, 0)), exit(t, target, 1), Model(session(t, far, 0)), NGram(NGramOptions{}))
		}},
		{"splice", func() Drafter { return Splice(session(t, near, 0), TreeOptions{}) }},
		{"replay", func() Drafter { return Replay(ReplayOptions{Tokens: want, ErrorEvery: 7}) }},
		{"tree", func() Drafter { return Tree(session(t, near, 0), TreeOptions{}) }},
		{"bush", func() Drafter { return &bush{want, 3} }},
	}
	texts, accepted := make([][]int32, len(samplings)), make([]int, len(samplings))
	for _, c := range testkit.Combinations(t, len(samplings), len(drafters), len(matrixSchedules(1)), len(lengths)) {
		s, drafter, k := samplings[c[0]], drafters[c[1]], lengths[c[3]]
		if texts[c[0]] == nil {
			texts[c[0]], _ = collect(t, New(session(t, target, 0), nil, Options{MaxTokens: tokens}), matrixPrompt, s)
		}
		want = texts[c[0]]
		schedule := matrixSchedules(k)[c[2]]
		d := New(session(t, target, 0), drafter.make(), Options{Schedule: schedule.make(), MaxTokens: tokens})
		if got, _ := collect(t, d, matrixPrompt, s); !slices.Equal(got, want) {
			t.Errorf("%+v, %s, %s, drafts of %d:\n got %v\nwant %v", s, drafter.name, schedule.name, k, got, want)
		}
		if drafter.name != "replay" && drafter.name != "bush" {
			accepted[c[0]] += d.Stats().Accepted
		}
	}
	if slices.Contains(accepted, 0) {
		t.Errorf("%d drafted tokens are accepted: this shows little", accepted)
	}
}

// TestLongEngineIdentity: every combination, at every draft length.
func TestLongEngineIdentity(t *testing.T) {
	testkit.Long(t)
	TestEngineIdentity(t)
}

// exit drafts with the first n layers of m.
func exit(t testing.TB, m *engine.Model, n int) Drafter {
	t.Helper()
	d, err := EarlyExit(m, engine.SessionOptions{Layers: n})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// After all its layers a model predicts itself, with sampling too.
func TestEarlyExit(t *testing.T) {
	target, _ := pair(t)
	one := session(t, target, 0)
	prompt := target.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	layers := target.Config().Layers
	exits, tokens := []int{0, 1, layers - 1, layers}, 41
	if testing.Short() {
		exits, tokens = []int{0, layers}, 16
	}
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, TopP: 0.95, Seed: 3}} {
		want := pairText(t, prompt, s, tokens)
		for _, n := range exits {
			d := New(one, exit(t, target, n), Options{Schedule: Constant(ConstantOptions{Length: 4}), MaxTokens: tokens})
			if got, _ := collect(t, d, prompt, s); !slices.Equal(got, want) {
				t.Errorf("exit after %d layers: got %v, want %v", n, got, want)
			}
			st := d.Stats()
			t.Logf("exit after %d layers of %d, temperature %v: %d of %d accepted", n, layers, s.Temperature,
				st.Accepted, st.Drafted)
			if n == layers && st.Accepted != st.Drafted {
				t.Errorf("%d of %d accepted", st.Accepted, st.Drafted)
			}
		}
	}
	if _, err := EarlyExit(target, engine.SessionOptions{Layers: layers + 1}); !errors.Is(err, engine.ErrUsage) {
		t.Errorf("exit after %d layers of %d: %v", layers+1, layers, err)
	}
}

// bush drafts trees from a record: at each depth the recorded token between wrong ones.
type bush struct {
	record []int32
	wide   int32
}

func (b *bush) Start(context.Context, Setup) error { return nil }
func (b *bush) Observe(*Round)                     {}
func (b *bush) Draft(_ context.Context, text []int32, d *Draft) error {
	for i, at := len(text)-len(matrixPrompt), -1; i < len(b.record) && d.More() && d.Room() >= int(b.wide); i++ {
		next := -1
		for j := range b.wide {
			id := (b.record[i] + j + int32(d.Vocab()) - 1) % int32(d.Vocab())
			if d.AddChild(at, id, 1, nil) && j == 1 {
				next = d.Len() - 1
			}
		}
		if at = next; at < 0 {
			break
		}
	}
	return nil
}

// A round on real sessions allocates nothing either.
func TestEngineRoundsAllocateNothing(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, draft := session(t, randomModel(t, rt, 0), 0), session(t, randomModel(t, rt, 0.05), 0)
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, TopP: 0.95}} {
		d := New(target, Model(draft), Options{Schedule: Constant(ConstantOptions{Length: 4})})
		roundsAllocateNothing(t, fmt.Sprint("temperature ", s.Temperature), d, s)
	}
}
