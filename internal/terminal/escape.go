package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/specgo/spec/internal/cellwidth"
)

// Line makes a string from outside safe to show on one line: control characters, invisible format
// characters (which reorder or hide text) and bytes that are not UTF-8 are written as escapes (\n, \x1b,
// \u202e). What takes more than most cells is cut in the middle; most 0 is no limit.
func Line(s string, most int) string { return cut(escape(s, ""), most) }

// Text is Line for text of several lines: tabs and line ends stay, and nothing is cut.
func Text(s string) string { return escape(s, "\n\t") }

func escape(s, keep string) string {
	if isPlain(s, keep) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case isSafe(r, keep):
			b.WriteString(s[i : i+size])
		case r < ' ' || r == 0x7f:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += size
	}
	return b.String()
}

func isPlain(s, keep string) bool {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return false
			}
		}
		if !isSafe(r, keep) {
			return false
		}
	}
	return true
}

// isSafe reports whether a terminal shows the character and does nothing else with it. Joiners (as in
// emoji and in Indic and Arabic scripts) are format characters that only join.
func isSafe(r rune, keep string) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch {
	case strings.ContainsRune(keep, r), r == nonJoiner, r == joiner:
		return true
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
		return false
	}
	return true
}

// cut keeps the two ends of a string.
func cut(s string, most int) string {
	const gap = " ... "
	if most <= 0 || cellwidth.Of(s) <= most {
		return s
	}
	tail := max(0, (most-len(gap))/3)
	head := max(0, most-len(gap)-tail)
	return cellwidth.Cut(s, head) + gap + cellwidth.CutFront(s, tail)
}
