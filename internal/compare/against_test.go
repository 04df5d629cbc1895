package compare

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/endpoint"
	"github.com/specgo/spec/testdata"
)

// Medians are over the prompts, ratios of the same turn, and the first difference is where the first character differs.
func TestAgainstByHand(t *testing.T) {
	r := testdata.Target()
	f, err := gguf.Open(r, r.Size(), "target")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := engine.ReadTokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	const text = "x := äöü" // the peer writes another second umlaut of the same first byte
	ids := tok.Encode(text, bpe.EncodeOptions{})
	answer := func(text string, first, last float64, n int) endpoint.Answer {
		return endpoint.Answer{Text: text, First: first, Last: last, Tokens: n, Counted: true}
	}
	set := Set{Name: "s", Prompts: []Prompt{{ID: "a", Text: "a"}, {ID: "b", Text: "b"}}}
	a, b := [2]int{0, 0}, [2]int{0, 1}
	plain := &writer{name: "plain", runs: map[[2]int][]written{
		a: {{answer(text, 1, 3, 5), 2}, {answer(text, 1, 5, 5), 1}}, b: {{answer("y", 1, 2, 1), 0}}}}
	peer := &writer{name: "http://x", runs: map[[2]int][]written{
		a: {{answer("x := äßü", 2, 3, 5), 2}, {answer(text, 4, 6, 5), 1}}, b: {{answer("y", 1, 2, 1), 0}}}}
	row, ok := peer.row(0, set, plain, map[[2]int][]int32{a: ids}, tok)
	if !ok || row.NPrompts != 2 || row.NRuns != 3 || row.NSame != 1 || row.NTokens != 6 || row.Differs == nil ||
		*row.Differs != 6 {
		t.Fatalf("%+v", row)
	}
	x := row.Texts[0]
	if x.Same || *x.Character != 6 || x.Got != "ßü" || x.Want != "öü" || tok.Decode(ids[:*x.Token]) != "x := ä" &&
		!strings.HasPrefix("x := ä", tok.Decode(ids[:*x.Token])) {
		t.Errorf("%+v", x)
	}
	// Rates 4 and 2, beside plain decoding's 2 and 1; prompt b has one token and so no rate.
	if row.Rate.Value != 3 || row.Ratio.Value != 2 || row.Rate.N != 1 || row.First.Value != 2 ||
		row.FirstCold.Value != 1.5 {
		t.Errorf("rate %v, ratio %v, first %v, %v", row.Rate, row.Ratio, row.First, row.FirstCold)
	}
	// A text that ends before plain decoding's differs there.
	peer.runs[b] = []written{{answer("", 0, 0, 0), 0}}
	row, _ = peer.row(0, set, plain, map[[2]int][]int32{a: ids, b: tok.Encode("y", bpe.EncodeOptions{})}, tok)
	if row.NSame != 0 || *row.Differs != 0 || row.Texts[1].Want != "y" || *row.Texts[1].Token != 0 {
		t.Errorf("%+v", row.Texts[1])
	}
}

// Each writer of this program computes the whole prompt, whoever had it before.
func TestStreamedComputesThePromptAnew(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	file := testdata.Target()
	m, err := engine.New(t.Context(), rt, file, file.Size(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(engine.SessionOptions{Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x, err := newSubject(&Pair{Target: s, Tokenizer: m.Tokenizer()}, Setting{Drafter: Plain}, Plan{Tokens: 6})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for range 2 {
		a, ids, err := x.streamed(t.Context(), Prompt{ID: "p", Text: "func main() {"})
		if err != nil || len(ids) != 6 || a.Tokens != 6 || a.First <= 0 || a.Last <= a.First || x.now.Stats.Reused != 0 {
			t.Fatalf("%v: %+v, %d reused", err, a, x.now.Stats.Reused)
		}
		if a.First < x.now.Stats.Prefill {
			t.Errorf("the first token was there after %v s, the prompt after %v s", a.First, x.now.Stats.Prefill)
		}
		texts = append(texts, a.Text)
	}
	if texts[0] != texts[1] || texts[0] == "" {
		t.Errorf("%q", texts)
	}
}

// Where a kernel set was chosen, the rows of plain decoding name it: each begins a table all the same.
func TestAgainstOnAKernelSet(t *testing.T) {
	plain := Setting{Drafter: Plain, Kernels: "avx2"}.String()
	r := &Against{Tokens: 8}
	for _, set := range []string{"first", "second"} {
		for _, who := range []string{plain, "http://x"} {
			r.Rows = append(r.Rows, AgainstRow{Prompts: set, Who: who, NPrompts: 7})
		}
	}
	var b strings.Builder
	if err := r.Table(&b, 200); err != nil {
		t.Fatal(err)
	}
	for text, n := range map[string]int{"first: 7 prompts": 1, "second: 7 prompts": 1, "plain on avx2": 2, "http://x": 2} {
		if strings.Count(b.String(), text) != n {
			t.Errorf("%q is not %d times in\n%s", text, n, &b)
		}
	}
}

// againstOne runs plain decoding, a setting and a server on one prompt, and returns what the server was asked.
func againstOne(t *testing.T, plan Plan) (*Against, []map[string]any) {
	t.Helper()
	asked := make(chan map[string]any, 9)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		asked <- body
		io.WriteString(w, "data: {\"choices\":[{\"text\":\"x\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	e, err := endpoint.Open(t.Context(), server.URL, endpoint.Options{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	plan.Sets = []Set{{Name: "s", Prompts: []Prompt{{ID: "a", Text: "x :="}}}}
	plan.Settings = []Setting{{Drafter: "ngram", Schedule: "constant", Verify: "match", Temperature: 0.5}}
	lab := Lab{Open: func(context.Context, string, string) (*Pair, error) { return testPair(t, ""), nil }}
	r, err := RunAgainst(t.Context(), lab, plan, []*endpoint.Endpoint{e})
	if err != nil || len(r.Rows) != 3 {
		t.Fatalf("%v: %+v", err, r)
	}
	close(asked)
	var list []map[string]any
	for body := range asked {
		list = append(list, body)
	}
	return r, list
}

// Servers are asked for the filters that this program chooses tokens with.
func TestServersAreAskedForFilters(t *testing.T) {
	_, asked := againstOne(t, Plan{Tokens: 2, Repeats: 1,
		Sampling: engine.Sampling{TopK: 5, TopP: 0.5, MinP: 0.25, Seed: 7}})
	if len(asked) != 1 {
		t.Fatalf("asked %d times", len(asked))
	}
	for name, want := range map[string]float64{"top_k": 5, "top_p": 0.5, "min_p": 0.25, "temperature": 0.5, "seed": 7} {
		if asked[0][name] != want {
			t.Errorf("%s: %v, want %v", name, asked[0][name], want)
		}
	}
	if _, asked = againstOne(t, Plan{Tokens: 2, Repeats: 1}); len(asked) != 1 || asked[0]["top_k"] != nil ||
		asked[0]["top_p"] != nil || asked[0]["min_p"] != nil {
		t.Errorf("what is not set is sent: %v", asked)
	}
}

// The first run is told of prompts that no warm-up had: a server may keep that one's. A text of no token has no first
// one.
func TestFirstTokenOfTheFirstRun(t *testing.T) {
	for warmup, want := range []int{1, 0} {
		r, _ := againstOne(t, Plan{Tokens: 2, Repeats: 2, Warmup: warmup})
		for _, row := range r.Rows {
			if row.FirstCold.N != want || row.First.N != 1 || row.First.Value <= 0 {
				t.Errorf("%d warm-ups: %+v", warmup, row)
			}
		}
	}
	set := Set{Name: "s", Prompts: []Prompt{{ID: "a", Text: "a"}, {ID: "b", Text: "b"}}}
	w := &writer{name: "plain", runs: map[[2]int][]written{
		{0, 0}: {{endpoint.Answer{First: 3, Tokens: 1, Text: "x"}, 0}}, {0, 1}: {{endpoint.Answer{}, 0}}}}
	row, ok := w.row(0, set, w, nil, nil)
	if !ok || row.First != (Estimate{3, 3, 3, 1}) || row.FirstCold != row.First || row.NPrompts != 2 || row.Rate.N != 0 {
		t.Errorf("%+v", row)
	}
	var b strings.Builder
	if err := (&Against{Rows: []AgainstRow{row}}).Table(&b, 200); err != nil ||
		!strings.Contains(strings.Join(strings.Fields(b.String()), " "), "plain - - - - 3000.0 3000.0 1") {
		t.Errorf("%v\n%s", err, &b)
	}
}
