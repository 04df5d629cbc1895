package bpe

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// words cuts text with a splitter.
func words(split splitter, text string) []string {
	var list []string
	var s scratch
	for i := 0; i < len(text); {
		j := split.next(&s, text, i)
		list = append(list, text[i:j])
		i = j
	}
	return list
}

// The rules as regular expressions. Go's have no lookahead, and its \s is ASCII:
// □ below stands for white space, and cutAt applies \s+(?!\S) afterwards. (?i) is
// written out, since it would fold ſ to s.
const (
	contractions = `'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])`
	gpt2Rule     = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^□\p{L}\p{N}]+|([□]+)`
	tailRule     = `| ?[^□\p{L}\p{N}]+[\r\n]*|[□]*[\r\n]+|([□]+)`
	llama3Rule   = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` + tailRule
	qwen2Rule    = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + tailRule
	upperRule    = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lowerRule    = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
)

func casedRule(after, numbers string) string {
	const front = `[^\r\n\p{L}\p{N}]?`
	return front + upperRule + "*" + lowerRule + "+" + after + "|" + front + upperRule + "+" +
		lowerRule + "*" + after + "|" +
		numbers + `| ?[^□\p{L}\p{N}]+[\r\n/]*|[□]*[\r\n]+|([□]+)`
}

func rule(expr string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(expr, "□", `\t-\r\x{85}\p{Z}`))
}

// cutAt cuts each word at the matches of an expression: matches and what is between
// them are the new words.
func cutAt(words []string, re *regexp.Regexp) (list []string) {
	for _, p := range words {
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

// threesFromRight is (?=(\d{3})+(?!\d)).
func threesFromRight(words []string) (list []string) {
	for _, w := range words {
		start, left := 0, 0
		for i, r := range w {
			if left == 0 && unicode.IsDigit(r) {
				rest := w[i:]
				left = utf8.RuneCountInString(rest[:len(rest)-len(strings.TrimLeftFunc(rest, unicode.IsDigit))])
			}
			if left > 0 {
				if left%3 == 0 && i > start {
					list, start = append(list, w[start:i]), i
				}
				left--
			}
		}
		list = append(list, w[start:])
	}
	return list
}

// expressions are the published rules.
var expressions = map[string][]*regexp.Regexp{
	"gpt-2":      {rule(gpt2Rule)},
	"llama-bpe":  {rule(llama3Rule)},
	"qwen2":      {rule(qwen2Rule)},
	"bailingmoe": {rule(`'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^□\p{L}\p{N}]+[\r\n]*|[□]*[\r\n]|([□]+)`)},
	"qwen35":     {rule(contractions + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^□\p{L}\p{M}\p{N}]+[\r\n]*|[□]*[\r\n]+|([□]+)`)},
	"seed-coder": {rule(contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^□\p{L}\p{N}\r\n]+|[□]*[\r\n]+|([□]+)`)},
	"minicpm5":   {rule(`\p{N}{1,3}`), rule(contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+` + tailRule)},
	"exaone-moe": {rule(contractions + `|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^□\p{L}\p{N}]+[\r\n/]?|[□]*[\r\n]|([□]+)`)},
	"smollm":     {rule(`\p{N}`), rule(gpt2Rule)},
	"tekken":     {rule(casedRule("", `\p{N}`))},
	"gpt-4o":     {rule(casedRule("(?:"+contractions+")?", `\p{N}{1,3}`))},
	"deepseek-coder": {rule(`[\r\n]`), rule(`[□]?\p{L}+`), rule(`[□]?\p{P}+`),
		rule("[一-龥ࠀ-一가-퟿]+"), rule(`\p{N}`)},
	"deepseek-v3": {rule(`\p{N}{1,3}`), rule("[一-龥぀-ゟ゠-ヿ]+"),
		rule("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| " +
			"?[\\p{P}\\p{S}]+[\\r\\n]*|[□]*[\\r\\n]+|([□]+)")},
	"falcon":   {rule("[\\p{P}$+<=>^~|`]+"), rule(gpt2Rule), rule(`[0-9][0-9][0-9]`)},
	"default":  {rule(`[\p{P}$+<=>^~|]+`), rule(gpt2Rule), rule(`\p{N}+`), rule(`[0-9][0-9][0-9]`)},
	"bloom":    {rule(` ?[^(□|.,!?…。，、।۔،)]+`)},
	"superbpe": {rule(`\p{N}+`)}, // and threesFromRight
	"gemma4":   {rule(`[^\n]+|[\n]+`)},
}

var awkward = []string{
	"", " ", "  ", " \n", "\n ", "\r\n\r\n", "\t\tx", "a  b", "a \n b", " \u3000\u00a0x", "\u0085\u2028x",
	"I'm you're he'LL we'Ve 'd's", "''s 'x'", "it's", "'", "'l", "a'r", "\u017f'\u017f",
	"1234567", "12 345", " 1", "1²345", "²²123²", "½ Ⅷ ① ٣٤٥٦", "x1y22z",
	"!?!", " !", "a!b", " $+<=>^~|`", "(a)", "\"“quoted”\" ‘x’", "…—", "a\u0301e\u0308", "\u0301",
	"我想在apple工作1314151天～", " 我", "\u3000我", "!“”!", "가나다 힣 ힰ",
	"ࠀ", "✅ ✅", "🚀🦙 x", "😶‍🌫️",
	"\xff", "a\xffb", "\xe2\x82", " \xc3(", "\x00\x01", "ʰ ª º ǅ", "नमस्ते", "កាន់តែ",
	"HTTPServer camelCase ABʰCD ABCʰ ʰABC ǅungla \u0301ABC \u0301Abc !\u0301AB iPhone's THEY'RE",
	"//\n/ /\r\n! \n/", "a b  c d\u0301 e1 f", " \u200b\u200bx\u0001y \u0002 z", "!abc !é ?aé #x\u0301",
	"12²3456 1234567 ٣٤٥٦ ⅧⅧ1234Ⅷ123",
	"漢字かなカナABC。", "か\u3040ー・゛x", "a, b! c|d ؟ ।", ",  a", "a  1 \n 2  3",
	"\nabc \r\nx\n\nyz", "\n\n \n", "٣٤٥٦٧٨٩1",
	"func (r *Ring) Push(v int) {\n\tif r.n == len(r.buf) {\n\t\treturn\n\t}\n}\n",
}

func TestSplitters(t *testing.T) {
	for name := range expressions {
		for _, text := range awkward {
			checkSplitter(t, name, text)
		}
		checkSplitter(t, name, strings.Join(awkward, ""))
	}
	for rule := range rules {
		if _, ok := expressions[ruleNames[rule][len(ruleNames[rule])-1]]; !ok && expressions[rule] == nil {
			t.Errorf("no expression for %s", rule)
		}
	}
}

// checkSplitter compares a splitter with its expressions, and the characters that it
// looks at with the length of the text.
func checkSplitter(t testing.TB, name, text string) {
	t.Helper()
	p, err := findPretokenizer(name)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{text}
	if text == "" {
		want = nil
	}
	for _, re := range expressions[name] {
		want = cutAt(want, re)
	}
	if name == "superbpe" {
		want = threesFromRight(want)
	}
	got := words(p.split, text)
	if !slices.Equal(got, want) {
		t.Errorf("%s %q:\n got %q\nwant %q", name, text, got, want)
	}
	checkLinear(t, name, p.split, text)
}

// maxReads bounds how many times a splitter looks at a character on average: on its
// way to the end of a word in each of a rule's expressions and alternatives, and
// once more where it has to give back what it has seen.
const maxReads = 8

func checkLinear(t testing.TB, name string, split splitter, text string) {
	t.Helper()
	var s scratch
	for i := 0; i < len(text); {
		i = split.next(&s, text, i)
	}
	if s.read > maxReads*len(text) {
		t.Errorf("%s: %d characters looked at in a text of %d bytes that begins %.40q", name, s.read, len(text), text)
	}
}

// TestLinear: no text makes a splitter look at a character again and again.
func TestLinear(t *testing.T) {
	const n = 4000
	units := []string{
		"a", "A", "aA", "ʰA", "Aʰ", "\u0301", "\u0301A", "A\u0301", " ", "\n", " \n", "\n ", "\r", "\t", "\u3000",
		"1", "²", "1²", "²1", "٣",
		"!", "! ", " !", "!\n", "/", "\n/", "'", "'s", "'r", " a", "a ", "  a", "\x01", "\x01a", "\x01 ", "\xff", "漢",
		"漢1", "漢 ", "한", "。", "🙂",
		"a1", "1a", "1 ", " 1", "12345 ", "<", "<|", ",", ", ", " ,", "(", "a\u0301 ",
	}
	for rule, split := range rules {
		for _, unit := range units {
			run := strings.Repeat(unit, n/len(unit))
			for _, text := range []string{run, run + "a", run + "A", run + "1", run + "!", run + "\n", run + " ", "a" + run,
				"A" + run, "\n" + run, "²" + run, " " + run} {
				checkLinear(t, rule, split, text)
			}
		}
	}
}

func TestNames(t *testing.T) {
	if len(rules) != len(ruleNames) {
		t.Errorf("%d rules, names for %d", len(rules), len(ruleNames))
	}
	seen := map[string]bool{}
	for rule, names := range ruleNames {
		if rules[rule] == nil {
			t.Errorf("no splitter %s", rule)
		}
		for _, name := range names {
			if p, err := findPretokenizer(name); err != nil || p.rule != rule || seen[name] {
				t.Errorf("%q: %s, %v", name, p.rule, err)
			}
			seen[name] = true
		}
	}
	for name, want := range map[string][2]bool{
		"tekken": {true, true}, "llama-bpe": {true, true}, "minicpm5": {false, true}, "dbrx": {},
		"qwen2": {}, "default": {}} {
		if p, _ := findPretokenizer(name); p.addBOS != want[0] || p.ignoreMerges != want[1] {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, name := range append(addBOSNames, ignoreMergesNames...) {
		if !seen[name] {
			t.Errorf("settings for the unknown name %q", name)
		}
	}
	if c := Defaults("gpt2", "llama3"); !c.AddBOS || c.BOS != -1 {
		t.Errorf("llama3: %+v", c)
	}
	if c := Defaults("llama", "default"); !c.AddBOS || !c.AddSpacePrefix || c.BOS != 1 || c.EOS != 2 || c.UNK != 0 {
		t.Errorf("llama: %+v", c)
	}
}
