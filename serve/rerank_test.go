package serve

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/internal/testkit"
)

// A model that is no reranker says so, and what is missing is named.
func TestRerankRefuses(t *testing.T) {
	s := newTester(t, nil)
	for body, want := range map[string]string{
		`{"query":"a","documents":["b"]}`:               "no classification head",
		`{"documents":["b"]}`:                           "query",
		`{"query":"a","documents":["b"],"texts":["b"]}`: "documents and texts",
		`{"query":"a","documents":[{"text":1}]}`:        "documents[0].text",
		`{"query":"a","documents":[{}]}`:                "documents[0].text",
		`{"query":"a","documents":["b"],"top_n":0}`:     "top_n",
	} {
		for _, path := range []string{"/v1/rerank", "/rerank"} {
			if text := s.post(path, body, 400); !strings.Contains(text, want) {
				t.Errorf("%s: %s, want %q", body, text, want)
			}
		}
	}
}

// A query is encoded with each of its documents: what that comes to is bounded, whatever a body's size.
func TestPairsAreBounded(t *testing.T) {
	s := newTester(t, nil)
	const documents, most = 2000, maxPairBytes / 2000
	for _, field := range []string{"documents", "texts"} {
		body := func(query int) string {
			return `{"query":"` + strings.Repeat("x", query) + `","` + field + `":[` +
				strings.TrimSuffix(strings.Repeat(`"y",`, documents), ",") + `]}`
		}
		if e := decode(t, s.post("/v1/rerank", body(most), 400)).get(t, "error", "param"); e != field {
			t.Errorf("%d bytes: the field %v, want %s", documents*(most+1), e, field)
		}
		if text := s.post("/v1/rerank", body(most-1), 400); !strings.Contains(text, "no classification head") {
			t.Errorf("%d bytes: %s", documents*most, text)
		}
	}
}

// A reranker answers in Jina's form and, to bodies with texts, in TEI's: by falling score, the best only where that is
// asked, with the texts of the documents, scores between 0 and 1 or as they are.
func TestRerank(t *testing.T) {
	path := testkit.Shared(t, "families/encoders", "bert-rank.gguf")
	load := func(ctx context.Context) (*spec.Model, error) { return spec.Open(ctx, path, spec.Options{}) }
	s := newTester(t, func(o *Options) { o.Models = []Entry{{Name: "rank", Load: load}} })
	const texts = `["the cat","a ship","a cat sat",{"text":"the dog"}]`
	jina := decode(t, s.post("/v1/rerank", `{"query":"which cat","documents":`+texts+`}`, 200))
	scores := map[float64]float64{}
	last := math.Inf(1)
	for i := range 4 {
		score := jina.get(t, "results", i, "relevance_score").(float64)
		if score > last {
			t.Errorf("score %v after %v", score, last)
		}
		last = score
		scores[jina.get(t, "results", i, "index").(float64)] = score
	}
	if len(scores) != 4 || jina.get(t, "usage", "total_tokens").(float64) < 16 {
		t.Errorf("%v", jina)
	}
	best := decode(t, s.post("/rerank", `{"query":"which cat","top_n":1,"return_documents":true,"documents":`+texts+`}`,
		200))
	index := best.get(t, "results", 0, "index").(float64)
	want := []string{"the cat", "a ship", "a cat sat", "the dog"}[int(index)]
	if list := best.get(t, "results").([]any); len(list) != 1 || best.get(t, "results", 0, "document", "text") != want {
		t.Errorf("%v", best)
	}
	var tei, raw []struct {
		Index int
		Text  string
		Score float64
	}
	for body, to := range map[string]any{`"return_text":true`: &tei, `"raw_scores":true`: &raw} {
		text := s.post("/rerank", `{"query":"which cat","texts":["the cat","a ship"],`+body+`}`, 200)
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(text, err)
		}
	}
	long := strings.Repeat("a cat sat ", 200)
	for body, want := range map[string]string{
		`{"query":"which cat","texts":["the cat","` + long + `"]}`:     "texts[1]",
		`{"query":"which cat","texts":[]}`:                             "texts",
		`{"query":"which cat","documents":["the cat","` + long + `"]}`: "documents[1]",
		`{"query":"which cat"}`:                                        "documents",
	} {
		if got := decode(t, s.post("/rerank", body, 400)).get(t, "error", "param"); got != want {
			t.Errorf("%.60s: the field %v, want %s", body, got, want)
		}
	}
	for i, r := range raw {
		p := 1 / (1 + math.Exp(-r.Score))
		if r.Score != scores[float64(r.Index)] || math.Abs(tei[i].Score-p) > 1e-6 || tei[i].Text == "" || r.Text != "" {
			t.Errorf("%+v, %+v, in Jina's form %v", r, tei[i], scores[float64(r.Index)])
		}
	}
}
