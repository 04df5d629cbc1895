package synth

import (
	"fmt"

	"github.com/specgo/spec/gguf"
)

// t5Buckets is the number of distances that T5 tells apart.
const t5Buckets = 32

// t5Keys are the metadata of an encoder-decoder model beside its sizes.
func (s Shape) t5Keys() []gguf.KV {
	key := func(name string, v gguf.Value) gguf.KV { return gguf.KV{Key: "t5." + name, Value: v} }
	return []gguf.KV{
		key("decoder_block_count", uint32(s.Layers)),
		key("decoder_start_token_id", uint32(0)),
		key("attention.key_length", uint32(s.head())),
		key("attention.value_length", uint32(s.head())),
		key("attention.layer_norm_rms_epsilon", float32(1e-6)),
		key("attention.relative_buckets_count", uint32(t5Buckets)),
	}
}

// t5Tensors are the tensors of encoder and decoder.
func (s Shape) t5Tensors(matrix func(name string, rows, cols int) source, norm func(name string) source) (
	list []source) {
	width := s.Heads * s.head()
	attention := func(name string) {
		list = append(list, norm(name+"_norm.weight"),
			matrix(name+"_q.weight", width, s.HiddenSize), matrix(name+"_k.weight", width, s.HiddenSize),
			matrix(name+"_v.weight", width, s.HiddenSize), matrix(name+"_o.weight", s.HiddenSize, width))
	}
	for _, stack := range []string{"enc.", "dec."} {
		for l := range s.Layers {
			b := fmt.Sprintf("%sblk.%d.", stack, l)
			attention(b + "attn")
			if l == 0 {
				list = append(list, patternOf(gguf.F32).tensor(b+"attn_rel_b.weight", gguf.F32, s.Heads, t5Buckets))
			}
			if stack == "dec." {
				attention(b + "cross_attn")
			}
			list = append(list, norm(b+"ffn_norm.weight"))
			if !s.Tied { // T5 1.1, whose head is not tied, has gates
				list = append(list, matrix(b+"ffn_gate.weight", s.FeedForward, s.HiddenSize))
			}
			list = append(list, matrix(b+"ffn_up.weight", s.FeedForward, s.HiddenSize),
				matrix(b+"ffn_down.weight", s.HiddenSize, s.FeedForward))
		}
		list = append(list, norm(stack+"output_norm.weight"))
	}
	return list
}
