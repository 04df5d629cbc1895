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
		"fallback":     sum(file, Options{ToolFallback: true}),
		"other logits": sum(file, Options{Around: func(s Sequence) Sequence { return s }}),
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

// Adapters that requests alone use are part of the identity, in their order: a request names them by their places.
func TestIdentityIsOfAdaptersThatRequestsChoose(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	list := targetAdapters(t, p.Target, 2)
	var seen []string
	for _, adapters := range [][]engine.ScaledAdapter{nil, list[:1], list[1:], {list[0], list[1]}, {list[1], list[0]}} {
		p.Adapters = adapters
		m, err := New(p, Options{Template: hermes})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		sum, err := m.Identity(engine.Fingerprint{Model: "m"}).Sum()
		if err != nil || slices.Contains(seen, sum) {
			t.Errorf("%d adapters: the identity of others; %v", len(adapters), err)
		}
		seen = append(seen, sum)
	}
}

// Adapters are part of the identity with the scales of requests that do not choose.
func TestIdentityHasAdapters(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	file := engine.Fingerprint{Model: "m", Tokenizer: "t"}
	p.Adapters = targetAdapters(t, p.Target, 2)
	m, err := New(p, Options{Template: hermes})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var seen []string
	for _, scales := range [][]AdapterScale{{}, {{0, 1}}, {{0, 0.5}}, {{1, 1}}, {{0, 1}, {1, 1}}} {
		if err := m.SetAdapters(scales); err != nil {
			t.Fatal(err)
		}
		got, err := m.Identity(file).Sum()
		if err != nil || slices.Contains(seen, got) {
			t.Errorf("adapters %v: the identity of others; %v", scales, err)
		}
		seen = append(seen, got)
	}
}
