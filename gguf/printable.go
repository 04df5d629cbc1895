package gguf

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxQuoted bounds the characters of a name from a file in a message. Names that
// mean something are shorter; a damaged file may have one of 64 kB.
const maxQuoted = 100

// maxFileName bounds the characters of a file's own name in a message.
const maxFileName = 1000

// Printable returns text from a file in a form that is safe on a terminal: what is
// not printable (control characters, line breaks, direction marks, bytes that are
// not UTF-8) is escaped as in a Go string, and everything after the first limit
// characters is replaced by "...". Text that is short and printable is returned as
// it is, quotes and backslashes included.
func Printable(s string, limit int) string {
	var b strings.Builder
	for n := 0; s != ""; n++ {
		if n == limit {
			b.WriteString("...")
			break
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		s = s[size:]
	}
	return b.String()
}

// quote quotes text from a file for a message and cuts it where it is long.
func quote(s string) string {
	if utf8.RuneCountInString(s) > maxQuoted {
		return fmt.Sprintf("%.*q...", maxQuoted, s)
	}
	return strconv.Quote(s)
}

func fileName(s string) string { return Printable(s, maxFileName) }
