package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/specgo/spec/internal/testkit"
)

// fewVocabulary has these texts as tokens, control tokens (<|…|>) among them, and an end token.
type fewVocabulary []string

func (v fewVocabulary) Size() int           { return len(v) + 1 }
func (v fewVocabulary) IsEOG(id int32) bool { return int(id) == len(v) }
func (v fewVocabulary) Token(id int32) string {
	if v.IsEOG(id) {
		return "<|end|>"
	}
	return v[id]
}
func (v fewVocabulary) Bytes(id int32) []byte {
	if text := v.Token(id); !strings.HasPrefix(text, "<|") {
		return []byte(text)
	}
	return nil
}

// letters are the characters of a text, a token each.
func letters(text string, more ...string) fewVocabulary {
	return append(strings.Split(text, ""), more...)
}

const ascii = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// reach is the state behind a text whose characters are tokens; dead: it is refused.
func (v fewVocabulary) reach(t *testing.T, c *Constraint, text string) int32 {
	t.Helper()
	state := c.Start()
	for _, r := range text {
		id := slices.Index(v, string(r))
		next, ok, err := c.Next(state, int32(id))
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return dead
		}
		state = next
	}
	return state
}

// TestBoundToAlphabet: what the tokens of a vocabulary cannot write is left out of a grammar when it is bound, and a
// grammar of which nothing is left is refused with the character that is missing. In JSON other characters are escaped.
func TestBoundToAlphabet(t *testing.T) {
	object := func(s string) string {
		return `{"type":"object","properties":` + s + `,"additionalProperties":false}`
	}
	for _, x := range []struct {
		source  string // GBNF if it has ::=, a regular expression between slashes
		tokens  fewVocabulary
		yes, no []string // their characters are tokens
		missing string
	}{
		{source: `root ::= "a" ("b" "é" | "c")`, tokens: letters("abc"), yes: []string{"ac"}, no: []string{"ab"}},
		{source: `root ::= "a" ("b" "é" | "c")`, tokens: letters("abcé"), yes: []string{"ac", "abé"}},
		{source: `root ::= "aé" | "b" root "é"`, tokens: letters("ab"), missing: "é"},
		{source: `root ::= "a" [x-z]? "b"`, tokens: letters("ab"), yes: []string{"ab"}},
		{source: `root ::= "a" [x-z]+ | "b" [w-z]{0,3}`, tokens: letters("abw"), yes: []string{"b", "bww"},
			no: []string{"a"}},
		{source: `root ::= "a" r | "b"` + "\nr ::= \"c\" s\ns ::= r | \"d\"", tokens: letters("abc"),
			yes: []string{"b"}, no: []string{"a"}},
		{source: `/abb[é-ö]|bc/`, tokens: letters("abc"), yes: []string{"bc"}, no: []string{"a", "b"}},
		{source: `{"enum":["é","e"]}`, tokens: letters(`"ex`), yes: []string{`"e"`}},
		{source: `{"enum":["é","e"]}`, tokens: letters(ascii), yes: []string{`"e"`, `"\u00e9"`, `"\u00E9"`},
			no: []string{`"\u00ea"`, `"\u00e8"`}},
		{source: `{"enum":["é"]}`, tokens: letters(ascii + "é"), yes: []string{`"é"`}, no: []string{`"\`}},
		{source: `{"const":"😀"}`, tokens: letters(ascii), yes: []string{`"\ud83d\ude00"`}, no: []string{`"\ud83d"`}},
		{source: `{"const":"é"}`, tokens: letters(strings.ReplaceAll(ascii, "u", "")), missing: "é"},
		{source: `{"const":true}`, tokens: letters("tru"), missing: "e"},
		{source: `{"type":["null","integer"]}`, tokens: letters("-12"), yes: []string{"-1", "12"}, no: []string{"0", "n"}},
		{source: `{"type":"string","pattern":"^(é|ab)+$"}`, tokens: letters(`"ab`), yes: []string{`"ab"`}},
		{source: `{"type":"string","pattern":"^(é|ab)+$","minLength":3}`, tokens: letters(ascii),
			yes: []string{`"ab\u00e9"`, `"abab"`}, no: []string{`"\u00e8`, `"ab"`}},
		{source: `{"type":"string","pattern":"^[é-ü]+$","minLength":3}`, tokens: letters(`"abö`), yes: []string{`"ööö"`},
			no: []string{`"ö"`, `""`}},
		{source: `{"type":"string","pattern":"^é$","maxLength":3}`, tokens: letters(`"ab`), missing: "?"},
		{source: `{"type":"string"}`, tokens: letters(`"aé`), yes: []string{`"aé"`, `""`}},
		{source: object(`{"ä":{"type":"null"},"b":{"enum":["ß",1]}}`), tokens: letters(`"b:{},1`),
			yes: []string{`{}`, `{"b":1}`},
			no:  []string{`{"b":"`}},
		{source: object(`{"ä":{"type":"null"}}`), tokens: letters(ascii), yes: []string{`{}`, `{"\u00e4":null}`}},
	} {
		var g *Grammar
		switch {
		case strings.Contains(x.source, "::="):
			g = gbnfOf(t, x.source)
		case x.source[0] == '/':
			var err error
			if g, err = ParseRegex(nil, strings.Trim(x.source, "/")); err != nil {
				t.Fatal(err)
			}
		default:
			g = schemaOf(t, x.source)
		}
		c, err := g.Bind(nil, NewVocabulary(x.tokens, VocabularyOptions{}))
		if x.missing != "" {
			if !errors.Is(err, ErrGrammar) || x.missing != "?" && !strings.Contains(err.Error(), x.missing) {
				t.Errorf("%s: %v, want that %q is missing", x.source, err, x.missing)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", x.source, err)
			continue
		}
		for _, text := range x.yes {
			if at := x.tokens.reach(t, c, text); at < 0 || !c.Final(at) {
				t.Errorf("%s: %s is refused", x.source, text)
			}
		}
		for _, text := range x.no {
			at := x.tokens.reach(t, c, text)
			if at >= 0 && (c.Final(at) || strings.HasSuffix(text, `"\`) || text == "a") {
				t.Errorf("%s: %s is allowed", x.source, text)
			}
		}
		x.tokens.walks(t, c, rand.New(rand.NewPCG(1, 1)), 40)
	}
}

// walks writes a random text, and fails where nothing may follow. false: the text was cut off.
func (v fewVocabulary) walks(t *testing.T, c *Constraint, random *rand.Rand, most int) (text string, ended bool) {
	t.Helper()
	state := c.Start()
	for range most {
		mask, err := c.Mask(state)
		if err != nil {
			t.Fatal(err)
		}
		ids := maskIDs(mask)
		if len(ids) == 0 {
			t.Fatalf("nothing may follow %q", text)
		}
		id := ids[random.IntN(len(ids))]
		if v.IsEOG(id) {
			return text, true
		}
		next, ok, err := c.Next(state, id)
		if !ok || err != nil {
			t.Fatalf("%q, then %q of the mask: %v, %v", text, v.Token(id), ok, err)
		}
		state, text = next, text+v.Token(id)
	}
	return text, c.Final(state)
}

// TestAlphabetOfBytes: bytes that are tokens write characters; where some bytes are not, no token ends inside of a
// character that may have no end.
func TestAlphabetOfBytes(t *testing.T) {
	tail := fewVocabulary{"a", "b", "\xc3", "x\xc3", "x"}
	for b := 0x80; b < 0xC0; b++ {
		tail = append(tail, string([]byte{byte(b)}))
	}
	for _, x := range []struct {
		source string
		tokens fewVocabulary
		want   string // the tokens that may come first
		errs   bool
	}{
		{`root ::= "é" | "a"`, tail, `["a" "\xc3"]`, false},
		{`root ::= "xé" | "a"`, tail, `["a" "x\xc3" "x"]`, false},
		{`root ::= "ß" | "Ā"`, tail, `["\xc3"]`, false}, // 0xC4 is no token
		{`root ::= "中"`, tail, ``, true},
		{`root ::= "xé" | "a"`, append(tail[:20:20], "é"), `["a" "x"]`, false},
		{`root ::= "xé" | "a"`, tail[:20], `["a"]`, false},
	} {
		c, err := gbnfOf(t, x.source).Bind(nil, NewVocabulary(x.tokens, VocabularyOptions{}))
		if (err != nil) != x.errs {
			t.Errorf("%s: %v", x.source, err)
		}
		if err != nil {
			continue
		}
		mask, err := c.Mask(c.Start())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, id := range maskIDs(mask) {
			got = append(got, x.tokens.Token(id))
		}
		if fmt.Sprintf("%q", got) != x.want {
			t.Errorf("%s: %q, want %s", x.source, got, x.want)
		}
		for seed := range uint64(20) {
			x.tokens.walks(t, c, rand.New(rand.NewPCG(seed, 1)), 20)
		}
	}
}

// TestStartingWith: the characters whose encodings begin with a byte.
func TestStartingWith(t *testing.T) {
	for lead := 0xC2; lead <= 0xF4; lead++ {
		r := newClass(startingWith(byte(lead)))
		for c := rune(0x80); c <= utf8.MaxRune; c += 7 {
			if utf8.ValidRune(c) && r.has(c) != (string(c)[0] == byte(lead)) {
				t.Fatalf("%x: %x", lead, c)
			}
		}
	}
}

// TestControlTokensOfVocabulary: what needs a control token that the vocabulary does not have is left out.
func TestControlTokensOfVocabulary(t *testing.T) {
	mark := func(name string) *Grammar { return Text(ControlToken(name)) }
	v := letters("ab", "<|m|>")
	all := bytesVocabulary{[]string{"<|m|>"}}
	for _, tokens := range []Tokens{v, all} {
		bound := func(g *Grammar) (*Constraint, error) { return g.Bind(nil, NewVocabulary(tokens, VocabularyOptions{})) }
		c, err := bound(Choice(Sequence(Text("a"), mark("<|x|>")), Sequence(Text("b"), mark("<|m|>"))))
		if err != nil {
			t.Fatal(err)
		}
		if m := c.machine; m.step(c.start, 'a') != dead || m.step(c.start, 'b') < 0 {
			t.Error("a way to a control token that is not there")
		}
		if _, ok, err := c.Next(walk(t, c, int32(slices.Index(namesOf(tokens), "b"))),
			int32(slices.Index(namesOf(tokens), "<|m|>"))); !ok || err != nil {
			t.Error("the control token is not allowed", err)
		}
		quoted, err := ParseSchema(nil, []byte(`{"type":"string"}`),
			SchemaOptions{Notation: Notation{Quote: ControlToken("<|x|>")}})
		if err != nil {
			t.Fatal(err)
		}
		inner := schemaOf(t, `{"enum":[1]}`)
		if _, err := bound(Sequence(Repeat(mark("<|x|>"), 0, 1), Text("a"))); err != nil {
			t.Error(err)
		}
		for name, g := range map[string]*Grammar{"text": Sequence(Text("a"), mark("<|x|>")),
			"until": Until(ControlToken("<|x|>")), "quoted": quoted,
			"inside": Sequence(Sequence(inner, mark("<|x|>")), Text("a"))} {
			if _, err := bound(g); !errors.Is(err, ErrGrammar) || !strings.Contains(err.Error(), "no token") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := bound(Until(ControlToken("<|x|>"), ControlToken("<|m|>"))); err != nil {
			t.Error(err)
		}
		if _, err := bound(Without(ControlToken("<|x|>"))); err != nil {
			t.Error(err)
		}
	}
}

// namesOf are the names of tokens, of single bytes these.
func namesOf(v Tokens) (names []string) {
	for id := range int32(v.Size()) {
		if text := v.Bytes(id); len(text) == 1 {
			names = append(names, string(text))
		} else {
			names = append(names, v.Token(id))
		}
	}
	return names
}

// longNumber is beyond what valid reads exactly.
var longNumber = regexp.MustCompile(`\d{16}`)

// TestRandomAlphabets: random schemas under vocabularies that lack characters: no mask is empty, every text is valid,
// and texts of the whole grammar that the characters can write are in what is left.
func TestRandomAlphabets(t *testing.T) {
	n := 200
	switch {
	case testkit.IsLong(t):
		n = 4000
	case testing.Short():
		n = 100
	}
	random := rand.New(rand.NewPCG(3, 4))
	refused, texts, kept := 0, 0, 0
	for range n {
		source := randomSchema(random, 3)
		g := schemaOf(t, source)
		var tokens fewVocabulary
		for _, c := range ascii + "éäß\n" {
			if random.IntN(12) > 0 {
				tokens = append(tokens, string(c))
			}
		}
		tokens = append(tokens, `":`, `{"`, `é"`, "\xc3", "\xa9\"", "null", `\u`, "12", "abc")
		v := NewVocabulary(tokens, VocabularyOptions{})
		c, err := g.Bind(nil, v)
		whole := write(t, g, random, 60)
		writes := !strings.ContainsFunc(whole, func(r rune) bool { return !slices.Contains(tokens, string(r)) })
		if err != nil {
			if refused++; writes {
				t.Fatalf("%s: %v, but %q can be written", source, err, whole)
			}
			continue
		}
		if writes {
			if kept++; tokens.reach(t, c, whole) < 0 {
				t.Fatalf("%s: %q is refused under %q", source, whole, tokens)
			}
		}
		var schema any
		if err := json.Unmarshal([]byte(source), &schema); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			text, ended := tokens.walks(t, c, random, 60)
			if !ended || longNumber.MatchString(text) {
				continue
			}
			texts++
			var value any
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				t.Fatalf("%s: %q: %v", source, text, err)
			}
			if err := valid(schema, value); err != nil {
				t.Fatalf("%s: %q: %v", source, text, err)
			}
		}
		c.Close()
	}
	if t.Logf("%d of %d refused, %d texts, %d kept", refused, n, texts, kept); texts < n/2 || refused == 0 || kept == 0 {
		t.Error("too few")
	}
}

// TestLongRandomAlphabets: twenty times as many.
func TestLongRandomAlphabets(t *testing.T) {
	testkit.Long(t)
	TestRandomAlphabets(t)
}
