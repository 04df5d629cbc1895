package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/speculative"
)

// choices are options of speculation on the command line and in a request. The drafters draft by the text alone, not by
// the clock, or what they drafted is not compared.
var choices = []struct {
	args  string
	field string // of "speculation"
	clock bool   // the drafts depend on the machine's speed
}{
	{"", ``, false},
	{"--schedule heuristic --draft-max 8", `"schedule":"heuristic","max":8`, false},
	{"--draft-max 2", `"max":2`, false},
	{"--draft-min 7", `"min":7`, false},
	{"--schedule constant", `"schedule":"constant"`, false},
	{"--schedule constant --draft-min 7", `"schedule":"constant","min":7`, false},
	{"--schedule constant --draft-p-min 0.5", `"schedule":"constant","p_min":0.5`, false},
	{"--schedule dynamic", `"schedule":"dynamic"`, false},
	{"--schedule dynamic --draft-p-min 0.8", `"schedule":"dynamic","p_min":0.8`, false},
	{"--schedule dynamic --draft-p-min 0 --draft-max 9", `"schedule":"dynamic","p_min":0,"max":9`, false},
	{"--schedule auto", `"schedule":"auto"`, true},
	{"--verify stairs", `"verify":"stairs"`, false},
	{"--verify stairs --draft-max 3", `"verify":"stairs","max":3`, false},
	{"--verify match", `"verify":"match"`, false},
	{"--verify rejection", `"verify":"rejection"`, false},
	{"--verify block --schedule constant", `"verify":"block","schedule":"constant"`, false},
	{"--draft-sampling greedy", `"draft_sampling":"greedy"`, false},
	{"--draft-sampling shared --verify block", `"draft_sampling":"shared","verify":"block"`, false},
	{"--draft-sampling q", `"draft_sampling":"q"`, false},
	{"--drafter model", `"drafter":"model"`, false},
	{"--drafter tree", `"drafter":"tree"`, true},
	{"--drafter splice", `"drafter":"splice"`, true},
	{"--drafter ngram", `"drafter":"ngram"`, false},
	{"--drafter suffix", `"drafter":"suffix"`, false},
	{"--drafter self", `"drafter":"self"`, false},
	{"--drafter self-splice", `"drafter":"self-splice"`, true},
	{"--drafter early-exit", `"drafter":"early-exit"`, false},
	{"--drafter early-exit --exit-layer 5", `"drafter":"early-exit","exit_layer":5`, false},
	{"--drafter reencode", `"drafter":"reencode"`, false},
	{"--drafter intersect", `"drafter":"intersect"`, false},
	{"--drafter none", `"drafter":"none"`, false},
	{"--drafter none", `"off":true`, false},
	{"--drafter eagle", `"drafter":"eagle"`, false},
	{"--drafter eagle-tree", `"drafter":"eagle-tree"`, true},
}

// written is a text, with what was drafted for it.
type written struct {
	text              string
	drafted, accepted int
}

// TestCommandLineAndServerSpeculateAlike: every option of speculation means the same as a flag of generate, as a flag
// of a server, and in a request: the same text with as many tokens drafted and accepted.
func TestCommandLineAndServerSpeculateAlike(t *testing.T) {
	const prompt, tokens, seed, temperature = "func (r *Ring) Push(x int) {\n", 16, 7, "0.6"
	dir := t.TempDir()
	generate := func(args string) written {
		line := []string{"-p", prompt, "-n", fmt.Sprint(tokens), "-s", fmt.Sprint(seed),
			"--temp", temperature, "--top-k", "0", "--top-p", "1", "--min-p", "0"}
		r := parsed(t, append(line, strings.Fields(args)...)...)
		return written{r.Text, r.Stats.Drafted, r.Stats.Accepted}
	}
	serve := func(flags string, fields []string) (all []written) {
		in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
		var lines strings.Builder
		for i, f := range fields {
			quoted, _ := json.Marshal(prompt)
			fmt.Fprintf(&lines, `{"custom_id":"%d","method":"POST","url":"/v1/completions","body":{"prompt":%s,"max_tokens":%d,"seed":%d,`+
				`"temperature":%s,"top_k":0,"top_p":1,"min_p":0,"speculation":{%s}}}`+"\n", i, quoted, tokens, seed, temperature, f)
		}
		write(t, in, lines.String())
		os.Remove(out)
		done(t, "", append([]string{"batch", "-i", in, "-o", out, "-np", "1"}, strings.Fields(flags)...)...)
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		all = make([]written, len(fields))
		for l := range strings.Lines(string(data)) {
			a := decode[struct {
				ID       string `json:"custom_id"`
				Response struct {
					Body struct {
						Choices []struct{ Text string }
						Timings struct {
							Drafted  int `json:"draft_n"`
							Accepted int `json:"draft_n_accepted"`
						}
					}
				}
			}](t, l)
			body := a.Response.Body
			if len(body.Choices) == 0 {
				t.Fatalf("%s: %s", flags, l)
			}
			var i int
			fmt.Sscan(a.ID, &i)
			all[i] = written{body.Choices[0].Text, body.Timings.Drafted, body.Timings.Accepted}
		}
		return all
	}
	compare := func(what, args string, clock bool, got written) {
		want := generate(args)
		if clock {
			got.drafted, got.accepted, want.drafted, want.accepted = 0, 0, 0, 0
		}
		if got != want {
			t.Errorf("%s, %s: %+v, the command line %+v", args, what, got, want)
		}
	}
	var fields []string
	for _, c := range choices {
		if !strings.Contains(c.field, "eagle") {
			fields = append(fields, c.field)
		}
	}
	requests, heads := serve("", fields), serve("--drafter eagle", []string{`"drafter":"eagle"`, `"drafter":"eagle-tree"`})
	named := map[string]bool{"lookup": true}
	t.Setenv("SPEC_CACHE", dir)
	other := filepath.Join(dir, "other.go")
	write(t, other, prompt+strings.Repeat("\tr.items = append(r.items, x)\n", 3)+"}\n")
	looks := "--drafter lookup --schedule constant --lookup " + other
	compare("as flags of a server", looks, false, serve(looks, []string{""})[0])
	if r := generate(looks); r.drafted == 0 {
		t.Errorf("%s drafts nothing", looks)
	}
	for _, c := range choices {
		i := slices.Index(fields, c.field)
		switch {
		case c.field == `"drafter":"eagle"`:
			compare("in a request", c.args, c.clock, heads[0])
		case c.field == `"drafter":"eagle-tree"`:
			compare("in a request", c.args, c.clock, heads[1])
		default:
			compare("in a request", c.args, c.clock, requests[i])
		}
		if strings.Contains(c.args, "--draft-max 8") || strings.Contains(c.args, "stairs") ||
			strings.Contains(c.args, "p-min") {
			compare("as flags of a server", c.args, c.clock, serve(c.args, []string{""})[0])
		}
		for _, word := range strings.Fields(c.args) {
			named[word] = true
		}
	}
	for _, name := range slices.Concat(speculative.Names(speculative.Drafters(), false),
		speculative.Names(speculative.Schedules(), false),
		speculative.Names(speculative.Verifiers(), false), speculative.DraftSamplings()) {
		// At a temperature; of files that have such a block, or of another head.
		if !named[name] && name != "greedy" && name != "mtp" && name != "dflash" {
			t.Errorf("%s is not compared", name)
		}
	}
	for _, f := range choiceRows(&speculative.Choice{}) {
		if !slices.ContainsFunc(f.names, func(n string) bool { return named[n] }) {
			t.Errorf("%s is not compared", f.names[0])
		}
	}
}
