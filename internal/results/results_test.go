package results

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

type inner struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
}

type common struct {
	Schema int `json:"schema"`
	Origin
	Tokens int      `json:"n_tokens" csv:"n_tokens_most"`
	Broken []string `json:"broken"`
	Rows   []row    `json:"rows" csv:"-"`
}

type row struct {
	Name string `json:"name"`
	inner
	Nested   inner    `json:"estimate"`
	Tokens   int      `json:"n_tokens"`
	Oracle   *int     `json:"oracle"`
	At       []int    `json:"at"`
	Float    float32  `json:"float"`
	hidden   int      //nolint:unused // left out, as JSON does
	Runs     []inner  `json:"runs" csv:"-"`
	Optional *float64 `json:"optional"`
}

// Every column stands once, under its JSON's name, with the JSON's value: CSV and JSON are two forms of one list.
func TestCSVSaysWhatJSONSays(t *testing.T) {
	x, load := 7, 0.25
	c := common{Schema: 1, Origin: Origin{CPU: `a "b", c`, Load: &load, Models: []File{{"m.gguf", "ab"}, {"r", ""}}},
		Tokens: 64, Broken: []string{"one", "two, three"}}
	c.Rows = []row{{Name: "é\n", inner: inner{1.23456789012, 1e-9}, Nested: inner{2, 1.25}, Tokens: 3, Oracle: &x,
		At:    []int{3, 2, 1},
		Float: 0.2}, {}}
	var b strings.Builder
	if err := CSV(&b, c, c.Rows); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(lines) != 3 {
		t.Fatalf("%v: %q", err, b.String())
	}
	want := map[string]string{"schema": "1", "cpu": `a "b", c`, "load_average": "0.25", "models": "m.gguf sha256:ab; r",
		"n_tokens_most": "64", "broken": "one; two, three", "name": "é\n", "value": "1.23456789012", "low": "1e-09",
		"estimate_value": "2", "estimate_low": "1.25", "n_tokens": "3", "oracle": "7", "at": "3 2 1", "float": "0.2",
		"optional": ""}
	got := map[string]string{}
	for i, name := range lines[0] {
		if _, twice := got[name]; twice {
			t.Errorf("two columns %s", name)
		}
		got[name] = lines[1][i]
	}
	for name, value := range want {
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("%s: %q, want %q", name, v, value)
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	for name, value := range object {
		switch v := value.(type) {
		case string, float64:
			if name != "n_tokens" && got[name] != fmt.Sprint(v) {
				t.Errorf("%s: %v in JSON, %q in CSV", name, v, got[name])
			}
		}
	}
}

// Faults of a struct are told, not written.
func TestCSVRefuses(t *testing.T) {
	type twice struct {
		A int `json:"name"`
		B int `json:"name2" csv:"name"`
	}
	type nameless struct{ A int }
	type list struct {
		A []inner `json:"a"`
	}
	type table struct {
		A map[string]int `json:"a"`
	}
	var b strings.Builder
	for _, err := range []error{CSV(&b, inner{}, []twice{{}}), CSV(&b, inner{}, []nameless{{}}),
		CSV(&b, inner{}, []list{{}}), CSV(&b, inner{}, []table{{}}), CSV(&b, inner{}, []inner{{}})} {
		if err == nil {
			t.Error("no error")
		}
	}
	if b.Len() > 0 {
		t.Errorf("wrote %q", b.String())
	}
}

func TestHere(t *testing.T) {
	o := Here()
	v := reflect.ValueOf(o)
	for _, name := range []string{"Version", "Date", "CPU", "Cores", "System", "Go", "Models", "Prompts"} {
		if f := v.FieldByName(name); f.IsZero() {
			t.Errorf("no %s", name)
		}
	}
	root := fstest.MapFS{"proc/loadavg": {Data: []byte("1.25 0.5 0.25 1/200 77\n")}}
	if load, ok := loadOf(root); !ok || load != 1.25 {
		t.Errorf("load %v, %v", load, ok)
	}
	if _, ok := loadOf(fstest.MapFS{}); ok {
		t.Error("a load of nowhere")
	}
	if f := TextFile("x", []byte("abc")).String(); f !=
		"x sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Error(f)
	}
}
