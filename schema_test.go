package spec

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/speculative"
)

// Types that encoding/json writes, and that no schema without a definition of a list or a map describes.
type (
	mapOfItself     map[string]mapOfItself
	listOfItself    []listOfItself
	pointerToItself *pointerToItself
	listOfStructs   []struct{ More listOfStructs }
)

// nodes are a list in a struct in that list, which the struct's name ends.
type nodes []nodeOfNodes

type nodeOfNodes struct{ More nodes }

type node struct {
	Name     string `json:"name" jsonschema:"minLength=1,pattern=^[a-z]{1,3}$"`
	Children []node `json:"children,omitempty"`
}

type base struct {
	ID   uint8 `json:"id"`
	Note any   `json:"note,omitempty" description:"whatever \"it\" is"`
}

type everything struct {
	base
	Unit    string            `json:"unit" jsonschema:"enum=C,enum=F"`
	Level   int               `json:"level" jsonschema:"minimum=1,maximum=3"`
	Share   *float64          `json:"share"`
	Left    *bool             `json:"left,omitempty"`
	At      time.Time         `json:"at,omitzero"`
	Pair    [2]int8           `json:"pair"`
	By      map[string]string `json:"by,omitempty"`
	Tree    node              `json:"tree"`
	Plain   bool
	private int
	Skipped int `json:"-"`
}

// The schema of a type says what its tags say, and the texts that it allows are those that are read into the type.
func TestSchemaOfEveryKind(t *testing.T) {
	got, err := SchemaFor[everything]()
	if err != nil {
		t.Fatal(err)
	}
	const object = `"additionalProperties":false,"required":`
	want := `{"type":"object","properties":{` +
		`"id":{"type":"integer","minimum":0,"maximum":255},"note":{"description":"whatever \"it\" is"},` +
		`"unit":{"type":"string","enum":["C","F"]},` +
		`"level":{"allOf":[{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807},` +
		`{"minimum":1,"maximum":3}]},"share":{"anyOf":[{"type":"number"},{"type":"null"}]},"left":{"type":"boolean"},` +
		`"at":{"type":"string","format":"date-time","pattern":"` + timeText + `"},` +
		`"pair":{"type":"array","items":{"type":"integer","minimum":-128,"maximum":127},"minItems":2,"maxItems":2},` +
		`"by":{"type":"object","additionalProperties":{"type":"string"}},"tree":{"$ref":"#/$defs/node"},` +
		`"Plain":{"type":"boolean"}},` + object + `["id","unit","level","share","pair","tree","Plain"],` +
		`"$defs":{"node":{"type":"object","properties":{"name":{"type":"string","minLength":1,"pattern":"^[a-z]{1,3}$"},` +
		`"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},` + object + `["name"]}}}`
	if reflect.TypeFor[int]().Bits() == 32 {
		want = strings.NewReplacer("-9223372036854775808", "-2147483648", "9223372036854775807", "2147483647").Replace(want)
	}
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !json.Valid(got) {
		t.Error("it is not JSON")
	}
	if _, err := grammar.ParseSchema(nil, got, grammar.SchemaOptions{}); err != nil {
		t.Error(err)
	}
}

// The fields of an embedded struct stand beside the others also where its tag has options and no name, as encoding/json
// has it; those of one with a name do not.
func TestSchemaOfEmbeddedStructs(t *testing.T) {
	type inline struct {
		base `json:",inline"`
		Name string `json:"name"`
	}
	type Exported struct {
		ID uint8 `json:"id"`
	}
	type pointer struct {
		*Exported `json:",omitempty"`
	}
	type named struct {
		Exported `json:"in"`
	}
	const object, end = `{"type":"object","properties":{`, `},"additionalProperties":false,"required":`
	const id = `"id":{"type":"integer","minimum":0,"maximum":255}`
	for want, f := range map[string]func() (json.RawMessage, error){
		object + id + `,"note":{"description":"whatever \"it\" is"},"name":{"type":"string"}` + end +
			`["id","name"]}`: SchemaFor[inline],
		object + id + end + `["id"]}`: SchemaFor[pointer],
		object + `"in":{"$ref":"#/$defs/Exported"}` + end + `["in"],"$defs":{"Exported":` + object + id + end +
			`["id"]}}}`: SchemaFor[named],
	} {
		if got, err := f(); err != nil || string(got) != want {
			t.Errorf("got %s, %v\nwant %s", got, err, want)
		}
	}
	var got inline
	if err := json.Unmarshal([]byte(`{"id":3,"name":"x"}`), &got); err != nil || got.ID != 3 {
		t.Errorf("encoding/json reads %+v, %v", got, err)
	}
}

// A type that contains itself refers to itself, and its answers are read.
func TestSchemaOfARecursiveType(t *testing.T) {
	got, err := SchemaFor[node]()
	if err != nil || !strings.Contains(string(got), `"items":{"$ref":"#"}`) ||
		!strings.HasPrefix(string(got), `{"type":`) {
		t.Fatalf("%s %v", got, err)
	}
	m := newModel(t, Options{})
	r := Request{Sampling: engine.Sampling{Temperature: 1.5, Seed: 3}, MaxTokens: 300}
	n, err := Answer[node](t.Context(), m, []chat.Message{chat.User("a tree")}, r)
	if err != nil || n.Name == "" {
		t.Errorf("%+v %v", n, err)
	}
}

// What a schema allows of a float32 is read into one, and the greatest one is allowed.
func TestSchemaOfAFloat32(t *testing.T) {
	got, err := SchemaFor[float32]()
	if want := `{"type":"number","minimum":-3.4028235e38,"maximum":3.4028235e38}`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	var bounds struct{ Minimum, Maximum float32 }
	if err := json.Unmarshal(got, &bounds); err != nil || bounds.Maximum != math.MaxFloat32 ||
		bounds.Minimum != -math.MaxFloat32 {
		t.Errorf("%v, %v", bounds, err)
	}
	if _, err := grammar.ParseSchema(nil, got, grammar.SchemaOptions{}); err != nil {
		t.Error(err)
	}
	got, err = SchemaFor[struct {
		A float32 `jsonschema:"minimum=0"`
	}]()
	if err != nil || !strings.Contains(string(got), `{"allOf":[{"type":"number",`) {
		t.Errorf("%s, %v", got, err)
	}
}

// Of fields with one name that in the fewest structs counts, as encoding/json has it, whatever their names in Go are.
func TestSchemaOfFieldsThatHideOthers(t *testing.T) {
	type shadow struct {
		base
		ID int8 `json:"key"` // hides base.ID in Go, and not in JSON
	}
	type over struct {
		base
		Number int8 `json:"id"` // and the other way round
	}
	for want, f := range map[string]func() (json.RawMessage, error){
		`["id","key"]`: SchemaFor[shadow], `["id"]`: SchemaFor[over],
	} {
		if got, err := f(); err != nil || !strings.Contains(string(got), `"required":`+want) {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	var s shadow
	var o over
	err := errors.Join(json.Unmarshal([]byte(`{"id":3,"key":4}`), &s), json.Unmarshal([]byte(`{"id":5}`), &o))
	if err != nil || s.base.ID != 3 || s.ID != 4 || o.Number != 5 {
		t.Errorf("%+v %+v %v", s, o, err)
	}
}

// What a tag says holds beside what the type says, and leaves a pointer that may be null its null.
func TestSchemaOfTagsBesideTypes(t *testing.T) {
	for want, f := range map[string]func() (json.RawMessage, error){
		`{"anyOf":[{"type":"string"},{"type":"null"}],"enum":["C","F",null]}`: SchemaFor[struct {
			A *string `jsonschema:"enum=C,enum=F"`
		}],
		`{"type":"string","enum":["C"]}`: SchemaFor[struct {
			A *string `json:",omitempty" jsonschema:"enum=C"`
		}],
		`{"allOf":[{"type":"string","pattern":"` + base64 + `"},{"pattern":"^A"}]}`: SchemaFor[struct {
			A []byte `jsonschema:"pattern=^A"`
		}],
		`"minItems":2,"maxItems":2},{"minItems":1}]}`: SchemaFor[struct {
			A [2]int `jsonschema:"minItems=1"`
		}],
		`{"type":"number","minimum":1}`: SchemaFor[struct {
			A float64 `jsonschema:"minimum=1"`
		}],
	} {
		got, err := f()
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
		if _, err := grammar.ParseSchema(nil, got, grammar.SchemaOptions{}); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

// A time reads all date-times that its schema allows.
func TestSchemaOfATime(t *testing.T) {
	schema, err := SchemaFor[time.Time]()
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(t, Options{})
	for text, want := range map[string]bool{
		"2026-11-30T18:00:00Z": true, "2026-11-30T23:59:59.125+05:30": true, "0001-01-01T00:00:00-23:59": true,
		"2026-11-30t18:00:00Z": false, "2026-11-30T18:00:00z": false, "2016-12-31T23:59:60Z": false,
	} {
		err := new(time.Time).UnmarshalJSON([]byte(`"` + text + `"`))
		if (err == nil) != want {
			t.Fatalf("%s: %v", text, err)
		}
		// What the answer begins with is forced: the schema has no other value then.
		one := Schema([]byte(`{"allOf":[` + string(schema) + `,{"const":"` + text + `"}]}`))
		got, err := Text(m.Complete(t.Context(), "x", Request{Constraint: one}))
		if (err == nil && got == `"`+text+`"`) != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

// Types and tags that mean nothing are refused.
func TestSchemaRefusesWhatItCannotSay(t *testing.T) {
	for name, f := range map[string]func() (json.RawMessage, error){
		"func": SchemaFor[func()], "channel": SchemaFor[struct{ C chan int }], "keys": SchemaFor[map[int]string],
		"keyword": SchemaFor[struct {
			A string `jsonschema:"required"`
		}],
		"number": SchemaFor[struct {
			A int `jsonschema:"minimum=x"`
		}],
		"enum": SchemaFor[struct {
			A int `jsonschema:"enum=one"`
		}],
		"string": SchemaFor[struct {
			A int `json:",string"`
		}],
		"map of itself": SchemaFor[mapOfItself], "list of itself": SchemaFor[[]listOfItself],
		"pointer to itself": SchemaFor[pointerToItself], "struct without a name": SchemaFor[listOfStructs],
		"twice": SchemaFor[struct {
			A int
			B int `json:"A"`
		}],
		"pointer that nothing sets": SchemaFor[struct{ *base }],
		"name that is none": SchemaFor[struct {
			A int `json:"it's"`
		}],
	} {
		if _, err := f(); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string]func() (json.RawMessage, error){
		`{"type":"string"}`: SchemaFor[string], "{}": SchemaFor[json.RawMessage],
		`{"type":"number"}`: SchemaFor[json.Number],
		`{"type":"object","properties":{"A":{"type":"number","enum":[1,2.50]}},"additionalProperties":false,` +
			`"required":["A"]}`: SchemaFor[struct {
			A json.Number `jsonschema:"enum=1,enum=2.50"`
		}],
		`{"type":"string","pattern":"` + base64 + `"}`: SchemaFor[[]byte],
		`{"type":"array","items":{"$ref":"#/$defs/nodeOfNodes"},"$defs":{"nodeOfNodes":{"type":"object","properties":` +
			`{"More":{"type":"array","items":{"$ref":"#/$defs/nodeOfNodes"}}},"additionalProperties":false,` +
			`"required":["More"]}}}`: SchemaFor[nodes],
	} {
		if got, err := f(); err != nil || string(got) != name {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// A typed answer is a value of its type whatever the model would rather write; one that is cut off is an error.
func TestAnswersHaveTheirType(t *testing.T) {
	type weather struct {
		Place string `json:"place" jsonschema:"pattern=^[A-Z][a-z]{2,8}$"`
		Unit  string `json:"unit" jsonschema:"enum=C,enum=F"`
		Days  []int8 `json:"days" jsonschema:"minItems=2,maxItems=2"`
	}
	m, ask := newModel(t, Options{}), []chat.Message{chat.User("func")}
	for seed := range uint64(3) {
		r := Request{Sampling: engine.Sampling{Temperature: 1, Seed: seed}}
		w, err := Answer[weather](t.Context(), m, ask, r)
		if err != nil || len(w.Days) != 2 || w.Unit != "C" && w.Unit != "F" || len(w.Place) < 3 {
			t.Errorf("%+v %v", w, err)
		}
	}
	if _, err := Answer[weather](t.Context(), m, ask, Request{MaxTokens: 3}); !errors.Is(err, ErrCutOff) {
		t.Error(err)
	}
	if _, err := Answer[func()](t.Context(), m, ask, Request{}); !errors.Is(err, ErrSchema) {
		t.Error(err)
	}
	_, err := Answer[weather](t.Context(), m, ask, Request{Constraint: Constraint{Kind: AnyJSON, Field: "x"}})
	if e := (*RequestError)(nil); !errors.As(err, &e) || e.Field != "x" {
		t.Errorf("another constraint beside that of the type: %v", err)
	}
}

// A call is no value of a type: the error says that it is one.
func TestACallIsNoValue(t *testing.T) {
	m := newModel(t, Options{})
	call := m.tok.Encode("<", bpe.EncodeOptions{NoSpacePrefix: true})[0] // which no JSON begins with
	none := json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	r := Request{OneCall: true, Tools: []Tool{{Name: "f", Parameters: none}}, MaxTokens: 200,
		Sampling: engine.Sampling{LogitBias: map[int32]float32{call: 1000}}}
	_, err := Answer[struct{ Days int8 }](t.Context(), m, []chat.Message{chat.User("func")}, r)
	if err == nil || !strings.Contains(err.Error(), "it calls the tool f") {
		t.Error(err)
	}
}

// An answer whose last token is the last that may come is whole; a number may have gone on.
func TestAnswersThatJustFit(t *testing.T) {
	type unit struct {
		Unit string `json:"unit" jsonschema:"enum=C,enum=F"`
	}
	m, ask := newModel(t, Options{}), []chat.Message{chat.User("func")}
	schema, err := SchemaFor[unit]()
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Constraint: Schema(schema)}
	list, err := Collect(m.Chat(t.Context(), ask, r))
	if err != nil {
		t.Fatal(err)
	}
	if r.MaxTokens = list[0].Stats.Generated; list[0].Stats.End == speculative.EndOfText {
		r.MaxTokens-- // the token that ended it
	}
	if u, err := Answer[unit](t.Context(), m, ask, r); err != nil || u.Unit != "C" && u.Unit != "F" {
		t.Errorf("%+v, %v; %q has %d tokens", u, err, list[0].Text, r.MaxTokens)
	}
	for text, want := range map[string]bool{`{"a":1}`: true, ` [1, 2]` + "\n": true, `"a"`: true, "true": true,
		"false": true, "null": true, "12": false, "1e5": false, `{"a":1`: false, "": false, " ": false, `"a`: false,
		"tru": false} {
		if whole(text) != want {
			t.Errorf("%q is whole: %v", text, !want)
		}
	}
}
