package grammar

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// alphabet is what the tokens of a vocabulary can write: the characters that have a token of their own, or of which
// each byte has one, and the control tokens. What needs another character is left out of a grammar when it is bound.
// A nil alphabet has all characters and control tokens.
type alphabet struct {
	runes   class
	full    bool             // all characters are in it
	json    *alphabet        // what a JSON string can have, as it is or escaped
	control map[string]int32 // control tokens by their spelling in grammars
}

// all reports whether every character can be written.
func (a *alphabet) all() bool { return a == nil || a.full }

// newAlphabet reads a vocabulary's tokens. Where not every byte that continues a character has a token, those that
// are cut inside of a character become part of no text: nothing might follow them.
func newAlphabet(tokens [][]byte, control map[string]int32) *alphabet {
	var has [256]bool
	var runes []runeRange
	for _, t := range tokens {
		if len(t) == 1 {
			has[t[0]] = true
		}
		if r, n := utf8.DecodeRune(t); n == len(t) && n > 0 && (n > 1 || r < utf8.RuneSelf) {
			runes = append(runes, runeRange{r, r})
		}
	}
	continues := true
	for b := 0x80; b < 0xC0; b++ {
		continues = continues && has[b]
	}
	for lead := 0xC2; lead <= 0xF4 && continues; lead++ {
		if has[lead] {
			runes = append(runes, startingWith(byte(lead)))
		}
	}
	for i, t := range tokens {
		if !continues && !utf8.Valid(t) && !isControl(t) {
			tokens[i] = nil
		}
	}
	a := &alphabet{runes: newClass(runes...), control: control}
	a.full = len(anyRune.minus(a.runes)) == 0
	a.json = &alphabet{full: true}
	if !a.full {
		a.json = a.inJSON()
	}
	return a
}

// startingWith is the characters whose encoding begins with a byte of 0xC2 … 0xF4; some may be surrogates.
func startingWith(lead byte) runeRange {
	switch r := rune(lead); {
	case lead < 0xE0:
		return runeRange{r & 0x1F << 6, r&0x1F<<6 | 0x3F}
	case lead < 0xF0:
		return runeRange{max(0x800, r&0xF<<12), r&0xF<<12 | 0xFFF}
	default:
		return runeRange{max(0x10000, r&7<<18), min(utf8.MaxRune, r&7<<18|0x3FFFF)}
	}
}

// isControl reports whether a token's text is a control token's name.
func isControl(text []byte) bool { return len(text) > 0 && text[0] == controlMark[0] }

// some reports whether a character of a class can be written.
func (a *alphabet) some(c class) bool {
	if a.all() {
		return len(c) > 0
	}
	return slices.ContainsFunc(c, func(r runeRange) bool {
		i, _ := slices.BinarySearchFunc(a.runes, r.lo, func(x runeRange, lo rune) int { return int(x.hi) - int(lo) })
		return i < len(a.runes) && a.runes[i].lo <= r.hi
	})
}

// missing is the first part of a text that cannot be written, a character or a control token's name; "": there is none.
func (a *alphabet) missing(text string) string {
	for a != nil && text != "" {
		if text[0] == controlMark[0] {
			if n := strings.Index(text[1:], controlMark) + 2; n > 1 {
				if _, ok := a.control[text[:n]]; !ok {
					return text[1 : n-1]
				}
				text = text[n:]
				continue
			}
		}
		r, n := utf8.DecodeRuneInString(text)
		if !a.some(class{{r, r}}) {
			return text[:n]
		}
		text = text[n:]
	}
	return ""
}

// inJSON is what can be written in a JSON string, as it is or escaped.
func (a *alphabet) inJSON() *alphabet {
	all := a.runes.intersect(plain)
	for _, r := range "\"\\\n\r\t\b\f" {
		if a.missing(jsonCharacter(r)) == "" {
			all = newClass(append(all, runeRange{r, r})...)
		}
	}
	if a.missing(`\u0123456789abcdef`) == "" {
		all = newClass(append(all, runeRange{0, 0x1F}, runeRange{0x80, utf8.MaxRune})...)
	}
	return &alphabet{runes: all, full: len(anyRune.minus(all)) == 0}
}

// escaped is a text of a JSON document, in which other characters than those of ASCII stand in strings alone: those
// that cannot be written are escaped.
func (a *alphabet) escaped(text string) expression {
	var all sequence
	from := 0
	for i, r := range text {
		if r >= utf8.RuneSelf && !a.some(class{{r, r}}) {
			all = append(all, literal(text[from:i]+`\u`), hexOf(class{{r, r}}))
			from = i + utf8.RuneLen(r)
		}
	}
	return append(all, literal(text[from:]))
}
