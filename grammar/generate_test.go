package grammar_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// TestGeneratedTextsAreValid: what a small model writes under random schemas, greedy and sampled, with and without a
// drafter, is valid by an independent validator, and forced tokens are accepted. Tokens that end strings and lists
// are made likely: the model knows no JSON, and would not end otherwise.
func TestGeneratedTextsAreValid(t *testing.T) {
	schemas := 60
	switch {
	case testkit.IsLong(t):
		schemas = 1000
	case testing.Short():
		schemas = 25
	}
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	model, err := engine.New(t.Context(), rt, testdata.Draft(), testdata.Draft().Size(), engine.Options{Name: "draft"})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	tok := model.Tokenizer()
	ends := map[int32]float32{}
	for id := range int32(tok.Size()) {
		if text := tok.Bytes(id); len(text) == 1 && bytes.ContainsAny(text, `"]}`) || tok.IsEOG(id) {
			ends[id] = 8
		}
	}
	encode := func(s string) []int32 { return tok.Encode(s, bpe.EncodeOptions{NoSpacePrefix: true}) }
	vocabulary := grammar.NewVocabulary(tok, grammar.VocabularyOptions{Encode: encode})
	prompt := tok.Encode("package main\n", bpe.EncodeOptions{AddSpecial: true})
	random := rand.New(rand.NewPCG(9, 10))
	texts, unfinished, written, forced, accepted, passes := 0, 0, 0, 0, 0, 0
	for i := range schemas {
		source := grammar.RandomSchema(random)
		var schema any
		if err := json.Unmarshal([]byte(source), &schema); err != nil {
			t.Fatal(err)
		}
		g, err := grammar.ParseSchema(nil, []byte(source), grammar.SchemaOptions{Spaces: i%2 == 0})
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		c, err := g.Bind(nil, vocabulary)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		for _, s := range []engine.Sampling{{}, {Temperature: 1, Seed: uint64(i)}} {
			s.Constraint, s.LogitBias = c, ends
			var alone []int32
			for _, drafter := range []speculative.Drafter{nil, speculative.Suffix(speculative.SuffixOptions{MinMatch: 1})} {
				session, err := model.NewSession(engine.SessionOptions{Context: 400})
				if err != nil {
					t.Fatal(err)
				}
				d := speculative.New(session, drafter,
					speculative.Options{Tokenizer: tok, MaxTokens: 300,
						Schedule: speculative.Constant(speculative.ConstantOptions{Length: 3})})
				var text []byte
				var ids []int32
				for token, err := range d.Generate(t.Context(), prompt, s) {
					if err != nil {
						t.Fatalf("%s: after %q: %v", source, text, err)
					}
					ids, text = append(ids, token.ID), append(text, token.Text...)
				}
				session.Close()
				if drafter == nil {
					alone = ids
				} else if !slices.Equal(ids, alone) {
					t.Fatalf("%s: with a drafter %v, without %v", source, ids, alone)
				}
				stats := d.Stats()
				written, forced, accepted, passes = written+len(ids), forced+stats.Forced, accepted+stats.ForcedAccepted,
					passes+stats.TargetPasses
				texts++
				if stats.End != speculative.EndOfText && stats.End != speculative.EndComplete {
					unfinished++
					continue
				}
				var v any
				if err := json.Unmarshal(text, &v); err != nil {
					t.Fatalf("%s: %q: %v", source, text, err)
				}
				if err := grammar.Valid(schema, v); err != nil {
					t.Fatalf("%s: %q: %v", source, text, err)
				}
			}
		}
		c.Close()
	}
	t.Logf("%d texts of %d schemas, %d cut off at 300 tokens; %d tokens in %d passes, %d of %d forced tokens accepted",
		texts, schemas, unfinished, written, passes, accepted, forced)
	if unfinished > texts/5 || accepted == 0 {
		t.Errorf("%d of %d texts did not end, %d forced tokens", unfinished, texts, accepted)
	}
}

// TestLongGeneratedTextsAreValid: under many more schemas.
func TestLongGeneratedTextsAreValid(t *testing.T) {
	testkit.Long(t)
	TestGeneratedTextsAreValid(t)
}

// BenchmarkMaskText measures masks along random texts of a schema with a vocabulary of 128,256 tokens, the first time
// and again, and what choosing a token costs with one.
func BenchmarkMaskText(b *testing.B) {
	tok := vocabulary(b)
	g, err := grammar.ParseSchema(nil, []byte(person), grammar.SchemaOptions{})
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	c, err := g.Bind(nil, grammar.NewVocabulary(tok, grammar.VocabularyOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("bound to the vocabulary in %v", time.Since(begin))
	quote, _ := tok.ID(`"`)
	walk := func() (times []time.Duration) {
		random := rand.New(rand.NewPCG(1, 1))
		for range 30 {
			state := c.Start()
			for range 400 {
				begin := time.Now()
				mask, err := c.Mask(state)
				times = append(times, time.Since(begin))
				if err != nil {
					b.Fatal(err)
				}
				var allowed []int32
				for id := range int32(tok.Size()) {
					if mask[id/64]>>(id%64)&1 == 1 {
						allowed = append(allowed, id)
					}
				}
				id := allowed[random.IntN(len(allowed))]
				if mask[quote/64]>>(quote%64)&1 == 1 && random.IntN(3) > 0 {
					id = quote
				}
				if state, _, err = c.Next(state, id); err != nil {
					b.Fatal(err)
				}
				if tok.IsEOG(id) {
					break
				}
			}
		}
		return times
	}
	show := func(what string, times []time.Duration) {
		slices.Sort(times)
		b.Logf("%s: %d masks, median %v, 99th percentile %v, greatest %v", what, len(times), times[len(times)/2],
			times[len(times)*99/100], times[len(times)-1])
	}
	show("first", walk())
	show("again", walk())
	logits := make([]float32, tok.Size())
	for i := range logits {
		logits[i] = float32(i*7919%1000) / 100
	}
	for _, x := range []struct {
		name string
		s    engine.Sampling
	}{{"pick greedy", engine.Sampling{}}, {"pick greedy, masked", engine.Sampling{Constraint: c}},
		{"pick sampled", engine.Sampling{Temperature: 0.8}},
		{"pick sampled, masked", engine.Sampling{Temperature: 0.8, Constraint: c}}} {
		sampler, err := sampling.New(tok.Size(), x.s)
		if err != nil {
			b.Fatal(err)
		}
		history := tok.Encode(`{"name":"`, bpe.EncodeOptions{NoSpacePrefix: true})
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				sampler.Pick(logits, history)
			}
		})
	}
}
