package markdown

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A language is what of a programming language gets a color.
type language struct {
	names    []string
	comment  string // begins one that ends with the line
	quotes   string
	keywords []string
}

var languages = []language{
	{[]string{"go", "golang"}, "//", "\"'`", strings.Fields("break case chan const continue default defer else " +
		"fallthrough for func go goto if import interface map nil package range return select struct switch " +
		"true false type var")},
	{[]string{"python", "py"}, "#", "\"'", strings.Fields("and as assert async await break class continue def del elif " +
		"else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try " +
		"while with yield")},
	{
		strings.Fields("js javascript ts typescript jsx tsx java c cpp c++ rust rs csharp"), "//", "\"'`",
		strings.Fields("async await bool break case catch char class const continue default do double else enum export " +
			"extends false float fn for function if impl import in int interface let long match mod mut new null private " +
			"public return self static struct super switch this throw true try type typeof use var void while yield"),
	},
	{[]string{"sh", "bash", "shell", "zsh", "console"}, "#", "\"'", strings.Fields("case do done elif else esac exit " +
		"export fi for function if in local return then until while")},
	{[]string{"json"}, "", "\"", strings.Fields("true false null")},
	{[]string{"sql"}, "--", "'\"", strings.Fields("SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE " +
		"JOIN ON GROUP BY ORDER LIMIT AND OR NOT NULL AS select from where insert into values update set delete create " +
		"table join on group by order limit and or not null as")},
}

// languageOf finds a language by the word behind the mark of a block; nil: no colors.
func languageOf(name string) *language {
	name, _, _ = strings.Cut(strings.ToLower(name), " ")
	for i := range languages {
		if slices.Contains(languages[i].names, name) {
			return &languages[i]
		}
	}
	return nil
}

// A lexer colors a line of code that comes in pieces.
type lexer struct {
	language *language
	quote    byte // the quote of the string that the text is in; 0: none
	escaped  bool
	comment  bool
}

// line begins a line. Strings between backquotes go on over lines.
func (l *lexer) line() {
	l.comment, l.escaped = false, false
	if l.quote != '`' {
		l.quote = 0
	}
}

// write colors text and returns the end of it that may go on: a word, or the beginning of a comment's mark.
func (l *lexer) write(b *strings.Builder, text string, whole bool) (rest string) {
	if l.language == nil {
		b.WriteString(text)
		return ""
	}
	for text != "" {
		n, color := l.next(text)
		if n == len(text) && !whole && !l.comment && l.quote == 0 {
			return text
		}
		if color == "" {
			b.WriteString(text[:n])
		} else {
			b.WriteString(color + text[:n] + off)
		}
		text = text[n:]
	}
	return ""
}

// next returns the length of what has one color, and it.
func (l *lexer) next(text string) (int, string) {
	c := text[0]
	switch {
	case l.comment:
		return len(text), comment
	case l.quote != 0:
		return l.rest(text), quoted
	case l.language.comment != "" && strings.HasPrefix(text, l.language.comment):
		l.comment = true
		return len(text), comment
	case strings.IndexByte(l.language.quotes, c) >= 0:
		l.quote = c
		return 1, quoted
	}
	n := 0
	for n < len(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		n += size
	}
	switch {
	case n == 0:
		_, n = utf8.DecodeRuneInString(text)
		return n, ""
	case c >= '0' && c <= '9':
		return n, number
	case slices.Contains(l.language.keywords, text[:n]):
		return n, keyword
	}
	return n, ""
}

// rest returns the length of the string under way.
func (l *lexer) rest(text string) int {
	for i := range len(text) {
		switch {
		case l.escaped:
			l.escaped = false
		case text[i] == '\\' && l.quote != '`':
			l.escaped = true
		case text[i] == l.quote:
			l.quote = 0
			return i + 1
		}
	}
	return len(text)
}
