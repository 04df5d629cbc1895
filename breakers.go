package spec

import (
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine/sampling"
)

// Breakers are the tokens of texts that no repetition reaches over, for the field DRY of [Request].Sampling. nil stands
// for those that llama.cpp takes: a newline, a colon, a quote and an asterisk.
func Breakers(tok *bpe.Tokenizer, texts []string) [][]int32 {
	if texts == nil {
		texts = []string{"\n", ":", "\"", "*"}
	}
	piece := func(id int32) string { return string(tok.Bytes(id)) }
	encode := func(text string) []int32 { return tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true}) }
	return sampling.Breakers(tok.Size(), piece, encode, texts)
}
