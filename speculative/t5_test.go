package speculative

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// randomT5 is a small encoder-decoder model with random weights. Two with different noise agree often.
func randomT5(t testing.TB, rt *engine.Runtime, noise float32) *engine.Model {
	t.Helper()
	const width, heads, dim, ff, vocab, layers, buckets = 64, 4, 16, 96, 96, 2, 32
	key := func(k string, v gguf.Value) gguf.KV { return gguf.KV{Key: "t5." + k, Value: v} }
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: "t5"}, {Key: "tokenizer.ggml.model", Value: "no_vocab"},
		key("vocab_size", uint32(vocab)), key("context_length", uint32(512)), key("embedding_length", uint32(width)),
		key("block_count", uint32(layers)),
		key("feed_forward_length", uint32(ff)), key("attention.head_count", uint32(heads)),
		key("attention.key_length", uint32(dim)), key("attention.value_length", uint32(dim)),
		key("attention.layer_norm_rms_epsilon", float32(1e-6)),
		key("attention.relative_buckets_count", uint32(buckets)), key("decoder_start_token_id", uint32(0)),
	}
	tensor := noisyTensors(noise)
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float32, dims ...int) {
		tensors = append(tensors, tensor(name+".weight", mean, spread, dims...))
	}
	attention := func(name string) {
		add(name+"_norm", 1, 0.2, width)
		add(name+"_q", 0, 0.12, width, heads*dim)
		add(name+"_k", 0, 0.12, width, heads*dim)
		add(name+"_v", 0, 0.25, width, heads*dim)
		add(name+"_o", 0, 0.25, heads*dim, width)
	}
	add("token_embd", 0, 0.7, width, vocab)
	for _, stack := range []string{"enc.", "dec."} {
		for i := range layers {
			b := fmt.Sprintf("%sblk.%d.", stack, i)
			attention(b + "attn")
			if i == 0 {
				add(b+"attn_rel_b", 0, 1, heads, buckets)
			}
			if stack == "dec." {
				attention(b + "cross_attn")
			}
			add(b+"ffn_norm", 1, 0.2, width)
			add(b+"ffn_up", 0, 0.2, width, ff)
			add(b+"ffn_down", 0, 0.15, ff, width)
		}
		add(stack+"output_norm", 1, 0.2, width)
	}
	add("output", 0, 0.2, width, vocab)
	m := openTensors(t, rt, kvs, tensors, engine.Options{Name: "random T5", Weights: "q8_0"})
	t.Cleanup(m.Close)
	return m
}

// t5Inputs are different inputs, two of the same length, one of several pages.
func t5Inputs() [][]int32 {
	return [][]int32{{5, 9, 17, 1}, differentTokens(300, 96), {5, 9, 2, 1}}
}

// TestT5Identity is promise P2 with encoder-decoder models: plain decoding's text with all kinds of drafters and
// verifiers that keep it,
// greedy and sampled, one input after the other in the same decoder.
func TestT5Identity(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, near, far := randomT5(t, rt, 0), randomT5(t, rt, 0.05), randomT5(t, rt, 3)
	other := randomModel(t, rt, 0) // decoder-only, with as many tokens
	defer other.Close()
	const tokens = 30
	start := []int32{target.DecoderStart()}
	for turn, s := range []engine.Sampling{{}, {Temperature: 0.8, TopP: 0.95, Seed: 1, RepeatPenalty: 1.1}} {
		var want [][]int32
		for _, input := range t5Inputs() {
			d := New(session(t, target, 0), nil, Options{MaxTokens: tokens})
			d.Encode(input)
			ids, _ := collect(t, d, start, s)
			want = append(want, ids)
		}
		if slices.Equal(want[0], want[1]) || slices.Equal(want[0], want[2]) {
			t.Fatal("the input changes nothing")
		}
		drafters := []named[Drafter]{
			{"near", func() Drafter { return Model(session(t, near, 0)) }},
			{"far", func() Drafter { return Model(session(t, far, 0)) }},
			{"short", func() Drafter { return Model(session(t, near, 12)) }},
			{"decoder-only", func() Drafter { return Model(session(t, other, 0)) }},
			{"ngram", func() Drafter { return NGram(NGramOptions{}) }},
			{"suffix", func() Drafter { return Suffix(SuffixOptions{}) }},
			{"early exit", func() Drafter { return exit(t, target, 1) }},
			{"merged", func() Drafter { return Merge(Model(session(t, near, 0)), exit(t, target, 1), NGram(NGramOptions{})) }},
			{"splice", func() Drafter { return Splice(session(t, near, 0), TreeOptions{}) }},
			{"tree", func() Drafter { return Tree(session(t, near, 0), TreeOptions{}) }},
		}
		verifiers := []named[Verifier]{
			{"match", Match}, {"stairs, batch", func() Verifier { return Stairs(StairsOptions{Batch: true}) }},
			{"stairs, recomputed", func() Verifier { return Stairs(StairsOptions{Batch: true, Recompute: true}) }},
			{"stairs, one by one", func() Verifier { return Stairs(StairsOptions{Recompute: true}) }},
		}
		for i, drafter := range drafters {
			for j, verifier := range verifiers {
				if j > 0 && (i > 0 || testing.Short() && s.Temperature == 0) {
					continue
				}
				for l, schedule := range []Schedule{Constant(ConstantOptions{Length: 5}), Auto(AutoOptions{})} {
					inputs := []int{0, 2, 1, 0, 0}
					if i+j > 0 && !testkit.IsLong(t) {
						if (i+j+l+turn)%2 > 0 {
							continue // each drafter and verifier with one schedule greedily, with the other one sampled
						}
						inputs = inputs[1:4]
					}
					d := New(session(t, target, 0), drafter.make(), Options{MaxTokens: tokens, Schedule: schedule,
						Verifier: verifier.make()})
					accepted := 0
					for _, k := range inputs {
						d.Encode(t5Inputs()[k])
						got, _ := collect(t, d, start, s)
						if !slices.Equal(got, want[k]) {
							t.Fatalf("%s, %s, temperature %v, input %d: %d, expected %d", drafter.name, verifier.name, s.Temperature,
								k, got, want[k])
						}
						accepted += d.Stats().Accepted
					}
					if l == 0 && drafter.name == "near" && accepted < 12*len(inputs) {
						t.Errorf("%s, %s: %d tokens accepted only: the draft model reads another input", drafter.name,
							verifier.name, accepted)
					}
				}
			}
		}
	}
}

// TestLongT5Identity: each drafter and verifier with both schedules and every input, and twice with the same one.
func TestLongT5Identity(t *testing.T) {
	testkit.Long(t)
	TestT5Identity(t)
}

// TestT5DraftAgrees: a draft model that is the target is always right, which it is only with the target's input:
// verified by match and, with
// shared probabilities, by rejection and block.
func TestT5DraftAgrees(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	m := randomT5(t, rt, 0)
	for _, verifier := range []named[Verifier]{{"match", Match}, {"rejection", Rejection}, {"block", Block}} {
		d := New(session(t, m, 0), Model(session(t, m, 0)), Options{MaxTokens: 24,
			Schedule: Constant(ConstantOptions{Length: 4}), Verifier: verifier.make()})
		for i, input := range t5Inputs() {
			d.Encode(input)
			collect(t, d, []int32{0}, engine.Sampling{Temperature: 1, Seed: uint64(i)})
			if stats := d.Stats(); stats.Accepted != stats.Drafted || stats.Drafted < 15 {
				t.Errorf("%s, input %d: %d of %d accepted", verifier.name, i, stats.Accepted, stats.Drafted)
			}
		}
	}
}

// unencoded is a session for which memory is short so many times when its encoder is to read an input.
type unencoded struct {
	*engine.Session
	short int
}

func (s *unencoded) Encode(ctx context.Context, ids []int32) error {
	if s.short > 0 {
		s.short--
		return fmt.Errorf("session: %w", engine.ErrKVBudget)
	}
	return s.Session.Encode(ctx, ids)
}

// A draft model that memory is refused for when it is to read the target's input costs no answer: it is asked again.
func TestT5DraftsWithoutMemory(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, near := randomT5(t, rt, 0), randomT5(t, rt, 0.05)
	o := Options{MaxTokens: 30, Schedule: Constant(ConstantOptions{Length: 3})}
	write := func(d *Decoder) []int32 {
		t.Helper()
		d.Encode(t5Inputs()[0])
		ids, _ := collect(t, d, []int32{target.DecoderStart()}, engine.Sampling{})
		return ids
	}
	want := write(New(session(t, target, 0), nil, o))
	for _, short := range []int{1, 2, 1000} {
		for _, drafter := range []func(Sequence) Drafter{Model,
			func(s Sequence) Drafter { return Tree(s, TreeOptions{Sources: []CandidateSource{}}) },
			func(s Sequence) Drafter { return Merge(Model(s), NGram(NGramOptions{})) }} {
			d := New(session(t, target, 0), drafter(&unencoded{session(t, near, 0), short}), o)
			if got := write(d); !slices.Equal(got, want) || (d.Stats().DraftPasses > 0) != (short < 1000) {
				t.Errorf("refused %d times, %T: %v, expected %v: %+v", short, d.drafter, got, want, d.Stats())
			}
		}
	}
}

// TestT5Receipt: a receipt holds the encoder's input, and a text with another input is not confirmed.
func TestT5Receipt(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	m, decoder := randomT5(t, rt, 0), randomModel(t, rt, 0)
	defer decoder.Close()
	ctx := context.Background()
	d := New(session(t, m, 0), Model(session(t, m, 0)), Options{MaxTokens: 20})
	d.Encode(t5Inputs()[0])
	collect(t, d, []int32{0}, engine.Sampling{Temperature: 0.9, Seed: 3})
	written, err := d.Receipt(ReceiptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(written.Input, t5Inputs()[0]) {
		t.Errorf("input %d", written.Input)
	}
	if c, err := Confirm(ctx, m, engine.Fingerprint{}, written); err != nil || c.Tokens != 20 {
		t.Errorf("%+v, %v", c, err)
	}
	for name, c := range map[string]struct {
		input []int32
		want  error
	}{"another": {t5Inputs()[2], ErrNotConfirmed}, "none": {nil, ErrReceipt},
		"not in the vocabulary": {[]int32{1000}, ErrReceipt}} {
		forged := *written
		forged.Input = c.input
		if _, err := Confirm(ctx, m, engine.Fingerprint{}, &forged); !errors.Is(err, c.want) {
			t.Errorf("%s input: %v", name, err)
		}
	}
	plain := New(session(t, decoder, 0), nil, Options{MaxTokens: 5})
	collect(t, plain, []int32{1}, engine.Sampling{})
	if written, err = plain.Receipt(ReceiptOptions{}); err != nil {
		t.Fatal(err)
	}
	written.Input = []int32{1}
	if _, err := Confirm(ctx, decoder, engine.Fingerprint{}, written); !errors.Is(err, ErrReceipt) {
		t.Errorf("an input, and a decoder-only model: %v", err)
	}
}

// TestT5Errors: what cannot work says so before anything is generated.
func TestT5Errors(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	m, decoder := randomT5(t, rt, 0), randomModel(t, rt, 0)
	defer decoder.Close()
	generate := func(d *Decoder, input []int32) (err error) {
		if input != nil {
			d.Encode(input)
		}
		for _, err = range d.Generate(context.Background(), []int32{0}, engine.Sampling{}) {
			if err != nil {
				break
			}
		}
		return err
	}
	o := Options{MaxTokens: 4}
	for name, c := range map[string]struct{ err, want error }{
		"no input":                    {generate(New(session(t, m, 0), nil, o), nil), engine.ErrInput},
		"an empty input":              {generate(New(session(t, m, 0), nil, o), []int32{}), engine.ErrInput},
		"an input without an encoder": {generate(New(session(t, decoder, 0), nil, o), []int32{1}), ErrOptions},
		"a T5 drafts for a decoder": {generate(New(session(t, decoder, 0), Model(session(t, m, 0)), o), nil),
			ErrOptions},
		"an input outside the vocabulary": {generate(New(session(t, m, 0), nil, o), []int32{1000}), engine.ErrVocabulary},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, expected %v", name, c.err, c.want)
		}
	}
	// The target's session may have been given its input already.
	s := session(t, m, 0)
	if err := s.Encode(context.Background(), []int32{4, 1}); err != nil {
		t.Fatal(err)
	}
	if err := generate(New(s, Model(session(t, m, 0)), o), nil); err != nil {
		t.Error(err)
	}
	costs, err := EstimateCosts(context.Background(), m, engine.SessionOptions{})
	if err != nil || len(costs.Tokens) == 0 {
		t.Errorf("%+v, %v", costs, err)
	}
}
