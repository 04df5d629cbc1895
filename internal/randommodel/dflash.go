package randommodel

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/gguf"
)

// DFlash is a small random DFlash or DSpark head: for a target of [Llama]'s width and vocabulary unless it says
// otherwise.
type DFlash struct {
	Keys    map[string]gguf.Value // replaced, added; nil values are left out. Those with a dot in front are whole names
	Without string                // a tensor
	More    string                // a tensor [width]
	Width   int                   // of the target; 0: 64
	Vocab   int                   // of the target; 0: 70
	Layers  []int32               // of the target that are read; nil: 1, 0
	Mask    int                   // token; 0: the last but two
	Own     bool                  // embedding and output matrix, 40 tokens of which it knows: 3, 12, 21, …
	Rank    int                   // of a DSpark head: of what the token before gives; 0: a DFlash head
	Window  int                   // of some of its 2 layers; 0: they have none
	Windows []bool                // which of them
}

// DFlashBlock is the tokens of a block of a [DFlash] head, its last token of the text included.
const DFlashBlock = 7

// File is the GGUF file.
func (x DFlash) File(tb testing.TB) []byte {
	tb.Helper()
	const h, kv, hd, ff, blocks = 4, 2, 24, 96, 2
	d, v := cmp.Or(x.Width, 64), cmp.Or(x.Vocab, 70)
	if x.Layers == nil {
		x.Layers = []int32{1, 0}
	}
	keys := map[string]gguf.Value{
		"context_length": uint32(2000), "embedding_length": uint32(d), "block_count": uint32(blocks),
		"feed_forward_length": uint32(ff), "attention.head_count": uint32(h), "attention.head_count_kv": uint32(kv),
		"attention.key_length": uint32(hd), "attention.value_length": uint32(hd), "rope.freq_base": float32(5000),
		"attention.layer_norm_rms_epsilon": float32(1e-5), "target_layers": x.Layers, "block_size": uint32(DFlashBlock),
		"vocab_size": uint32(v), ".tokenizer.ggml.model": "no_vocab",
		".tokenizer.ggml.mask_token_id": uint32(cmp.Or(x.Mask, v-2)),
	}
	if x.Window > 0 {
		keys["attention.sliding_window"], keys["attention.sliding_window_pattern"] = uint32(x.Window), x.Windows
	}
	maps.Copy(keys, x.Keys)
	kvs := []gguf.KV{{Key: "general.architecture", Value: "dflash"}}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		name := "dflash." + k
		if k[0] == '.' {
			name = k[1:]
		}
		if keys[k] != nil {
			kvs = append(kvs, gguf.KV{Key: name, Value: keys[k]})
		}
	}
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float64, dims ...int) { // columns first
		if name != x.Without {
			tensors = append(tensors, Tensor(13, name, mean, spread, dims...))
		}
	}
	matrix := func(name string, rows, cols int) { add(name+".weight", 0, 1.3/math.Sqrt(float64(cols)), cols, rows) }
	norm := func(name string, n int) { add(name+".weight", 1, 0.3, n) }
	matrix("fc", d, len(x.Layers)*d)
	norm("enc.output_norm", d)
	norm("output_norm", d)
	for i := range blocks {
		b := fmt.Sprintf("blk.%d.", i)
		norm(b+"attn_norm", d)
		norm(b+"ffn_norm", d)
		norm(b+"attn_q_norm", hd)
		norm(b+"attn_k_norm", hd)
		matrix(b+"attn_q", h*hd, d)
		matrix(b+"attn_k", kv*hd, d)
		matrix(b+"attn_v", kv*hd, d)
		matrix(b+"attn_output", d, h*hd)
		matrix(b+"ffn_gate", ff, d)
		matrix(b+"ffn_up", ff, d)
		matrix(b+"ffn_down", d, ff)
	}
	if x.Own {
		add("token_embd.weight", 0, 0.7, d, v)
		add("output.weight", 0, 0.3, d, 40)
		var ids []int64
		for i := range int64(40) {
			ids = append(ids, (i*9+3)%int64(v))
		}
		tensors = append(tensors, gguf.TensorSource{
			Name: "d2t", Type: gguf.Type(27), Dims: []uint64{uint64(len(ids))},
			Write: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, ids) }})
	}
	if x.Rank > 0 {
		add("markov_w1.weight", 0, 1, x.Rank, v)
		add("markov_w2.weight", 0, 0.3, x.Rank, v)
		add("conf_proj.weight", 0, 0.1, d+x.Rank, 1)
		add("conf_proj.bias", 0, 1, 1)
	}
	if x.More != "" {
		add(x.More, 0, 1, d)
	}
	return Bytes(tb, kvs, tensors)
}
