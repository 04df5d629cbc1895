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
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/testkit"
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
	want := goldens(t)
	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	t.Run("greedy", func(t *testing.T) { // by itself: emulators take long for it
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
	})
	for _, name := range slices.Sorted(maps.Keys(models)) {
		if *update {
			want.Logits[name] = map[string]string{}
			for _, weights := range engine.WeightNames() {
				want.Logits[name][weights] = logits(t, open(t, rt, name, weights), want.Greedy[0].IDs, len(want.Greedy[0].IDs))
			}
		}
		for _, weights := range engine.WeightNames() {
			t.Run(name+"/"+weights, func(t *testing.T) {
				searched := strings.HasPrefix(weights, "iq") // conversion searches for scales, which takes long
				if name == "go-target" && !slices.Contains([]string{"f32", "f16", "bf16", "q4_0", "q8_0"}, weights) {
					t.Skip("TestLongGolden has it")
				}
				all := weights == "q8_0" || name == "go-draft" && !testing.Short() && !searched
				same(t, name, weights, want.Greedy[0].IDs, want.Logits[name][weights], all)
			})
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

// TestLongGolden: all kernels, threads and pieces for every weight type of both models: the larger one's rows are
// longer.
func TestLongGolden(t *testing.T) {
	testkit.Long(t)
	want := goldens(t)
	for _, weights := range engine.WeightNames() {
		t.Run(weights, func(t *testing.T) {
			for name := range models {
				same(t, name, weights, want.Greedy[0].IDs, want.Logits[name][weights], true)
			}
		})
	}
}

func goldens(t *testing.T) (want golden) {
	t.Helper()
	text, err := os.ReadFile("golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	return want
}

// same checks the hash of the logits with all kernels, 1 and 2 threads, and the prompt fed in pieces of several sizes;
// or of the whole prompt with the best kernels alone. TestGolden does all of this for the embedded type. But for -short
// it has every type of the smaller model with the best kernels, and with one other set in turn (types that are searched
// for with the best alone), the whole prompt, one token and every fourth size of pieces in turn: package asm compares
// the sets' products bit for bit. With -short, as on emulated processors, the best kernels are asked alone, with 2
// threads.
func same(t *testing.T, name, weights string, ids []int32, want string, all bool) {
	t.Helper()
	sets := asm.Available() // the best is last
	if !all || testing.Short() {
		sets = sets[len(sets)-1:]
	}
	number, few := slices.Index(engine.WeightNames(), weights), weights != "q8_0" && !testkit.IsLong(t)
	other := number % max(1, len(sets)-1)
	for i, simd := range sets {
		for _, threads := range []int{2, 1} {
			if all && few && !(threads == 2 && i == len(sets)-1 || threads == 1 && i == other && number%2 == 0) {
				continue
			}
			rt, err := engine.NewRuntime(engine.RuntimeOptions{SIMD: simd, Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			m := open(t, rt, name, weights)
			for _, size := range sizes(len(ids), threads, i, len(sets), simd == "scalar", !all) {
				if few && size > 1 && size < len(ids) && size%4 != number%4 { // by turns
					continue
				}
				if got := logits(t, m, ids, size); got != want {
					t.Errorf("logits of %s in %s with %s kernels, %d threads and %d tokens at a time: %s, want %s",
						name, weights, simd, threads, size, got, want)
				}
			}
			m.Close()
			rt.Close()
			if !all || testing.Short() {
				break
			}
		}
	}
}

// sizes are the numbers of tokens that the i-th of n kernel sets is fed at a time: all n0 of the prompt, one, and
// what else a tile can hold. These go round the sets, but the best, the last, has them all. The scalar kernels, the
// first, are slow and have only what differs most.
func sizes(n0, threads, i, n int, scalar, quick bool) []int {
	switch {
	case quick || scalar && threads == 2 && !testing.Short():
		return []int{n0}
	case scalar && threads == 1:
		return []int{1}
	case scalar || threads == 2 && i < n-1:
		return []int{n0, 1}
	}
	pieces := []int{n0, 1}
	for size := 2; size <= asm.TileTokens; size++ {
		if i == n-1 || size%n == i {
			pieces = append(pieces, size)
		}
	}
	return pieces
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
	sampler, err := sampling.New(m.Config().Vocab, engine.Sampling{})
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

// logits returns the hash of the logits after each of ids, which are fed so many at a time.
func logits(t *testing.T, m *engine.Model, ids []int32, size int) string {
	t.Helper()
	s, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, word := sha256.New(), make([]byte, 4)
	for piece := range slices.Chunk(ids, size) {
		rows, err := s.Eval(context.Background(), piece, nil, engine.All)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range rows.Data {
			binary.LittleEndian.PutUint32(word, math.Float32bits(x))
			h.Write(word)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
