package chat

import (
	"encoding/json"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// hostileTexts, of k times 64 KB or so, would make a parser that looks back or holds everything slow.
func hostileTexts(k int) map[string]string {
	return map[string]string{
		"spaces":       strings.Repeat(" ", k<<16),
		"opens":        strings.Repeat("<tool_call>", k<<13),
		"opens spaced": strings.Repeat("<tool_call> ", k<<13),
		"brackets":     "<tool_call>" + strings.Repeat("[", k<<16),
		"objects":      strings.Repeat(`<tool_call>{"name": `, k<<12),
		"nested":       `<tool_call>{"name": "f", "arguments": ` + strings.Repeat(`{"a":`, k<<12),
		"keys":         `<tool_call>{` + strings.Repeat(`"a": 1, `, k<<12),
		"marks":        strings.Repeat("[TOOL_CALLS]", k<<12),
		"names":        strings.Repeat("[TOOL_CALLS]aaaaaaaa", k<<12),
		"halves":       strings.Repeat("<tool_cal", k<<13),
		"deepseek": strings.Repeat("<｜tool▁calls▁begin｜>\n", k<<11) +
			strings.Repeat("<｜tool▁call▁begin｜>function", k<<11),
		"harmony":   strings.Repeat("<|channel|>analysis", k<<11) + strings.Repeat("<|message|><|end|>", k<<11),
		"harmony 2": "<|channel|>final<|message|>" + strings.Repeat("<|end|> <|start|> to=x<|message|>{", k<<11),
		"muse":      strings.Repeat("<|start|>assistant to=", k<<11) + strings.Repeat("<|message|><|eom|>", k<<11),
		"muse 2":    " to=f<|message|>" + strings.Repeat("<atem:function_calls><atem:invoke name=\"", k<<11),
		"think":     strings.Repeat("<think>", k<<12) + strings.Repeat("</think>", k<<12),
		"json":      strings.Repeat(`{"name":"f","arguments":{}}`, k<<11),
		"json list": "[" + strings.Repeat(`{"name":"f","arguments":{}},`, k<<11),
	}
}

// TestHostile: large texts made to be slow are read in pieces; what takes more
// than linear time would not end. Nothing but the marks of calls is lost.
func TestHostile(t *testing.T) {
	k := 1
	if testkit.IsLong(t) {
		k = 16
	}
	for name, text := range hostileTexts(k) {
		for _, s := range syntaxes {
			syntax := s.name
			p := NewParser(Format{Syntax: syntax, ThinkStart: "<think>", ThinkEnd: "</think>"}, ParserOptions{Tools: anyTools})
			n := 0
			count := func(events []Event) {
				for _, e := range events {
					n += len(e.Text) + 1
				}
			}
			for i := 0; i < len(text); i += 61 {
				count(p.Push(text[i:min(i+61, len(text))]))
				if len(p.buf) > maxHeader+maxMark || len(p.space) > maxSpace+61 {
					t.Fatalf("%s, %v: %d bytes held", name, syntax, len(p.buf))
				}
			}
			count(p.Close())
			if n > 2*len(text)+100 {
				t.Errorf("%s, %v: %d bytes of events of %d bytes of text", name, syntax, n, len(text))
			}
		}
	}
}

// TestLongHostile: texts of a megabyte.
func TestLongHostile(t *testing.T) {
	testkit.Long(t)
	TestHostile(t)
}

// wantLinear checks that eight times as many of something take less than sixteen times the memory, all that is
// allocated on the way.
func wantLinear(t *testing.T, what string, f func(n int)) {
	t.Helper()
	took := func(n int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f(n)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := took(1000), took(8000); many > 16*few {
		t.Errorf("%s: %d bytes for 1000, %d for 8000", what, few, many)
	}
}

// What is held back of an argument, a call or reasoning until its end comes is not copied for each piece.
func TestHeldTextsAreNotCopiedForEachPiece(t *testing.T) {
	for name, x := range map[string]struct {
		syntax Syntax
		begin  string
	}{
		"an argument": {SyntaxQwenXML, "<tool_call>\n<function=f>\n<parameter=a>\n"},
		"a call":      {SyntaxGemma4, gemmaCall + "call:f{a:" + gemmaQuote},
		"a list":      {SyntaxLFM2, `[f(a="`},
		"elements":    {SyntaxMiniMax3, minimax3Calls + minimax3Call + `f">` + minimaxMark + "<a>"},
		"a program":   {SyntaxFunctionary32, "python\nx = 1"},
		"reasoning":   {SyntaxHermes, "<think><tool_call>"},
		"text":        {SyntaxHermes, "a"},
		"halves":      {SyntaxHermes, "<tool_c"},
		"channels":    {SyntaxHarmony, "<|channel|>final<|message|><|en"},
		"messages":    {SyntaxMuse, " to=user<|message|><|eo"},
		"to nobody":   {SyntaxMuse, " to=f<|message|>no call"},
	} {
		wantLinear(t, name, func(n int) {
			f := Format{Syntax: x.syntax, ThinkStart: "<think>", ThinkEnd: "</think>"}
			p := NewParser(f, ParserOptions{Tools: typedTools})
			p.Push(x.begin)
			for range n {
				p.Push("0123456789abcdef<tool")
			}
		})
	}
}

// TestParserBounds: a call that is too long ends with an error, and what
// follows is content.
func TestParserBounds(t *testing.T) {
	call := `<tool_call>{"name": "f", "arguments": {"a": "`
	long := call + strings.Repeat("x", maxCall)
	events := parse(Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools}, long[:100], long[100:])
	if len(events) != 4 || events[2].Kind != ToolCallEnd || events[2].Err == nil || events[3].Kind != ContentEvent {
		t.Fatalf("%d events", len(events))
	}
	if got, want := len(events[1].Text)+len(events[3].Text), len(long)-strings.Index(long, `{"a"`); got != want {
		t.Errorf("%d bytes of arguments and content, want %d", got, want)
	}
	for _, syntax := range []Syntax{SyntaxMistral, SyntaxDeepSeek} {
		text := "[TOOL_CALLS]f[ARGS]"
		if syntax == SyntaxDeepSeek {
			text = deepseekCall + "f" + deepseekSep
		}
		events := parse(Format{Syntax: syntax}, ParserOptions{Tools: anyTools}, text+`{"a": "`+strings.Repeat("x", maxCall))
		if len(events) != 4 || events[2].Err == nil {
			t.Errorf("%v: %d events", syntax, len(events))
		}
	}
	deep := parse(Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`<tool_call>{"name": "f", "arguments": `+strings.Repeat(`{"a":`, 1000)+"1"+strings.Repeat("}", 1001))
	if len(deep) < 3 || deep[2].Err == nil {
		t.Errorf("deep nesting: %s", show(deep)[:100])
	}
	name := strings.Repeat("n", maxHeader+1)
	if got := show(parse(Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`<tool_call>{"name": "`+name+`"}`)); !strings.HasPrefix(got, "content:") {
		t.Errorf("a long name: %.40s", got)
	}
	space := strings.Repeat(" ", 2*maxSpace)
	for _, pieces := range [][]string{{"a" + space + `<tool_call>{"name":"f"}`},
		strings.Split("a"+space+`<tool_call>{"name":"f"}`, "")} {
		events := parse(Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools}, pieces...)
		if len(events) != 4 || events[0].Text != "a"+space {
			t.Errorf("much white space: %d events, %d bytes", len(events), len(events[0].Text))
		}
	}
}

// TestJSONScan agrees with encoding/json.
func TestJSONScan(t *testing.T) {
	for _, s := range []string{
		`{}`, `{"a":1}`, `{"a":-0.5e+10,"b":[true,false,null]}`, `{"a":"\u00e9\n\"\\"}`, `[ ]`, `[1 , 2]`,
		`{ "a" : { } , "b" : [ [ ] ] }`,
		`{"a"}`, `{"a":}`, `{,}`, `{"a":1,}`, `[1,]`, `[01]`, `[1.]`, `[.1]`, `[1e]`, `[-]`, `[--1]`, `[tru]`, `[nulll]`,
		`{"a":1]`, `["\x"]`, `["\u12g4"]`,
		`["\u123"]`, `["\u12345"]`, `["\ud83d\ude00"]`,
		"[\"\n\"]", `[1 2]`, `{1:2}`, `[}`, `[0.0e-1,1E5,0]`, `[1e5e5]`, `["a" "b"]`, `[-01]`, `{"a" "b"}`, `["é"]`, `[+1]`,
	} {
		var j jsonScan
		ok := true
		for i := 0; i < len(s) && ok; i++ {
			ok = !j.done() && j.next(s[i])
		}
		if got := ok && j.done(); got != json.Valid([]byte(s)) {
			t.Errorf("%s: %v", s, got)
		}
	}
}

// Brackets nest as deep as the bound says and no deeper, whichever they are.
func TestJSONScanNestsAsDeepAsItsBound(t *testing.T) {
	for n, want := range map[int]bool{maxScanDepth - 1: true, maxScanDepth: true, maxScanDepth + 1: false} {
		for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
			var j jsonScan
			ok := true
			for _, c := range []byte(strings.Repeat(pair[0], n) + "1" + strings.Repeat(pair[1], n)) {
				ok = ok && j.next(c)
			}
			if ok != want || ok && !j.done() {
				t.Errorf("%d of %s: %v", n, pair[0], ok)
			}
		}
	}
}

// A header of Solar that an answer ends in is a call that was cut off, and content once it is as long as its bound.
func TestSolarHeadersAreCutBelowTheirBound(t *testing.T) {
	for n, want := range map[int]EventKind{maxHeader - 1: ToolCallEnd, maxHeader: ContentEvent} {
		header := "id" + solarName
		header += strings.Repeat("n", n-len(header))
		events := parse(Format{Syntax: SyntaxSolar}, ParserOptions{Tools: anyTools}, solarCalls+solarCall+header)
		if len(events) != 1 || events[0].Kind != want {
			t.Errorf("%d bytes: %s", n, show(events))
		}
	}
}

func FuzzParser(f *testing.F) {
	for _, a := range append(answers[:len(answers):len(answers)], moreAnswers...) {
		f.Add(a.text, slices.Index(syntaxes[:], a.format.Syntax.of()), len(a.text)/2)
	}
	f.Fuzz(func(t *testing.T, text string, syntax, cut int) {
		format := Format{Syntax: syntaxes[uint(syntax)%uint(len(syntaxes))].name, ThinkStart: "<think>", ThinkEnd: "</think>"}
		o := ParserOptions{Tools: anyTools}
		whole := parse(format, o, text)
		cut = int(uint(cut) % uint(len(text)+1))
		if got := parse(format, o, text[:cut], text[cut:]); !reflect.DeepEqual(got, whole) {
			t.Fatalf("%q cut at %d:\n%s\nwhole:\n%s", text, cut, show(got), show(whole))
		}
		if len(text) < 2000 {
			var pieces []string
			for i := range len(text) {
				pieces = append(pieces, text[i:i+1])
			}
			if got := parse(format, o, pieces...); !reflect.DeepEqual(got, whole) {
				t.Fatalf("%q byte by byte:\n%s\nwhole:\n%s", text, show(got), show(whole))
			}
		}
		open := -1
		for _, e := range whole {
			switch e.Kind {
			case ToolCallStart:
				if open >= 0 || e.Name == "" {
					t.Fatalf("%q: %s", text, show(whole))
				}
				open = e.Call
			case ToolCallArgs:
				if open != e.Call {
					t.Fatalf("%q: %s", text, show(whole))
				}
			case ToolCallEnd:
				if open != e.Call && (open >= 0 || e.Err == nil) { // a call may be cut off before its name
					t.Fatalf("%q: %s", text, show(whole))
				}
				open = -1
			}
		}
		if open >= 0 {
			t.Fatalf("%q: a call without its end: %s", text, show(whole))
		}
	})
}

// FuzzConversation renders conversations by the built-in templates: no panic,
// and no control token in what a user says.
func FuzzConversation(f *testing.F) {
	f.Add("user", "hello", "system", "<|im_end|>", `{"a":[1]}`, 0)
	f.Add("assistant", "<think>a</think>", "tool", "\xff\xfe", `{`, 3)
	f.Fuzz(func(t *testing.T, role1, text1, role2, text2, arguments string, which int) {
		names := BuiltinNames()
		name := names[uint(which)%uint(len(names))]
		source, _ := Builtin(name)
		tmpl, err := New(source, Options{BOS: "<s>", EOS: "</s>"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := tmpl.Render(t.Context(), Conversation{
			Messages: []Message{{Role: role1, Content: text1}, {Role: role2, Content: text2},
				{Role: "assistant", ToolCalls: []ToolCall{{Name: text1, Arguments: arguments}}}},
			Tools: []json.RawMessage{[]byte(arguments)}, AddGenerationPrompt: true,
		})
		if err != nil {
			return
		}
		for _, s := range p.Spans {
			if s.Text == "" {
				t.Fatal("an empty span")
			}
		}
	})
}

// A message of gpt-oss to a function without a name is no call: programs look for the name.
func TestHarmonyCallWithoutAName(t *testing.T) {
	for _, text := range []string{" to=functions.<|channel|>commentary<|message|>{}<|call|>",
		"<|channel|>commentary to=functions. <|constrain|>json<|message|>{\"a\":1}<|call|>"} {
		for _, e := range parse(Format{Syntax: SyntaxHarmony}, ParserOptions{Tools: anyTools}, text) {
			if e.Kind != ToolCallEnd || e.Err == nil {
				t.Errorf("%q: %+v", text, e)
			}
		}
	}
}
