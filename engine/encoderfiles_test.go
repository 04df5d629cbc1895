package engine

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// An encoder's file in which a tensor is missing or nobody's, or a key says what is not computed, is refused by the
// name of the tensor or key.
func TestEncoderFilesRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, c := range []struct {
		file, drop, add string
		key             string
		value           gguf.Value
		want            string
	}{
		{file: "bert"},
		{file: "bert", drop: "token_embd_norm.weight", want: "token_embd_norm.weight"},
		{file: "bert", drop: "position_embd.weight", want: "position_embd.weight"},
		{file: "bert", drop: "blk.1.attn_output_norm.weight", want: "blk.1.attn_output_norm.weight"},
		{file: "bert", drop: "blk.0.layer_output_norm.weight", want: "blk.0.layer_output_norm.weight"},
		{file: "bert", drop: "blk.1.ffn_up.weight", want: "blk.1.ffn_up.weight"},
		{file: "bert", add: "blk.0.attn_norm.weight", want: "blk.0.attn_norm.weight"},
		{file: "bert", add: "pooler.weight", want: "pooler.weight"},
		{file: "bert", drop: "token_types.weight", add: "token_types.weight", want: "token_types.weight"}, // of one type
		{file: "bert", key: "bert.pooling_type", value: uint32(9), want: "pooling_type"},
		{file: "bert", key: "bert.pooling_type", value: uint32(PoolRank), want: "cls.weight"},
		{file: "bert", key: "bert.attention.layer_norm_epsilon", want: "layer_norm_epsilon"},
		{file: "bert", key: "tokenizer.ggml.token_type_count", value: uint32(0), want: "token_type_count"},
		{file: "bert", key: "bert.attention.scale", value: float32(2), want: "attention.scale"},
		{file: "bert-rank", key: "bert.classifier.output_labels", value: []string{"a", "b", "c", "d"}, want: "labels"},
		{file: "modern-bert", drop: "output_norm.weight", want: "output_norm.weight"},
		{file: "modern-bert", drop: "blk.1.attn_norm.weight", want: "blk.1.attn_norm.weight"},
		{file: "modern-bert", key: "modern-bert.hidden_activation", value: "relu", want: "hidden_activation"},
		{file: "gemma-embedding", key: "gemma-embedding.dense_2_feat_in", value: uint32(3), want: "dense_2_feat_in"},
	} {
		data := editedEncoder(t, c.file, c.drop, c.add, gguf.KV{Key: c.key, Value: c.value})
		m, err := New(t.Context(), rt, bytes.NewReader(data), int64(len(data)), Options{Name: c.file})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s as it is: %v", c.file, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s without %q, with %q and %q %v: %v, expected %s", c.file, c.drop, c.add, c.key, c.value, err, c.want)
		}
		m.Close()
	}
}

// editedEncoder is an encoder's file without one tensor, with one more, and with a key that has another value, or is
// not there if that is nil.
func editedEncoder(t *testing.T, name, drop, add string, kv gguf.KV) []byte {
	t.Helper()
	raw, err := os.ReadFile(testkit.Shared(t, "families/encoders/"+name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(raw), int64(len(raw)), name)
	if err != nil {
		t.Fatal(err)
	}
	var kvs []gguf.KV
	for key := range f.Keys() {
		if v, _ := f.Value(key); key != kv.Key {
			kvs = append(kvs, gguf.KV{Key: key, Value: v})
		}
	}
	if kv.Value != nil {
		kvs = append(kvs, kv)
	}
	var tensors []gguf.TensorSource
	for _, x := range f.Tensors {
		if x.Name != drop {
			tensors = append(tensors, gguf.TensorSource{Name: x.Name, Type: x.Type, Dims: slices.Clone(x.Dims),
				Write: func(w io.Writer) error {
					_, err := w.Write(raw[x.Offset : int64(x.Offset)+x.Size])
					return err
				}})
		}
	}
	if drop != "" && len(tensors) == len(f.Tensors) {
		t.Fatalf("%s has no %s", name, drop)
	}
	if add != "" {
		d, _ := f.Uint32(name + ".embedding_length")
		tensors = append(tensors, randommodel.Tensor(1, add, 1, 0.1, int(d)))
	}
	return randommodel.Bytes(t, kvs, tensors)
}
