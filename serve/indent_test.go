package serve

import (
	"strings"
	"testing"
)

// A suggestion ends in front of a line that is indented too little, whole and streamed, and is as without that before.
func TestIndent(t *testing.T) {
	s := newTester(t, nil)
	const prompt = `"prompt":"func (r *Ring) Push(","n_predict":64,"temperature":0`
	free := decode(t, s.post("/completion", `{`+prompt+`}`, 200)).get(t, "content").(string)
	want, _, ok := strings.Cut(free, "\n}")
	if !ok {
		t.Fatalf("the text ends no function: %q", free)
	}
	o := decode(t, s.post("/completion", `{`+prompt+`,"n_indent":1}`, 200))
	if got := o.get(t, "content"); got != want || o.get(t, "stop_type") != "limit" {
		t.Errorf("%q, %v, want %q", got, o.get(t, "stop_type"), want)
	}
	// As many tokens as there are, also where a draft went on behind the end.
	for _, more := range []string{`"off":true`, `"drafter":"model","schedule":"constant","max":9`} {
		o := decode(t, s.post("/completion",
			`{`+prompt+`,"n_indent":1,"return_tokens":true,"speculation":{`+more+`}}`, 200))
		n := float64(len(o.get(t, "tokens").([]any)))
		if o.get(t, "tokens_predicted") != n || o.get(t, "timings", "predicted_n") != n ||
			o.get(t, "timings", "draft_n_accepted").(float64) > n {
			t.Errorf("%s: %v tokens; %v, %v", more, n, o.get(t, "tokens_predicted"), o.get(t, "timings"))
		}
	}
	got := ""
	for _, line := range strings.Split(s.post("/completion", `{`+prompt+`,"n_indent":1,"stream":true}`, 200), "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			got += decode(t, data).get(t, "content").(string)
		}
	}
	if got != want {
		t.Errorf("streamed %q, want %q", got, want)
	}
}
