package rag

import (
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/spectest"
)

var documents = []string{
	"// A Ring is a queue of bounded length.\ntype Ring struct {\n\titems []int\n\thead, n int\n}",
	"// A Heap keeps its least item first.\nfunc (h Heap) Less(i, j int) bool { return h[i] < h[j] }",
	"// Get sends a request and returns the response.\nfunc Get(url string) (*Response, error)",
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
		{"ring", "a Ring is a queue of bounded length", documents[0]},
		{"heap", "a Heap keeps its least item first", documents[1]},
		{"get", "Get sends a request and returns the response", documents[2]},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := x.Ask(t.Context(), c.question)
			if err != nil {
				t.Fatal(err)
			}
			if got.Document != c.document {
				t.Errorf("%q is nearest", got.Document)
			}
			a := spectest.Run(t, m, c.name, got.Request)
			a.Check(t, spectest.Similar(t.Context(), m.Model, c.document, 0.3))
			if got.Text != a.Text {
				t.Errorf("asked: %q; the file has %q", got.Text, a.Text)
			}
		})
	}
}
