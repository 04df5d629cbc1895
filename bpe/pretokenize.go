package bpe

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pretokenizer cuts text into the words that byte-level BPE merges. Its rules
// are published as regular expressions (quoted below, alternatives tried in
// order); here they are scanners, since a regular-expression engine would cost
// more than all the rest.
type pretokenizer struct {
	name         string
	addBOS       bool // unless the file says otherwise
	ignoreMerges bool // a word that is a token is not merged
	// next returns the end of the word that begins at text[i], i < len(text).
	next func(s *scratch, text string, i int) int
}

var pretokenizers = []pretokenizer{
	{name: "gpt-2", next: scanGPT2},
	{name: "default", next: scanDefault},
	{name: "llama-bpe", next: scanLlama3, addBOS: true, ignoreMerges: true},
	{name: "qwen2", next: scanQwen2},
	{name: "deepseek-coder", next: scanDeepSeekCoder},
}

// synonyms are other names of the same rules.
var synonyms = map[string]string{
	"":       "default",
	"llama3": "llama-bpe", "llama-v3": "llama-bpe", "falcon3": "llama-bpe", "pixtral": "llama-bpe", "lfm2": "llama-bpe",
	"phi-2": "gpt-2", "mpt": "gpt-2", "olmo": "gpt-2", "jais": "gpt-2", "exaone4": "gpt-2", "gigachat": "gpt-2", "mellum": "gpt-2",
	"deepseek-r1-qwen": "qwen2", "megrez": "qwen2",
}

func findPretokenizer(name string) (pretokenizer, error) {
	canonical := name
	if s, ok := synonyms[name]; ok {
		canonical = s
	}
	i := slices.IndexFunc(pretokenizers, func(p pretokenizer) bool { return p.name == canonical })
	if i < 0 {
		var known []string
		for _, p := range pretokenizers {
			known = append(known, p.name)
		}
		for s := range synonyms {
			if s != "" {
				known = append(known, s)
			}
		}
		slices.Sort(known)
		return pretokenizer{}, fmt.Errorf("tokenizer.ggml.pre: pre-tokenizer %s is %w (known: %s)", quote(name), ErrUnsupported, strings.Join(known, ", "))
	}
	return pretokenizers[i], nil
}

// class is what the rules ask of a character.
type class uint8

const (
	other  class = iota
	letter       // \p{L}
	number       // \p{N}
	space        // \s, White_Space
	punct        // \p{P}
)

// symbolic is [^\s\p{L}\p{N}].
func (c class) symbolic() bool { return c == other || c == punct }

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsSpace(r):
		return space
	case unicode.IsNumber(r):
		return number
	case unicode.IsPunct(r):
		return punct
	}
	return other
}

var asciiClass = func() (t [utf8.RuneSelf]class) {
	for r := range t {
		t[r] = classOf(rune(r))
	}
	return t
}()

// classAt returns the class and length of the character at text[i]. A byte
// that is part of no character is a character of class other.
func classAt(text string, i int) (class, int) {
	if c := text[i]; c < utf8.RuneSelf {
		return asciiClass[c], 1
	}
	return wideClassAt(text[i:])
}

func wideClassAt(text string) (class, int) {
	r, n := utf8.DecodeRuneInString(text)
	return classOf(r), n
}

// isAt says whether text goes on at i with a character of class c.
func isAt(text string, i int, c class) bool {
	if i >= len(text) {
		return false
	}
	at, _ := classAt(text, i)
	return at == c
}

// skip returns the end of the run of class c that goes on at text[i].
func skip(text string, i int, c class) int {
	for i < len(text) {
		at, n := classAt(text, i)
		if at != c {
			break
		}
		i += n
	}
	return i
}

// skipSymbols is skip for [^\s\p{L}\p{N}].
func skipSymbols(text string, i int) int {
	for i < len(text) {
		at, n := classAt(text, i)
		if !at.symbolic() {
			break
		}
		i += n
	}
	return i
}

func newline(c byte) bool { return c == '\n' || c == '\r' }

// contraction returns the length of 's 't 'm 'd 're 've 'll at the front of text, or 0.
func contraction(text string, fold bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	a, b := text[1], byte(0)
	if len(text) > 2 {
		b = text[2]
	}
	if fold {
		a |= 0x20 // of all bytes only letters become the letters looked for
		b |= 0x20
	}
	switch {
	case a == 's', a == 't', a == 'm', a == 'd':
		return 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	}
	return 0
}

// blank returns the end of the word at text[i], which is white space that no
// other rule wants: \s+(?!\S)|\s+. The last blank before a word is left to it,
// unless it is the only one.
func blank(text string, i int) int {
	first, last := i, i
	for i < len(text) {
		c, n := classAt(text, i)
		if c != space {
			if last > first {
				return last
			}
			break
		}
		last = i
		i += n
	}
	return i
}

// scanGPT2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func scanGPT2(_ *scratch, text string, i int) int {
	if n := contraction(text[i:], false); n > 0 {
		return i + n
	}
	c, n := classAt(text, i)
	if text[i] == ' ' && i+1 < len(text) {
		if next, wide := classAt(text, i+1); next != space {
			c, n = next, 1+wide
		}
	}
	switch c {
	case letter, number:
		return skip(text, i+n, c)
	case space:
		return blank(text, i)
	}
	return skipSymbols(text, i+n)
}

// scanLlama3: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func scanLlama3(_ *scratch, text string, i int) int { return scanTiktoken(text, i, 3) }

// scanQwen2 is the same with \p{N} in place of \p{N}{1,3}.
func scanQwen2(_ *scratch, text string, i int) int { return scanTiktoken(text, i, 1) }

func scanTiktoken(text string, i, digits int) int {
	if n := contraction(text[i:], true); n > 0 {
		return i + n
	}
	c, n := classAt(text, i)
	switch {
	case c == letter:
		return skip(text, i+n, letter)
	case c == number:
		end := i + n
		for ; digits > 1 && isAt(text, end, number); digits-- {
			_, n = classAt(text, end)
			end += n
		}
		return end
	case !newline(text[i]) && isAt(text, i+n, letter):
		return skip(text, i+n, letter)
	}
	end := i + n
	if text[i] == ' ' && end < len(text) {
		if next, wide := classAt(text, end); next.symbolic() {
			c = next
			end += wide
		}
	}
	if c.symbolic() {
		end = skipSymbols(text, end)
		for end < len(text) && newline(text[end]) {
			end++
		}
		return end
	}
	// Blanks up to the last line break among them are one word.
	end = skip(text, i, space)
	if k := strings.LastIndexAny(text[i:end], "\r\n"); k >= 0 {
		return i + k + 1
	}
	return blank(text, i)
}

// scanDeepSeekCoder cuts at [\r\n], then what is left at \s?\p{L}+, then at
// \s?\p{P}+, then every chunk at [一-龥ࠀ-一가-퟿]+ and at \p{N}.
func scanDeepSeekCoder(s *scratch, text string, i int) int {
	if i >= s.end {
		s.end = deepSeekChunk(text, i)
	}
	text = text[:s.end]
	r, n := utf8.DecodeRuneInString(text[i:])
	if unicode.IsNumber(r) {
		return i + n
	}
	asian := deepSeekAsian(r)
	for i += n; i < len(text); i += n {
		r, n = utf8.DecodeRuneInString(text[i:])
		if deepSeekAsian(r) != asian || unicode.IsNumber(r) {
			break
		}
	}
	return i
}

func deepSeekAsian(r rune) bool { return r >= 0x0800 && r <= 0x9FA5 || r >= 0xAC00 && r <= 0xD7FF }

// deepSeekChunk returns the end of the chunk that the first three cuts leave at text[i].
func deepSeekChunk(text string, i int) int {
	// word says whether \s?\p{L}+ or \s?\p{P}+ matches at i, and where the run begins.
	word := func(i int) (class, int) {
		c, n := classAt(text, i)
		if c == space && !newline(text[i]) && i+n < len(text) {
			i += n
			c, n = classAt(text, i)
		}
		if c == letter || c == punct {
			return c, i
		}
		return other, i
	}
	if newline(text[i]) {
		return i + 1
	}
	if c, run := word(i); c != other {
		return skip(text, run, c)
	}
	for i < len(text) {
		if c, _ := word(i); c != other || newline(text[i]) {
			break
		}
		_, n := classAt(text, i)
		i += n
	}
	return i
}

// scanDefault, for files that name no pre-tokenizer, cuts at
// [\p{P}\$\+<=>\^~\|]+, then by GPT-2's rule, then at \p{N}+, then at [0-9][0-9][0-9].
func scanDefault(s *scratch, text string, i int) int {
	if i >= s.end {
		marks := defaultMark(text, i)
		for s.end = i; s.end < len(text) && defaultMark(text, s.end) == marks; {
			_, n := classAt(text, s.end)
			s.end += n
		}
	}
	text = text[:s.end]
	if text[i] == ' ' && isAt(text, i+1, number) {
		return i + 1
	}
	if !isAt(text, i, number) {
		return scanGPT2(s, text, i)
	}
	if threeDigits(text[i:]) {
		return i + 3
	}
	for isAt(text, i, number) && !threeDigits(text[i:]) {
		_, n := classAt(text, i)
		i += n
	}
	return i
}

func defaultMark(text string, i int) bool {
	return isAt(text, i, punct) || strings.IndexByte("$+<=>^~|", text[i]) >= 0
}

func threeDigits(text string) bool {
	if len(text) < 3 {
		return false
	}
	for _, c := range []byte(text[:3]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
