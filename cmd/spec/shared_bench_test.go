package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/cmd/spec/internal/synth"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// BenchmarkShared measures decoders that share passes: the total tokens per second of 1, 2, 4 and 8 greedy texts on the embedded pair
// enlarged to 1 B and 14 M parameters, without drafts and with auto. Prompts are computed before the time begins. Every text
// must be the one that the decoder writes alone. SPEC_SIMD chooses the kernels, SPEC_BENCH_TOKENS the length.
func BenchmarkShared(b *testing.B) {
	const most = 8
	tokens := 64
	if v := os.Getenv("SPEC_BENCH_TOKENS"); v != "" {
		fmt.Sscan(v, &tokens)
	}
	ctx := context.Background()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{SIMD: os.Getenv("SPEC_SIMD")})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close()
	target := enlarged(b, rt, testdata.Target(), synth.Shape{HiddenSize: 2048, Layers: 16, Heads: 32, KVHeads: 8, FeedForward: 8192})
	draft := enlarged(b, rt, testdata.Draft(), synth.Shape{HiddenSize: 384, Layers: 6, Heads: 6, FeedForward: 1536})
	prompts := benchPrompts(b, target, most)
	var want [most][]int32
	one := 0.0
	for _, how := range []string{"plain", "auto"} {
		for _, n := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("%s/%s/%d", rt.SIMD(), how, n), func(b *testing.B) {
				for range b.N {
					targets, drafts := engine.NewScheduler(target, engine.SchedulerOptions{}), engine.NewScheduler(draft, engine.SchedulerOptions{})
					var ready, wait sync.WaitGroup
					begin := make(chan bool)
					ready.Add(n)
					for i := range n {
						wait.Go(func() {
							t, err1 := targets.NewSession(ctx, engine.SessionOptions{})
							d, err2 := drafts.NewSession(ctx, engine.SessionOptions{})
							if err1 != nil || err2 != nil {
								b.Error(err1, err2)
								return
							}
							var drafter speculative.Drafter
							if how != "plain" {
								drafter = speculative.Tree(d, speculative.TreeOptions{})
							}
							writeText(b, speculative.New(t, nil, speculative.Options{MaxTokens: 1}), prompts[i])
							if drafter != nil {
								writeText(b, speculative.New(t, drafter, speculative.Options{MaxTokens: 4}), prompts[i])
							}
							ready.Done()
							<-begin
							got := writeText(b, speculative.New(t, drafter, speculative.Options{MaxTokens: tokens}), prompts[i])
							if want[i] == nil && n == 8 {
								want[i] = got
							} else if want[i] != nil && !slices.Equal(got, want[i]) {
								b.Errorf("%d decoders: another text", n)
							}
						})
					}
					ready.Wait()
					before, start := targets.Stats(), time.Now()
					close(begin)
					wait.Wait()
					took := time.Since(start).Seconds()
					rate := float64(n*tokens) / took
					if how == "plain" && n == 1 {
						one = rate
					}
					st := targets.Stats()
					b.ReportMetric(rate, "tokens/s")
					b.ReportMetric(rate/one, "of-one-plain")
					b.ReportMetric(float64(st.Segments-before.Segments)/float64(st.Passes-before.Passes), "segments/pass")
					b.ReportMetric(float64(st.Tokens-before.Tokens)/float64(st.Passes-before.Passes), "rows/pass")
					b.ReportMetric((st.PassTime-before.PassTime).Seconds()/took, "target-share")
					b.ReportMetric((drafts.Stats().PassTime).Seconds()/took, "draft-share")
					targets.Close()
					drafts.Close()
				}
			})
		}
	}
}

// writeText is the text of a decoder.
func writeText(b *testing.B, d *speculative.Decoder, prompt []int32) (ids []int32) {
	for tok, err := range d.Generate(context.Background(), prompt, engine.Sampling{}) {
		if err != nil {
			b.Error(err)
			return nil
		}
		ids = append(ids, tok.ID)
	}
	return ids
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

// benchPrompts are the first prompts of code.
func benchPrompts(b *testing.B, m *engine.Model, n int) (all [][]int32) {
	f, err := os.Open("../../../shared/text/prompts-code.jsonl")
	if err != nil {
		b.Skip("no ../shared/text beside the project")
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && len(all) < n {
		var line struct{ Prompt string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			b.Fatal(err)
		}
		all = append(all, m.Tokenizer().Encode(line.Prompt, bpe.EncodeOptions{AddSpecial: true}))
	}
	return all
}
