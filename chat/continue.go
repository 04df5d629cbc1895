package chat

import "strings"

// Continued returns the prompt cut off behind content, the content of the conversation's last message, so that an
// answer goes on with it. White space at its end that the template left out is put back. It reports false where the
// template did not write the content.
func (p *Prompt) Continued(content string) (*Prompt, bool) {
	kept := strings.TrimSpace(content)
	end := 0
	if kept != "" {
		end = p.endOf(kept)
	}
	if end == 0 {
		return nil, false
	}
	out := &Prompt{format: p.format, asks: p.asks}
	for _, s := range p.Spans {
		if len(s.Text) >= end {
			s.Text = s.Text[:end]
		}
		end -= len(s.Text)
		if out.Spans = append(out.Spans, s); end == 0 {
			break
		}
	}
	last := &out.Spans[len(out.Spans)-1]
	last.Text += content[strings.LastIndex(content, kept)+len(kept):]
	return out, true
}

// Thought is a prompt in front of an answer that has begun with reasoning: the answer goes on with it. It reports false
// where the format has no reasoning, or the template has ended it.
func (p *Prompt) Thought(reasoning string) (*Prompt, bool) {
	f := p.format
	open, opening := "", p.Opening()
	switch {
	case f.Syntax.of().channels != nil:
		open = f.Syntax.of().channels.thought
	case f.ThinkEnd == "" || strings.HasSuffix(strings.TrimSpace(p.Text()), f.ThinkEnd):
		return nil, false
	case opening != "":
		reasoning = strings.TrimPrefix(reasoning, f.ThinkStart) // of a mark that is text
		if strings.TrimSpace(opening) != opening {
			reasoning = strings.TrimLeft(reasoning, " \n\t\r")
		}
	case f.startIsText() && strings.HasPrefix(reasoning, f.ThinkStart):
	case f.ThinkStart == "<think>" || strings.HasSuffix(f.ThinkStart, thoughtChannel):
		open = f.ThinkStart + "\n"
	default:
		open = f.ThinkStart
	}
	out := &Prompt{Spans: append([]Span(nil), p.Spans...), format: f, asks: p.asks, thought: true}
	if n := len(out.Spans); open != "" && n > 0 && out.Spans[n-1].Origin == FromTemplate {
		out.Spans[n-1].Text += open
	} else if open != "" {
		out.Spans = append(out.Spans, Span{open, FromTemplate})
	}
	out.Spans = append(out.Spans, Span{reasoning, FromAssistant})
	return out, true
}

// endOf is where the last occurrence of a text ends whose end an assistant has written, 0 if there is none: what the
// template writes behind a message, such as <|im_end|>, may have a short text too.
func (p *Prompt) endOf(text string) int {
	all := p.Text()
	at := strings.LastIndex(all, text)
	if at < 0 {
		return 0
	}
	at += len(text)
	for i, behind := len(p.Spans)-1, len(all); i >= 0; i-- {
		s := &p.Spans[i]
		from := behind - len(s.Text)
		if s.Origin == FromAssistant {
			if from < at && at <= behind {
				return at
			}
			if k := strings.LastIndex(s.Text, text); k >= 0 {
				return from + k + len(text)
			}
		}
		behind = from
	}
	return 0
}
