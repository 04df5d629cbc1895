package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/synth"
)

func model(t *testing.T) *engine.Model {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	f, err := synth.Random(synth.Shape{Name: "tiny", Architecture: "llama", Context: 80, Vocab: 300, HiddenSize: 64,
		Layers: 2, Heads: 2, KVHeads: 1,
		FeedForward: 128, Tied: true, RopeBase: 10000}, "q8_0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.New(context.Background(), rt, f, f.Size(), engine.Options{Name: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRun(t *testing.T) {
	m := model(t)
	asked := 0
	o := Options{Prefill: []int{9}, Contexts: []int{0, 40}, Verify: []int{5}, Batches: []int{3}, Decode: 4, Sampled: 6,
		Repeats: 3, Weights: 1000,
		Memory: func() (float64, error) { asked++; return 1e6 * float64(asked), nil }}
	var told []Row
	rows, bandwidth, err := Run(context.Background(), m, o, func(r Row) { told = append(told, r) })
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rows, told) {
		t.Errorf("told of %v, returned %v", told, rows)
	}
	if bandwidth != 2e6 {
		t.Errorf("bandwidth %v, want the median of 1e6, 2e6 and 3e6", bandwidth)
	}
	kv := 2.0 * 2 * 2 * 1 * 32 // bytes of f16, keys and values, layers, heads, numbers
	want := []Row{
		{Kind: "decode", Tokens: 1, Context: 0, Repeats: 12, Bytes: 1000},
		{Kind: "decode", Tokens: 1, Context: 40, Repeats: 12, Bytes: 1000 + 40*kv},
		{Kind: "verify", Tokens: 5, Context: 0, Repeats: 12, Bytes: 1000},
		{Kind: "prefill", Tokens: 9, Context: 0, Repeats: 3, Bytes: 1000},
		{Kind: "batch", Tokens: 3, Context: 8, Repeats: 6, Bytes: 1000 + 3*(8+3)*kv},
	}
	for i, r := range rows {
		if !(r.PassSeconds > 0) || math.Abs(r.TokensPerSecond*r.PassSeconds/float64(r.Tokens)-1) > 1e-9 ||
			!(r.RatioToDecode > 0) {
			t.Errorf("%+v", r)
		}
		if want := r.Bytes / r.PassSeconds / bandwidth; math.Abs(r.BandwidthFraction/want-1) > 1e-9 {
			t.Errorf("fraction %v, want %v", r.BandwidthFraction, want)
		}
		r.PassSeconds, r.TokensPerSecond, r.StdDev, r.RatioToDecode, r.BandwidthFraction = 0, 0, 0, 0, 0
		if i >= len(want) || r != want[i] {
			t.Errorf("row %d: %+v", i, r)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	m := model(t)
	for _, o := range []Options{
		{Prefill: []int{81}},
		{Contexts: []int{79}, Decode: 2},
		{Verify: []int{81}},
		{Batches: []int{1}, Sampled: 73},
	} {
		if _, _, err := Run(context.Background(), m, o, func(Row) {}); err == nil ||
			!strings.Contains(err.Error(), "context of") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := Run(ctx, m, Options{Prefill: []int{8}}, func(Row) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(c.x); got != c.want {
			t.Errorf("median of %v is %v", c.x, got)
		}
	}
	if r := (&runner{m: model(t)}).summary("x", 1, 0, 0, []float64{1, 2, 3}); r.StdDev != 1 {
		t.Errorf("standard deviation %v", r.StdDev)
	}
}

// An encoder is measured by texts alone and together.
func TestTexts(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	f, err := synth.Random(synth.Shape{Name: "tiny", Architecture: "bert", Context: 40, Vocab: 300, HiddenSize: 64,
		Layers: 2, Heads: 2, KVHeads: 2, FeedForward: 128, Tied: true}, "q8_0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.New(t.Context(), rt, f, f.Size(), engine.Options{Name: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := Options{Prefill: []int{9}, Contexts: []int{0}, Verify: []int{5}, Batches: []int{3}, Decode: 4, Repeats: 2,
		Weights: 1000, Memory: func() (float64, error) { return 1e6, nil }}
	rows, bandwidth, err := Run(t.Context(), m, o, func(Row) {})
	if err != nil || bandwidth != 1e6 {
		t.Fatal(bandwidth, err)
	}
	want := []Row{{Kind: "text", Tokens: 9, Repeats: 2}, {Kind: "texts", Tokens: 3 * 40, Repeats: 2}}
	for i := range rows {
		r := Row{Kind: rows[i].Kind, Tokens: rows[i].Tokens, Repeats: rows[i].Repeats}
		if i >= len(want) || r != want[i] || !(rows[i].TokensPerSecond > 0) {
			t.Errorf("row %+v", rows[i])
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d rows", len(rows))
	}
	o.Prefill = []int{41}
	if _, _, err := Run(t.Context(), m, o, func(Row) {}); err == nil || !strings.Contains(err.Error(), "40 tokens") {
		t.Errorf("a text of 41 tokens: %v", err)
	}
}

// All depths are compared with decoding at an empty context, in whatever order they are asked for.
func TestDepthsInAnyOrder(t *testing.T) {
	rows, _, err := Run(context.Background(), model(t), Options{Contexts: []int{20, 0}, Decode: 2}, func(Row) {})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v: %+v", err, rows)
	}
	if deep, empty := rows[0], rows[1]; empty.RatioToDecode != 1 ||
		deep.RatioToDecode != deep.PassSeconds/empty.PassSeconds {
		t.Errorf("%+v, %+v", deep, empty)
	}
}
