package spec

import (
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
)

// A filled gap ends where the model begins with another file, and other answers do not.
func TestGapsEndAtTheNextFile(t *testing.T) {
	tokens := []string{"<unk>", "a", "<|file_sep|>", "<|fim_pad|>", "<|fim_middle|>", "<|repo_name|>"}
	tok, err := bpe.New(bpe.Config{Model: "llama", Tokens: tokens, Types: []int32{2, 1, 3, 3, 3, 3},
		Scores: make([]float32, len(tokens)), BOS: -1, EOS: -1, SEP: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r    Request
		want []int32
	}{
		{Request{Infill: &Infill{}}, []int32{2, 3, 5}},
		{Request{Infill: &Infill{}, Ends: []int32{1}}, []int32{1, 2, 3, 5}},
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
