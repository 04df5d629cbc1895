package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// written writes a model's file and returns its name.
func written(tb testing.TB, data []byte) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "model.gguf")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// both opens a file twice: in memory, and under the least limit.
func both(tb testing.TB, rt *Runtime, file string, o Options) (whole, streamed *Model) {
	tb.Helper()
	whole = openModel(tb, rt, file, o)
	o.Memory, o.Cache = planOf(tb, file, o).Least, tb.TempDir()
	streamed = openModel(tb, rt, file, o)
	if !streamed.Memory().Streams() {
		tb.Fatalf("%s: all weights are in memory", file)
	}
	return whole, streamed
}

// TestBlockOf: which tensors are parts of the same block.
func TestBlockOf(t *testing.T) {
	for name, want := range map[string]string{
		"blk.0.attn_q.weight": "blk.0", "blk.12.ffn_up.weight": "blk.12", "enc.blk.1.attn_q.weight": "enc.blk.1",
		"dec.blk.1.cross_attn_k.weight": "dec.blk.1",
		"token_embd.weight":             "", "enc.output_norm.weight": "", "blk.x.weight": "", "dec.blk.": "",
		"enc.dec.blk.1.attn_q.weight": "", "oblk.1.x": "",
	} {
		if got := blockOf(name); got != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
}

// TestActivationsT5: the limit counts what the matrices of the widest block of either stack give a row. In the
// decoder that is attention twice.
func TestActivationsT5(t *testing.T) {
	for name, v := range map[string]randommodel.T5{"small": randommodel.SmallT5(), "flan": randommodel.FlanT5()} {
		file := written(t, v.File(t))
		f, err := gguf.OpenFile(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		n := int64(0)
		for _, x := range f.Tensors {
			if len(x.Dims) == 2 && len(x.Name) > 10 && x.Name[:10] == "dec.blk.1." {
				if filepath.Ext(x.Name) == ".weight" &&
					!slices.Contains([]string{"dec.blk.1.attn_rel_b.weight", "dec.blk.1.cross_attn_rel_b.weight"}, x.Name) {
					n += int64(x.Dims[1])
				}
			}
		}
		if want := passRows * 4 * (n + 6*int64(v.Width)); planOf(t, file, Options{}).Buffers != want {
			t.Errorf("%s: %d bytes of activations, expected %d", name, planOf(t, file, Options{}).Buffers, want)
		}
	}
}

// TestStreamedT5: an encoder-decoder model whose weights are read from disk has the same states and logits, however
// its tokens are cut, and for one input after another.
func TestStreamedT5(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for name, v := range map[string]randommodel.T5{"small": randommodel.SmallT5(), "flan": randommodel.FlanT5()} {
		whole, m := both(t, rt, written(t, v.File(t)), Options{})
		ids := randomTokens(60, v.Vocab, 4)
		a, b := newSession(t, whole, SessionOptions{}), newSession(t, m, SessionOptions{})
		for round, n := range []int{300, 1, 40} {
			input := randomTokens(n, v.Vocab, uint64(round))
			encode(t, a, input)
			encode(t, b, input)
			want := eval(t, a, ids, nil, All)
			var got []float32
			for _, piece := range [][]int32{ids[:1], ids[1:9], ids[9:]} {
				got = append(got, eval(t, b, piece, nil, All)...)
			}
			sameBits(t, fmt.Sprintf("%s, input of %d", name, n), got, want)
		}
		if read, _ := m.Disk(); read == 0 {
			t.Error("nothing was read")
		}
	}
}

// TestStreamedPaperFamilies: the same for OPT, GPT-J and CodeGen.
func TestStreamedPaperFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range []string{"opt", "opt-post", "gptj", "codegen"} {
		t.Run(name, func(t *testing.T) {
			whole, m := both(t, rt, testkit.Shared(t, papers+name+".gguf"), Options{})
			ids := randomTokens(min(100, whole.config.Context), whole.config.Vocab, 1)
			a, b := newSession(t, whole, SessionOptions{}), newSession(t, m, SessionOptions{})
			want := eval(t, a, ids, nil, All)
			var got []float32
			for _, piece := range [][]int32{ids[:33], ids[33:34], ids[34:]} {
				got = append(got, eval(t, b, piece, nil, All)...)
			}
			sameBits(t, name, got, want)
		})
	}
}

// TestStreamedHeads: the states that a streamed target gives a draft head are those of a target in memory, and so are
// the head's logits: an EAGLE head, and a model's own MTP block, both with the streamed target's matrices where they
// share them.
func TestStreamedHeads(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range []string{"eagle", "mtp"} {
		t.Run(name, func(t *testing.T) {
			file, head, o := targetFile, "../testdata/go-eagle.q8_0.gguf", Options{}
			if name == "mtp" {
				file = testkit.Shared(t, "families/models/qwen35.gguf")
				head, o.MTP = file, true
			}
			whole, m := both(t, rt, file, Options{})
			ids := randomTokens(41, whole.config.Vocab, 1)
			var want []float32
			for i, target := range []*Model{whole, m} {
				o.Target = target
				h := openModel(t, rt, head, o)
				layers := h.Head().TargetLayers
				out := forward(t, target, Batch{{Session: newSession(t, target, SessionOptions{}), Tokens: ids[:40], Logits: All,
					Hidden: All, Layers: layers}})[0]
				got := append(slices.Clone(out.Logits.Data), out.Hidden.Data...)
				s := newSession(t, h, SessionOptions{})
				step := forward(t, h, Batch{{Session: s, Tokens: ids[1:], States: out.Hidden.Data, FromTarget: true, Logits: All,
					Hidden: Last, Layers: []int{h.Head().Output}}})[0]
				got = append(got, step.Logits.Data...)
				for id := range int32(4) { // on its own states
					y := slices.Clone(step.Hidden.Data)
					step = forward(t, h, Batch{{Session: s, Tokens: []int32{id}, States: y, Logits: All, Hidden: Last,
						Layers: []int{h.Head().Output}}})[0]
					got = append(got, step.Logits.Data...)
				}
				if i == 0 {
					want = got
					continue
				}
				sameBits(t, name, got, want)
			}
		})
	}
}
