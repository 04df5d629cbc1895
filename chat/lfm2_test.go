package chat

import "testing"

// A call in JSON without arguments, or with null, has an empty object of them.
func TestJSONCallsWithoutArgumentsHaveNone(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"f"}`:                     `{}`,
		`{"name":"f","arguments":null}`:    `{}`,
		`{"name":"f","arguments":{"a":1}}`: `{"a":1}`,
	} {
		if calls, ok := readJSONCalls(text); !ok || len(calls) != 1 || calls[0].args != want {
			t.Errorf("%s: %v, %v", text, calls, ok)
		}
	}
	for _, text := range []string{`{"name":"f","arguments":1}`, `{"name":""}`, `{"arguments":{}}`, `[]`} {
		if calls, ok := readJSONCalls(text); ok {
			t.Errorf("%s: %v", text, calls)
		}
	}
}

// Escapes of bytes in Python's strings are characters, as in Python.
func TestPythonCallsWithEscapes(t *testing.T) {
	const text = `f(a='caf\xe9 \u00e9 \351 é', b="\x41")`
	calls, end := readPythonCalls(text)
	if want := `{"a": "café é é é", "b": "A"}`; end != wholeDone || len(calls) != 1 || calls[0].args != want {
		t.Errorf("%v: %v, want %s", end, calls, want)
	}
}

// A backslash in front of a character that Python knows no escape of is a backslash, as in regular expressions; octal
// escapes have up to three digits, and a line goes on behind a backslash at its end.
func TestPythonCallsWithOtherEscapes(t *testing.T) {
	const text = `f(a="\d+\.\w*\é", b='\(x\)', c="\0\18\1234", d="x\` + "\n" + `y", e=["\s", {"\k": '\''}])`
	const want = `{"a": "\\d+\\.\\w*\\é", "b": "\\(x\\)", "c": "\u0000\u00018S4", "d": "xy", "e": ["\\s", {"\\k": "'"}]}`
	if calls, end := readPythonCalls(text); end != wholeDone || len(calls) != 1 || calls[0].args != want {
		t.Errorf("%v: %v, want %s", end, calls, want)
	}
	for _, bad := range []string{`\x4`, `\u12g4`, `\N{BULLET}`} {
		if calls, end := readPythonCalls(`f(a="` + bad + `")`); end == wholeDone {
			t.Errorf("%s: %v", bad, calls)
		}
	}
}

// A character beyond 16 bits that JSON escapes in two halves is one, also where a call is cut off between them; a half
// alone is no character.
func TestPythonCallsWithSurrogates(t *testing.T) {
	const text = `f(a="x\uD83D\ude00y")`
	calls, end := readPythonCalls(text)
	if want := `{"a": "x😀y"}`; end != wholeDone || len(calls) != 1 || calls[0].args != want {
		t.Errorf("%v: %v, want %s", end, calls, want)
	}
	for n := len(`f(a="x`); n < len(text); n++ {
		if calls, end := readPythonCalls(text[:n]); end != wholeCut || len(calls) != 1 {
			t.Errorf("%s: %v: %v", text[:n], end, calls)
		}
	}
	for _, half := range []string{`\ud83d`, `\ude00\ud83d`, `\ud83d\u0041`} {
		if calls, end := readPythonCalls(`f(a="` + half + `")`); end == wholeDone {
			t.Errorf("%s: %v", half, calls)
		}
	}
}
