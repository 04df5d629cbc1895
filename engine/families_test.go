package engine

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// familyModels are the models of ../shared/families/models with a golden.
func familyModels(t *testing.T) (names []string) {
	t.Helper()
	goldens, err := filepath.Glob(testkit.Shared(t, "families/models/golden") + "/*.json")
	if err != nil || len(goldens) == 0 {
		t.Fatal("no goldens", err)
	}
	for _, golden := range goldens {
		name := strings.TrimSuffix(filepath.Base(golden), ".json")
		if strings.HasPrefix(name,
			"draft-") || name == "llama-mixed" { // of a draft head; of weights that are not F32
			continue
		}
		names = append(names, name)
	}
	return names
}

// TestFamilies: tiny models of every architecture against the logits of an independent engine, with F32 weights and
// cache. Its own error is a tenth of the bound; leaving out a part of an architecture moves the logits by 0.1 to 10
// times their root mean square.
func TestFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range familyModels(t) {
		t.Run(name, func(t *testing.T) {
			answersLike(t, rt, testkit.Shared(t, "families/models/"+name+".gguf"),
				testkit.Shared(t, "families/models/golden/"+name+".json"))
		})
	}
}

// TestPaperFamilies: the same for the models of ../shared/families/papers, whose goldens another program computed in
// float64.
func TestPaperFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range []string{"opt", "opt-post", "gptj", "codegen"} {
		t.Run(name, func(t *testing.T) {
			answersLike(t, rt, testkit.Shared(t, papers+name+".gguf"), testkit.Shared(t,
				papers+"golden/"+name+".json"))
		})
	}
}

const papers = "families/papers/models/"

// TestCommittedFamilies: the same for the few of them that testdata holds, their matrices in F16, which holds their
// values exactly.
func TestCommittedFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	const folder = "../testdata/families/"
	for _, name := range []string{"gemma2", "llama-moe", "mpt"} {
		t.Run(name, func(t *testing.T) { answersLike(t, rt, folder+name+".f16.gguf", folder+name+".json") })
	}
}

// answersLike compares a model's logits and greedy continuation with what an independent engine computed.
func answersLike(t *testing.T, rt *Runtime, file, golden string) {
	t.Helper()
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		IDs    []int32              `json:"ids"`
		Logits map[string][]float64 `json:"logits"`
		Greedy []int32              `json:"greedy"`
		RMS    float64              `json:"rms"`
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	m, err := Open(context.Background(), rt, file, Options{RopeContext: 256, tanhGELU: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := newSession(t, m, SessionOptions{KV: "f32"})
	got := eval(t, s, g.IDs, nil, All)
	vocab, worst := m.Config().Vocab, 0.0
	if len(g.Logits) == 0 {
		t.Fatal("no logits in the golden")
	}
	for key, want := range g.Logits {
		position, err := strconv.Atoi(key)
		if err != nil {
			t.Fatal(err)
		}
		row := got[position*vocab : (position+1)*vocab]
		if len(row) != len(want) {
			t.Fatalf("%d logits, expected %d", len(row), len(want))
		}
		for i, x := range row {
			worst = max(worst, max(float64(x)-want[i], want[i]-float64(x)))
		}
	}
	t.Logf("greatest difference %.2g of the root mean square", worst/g.RMS)
	if !(worst < 1e-4*g.RMS) {
		t.Errorf("the logits are off by %.2g of their root mean square", worst/g.RMS)
	}
	next, written := greatest(got[len(got)-vocab:]), []int32(nil)
	for range g.Greedy {
		written = append(written, next)
		next = greatest(eval(t, s, []int32{next}, nil, Last))
	}
	if !slices.Equal(written, g.Greedy) {
		t.Errorf("greedy continuation %d, expected %d", written, g.Greedy)
	}
}

// blockKinds are models of which each has a kind of block or a part that the others do not have.
var blockKinds = []string{
	"gemma2", "gpt-oss", "falcon", "mpt", "bloom", "olmo2", "qwen2moe", "mistral3", "phi3-short", "cohere2",
	"stablelm",
	"gptneox", "minicpm", "hunyuan-dense", "arcee", "lfm2", "granitehybrid", "falcon-h1", "qwen35", "gemma4",
	"opt", "opt-post", "codegen",
}

// furtherFamilies are models of the architectures that no test of promise P1 has beside, one of each.
func furtherFamilies(t *testing.T) (names []string) {
	seen := map[string]bool{}
	see := func(file string) (first bool) {
		f, err := gguf.OpenFile(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		arch, _ := f.String("general.architecture")
		first, seen[arch] = !seen[arch], true
		return first
	}
	for _, name := range blockKinds {
		see(kindFile(t, name))
	}
	for _, a := range askedModels() {
		seen[a.arch] = true
	}
	for _, name := range hybrids {
		seen[strings.Fields(name)[0]] = true
	}
	for _, name := range familyModels(t) {
		if see(kindFile(t, name)) {
			names = append(names, name)
		}
	}
	recipes := randommodel.Recipes()
	for _, name := range slices.Sorted(maps.Keys(recipes)) {
		if arch := recipes[name].Arch; !seen[arch] {
			names, seen[arch] = append(names, drawn+name), true
		}
	}
	for _, arch := range Architectures() {
		if kinds[arch].is == KindModel && !seen[arch] {
			t.Errorf("%s: no model of it is fed in different ways", arch)
		}
	}
	return names
}

// drawn stands before the name of a recipe.
const drawn = "drawn "

// kindFile is the file of a kind.
func kindFile(tb testing.TB, name string) string {
	if recipe, ok := strings.CutPrefix(name, drawn); ok {
		return written(tb, randommodel.Recipes()[recipe].File(tb))
	}
	if strings.HasPrefix(name, "opt") || name == "codegen" {
		return testkit.Shared(tb, papers+name+".gguf")
	}
	return testkit.Shared(tb, "families/models/"+name+".gguf")
}

// TestFamiliesOneAnswer: promise P1 for every kind of block: however the sequence is cut, whatever shares the pass,
// with trees, forks, other kernels and thread counts.
func TestFamiliesOneAnswer(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	scalar := newRuntime(t, RuntimeOptions{Threads: 1, SIMD: "scalar"})
	list := blockKinds
	if further := furtherFamilies(t); testkit.IsLong(t) {
		list = slices.Concat(list, further)
	}
	for i, name := range list {
		t.Run(name, func(t *testing.T) {
			open := func(rt *Runtime, weights string) *Model {
				m, err := Open(context.Background(), rt, kindFile(t, name), Options{RopeContext: 256,
					Weights: weights})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(m.Close)
				return m
			}
			weights := []string{"", "q8_0"}[i%2]
			m := open(rt, weights)
			n, every := 270, 4 // more than a page; every way meets every fourth kind
			if testing.Short() {
				n, every = 100, 6
			}
			ids := randomTokens(min(m.config.Context, n), m.config.Vocab, 4)
			want := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
			some := min(len(ids), 50)
			sameBits(t, "scalar kernels", eval(t, newSession(t, open(scalar, weights), SessionOptions{}), ids[:some], nil,
				All), want[:some*m.config.Vocab])
			for j, way := range ways {
				if testkit.IsLong(t) || (i+j)%every == 0 {
					sameBits(t, way.name, way.feed(t, m, SessionOptions{}, ids), want)
				}
			}
		})
	}
}

// TestLongFamiliesOneAnswer: every kind of block, and every architecture that has no other such test, fed in every way.
func TestLongFamiliesOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestFamiliesOneAnswer(t)
}

// TestFamiliesAllocateNothing: a token costs no memory, experts and windows included.
func TestFamiliesAllocateNothing(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	for _, name := range append(slices.Clone(blockKinds), "glm-dsa") {
		m, err := Open(context.Background(), rt, kindFile(t, name), Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := newSession(t, m, SessionOptions{})
		ids, parents := []int32{1, 2, 3, 4, 5, 6}, []int32{-1, -1, 0, 1, 3, 2}
		step := func() {
			eval := func(tokens, parents []int32) {
				if _, err := s.Eval(context.Background(), tokens, parents, All); err != nil {
					t.Fatal(err)
				}
			}
			eval(ids[:1], nil)
			eval(ids, parents)
			eval(ids, nil)
			if err := s.Truncate(0); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			step()
		}
		if n := testkit.Allocs(10, step); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		m.Close()
	}
}
