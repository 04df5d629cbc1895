package main

import (
	"fmt"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
)

// Encoder-decoder models (T5): a prompt is what the encoder reads, and the decoder begins with a token of its own.

// promptOf divides the tokens of a prompt into the encoder's input, nil for a model without an encoder, and what the
// decoder continues. What messages call the model is name.
func promptOf(m *engine.Model, ids []int32, name string) (input, prompt []int32, err error) {
	if !m.Encodes() {
		return nil, ids, nil
	}
	if m.DecoderStart() < 0 {
		return nil, nil, fmt.Errorf("%s: the file has neither a decoder_start_token_id nor a token that begins texts, so "+
			"nothing says what the decoder begins with", name)
	}
	return ids, []int32{m.DecoderStart()}, nil
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
