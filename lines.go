package spec

import (
	"strings"
	"time"
)

// Lines ends an answer of several lines early, as editors want it of a suggestion. The reason is [FinishLength].
type Lines struct {
	// Indent ends the answer in front of a line, behind its first, with fewer spaces and tabs at its beginning.
	Indent int
	// Within ends the answer with the token at which so much time has passed since the first one, if there is a line
	// behind the first then. Where it ends depends on the machine. 0: any time.
	Within time.Duration
}

// lineWatch finds the end that Lines asks for, in text that comes piece by piece.
type lineWatch struct {
	Lines
	begin time.Time // of the first piece
	many  bool      // a line has ended
	held  string    // a line's break and beginning, of which it is not known yet whether it belongs to the answer
}

// push is the part of a piece that belongs to the answer, as far as it is known, and whether the answer ends there.
func (l *lineWatch) push(piece string, now time.Time) (text string, end bool) {
	if l.begin.IsZero() {
		l.begin = now
	}
	text, l.held = l.held+piece, ""
	from := 0
	for l.Indent > 0 {
		at := strings.IndexByte(text[from:], '\n')
		if at < 0 {
			break
		}
		at += from
		from = at + 1
		l.many = true
		rest := strings.TrimLeft(text[from:], " \t")
		indent := len(text) - from - len(rest)
		if indent >= l.Indent {
			continue
		}
		if rest != "" {
			return text[:at], true
		}
		text, l.held = text[:at], text[at:]
		break
	}
	l.many = l.many || strings.Contains(text, "\n")
	return text, l.Within > 0 && l.many && now.Sub(l.begin) >= l.Within
}
