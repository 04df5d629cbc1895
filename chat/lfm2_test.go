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
