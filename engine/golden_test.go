package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/internal/testkit"
)

// golden is what an independent engine computed; see ../shared/models/README.md.
type golden struct {
	Prompt string  `json:"prompt"`
	IDs    []int32 `json:"token_ids"`
	Greedy []int32 `json:"greedy_token_ids"`
	logits []float32
}

func readGolden(tb testing.TB, name string) golden {
	tb.Helper()
	var g golden
	data, err := os.ReadFile(testkit.Shared(tb, "models/golden/"+name+".json"))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err == nil {
		data, err = os.ReadFile(testkit.Shared(tb, "models/golden/"+name+".logits.f32"))
	}
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i+4 <= len(data); i += 4 {
		g.logits = append(g.logits, math.Float32frombits(binary.LittleEndian.Uint32(data[i:])))
	}
	return g
}

func openShared(tb testing.TB, rt *Runtime, name string, o Options) *Model {
	tb.Helper()
	m, err := Open(context.Background(), rt, testkit.Shared(tb, "models/"+name+".f32.gguf"), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.Close)
	return m
}

func TestGolden(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	for _, name := range []string{"stories260K", "go-draft", "go-target"} {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, name)
			m := openShared(t, rt, name, Options{})
			if ids := m.Tokenizer().Encode(g.Prompt, bpe.EncodeOptions{AddSpecial: true}); !slices.Equal(ids, g.IDs) {
				t.Errorf("the prompt is %d, expected %d", ids, g.IDs)
			}
			s := newSession(t, m, SessionOptions{KV: "f32"})
			got := eval(t, s, g.IDs, nil, All)
			if len(got) != len(g.logits) {
				t.Fatalf("%d logits, expected %d", len(got), len(g.logits))
			}
			worst := 0.0
			for i := range got {
				worst = max(worst, math.Abs(float64(got[i]-g.logits[i])))
			}
			t.Logf("greatest difference %.2g", worst)
			if !(worst < 1e-3) {
				t.Errorf("logits differ by %v", worst)
			}

			// The greedy continuation, and its forward confirmation: one pass over the whole text, without
			// a cache, predicts every token of it.
			next := greatest(got[len(got)-m.config.Vocab:])
			var written []int32
			for len(written) < len(g.Greedy) {
				written = append(written, next)
				next = greatest(eval(t, s, []int32{next}, nil, Last))
			}
			if !slices.Equal(written, g.Greedy) {
				t.Errorf("greedy continuation %d, expected %d", written, g.Greedy)
			}
			confirm(t, m, append(slices.Clone(g.IDs), written...), len(g.IDs))
		})
	}
}

// confirm checks that argmax(logits[i]) == x[i+1] for every i from prompt-1 on, with and without a cache.
func confirm(t *testing.T, m *Model, x []int32, prompt int) {
	t.Helper()
	v := m.config.Vocab
	cached := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), x, nil, All)
	s := newSession(t, m, SessionOptions{KV: "f32", NoCache: true})
	eval(t, s, x[:prompt], nil, None)
	uncached := eval(t, s, x[prompt:], nil, All)
	sameBits(t, "without a cache", uncached, cached[prompt*v:])
	for i := prompt - 1; i < len(x)-1; i++ {
		if got := greatest(cached[i*v : (i+1)*v]); got != x[i+1] {
			t.Fatalf("position %d predicts %d, the text has %d", i, got, x[i+1])
		}
	}
}

func TestForwardConfirmation(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			m := openDrawn(t, rt, v, Options{})
			x := randomTokens(20, m.config.Vocab, 8)
			s := newSession(t, m, SessionOptions{KV: "f32"})
			next := greatest(eval(t, s, x, nil, Last))
			for len(x) < 100 {
				x = append(x, next)
				next = greatest(eval(t, s, []int32{next}, nil, Last))
			}
			confirm(t, m, x, 20)
		})
	}
}
