package chat

import (
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat/internal/jinja"
)

// Tokenizer is what [Prompt.IDs] needs; *[bpe.Tokenizer] is one.
type Tokenizer interface {
	EncodeParts(parts []bpe.Part, addSpecial bool) []int32
	ID(token string) (int32, bool)
	AddsBOS() bool
	BOS() int32
}

var _ Tokenizer = (*bpe.Tokenizer)(nil)

// Span is a stretch of a prompt with one origin.
type Span struct {
	Text   string
	Origin Origin
}

// Prompt is a rendered conversation.
type Prompt struct {
	Spans   []Span // neighbours differ in origin
	format  *Format
	asks    bool // the template looks at enable_thinking
	thought bool // it ends within reasoning that goes on
}

func newPrompt(t jinja.Text, of *Template) *Prompt {
	p := &Prompt{format: of.format, asks: strings.Contains(of.source, "enable_thinking")}
	s, o := t.String(), t.Origins()
	for i := 0; i < len(s); {
		j := i + 1
		for j < len(s) && o[j] == o[i] {
			j++
		}
		p.Spans = append(p.Spans, Span{s[i:j], o[i]})
		i = j
	}
	return p
}

// Text returns the prompt's text.
func (p *Prompt) Text() string {
	var b strings.Builder
	for _, s := range p.Spans {
		b.WriteString(s.Text)
	}
	return b.String()
}

// InReasoning says whether the answer begins inside of a reasoning section,
// which the template has opened, or [Prompt.Thought].
func (p *Prompt) InReasoning() bool {
	return p.thought || p.Opening() != ""
}

// Opening is what the prompt holds of a section of reasoning that the template has opened: its mark and the white space
// behind it; "" if it has opened none.
func (p *Prompt) Opening() string {
	if len(p.Spans) == 0 || p.Spans[len(p.Spans)-1].Origin != FromTemplate {
		return ""
	}
	_, opening := p.format.Opened(p.Spans[len(p.Spans)-1].Text)
	return opening
}

// WithoutReasoning is a prompt in front of an answer that ends behind its reasoning: a section that the template has
// opened is closed, and where the template does not look at enable_thinking, an empty one is put there. It is the
// prompt itself where there is nothing to do.
func (p *Prompt) WithoutReasoning() *Prompt {
	mark := ""
	switch {
	case p.format.ThinkEnd == "" || len(p.Spans) == 0:
	case p.InReasoning():
		mark = p.format.ThinkEnd
	case !p.asks && !strings.HasSuffix(strings.TrimSpace(p.Text()), p.format.ThinkEnd):
		mark = p.format.ThinkStart + p.format.ThinkEnd
	}
	if mark == "" {
		return p
	}
	out := &Prompt{Spans: append([]Span(nil), p.Spans...), format: p.format, asks: p.asks}
	if last := &out.Spans[len(out.Spans)-1]; last.Origin == FromTemplate {
		last.Text += mark
		return out
	}
	out.Spans = append(out.Spans, Span{mark, FromTemplate})
	return out
}

// IDs returns the prompt's token ids. Control and user-defined tokens are
// found in what the template wrote; in an assistant's text user-defined ones
// and the marks of the template's format; elsewhere none. BOS is put in front
// if the tokenizer asks for it and the template did not.
func (p *Prompt) IDs(t Tokenizer) []int32 {
	ids := t.EncodeParts(p.parts(t), false)
	if t.AddsBOS() && (len(ids) == 0 || ids[0] != t.BOS()) {
		ids = append([]int32{t.BOS()}, ids...)
	}
	return ids
}

func (p *Prompt) parts(t Tokenizer) []bpe.Part {
	var marks []string // those that are tokens
	for _, m := range p.format.Marks() {
		if _, ok := t.ID(m); ok {
			marks = append(marks, m)
		}
	}
	var parts []bpe.Part
	for _, s := range p.Spans {
		switch s.Origin {
		case FromTemplate:
			parts = append(parts, bpe.Part{Text: s.Text, ParseSpecial: true})
		case FromAssistant:
			parts = appendMarked(parts, s.Text, marks)
		default:
			parts = append(parts, bpe.Part{Text: s.Text, Plain: true})
		}
	}
	return parts
}

// appendMarked cuts an assistant's text at marks, each of which becomes a part
// in which special tokens are parsed.
func appendMarked(parts []bpe.Part, text string, marks []string) []bpe.Part {
	start := 0
	for i := 0; i < len(text); i++ {
		for _, m := range marks {
			if text[i] != m[0] || !strings.HasPrefix(text[i:], m) {
				continue
			}
			if start < i {
				parts = append(parts, bpe.Part{Text: text[start:i]})
			}
			parts = append(parts, bpe.Part{Text: m, ParseSpecial: true})
			i += len(m) - 1
			start = i + 1
			break
		}
	}
	if start < len(text) {
		parts = append(parts, bpe.Part{Text: text[start:]})
	}
	return parts
}
