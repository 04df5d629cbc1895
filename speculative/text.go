package speculative

import (
	"strings"

	"github.com/specgo/spec/bpe"
)

// printer turns tokens into text and looks for stop strings. What could be the beginning of a stop string is held
// back. Text is released when it is certain, so every part is whole UTF-8 and no stop string shows that is not to.
// Tokens are handed over one by one, so drafts do not change where the text is cut.
type printer struct {
	decoder *bpe.Decoder // nil: no text
	stops   []string
	shown   int // so many of stops, from the first, are part of the text that they end
	held    string
}

// next returns what can be shown after token id, and whether a stop string is complete.
func (p *printer) next(id int32) (text string, stop bool) {
	if p.decoder == nil {
		return "", false
	}
	return p.push(p.decoder.Next(id))
}

// rest returns what was held back, at the text's end.
func (p *printer) rest() string {
	if p.decoder == nil {
		return ""
	}
	text, stop := p.push(p.decoder.Flush())
	if !stop {
		text += p.held
	}
	p.held = ""
	return text
}

func (p *printer) push(text string) (show string, stop bool) {
	if len(p.stops) == 0 {
		return text, false
	}
	if p.held != "" {
		text = p.held + text
	}
	p.held = ""
	first, cut, which := len(text)+1, 0, 0 // the stop string that is complete first, and of those the longest
	for n, s := range p.stops {
		if i := strings.Index(text, s); i >= 0 && (i+len(s) < first || i+len(s) == first && i < cut) {
			first, cut, which = i+len(s), i, n
		}
	}
	if first <= len(text) {
		if which < p.shown {
			cut = first
		}
		return text[:cut], true
	}
	keep := 0
	for _, s := range p.stops {
		for n := min(len(s)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, s[:n]) {
				keep = n
			}
		}
	}
	p.held = text[len(text)-keep:]
	return text[:len(text)-keep], false
}
