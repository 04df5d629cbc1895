package bpe

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/specgo/spec/internal/testkit"
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

	deepSeekV3Rule = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" +
		"| ?[\\p{P}\\p{S}]+[\\r\\n]*|[□]*[\\r\\n]+|([□]+)"
)

// deepSeekLLMLetterRanges writes the table of letters as the published expression does.
func deepSeekLLMLetterRanges() string {
	var s strings.Builder
	for _, r := range deepSeekLLMLetters.R16 {
		fmt.Fprintf(&s, `\x{%x}-\x{%x}`, r.Lo, r.Hi)
	}
	for _, r := range deepSeekLLMLetters.R32 {
		fmt.Fprintf(&s, `\x{%x}-\x{%x}`, r.Lo, r.Hi)
	}
	return s.String()
}

func casedRule(after, numbers string) string {
	return casedRuleOf(upperRule, lowerRule, after, numbers, "/")
}

func casedRuleOf(upperRule, lowerRule, after, numbers, tail string) string {
	const front = `[^\r\n\p{L}\p{N}]?`
	return front + upperRule + "*" + lowerRule + "+" + after + "|" + front + upperRule + "+" +
		lowerRule + "*" + after + "|" +
		numbers + `| ?[^□\p{L}\p{N}]+[\r\n` + tail + `]*|[□]*[\r\n]+|([□]+)`
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
			if len(m) > 2 && m[2] >= 0 && slices.Contains(re.SubexpNames(), "length") {
				run := []rune(p[start:end]) // without the last, unless it is the text's end or alone
				for n := 512; n > 0; n /= 2 {
					if n <= len(run) {
						end = start + len(string(run[:n]))
						break
					}
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

// without leaves characters out of a class of the form [...]. Go's classes have no intersection.
func without(class, out string) string {
	in, not := regexp.MustCompile(class), regexp.MustCompile(out)
	var s strings.Builder
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if c := string(r); utf8.ValidRune(r) && in.MatchString(c) && !not.MatchString(c) {
			fmt.Fprintf(&s, `\x{%x}`, r)
		}
	}
	return "[" + s.String() + "]"
}

// tinyAya is \d{1,3}(?=(?:\d{3})*\b).
func tinyAya(words []string) (list []string) {
	for _, w := range words {
		start := 0
		runs := regexp.MustCompile(`\p{Nd}+`).FindAllStringIndex(w, -1)
		for _, run := range runs {
			if regexp.MustCompile(`^[\p{L}\p{M}\p{Nl}\p{Pc}ⓐ-ⓩⒶ-Ⓩ]`).MatchString(w[run[1]:]) {
				continue
			}
			if run[0] > start {
				list = append(list, w[start:run[0]])
			}
			list = append(list, groupsOfThree(w[run[0]:run[1]])...)
			start = run[1]
		}
		if start < len(w) {
			list = append(list, w[start:])
		}
	}
	return list
}

// groupsOfThree cuts characters into threes, counted from the right.
func groupsOfThree(w string) (list []string) {
	runes := []rune(w)
	for n := (len(runes) - 1) % 3; len(runes) > 0; n = 2 {
		list, runes = append(list, string(runes[:n+1])), runes[n+1:]
	}
	return list
}

// afmoeDigits cuts runs of numbers.
func afmoeDigits(words []string) (list []string) {
	for _, w := range cutAt(words, rule(`\p{N}+`)) {
		if isAt(w, 0, number) {
			list = append(list, groupsOfThree(w)...)
		} else {
			list = append(list, w)
		}
	}
	return list
}

// first are what is applied before the expressions of a rule, where Go's expressions do not suffice.
var first = map[string]func([]string) []string{"tiny_aya": tinyAya, "afmoe": afmoeDigits}

// expressions are the published rules. To compile them takes a second, and half a minute under the race detector.
var expressions = sync.OnceValue(func() map[string][]*regexp.Regexp {
	return map[string][]*regexp.Regexp{
		"gpt-2":     {rule(gpt2Rule)},
		"llama-bpe": {rule(llama3Rule)},
		"qwen2":     {rule(qwen2Rule)},
		"bailingmoe": {rule(`'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` +
			`| ?[^□\p{L}\p{N}]+[\r\n]*|[□]*[\r\n]|([□]+)`)},
		"qwen35": {rule(contractions + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}` +
			`| ?[^□\p{L}\p{M}\p{N}]+[\r\n]*|[□]*[\r\n]+|([□]+)`)},
		"seed-coder": {rule(contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}` +
			`| ?[^□\p{L}\p{N}\r\n]+|[□]*[\r\n]+|([□]+)`)},
		"minicpm5": {rule(`\p{N}{1,3}`), rule(contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+` + tailRule)},
		"exaone-moe": {rule(contractions + `|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}` +
			`| ?[^□\p{L}\p{N}]+[\r\n/]?|[□]*[\r\n]|([□]+)`)},
		"smollm": {rule(`\p{N}`), rule(gpt2Rule)},
		"tekken": {rule(casedRule("", `\p{N}`))},
		"gpt-4o": {rule(casedRule("(?:"+contractions+")?", `\p{N}{1,3}`))},
		"deepseek-coder": {rule(`[\r\n]`), rule(`[□]?\p{L}+`), rule(`[□]?\p{P}+`),
			rule("[一-龥ࠀ-一가-퟿]+"), rule(`\p{N}`)},
		"deepseek-v3": {rule(`\p{N}{1,3}`), rule("[一-龥぀-ゟ゠-ヿ]+"), rule(deepSeekV3Rule)},
		"falcon":      {rule("[\\p{P}$+<=>^~|`]+"), rule(gpt2Rule), rule(`[0-9][0-9][0-9]`)},
		"default":     {rule(`[\p{P}$+<=>^~|]+`), rule(gpt2Rule), rule(`\p{N}+`), rule(`[0-9][0-9][0-9]`)},
		"bloom":       {rule(` ?[^(□|.,!?…。，、।۔،)]+`)},
		"superbpe":    {rule(`\p{N}+`)}, // and threesFromRight
		"gemma4":      {rule(`[^\n]+|[\n]+`)},
		"ufakzeka":    {rule(strings.TrimPrefix(qwen2Rule, contractions+"|"))},
		"laguna":      {rule(`[^\n]+|[\n]+`), rule(qwen2Rule)},
		"viking":      {rule(` ?[^(□|.,!?…。，、।۔،)]+`), rule(`\p{N}`)},
		"jais-2":      {rule(strings.TrimSuffix(llama3Rule, "([□]+)") + "(?P<length>[□]+)")},
		"tiny_aya":    {rule(casedRule("(?:"+contractions+")?", `\p{N}{1,3}`))},
		"youtu": {rule("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"),
			rule(casedRule("(?:"+contractions+")?", `\p{N}`))},
		"kimi-k2": {rule(`\p{Han}+|` + casedRuleOf(without(upperRule, `\p{Han}`), without(lowerRule, `\p{Han}`),
			"(?:"+contractions+")?", `\p{N}{1,3}`, ""))},
		"chameleon": {rule(`<sentinel:[0-9]+>`), rule(`(?:IMGIMG)(?:(?:A|B|C|D|E|F|G|H|I){1,4})Z`),
			rule(`[\t\n]|    |  `), rule(`\p{N}`), rule("[\\p{P}!-/:-@\\[-`{-~]"), rule(gpt2Rule)},
		"spark2_5": {rule(`\p{N}{1,3}`), rule("[一-龥぀-ゟ゠-ヿ]+"), rule(strings.NewReplacer(`[\r\n]*`, "", `[□]*[\r\n]+`,
			`[\r\n]`).Replace(deepSeekV3Rule)), rule(`\p{N}`)},
		"afmoe": {rule("[一-鿿㐀-䶿\uf900-\ufaff぀-ゟ゠-ヿ･-ﾟ" +
			"⼀-\u2fdf\u0e40-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff가-\ud7afᄀ-ᇿ]+"),
			rule(deepSeekV3Rule)},
		"deepseek-llm": {rule(`[\r\n]`), rule(`[□]?[` + deepSeekLLMLetterRanges() + `]+`),
			rule(`[□]?[!-/:-~！-／：-～‘-‟\x{3000}-。]+`), rule(`[□]+$`), rule("[一-龥ࠀ-一가-퟿]+"), rule(`\p{N}+`)},
	}
})

var awkward = []string{
	"", " ", "  ", " \n", "\n ", "\r\n\r\n", "\t\tx", "a  b", "a \n b", " \u3000\u00a0x", "\u0085\u2028x",
	"I'm you're he'LL we'Ve 'd's", "''s 'x'", "it's", "'", "'l", "a'r", "\u017f'\u017f",
	"1234567", "12 345", " 1", "1²345", "²²123²", "½ Ⅷ ① ٣٤٥٦", "x1y22z", "1๒๓ ๑๒๓๔5 ၁២x12๓4໕",
	"!?!", " !", "a!b", " $+<=>^~|`", "(a)", "\"“quoted”\" ‘x’", "…—", "a\u0301e\u0308", "\u0301",
	"我想在apple工作1314151天～", " 我", "\u3000我", "!“”!", "가나다 힣 ힰ",
	"ࠀ", "✅ ✅", "🚀🦙 x", "😶‍🌫️",
	"\xff", "a\xffb", "\xe2\x82", " \xc3(", "\x00\x01", "ʰ ª º ǅ", "नमस्ते", "កាន់តែ",
	"HTTPServer camelCase ABʰCD ABCʰ ʰABC ǅungla \u0301ABC \u0301Abc !\u0301AB iPhone's THEY'RE",
	"//\n/ /\r\n! \n/", "a b  c d\u0301 e1 f", " \u200b\u200bx\u0001y \u0002 z", "!abc !é ?aé #x\u0301",
	"12²3456 1234567 ٣٤٥٦ ⅧⅧ1234Ⅷ123",
	"漢字かなカナABC。", "か\u3040ー・゛x", "a, b! c|d ؟ ।", ",  a", "a  1 \n 2  3",
	"\nabc \r\nx\n\nyz", "\n\n \n", "٣٤٥٦٧٨٩1",
	strings.Repeat(" ", 1100) + "x" + strings.Repeat(" ", 513) + "1" +
		strings.Repeat("\u3000", 70) + "\n " + strings.Repeat("\t", 7),
	"xIMGIMGABCDZy IMGIMGABCDEZ IMGIMGZ IMGIMGAA <sentinel:12> a\t b   c    d     e",
	"1234567a 1234567 12345_ 1234² 1234.5 ١٢٣٤",
	"⺀⺁漢字ABc漢'S !漢 !⺀x 〇1〇 々a",
	"가나ㄱㄴ「漢」、。かな…… ㄅㄆx︰y",
	"Größe ƻʔ ａＢ　。Ꭰ 𐐀𝐀 ιΩK x  1  \u3000\u3000!　",
	"ไทย กขค ລາວ ខ្មែរ မြန်မာ ᄀ豈ｱ 1234567x",
	"func (r *Ring) Push(v int) {\n\tif r.n == len(r.buf) {\n\t\treturn\n\t}\n}\n",
}

func TestSplitters(t *testing.T) {
	for name := range expressions() {
		for _, text := range awkward {
			checkSplitter(t, name, text)
		}
		checkSplitter(t, name, strings.Join(awkward, ""))
	}
	for rule := range rules {
		if expressions()[rule] == nil && expressions()[ruleNames[rule][0]] == nil {
			if names := ruleNames[rule]; expressions()[names[len(names)-1]] != nil { // the default has no name
				continue
			}
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
	if f := first[name]; f != nil {
		want = f(want)
	}
	for _, re := range expressions()[name] {
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
	n := 700
	if testkit.IsLong(t) {
		n = 20000
	}
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

// TestLongLinear: in texts that are longer.
func TestLongLinear(t *testing.T) {
	testkit.Long(t)
	TestLinear(t)
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
		"tekken": {true, true}, "llama-bpe": {true, true}, "minicpm5": {false, true}, "dbrx": {}, "chameleon": {true, false},
		"jina-v5-nano": {true, true}, "youtu": {false, true}, "granite-embed-multi-97m": {false, true},
		"qwen2": {}, "default": {}} {
		if p, _ := findPretokenizer(name); p.addBOS != want[0] || p.ignoreMerges != want[1] {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, name := range slices.Concat(addBOSNames, addSEPNames, ignoreMergesNames) {
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
