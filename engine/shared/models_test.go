package shared

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/tensor"
)

// What several packages' tests have in common, by the names that these use.
var (
	randomTokens = randommodel.Tokens
	sameBits     = testkit.SameBits
)

// Random models and what tests do with them.

const recipeWidth, recipeVocab = randommodel.Width, randommodel.Vocab

// openFile loads the model of a file.
func openFile(tb testing.TB, rt *engine.Runtime, file []byte, o engine.Options) *engine.Model {
	tb.Helper()
	if o.Name == "" {
		o.Name = "random.gguf"
	}
	m, err := engine.New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.Close)
	return m
}

// smallLlama opens a model with room for so many tokens.
func smallLlama(tb testing.TB, rt *engine.Runtime, context int) *engine.Model {
	shape := randommodel.Llama()
	shape.Context = context
	return openFile(tb, rt, shape.File(tb), engine.Options{})
}

// adapters is a set of one adapter, drawn for a model of smallLlama.
func adapters(tb testing.TB, m *engine.Model, seed uint64) engine.AdapterSet {
	tb.Helper()
	file := randommodel.Adapter{Seed: seed}.File(tb, randommodel.Llama().File(tb))
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "lora.gguf")
	if err != nil {
		tb.Fatal(err)
	}
	a, err := m.ReadAdapter(context.Background(), f)
	if err != nil {
		tb.Fatal(err)
	}
	return scaled(tb, a, 1)
}

// scaled is a set of one adapter.
func scaled(tb testing.TB, a *engine.Adapter, scale float32) engine.AdapterSet {
	tb.Helper()
	set, err := engine.NewAdapterSet(engine.ScaledAdapter{Adapter: a, Scale: scale})
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// openRecipe opens a model of randommodel.Recipes.
func openRecipe(tb testing.TB, rt *engine.Runtime, name string) *engine.Model {
	tb.Helper()
	return openFile(tb, rt, randommodel.Recipes()[name].File(tb), engine.Options{})
}

// openAssistant opens a model of gemma4 with room for 2000 tokens, and a draft head that looks at its cache.
func openAssistant(tb testing.TB, rt *engine.Runtime) (target, head *engine.Model) {
	tb.Helper()
	r := randommodel.Recipes()["gemma4"]
	r.Keys["context_length"] = uint32(2000)
	target = openFile(tb, rt, r.File(tb), engine.Options{})
	return target, openFile(tb, rt, randommodel.Assistant{}.File(tb), engine.Options{Target: target})
}

// openMTP opens a model with so many MTP blocks, and those.
func openMTP(tb testing.TB, rt *engine.Runtime, blocks int) (target, head *engine.Model) {
	tb.Helper()
	r := randommodel.Recipes()["qwen35"]
	r.MTP, r.Parts = blocks, r.Parts+" ends"
	file := r.File(tb)
	target = openFile(tb, rt, file, engine.Options{})
	return target, openFile(tb, rt, file, engine.Options{MTP: true, Target: target})
}

func newRuntime(tb testing.TB, o engine.RuntimeOptions) *engine.Runtime {
	tb.Helper()
	rt, err := engine.NewRuntime(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(rt.Close)
	return rt
}

func newSession(tb testing.TB, m *engine.Model, o engine.SessionOptions) *engine.Session {
	tb.Helper()
	s, err := m.NewSession(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// statesFor is the target's hidden states for a head, for ids.
func statesFor(tb testing.TB, target, head *engine.Model, ids []int32) []float32 {
	tb.Helper()
	g := engine.Segment{Tokens: ids, Hidden: engine.All, Layers: head.TargetLayers()}
	r, err := newSession(tb, target, engine.SessionOptions{}).EvalSegment(context.Background(), g)
	if err != nil {
		tb.Fatal(err)
	}
	return slices.Clone(r.Hidden.Data)
}

// greatest is the id of the greatest logit, the lower one on a tie.
func greatest(row []float32) int32 { return int32(tensor.ArgMax(row)) }
