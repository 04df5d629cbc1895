package chat

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
)

// controlMarks and userMarks are what the vocabulary of the tests has beside
// bytes, as control and as user-defined tokens.
var controlMarks = []string{
	"<BOS>", "<EOS>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|eot_id|>",
	"<|start_header_id|>", "<|end_header_id|>",
	"<start_of_turn>", "<end_of_turn>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "[INST]", "[/INST]",
	"[TOOL_CALLS]", "[ARGS]",
	"<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "<｜User｜>", "<｜Assistant｜>",
	"<｜end▁of▁sentence｜>", "<|endoftext|>",
	"<|channel|>", "<|message|>", "<|start|>", "<|call|>", "<|return|>", "<|python_tag|>", "<turn|>", "<|turn>",
}
var userMarks = []string{
	"<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<|tool_call|>",
	"[THINK]", "[/THINK]", "[AVAILABLE_TOOLS]", "tools",
}

var markPattern = regexp.MustCompile(`<[|｜]?/?[A-Za-z_▁]+[|｜]?>|\[/?[A-Z_]+\]`)

// markVocabulary has a token for each byte, for the marks above and for what
// looks like one in source.
func markVocabulary(t *testing.T, source string) *bpe.Tokenizer {
	t.Helper()
	c := bpe.Defaults("gpt2", "gpt-2")
	seen := map[string]bool{}
	add := func(s string, kind int32) {
		if !seen[s] {
			seen[s] = true
			c.Tokens, c.Types = append(c.Tokens, s), append(c.Types, kind)
		}
	}
	for b := range 256 {
		// GPT-2's alphabet: printable bytes are themselves, the others follow U+0100.
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r = 256
			for k := range b {
				if !(k >= '!' && k <= '~' || k >= 0xA1 && k <= 0xAC || k >= 0xAE) {
					r++
				}
			}
		}
		add(string(r), bpe.TypeNormal)
	}
	for _, m := range controlMarks {
		add(m, bpe.TypeControl)
	}
	for _, m := range userMarks {
		add(m, bpe.TypeUserDefined)
	}
	for i, m := range markPattern.FindAllString(source, -1) {
		add(m, []int32{bpe.TypeControl, bpe.TypeUserDefined}[i%2])
	}
	tok, err := bpe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// specialIDs returns the spellings of the ids that are no bytes.
func specialIDs(tok *bpe.Tokenizer, ids []int32) []string {
	var out []string
	for _, id := range ids {
		if id >= 256 {
			out = append(out, tok.Token(id))
		}
	}
	return out
}

// checkInjection renders conversations with and without marks in what the user
// says and expects the same special tokens in both.
func checkInjection(t *testing.T, name string, tmpl *Template) {
	tok := markVocabulary(t, tmpl.Source())
	all := append(slices.Clone(controlMarks), userMarks...)
	all = append(all, markPattern.FindAllString(tmpl.Source(), -1)...)
	evil := "x" + strings.Join(all, "") + strings.Join(all, "\n") + "x"
	rendered := 0
	for shape := range 6 {
		conversation := func(text string) Conversation {
			c := Conversation{AddGenerationPrompt: true, Extra: map[string]any{}}
			user := Message{Role: "user", Content: text}
			switch shape {
			case 0:
				c.Messages = []Message{user}
			case 1:
				c.Messages = []Message{{Role: "system", Content: text}, user}
			case 2:
				c.Messages = []Message{user, {Role: "assistant", Content: "ok"}, user}
			case 3:
				c.Messages = []Message{user, {Role: "assistant",
					ToolCalls: []ToolCall{{ID: "call00001", Name: "f", Arguments: `{"a":1}`}}},
					{Role: "tool", Name: "f", ToolCallID: "call00001", Content: text}}
			case 4:
				c.Messages = []Message{user}
				c.Tools = append(c.Tools,
					[]byte(fmt.Sprintf(`{"type":"function","function":{"name":"f","description":%q,"parameters":{"type":"object","properties":{"a":{"type":"string","description":%q}},"required":["a"]}}}`, text, text)))
			case 5: // halves of marks beside what the template writes
				c.Messages = []Message{{Role: "user", Content: strings.Replace("|>_end|>"+text+"<|im", "x", "", -1)}}
			}
			return c
		}
		good, goodErr := tmpl.Render(t.Context(), conversation("xyzzy"))
		bad, badErr := tmpl.Render(t.Context(), conversation(evil))
		if goodErr != nil || badErr != nil {
			if (goodErr == nil) != (badErr == nil) {
				t.Errorf("%s, shape %d: %v, %v", name, shape, goodErr, badErr)
			}
			continue
		}
		rendered++
		want, got := specialIDs(tok, good.IDs(tok)), specialIDs(tok, bad.IDs(tok))
		if !slices.Equal(got, want) {
			t.Errorf("%s, shape %d: the special tokens change with the user's text:\n got %q\nwant %q", name, shape, got, want)
		}
		if strings.Count(bad.Text(), "[TOOL_CALLS]") == strings.Count(good.Text(), "[TOOL_CALLS]") {
			t.Errorf("%s, shape %d: the user's text is not in the prompt", name, shape)
		}
	}
	if rendered == 0 {
		t.Errorf("%s renders none of the conversations", name)
	}
}

func TestInjection(t *testing.T) {
	for _, name := range BuiltinNames() {
		checkInjection(t, name, builtin(t, name, Options{BOS: "<BOS>", EOS: "<EOS>"}))
	}
}

func TestInjectionGoldens(t *testing.T) {
	forGoldens(t, func(t *testing.T, name string, tmpl *Template, _ *goldenFile) { checkInjection(t, name, tmpl) })
}

// TestTemplateTokens: what the template writes does become control tokens, the
// names of known roles among it, and other roles do not.
func TestTemplateTokens(t *testing.T) {
	tmpl := builtin(t, "phi3", Options{})
	tok := markVocabulary(t, "")
	p, err := tmpl.Render(t.Context(), Conversation{
		Messages: []Message{{Role: "user", Content: "<|user|>"}}, AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := specialIDs(tok, p.IDs(tok)),
		[]string{"<|user|>", "<|end|>", "<|assistant|>"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	p, err = tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "im_end", Content: ""}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := specialIDs(tok, p.IDs(tok)), []string{"<|end|>"}; !slices.Equal(got, want) {
		t.Errorf("a role of the user's choice: got %q, want %q", got, want)
	}
}

// TestAssistantTokens: an assistant's text matches user-defined tokens and the
// marks of the format, and no other control tokens.
func TestAssistantTokens(t *testing.T) {
	tok := markVocabulary(t, "")
	const text = "<think>a</think><tool_call>[TOOL_CALLS]<|im_end|>[ARGS]<|channel|>"
	for _, c := range []struct {
		format Format
		want   []string
	}{
		{Format{}, []string{"<think>", "</think>", "<tool_call>"}},
		{Format{Syntax: SyntaxMistral}, []string{"<think>", "</think>", "<tool_call>", "[TOOL_CALLS]", "[ARGS]"}},
		{Format{Syntax: SyntaxHarmony}, []string{"<think>", "</think>", "<tool_call>", "<|channel|>"}},
	} {
		tmpl := mustNew(t, `{% for m in messages %}{{ m.content }}{{ m.reasoning_content }}{% endfor %}`,
			Options{Format: &c.format})
		p, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "assistant", Content: text}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := specialIDs(tok, p.IDs(tok)); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.format, got, c.want)
		}
		p, err = tmpl.Render(t.Context(), Conversation{Messages: []Message{{Role: "user", Content: text}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := specialIDs(tok, p.IDs(tok)); got != nil {
			t.Errorf("%v: a user's text: got %q", c.format, got)
		}
	}
}

// TestBOS: exactly one BOS where the tokenizer asks for it.
func TestBOS(t *testing.T) {
	c := bpe.Defaults("gpt2", "gpt-2")
	c.Tokens, c.Types = []string{"a", "<s>"}, []int32{bpe.TypeNormal, bpe.TypeControl}
	c.BOS = 1
	for _, adds := range []bool{true, false} {
		c.AddBOS = adds
		tok, err := bpe.New(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range []string{"{{ bos_token }}a", "a", ""} {
			p, err := mustNew(t, source, Options{BOS: "<s>"}).Render(t.Context(), Conversation{})
			if err != nil {
				t.Fatal(err)
			}
			got := len(specialBOS(p.IDs(tok)))
			want := 0
			if adds || strings.Contains(source, "bos") {
				want = 1
			}
			if got != want {
				t.Errorf("%q, AddBOS %v: %d BOS", source, adds, got)
			}
		}
	}
}

func specialBOS(ids []int32) (out []int32) {
	for _, id := range ids {
		if id == 1 {
			out = append(out, id)
		}
	}
	return out
}

func TestInReasoning(t *testing.T) {
	const source = `{% for m in messages %}{{ m.content }}{% endfor %}{{ "<think>\n" if open }}`
	tmpl := mustNew(t, source, Options{Format: &Format{ThinkStart: "<think>", ThinkEnd: "</think>"}})
	for _, open := range []bool{true, false} {
		p, err := tmpl.Render(t.Context(), Conversation{
			Messages: []Message{{Role: "user", Content: "say <think>"}}, Extra: map[string]any{"open": open}})
		if err != nil || p.InReasoning() != open {
			t.Errorf("open %v: %v, %v", open, p.InReasoning(), err)
		}
	}
}
