package chat

import "strings"

// Continued returns the prompt cut off behind content, the content of the conversation's last message, so that an
// answer goes on with it. White space at its end that the template left out is put back. It reports false where the
// template did not write the content.
func (p *Prompt) Continued(content string) (*Prompt, bool) {
	kept := strings.TrimSpace(content)
	at := strings.LastIndex(p.Text(), kept)
	if kept == "" || at < 0 {
		return nil, false
	}
	end := at + len(kept)
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
