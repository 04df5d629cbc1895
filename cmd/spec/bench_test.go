package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/synth"
)

// benched runs the benchmark with little memory to measure and few passes.
func benched(t *testing.T, change func(b *benchmark)) string {
	t.Helper()
	b := newBenchmark()
	b.o.Prefill, b.o.Contexts, b.o.Verify, b.o.Batches = []int{20}, []int{0, 30}, []int{1, 3}, []int{1, 5}
	b.o.Decode, b.o.Sampled, b.o.Repeats = 4, 5, 2
	change(b)
	var out bytes.Buffer
	if err := b.check(); err != nil {
		t.Fatal(err)
	}
	p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &bytes.Buffer{}, env: os.Getenv, measured: 4 << 20}
	if err := b.run(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestBench(t *testing.T) {
	text := benched(t, func(b *benchmark) { b.results.format = "json" })
	var got struct {
		Schema        int
		CPU, SIMD     string
		Threads       int
		Model         string
		Bytes         int64
		BandwidthGBPS float64 `json:"bandwidth_gbps"`
		Rows          []map[string]any
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if got.Schema != 1 || got.CPU == "" || got.SIMD == "" || got.Threads < 1 || got.Model == "" || got.Bytes < 5e6 ||
		got.BandwidthGBPS <= 0 {
		t.Errorf("%+v", got)
	}
	type place struct {
		kind            string
		tokens, context float64
	}
	var rows []place
	for _, r := range got.Rows {
		rows = append(rows, place{r["kind"].(string), r["n_tokens"].(float64), r["context"].(float64)})
		for _, key := range []string{"repeats", "tokens_per_second", "pass_seconds",
			"bandwidth_fraction", "ratio_to_decode"} {
			if x, ok := r[key].(float64); !ok || !(x > 0) || math.IsInf(x, 0) {
				t.Errorf("%s is %v in %v", key, r[key], r)
			}
		}
		if x, ok := r["stddev"].(float64); !ok || x < 0 {
			t.Errorf("stddev is %v", r["stddev"])
		}
		if len(r) != 9 {
			t.Errorf("row %v", r)
		}
	}
	want := []place{{"decode", 1, 0}, {"decode", 1, 30}, {"verify", 1, 0}, {"verify", 3, 0}, {"prefill", 20, 0},
		{"batch", 1, 8}, {"batch", 5, 8}}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %v, want %v", rows, want)
	}
}

func TestBenchTable(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "cpu")
	text := benched(t, func(b *benchmark) { b.weights, b.profile = "f16", profile })
	for _, part := range []string{"GB/s", "go-target", "f16", "decode", "verify", "prefill", "batch",
		"1 to 5 sequences", "39x"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Errorf("profile: %v", err)
	}
	// A context that the model has not is brought down unless it was asked for.
	text = benched(t, func(b *benchmark) { b.o.Contexts, b.o.Decode, b.o.Verify = []int{5000}, 1, nil })
	if !strings.Contains(text, " 1023 ") {
		t.Errorf("no context of 1023 in\n%s", text)
	}
}

// What nobody asked for is brought down to a short context; what somebody did is refused.
func TestBenchShortContext(t *testing.T) {
	f, err := synth.Random(synth.Shape{Name: "tiny", Architecture: "llama", Context: 100, Vocab: 300, HiddenSize: 64,
		Layers: 2, Heads: 2, KVHeads: 1, FeedForward: 128, Tied: true, RopeBase: 10000}, "q8_0")
	if err != nil {
		t.Fatal(err)
	}
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	m, err := engine.New(t.Context(), rt, f, f.Size(), engine.Options{Name: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := newBenchmark()
	if err := b.fit(m); err != nil || !slices.Equal(b.o.Prefill, []int{16, 100}) ||
		!slices.Equal(b.o.Contexts, []int{0, 68}) || b.o.Sampled != 92 {
		t.Errorf("%v: -p %v -d %v --sample %d", err, b.o.Prefill, b.o.Contexts, b.o.Sampled)
	}
	b = options[*benchmark](t, "bench", "-n", "100")
	if err := b.fit(m); err != nil || !slices.Equal(b.o.Contexts, []int{0}) {
		t.Errorf("%v: -d %v", err, b.o.Contexts)
	}
	for _, flags := range []string{"-p 128", "--sample 100", "-d 2048"} {
		b := options[*benchmark](t, append([]string{"bench"}, strings.Fields(flags)...)...)
		if err := b.fit(m); err == nil || !strings.HasPrefix(err.Error(), flags) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}

func TestBenchUsage(t *testing.T) {
	for args, says := range map[string]string{
		"-m x --shape llama-1b":   "--shape",
		"--type q8_0":             "--shape",
		"--shape llama-2b":        "llama-1b",
		"-p 1,x":                  "numbers from 1",
		"-p -1":                   "numbers from 1",
		"--verify 0,1":            "numbers from 1",
		"--shape llama-1b --type": "--type",
	} {
		_, errs, code := spec(t, "", append([]string{"bench"}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d, %q", args, code, errs)
		}
	}
}

// What a pass reads is what the file holds, but for the padding of the last panel and an embedding that is no output
// matrix.
func TestWeightBytes(t *testing.T) {
	for _, c := range []struct {
		shape, typ, weights string
		want                float64
		encoder             float64
	}{
		{"llama-1b", "q8_0", "", 1313e6, 0},
		{"llama-1b", "q8_0", "q4_0", 695e6, 0},
		{"llama-1b", "q8_0", "q4_k", 714e6, 0},
		{"smollm2-135m", "q8_0", "q4_k", 89.7e6, 0}, // rows of 576 in Q5_0, of 1536 in Q4_K
		{"llama-8b", "q8_0", "", (8030e6 - 128256*4096) * 34 / 32, 0},
		{"gpt2-124m", "f16", "", 2 * 123.7e6, 0},
		// 3.35 billion parameters of a token (published: 3.3), less the embedding of 151936 x 2048; routers of 48 x 128 x
		// 2048 in F32.
		{"qwen3-30b-a3b", "q8_0", "", (3354e6-151936*2048)*34/32 + 48*128*2048*3, 0},
		// Of the decoder 6 blocks of 6 matrices 512 x 512 and two 512 x 2048, and the embedding; of the encoder 6 blocks of
		// 4 and two, and cross-attention's keys and values.
		{"t5-small", "q8_0", "", (6*(6*512*512+2*512*2048) + 32128*512) * 34 / 32,
			6 * (4*512*512 + 2*512*2048 + 2*512*512) * 34 / 32},
	} {
		s, err := synth.FindShape(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		r, err := synth.Random(s, c.typ)
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(r, r.Size(), c.shape)
		if err != nil {
			t.Fatal(err)
		}
		got, encoder, err := weightBytes(f, c.weights)
		if err != nil || math.Abs(float64(got)/c.want-1) > 0.01 || math.Abs(float64(encoder)-c.encoder) > 0.01*c.encoder {
			t.Errorf("%+v: %d, %d, %v", c, got, encoder, err)
		}
	}
}
