package main

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// target loads the embedded target.
func target(t *testing.T) *engine.Model {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	m, err := engine.New(t.Context(), rt, testdata.Target(), testdata.Target().Size(), engine.Options{Name: "target"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// The defaults are llama.cpp's, and each flag changes its own option and nothing else.
func TestGenerateOptions(t *testing.T) {
	plain := options[*generate](t, "generate")
	want := &generate{
		predict: -1, seed: -1, color: "auto", chatFlags: chatFlags{reasoning: "auto"},
		sampling: engine.Sampling{
			Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1, PenaltyLastN: 64, TypicalP: 1,
			Dynatemp: sampling.Dynatemp{Exponent: 1}, XTC: sampling.XTC{Threshold: 0.1},
			Mirostat: sampling.Mirostat{Tau: 5, Eta: 0.1},
			DRY:      sampling.DRY{Base: 1.75, AllowedLength: 2, LastN: -1},
		},
	}
	if !reflect.DeepEqual(plain, want) {
		t.Errorf("defaults %+v, want %+v", plain, want)
	}
	for line, change := range map[string]func(g *generate){
		"-m x.gguf":                           func(g *generate) { g.model = "x.gguf" },
		"--model=x=y":                         func(g *generate) { g.model = "x=y" },
		"-t 3":                                func(g *generate) { g.threads = 3 },
		"--weights Q4_K":                      func(g *generate) { g.weights = "q4_k" },
		"-c 512":                              func(g *generate) { g.context = 512 },
		"--ctx-size 512":                      func(g *generate) { g.context = 512 },
		"--kv Q8_0":                           func(g *generate) { g.cache.kv = "q8_0" },
		"-ctk f32 -ctv F32":                   func(g *generate) { g.cache.keys, g.cache.values = "f32", "f32" },
		"--no-kv-cache":                       func(g *generate) { g.noCache = true },
		"-p a":                                func(g *generate) { g.prompt.text, g.prompt.given = "a", true },
		"-f a":                                func(g *generate) { g.prompt.file = "a" },
		"--no-escape":                         func(g *generate) { g.prompt.verbatim = true },
		"--no-escape -e":                      func(g *generate) {},
		"--display-prompt":                    func(g *generate) { g.displayPrompt = true },
		"--no-display-prompt":                 func(g *generate) { g.noDisplay = true },
		"-n 7":                                func(g *generate) { g.predict = 7 },
		"--stop a -r b":                       func(g *generate) { g.stop = []string{"a", "b"} },
		"--ignore-eos":                        func(g *generate) { g.ignoreEOS = true },
		"--grammar a":                         func(g *generate) { g.grammar = "a" },
		"--grammar-file a":                    func(g *generate) { g.grammarFile = "a" },
		"-j {} --json-any-order":              func(g *generate) { g.schema, g.anyOrder = "{}", true },
		"-j {}":                               func(g *generate) { g.schema = "{}" },
		"--json-schema-file a":                func(g *generate) { g.schemaFile = "a" },
		"--temp 0.5":                          func(g *generate) { g.sampling.Temperature = 0.5 },
		"--top-k 3":                           func(g *generate) { g.sampling.TopK = 3 },
		"--top-p 0.3":                         func(g *generate) { g.sampling.TopP = 0.3 },
		"--top-p 0":                           func(g *generate) { g.sampling.TopP = sampling.Zero },
		"--typical 0":                         func(g *generate) { g.sampling.TypicalP = sampling.Zero },
		"--xtc-threshold 0":                   func(g *generate) { g.sampling.XTC.Threshold = sampling.Zero },
		"--dynatemp-exp 0":                    func(g *generate) { g.sampling.Dynatemp.Exponent = sampling.Zero },
		"--mirostat-ent 0":                    func(g *generate) { g.sampling.Mirostat.Tau = sampling.Zero },
		"--mirostat-lr 0":                     func(g *generate) { g.sampling.Mirostat.Eta = sampling.Zero },
		"--min-p 0.3":                         func(g *generate) { g.sampling.MinP = 0.3 },
		"--repeat-penalty 1.5":                func(g *generate) { g.sampling.RepeatPenalty = 1.5 },
		"--frequency-penalty 0.5":             func(g *generate) { g.sampling.FrequencyPenalty = 0.5 },
		"--presence-penalty 0.5":              func(g *generate) { g.sampling.PresencePenalty = 0.5 },
		"--repeat-last-n 9":                   func(g *generate) { g.sampling.PenaltyLastN = 9 },
		"-l 15-1.5 -l 3+2":                    func(g *generate) { g.sampling.LogitBias = map[int32]float32{15: -1.5, 3: 2} },
		"-l 15-inf -l 16-inf":                 func(g *generate) { g.sampling.Banned = []int32{15, 16} },
		"-s 5000000000":                       func(g *generate) { g.seed = 5000000000 },
		"-md a -md b":                         func(g *generate) { g.drafts = []string{"a", "b"} },
		"--drafter suffix":                    func(g *generate) { g.choice.Drafter = "suffix" },
		"--drafter early-exit --exit-layer 2": func(g *generate) { g.choice.Drafter, g.choice.ExitLayer = "early-exit", 2 },
		"--schedule dynamic":                  func(g *generate) { g.choice.Schedule = "dynamic" },
		"--draft-max 9":                       func(g *generate) { g.choice.Max = 9 },
		"--draft 9":                           func(g *generate) { g.choice.Max = 9 },
		"--draft-min 2":                       func(g *generate) { g.choice.Min = 2 },
		"--draft-p-min 0.25":                  func(g *generate) { g.choice.Confidence = 0.25 },
		"--verify block":                      func(g *generate) { g.choice.Verify = "block" },
		"--json --logprobs":                   func(g *generate) { g.json, g.logprobs = true, true },
		"--draft-sampling Greedy":             func(g *generate) { g.choice.Sampling = speculative.DraftGreedy },
		"--learned a":                         func(g *generate) { g.learned = "a" },
		"--receipt a":                         func(g *generate) { g.receipt = "a" },
		"--trace":                             func(g *generate) { g.trace = true },
		"--trace -n 3":                        func(g *generate) { g.trace, g.predict = true, 3 },
		"--trace file":                        func(g *generate) { g.trace, g.traceFile = true, "file" },
		"--color":                             func(g *generate) { g.color = "on" },
		"--color -n 3":                        func(g *generate) { g.color, g.predict = "on", 3 },
		"-co off":                             func(g *generate) { g.color = "off" },
		"--color OFF":                         func(g *generate) { g.color = "off" },
		"--color always":                      func(g *generate) { g.color = "on" },
		"--color=auto":                        func(g *generate) {},
		"-ngl 99 -fa on --mlock":              func(g *generate) {},
		"-fa --no-mmap -b 512 -ub 8":          func(g *generate) {},
		"-no-cnv --no-perf -ngld 99":          func(g *generate) {},
		"-ot exps=CPU -ncmoe 9 -cmoe -ts 1,1": func(g *generate) {},
		"-td 2 --prio 2 -C ff -fit off -lv 3": func(g *generate) {},
		"--no-repack --log-colors -ctkd q8_0": func(g *generate) {},
	} {
		want := *newGenerate()
		change(&want)
		if got := options[*generate](t, append([]string{
			"generate"}, strings.Fields(line)...)...); !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: %+v, want %+v", line, got, &want)
		}
	}
}

// What the engine and the decoder are given.
func TestGenerateBuilds(t *testing.T) {
	m := target(t)
	p := &program{env: func(string) string { return "avx2" }}
	parse := func(line string) *generate {
		return options[*generate](t, append([]string{"generate"}, strings.Fields(line)...)...)
	}
	if got, want := parse("-t 3").runtimeOptions(p), (engine.RuntimeOptions{Threads: 3, SIMD: "avx2"}); got != want {
		t.Errorf("-t 3: %+v", got)
	}
	if got := parse("--numa Isolate").runtimeOptions(p); got.NUMA != "isolate" {
		t.Errorf("--numa Isolate: %+v", got)
	}
	served := options[*serving](t, "serve", "--numa", "distribute").loading()
	if got := served.runtimeOptions(p); got.NUMA != "distribute" {
		t.Errorf("serve --numa distribute: %+v", got)
	}
	if got := parse("-t -1").runtimeOptions(p); got.Threads != 0 {
		t.Errorf("-t -1: %+v", got)
	}
	for line, want := range map[string]library.Options{
		"":                     {Context: 1024},
		"-c 100 --no-kv-cache": {Context: 100, NoCache: true},
		"--kv q8_0":            {Context: 1024, KV: "q8_0"},
		"-ctk q8_0 -ctv q8_0":  {Context: 1024, KV: "q8_0"},
		"-ctk f16":             {Context: 1024, KV: "f16"},
	} {
		want.Name, want.Parallel = "the embedded model", 1
		if got, err := parse(line).options(m); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}

	request := func(line string) library.Request {
		r, err := parse(line).request()
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		return r
	}
	base := library.Request{Sampling: newGenerate().sampling, Breakers: library.DefaultBreakers(),
		Speculation: speculative.Choice{Drafter: "model", Schedule: "heuristic"}}
	base.Sampling.Seed = 5000000000
	if got := request("-s 5000000000"); !reflect.DeepEqual(got, base) {
		t.Errorf("-s: %+v", got)
	}
	if a, b := request(""), request(""); a.Sampling.Seed == b.Sampling.Seed {
		t.Error("two texts without a seed have the same")
	}
	off := request("--repeat-last-n 0 --repeat-penalty 2 --frequency-penalty 1 --presence-penalty 1").Sampling
	if off = off.Normalized(); off.RepeatPenalty != 0 || off.FrequencyPenalty != 0 || off.PresencePenalty != 0 {
		t.Errorf("--repeat-last-n 0 keeps penalties: %+v", off)
	}
	if got := request("--repeat-last-n -1 --repeat-penalty 2").Sampling; got.RepeatPenalty != 2 ||
		got.PenaltyLastN != -1 {
		t.Errorf("--repeat-last-n -1: %+v", got)
	}
	got := request(`-s 5000000000 --ignore-eos -n 7 --stop a\n --draft-max 9 --draft-min 2 --draft-sampling q ` +
		`--json --logprobs -j {}`)
	want := base
	want.IgnoreEOS, want.MaxTokens, want.Stop, want.LogProbs = true, 7, []string{"a\n"}, true
	want.Speculation = speculative.Choice{Drafter: "model", Schedule: "heuristic", Max: 9, Min: 2,
		Sampling: speculative.DraftFromQ}
	want.Constraint = library.Constraint{Kind: library.JSONSchema, Source: []byte("{}"), Field: "--json-schema"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := request(`--no-escape --stop a\n`).Stop; got[0] != `a\n` {
		t.Errorf("--no-escape: %q", got)
	}
}

// Without flags the decoder chooses the verifier, and the model the drafter.
func TestSpeculationOptions(t *testing.T) {
	o, err := newGenerate().chosen("").Options(speculative.Parts{})
	if err != nil || o.Verifier != nil || !reflect.DeepEqual(
		o.Schedule, speculative.Heuristic(speculative.HeuristicOptions{})) {
		t.Errorf("for the embedded pair: %+v, %v", o, err)
	}
	for line, want := range map[string]string{"": "model", "-m x": "ngram", "--drafter none": "none"} {
		g := options[*generate](t, append([]string{"generate"}, strings.Fields(line)...)...)
		if got := g.chosen(g.model).Complete(nil, nil).Drafter; got != want {
			t.Errorf("%s: drafter %s, want %s", line, got, want)
		}
	}
}

// Draft models of files, and what the embedded pair has.
func TestDrafterOptions(t *testing.T) {
	m := target(t)
	const draft = "../../testdata/go-draft.q8_0.gguf"
	for line, want := range map[string]string{
		"":                               "model",
		"--drafter ngram":                "ngram",
		"--drafter tree":                 "tree",
		"--drafter none":                 "none",
		"-md " + draft:                   "model", // the embedded pair's default, with the file
		"-md " + draft + " -md " + draft: "merge",
		"--drafter tree -md " + draft + " -md " + draft: "merge",
	} {
		g := options[*generate](t, append([]string{"generate"}, strings.Fields(line)...)...)
		p := &program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard,
			env: func(string) string { return "" }}
		w, err := g.open(t.Context(), p, m.Runtime(), nil)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		c, err := w.Choose(w.request.Speculation, w.request.Sampling.Temperature)
		if err != nil || c.Drafter != want || (w.Draft() == nil) != (want == "ngram" || want == "none") {
			t.Errorf("%s: %+v, %v, want %s", line, c, err, want)
		}
		w.Close()
	}
	// Both draft models draft: with the same model twice, every pass of one is a pass of the other.
	one := parsed(t, "-p", ring, "--temp", "0", "-n", "12", "--schedule", "constant", "-md", draft)
	two := parsed(t, "-p", ring, "--temp", "0", "-n", "12", "--schedule", "constant", "-md", draft, "-md", draft)
	if two.Stats.DraftPasses != 2*one.Stats.DraftPasses || two.Text != one.Text {
		t.Errorf("one draft model makes %d passes, the same twice %d", one.Stats.DraftPasses, two.Stats.DraftPasses)
	}
	limited := parsed(t, "-p", ring, "--temp", "0", "-n", "12", "--schedule", "constant", "--draft-max", "1")
	if limited.Stats.Drafted > limited.Stats.Rounds || len(limited.Stats.DraftedAt) != 1 {
		t.Errorf("--draft-max 1: %+v", limited.Stats)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", `a\tb\nc\rd`: "a\tb\nc\rd", `\"\'\\n`: "\"'\\n", `\x41\x0a`: "A\n", `\x4`: `\x4`,
		`\xzz`: `\xzz`, `\d\`: `\d\`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	for line, want := range map[string]string{`-p a\tb`: "a\tb", `-p a\tb --no-escape`: `a\tb`, `-p a\tb -e`: "a\tb"} {
		f := options[*generate](t, append([]string{"generate"}, strings.Fields(line)...)...).prompt
		s, err := f.open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.read(t.Context(), math.MaxInt64); got != want || err != nil {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
}

// The other commands' options.
func TestOptions(t *testing.T) {
	check := func(line string, want job) {
		t.Helper()
		args := strings.Fields(line)
		c, err := findCommand(args[0])
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := c.parse(args[1:], noEnvironment); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", line, got, err, want)
		}
	}
	check("quantize a b Q8_0", &quantize{in: "a", out: "b", typ: "q8_0", operands: []string{}})
	check("quantize -m a -o b --type Q4_K", &quantize{in: "a", out: "b", typ: "q4_k"})
	check("quantize --type f16 a b", &quantize{in: "a", out: "b", typ: "f16", operands: []string{}})
	check("quantize -m a -o b --type iq3_xs --imatrix c --output-tensor-type Q8_0 --token-embedding-type iq3_s",
		&quantize{in: "a", out: "b", typ: "iq3_xs", imatrix: "c", output: "q8_0", embedding: "iq3_s"})
	check("quantize -o b a f16", &quantize{in: "a", out: "b", typ: "f16", operands: []string{}})
	check("inspect a", &inspect{file: "a"})
	check("inspect -m a --json", &inspect{file: "a", json: true})
	for _, line := range []string{"run -fa m", "run m -fa", "run -fa ON m", "run -fa=off m", "run -fa -n 5 m"} {
		args := strings.Fields(line)
		if got := options[*converse](t, args...); got.model != "m" || !got.named {
			t.Errorf("%s: the model is %q", line, got.model)
		}
	}
	check("tokenize --ids --no-bos --parse-special", &tokenize{ids: true, noSpecial: true, parse: true})
	check("verify a --json -m b -t 3", &verification{
		modelFlags: modelFlags{model: "b", threads: 3}, receipt: "a", json: true})
	chunks := func(tokens int) modelFlags {
		return modelFlags{sessions: engine.Sessions{Tokens: tokens, KV: "f16", Rows: engine.PerplexityRows}}
	}
	check("perplexity", &perplexity{modelFlags: chunks(512), chunk: 512, chunks: -1, results: asText})
	check("perplexity -f a -c 64 --chunks 3 -ngl 9", &perplexity{modelFlags: chunks(64), text: promptFlags{file: "a"},
		chunk: 64, chunks: 3, results: asText})
	check("imatrix -f a -c 64 -o b", &importance{text: promptFlags{file: "a"}, chunk: 64, chunks: -1, reads: "-f",
		out: "b"})
	check("imatrix --in-file a --in-file b -o c", &importance{chunk: 512, chunks: -1, in: []string{"a", "b"}, out: "c"})
	bench := newBenchmark()
	check("bench", bench)
	bench = newBenchmark()
	bench.o.Prefill, bench.o.Decode, bench.o.Contexts, bench.o.Verify, bench.o.Batches, bench.o.Sampled,
		bench.o.Repeats = []int{5, 6}, 7, []int{0, 8}, nil, []int{9}, 10, 11
	bench.deep, bench.results.format, bench.cache.kv, bench.o.KV = true, "md", "f32", "f32"
	bench.own = []string{"-p", "-n", "--verify", "--batch", "--sample", "-r"}
	check("bench -p 5,6 -n 7 -d 0,8 --verify 0 --batch 9 --sample 10 -r 11 -o MD --kv F32", bench)
	bench = newBenchmark()
	bench.results.format = "json"
	check("bench --json", bench)
	bench = newBenchmark() // what is given counts before --quick, on either side of it
	bench.quick, bench.o.Prefill, bench.o.Decode, bench.o.Verify, bench.o.Batches, bench.o.Sampled,
		bench.o.Repeats = true, []int{16, 128, 512}, 3, []int{1, 2, 4, 8, 16}, nil, 20, 9
	bench.own = []string{"-n", "-p", "--batch", "-r"}
	check("bench -n 3 -p 16,128,512 --quick --batch 0 -r 9", bench)
	compare := newComparison()
	compare.matrix.Drafters, compare.matrix.Temperatures, compare.matrix.DraftMax, compare.matrix.Confidence = []string{
		"model", "ngram"}, []float32{0, 0.5}, []int{3, 4}, []float32{0.25}
	compare.tokens, compare.repeats, compare.warmup, compare.seed, compare.page = 9, 2, 0, 7, "x"
	check("compare --drafter Model,ngram --temp 0,0.5 --draft-max 3,4 --draft-p-min 0.25 -n 9 -r 2 --warmup 0 -s 7 "+
		"--html x", compare)
	plan := newPlanning()
	plan.config.Tokens, plan.seconds, plan.seed, plan.config.Sampling.Temperature = 20, 2, 3, 0
	check("plan -n 20 --seconds 2 -s 3 --temp 0", plan)
	demo := newDemonstration()
	demo.tokens, demo.seed, demo.sampling.Temperature, demo.color = 20, 3, 0, "off"
	check("demo -n 20 -s 3 --temp 0 --color off", demo)
	if newDemonstration().sampling.Temperature != 0.7 || newDemonstration().tokens != 160 {
		t.Errorf("demo: %+v", newDemonstration())
	}
	self := &selfTest{draft: "d"}
	self.config.Quick, self.config.Draws, self.config.Tokens = true, 200, 5
	check("selftest -md d --quick --draws 200 -n 5", self)
}

// Flags without effect are accepted, with one line that names them.
func TestIgnoredFlags(t *testing.T) {
	_, errs, code := spec(t, "", "generate", "-p", ring, "-n", "2", "--temp", "0", "-ngl", "99", "-fa", "on",
		"--mlock", "-b", "512")
	first, rest, _ := strings.Cut(errs, "\n")
	if code != exitDone || first != "spec generate: without effect here: -ngl 99 -fa on --mlock -b 512" ||
		strings.Count(rest, "\n") != 1 {
		t.Errorf("exit %d, %q", code, errs)
	}
	// So are those of llama.cpp's programs for one text.
	for _, args := range [][]string{
		{"generate", "-p", ring, "-n", "1", "-v", "--verbose-prompt", "--no-context-shift", "--keep", "-1"},
		{"chat", "--chat-template", "plain", "-cnv", "--no-display-prompt"},
		{"tokenize", "-p", "x", "--no-parse-special", "--log-disable"}, {"tokenize", "--stdin"},
		{"quantize", "--allow-requantize", "../../testdata/go-target.q8_0.gguf", filepath.Join(t.TempDir(), "x"), "q4_0"},
	} {
		if _, errs, code := spec(t, "", args...); code != exitDone || !strings.Contains(errs, "without effect here: -") {
			t.Errorf("%q: exit %d, %q", args, code, errs)
		}
	}
}

// Flags that llama.cpp's programs have and this one does not are refused with a reason, or without effect.
func TestFlagsOfLlamaPrograms(t *testing.T) {
	const both = "--warmup --no-warmup --mmproj-auto --no-mmproj --mmproj-offload --image-min-tokens -sp --special " +
		"--cpu-mask-draft --spec-draft-prio --reasoning-budget-message --reasoning-preserve --no-reasoning-preserve " +
		"--skip-chat-parsing --no-skip-chat-parsing --log-prompts-dir --spec-default --spec-type --spec-ngram-size-n " +
		"--spec-ngram-mod-n-match --spec-ngram-map-k4v-min-hits --gpt-oss-20b-default --completion-bash --no-jinja " +
		"--swa-full -ctxcp -cram -np --log-verbose "
	programs := map[*[]flag]string{}
	of := func(groups []group, names string) { list := flagsOf(groups); programs[&list] = names }
	of(new(converse).flags(), both+"--server-base -mli --multiline-input -bf --display-prompt --no-display-prompt")
	of(new(generate).flags(), both+"-ptc --print-token-count -bf --binary-file -mli")
	of(new(serving).flags(), both+"--spm-infill --reuse-port "+
		"--cors-methods --cors-headers --cors-credentials --ui-config "+
		"--webui-config-file --ui-mcp-proxy --no-ui-mcp-proxy --no-agent --fim-qwen-7b-spec --mtmd-batch-max-tokens")
	of(new(embedding).flags(), "--attention --cls-separator --embd-separator --embd-normalize")
	of(new(importance).flags(), "--process-output --no-ppl --ppl --chunk --from-chunk --show-statistics --output-format "+
		"--save-frequency --parse-special")
	for list, names := range programs {
		for _, name := range strings.Fields(names) {
			if find(*list, name) == nil && refusedFlags[strings.TrimLeft(name, "-")] == "" {
				t.Errorf("%s is unknown", name)
			}
		}
	}
}

func TestSuggest(t *testing.T) {
	for given, want := range map[string]string{
		"--tepm": "--temp", "-temp": "--temp", "--tmep": "--temp", "--top_k": "--top-k", "--TOP-K": "--top-k", "--zzz": "",
		"--draft-maxx": "--draft-max", "-x": "", strings.Repeat("a", 10000): "", // and of one letter nothing is near,
		"--draft": "--draft-max", "--metr": "--metrics",
		"-i": "", "-tt": "-t", "--no-metrics": "", "--webui": "", "--no-weui": "--no-webui", // nor is the opposite
	} {
		got := suggest(given, []string{"--temp", "--top-k", "--top-p", "--draft-max", "-t", "--metrics", "--no-webui"})
		if want != "" {
			want = ", did you mean " + want + "?"
		}
		if got != want {
			t.Errorf("%.20s: %q, want %q", given, got, want)
		}
	}
	// Flags with an effect come before those without one.
	for given, want := range map[string]string{"--out": "--output", "--mlokc": "--mlock"} {
		if _, errs, _ := spec(t, "", "embed", given, "x"); !strings.Contains(errs, "did you mean "+want+"?") {
			t.Errorf("%s: %s", given, errs)
		}
	}
}

// A writer that fails, as a full disk does.
type fullDisk struct{ after int }

var errFull = errors.New("no space left")

func (f *fullDisk) Write(b []byte) (int, error) {
	if f.after -= len(b); f.after < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// Output that cannot be written is an error: one line, no figures.
func TestFullDisk(t *testing.T) {
	for _, args := range [][]string{
		{"generate", "-p", ring, "-n", "20"},
		{"generate", "-p", ring, "-n", "4", "--json"},
		{"tokenize", "-p", ring}, {"inspect"}, {"version"}, {"help"}, {"help", "generate"},
		{"bench", "--quick", "-n", "2", "-p", "0", "--verify", "0", "--batch", "0", "-d", "0"},
	} {
		for _, after := range []int{0, 5} {
			var errs strings.Builder
			p := &program{stdin: strings.NewReader(""), stdout: &fullDisk{after}, stderr: &errs, measured: 4 << 20,
				env: environment("LLAMA_ARG_THREADS=1")}
			if code := p.main(context.Background(), args); code != exitFailed || strings.Count(errs.String(), "\n") != 1 ||
				!strings.Contains(errs.String(), "no space left") {
				t.Errorf("%v, %d bytes: exit %d, %q", args, after, code, errs.String())
			}
		}
	}
}

// yes is the endless output of the command of that name.
type yes struct{ given int64 }

func (y *yes) Read(b []byte) (int, error) {
	y.given += int64(len(b))
	for i := range b {
		b[i] = "y\n"[i%2]
	}
	return len(b), nil
}

// A text without end is refused once it is longer than the context can hold, a large file at once.
func TestEndlessText(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("no /dev/zero here")
	}
	large := filepath.Join(t.TempDir(), "large")
	write(t, large, "y")
	if err := os.Truncate(large, textLimit+1); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"generate"}, {"generate", "-f", "/dev/zero"}, {"tokenize", "-f", "/dev/zero"}, {"perplexity", "-f", large},
	} {
		var errs strings.Builder
		in := new(yes)
		p := &program{stdin: in, stdout: io.Discard, stderr: &errs, env: environment("LLAMA_ARG_THREADS=1")}
		code := p.main(context.Background(), args)
		if code != exitFailed || !strings.Contains(errs.String(), "longer than a context of 1024") &&
			!strings.Contains(errs.String(), "more than 64 MiB") {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
		if in.given > 1<<20 { // 1,024 tokens are much less
			t.Errorf("%v reads %d bytes", args, in.given)
		}
	}
	m := target(t)
	most := longestPrompt(m.Tokenizer(), 100)
	if most < 100 || most > 100*200+4096 {
		t.Errorf("100 tokens are at most %d bytes", most)
	}
}

// -s 0 is a seed of a server and of a batch too, and no seed is another for each request.
func TestSeedsOfServers(t *testing.T) {
	for line, want := range map[string]bool{"": false, "-s -1": false, "-s 0": true, "-s 7": true} {
		s := options[*serving](t, append([]string{"serve"}, strings.Fields(line)...)...)
		o, err := s.options(&program{stderr: io.Discard}, nil)
		if err != nil || o.Seeded != want || o.Sampling.Seed != uint64(max(s.seed, 0)) {
			t.Errorf("%s: %v, %d, %v", line, o.Seeded, o.Sampling.Seed, err)
		}
	}
}

// -np -1 is the default that the help tells.
func TestAutomaticParallel(t *testing.T) {
	var c capacity
	row := c.parallelRow("answers", 7)
	for value, want := range map[string]int{"-1": 7, "3": 3} {
		if err := row.set(value); err != nil || c.parallel != want {
			t.Errorf("-np %s: %d (%v), want %d", value, c.parallel, err, want)
		}
	}
	if row.standard != "7" {
		t.Errorf("the help tells %s", row.standard)
	}
}
