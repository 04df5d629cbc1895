package serve

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

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
