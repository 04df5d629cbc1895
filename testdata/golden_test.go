package testdata_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/testdata"
)

var update = flag.Bool("update", false, "write golden.json anew")

// golden is the file golden.json.
type golden struct {
	Greedy []struct {
		Prompt string  `json:"prompt"`
		IDs    []int32 `json:"token_ids"`
		Target []int32 `json:"target"`
		Draft  []int32 `json:"draft"`
	} `json:"greedy"`
	Logits map[string]map[string]string `json:"logits"` // by model and weight type
}

var models = map[string]func() *strings.Reader{"go-target": testdata.Target, "go-draft": testdata.Draft}

func TestGolden(t *testing.T) {
	const written = 48 // tokens
	text, err := os.ReadFile("golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var want golden
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	target, draft := open(t, rt, "go-target", ""), open(t, rt, "go-draft", "")
	for i := range want.Greedy {
		g := &want.Greedy[i]
		ids := target.Tokenizer().Encode(g.Prompt, bpe.EncodeOptions{AddSpecial: true})
		byTarget, byDraft := greedy(t, target, ids, written), greedy(t, draft, ids, written)
		if *update {
			g.IDs, g.Target, g.Draft = ids, byTarget, byDraft
		}
		if !slices.Equal(ids, g.IDs) {
			t.Errorf("%q is\n%v, want\n%v", g.Prompt, ids, g.IDs)
		}
		if !slices.Equal(byTarget, g.Target) {
			t.Errorf("after %q the target writes\n%v, want\n%v", g.Prompt, byTarget, g.Target)
		}
		if !slices.Equal(byDraft, g.Draft) {
			t.Errorf("after %q the draft writes\n%v, want\n%v", g.Prompt, byDraft, g.Draft)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.Logits)) {
		for _, weights := range slices.Sorted(maps.Keys(want.Logits[name])) {
			if *update {
				want.Logits[name][weights] = logits(t, open(t, rt, name, weights), want.Greedy[0].IDs)
			}
			if testing.Short() && weights != "q8_0" {
				continue
			}
			for _, simd := range asm.Available() {
				for threads := range 2 {
					same(t, name, weights, simd, threads+1, want.Greedy[0].IDs, want.Logits[name][weights])
				}
			}
		}
	}
	if *update {
		text, err := json.MarshalIndent(want, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("golden.json", append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// same checks the hash of the logits with one set of kernels and a number of threads.
func same(t *testing.T, name, weights, simd string, threads int, ids []int32, want string) {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{SIMD: simd, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	if got := logits(t, open(t, rt, name, weights), ids); got != want {
		t.Errorf("logits of %s in %s with %s kernels and %d threads: %s, want %s", name, weights, simd, threads, got, want)
	}
}

func open(t *testing.T, rt *engine.Runtime, name, weights string) *engine.Model {
	t.Helper()
	r := models[name]()
	m, err := engine.New(context.Background(), rt, r, r.Size(), engine.Options{Name: name, Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// greedy returns the n tokens that m writes after ids, one at a time.
func greedy(t *testing.T, m *engine.Model, ids []int32, n int) []int32 {
	t.Helper()
	s, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sampler, err := engine.NewSampler(m.Config().Vocab, engine.Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	text, next := slices.Clone(ids), ids
	for range n {
		rows, err := s.Eval(context.Background(), next, nil, engine.Last)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, sampler.Pick(rows.Row(0), text))
		next = text[len(text)-1:]
	}
	return text[len(ids):]
}

// logits returns the hash of the logits after each of ids.
func logits(t *testing.T, m *engine.Model, ids []int32) string {
	t.Helper()
	s, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.Eval(context.Background(), ids, nil, engine.All)
	if err != nil {
		t.Fatal(err)
	}
	h, word := sha256.New(), make([]byte, 4)
	for _, x := range rows.Data {
		binary.LittleEndian.PutUint32(word, math.Float32bits(x))
		h.Write(word)
	}
	return hex.EncodeToString(h.Sum(nil))
}
