package bpe

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// words cuts text with a scanner.
func words(next func(*scratch, string, int) int, text string) []string {
	var list []string
	var s scratch
	for i := 0; i < len(text); {
		j := next(&s, text, i)
		list = append(list, text[i:j])
		i = j
	}
	return list
}

// The rules as regular expressions. Go's have no lookahead, and its \s is ASCII:
// □ below stands for white space, and split applies \s+(?!\S) afterwards.
const (
	gpt2Rule   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^□\p{L}\p{N}]+|([□]+)`
	llama3Rule = `'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^□\p{L}\p{N}]+[\r\n]*|[□]*[\r\n]+|([□]+)`
)

func rule(expr string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(expr, "□", `\t-\r\x{85}\p{Z}`))
}

// split cuts every piece at the matches of a rule, as a chain of Split
// pre-tokenizers does.
func split(pieces []string, re *regexp.Regexp) (list []string) {
	for _, p := range pieces {
		for i := 0; i < len(p); {
			m := re.FindStringSubmatchIndex(p[i:])
			if m == nil {
				list = append(list, p[i:])
				break
			}
			start, end := i+m[0], i+m[1]
			if len(m) > 2 && m[2] >= 0 && end < len(p) { // \s+(?!\S)|\s+
				if last := strings.LastIndexFunc(p[start:end], func(rune) bool { return true }); last > 0 {
					end = start + last
				}
			}
			if start > i {
				list = append(list, p[i:start])
			}
			list = append(list, p[start:end])
			i = end
		}
	}
	return list
}

var rules = map[string][]*regexp.Regexp{
	"gpt-2":          {rule(gpt2Rule)},
	"llama-bpe":      {rule(llama3Rule)},
	"qwen2":          {rule(strings.Replace(llama3Rule, "{1,3}", "", 1))},
	"deepseek-coder": {rule(`[\r\n]`), rule(`[□]?\p{L}+`), rule(`[□]?\p{P}+`), rule("[一-龥ࠀ-一가-퟿]+"), rule(`\p{N}`)},
	"default":        {rule(`[\p{P}$+<=>^~|]+`), rule(gpt2Rule), rule(`\p{N}+`), rule(`[0-9][0-9][0-9]`)},
}

var awkward = []string{
	"", " ", "  ", " \n", "\n ", "\r\n\r\n", "\t\tx", "a  b", "a \n b", " \u3000\u00a0x", "\u0085\u2028x",
	"I'm you're he'LL we'Ve 'd's", "''s 'x'", "it's", "'", "'l", "a'r", "\u017f'\u017f",
	"1234567", "12 345", " 1", "1²345", "²²123²", "½ Ⅷ ① ٣٤٥٦", "x1y22z",
	"!?!", " !", "a!b", " $+<=>^~|`", "(a)", "\"“quoted”\" ‘x’", "…—", "a\u0301e\u0308", "\u0301",
	"我想在apple工作1314151天～", " 我", "\u3000我", "!“”!", "가나다 힣 ힰ", "ࠀ", "✅ ✅", "🚀🦙 x", "😶‍🌫️",
	"\xff", "a\xffb", "\xe2\x82", " \xc3(", "\x00\x01", "ʰ ª º ǅ", "नमस्ते", "កាន់តែ",
	"func (r *Ring) Push(v int) {\n\tif r.n == len(r.buf) {\n\t\treturn\n\t}\n}\n",
}

func TestScanners(t *testing.T) {
	for name := range rules {
		for _, text := range awkward {
			checkScanner(t, name, text)
		}
		checkScanner(t, name, strings.Join(awkward, ""))
	}
}

func checkScanner(t *testing.T, name, text string) {
	t.Helper()
	p, err := findPretokenizer(name)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{text}
	if text == "" {
		want = nil
	}
	for _, re := range rules[name] {
		want = split(want, re)
	}
	if got := words(p.next, text); !slices.Equal(got, want) {
		t.Errorf("%s %q:\n got %q\nwant %q", name, text, got, want)
	}
}

func TestSynonyms(t *testing.T) {
	for s, name := range synonyms {
		if p, err := findPretokenizer(s); err != nil || p.name != name {
			t.Errorf("%q: got %s, %v; want %s", s, p.name, err, name)
		}
	}
	if c := Defaults("gpt2", "llama3"); !c.AddBOS || c.BOS != -1 {
		t.Errorf("llama3: %+v", c)
	}
	if c := Defaults("llama", "default"); !c.AddBOS || !c.AddSpacePrefix || c.BOS != 1 || c.EOS != 2 || c.UNK != 0 {
		t.Errorf("llama: %+v", c)
	}
}
