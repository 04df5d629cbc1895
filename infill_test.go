package spec

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
)

// A filled gap ends where the model begins with another file, and other answers do not.
func TestGapsEndAtTheNextFile(t *testing.T) {
	tokens := []string{"<unk>", "a", "<|file_sep|>", "<|fim_pad|>", "<|fim_middle|>", "<|repo_name|>", "[FILE]"}
	tok, err := bpe.New(bpe.Config{Model: "llama", Tokens: tokens, Types: []int32{2, 1, 3, 3, 3, 3, 3},
		Scores: make([]float32, len(tokens)), BOS: -1, EOS: -1, SEP: -1, Infill: map[string]int32{"sep": 6, "pre": 4}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r    Request
		want []int32
	}{
		{Request{Infill: &Infill{}}, []int32{2, 3, 5, 6}},
		{Request{Infill: &Infill{}, Ends: []int32{1}}, []int32{1, 2, 3, 5, 6}},
		{Request{Infill: &Infill{}, Ends: []int32{1}, IgnoreEOS: true}, []int32{1}},
		{Request{}, nil},
	} {
		task := &Task{m: &Model{tok: tok}, r: c.r}
		got, ends := slices.Sorted(slices.Values(task.moreEnds())), task.isEnd()
		if !slices.Equal(got, c.want) || ends(2) != slices.Contains(c.want, 2) || ends(4) {
			t.Errorf("%+v ends at %d, expected %d", c.r, got, c.want)
		}
	}
}

// Marks that the texts around a gap spell are text, also where the vocabulary has them as user-defined tokens, as those
// of Qwen 2.5 Coder do; other tokens of that kind are found.
func TestMarksAroundGapsAreText(t *testing.T) {
	tokens := []string{"<unk>", "a", "b", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<td>"}
	tok, err := bpe.New(bpe.Config{Model: "llama", Tokens: tokens, Types: []int32{2, 1, 1, 4, 4, 4, 4, 4},
		Scores: make([]float32, len(tokens)), BOS: -1, EOS: -1, SEP: -1})
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{tok: tok}
	unknown := func(text string) []int32 { return make([]int32, len(text)) }
	for _, c := range []struct {
		prefix, suffix, extra string
		want                  []int32
	}{
		{"a<td>", "b", "", []int32{3, 1, 7, 4, 2, 5}},
		{"<|fim_middle|>", "b", "", slices.Concat([]int32{3}, unknown("<|fim_middle|>"), []int32{4, 2, 5})},
		{"", "<|fim_suffix|>b", "", slices.Concat([]int32{3, 4}, unknown("<|fim_suffix|>"), []int32{2, 5})},
		{"", "", "<|file_sep|>", slices.Concat([]int32{6}, unknown("x\n<|file_sep|>"), []int32{6}, unknown("file\n"),
			[]int32{3, 4, 5})},
	} {
		gap := &Infill{Suffix: c.suffix}
		if c.extra != "" {
			gap.Extra = []Snippet{{"x", c.extra}}
		}
		prompt, err := m.infill(gap)
		if err != nil {
			t.Fatal(err)
		}
		if got := prompt(c.prefix); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %d, want %d", c, got, c.want)
		}
	}
}

// Marks are those that keys of the file name, and others by their spelling.
func TestMarksOfGaps(t *testing.T) {
	tokens := []string{"<unk>", "a", "b", "<PRE>", "<SUF>", "<MID>", "[PREFIX]", "[FILE]", "<|prefix|>", "<|suffix|>"}
	for _, c := range []struct {
		name string
		keys map[string]int32
		want []int32
	}{
		{"<|middle|>", nil, []int32{3, 1, 4, 2, 5}}, {"<|middle|>", map[string]int32{"pre": 6}, []int32{6, 1, 4, 2, 5}},
		{"<MID2>", map[string]int32{"pre": 8, "suf": 9, "mid": 10}, []int32{8, 1, 9, 2, 10}},
	} {
		all := append(slices.Clone(tokens), c.name)
		tok, err := bpe.New(bpe.Config{Model: "llama", Tokens: all, Types: []int32{2, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3},
			Scores: make([]float32, len(all)), BOS: -1, EOS: -1, SEP: -1, Infill: c.keys})
		if err != nil {
			t.Fatal(err)
		}
		m := &Model{tok: tok}
		prompt, err := m.infill(&Infill{Suffix: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if got := prompt("a"); !slices.Equal(got, c.want) || !m.Infills() {
			t.Errorf("%s, %v: %d, want %d", c.name, c.keys, got, c.want)
		}
	}
	some, err := bpe.New(bpe.Config{Model: "llama", Tokens: []string{"<unk>", "<PRE>", "<SUF>", "<|middle|>"},
		Scores: make([]float32, 4), BOS: -1, EOS: -1, SEP: -1})
	if err != nil {
		t.Fatal(err)
	}
	if (&Model{tok: some}).Infills() {
		t.Error("marks of two families fill gaps")
	}
}

// What is around a gap is encoded once, however many prompts are in front of it, and put around no second one where it
// leaves the context no room. The length of the first is told all the same.
func TestGapsAreEncodedOnce(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	tokens := []string{"<unk>", "a", "b", "<PRE>", "<SUF>", "<MID>"}
	tok, err := bpe.New(bpe.Config{Model: "llama", Tokens: tokens, Types: []int32{2, 1, 1, 3, 3, 3},
		Scores: make([]float32, len(tokens)), BOS: -1, EOS: -1, SEP: -1})
	if err != nil {
		t.Fatal(err)
	}
	const length, prompts = 2000, 100
	allocations := func(context, prompts int) (uint64, error) {
		r := Request{Infill: &Infill{Behind: slices.Repeat([]Prompt{{Text: "b"}}, length)}}
		for range prompts {
			r.Prompts = append(r.Prompts, Prompt{Text: "a"})
		}
		m := &Model{tok: tok, parts: p, context: context}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := (&Task{m: m, r: r}).setPrompts(t.Context())
		runtime.ReadMemStats(&after)
		if n, err := m.Count(t.Context(), r); err != nil || n != length+4 {
			t.Errorf("%d prompts: %d tokens, %v", prompts, n, err)
		}
		return after.Mallocs - before.Mallocs, err
	}
	one, err := allocations(2*length, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := allocations(2*length, prompts); err != nil || n > 2*one {
		t.Errorf("%d allocations for %d prompts, %d for one: %v", n, prompts, one, err)
	}
	n, err := allocations(length, prompts)
	if wrong := (*RequestError)(nil); !errors.As(err, &wrong) || wrong.Code != CodeContext || wrong.Field != "prompt[0]" ||
		n > 2*one {
		t.Errorf("prompts that are too long: %d allocations, %d for one: %v", n, one, err)
	}
}
