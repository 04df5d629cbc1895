package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/serve"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// meaning is one option as a flag, as members of a request's JSON, and as a change of the library's Request.
type meaning struct {
	flags, fields string
	change        func(r *library.Request)
}

// meanings are all options of sampling, ends, constraints and speculation. Words of flags are separated by |.
var meanings = []meaning{
	{"--temp|1.3", `"temperature":1.3`, func(r *library.Request) { r.Sampling.Temperature = 1.3 }},
	{"--top-k|2", `"top_k":2`, func(r *library.Request) { r.Sampling.TopK = 2 }},
	{"--top-k|-1|--temp|1.3", `"top_k":-1,"temperature":1.3`, func(r *library.Request) { r.Sampling.Temperature = 1.3 }},
	{"--top-p|0.3", `"top_p":0.3`, func(r *library.Request) { r.Sampling.TopP = 0.3 }},
	{"--min-p|0.7", `"min_p":0.7`, func(r *library.Request) { r.Sampling.MinP = 0.7 }},
	{"--typical|0.2", `"typical_p":0.2`, func(r *library.Request) { r.Sampling.TypicalP = 0.2 }},
	{"--top-nsigma|0.1", `"top_n_sigma":0.1`, func(r *library.Request) { r.Sampling.TopNSigma = 0.1 }},
	{"--xtc-probability|1", `"xtc_probability":1`, func(r *library.Request) { r.Sampling.XTC.Probability = 1 }},
	{"--xtc-probability|1|--xtc-threshold|0.3", `"xtc_probability":1,"xtc_threshold":0.3`, func(r *library.Request) {
		r.Sampling.XTC = sampling.XTC{Probability: 1, Threshold: 0.3}
	}},
	{"--temp|1|--dynatemp-range|1", `"temperature":1,"dynatemp_range":1`, func(r *library.Request) {
		r.Sampling.Temperature, r.Sampling.Dynatemp.Range = 1, 1
	}},
	{"--temp|1|--dynatemp-range|1|--dynatemp-exp|3", `"temperature":1,"dynatemp_range":1,"dynatemp_exponent":3`,
		func(r *library.Request) {
			r.Sampling.Temperature, r.Sampling.Dynatemp = 1, sampling.Dynatemp{Range: 1, Exponent: 3}
		}},
	{"--mirostat|1|--mirostat-ent|1", `"mirostat":1,"mirostat_tau":1`, func(r *library.Request) {
		r.Sampling.Mirostat.Version, r.Sampling.Mirostat.Tau = 1, 1
	}},
	{"--temp|2|--mirostat|2|--mirostat-ent|2|--mirostat-lr|1",
		`"temperature":2,"mirostat":2,"mirostat_tau":2,"mirostat_eta":1`,
		func(r *library.Request) {
			r.Sampling.Temperature, r.Sampling.Mirostat = 2, sampling.Mirostat{Version: 2, Tau: 2, Eta: 1}
		}},
	{"--repeat-penalty|3", `"repeat_penalty":3`, func(r *library.Request) { r.Sampling.RepeatPenalty = 3 }},
	{"--repeat-penalty|3|--repeat-last-n|3", `"repeat_penalty":3,"repeat_last_n":3`, func(r *library.Request) {
		r.Sampling.RepeatPenalty, r.Sampling.PenaltyLastN = 3, 3
	}},
	{"--repeat-penalty|3|--repeat-last-n|0|--top-k|3", `"repeat_penalty":3,"repeat_last_n":0,"top_k":3`,
		func(r *library.Request) { r.Sampling.TopK = 3 }},
	{"--frequency-penalty|2", `"frequency_penalty":2`, func(r *library.Request) { r.Sampling.FrequencyPenalty = 2 }},
	{"--presence-penalty|2", `"presence_penalty":2`, func(r *library.Request) { r.Sampling.PresencePenalty = 2 }},
	{"--dry-multiplier|9", `"dry_multiplier":9`, func(r *library.Request) { r.Sampling.DRY.Multiplier = 9 }},
	{"--dry-multiplier|9|--dry-base|1|--dry-allowed-length|1|--dry-penalty-last-n|30|--dry-sequence-breaker|b",
		`"dry_multiplier":9,"dry_base":1,"dry_allowed_length":1,"dry_penalty_last_n":30,"dry_sequence_breakers":["b"]`,
		func(r *library.Request) {
			r.Sampling.DRY = sampling.DRY{Multiplier: 9, Base: 1, AllowedLength: 1, LastN: 30}
			r.Breakers = []string{"b"}
		}},
	{"--samplers|temperature;top_k|--top-k|3", `"samplers":["temperature","top_k"],"top_k":3`, func(r *library.Request) {
		r.Sampling.Order, r.Sampling.TopK = []sampling.Step{sampling.StepTemperature, sampling.StepTopK}, 3
	}},
	{"--sampler-seq|tk|--top-k|3", `"samplers":"tk","top_k":3`, func(r *library.Request) {
		r.Sampling.Order, r.Sampling.TopK = []sampling.Step{sampling.StepTemperature, sampling.StepTopK}, 3
	}},
	{"-l|15+9", `"logit_bias":{"15":9}`, func(r *library.Request) {
		r.Sampling.LogitBias = map[int32]float32{15: 9}
	}},
	{"-l|198-inf", `"logit_bias":[[198,false]]`, func(r *library.Request) { r.Sampling.Banned = []int32{198} }},
	{"-s|8", `"seed":8`, func(r *library.Request) { r.Sampling.Seed = 8 }},
	{"-n|5", `"max_tokens":5`, func(r *library.Request) { r.MaxTokens = 5 }},
	{"--stop|[", `"stop":"["`, func(r *library.Request) { r.Stop = []string{"["} }},
	// 4095 is the end of texts
	{"--ignore-eos|-l|4095+99|--temp|0", `"ignore_eos":true,"logit_bias":{"4095":99},"temperature":0`,
		func(r *library.Request) {
			r.IgnoreEOS, r.Sampling.Temperature, r.Sampling.LogitBias = true, 0, map[int32]float32{4095: 99}
		}},
	{`--grammar|root ::= [a-z]+ " x"`, `"grammar":"root ::= [a-z]+ \" x\""`, func(r *library.Request) {
		r.Constraint = library.Constraint{Kind: library.GBNF, Source: []byte(`root ::= [a-z]+ " x"`)}
	}},
	{`-j|{"type":"array"}`, `"json_schema":{"type":"array"}`, func(r *library.Request) {
		r.Constraint = library.Schema([]byte(`{"type":"array"}`))
	}},
	{`-j|{"properties":{"b":{"enum":[1,2]},"a":{"enum":[3,4]}},"required":["a"]}|--json-any-order|-l|64+50`,
		`"json_schema":{"properties":{"b":{"enum":[1,2]},"a":{"enum":[3,4]}},"required":["a"]},"json_any_order":true,` +
			`"logit_bias":{"64":50}`,
		func(r *library.Request) { // 64 is a
			r.Constraint = library.Schema([]byte(`{"properties":{"b":{"enum":[1,2]},"a":{"enum":[3,4]}},"required":["a"]}`))
			r.Constraint.AnyOrder, r.Sampling.LogitBias = true, map[int32]float32{64: 50}
		}},
	{"--drafter|none", `"speculation":{"drafter":"none"}`, chosenBy(speculative.Choice{Drafter: "none"})},
	{"--drafter|suffix|--schedule|constant|--draft-max|3",
		`"speculation":{"drafter":"suffix","schedule":"constant","max":3}`,
		chosenBy(speculative.Choice{Drafter: "suffix", Schedule: "constant", Max: 3})},
	{"--schedule|dynamic|--draft-min|2|--draft-p-min|0.9", `"speculation":{"schedule":"dynamic","min":2,"p_min":0.9}`,
		chosenBy(speculative.Choice{Schedule: "dynamic", Min: 2, Confidence: 0.9})},
	{"--drafter|early-exit|--exit-layer|2|--schedule|constant",
		`"speculation":{"drafter":"early-exit","exit_layer":2,"schedule":"constant"}`,
		chosenBy(speculative.Choice{Drafter: "early-exit", ExitLayer: 2, Schedule: "constant"})},
	{"--verify|rejection|--draft-sampling|greedy|--schedule|constant",
		`"speculation":{"verify":"rejection","draft_sampling":"greedy","schedule":"constant"}`, chosenBy(
			speculative.Choice{Verify: "rejection", Sampling: speculative.DraftGreedy, Schedule: "constant"})},
}

func chosenBy(c speculative.Choice) func(*library.Request) {
	return func(r *library.Request) { r.Speculation = c.Or(r.Speculation) }
}

// Every option of sampling, ends, constraints and speculation means the same on the command line, in the server and in
// the library: the same text of as many drafted and accepted tokens; and it means something.
func TestOneMeaning(t *testing.T) {
	p := library.Parts{Target: target(t)}
	var err error
	if p.Draft, err = engine.New(t.Context(), p.Target.Runtime(), testdata.Draft(), testdata.Draft().Size(),
		engine.Options{Name: "draft"}); err != nil {
		t.Fatal(err)
	}
	defer p.Draft.Close()
	const length = 16
	prompt := "for i := range a {\n\ta[i] = b[i]\n\ta[i] = b[i]\n\ta[i] ="
	newModel := func() *library.Model {
		m, err := library.New(p, library.Options{Speculation: usualOfPair})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := newModel()
	defer m.Close()
	serving := options[*serving](t, "serve", "-s", "7", "--log-format", "off")
	o, err := serving.options(&program{}, []serve.Entry{{Name: "m",
		Load: func(context.Context) (*library.Model, error) { return newModel(), nil }}})
	if err != nil {
		t.Fatal(err)
	}
	server, err := serve.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	type answer struct {
		text              string
		drafted, accepted int
	}
	write := func(r library.Request) answer {
		list, err := library.Collect(m.Complete(t.Context(), prompt, r))
		if err != nil {
			t.Fatal(err)
		}
		return answer{list[0].Text, list[0].Stats.Drafted, list[0].Stats.Accepted}
	}
	base := library.Request{MaxTokens: length, Sampling: library.UsualSampling(), Breakers: library.DefaultBreakers()}
	base.Sampling.Seed = 7
	plain := write(base)
	for _, x := range append([]meaning{{change: func(*library.Request) {}}}, meanings...) {
		words := slices.DeleteFunc(strings.Split(x.flags, "|"), func(s string) bool { return s == "" })
		g := options[*generate](t, append([]string{"generate", "-n", "16", "-s", "7"}, words...)...)
		r, err := g.request()
		if err != nil {
			t.Fatal(err)
		}
		byFlags := write(r)
		r = base
		x.change(&r)
		byRequest := write(r)
		head := map[string]any{"prompt": prompt, "max_tokens": length}
		if err := json.Unmarshal([]byte("{"+x.fields+"}"), &head); err != nil {
			t.Fatal(x.fields, err)
		}
		body, _ := json.Marshal(head)
		status, data := server.Do(t.Context(), "/v1/completions", body)
		var a struct {
			Choices []struct{ Text string }
			Timings struct {
				Drafted  int `json:"draft_n"`
				Accepted int `json:"draft_n_accepted"`
			}
		}
		if err := json.Unmarshal(data, &a); err != nil || status != 200 {
			t.Errorf("%s: %d %s", x.fields, status, data)
			continue
		}
		byFields := answer{a.Choices[0].Text, a.Timings.Drafted, a.Timings.Accepted}
		if byFlags != byRequest || byFields != byRequest {
			t.Errorf("%s:\nflags   %+v\nfields  %+v\nlibrary %+v", x.flags, byFlags, byFields, byRequest)
		}
		if x.flags != "" && (byRequest == plain || byRequest.text == "") {
			t.Errorf("%s: no effect", x.flags)
		}
	}
}

// The table of meanings has every flag of these groups.
func TestMeaningsAreComplete(t *testing.T) {
	g := newGenerate()
	reason := map[string]string{
		"--grammar-file": "--grammar from a file", "--json-schema-file": "--json-schema from a file",
		"--learned": "a file of the process", "--draft-from": "TestDraftFrom",
		"--lookup":      "TestLookup",
		"--draft-vocab": "a model that is opened, not a request's", "--draft-vocab-from": "likewise",
		"--spec-draft-model": "a model that is opened, not a request's",
		"--model-draft":      "likewise", "--hf-repo-draft": "likewise",
	}
	for _, f := range slices.Concat(g.textRows(), g.speculation.rows()) {
		if f.ignored || slices.ContainsFunc(f.names, func(n string) bool { return reason[n] != "" }) {
			continue
		}
		if !slices.ContainsFunc(meanings, func(x meaning) bool {
			return slices.ContainsFunc(strings.Split(x.flags, "|"), func(s string) bool { return slices.Contains(f.names, s) })
		}) {
			t.Errorf("%v: its meaning is not compared", f.names)
		}
	}
}
