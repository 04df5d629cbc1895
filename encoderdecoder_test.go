package spec

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/speculative"
)

// openLetters opens an encoder-decoder model, with a draft of the same kind.
func openLetters(t *testing.T, o Options) *Model {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	load := func(shape randommodel.T5, name string) *engine.Model {
		file := shape.File(t)
		m, err := engine.New(t.Context(), rt, bytes.NewReader(file), int64(len(file)),
			engine.Options{Name: name, Fingerprint: engine.ReadFingerprint})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	draft := randommodel.LettersT5()
	draft.Decoders = 1
	p := Parts{Target: load(randommodel.LettersT5(), "letters"), Draft: load(draft, "draft")}
	p.Close = func() { p.Target.Close(); p.Draft.Close(); rt.Close() }
	m, err := New(p, o)
	if err != nil {
		p.Close()
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// Texts of an encoder-decoder model are those that it writes one at a time, without drafts and with any: of several
// prompts and several answers of each at once, whatever memory there is.
func TestEncoderDecoderTogether(t *testing.T) {
	alone := openLetters(t, Options{Parallel: 1})
	prompts := []Prompt{{Text: "a word"}, {Text: ""}, {Text: strings.Repeat("many words ", 40)}, {Text: "a word"}}
	request := func(drafter string, prompts ...Prompt) Request {
		r := Request{Prompts: prompts, MaxTokens: 12, IgnoreEOS: true, N: 2}
		r.Sampling.Temperature, r.Sampling.Seed, r.Speculation.Drafter = 0.8, 5, drafter
		return r
	}
	var want []Result
	for _, p := range prompts {
		list, err := Collect(alone.Generate(t.Context(), request("none", p)))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, list...)
	}
	if want[0].Text == want[2].Text || want[0].Text == want[1].Text || want[0].Text != want[6].Text {
		t.Fatalf("%+v", want)
	}
	for i, memory := range []Memory{{}, {KV: 1 << 20, DraftKV: 1 << 20}, {Cache: -1}} {
		m := openLetters(t, Options{Memory: memory})
		for _, drafter := range [][]string{{"none", "suffix", "early-exit"}, {"splice"}, {"model"}}[i] {
			got, err := Collect(m.Generate(t.Context(), request(drafter, prompts...)))
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if got[i].Text != want[i].Text || got[i].Finish != FinishLength || got[i].Stats.Prompt != want[i].Stats.Prompt {
					t.Errorf("%+v, %s, answer %d: %q after %d tokens, expected %q after %d", memory, drafter, i, got[i].Text,
						got[i].Stats.Prompt, want[i].Text, want[i].Stats.Prompt)
				}
			}
		}
		if s := m.Stats().Target; memory.Cache == 0 && memory.KV == 0 && s.PrefixTokens == 0 {
			t.Errorf("%+v: no input was shared", memory)
		}
	}
}

// A request's prompt is what the encoder reads: it is counted as that, is not bounded by the context but by its own
// limit, and is not cut; the answer may fill the context.
func TestEncoderDecoderRequests(t *testing.T) {
	m := openLetters(t, Options{Context: 20, Limits: Limits{Input: 100}})
	words := "some words of a text" // 17 letters and the end
	n, err := m.Count(t.Context(), Request{Prompts: []Prompt{{Text: words}}})
	if err != nil || n != 17 {
		t.Errorf("%d tokens, %v", n, err)
	}
	r := Request{Prompts: []Prompt{{Text: strings.Repeat(words+" ", 4)}}, IgnoreEOS: true, Progress: true,
		WhenFull: FullDrop}
	var progress []Progress
	var last Event
	for e, err := range m.Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if last = e; e.Progress != nil {
			progress = append(progress, *e.Progress)
		}
	}
	long := last.Stats.Prompt
	if last.Finish != FinishLength || last.Stats.Generated != 20 || long < 60 {
		t.Errorf("%s after %d tokens and %d", last.Finish, long, last.Stats.Generated)
	}
	if !slices.Equal(progress, []Progress{{Total: long, Done: long}}) {
		t.Errorf("progress %+v of %d tokens", progress, long)
	}
	joined, _ := m.Prepare(t.Context(),
		Request{Prompts: []Prompt{{Parts: []Prompt{{Text: "a"}, {IDs: []int32{7}}, {Text: "b"}}}}})
	if ids := joined.Prompt(0); slices.Index(ids, m.tok.EOS()) != len(ids)-1 || !slices.Contains(ids, 7) {
		t.Errorf("parts in a row: %v", ids)
	}
	for _, text := range []string{"a</s>", "", "a"} { // a text has its end even if it ends like that, in parts too
		whole, _ := m.Prepare(t.Context(), Request{Prompts: []Prompt{{Text: text}}})
		parts, _ := m.Prepare(t.Context(), Request{Prompts: []Prompt{{Parts: []Prompt{{Text: text}}}}})
		ids, ends := whole.Prompt(0), 0
		for _, id := range ids {
			if id == m.tok.EOS() {
				ends++
			}
		}
		if !slices.Equal(ids, parts.Prompt(0)) || ends != strings.Count(text, "</s>")+1 {
			t.Errorf("%q: %v, in parts %v", text, ids, parts.Prompt(0))
		}
	}
	for what, r := range map[string]Request{
		"Limits":  {Prompts: []Prompt{{Text: strings.Repeat("a", 200)}}},
		"cut":     {Prompts: []Prompt{{Text: words}}, Truncate: 5},
		"scored":  {Prompts: []Prompt{{Text: words}}, Scored: true},
		"no chat": {Messages: []chat.Message{chat.User("a")}},
	} {
		var e *RequestError
		if _, err := m.Prepare(t.Context(), r); !errors.As(err, &e) {
			t.Errorf("%s: %v", what, err)
		} else if what == "Limits" && (e.Code != CodeContext || e.Context != 100) {
			t.Errorf("%s: %+v", what, e)
		} else if what == "no chat" && !errors.Is(err, ErrNoTemplate) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := New(m.parts, Options{Stored: &Stored{}}); !errors.Is(err, ErrOptions) {
		t.Errorf("a prompt cache: %v", err)
	}
	if _, err := m.SaveHeld(t.Context(), "x", 0, Held{Tokens: []int32{1}}); !errors.Is(err, ErrOptions) {
		t.Errorf("a saved text: %v", err)
	}
}

// Under a template an encoder reads the conversation, as the text that the template makes of it.
func TestEncoderDecoderConversation(t *testing.T) {
	m := openLetters(t, Options{Template: `{% for m in messages %}{{ m.content }} {% endfor %}`})
	r := Request{Messages: []chat.Message{chat.User("a word"), {Role: "assistant", Content: "b"}, chat.User("c")},
		MaxTokens: 10, IgnoreEOS: true}
	got, err := Collect(m.Generate(t.Context(), r))
	if err != nil {
		t.Fatal(err)
	}
	r.Prompts, r.Messages = []Prompt{{Text: "a word b c "}}, nil
	want, err := Collect(m.Generate(t.Context(), r))
	if err != nil || got[0].Text != want[0].Text || got[0].Stats.Prompt != want[0].Stats.Prompt {
		t.Errorf("%q after %d tokens, expected %q after %d (%v)", got[0].Text, got[0].Stats.Prompt, want[0].Text,
			want[0].Stats.Prompt, err)
	}
	r.Prompts, r.Messages, r.Continue = nil, []chat.Message{chat.User("a"), {Role: "assistant", Content: "b"}}, true
	if _, err := m.Prepare(t.Context(), r); err == nil || !strings.Contains(err.Error(), "cannot be continued") {
		t.Errorf("an answer that goes on: %v", err)
	}
}

// Texts have no embeddings with it, which the error says.
func TestEncoderDecoderHasNoVectors(t *testing.T) {
	m := openLetters(t, Options{})
	var refused *RequestError
	if _, err := m.Embed(t.Context(), []string{"a word"}, EmbedOptions{}); !errors.As(err, &refused) || m.Embeds() ||
		!strings.Contains(err.Error(), "encoder-decoder") {
		t.Errorf("%v", err)
	}
}

// A receipt of a text that was written beside others confirms it.
func TestEncoderDecoderReceipt(t *testing.T) {
	m := openLetters(t, Options{})
	data := randommodel.LettersT5().File(t)
	file, err := gguf.Open(bytes.NewReader(data), int64(len(data)), "letters")
	if err != nil {
		t.Fatal(err)
	}
	print, err := engine.ReadFingerprint(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for _, text := range []string{"one text", "another text"} {
		wait.Go(func() {
			var receipt *speculative.Receipt
			r := Request{Prompts: []Prompt{{Text: text}}, MaxTokens: 10, IgnoreEOS: true}
			r.Written = func(d *speculative.Decoder) (err error) {
				receipt, err = d.Receipt(speculative.ReceiptOptions{Fingerprint: print})
				return err
			}
			if _, err := Collect(m.Generate(t.Context(), r)); err != nil {
				t.Error(err)
				return
			}
			if len(receipt.Input) == 0 || !slices.Equal(receipt.Prompt, []int32{0}) || len(receipt.Tokens) != 10 {
				t.Errorf("%+v", receipt)
			}
			if _, err := speculative.Confirm(t.Context(), m.Target(), print, receipt); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}
