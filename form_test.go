package spec

import (
	"context"
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
	small, err := engine.Open(t.Context(), p.Target.Runtime(), "testdata/go-target.q8_0.gguf",
		engine.Options{Weights: "q4_0"})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	if _, err := New(Parts{Target: small}, Options{Speculation: self}); !errors.Is(err, ErrOptions) {
		t.Errorf("a model in as few bits: %v", err)
	}
	m, err := New(Parts{Target: small}, Options{Memory: Memory{DraftForm: need}, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if c, err := m.Choose(speculative.Choice{}, 0); err != nil || c.Drafter != "ngram" {
		t.Errorf("a model in as few bits drafts with %q: %v", c.Drafter, err)
	}
}

// Whoever waits for a draft form that another one makes waits no longer than its own context.
func TestWaitForDraftForm(t *testing.T) {
	m := newModel(t, Options{Memory: Memory{DraftForm: 1 << 30}})
	m.form.seat <- struct{}{} // another one makes it
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := Request{MaxTokens: 1, Speculation: speculative.Choice{Drafter: "self"}}
	task, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{{Text: "x"}}, Speculation: r.Speculation})
	if err != nil {
		t.Fatal(err)
	}
	g := &generation{Task: task}
	if _, err := g.newDrafter(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-m.form.seat
	if _, err := Collect(m.Complete(t.Context(), "x", r)); err != nil {
		t.Error(err)
	}
}

// Where nobody chose a drafter the draft form drafts if there is room for it. It is made after the first token, in the
// background, and the text is that of plain decoding before it is there and after. Verifiers of other texts do not have
// it by default: when it is ready is not the same in two runs.
func TestDraftFormByDefault(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	p.Draft = nil
	need := p.Target.PlanDraftForm().Bytes
	for _, c := range []struct {
		o      Options
		choice speculative.Choice
		want   string
	}{
		{Options{Memory: Memory{DraftForm: need}}, speculative.Choice{}, "ngram"}, // passes are shared
		{Options{Memory: Memory{DraftForm: need}, Parallel: 1}, speculative.Choice{}, "self-splice"},
		{Options{Memory: Memory{DraftForm: need}, Parallel: 1}, speculative.Choice{Verify: "match"}, "self-splice"},
		{Options{Memory: Memory{DraftForm: need - 1}, Parallel: 1}, speculative.Choice{}, "ngram"},
		{Options{Memory: Memory{DraftForm: need}, Parallel: 1}, speculative.Choice{Verify: "rejection"}, "ngram"},
		{Options{Memory: Memory{DraftForm: need}, NoCache: true, Parallel: 1}, speculative.Choice{}, "ngram"},
		{Options{}, speculative.Choice{}, "ngram"},
	} {
		m, err := New(p, c.o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if got, err := m.Choose(c.choice, 0.8); err != nil || got.Drafter != c.want {
			t.Errorf("%+v with room for %d: %s, want %s: %v", c.choice, c.o.Memory.DraftForm, got.Drafter, c.want, err)
		}
		if c.want != "self-splice" {
			continue
		}
		r := Request{Prompts: []Prompt{{Text: "func (r *Ring) Push("}}, MaxTokens: 40, Speculation: c.choice}
		r.Speculation.Schedule, r.Sampling.Temperature, r.Sampling.Seed = "constant", 0.8, 5
		plain := r
		plain.Speculation = speculative.Choice{Drafter: "none"}
		want, err := Collect(m.Generate(t.Context(), plain))
		if err != nil {
			t.Fatal(err)
		}
		if m.form.begun.Load() {
			t.Error("a text without drafts began to make the form")
		}
		before := m.Bytes()
		for i := range 2 {
			got, err := Collect(m.Generate(t.Context(), r))
			if err != nil || got[0].Text != want[0].Text {
				t.Errorf("text %d: %v: %q, want %q", i, err, got[0].Text, want[0].Text)
			}
			m.form.making.Wait()
			if i == 1 && (got[0].Stats.DraftPasses == 0 || m.Bytes() != before+need) {
				t.Errorf("%d passes of the form, %d bytes, before %d", got[0].Stats.DraftPasses, m.Bytes(), before)
			}
		}
	}
	m, err := New(p, Options{Memory: Memory{DraftForm: need}, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Prompts: []Prompt{{Text: "func (r *Ring) Push("}}, Speculation: speculative.Choice{Schedule: "constant"}}
	for range 2 { // of texts without a second token too
		r.MaxTokens++
		for _, err := range m.Generate(t.Context(), r) {
			if err != nil || m.form.begun.Load() {
				t.Errorf("the form is begun before the first token: %v", err)
			}
			if r.MaxTokens > 1 {
				break
			}
		}
	}
	r.MaxTokens = 9
	if _, err := Collect(m.Generate(t.Context(), r)); err != nil || !m.form.begun.Load() {
		t.Errorf("the form is not begun behind it: %v", err)
	}
	m.Close()
	if m, err = New(p, Options{Memory: Memory{DraftForm: need}}); err != nil {
		t.Fatal(err)
	}
	m.form.start()
	m.Close() // while it is being made
	if m.form.making.Wait(); m.form.get() == nil && !m.form.failed.Load() {
		t.Error("what was begun has neither ended nor failed")
	}
}
