package engine

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// aloneFile has the MTP blocks of a file whose model has four layers, as an mtp-… file has them: keys, embeddings,
// final norm, and the tensors of the blocks; without those named, and with more.
func aloneFile(t *testing.T, file []byte, without []string, more ...gguf.TensorSource) []byte {
	t.Helper()
	f, tensors := readHeader(t, file, "x"), more
	for _, x := range f.Tensors {
		if i, ok := blockIndex(x.Name); ok && i < 4 || slices.Contains(without, x.Name) {
			continue
		}
		tensors = append(tensors, fileTensor(x.Name, x, file))
	}
	return randommodel.Bytes(t, f.KVs, tensors)
}

// fileTensor is a tensor of a file, under a name.
func fileTensor(name string, x gguf.Tensor, file []byte) gguf.TensorSource {
	return gguf.TensorSource{Name: name, Type: x.Type, Dims: x.Dims, Write: func(w io.Writer) error {
		_, err := w.Write(file[x.Offset : x.Offset+x.Size])
		return err
	}}
}

// TestMTPAlone: a file that has nothing but the MTP block is recognized, and computes what the block in the model's
// file does; also with an output matrix of its own. What it lacks, what is not known in it, and targets that it is
// not for, are refused by name.
func TestMTPAlone(t *testing.T) {
	path := testkit.Shared(t, "families/models/qwen35.gguf")
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	ctx := context.Background()
	target, err := Open(ctx, rt, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	inside, err := Open(ctx, rt, path, Options{MTP: true, Target: target})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inside.Close)
	open := func(file []byte, o Options) (*Model, error) {
		return openBytes(t, rt, file, "mtp-x.gguf", o)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := aloneFile(t, whole, nil)
	alone, err := open(file, Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	if h := alone.Head(); h == nil || !h.FirstToken || alone.HasMTP() || !slices.Equal(h.TargetLayers, []int{FinalNorm}) {
		t.Fatalf("%+v", alone.Head())
	}
	for _, c := range []struct {
		got, want Kind
	}{{target.Kind(), KindModel}, {inside.Kind(), KindMTP}, {alone.Kind(), KindMTP},
		{KindOf(readHeader(t, whole, "x")), KindModel}, {KindOf(readHeader(t, file, "x")), KindMTP}} {
		if c.got != c.want {
			t.Errorf("a %s, expected a %s", c.got, c.want)
		}
	}
	ids := randomTokens(9, target.config.Vocab, 3)
	states := append(make([]float32, 64), statesFor(t, target, alone, ids[:8])...)
	logits := func(m *Model) []float32 {
		r, err := newSession(t, m, SessionOptions{}).EvalSegment(
			ctx, Segment{Tokens: ids, States: states, FromTarget: true, Logits: All})
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(r.Logits.Data)
	}
	want := logits(inside)
	sameBits(t, "the block by itself", logits(alone), want)
	zeros := gguf.TensorSource{Name: "output.weight", Type: gguf.F32, Dims: []uint64{64, uint64(target.config.Vocab)},
		Write: func(w io.Writer) error {
			_, err := w.Write(make([]byte, 4*64*target.config.Vocab))
			return err
		}}
	own, err := open(aloneFile(t, whole, nil, zeros), Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	sameBits(t, "its own output matrix", logits(own), make([]float32, len(want)))

	llama := openDrawn(t, rt, randommodel.Llama(), Options{})
	unknown := zeros
	unknown.Name = "blk.4.attn_sinks.weight"
	for what, c := range map[string]struct {
		file []byte
		o    Options
		want error
		says string
	}{
		"no target":     {file, Options{}, ErrUnsupported, "without the model"},
		"another model": {file, Options{Target: llama}, ErrShape, "the target is llama"},
		"no embeddings": {aloneFile(t, whole, []string{"token_embd.weight"}), Options{Target: target},
			ErrMissing, "token_embd.weight"},
		"no norm": {aloneFile(t, whole, []string{"output_norm.weight"}), Options{Target: target},
			ErrMissing, "output_norm.weight"},
		"no projection": {aloneFile(t, whole, []string{"blk.4.nextn.eh_proj.weight"}), Options{Target: target},
			ErrMissing, "eh_proj"},
		"unknown tensor": {aloneFile(t, whole, nil, unknown), Options{Target: target}, ErrUnsupported, "attn_sinks"},
		"part of a block": {aloneFile(t, whole, []string{"blk.4.attn_k.weight"}), Options{Target: target}, ErrMissing,
			"blk.4.attn_k.weight"},
	} {
		if _, err := open(c.file, c.o); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "mtp-x.gguf") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestRefusedHeads: draft heads that are not supported are refused by name, with the reason.
func TestRefusedHeads(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for arch, says := range map[string]string{"dflash2": "DFlash 2"} {
		file := randommodel.Bytes(t, []gguf.KV{{Key: "general.architecture", Value: arch}}, nil)
		_, err := openBytes(t, rt, file, "head.gguf", Options{})
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), arch) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", arch, err)
		}
	}
}
