package spec

import (
	"errors"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// A draft form is made where the owner of the model allows its memory, and for texts that draft with it; it then counts
// in the model's bytes. A request cannot ask for more.
func TestDraftFormsAreAllowed(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	p.Draft = nil
	need := p.Target.PlanDraftForm().Bytes
	self := speculative.Choice{Drafter: "self", Schedule: "constant"}
	r := Request{Prompts: []Prompt{{Text: "func (r *Ring) Push("}}, MaxTokens: 8}
	for name, c := range map[string]struct {
		o       Options
		refused string
	}{
		"not at all":        {Options{}, "which it was not started with"},
		"too little memory": {Options{Memory: Memory{DraftForm: need - 1}}, "there is room for"},
		"no memory":         {Options{Memory: Memory{DraftForm: -1}, Speculation: self}, "there is room for 0"},
		"enough memory":     {Options{Memory: Memory{DraftForm: need}}, ""},
		"the model's":       {Options{Speculation: self}, ""},
		"the model's alone": {Options{Speculation: self, Parallel: 1}, ""},
	} {
		m, err := New(p, c.o)
		if err != nil {
			t.Fatal(name, err)
		}
		defer m.Close()
		one, before := r, m.Bytes()
		one.Speculation = self
		a, err := Collect(m.Generate(t.Context(), one))
		var wrong *RequestError
		if errors.As(err, &wrong); c.refused != "" {
			if wrong == nil || wrong.Field != "speculation.drafter" || !strings.Contains(wrong.Reason, c.refused) ||
				m.Bytes() != before {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(name, err)
		}
		if s := a[0].Stats; m.Bytes() != before+need || s.Drafted == 0 || s.Accepted == 0 {
			t.Errorf("%s: %d bytes, before %d, %d for the form; %+v", name, m.Bytes(), before, need, s)
		}
	}
	if r := (Room{Limit: 1 << 30, Kept: -1, DraftForm: true}); true {
		m, err := r.Divide(p.Target, nil)
		r.DraftForm = false
		without, err2 := r.Divide(p.Target, nil)
		if err != nil || err2 != nil || m.DraftForm != need || without.DraftForm != need {
			t.Errorf("%+v, without %+v: %v, %v", m, without, err, err2)
		}
		r.Limit = p.Target.Bytes() + need/2
		if m, err := r.Divide(p.Target, nil); err != nil || m.DraftForm != 0 {
			t.Errorf("a limit without room for the form, which nobody asked for: %+v, %v", m, err)
		}
		r.DraftForm = true
		if _, err := r.Divide(p.Target, nil); !errors.As(err, new(*MemoryError)) {
			t.Errorf("a limit without room for the form: %v", err)
		}
	}
	small, err := engine.Open(t.Context(), p.Target.Runtime(), "testdata/go-target.q8_0.gguf", engine.Options{Weights: "q4_0"})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	if _, err := New(Parts{Target: small}, Options{Speculation: self}); !errors.Is(err, ErrOptions) {
		t.Errorf("a model in as few bits: %v", err)
	}
}
