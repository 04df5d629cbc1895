package randommodel

import (
	"strings"

	"github.com/specgo/spec/gguf"
)

// LettersT5 is a small encoder-decoder model that reads and writes letters: SmallT5 with a vocabulary, in which more
// depends on what the encoder reads.
func LettersT5() T5 {
	tokens, types, scores := []string{"<pad>", "</s>", "<unk>", "▁"}, []int32{3, 3, 2, 1}, []float32{0, 0, 0, -2}
	for c := 'a'; c <= 'z'; c++ {
		tokens, types, scores = append(tokens, string(c), "▁"+string(c)), append(types, 1, 1), append(scores, -3, -4)
	}
	m := SmallT5()
	m.Vocab = len(tokens)
	m.Edit = func(name string, x []float32) {
		if strings.Contains(name, "cross_attn_o") {
			for i := range x {
				x[i] *= 8
			}
		}
	}
	m.KVs = []gguf.KV{
		{Key: "tokenizer.ggml.model", Value: "t5"}, {Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types}, {Key: "tokenizer.ggml.scores", Value: scores},
		{Key: "tokenizer.ggml.add_space_prefix", Value: true},
		{Key: "tokenizer.ggml.remove_extra_whitespaces", Value: true},
	}
	return m
}
