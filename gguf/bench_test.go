package gguf

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// BenchmarkOpen reads headers of the sizes that models have: vocabulary, merges, and
// the tensors of 48 layers.
func BenchmarkOpen(b *testing.B) {
	for _, tokens := range []int{4_096, 32_000, 128_256} {
		file := vocabulary(b, tokens)
		b.Run(fmt.Sprint("tokens/", tokens), func(b *testing.B) {
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := open(file); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	file := vocabulary(b, 32_000)
	f, err := open(file)
	if err != nil {
		b.Fatal(err)
	}
	tensors := copied(f)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Write(io.Discard, f.KVs, tensors); err != nil {
			b.Fatal(err)
		}
	}
}

func vocabulary(b *testing.B, n int) []byte {
	tokens, merges := make([]string, n), make([]string, 2*n)
	for i := range merges {
		merges[i] = fmt.Sprintf("tok %d", i)
	}
	for i := range tokens {
		tokens[i] = fmt.Sprintf("token%d", i)
	}
	var tensors []TensorSource
	data := bytes.Repeat([]byte{1}, 34*8)
	for i := range 48 {
		for _, name := range []string{"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate",
			"ffn_up", "ffn_down"} {
			tensors = append(tensors, source(fmt.Sprintf("blk.%d.%s.weight", i, name), Q8_0, data, 32, 8))
		}
	}
	return write(b, []KV{
		{"tokenizer.ggml.tokens", tokens},
		{"tokenizer.ggml.token_type", make([]int32, n)},
		{"tokenizer.ggml.scores", make([]float32, n)},
		{"tokenizer.ggml.merges", merges},
	}, tensors)
}
