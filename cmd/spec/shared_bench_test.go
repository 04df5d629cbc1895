package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// BenchmarkShared measures decoders that share passes: the total tokens per second of 1, 2, 4 and 8 greedy texts on
// the embedded pair enlarged to 1 B and 14 M parameters, without drafts and with auto, in turn, from a cold start:
// nothing is known of costs and acceptance, and the draft model has not read the prompts, which the target has before
// the time begins. The time ends when the decoders have written so many tokens each in the mean; all go on until
// then, so that the load stays the same. Figures are medians; every text must be the one that the decoder writes
// alone. SPEC_SIMD chooses the kernels, SPEC_BENCH_TOKENS the length, SPEC_BENCH_REPEATS how often.
func BenchmarkShared(b *testing.B) {
	const most = 8
	tokens, repeats := 64, 3
	for name, v := range map[string]*int{"SPEC_BENCH_TOKENS": &tokens, "SPEC_BENCH_REPEATS": &repeats} {
		fmt.Sscan(os.Getenv(name), v)
	}
	rt, err := engine.NewRuntime(engine.RuntimeOptions{SIMD: os.Getenv("SPEC_SIMD")})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close()
	l := sharedLoad{
		target: enlarged(b, rt, testdata.Target(),
			synth.Shape{HiddenSize: 2048, Layers: 16, Heads: 32, KVHeads: 8, FeedForward: 8192}),
		draft:  enlarged(b, rt, testdata.Draft(), synth.Shape{HiddenSize: 384, Layers: 6, Heads: 6, FeedForward: 1536}),
		tokens: tokens,
	}
	l.prompts = benchPrompts(b, l.target, most)
	l.texts = make([][]int32, len(l.prompts))
	one := 0.0
	for _, n := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("%s/%d", rt.SIMD(), n), func(b *testing.B) {
			for range b.N {
				var plain, auto, ratio, rows, drafting []float64
				for range repeats {
					p, a := l.run(b, n, false), l.run(b, n, true)
					plain, auto, ratio = append(plain, p.rate), append(auto, a.rate), append(ratio, a.rate/p.rate)
					rows, drafting = append(rows, a.rows), append(drafting, a.drafting)
				}
				if n == 1 {
					one = median(plain)
				}
				b.Logf("%d: auto by plain %.2f", n, ratio)
				b.ReportMetric(median(plain), "plain-tokens/s")
				b.ReportMetric(median(auto), "auto-tokens/s")
				b.ReportMetric(median(ratio), "auto-by-plain")
				if one > 0 {
					b.ReportMetric(median(plain)/one, "plain-by-one")
					b.ReportMetric(median(auto)/one, "auto-by-one")
				}
				b.ReportMetric(median(rows), "rows/pass")
				b.ReportMetric(median(drafting), "draft-share")
			}
		})
	}
}

// sharedLoad is what BenchmarkShared measures.
type sharedLoad struct {
	target, draft *engine.Model
	prompts       [][]int32
	tokens        int
	texts         [][]int32 // that the decoders wrote, as far as they came
}

// sharedRun is what came of it: tokens per second, rows of a pass of the target, and the draft model's share of the
// time.
type sharedRun struct{ rate, rows, drafting float64 }

func (l *sharedLoad) run(b *testing.B, n int, auto bool) sharedRun {
	targets, drafts := shared.New(l.target, shared.Options{}), shared.New(l.draft, shared.Options{})
	defer targets.Close()
	defer drafts.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var ready, wait sync.WaitGroup
	begin := make(chan bool)
	ready.Add(n)
	var written atomic.Int64
	var took time.Duration
	var start time.Time
	var experience speculative.Experience
	for i := range n {
		wait.Go(func() {
			t, err1 := targets.NewSession(ctx, shared.SessionOptions{})
			d, err2 := drafts.NewSession(ctx, shared.SessionOptions{})
			if err := errors.Join(err1, err2); err != nil {
				b.Error(err)
				ready.Done()
				return
			}
			for _, err := range speculative.New(t, nil, speculative.Options{MaxTokens: 1}).Generate(
				ctx, l.prompts[i], engine.Sampling{}) {
				if err != nil {
					b.Error(err)
				}
			}
			var drafter speculative.Drafter
			if auto {
				drafter = speculative.Tree(d, speculative.TreeOptions{})
			}
			ready.Done()
			<-begin
			var got []int32
			for tok, err := range speculative.New(t, drafter, speculative.Options{Experience: &experience}).Generate(
				ctx, l.prompts[i], engine.Sampling{}) {
				if err != nil {
					if ctx.Err() == nil {
						b.Error(err)
					}
					break
				}
				got = append(got, tok.ID)
				if written.Add(1) == int64(n*l.tokens) {
					took = time.Since(start)
					cancel()
				}
			}
			if k := min(len(got), len(l.texts[i])); !slices.Equal(got[:k], l.texts[i][:k]) {
				b.Errorf("%d decoders, decoder %d: another text", n, i)
			}
			if len(got) > len(l.texts[i]) {
				l.texts[i] = got
			}
		})
	}
	ready.Wait()
	before := targets.Stats()
	start = time.Now()
	close(begin)
	wait.Wait()
	st := targets.Stats()
	return sharedRun{
		rate:     float64(n*l.tokens) / took.Seconds(),
		rows:     float64(st.Tokens-before.Tokens) / float64(st.Passes-before.Passes),
		drafting: drafts.Stats().PassTime.Seconds() / took.Seconds(),
	}
}

func enlarged(b *testing.B, rt *engine.Runtime, file *strings.Reader, shape synth.Shape) *engine.Model {
	small := io.NewSectionReader(file, 0, file.Size())
	f, err := gguf.Open(small, small.Size(), "small")
	if err != nil {
		b.Fatal(err)
	}
	large, err := synth.Enlarge(f, shape)
	if err != nil {
		b.Fatal(err)
	}
	m, err := engine.New(context.Background(), rt, large, large.Size(), engine.Options{Name: "enlarged"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.Close)
	return m
}

const benchPromptTokens = 64 // of each prompt: the time goes into decoding

// benchPrompts are the beginnings of the first prompts of code.
func benchPrompts(b *testing.B, m *engine.Model, n int) (all [][]int32) {
	f, err := os.Open(testkit.Shared(b, "text/prompts-code.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && len(all) < n {
		var line struct{ Prompt string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			b.Fatal(err)
		}
		ids := m.Tokenizer().Encode(line.Prompt, bpe.EncodeOptions{AddSpecial: true})
		all = append(all, ids[:min(len(ids), benchPromptTokens)])
	}
	return all
}
