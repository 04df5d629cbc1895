package synth

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// An enlarged head drafts for the enlarged target what the small one drafts for the small target.
func TestEnlargeHead(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	type file interface {
		io.ReaderAt
		Size() int64
	}
	ctx := context.Background()
	enlarged := func(f file, s Shape) file {
		small, err := gguf.Open(f, f.Size(), "small")
		if err != nil {
			t.Fatal(err)
		}
		big, err := Enlarge(small, s)
		if err != nil {
			t.Fatal(err)
		}
		testPieces(t, big)
		return big
	}
	texts := func(target, head file) (accepted [][]int, texts [][]int32) {
		m, err := engine.New(ctx, rt, target, target.Size(), engine.Options{Name: "target", Weights: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		h, err := engine.New(ctx, rt, head, head.Size(), engine.Options{Name: "head", Weights: "f32", Target: m})
		if err != nil {
			t.Fatal(err)
		}
		one, err := m.NewSession(engine.SessionOptions{Context: 256})
		if err != nil {
			t.Fatal(err)
		}
		two, err := h.NewSession(engine.SessionOptions{Context: 256})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"// Copy returns a copy of the slice.\nfunc Copy(",
			"func (b *Buffer) Write(p []byte) (n int, err error) {\n"} {
			d := speculative.New(one, speculative.Model(two), speculative.Options{
				Schedule: speculative.Constant(speculative.ConstantOptions{Length: 4}), MaxTokens: 28,
			})
			var ids []int32
			for token, err := range d.Generate(ctx,
				m.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true}), engine.Sampling{}) {
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, token.ID)
			}
			accepted, texts = append(accepted, d.Stats().AcceptedAt), append(texts, ids)
		}
		return accepted, texts
	}
	wantAccepted, wantTexts := texts(testdata.Target(), testdata.Head())
	target := Shape{HiddenSize: 512, Layers: 8, Heads: 8, KVHeads: 2, FeedForward: 1024}
	head := target
	head.Layers = 1
	accepted, all := texts(enlarged(testdata.Target(), target), enlarged(testdata.Head(), head))
	for i := range all {
		if !slices.Equal(all[i], wantTexts[i]) || !slices.Equal(accepted[i], wantAccepted[i]) {
			t.Errorf("text %d: accepted %d, the small head %d; %v, want %v", i, accepted[i],
				wantAccepted[i], all[i], wantTexts[i])
		}
	}
	if wantAccepted[0][0] < 5 {
		t.Errorf("accepted %d: this shows little", wantAccepted)
	}
	small, err := gguf.Open(testdata.Head(), testdata.Head().Size(), "head")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Enlarge(small, target); err == nil {
		t.Error("a head of eight layers")
	}
}
