package serve

import (
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
)

// Every item of a stream of /v1/responses that begins ends, with its parts, before the next one begins, and the last
// event has them all.
func TestItemsOfStreamsEnd(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	s := newTester(t, with(t, func(o *spec.Options) {
		o.Template, o.Speculation.Drafter = strings.Replace(thinking, "enable_thinking", "reasoning_effort", 1), "none"
		o.Around = func(s spec.Sequence) spec.Sequence {
			return &scripted{Sequence: s, ids: p.target.Tokenizer().Encode("first</think>\nthen", bpe.EncodeOptions{})}
		}
	}))
	const tool = `,"tools":[{"type":"function","name":"clock","parameters":{"type":"object","properties":{}}}]`
	for more, want := range map[string]string{
		``: "message", `,"reasoning":{"effort":"low"}`: "reasoning message",
		`,"reasoning":{"effort":"low"},"tool_choice":"required"` + tool: "reasoning function_call",
	} {
		var open, items []string // begun and not ended; ended
		for _, e := range events(t, s.post("/v1/responses", `{"input":"x","stream":true,"max_output_tokens":60`+more+`}`, 200)) {
			o := decode(t, e)
			switch kind := o.get(t, "type").(string); {
			case strings.HasSuffix(kind, ".added"):
				open = append(open, strings.TrimSuffix(kind, ".added"))
				if len(open) == 1 {
					items = append(items, o.get(t, "item", "type").(string))
				}
			case kind == "response.output_item.done" || kind == "response.content_part.done":
				if n := len(open) - 1; n < 0 || open[n] != strings.TrimSuffix(kind, ".done") {
					t.Fatalf("%s: %s while %q are open", more, kind, open)
				}
				open = open[:len(open)-1]
			case kind == "response.completed" || kind == "response.incomplete":
				if n := len(o.get(t, "response", "output").([]any)); len(open) > 0 || n != len(items) {
					t.Errorf("%s: %q are open at the end, %d items of %q", more, open, n, items)
				}
				open = []string{"the end"}
			}
		}
		if got := strings.Join(items, " "); got != want || len(open) != 1 || open[0] != "the end" {
			t.Errorf("%s: %s, want %s; %q", more, got, want, open)
		}
	}
}
