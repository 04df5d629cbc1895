package spec

import (
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine/sampling"
)

// DefaultBreakers are the texts that llama.cpp's DRY takes for breakers: a newline, a colon, a quote and an asterisk.
func DefaultBreakers() []string { return []string{"\n", ":", "\"", "*"} }

// Breakers are the tokens of texts that no repetition reaches over, for the field DRY of [Request].Sampling. nil stands
// for [DefaultBreakers].
func Breakers(tok *bpe.Tokenizer, texts []string) [][]int32 {
	if texts == nil {
		texts = DefaultBreakers()
	}
	piece := func(id int32) string { return string(tok.Bytes(id)) }
	encode := func(text string) []int32 { return tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true}) }
	return sampling.Breakers(tok.Size(), piece, encode, texts)
}

// breaks reports whether Request.Breakers have a meaning and are not tokens yet.
func (t *Task) breaks() bool { return t.r.Sampling.DRY.Multiplier > 0 && len(t.r.Breakers) > 0 }

// setBreakers makes tokens of the request's breakers. Those of DefaultBreakers are made once for a model.
func (t *Task) setBreakers() {
	if !t.breaks() {
		return
	}
	var list [][]int32
	if slices.Equal(t.r.Breakers, DefaultBreakers()) {
		list = t.m.breakers()
	} else {
		list = Breakers(t.m.tok, t.r.Breakers)
	}
	s := &t.r.Sampling
	s.DRY.Breakers = append(slices.Clip(s.DRY.Breakers), list...)
	t.r.Breakers = nil
}
