package strictjson

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	Deep string `json:"deep"`
	Both int    `json:"name"` // hidden by document's
}

type document struct {
	Name   string                     `json:"name"`
	Plain  int                        // without a tag
	Seed   uint64                     `json:"seed,string"`
	Part   part                       `json:"part"`
	Later  *part                      `json:"later,omitempty"`
	List   []part                     `json:"list"`
	Pair   [2]int                     `json:"pair"`
	Raw    json.RawMessage            `json:"raw"`
	Any    any                        `json:"any"`
	Parts  map[string]part            `json:"parts"`
	Nested map[string]json.RawMessage `json:"nested"`
	Own    own                        `json:"own"`
	Hidden int                        `json:"-"`
	inner
}

// own reads itself.
type own struct{ text string }

func (o *own) UnmarshalJSON(data []byte) error { o.text = string(data); return nil }
func (o own) MarshalJSON() ([]byte, error)     { return []byte(o.text), nil }

type part struct {
	A int     `json:"a"`
	B *string `json:"b"`
}

// What the type's own writer makes is read as it was.
func TestUnmarshalReadsWhatIsWritten(t *testing.T) {
	b := "é"
	want := document{
		Name: "\"\\ud800 \U0001F600\u2028<", Plain: 1, Seed: 1<<64 - 1, Part: part{1, &b}, Later: &part{},
		List: []part{{A: 2}, {A: 3}}, Pair: [2]int{4, 5},
		Raw: json.RawMessage(`{"a":1e400,"a":{"a":"\ud800"}}`), Any: map[string]any{"x": nil},
		Parts:  map[string]part{"x": {}, "X": {}},
		Nested: map[string]json.RawMessage{"x": json.RawMessage("null")},
		Own:    own{`{"A":null,"a":0}`}, inner: inner{Deep: "d"},
	}
	for _, d := range []document{want, {Raw: json.RawMessage("null"), Own: own{"null"}}} {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var got document
		if err := Unmarshal(append(text, '\n'), &got); err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("%s\n%+v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"name": "\ud83d\ude00 \\ud800"}`, ` {"name":"\ud83d\ude00 \\ud800"}` + "\n"} {
		var got document
		if err := Unmarshal([]byte(text), &got); err != nil || got.Name != "\U0001F600 \\ud800" {
			t.Errorf("%s: %q, %v", text, got.Name, err)
		}
	}
}

// What no writer of the type makes is refused, by one line that says where.
func TestUnmarshalRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"Name": "x"}`:                             `at byte 7: unknown name "Name"`,
		`{"name": "x", "NAME": "y"}`:                `unknown name "NAME"`,
		`{"plain": 1}`:                              `unknown name "plain"`,
		`{"Hidden": 1}`:                             `unknown name "Hidden"`,
		`{"-": 1}`:                                  `unknown name "-"`,
		`{"inner": {}}`:                             `unknown name "inner"`,
		`{"name": "x", "name": "x"}`:                `"name" stands twice`,
		`{"name": "x", "n\u0061me": "x"}`:           `"name" stands twice`,
		`{"part": {"a": 1, "a": 2}}`:                `part: "a" stands twice`,
		`{"part": {"A": 1}}`:                        `part: unknown name "A"`,
		`{"later": {"c": 1}}`:                       `later: unknown name "c"`,
		`{"list": [{"a": 1}, {"ſ": 1}]}`:            `list: unknown name "ſ"`,
		`{"parts": {"x": {"a": 1}, "x": {"a": 1}}}`: `parts: "x" stands twice`,
		`{"parts": {"x": {"A": 1}}}`:                `parts.x: unknown name "A"`,
		`{"own": {"a": [{"b": 1, "b": 1}]}}`:        `own.a: "b" stands twice`,
		`{"any": {"a": {"b": 1, "b": 1}}}`:          `any.a: "b" stands twice`,
		`{"nested": {"x": {}, "x": {}}}`:            `nested: "x" stands twice`,
		`{"name": null}`:                            "name: null",
		`{"part": null}`:                            "part: null",
		`{"list": [null]}`:                          "list: null",
		`{"pair": null}`:                            "pair: null",
		`{"pair": [1]}`:                             "pair: 1 elements, want 2",
		`{"pair": [1, 2, 3]}`:                       "pair: 3 elements, want 2",
		`null`:                                      "at byte 4: null",
		`{"name": "` + "\xff" + `"}`:                "not UTF-8",
		"{\"\xc0\xae\": 1}":                         "not UTF-8",
		"\ufeff{}":                                  "invalid character",
		`{"name": "\ud800"}`:                        "at byte 17: name: half of a surrogate pair",
		`{"name": "\ud800\u0041"}`:                  "half of a surrogate pair",
		`{"name": "\ud83d\ude00\ude00"}`:            "half of a surrogate pair",
		`{"any": {"\udc00": 1}}`:                    "half of a surrogate pair",
		`{} {}`:                                     "after top-level value",
		`{}x`:                                       "after top-level value",
		"{}\x00":                                    "after top-level value",
		``:                                          "unexpected end",
		`{"name": "x"`:                              "unexpected end",
		`{"name": 1}`:                               "cannot unmarshal number",
		`{"seed": 1}`:                               "invalid use of ,string",
		`{"Plain": 1.5}`:                            "cannot unmarshal number 1.5",
		`[]`:                                        "cannot unmarshal array",
		strings.Repeat(`{"any":`, 20000):            "exceeded max depth",
		`{"name": "x", "part": {"a": "text"}}`:      "cannot unmarshal string",
		`{"name": "x", "part": {"a": 1, "": 1}}`:    `part: unknown name ""`,
	} {
		err := Unmarshal([]byte(text), new(document))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// A bound on the bytes is kept to the byte.
func TestDecodeKeepsItsLimit(t *testing.T) {
	var got document
	if err := Decode(strings.NewReader("{}   "), 5, &got); err != nil {
		t.Error(err)
	}
	if err := Decode(strings.NewReader("{}    "), 5, &got); err == nil || err.Error() != "more than 5 bytes" {
		t.Error(err)
	}
}
