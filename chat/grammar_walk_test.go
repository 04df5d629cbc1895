package chat

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/specgo/spec/grammar"
)

// TestToolGrammarWalks: the format's parser reads a call, with arguments that are valid by the tool's schema, from
// every random text of a format's grammar.
func TestToolGrammarWalks(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	seen := map[Syntax]bool{}
	for _, x := range toolTexts {
		if seen[x.format.Syntax] && x.control == nil {
			continue
		}
		seen[x.format.Syntax] = true
		v := byteTokens(x.control)
		tools := weatherTools[:1]
		// a free text ends with a whole tag, which a random text does not reach
		if s := x.format.Syntax.of(); s.tags != nil || s.write != nil {
			tools = []Tool{{tools[0].Name, []byte(strings.Replace(
				string(tools[0].Parameters), `"city":{"type":"string"}`, `"city":{"type":"string","enum":["Zürich","<b>"]}`, 1))}}
		}
		g, err := x.format.ToolGrammar(tools, ToolGrammarOptions{
			Required: true, Parallel: true, GrammarOptions: GrammarOptions{Control: ControlMarks(v)}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := g.Bind(nil, grammar.NewVocabulary(v, grammar.VocabularyOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for range 60 {
			text, ok := walk(t, c, v, random)
			if !ok {
				continue
			}
			ended++
			checkCalls(t, x.format, text)
		}
		if ended < 20 {
			t.Errorf("%s: %d of 60 random texts ended", x.format.Syntax, ended)
		}
	}
}

// walk writes a random text of a grammar: bytes that end something are likelier. ok is false if it did not end.
func walk(t *testing.T, c *grammar.Constraint, v byteTokens, random *rand.Rand) (text string, ok bool) {
	t.Helper()
	state := c.Start()
	for range 600 {
		mask, err := c.Mask(state)
		if err != nil {
			t.Fatal(err)
		}
		var allowed, ends []int32
		for id := range int32(v.Size()) {
			if mask[id/64]>>(id%64)&1 == 0 {
				continue
			}
			allowed = append(allowed, id)
			if id >= 256 || strings.ContainsRune("\"}])<>\n", rune(id)) {
				ends = append(ends, id)
			}
		}
		if len(allowed) == 0 {
			return text, c.Complete(state) || c.Final(state)
		}
		if len(ends) > 0 && random.IntN(2) == 0 {
			allowed = ends
		}
		id := allowed[random.IntN(len(allowed))]
		if v.IsEOG(id) {
			return text, true
		}
		if text += v.Token(id); id < 256 {
			text += string([]byte{byte(id)})
		}
		if state, _, err = c.Next(state, id); err != nil {
			t.Fatal(err)
		}
	}
	return text, false
}

// checkCalls checks that a text is calls of get_weather.
func checkCalls(t *testing.T, f Format, text string) {
	t.Helper()
	p := NewParser(f, ParserOptions{Tools: weatherTools})
	args, calls := "", 0
	for _, e := range append(append([]Event(nil), p.Push(text)...), p.Close()...) {
		switch e.Kind {
		case ToolCallArgs:
			args += e.Text
		case ToolCallEnd:
			var a struct {
				City *string `json:"city"`
				Unit string  `json:"unit"`
				Days *int    `json:"days"`
			}
			d := json.NewDecoder(strings.NewReader(args))
			d.DisallowUnknownFields()
			err := d.Decode(&a)
			if calls++; e.Err != nil || err != nil || a.City == nil || a.Unit != "" && a.Unit != "C" && a.Unit != "F" ||
				a.Days != nil && *a.Days < 1 {
				t.Errorf("%s: %q: arguments %q: %v, %v", f.Syntax, text, args, e.Err, err)
			}
			args = ""
		case ContentEvent:
			t.Errorf("%s: %q: content %q", f.Syntax, text, e.Text)
		}
	}
	if calls == 0 {
		t.Errorf("%s: %q: no call", f.Syntax, text)
	}
}
