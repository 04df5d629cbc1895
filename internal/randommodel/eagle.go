package randommodel

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/specgo/spec/gguf"
)

// Eagle is a small random head for a target of [Llama]'s width and vocabulary.
type Eagle struct {
	Own         bool                  // embedding and output matrix, 40 tokens of which it knows
	Norms       bool                  // norm_before_fc and norm_before_residual
	Each        bool                  // a norm for each of the target's states
	Keys        map[string]gguf.Value // replaced, added; nil values are left out
	D2T         []int64
	Without     string
	More        string
	TargetWidth int
}

// File is the GGUF file.
func (e Eagle) File(tb testing.TB) []byte {
	tb.Helper()
	const d, h, kv, hd, ff, v = 64, 4, 2, 16, 96, 70
	t := 64
	if e.TargetWidth != 0 {
		t = e.TargetWidth
	}
	keys := map[string]gguf.Value{
		"context_length": uint32(512), "embedding_length": uint32(d), "block_count": uint32(1),
		"feed_forward_length": uint32(ff), "attention.head_count": uint32(h),
		"attention.head_count_kv": uint32(kv), "attention.layer_norm_rms_epsilon": float32(1e-5),
		"target_layers": []int32{0, 2, 1}, "target_hidden_size": uint32(t), "vocab_size": uint32(v),
	}
	if e.Norms {
		keys["norm_before_fc"], keys["norm_before_residual"] = true, true
	}
	for k, x := range e.Keys {
		keys[k] = x
	}
	kvs := []gguf.KV{{Key: "general.architecture", Value: "eagle3"}}
	for k, x := range keys {
		if x != nil {
			kvs = append(kvs, gguf.KV{Key: "eagle3." + k, Value: x})
		}
	}
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float64, dims ...int) { // columns first
		if name == e.Without {
			return
		}
		tensors = append(tensors, Tensor(5, name, mean, spread, dims...))
	}
	matrix := func(name string, rows, cols int) { add(name, 0, 1/math.Sqrt(float64(cols)), cols, rows) }
	matrix("fc.weight", d, 3*t)
	if e.Norms {
		add("enc.output_norm.weight", 1, 0.2, 3*t)
	}
	for i := 0; e.Each && i < 3; i++ {
		add(fmt.Sprintf("fc_norm.%d.weight", i), 1, 0.3, t)
	}
	for _, name := range []string{"blk.0.attn_norm.weight", "blk.0.attn_norm_2.weight", "blk.0.ffn_norm.weight",
		"output_norm.weight"} {
		add(name, 1, 0.2, d)
	}
	matrix("blk.0.attn_q.weight", h*hd, 2*d)
	matrix("blk.0.attn_k.weight", kv*hd, 2*d)
	matrix("blk.0.attn_v.weight", kv*hd, 2*d)
	matrix("blk.0.attn_output.weight", d, h*hd)
	matrix("blk.0.ffn_gate.weight", ff, d)
	matrix("blk.0.ffn_up.weight", ff, d)
	matrix("blk.0.ffn_down.weight", d, ff)
	if e.More != "" {
		add(e.More, 0, 1, d)
	}
	if e.Own {
		add("token_embd.weight", 0, 0.7, d, v)
		add("output.weight", 0, 0.3, d, 40)
		ids := e.D2T
		if ids == nil {
			for i := range int64(40) {
				ids = append(ids, (i*9+3)%v)
			}
		}
		tensors = append(tensors, gguf.TensorSource{
			Name: "d2t", Type: gguf.Type(27), Dims: []uint64{uint64(len(ids))},
			Write: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, ids) }})
	}
	return Bytes(tb, kvs, tensors)
}
