package grammar

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
)

// bytesVocabulary has the 256 bytes, then words, then an end token. Words such as <|x|> are control tokens.
type bytesVocabulary struct{ words []string }

func (v bytesVocabulary) Size() int { return 256 + len(v.words) + 1 }
func (v bytesVocabulary) Bytes(id int32) []byte {
	switch {
	case id < 256:
		return []byte{byte(id)}
	case int(id) < 256+len(v.words) && !strings.HasPrefix(v.words[id-256], "<|"):
		return []byte(v.words[id-256])
	}
	return nil
}
func (v bytesVocabulary) Token(id int32) string {
	switch {
	case id < 256:
		return "byte"
	case int(id) < 256+len(v.words):
		return v.words[id-256]
	}
	return "<|end|>"
}
func (v bytesVocabulary) IsEOG(id int32) bool { return int(id) == v.Size()-1 }

// encode spells text with the longest words first, else bytes.
func (v bytesVocabulary) encode(text string) (ids []int32) {
	for text != "" {
		best, n := int32(text[0]), 1
		for i, w := range v.words {
			if strings.HasPrefix(text, w) && len(w) > n {
				best, n = int32(256+i), len(w)
			}
		}
		ids, text = append(ids, best), text[n:]
	}
	return ids
}

// machineOf runs a grammar without bounds of memory.
func machineOf(g *Grammar) (*machine, int32) {
	return newMachine(context.Background(), g, nil, Limits{Steps: math.MaxInt}.withDefaults(),
		func(int) bool { return true })
}

// accepts feeds text byte by byte and reports whether it may end there.
func accepts(t testing.TB, g *Grammar, text string) bool {
	t.Helper()
	m, at := machineOf(g)
	return m.accepts(t, at, text)
}

// accepts is the answer of a machine from state at on.
func (m *machine) accepts(t testing.TB, at int32, text string) bool {
	t.Helper()
	if at < 0 {
		return false
	}
	for i := range len(text) {
		if at = m.step(at, text[i]); at < 0 {
			if at == full {
				t.Fatalf("%q: limit at byte %d", text, i)
			}
			return false
		}
	}
	return m.states[at].final
}

// A text written as a literal is taken as it is, and nothing near it: no character of it means anything to the
// notation.
func TestLiteralIsItsText(t *testing.T) {
	for _, text := range []string{"a", `"`, `\`, `\"\\`, "a\nb\r\t\x00\x1f\x7f", "[a-z]* | root ::= (b)", "é世🙂", `\x41`,
		"# no comment"} {
		g, err := ParseGBNF(nil, "root ::= "+Literal(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for other, want := range map[string]bool{text: true, text + "a": false, text[1:]: false, "x" + text: false} {
			if got := accepts(t, g, other); got != want {
				t.Errorf("literal %q, text %q: %v, want %v", text, other, got, want)
			}
		}
	}
}

func TestGBNF(t *testing.T) {
	for _, test := range []struct{ source, yes, no string }{ // texts separated by "|"
		{`root ::= "a"`, "a", "|b|aa|ab"},
		{`root ::= "a" | "bc" | ""`, "a||bc", "b|c|abc"},
		{"root ::= \"a\" |\n  \"b\" # comment\n", "a|b", "c"},
		{"root ::= ( \"a\"\n \"b\" )* x\nx ::= [0-9]", "1|ab1|abab9", "ab|a1|12"},
		{`root ::= [^a-z\n]`, "A|ä|0|😀", "a|z|\n|AA"},
		{`root ::= [a\-z\]]+`, "a|-|z|]a-", "b|"},
		{`root ::= [-a]`, "-|a", "b"},
		{`root ::= [a-]`, "-|a", "b"},
		{`root ::= .`, "a|ä|€|😀|\n", "|ab"},
		{`root ::= "\x41\u00e4\U0001F600\t\"\\"`, "Aä😀\t\"\\", "A"},
		{`root ::= [à-ü\u4e00-\u9fff]`, "é|中", "e|ÿ"},
		{`root ::= "a"{2} "b"{1,} "c"{0,2}`, "aab|aabbbcc|aabc", "ab|aa|aabccc"},
		{`root ::= "a"{0}`, "", "a"},
		{`root ::= "x"? "y"+`, "y|xy|xyy", "x|xx"},
		{`root ::= a{3}` + "\n" + `a ::= "(" a? ")"`, "()()()|(())()((()))", "()|(()()()"},
		{"root ::= expr\nexpr ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" expr \")\"", "1|1+2|(1+(2+3))+4", "1+|(1|)"},
		{`root ::= ("a"*)*`, "|a|aaaa", "b"},
		{"root ::= \"a\nb\" \"\r\n\"", "a\nb\r\n", "ab|a\nb\n"}, // as in llama.cpp
		{"root ::=\n (\"a\"\n  | # or\n \"b\"\n)+ |\n\t\"c\"\r\n", "a|ba|c", "|ac"},
		{"root ::= e e \"x\"\ne ::= \"\" | \"y\"", "x|yx|yyx", "y|yyyx"},
		{"root ::= item list\nlist ::= \",\" item list | \"\"\nitem ::= [a-z]", "a|a,b|a,b,c", "a,|,a"},
	} {
		g, err := ParseGBNF(nil, test.source)
		if err != nil {
			t.Errorf("%q: %v", test.source, err)
			continue
		}
		for _, text := range strings.Split(test.yes, "|") {
			if !accepts(t, g, text) {
				t.Errorf("%q refuses %q", test.source, text)
			}
		}
		for _, text := range strings.Split(test.no, "|") {
			if (text != "" || !strings.Contains("|"+test.yes+"|", "||") && test.yes != "") && accepts(t, g, text) {
				t.Errorf("%q accepts %q", test.source, text)
			}
		}
	}
}

func TestGBNFErrors(t *testing.T) {
	for source, want := range map[string]string{
		``:                               `no rule "root"`,
		`a ::= "x"`:                      `no rule "root"`,
		"root ::= b":                     `rule "b" is used and not defined`,
		"root ::= \"a\"\nroot ::= \"b\"": `line 2: rule "root" is defined twice`,
		`root = "a"`:                     `::= expected`,
		"root ::= \"a\"\n(x":             `a rule's name expected, not "("`,
		`root ::= "a`:                    `" expected`,
		"root ::= x\nx ::= \"a\n\n":      `line 2: " expected`,
		`root ::= [a`:                    `] expected`,
		`root ::= ("a"`:                  `) expected`,
		`root ::= "a")`:                  `unexpected ")"`,
		`root ::= [z-a]`:                 `runs backward`,
		`root ::= "\q"`:                  `unknown escape`,
		`root ::= "\x4"`:                 `is no character`,
		`root ::= "\ud800"`:              `is no character`,
		`root ::= "a"{3,1}`:              `less than the first`,
		`root ::= "a"{x}`:                `repetitions`,
		`root ::= "a"{99999999}`:         `Repetitions`,
		`root ::= "abcdefgh"{65536} "abcdefgh"{65536}  "abcdefgh"{65536}`:                    `Instructions`,
		`root ::= ((.{60000}){60000}){60000}`:                                                `Instructions`,
		`root ::= ((""{60000}){60000}){60000} "a"`:                                           ``,
		`root ::= root "a" | "b"`:                                                            `left-recursive`,
		"root ::= a\na ::= b\nb ::= \"\" a":                                                  `left-recursive`,
		"root ::= a* root \"x\"\na ::= \"y\"":                                                `left-recursive`,
		"root ::= a root \"x\" | \"y\"\na ::= \"b\"?":                                        `left-recursive`,
		"root ::= a root \"x\" | \"y\"\na ::= b c\nb ::= \"x\" | d{2}\nc ::= d*\nd ::= \"\"": `left-recursive`,
		"root ::= a \"x\" | \"y\"\na ::= b c\nb ::= \"\" | \"z\"\nc ::= b{1,2} root":         `left-recursive`,
		"root ::= a root \"x\" | \"y\"\na ::= b{0} d{3} \"x\"\nb ::= \"\"\nd ::= b":          ``,
		"root ::= a root \"x\" | \"y\"\na ::= b{1,3}\nb ::= \"b\" | \"c\" b":                 ``,
		`root ::= <think>`:                          `token references`,
		`root ::= ` + strings.Repeat("(", 10000):    `Nesting`,
		`root ::= "a"` + strings.Repeat("?", 10000): `Nesting`,
		"root ::= \xff":                             `UTF-8`,
	} {
		_, err := ParseGBNF(nil, source)
		if want == "" {
			if err != nil {
				t.Errorf("%.60q: %v", source, err)
			}
			continue
		}
		if err == nil || !errors.Is(err, ErrGrammar) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", source, err, want)
		}
	}
}

// Every range of characters accepts just its characters: all edges of the encodings' lengths.
func TestClassEdges(t *testing.T) {
	edges := []rune{0, 1, 0x7E, 0x7F, 0x80, 0x81, 0xBF, 0xC0, 0x7FE, 0x7FF, 0x800, 0x801, 0xFFF, 0x1000, 0xD7FE, 0xD7FF,
		0xE000, 0xFFFE, 0xFFFF, 0x10000, 0x10001, 0x3FFFF, 0x40000, 0x10FFFE, 0x10FFFF}
	for i, lo := range edges {
		for _, hi := range edges[i:] {
			c := newClass(runeRange{lo, hi})
			g := compile(NewBudget(t.Context(), Limits{}), []expression{c}, 0)
			not := compile(NewBudget(t.Context(), Limits{}), []expression{c.not()}, 0)
			for _, r := range edges {
				in := lo <= r && r <= hi
				if got := accepts(t, g, string(r)); got != in {
					t.Fatalf("[%x-%x] accepts %x: %v", lo, hi, r, got)
				}
				if got := accepts(t, not, string(r)); got == in {
					t.Fatalf("[^%x-%x] accepts %x: %v", lo, hi, r, got)
				}
			}
		}
	}
	g, _ := ParseGBNF(nil, `root ::= .`)
	for _, bad := range []string{"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"} {
		if accepts(t, g, bad) {
			t.Errorf(". accepts the invalid bytes %q", bad)
		}
	}
}
