package rag

import (
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/spectest"
)

var documents = []string{
	"package ring\n\n// A Ring is a queue of bounded length.\ntype Ring struct {\n\titems []int\n\thead, n int\n}",
	"package heap\n\n// A Heap keeps its least item first.\ntype Heap []int\n\nfunc (h Heap) Less(i, j int) bool { return h[i] < h[j] }",
	"package http\n\n// Get sends a request and returns the response.\nfunc Get(url string) (*Response, error) { return client.Get(url) }",
}

// The whole program, from the vectors to the answer, gives what the files say: on every machine.
func TestAnswers(t *testing.T) {
	m := spectest.Open(t, "../../testdata/go-target.q8_0.gguf", spec.Options{
		Load: spec.Load{Draft: "../../testdata/go-draft.q8_0.gguf", Threads: 1}})
	x, err := New(t.Context(), m.Model, documents)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, question, document string }{
		{"ring", "A Ring is a queue of bounded length: type Ring struct with items, head and n", documents[0]},
		{"heap", "A Heap keeps its least item first: func (h Heap) Less(i, j int) bool", documents[1]},
		{"get", "Get sends a request and returns the response: func Get(url string)", documents[2]},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := x.Nearest(t.Context(), c.question); err != nil || got != c.document {
				t.Errorf("%q is nearest, %v", got, err)
			}
			r, err := x.Request(t.Context(), c.question)
			if err != nil {
				t.Fatal(err)
			}
			a := spectest.Run(t, m, c.name, r)
			a.Check(t, spectest.Similar(t.Context(), m.Model, c.document, 0.3))
			if text, err := x.Ask(t.Context(), c.question); err != nil || text != a.Text {
				t.Errorf("asked: %q, %v; the file has %q", text, err, a.Text)
			}
		})
	}
}
