package engine

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/tensor"
)

// newDraftForm is the draft form of m.
func newDraftForm(t testing.TB, m *Model) *DraftForm {
	t.Helper()
	f, err := m.NewDraftForm(context.Background(), DraftFormOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// What a draft form computes is the model with its matrices converted to Q4_0, but for embeddings and routers, bit for
// bit: in every way to feed a text, and beside sessions of the model in a pass.
func TestDraftFormIsTheModelInFewerBits(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, s := range []randommodel.Shape{randommodel.Llama(), randommodel.GPT2()} {
		s.Types = map[string]gguf.Type{"token_embd.weight": gguf.Q4_0} // the same in both
		m, ids := openDrawn(t, rt, s, Options{}), randomTokens(70, s.Vocab, 5)
		converted := openDrawn(t, rt, s, Options{Weights: "q4_0"})
		f := newDraftForm(t, m)
		if plan := m.PlanDraftForm(); f.Bytes() != plan.Bytes || plan.Bytes == 0 || !plan.Gains() {
			t.Errorf("%s: %d bytes, planned %+v", s.Arch, f.Bytes(), plan)
		}
		described, err := gguf.Open(bytes.NewReader(s.File(t)), int64(len(s.File(t))), s.Arch)
		if err != nil {
			t.Fatal(err)
		}
		if plan, err := DescribeDraftForm(described, ""); err != nil || plan != m.PlanDraftForm() {
			t.Errorf("%s: by its header %+v, %v, loaded %+v", s.Arch, plan, err, m.PlanDraftForm())
		}
		want := eval(t, newSession(t, converted, SessionOptions{}), ids, nil, All)
		for _, way := range ways {
			sameBits(t, way.name, way.feed(t, m, SessionOptions{Form: f}, ids), want)
		}
		whole := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
		var b Batch
		for i := range 4 {
			o := SessionOptions{}
			if i%2 == 1 {
				o.Form = f
			}
			b = append(b, Segment{Session: newSession(t, m, o), Tokens: ids, Logits: All})
		}
		for i, r := range forward(t, m, b) {
			if i%2 == 1 {
				sameBits(t, "form in company", r.Logits.Data, want)
			} else {
				sameBits(t, "model in company", r.Logits.Data, whole)
			}
		}
	}
}

// Drafts with a draft form, from any point of a text, leave the session that they come from as it was: with windows,
// recurrent layers, experts and shared keys and values. They depend on the text alone.
func TestDraftFormsLeaveTheModelAlone(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range hybrids {
		m := openRecipe(t, rt, name)
		f := newDraftForm(t, m)
		for name, at := range m.sites { // routers, and what else no option converts
			for _, w := range at.matrices {
				if at.exact && f.of(w) != w {
					t.Errorf("%s has fewer bits", name)
				}
			}
		}
		ids := randomTokens(300, m.config.Vocab, 5)
		whole, again := newSession(t, m, SessionOptions{}), newSession(t, m, SessionOptions{})
		for at := 250; at < len(ids)-10; at += 15 { // across the end of a page
			eval(t, whole, ids[whole.Len():at], nil, None)
			draft, err := whole.DraftAt(at, f, nil)
			if err != nil {
				t.Fatal(err)
			}
			first := eval(t, draft, ids[at:at+1], nil, Last)
			for i := range int32(9) { // other tokens than the text goes on with
				eval(t, draft, []int32{(ids[at] + i) % int32(m.config.Vocab)}, nil, Last)
			}
			if draft.Costs() == whole.Costs() {
				t.Errorf("%s: passes of the draft form count as the model's", name)
			}
			if _, err := draft.SaveKV(nil, 0, 0, at); !errors.Is(err, ErrUsage) {
				t.Errorf("%s: what a draft form computes is saved: %v", name, err)
			}
			draft.Close()
			if other, err := whole.DraftAt(at, f, nil); err != nil {
				t.Fatal(err)
			} else {
				sameBits(t, name+": the same draft", eval(t, other, ids[at:at+1], nil, Last), first)
				other.Close()
			}
		}
		sameBits(t, name, eval(t, whole, ids[whole.Len():], nil, Rows(8)), eval(t, again, ids, nil, Rows(8)))
	}
}

// A draft in the place of an earlier one computes what one by itself does, and takes no more memory, wherever the text
// has gone meanwhile: on, back, or back and on with other tokens.
func TestDraftAfterDraft(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range hybrids {
		m := openRecipe(t, rt, name)
		f := newDraftForm(t, m)
		rng := rand.New(rand.NewPCG(1, 2))
		random := func(n int) []int32 { return randomTokens(n, m.config.Vocab, rng.Uint64()) }
		text := newSession(t, m, SessionOptions{})
		eval(t, text, random(240), nil, None)
		var draft *Session
		for range 24 { // across the end of a page
			if n := rng.IntN(6); rng.IntN(3) == 0 {
				if err := text.Truncate(text.Len() - n); err != nil {
					t.Fatal(err)
				}
			}
			eval(t, text, random(1+rng.IntN(5)), nil, None)
			at := text.Len() - rng.IntN(2)
			fresh, err := text.DraftAt(at, f, nil)
			if err != nil {
				t.Fatal(err)
			}
			if draft, err = text.DraftAt(at, f, draft); err != nil {
				t.Fatal(err)
			}
			if draft.Bytes() > fresh.Bytes() || draft.Taken() != fresh.Taken() {
				t.Errorf("%s: %d bytes, %d by itself; %d tokens are taken, %d by itself", name, draft.Bytes(), fresh.Bytes(),
					draft.Taken(), fresh.Taken())
			}
			for range 1 + rng.IntN(7) {
				next := random(1)
				sameBits(t, name, eval(t, draft, next, nil, Last), eval(t, fresh, next, nil, Last))
			}
			fresh.Close()
			switch rng.IntN(5) {
			case 0: // longer than the journal of recurrent layers
				eval(t, draft, random(140), nil, None)
			case 1: // the text's own tokens, computed by the form
				back := max(0, draft.Taken()-2)
				if err := draft.Truncate(back); err != nil || draft.Taken() != back {
					t.Fatalf("%v, %d tokens of %d", err, draft.Taken(), back)
				}
				eval(t, draft, text.Tokens()[back:at], nil, Last)
			}
		}
		draft.Close()
	}
}

func TestDraftFormsRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	s := randommodel.Llama()
	m, other := openDrawn(t, rt, s, Options{}), openDrawn(t, rt, s, Options{Name: "other"})
	f := newDraftForm(t, m)
	if _, err := other.NewSession(SessionOptions{Form: new(DraftForm)}); !errors.Is(err, ErrUsage) {
		t.Errorf("a form that nobody made: %v", err)
	}
	if _, err := other.NewSession(SessionOptions{Form: f}); !errors.Is(err, ErrUsage) {
		t.Errorf("a form of another model: %v", err)
	}
	if _, err := newSession(t, other, SessionOptions{}).DraftAt(0, f, nil); !errors.Is(err, ErrUsage) {
		t.Errorf("a fork with a form of another model: %v", err)
	}
	_, err := m.NewDraftForm(context.Background(), DraftFormOptions{Most: f.Bytes() - 1})
	if !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("too little memory: %v", err)
	}
	small := openDrawn(t, rt, s, Options{Weights: "q4_0"})
	if _, err := small.NewDraftForm(context.Background(), DraftFormOptions{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("of a model in as few bits: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.NewDraftForm(ctx, DraftFormOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	draft, err := newSession(t, m, SessionOptions{}).DraftAt(0, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := draft.Eval(context.Background(), []int32{1}, nil, Last); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed form: %v", err)
	}
	m.Close()
	if _, err := m.NewDraftForm(context.Background(), DraftFormOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed model: %v", err)
	}
}

// closingContext closes a model while its weights are read, and says whether that went on beside the reads.
type closingContext struct {
	context.Context
	m     *Model
	begun bool
	ended chan bool
}

func (c *closingContext) Err() error {
	if c.begun {
		return nil
	}
	c.begun = true
	go func() {
		c.m.Close()
		close(c.ended)
	}()
	for {
		if _, err := c.m.NewSession(SessionOptions{}); errors.Is(err, ErrClosed) {
			break
		}
		runtime.Gosched()
	}
	select {
	case <-c.ended: // what is read now is not there any more
		return context.Canceled
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// A model that is closed while a draft form is made of it keeps its weights until that has ended, with an error.
func TestCloseWaitsForDraftForms(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.Llama(), Options{})
	ctx := &closingContext{Context: t.Context(), m: m, ended: make(chan bool)}
	if f, err := m.NewDraftForm(ctx, DraftFormOptions{}); !errors.Is(err, ErrClosed) {
		f.Close()
		t.Errorf("a draft form of a closed model: %v", err)
	}
	<-ctx.ended
	if _, err := m.NewDraftForm(t.Context(), DraftFormOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
}
