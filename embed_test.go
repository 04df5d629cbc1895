package spec

import (
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
)

// A text to embed may be texts and ids in a row, also inside each other: its vector is that of all of them.
func TestVectorsOfParts(t *testing.T) {
	m := newModel(t, Options{})
	ids := m.tok.Encode("func main", bpe.EncodeOptions{AddSpecial: true})
	n := len(ids)
	ids = append(ids, 70, 71)
	for _, p := range []Prompt{
		{Parts: []Prompt{{Text: "func main"}, {IDs: []int32{70, 71}}}},
		{Parts: []Prompt{{IDs: ids[:n]}, {Parts: []Prompt{{IDs: []int32{70}}, {IDs: []int32{71}}}}}},
	} {
		list, err := m.EmbedTokens([]Prompt{p})
		if err != nil || !slices.Equal(list[0], ids) {
			t.Errorf("%+v: %v, %d, want %d", p, err, list, ids)
		}
		task, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{p}})
		if err != nil || !slices.Equal(task.Prompt(0), ids) {
			t.Errorf("%+v as a prompt: %v", p, err)
		}
	}
	gap := Request{Messages: []chat.Message{chat.User("x")}, Infill: &Infill{}}
	if _, err := m.Prepare(t.Context(), gap); err == nil {
		t.Error("a gap in a conversation is not filled, and no error")
	}
}
