package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/internal/testkit"
)

// mixedModels are files whose matrices are of many types, quantized by the reference implementation: of 16, and of
// those of less than 4 bits. A golden has the logits.
var mixedModels = []struct {
	name, file, golden string
}{
	{"mixed", "families/models/llama-mixed.gguf", "families/models/golden/llama-mixed.json"},
	{"low-bit", "families/quants/llama-iq.gguf", "families/quants/llama-iq.json"},
}

// mixedGolden are a model's logits, computed by an independent engine from the decoded weights in float32.
type mixedGolden struct {
	IDs    []int32              `json:"ids"`
	RMS    float64              `json:"rms"`
	Logits map[string][]float32 `json:"logits"` // by position
}

func readMixedGolden(t *testing.T, file string) (g mixedGolden) {
	t.Helper()
	text, err := os.ReadFile(testkit.Shared(t, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func openMixed(t *testing.T, rt *Runtime, file, weights string) *Model {
	t.Helper()
	m, err := Open(context.Background(), rt, testkit.Shared(t, file), Options{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// TestMixedTypes: the decoded weights in float32 give the logits of the golden.
func TestMixedTypes(t *testing.T) {
	for _, mixed := range mixedModels {
		t.Run(mixed.name, func(t *testing.T) {
			g := readMixedGolden(t, mixed.golden)
			m := openMixed(t, newRuntime(t, RuntimeOptions{}), mixed.file, "f32")
			g.check(t, m)
		})
	}
}

func (g *mixedGolden) check(t *testing.T, m *Model) {
	t.Helper()
	logits := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), g.IDs, nil, All)
	vocab := len(logits) / len(g.IDs)
	for position, want := range g.Logits {
		var p int
		if _, err := fmt.Sscan(position, &p); err != nil {
			t.Fatal(err)
		}
		got := logits[p*vocab:][:vocab]
		if len(want) != vocab {
			t.Fatalf("%d logits at position %d, want %d", vocab, p, len(want))
		}
		worst := 0.0
		for i := range want {
			worst = max(worst, math.Abs(float64(got[i]-want[i])))
		}
		if !(worst <= 2e-4*g.RMS) {
			t.Errorf("position %d: %.2g of the golden's rms off", p, worst/g.RMS)
		}
	}
	if len(g.Logits) < 4 {
		t.Errorf("the golden has %d positions", len(g.Logits))
	}
}

// TestMixedTypesOneAnswer: as the file is, its logits are the same with any kernels, threads and numbers of tokens at a
// time, and those of the same weights in float32 but for the quantized activations.
func TestMixedTypesOneAnswer(t *testing.T) {
	for _, mixed := range mixedModels {
		t.Run(mixed.name, func(t *testing.T) {
			oneMixedAnswer(t, readMixedGolden(t, mixed.golden), mixed.file)
		})
	}
}

// TestLongMixedTypesOneAnswer: every number of tokens at a time with every number of threads.
func TestLongMixedTypesOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestMixedTypesOneAnswer(t)
}

func oneMixedAnswer(t *testing.T, g mixedGolden, file string) {
	t.Helper()
	one := newRuntime(t, RuntimeOptions{SIMD: "scalar", Threads: 1})
	want := eval(t, newSession(t, openMixed(t, one, file, ""), SessionOptions{}), g.IDs, nil, All)
	best := newRuntime(t, RuntimeOptions{Threads: 1})
	wide := eval(t, newSession(t, openMixed(t, best, file, "f32"), SessionOptions{}), g.IDs, nil, All)
	sum := 0.0
	for i := range want {
		sum += math.Pow(float64(want[i]-wide[i]), 2)
	}
	if e := math.Sqrt(sum/float64(len(want))) / g.RMS; !(e > 0 && e < 0.05) {
		t.Errorf("quantized activations move the logits by %.3g of their rms", e)
	}
	for _, name := range asm.Available() {
		for _, threads := range []int{1, 2} {
			m := openMixed(t, newRuntime(t, RuntimeOptions{SIMD: name, Threads: threads}), file, "")
			for i, size := range []int{1, 3, 8, len(g.IDs)} {
				if !testkit.IsLong(t) && i%2 != threads-1 { // every size, with one number of threads
					continue
				}
				s := newSession(t, m, SessionOptions{})
				var got []float32
				for from := 0; from < len(g.IDs); from += size {
					got = append(got, eval(t, s, g.IDs[from:min(from+size, len(g.IDs))], nil, All)...)
				}
				sameBits(t, fmt.Sprintf("%s, %d threads, %d tokens at a time", name, threads, size), got, want)
			}
		}
	}
}
