package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/internal/testkit"
)

// numbers are a vector of an answer.
func numbers(t *testing.T, v any) (list []float64) {
	t.Helper()
	for _, x := range v.([]any) {
		list = append(list, x.(float64))
	}
	return list
}

// Vectors are cut and brought to the length that is asked for, in every form alike: what is kept of a vector is a
// multiple of the whole one's beginning.
func TestVectorsAsAskedFor(t *testing.T) {
	s := newTester(t, nil)
	first := func(fields string) []float64 {
		return numbers(t, decode(t, s.post("/v1/embeddings", `{"input":"func main"`+fields+`}`, 200)).get(t, "data", 0,
			"embedding"))
	}
	raw := first(`,"embd_normalize":-1`)
	for fields, c := range map[string]struct {
		n      int
		length func(x []float64) float64
		want   float64
	}{
		``:                                    {256, root, 1},
		`,"dimensions":100`:                   {100, root, 1},
		`,"embd_normalize":1`:                 {256, sum, 1},
		`,"embd_normalize":0`:                 {256, most, 32760},
		`,"dimensions":7,"embd_normalize":1`:  {7, sum, 1},
		`,"dimensions":7,"embd_normalize":-1`: {7, root, root(raw[:7])},
	} {
		got := first(fields)
		if len(got) != c.n || math.Abs(c.length(got)/c.want-1) > 1e-5 {
			t.Errorf("%s: %d numbers, length %v; expected %d, %v", fields, len(got), c.length(got), c.n, c.want)
		}
		factor := c.want / c.length(raw[:c.n])
		for i, x := range got {
			if math.Abs(x-factor*raw[i]) > 1e-5*c.want {
				t.Errorf("%s: number %d is %v, expected %v", fields, i, x, factor*raw[i])
				break
			}
		}
	}
	for body, fields := range map[string]string{
		`{"inputs":"func main"}`:                                     ``,
		`{"inputs":["func main"],"normalize":false,"truncate":true}`: `,"embd_normalize":-1`,
		`{"inputs":"func main","dimensions":9}`:                      `,"dimensions":9`,
	} {
		var list []any
		if err := json.Unmarshal([]byte(s.post("/embed", body, 200)), &list); err != nil || len(list) != 1 ||
			fmt.Sprint(numbers(t, list[0])) != fmt.Sprint(first(fields)) {
			t.Errorf("/embed %s differs from /v1/embeddings%s", body, fields)
		}
	}
}

func root(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v * v
	}
	return math.Sqrt(s)
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += math.Abs(v)
	}
	return s
}

func most(x []float64) (m float64) {
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}

// A request for embeddings takes a place for each text, at most half of them, and with an embedding model one: its
// passes are the fuller the more requests wait for them.
func TestPlacesOfTextsToEmbed(t *testing.T) {
	path := testkit.Shared(t, "families/encoders", "bert.gguf")
	load := func(ctx context.Context) (*spec.Model, error) { return spec.Open(ctx, path, spec.Options{}) }
	s := newTester(t, func(o *Options) {
		o.Models, o.Parallel = append(o.Models, Entry{Name: "bert", Load: load}), 6
	})
	for _, c := range []struct {
		model, input string
		places       float64
	}{
		{"go", `"a"`, 1}, {"go", `["a","b"]`, 2}, {"go", `["a","b","c","d","e"]`, 3},
		{"bert", `"a"`, 1}, {"bert", `["a","b","c","d","e"]`, 1},
	} {
		before := s.anyone.places.given
		s.post("/v1/embeddings", `{"model":"`+c.model+`","input":`+c.input+`}`, 200)
		if n := s.anyone.places.given - before; n != c.places {
			t.Errorf("%s, %s: %v places, want %v", c.model, c.input, n, c.places)
		}
	}
}

// A text to embed may be ids and texts in a row, alone or among others: its vector is that of their ids.
func TestIdsAndTextsAreEmbedded(t *testing.T) {
	s := newTester(t, nil)
	ids := func(text, more string) (list []any) {
		return decode(t, s.post("/tokenize", `{"content":"`+text+`"`+more+`}`, 200)).get(t, "tokens").([]any)
	}
	vector := func(input any, at int) string {
		o := decode(t, s.post("/v1/embeddings", string(encode(map[string]any{"input": input})), 200))
		return fmt.Sprint(o.get(t, "data", at, "embedding"))
	}
	for _, c := range []struct{ mixed, want []any }{
		{[]any{50, "func main", 60}, slices.Concat([]any{50}, ids("func main", ""), []any{60})},
		{[]any{"func main", 50}, append(ids("func main", `,"add_special":true`), 50)},
	} {
		want := vector(c.want, 0)
		if got := vector(c.mixed, 0); got != want {
			t.Errorf("%v: %s, that of %v is %s", c.mixed, got, c.want, want)
		}
		if got := vector([]any{"x", c.mixed}, 1); got != want {
			t.Errorf("%v among others: %s, not %s", c.mixed, got, want)
		}
	}
	s.post("/v1/embeddings", `{"input":["x",[5,"<|endoftext|>"],[99999999,"x"]]}`, 400)
}

// What is wrong with a text to embed is told by the name of the field that has it.
func TestTextsToEmbedAreNamed(t *testing.T) {
	s := newTester(t, nil)
	long := strings.Repeat("x y ", 1000)
	for _, c := range []struct{ path, body, names string }{
		{"/v1/embeddings", `{"input":"` + long + `"}`, "input: "},
		{"/v1/embeddings", `{"input":["x","` + long + `"]}`, "input[1]: "},
		{"/v1/embeddings", `{}`, "input: "},
		{"/embedding", `{"content":["x",[99999999]]}`, "content[1]: "},
		{"/embed", `{"inputs":"` + long + `"}`, "inputs: "},
		{"/embed", `{}`, "inputs: "},
		{"/api/embed", `{"input":"` + long + `"}`, "input: "},
		{"/api/embeddings", `{"prompt":"` + long + `"}`, "prompt: "},
	} {
		e := decode(t, s.post(c.path, c.body, 400)).get(t, "error")
		if o, ok := e.(map[string]any); ok {
			e = o["message"]
		}
		if !strings.HasPrefix(e.(string), c.names) {
			t.Errorf("%s %.40s: %v", c.path, c.body, e)
		}
	}
}

// Ollama's requests for the vectors of no text load the model, and have none.
func TestNothingToEmbedLoads(t *testing.T) {
	s := newTester(t, nil)
	for _, input := range []string{``, `"input":null`, `"input":""`, `"input":[ ]`} {
		o := decode(t, s.post("/api/embed", `{`+input+`}`, 200))
		list := o.get(t, "embeddings").([]any)
		if len(list) != 0 || o.get(t, "model") != "go" || len(s.models.resident()) != 1 {
			t.Errorf("%s: %v", input, o)
		}
	}
	for _, prompt := range []string{``, `"prompt":""`} {
		o := decode(t, s.post("/api/embeddings", `{`+prompt+`}`, 200))
		if list := o.get(t, "embedding").([]any); len(list) != 0 {
			t.Errorf("%s: %v", prompt, o)
		}
	}
	for _, input := range []string{`["x",5]`, `[5]`, `["x"]`} {
		o := decode(t, s.post("/api/embed", `{"input":`+input+`}`, 200))
		if list := o.get(t, "embeddings").([]any); len(list) != 1 {
			t.Errorf("%s: %d vectors", input, len(list))
		}
	}
}

// The vectors of single tokens are bounded before any is computed: a request of the greatest number of texts would
// take all memory.
func TestVectorsOfTokensAreBounded(t *testing.T) {
	s := newTester(t, nil)
	list := func(one string, n int) string { return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]" }
	const texts, tokens, size = 2000, 70, 256
	body := `{"pooling":"none","content":` + list(list("5", tokens), texts) + `}`
	want := fmt.Sprintf("content: %d tokens in all: with pooling none at most %d", texts*tokens, maxNumbers/size)
	if got := s.post("/embedding", body, 400); !strings.Contains(got, want) {
		t.Errorf("%.200s, want %s", got, want)
	}
}

// Vectors become text one by one, as the client takes them: all of it is several times as long as they are.
func TestVectorsAreWrittenOneByOne(t *testing.T) {
	s := newTester(t, smaller(t))
	visit, _ := s.inside.enter(s.anyone, false)
	defer visit.end()
	log := &record{client: s.anyone, visit: visit}
	texts := strings.TrimSuffix(strings.Repeat("[5],", 600), ",")
	for name, answer := range map[string]func() (any, error){
		"openai": func() (any, error) {
			return s.embeddings(t.Context(), formEmbeddings, []byte(`{"input":[`+texts+`]}`), true, log)
		},
		"base64": func() (any, error) {
			return s.embeddings(t.Context(), formEmbeddings,
				[]byte(`{"encoding_format":"base64","input":[`+texts+`]}`), true, log)
		},
		"tei":   func() (any, error) { return s.teiEmbeddings(t.Context(), []byte(`{"inputs":[`+texts+`]}`), log) },
		"llama": func() (any, error) { return s.llamaEmbeddings(t.Context(), []byte(`{"content":[`+texts+`]}`), log) },
		"tokens": func() (any, error) {
			return s.llamaEmbeddings(t.Context(),
				[]byte(`{"pooling":"none","content":[5`+strings.Repeat(",5", 199)+`]}`), log)
		},
	} {
		v, err := answer()
		if err != nil {
			t.Fatal(name, err)
		}
		var whole any
		text := encode(v)
		if err := json.Unmarshal(text, &whole); err != nil || len(text) < 4*writePiece {
			t.Fatalf("%s: %d bytes, %v", name, len(text), err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		writeJSON(deafClient{}, 200, v)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(text)) {
			t.Errorf("%s: %d bytes were allocated for a client that has left, of %d", name, took, len(text))
		}
	}
}

// deafClient is a client that takes nothing.
type deafClient struct{}

func (deafClient) Header() http.Header       { return http.Header{} }
func (deafClient) WriteHeader(int)           {}
func (deafClient) Write([]byte) (int, error) { return 0, errLeft }
