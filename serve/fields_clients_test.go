package serve

import (
	"fmt"
	"strings"
	"testing"
)

// off are values of a field that may only be switched off.
func off(good string, bad ...string) sample {
	return sample{good: []string{good}, bad: bad, same: true}
}

// clientSamples are those of clientFields.
var clientSamples = map[string]sample{
	"speculative.n_max":          {good: []string{`0`, `3`, `5000`}, bad: []string{`-1`, `"3"`}, same: true},
	"speculative.n_min":          {good: []string{`0`, `2`}, bad: []string{`-1`, `256`}, same: true},
	"speculative.p_min":          {good: []string{`0`, `0.75`}, bad: []string{`-0.1`, `2`}, same: true},
	"speculative.type":           {good: []string{`"none"`}, bad: []string{`"ngram-simple"`, `1`}, same: true},
	"typical":                    {good: []string{`1`, `0.5`}, bad: []string{`2`}},
	"mirostat_mode":              {good: []string{`0`, `2`}, bad: []string{`3`}},
	"nsigma":                     {good: []string{`0`, `1`}, bad: []string{`-2`}},
	"rep_pen":                    {good: []string{`1.1`}, bad: []string{`0`}},
	"rep_pen_range":              {good: []string{`0`, `64`}, bad: []string{`-2`}, same: true},
	"repetition_penalty_range":   {good: []string{`0`, `64`}, bad: []string{`-2`}, same: true},
	"max_new_tokens":             {good: []string{`4`}, bad: []string{`0`, `"x"`}, same: true},
	"ban_eos_token":              {good: []string{`true`, `false`}, bad: []string{`1`}},
	"tfs":                        off(`1`, `0.9`),
	"top_a":                      off(`0`, `0.1`),
	"smoothing_factor":           off(`0`, `1`),
	"guidance_scale":             off(`1`, `2`),
	"penalty_alpha":              off(`0`, `1`),
	"no_repeat_ngram_size":       off(`0`, `2`),
	"epsilon_cutoff":             off(`0`, `1`),
	"eta_cutoff":                 off(`0`, `1`),
	"encoder_repetition_penalty": off(`1`, `1.1`),
	"num_beams":                  off(`1`, `2`),
	"min_length":                 off(`0`, `1`),
	"max_tokens":                 {good: []string{`4`}, bad: []string{`-3`, `"x"`}, same: true},
	"max_completion_tokens":      {good: []string{`4`}, bad: []string{`-3`, `"x"`}, same: true},
	"do_sample":                  off(`true`, `false`),
	"dynamic_temperature":        off(`false`, `true`),
	"temperature_last":           off(`true`, `false`),
	"custom_token_bans":          off(`""`, `"5"`),
	"skip_special_tokens":        off(`true`, `false`),
	"add_bos_token":              off(`true`, `false`),
	"add_special_tokens":         off(`true`, `false`),
	"adaptive_target":            off(`-1`, `0`, `0.5`, `"x"`),
	"bad_words": {good: []string{`["x"]`, `[]`},
		bad: []string{`[""]`, `1`}},
	"detokenize":                 off(`true`, `false`),
	"return_token_ids":           off(`false`, `true`),
	"return_tokens_as_token_ids": off(`false`, `true`),
	"include_reasoning":          off(`true`, `false`),
	"echo":                       off(`false`, `true`),
	"top_logprobs":               off(`0`, `1`),
	"mcp_servers":                off(`[]`, `[{}]`),
	"context_management": {good: []string{`{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`, `{}`},
		bad: []string{`[]`, `{"edits":[1]}`, `{"edit":[]}`}},
	"truncate":       off(`true`, `1`),
	"shift":          off(`false`, `true`),
	"vocab_only":     off(`false`, `true`),
	"embedding_only": off(`false`, `true`),
}

// Another name means what its field does, and what SillyTavern sends to llama.cpp with everything off is answered like
// a request without it.
func TestNamesOfOtherServers(t *testing.T) {
	s := newTester(t, smaller(t))
	text := func(more string) string {
		o := decode(t, s.post("/completion", `{"prompt":"func main() {\n","n_predict":24,"temperature":1,"seed":3`+more+`}`,
			200))
		return o.get(t, "content").(string)
	}
	plain := text("")
	for name, of := range map[string]string{"typical": "typical_p", "mirostat_mode": "mirostat", "nsigma": "top_n_sigma",
		"rep_pen": "repeat_penalty"} {
		value := map[string]string{"typical": "0.2", "mirostat_mode": "2", "nsigma": "0.3", "rep_pen": "3"}[name]
		got, want := text(fmt.Sprintf(`,%q:%s`, name, value)), text(fmt.Sprintf(`,%q:%s`, of, value))
		if got != want || got == plain {
			t.Errorf("%s: %q, %s: %q, without %q", name, got, of, want, plain)
		}
	}
	if got, want := text(`,"rep_pen":3,"rep_pen_range":3`), text(`,"repeat_penalty":3,"repeat_last_n":3`); got != want {
		t.Errorf("a range of 3: %q, expected %q", got, want)
	}
	if got := text(`,"samplers":["penalties","dry","top_n_sigma","top_k","typ_p","tfs_z","typical_p","top_p","min_p",` +
		`"xtc","temperature","adaptive_p"],"tfs":1,"top_a":0,"typical":1,"nsigma":0,"mirostat_mode":0,` +
		`"dynamic_temperature":false,"dynatemp_low":1,"dynatemp_high":1,"smoothing_factor":0,"smoothing_curve":1,` +
		`"guidance_scale":1,"negative_prompt":"","add_bos_token":true,"ban_eos_token":false,"skip_special_tokens":true,` +
		`"truncation_length":2048,"adaptive_target":-0.01,"adaptive_decay":0.9,"min_length":0,"num_beams":1,` +
		`"early_stopping":false,"custom_token_bans":""`); got != plain {
		t.Errorf("%q, without %q", got, plain)
	}
	e := s.post("/completion", `{"prompt":"x","temperature":1,"typical_p":0.5,"samplers":["typ_p","typical_p"]}`, 400)
	if !strings.Contains(e, "twice") {
		t.Error(e)
	}
}

// A call in the history whose arguments are no JSON, as models write them and programs give them back, is rendered as
// it is.
func TestBrokenArgumentsInTheHistory(t *testing.T) {
	s := newTester(t, nil)
	body := `{"max_tokens":2,"verbose":true,"messages":[{"role":"user","content":"x"},{"role":"assistant",` +
		`"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f",` +
		`"arguments":"{\"path\": \"a.go"}}]},{"role":"tool","tool_call_id":"a","content":"broken"},` +
		`{"role":"user","content":"again"}]}`
	o := decode(t, s.post("/v1/chat/completions", body, 200))
	if p := o.get(t, "__verbose", "prompt").(string); !strings.Contains(p, `{\"path\": \"a.go`) && !strings.Contains(
		p, `{"path": "a.go`) {
		t.Errorf("%q", p)
	}
}

// llama.cpp's fields about drafts mean what those of speculation do.
func TestSpeculativeFieldsMean(t *testing.T) {
	s := newTester(t, nil)
	for theirs, ours := range map[string]string{
		`"speculative.n_max":3,"speculative.n_min":2`: `{"max":3,"min":2}`,
		`"speculative.n_max":0`:                       `{"off":true}`,
		`"speculative.n_max":4000`:                    `{"max":255}`,
		`"speculative.type":"none"`:                   `{"off":true}`,
		`"speculative.n_min":0,"speculative.p_min":0`: `{"min":0,"p_min":0}`,
		`"speculative.p_min":0.75`:                    `{"p_min":0.75}`,
	} {
		choice := func(body string) any {
			r, err := s.parse(t.Context(), formNative, s.anyone, []byte(`{"prompt":"x",`+body+`}`), true)
			if err != nil {
				t.Fatal(err)
			}
			return r.spec
		}
		if got, want := choice(theirs), choice(`"speculation":`+ours); got != want {
			t.Errorf("%s: %+v, want %+v", theirs, got, want)
		}
	}
}
