package engine

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"

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

// readHeader reads a file's metadata.
func readHeader(tb testing.TB, file []byte, name string) *gguf.File {
	tb.Helper()
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), name)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// openBytes loads the model of a file.
func openBytes(tb testing.TB, rt *Runtime, file []byte, name string, o Options) (*Model, error) {
	tb.Helper()
	o.Name = name
	m, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), o)
	if err == nil {
		tb.Cleanup(m.Close)
	}
	return m, err
}

// openDrawn loads a drawn model.
func openDrawn(tb testing.TB, rt *Runtime, drawn interface{ File(testing.TB) []byte }, o Options) *Model {
	tb.Helper()
	m, err := openBytes(tb, rt, drawn.File(tb), cmp.Or(o.Name, "random.gguf"), o)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func newRuntime(tb testing.TB, o RuntimeOptions) *Runtime {
	tb.Helper()
	rt, err := NewRuntime(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(rt.Close)
	return rt
}

func newSession(tb testing.TB, m *Model, o SessionOptions) *Session {
	tb.Helper()
	s, err := m.NewSession(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	if input, ok := testInputs.Load(m); ok {
		encode(tb, s, input.([]int32))
	}
	return s
}

// testInputs are the encoder's inputs that newSession gives to the sessions of a model: tests of decoders then test
// those of encoder-decoder models too.
var testInputs sync.Map // of *Model: []int32

// eval feeds tokens and copies the logits.
func eval(tb testing.TB, s *Session, tokens, parents []int32, want Rows) []float32 {
	tb.Helper()
	out, err := s.Eval(context.Background(), tokens, parents, want)
	if err != nil {
		tb.Fatal(err)
	}
	return slices.Clone(out.Data)
}

// forward feeds a batch; every segment must succeed.
func forward(tb testing.TB, m *Model, b Batch) []Result {
	tb.Helper()
	out, err := m.Forward(context.Background(), b)
	if err != nil {
		tb.Fatal(err)
	}
	for i, r := range out {
		if r.Err != nil {
			tb.Fatalf("segment %d: %v", i, r.Err)
		}
	}
	return out
}

// greatest is the id of the greatest logit, the lower one on a tie.
func greatest(x []float32) int32 { return int32(tensor.ArgMax(x)) }
