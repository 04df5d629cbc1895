package engine

import (
	"context"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// TestDraftHeadOfMuseGlimmer: a DFlash head for Muse Glimmer reads the embeddings of its target as the matrix has them,
// not normalized: one that has the same matrix itself gives the same bits.
func TestDraftHeadOfMuseGlimmer(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	file, without := askedModels()["muse-glimmer"].file(t, "muse-glimmer"), randommodel.DFlash{}.File(t)
	target, err := openBytes(t, rt, file, "target.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	with := randommodel.Rewritten(t, without, func(x gguf.Tensor, w []float32) []gguf.TensorSource {
		list := []gguf.TensorSource{randommodel.Encoded(x.Name, gguf.F32, w, x.Dims)}
		if x.Name == "fc.weight" {
			list = append(list, randommodel.Tensor(9, "token_embd.weight", 0, 0.7, randommodel.Width, randommodel.Vocab))
		}
		return list
	})
	ids := randomTokens(21, randommodel.Vocab, 3)
	var blocks [2][]float32
	for i, file := range [][]byte{without, with} {
		head, err := openBytes(t, rt, file, "head.gguf", Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(head.Close)
		s := newSession(t, head, SessionOptions{})
		states := statesFor(t, target, head, ids[:20])
		if _, err := s.EvalSegment(context.Background(),
			Segment{Tokens: ids[:20], States: states, FromTarget: true}); err != nil {
			t.Fatal(err)
		}
		r, err := s.EvalSegment(context.Background(), blockSegment(head, ids[20], randommodel.DFlashBlock))
		if err != nil {
			t.Fatal(err)
		}
		for row := range randommodel.DFlashBlock {
			blocks[i] = append(blocks[i], r.Logits.Row(row)...)
		}
	}
	sameBits(t, "the head's own embedding", blocks[1], blocks[0])
}
