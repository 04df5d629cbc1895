package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/speculative"
)

// A request's least length of a draft counts, also 0, before the server's.
func TestNoLeastDraftOfARequest(t *testing.T) {
	for raw, want := range map[string]int{`{}`: 8, `{"min":3}`: 3, `{"min":0}`: 0} {
		r := &request{}
		if err := readSpeculation(r, value{"speculation", json.RawMessage(raw)}); err != nil {
			t.Fatal(err)
		}
		o, err := r.spec.Or(speculative.Choice{Min: 8}).Options(speculative.Parts{})
		if err != nil || o.DraftMin != want {
			t.Errorf("%s: %d tokens at least, want %d (%v)", raw, o.DraftMin, want, err)
		}
	}
}

// A bias is of a token or of a text, a number or a ban, in both forms; token 0 is one like any other, and a number
// below it is none.
func TestBiasesOfEveryForm(t *testing.T) {
	for raw, want := range map[string]string{
		`{"0":false}`: "bans [0]", `[[0,false]]`: "bans [0]", `{"1":false,"0":false}`: "bans [0 1]",
		`{"0":1.5}`: "bias map[0:1.5]", `[[0,-1]]`: "bias map[0:-1]", `{"7":0}`: "bias map[7:0]",
		`{"a":false}`: "texts banned [a]", `[["a",false]]`: "texts banned [a]",
		`{"a":2}`: "texts [{a 2}]", `[["a",2]]`: "texts [{a 2}]", `[["0",2]]`: "texts [{0 2}]",
		`{}`: "", `[]`: "",
		`{"-1":1}`: "refused", `[[-1,1]]`: "refused", `[[-1,false]]`: "refused", `{"0":true}`: "refused",
		`[[0]]`: "refused", `[[0,1,2]]`: "refused", `[0,1]`: "refused", `[[2147483648,1]]`: "refused",
	} {
		r := &request{}
		err := readBias(r, value{"logit_bias", json.RawMessage(raw)})
		slices.Sort(r.bans)
		got := ""
		switch {
		case err != nil:
			got = "refused"
		case r.bans != nil:
			got = fmt.Sprint("bans ", r.bans)
		case r.sampling.LogitBias != nil:
			got = fmt.Sprint("bias ", r.sampling.LogitBias)
		case r.textBans != nil:
			got = fmt.Sprint("texts banned ", r.textBans)
		case r.textBias != nil:
			got = fmt.Sprint("texts ", r.textBias)
		}
		if got != want {
			t.Errorf("%s: %s (%v), want %s", raw, got, err, want)
		}
	}
}

// A response says what was asked: top_p is the request's, 1 where there was none, 0 where that was asked.
func TestResponsesSayWhatWasAsked(t *testing.T) {
	s := newTester(t, nil)
	for more, want := range map[string]map[string]any{
		``:                             {"top_p": 1.0, "parallel_tool_calls": true, "max_output_tokens": 1.0},
		`,"top_p":0.5`:                 {"top_p": 0.5},
		`,"top_p":0`:                   {"top_p": 0.0},
		`,"top_p":1`:                   {"top_p": 1.0},
		`,"temperature":0.5`:           {"temperature": 0.5},
		`,"parallel_tool_calls":false`: {"parallel_tool_calls": false},
		`,"instructions":"Go"`:         {"instructions": "Go"},
		`,"truncation":"auto"`:         {"truncation": "auto"},
		`,"truncation":"disabled"`:     {"truncation": "disabled"},
		`,"metadata":{"a":"b"}`:        {"metadata": map[string]any{"a": "b"}},
	} {
		o := decode(t, s.post("/v1/responses", `{"input":"x","max_output_tokens":1`+more+`}`, 200))
		for field, x := range want {
			if got, ok := o[field]; !ok || fmt.Sprint(got) != fmt.Sprint(x) {
				t.Errorf("%s: %s is %v, want %v", more, field, got, x)
			}
		}
	}
	for _, body := range []string{`{}`, `{"max_output_tokens":1}`} {
		if e := decode(t, s.post("/v1/responses", body, 400)); e.get(t, "error", "param") != "input" {
			t.Errorf("%s: %v", body, e)
		}
	}
}

// An error has every name that OpenAI's has: one without a value is null.
func TestErrorsHaveEveryName(t *testing.T) {
	for want, e := range map[string]*Error{
		`{"error":{"message":"m","type":"t","param":null,"code":null}}`: {Message: "m",
			Type: "t"},
		`{"error":{"message":"m","type":"t","param":"p","code":"c"}}`: {Message: "m", Type: "t",
			Param: "p", Code: "c"},
		`{"error":{"message":"","type":"t","param":null,"code":"c","n_prompt_tokens":7,"n_ctx":5}}`: {Type: "t", Code: "c",
			Tokens: 7, Context: 5},
	} {
		if got, err := json.Marshal(e.wire()); err != nil || string(got) != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
	}
}

// What a request has to end with ends it: its client's context, the server, its time, and its own end.
func TestContextsOfRequestsEnd(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*Options)
		end    func(s *Server, client, done context.CancelFunc)
		want   error
	}{
		"client": {nil, func(_ *Server, client, _ context.CancelFunc) { client() }, context.Canceled},
		"server": {nil, func(s *Server, _, _ context.CancelFunc) { s.Cancel() }, context.Canceled},
		"done":   {nil, func(_ *Server, _, done context.CancelFunc) { done() }, context.Canceled},
		"time": {func(o *Options) { o.RequestTime = time.Millisecond },
			func(*Server, context.CancelFunc, context.CancelFunc) {},
			context.DeadlineExceeded},
		"done in time": {func(o *Options) { o.RequestTime = time.Hour },
			func(_ *Server, _, done context.CancelFunc) { done() }, context.Canceled},
	} {
		s := newTester(t, x.change)
		client, cancel := context.WithCancel(t.Context())
		ctx, done := s.joined(client, s.o.RequestTime)
		if ctx.Err() != nil && x.want == context.Canceled {
			t.Errorf("%s: %v at the beginning", name, ctx.Err())
		}
		x.end(s.Server, cancel, done)
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
		}
		if ctx.Err() != x.want {
			t.Errorf("%s: %v, want %v", name, ctx.Err(), x.want)
		}
		done()
		cancel()
	}
}

// A number that is 0 is no default: it is as near to 0 as it can be, or it is refused.
func TestZeroIsNoDefault(t *testing.T) {
	s := newTester(t, nil)
	r, err := s.parse(t.Context(), formNative, s.anyone, []byte(`{"prompt":"x","xtc_threshold":0,"dynatemp_exponent":0,`+
		`"mirostat_tau":0,"mirostat_eta":0,"typical_p":0}`), false)
	if err != nil {
		t.Fatal(err)
	}
	n := r.sampling.Normalized()
	for name, x := range map[string]float32{"xtc_threshold": n.XTC.Threshold, "dynatemp_exponent": n.Dynatemp.Exponent,
		"mirostat_tau": n.Mirostat.Tau, "mirostat_eta": n.Mirostat.Eta, "typical_p": n.TypicalP} {
		if !(x > 0 && x < 1e-30) {
			t.Errorf("%s 0 is %v", name, x)
		}
	}
	const body = `{"prompt":"x","n_predict":1,"dry_allowed_length":0`
	s.post("/completion", body+`,"dry_multiplier":0}`, 200)
	e := decode(t, s.post("/completion", body+`,"dry_multiplier":0.8}`, 400))
	if e.get(t, "error", "param") != "dry_allowed_length" {
		t.Errorf("%v", e)
	}
	const shrinks = `{"prompt":"x","n_predict":1,"dry_base":0.5`
	s.post("/completion", shrinks+`,"dry_multiplier":0}`, 200)
	e = decode(t, s.post("/completion", shrinks+`,"dry_multiplier":0.8}`, 400))
	if e.get(t, "error", "param") != "dry_base" {
		t.Errorf("%v", e)
	}
}

// The effort none is no reasoning, with templates that know enable_thinking alone; what a request says of that counts
// more.
func TestNoEffortIsNoReasoning(t *testing.T) {
	s := newTester(t, with(t, func(o *spec.Options) {
		o.Template = strings.Replace(thinking, "and enable_thinking",
			"and (enable_thinking is not defined or enable_thinking)", 1)
	}))
	count := func(path, body string) any {
		return decode(t, s.post(path+"/input_tokens", body, 200)).get(t, "input_tokens")
	}
	chat := func(more string) any {
		return count("/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]`+more+`}`)
	}
	reasons, not := chat(``), chat(`,"enable_thinking":false`)
	if reasons == not {
		t.Fatalf("%v tokens either way", reasons)
	}
	for more, want := range map[string]any{`,"reasoning_effort":"low"`: reasons, `,"reasoning_effort":"none"`: not,
		`,"reasoning_effort":"none","enable_thinking":true`:                          reasons,
		`,"chat_template_kwargs":{"enable_thinking":true},"reasoning_effort":"none"`: reasons} {
		if got := chat(more); got != want {
			t.Errorf("%s: a prompt of %v tokens, want %v", more, got, want)
		}
	}
	for effort, want := range map[string]any{"low": reasons, "none": not} {
		if got := count("/v1/responses", `{"input":"x","reasoning":{"effort":"`+effort+`"}}`); got != want {
			t.Errorf("%s: a prompt of %v tokens, want %v", effort, got, want)
		}
	}
}

// What is read of a text in many parts takes memory, and so time, that grows with its length and not with its square.
func TestTextsInPartsAreReadInLinearTime(t *testing.T) {
	s := newTester(t, nil)
	part := func(kind, field string) string {
		return `{"type":"` + kind + `","` + field + `":"` + strings.Repeat("x", 200) + `"},`
	}
	const user, end = `{"messages":[{"role":"user","content":[`, `]}],"max_tokens":1}`
	for name, x := range map[string]struct {
		form              forms
		before, part, end string
	}{
		"chat":      {formChat, user, part("text", "text"), `]}]}`},
		"responses": {formResponses, `{"input":[{"role":"user","content":[`, part("input_text", "text"), `]}]}`},
		"messages":  {formMessages, user, part("text", "text"), end},
		"thinking":  {formMessages, user, part("thinking", "thinking"), end},
		"result": {formMessages, user + `{"type":"tool_result","tool_use_id":"a","content":[`, part("text", "text"),
			`]}` + end},
	} {
		took := func(parts int) uint64 {
			body := []byte(x.before + strings.TrimSuffix(strings.Repeat(x.part, parts), ",") + x.end)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := s.parse(t.Context(), x.form, s.anyone, body, false); err != nil {
				t.Fatal(name, err)
			}
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		if one, two := took(2000), took(4000); two > 3*one {
			t.Errorf("%s: %d bytes for 2000 parts, %d for 4000", name, one, two)
		}
	}
}

// A result has the name of the tool that its call asked for: the first call of that id.
func TestResultsHaveTheNamesOfTheirCalls(t *testing.T) {
	s := newTester(t, nil)
	call := func(id, name string) string {
		return `{"type":"tool_use","id":"` + id + `","name":"` + name + `","input":{}}`
	}
	result := func(id string) string { return `{"type":"tool_result","tool_use_id":"` + id + `","content":"r"}` }
	turn := func(role, blocks string) string { return `{"role":"` + role + `","content":[` + blocks + `]}` }
	r, err := s.parse(t.Context(), formMessages, s.anyone, []byte(`{"max_tokens":1,"messages":[`+strings.Join([]string{
		turn("user", result("a")), turn("assistant", call("a", "f")+","+call("b", "g")),
		turn("user", result("b")+","+result("a")),
		turn("assistant", call("a", "h")), turn("user", result("a")+","+result("c")),
	}, ",")+`]}`), false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range r.messages {
		if m.Role == "tool" {
			got = append(got, m.ToolCallID+"="+m.Name)
		}
	}
	if want := []string{"a=", "b=g", "a=f", "a=f", "c="}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
