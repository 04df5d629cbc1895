package main

import (
	"fmt"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
)

// Encoder-decoder models (T5): a prompt is what the encoder reads, and the decoder begins with a token of its own.

// decoderStart is what the decoder of a model with an encoder begins with, nil for another model. What messages call
// the model is name.
func decoderStart(m *engine.Model, name string) ([]int32, error) {
	if !m.Encodes() {
		return nil, nil
	}
	if m.DecoderStart() < 0 {
		return nil, fmt.Errorf("%s: the file has neither a decoder_start_token_id nor a token that begins texts, so "+
			"nothing says what the decoder begins with", name)
	}
	return []int32{m.DecoderStart()}, nil
}

// decoderOnly refuses an encoder-decoder model in a command that has no use for one, for the given reason.
func decoderOnly(m *engine.Model, name, reason string) error {
	if !m.Encodes() {
		return nil
	}
	return fmt.Errorf("%s: an encoder-decoder model (%s): %s", name, m.Config().Architecture, reason)
}

// holds reports whether a file's header is that of a file of the kind; "" is no file.
func holds(path string, kind engine.Kind) bool {
	if path == "" || regularFile(path) != nil { // opening a pipe waits for a writer
		return false
	}
	f, err := gguf.OpenFile(path)
	if err != nil {
		return false // loading it says why
	}
	defer f.Close()
	return kindOf(f) == kind
}
