package serve

import (
	"encoding/json"
	"strings"
	"testing"
)

// An earlier answer changes only the speed: usage counts its tokens alone, and what it cannot be is refused by name.
func TestPrediction(t *testing.T) {
	s := newTester(t, smaller(t))
	type counts struct{ accepted, rejected float64 }
	answer := func(more string) (string, counts) {
		t.Helper()
		o := decode(t, s.post("/v1/chat/completions",
			`{"messages":[{"role":"user","content":"func main() {"}],"max_tokens":48,"temperature":0`+more+`}`, 200))
		u := o.get(t, "usage", "completion_tokens_details").(map[string]any)
		return o.get(t, "choices", 0, "message", "content").(string),
			counts{u["accepted_prediction_tokens"].(float64), u["rejected_prediction_tokens"].(float64)}
	}
	want, _ := answer(`,"speculation":{"off":true}`)
	text, _ := json.Marshal(want)
	edited, _ := json.Marshal(want[:len(want)/2] + " zebra crossing " + want[len(want)/2:])
	for more, least := range map[string]counts{
		`,"prediction":{"type":"content","content":TEXT},"speculation":{"schedule":"constant"}`: {40,
			0},
		`,"prediction":{"type":"content","content":[{"type":"text","text":TEXT}]},"speculation":{"schedule":"constant"}`: {40,
			0},
		`,"speculation":{"previous":TEXT,"schedule":"constant","drafter":"suffix"}`:                                 {20, 0},
		`,"speculation":{"previous":EDITED,"schedule":"constant"}`:                                                  {20, 1},
		`,"prediction":{"type":"content","content":"nothing of  it, at all"},"speculation":{"schedule":"constant"}`: {0, 1},
		`,"prediction":{"type":"content","content":TEXT},"speculation":{"max":3,"schedule":"heuristic"}`:            {20, 0},
		`,"speculation":{"previous":[1,2,"text ",3],"schedule":"constant"}`:                                         {0, 1},
		`,"prediction":null,"speculation":{"previous":TEXT,"verify":"stairs"}`:                                      {20, 0},
	} {
		got, n := answer(strings.NewReplacer("TEXT", string(text), "EDITED", string(edited)).Replace(more))
		if got != want || n.accepted < least.accepted || n.rejected < least.rejected || n.accepted > 48 ||
			least.accepted == 40 && n.rejected > 8 {
			t.Errorf("%s: %+v, %q, want %q", more, n, got, want)
		}
	}
	for more, field := range map[string]string{
		`"prediction":{"type":"tool","content":"x"}`:                                   "prediction.type",
		`"prediction":{"type":"content"}`:                                              "prediction",
		`"prediction":{"content":"x"}`:                                                 "prediction",
		`"prediction":{"type":"content","content":5}`:                                  "prediction.content",
		`"prediction":{"type":"content","content":"x"},"speculation":{"off":true}`:     "prediction",
		`"speculation":{"previous":"x","drafter":"none"}`:                              "speculation.previous",
		`"speculation":{"previous":[-1]}`:                                              "speculation.previous[0]",
		`"speculation":{"previous":[99999999]}`:                                        "speculation.previous",
		`"prediction":{"type":"content","content":"x"},"speculation":{"previous":"y"}`: "speculation.previous",
	} {
		o := decode(t, s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],`+more+`}`, 400))
		if got := o.get(t, "error", "param"); got != field {
			t.Errorf("%s: %v, want %s", more, o, field)
		}
	}
}
