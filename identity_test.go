package spec

import (
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
)

// What changes answers changes the identity; what names things, and what changes the speed alone, does not.
func TestIdentityIsOfWhatChangesAnswers(t *testing.T) {
	file := engine.Fingerprint{Model: "m", Tokenizer: "t"}
	sum := func(file engine.Fingerprint, o Options) string {
		s, err := newModel(t, o).Identity(file).Sum()
		if err != nil || len(s) != 64 {
			t.Fatal(s, err)
		}
		return s
	}
	plain := sum(file, Options{})
	var seen []string
	for what, got := range map[string]string{
		"model": sum(engine.Fingerprint{Model: "n", Tokenizer: "t"}, Options{}), "context": sum(file, Options{Context: 9}),
		"tokenizer": sum(engine.Fingerprint{Model: "m", Tokenizer: "u"}, Options{}), "cache": sum(file, Options{KV: "q8_0"}),
		"template": sum(file, Options{Template: hermes + " "}), "stops": sum(file, Options{Stops: []string{"x"}}),
		"fallback": sum(file, Options{ToolFallback: true}),
	} {
		if got == plain || slices.Contains(seen, got) {
			t.Errorf("%s: the identity is that without it, or another one's", what)
		}
		seen = append(seen, got)
	}
	same := Options{Name: "other", KV: engine.DefaultKV, Parallel: 1, Memory: Memory{KV: 1 << 30}}
	same.Speculation.Drafter = "none"
	if sum(file, same) != plain {
		t.Error("name, passes and drafts change the identity")
	}
	id := newModel(t, Options{}).Identity(file)
	one, _ := id.Sum()
	id.Model.Name += "x"
	if two, _ := id.Sum(); one != two {
		t.Error("the model's name is part of the sum")
	}
}
