package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// said are values of a field that its samples do not have, or that a pair needs.
var said = map[string]string{
	"logprobs": `true`, "suffix": `"x"`, "tool_choice": `"required"`, "continue_final_message": `true`,
}

const theAssistant = `[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]`

// sayField puts a field into a body, with what it does not mean anything without.
func sayField(ep *endpoint, body map[string]string, name string) {
	v, ok := said[name]
	sample := samples[name]
	if special, has := anthropicSamples[name]; has && ep.form == formMessages {
		sample, ok = special, false
	}
	if !ok && len(sample.good) > 0 {
		v = sample.good[len(sample.good)-1]
	}
	flat := `[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]`
	ofForm := map[forms]string{formChat: aTool, formResponses: flat, formMessages: anthropicSamples["tools"].good[0]}
	switch name {
	case "tool_choice":
		if ep.form == formMessages {
			v = `{"type":"any"}`
		}
		body["tools"] = ofForm[ep.form]
	case "tools":
		v = cmp.Or(ofForm[ep.form], v)
	case "logprobs":
		if ep.form == formCompletion {
			v = `2`
		}
	case "top_logprobs":
		body["logprobs"] = `true`
	case "continue_final_message":
		body["messages"] = theAssistant
	case "n_predict", "max_completion_tokens":
		delete(body, "max_tokens")
	}
	if v != "" {
		body[name] = v
	}
}

// refusal is why a body is refused before anything is computed; "": it is not.
func refusal(s *tester, ep *endpoint, members map[string]string) string {
	s.t.Helper()
	raw := map[string]json.RawMessage{}
	for k, v := range members {
		raw[k] = json.RawMessage(v)
	}
	body, err := json.Marshal(raw)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := s.parse(s.t.Context(), ep.form, s.anyone, body, false)
	if err != nil {
		return asError(err).Message
	}
	if e := ep.check(s.Server, r); e != nil {
		return e.Message
	}
	m, release, err := s.models.acquire(s.t.Context(), r.model)
	if err != nil {
		s.t.Fatal(err)
	}
	defer release()
	task, err := s.bind(s.t.Context(), m, r)
	if err != nil {
		return asError(err).Message
	}
	task.Close()
	return ""
}

// refusedFields are pairs of fields that are refused for one reason.
type refusedFields struct {
	one  string   // "": any two of with
	with []string // fields
	says string   // of the first pair
}

// refusedPairs tries all pairs of fields that are answered by themselves.
func refusedPairs(s *tester) (list []*refusedFields) {
	reasons, done := map[string]*refusedFields{}, forms(0)
	for _, ep := range endpoints {
		if done&ep.form != 0 {
			continue
		}
		done |= ep.form
		var names []string
		for _, name := range slices.Sorted(maps.Keys(s.tables[ep.form])) {
			body := maps.Clone(base[ep.form])
			sayField(ep, body, name)
			if s.tables[ep.form][name].kind == honored && base[ep.form][name] == "" && refusal(s, ep, body) == "" {
				names = append(names, name)
			}
		}
		for i, a := range names {
			for _, b := range names[i+1:] {
				body := maps.Clone(base[ep.form])
				sayField(ep, body, a)
				sayField(ep, body, b)
				if says := refusal(s, ep, body); says != "" {
					list = addRefused(s.t, list, reasons, a, b, says)
				}
			}
		}
	}
	return list
}

// addRefused adds a pair to those of its reason: the error, but for the names of the fields.
func addRefused(t testing.TB, list []*refusedFields, reasons map[string]*refusedFields, a, b, says string,
) []*refusedFields {
	reason := says
	for _, name := range []string{a, b} {
		also := name
		if name == "tool_choice" {
			also = "tools"
		}
		if !strings.Contains(says, name) && !strings.Contains(says, also) {
			t.Errorf("%s with %s: the error does not name %s: %s", a, b, name, says)
		}
		reason = regexp.MustCompile(name+`(\.\w+)*`).ReplaceAllString(reason, "X")
	}
	const twice = "gives a grammar already" // a word of it is a field's name
	if strings.HasSuffix(says, twice) {
		reason = twice
	}
	one := ""
	for _, name := range []string{"continue_final_message", "tool_choice"} { // which exclude many that do not each other
		if one == "" && (a == name || b == name) {
			one = name
		}
	}
	x := reasons[one+reason]
	if x == nil {
		x = &refusedFields{one: one, says: says}
		reasons[one+reason], list = x, append(list, x)
	}
	for _, name := range []string{a, b} {
		if name != one && !slices.Contains(x.with, name) {
			x.with = append(x.with, name)
		}
	}
	return list
}

// needed are fields that mean nothing without another one, or contradict it by their values.
var needed = []struct{ path, one, two, body string }{
	{"/v1/chat/completions", "`top_logprobs`", "no `logprobs`", `"top_logprobs":3`},
	{"/v1/chat/completions", "`tool_choice` with a call", "no `tools`", `"tool_choice":"required"`},
	{"/v1/chat/completions", "`add_generation_prompt: false`", "no `continue_final_message`",
		`"add_generation_prompt":false`},
	{"/v1/chat/completions", "`add_generation_prompt: true`", "`continue_final_message: true`",
		`"add_generation_prompt":true,"continue_final_message":true`},
	{"/v1/chat/completions", "`max_tokens`", "another `max_completion_tokens` or `n_predict`",
		`"max_tokens":4,"max_completion_tokens":5`},
	{"/v1/chat/completions", "`speculation.verify: greedy`", "a temperature",
		`"speculation":{"verify":"greedy"},"temperature":1`},
	{"/v1/chat/completions", "`speculation.exit_layer`", "other drafters",
		`"speculation":{"drafter":"ngram","exit_layer":1}`},
	{"/v1/completions", "`suffix`", "a prompt of token ids", `"prompt":[5,6],"suffix":"x"`},
}

// TestRefusedFieldsTogether: fields of a request that exclude each other, found by trying all pairs, are refused by an
// error that names both, which the table of docs/TOGETHER.md shows; likewise those that need another one.
func TestRefusedFieldsTogether(t *testing.T) {
	s := newTester(t, nil)
	withInfill(t, s)
	var b strings.Builder
	row := func(one, two, says string) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", one, two, strings.ReplaceAll(says, "|", `\|`))
	}
	for _, x := range refusedPairs(s) {
		one, with := "any two of", "`"+strings.Join(x.with, "`, `")+"`"
		if x.one != "" {
			one = "`" + x.one + "`"
		} else if len(x.with) == 2 {
			one, with = "`"+x.with[0]+"`", "`"+x.with[1]+"`"
		}
		row(one, with, x.says)
	}
	for _, c := range needed {
		body := `{"messages":` + base[formChat]["messages"] + `,` + c.body + `}`
		if c.path == "/v1/completions" {
			body = "{" + c.body + "}"
		}
		e, _ := decode(t, s.post(c.path, body, 400)).get(t, "error", "message").(string)
		if e == "" {
			t.Errorf("%s %s: no message", c.path, body)
		}
		row(c.one, c.two, e)
	}
	testkit.Printed(t, "docs/TOGETHER.md", "refused fields",
		"| field | with | error |\n|---|---|---|\n"+b.String())
}
