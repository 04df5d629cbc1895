// Package testdata holds two small models of Go source code, one to write and one to draft for it, and a draft head
// for the first, so that the command has something to run and the tests something to measure. Only cmd/spec and tests
// import it: a program that uses the engine does not carry the models.
//
// The README beside this file says where they come from.
package testdata

import (
	_ "embed" // for the files
	"strings"
)

//go:embed go-target.q8_0.gguf
var target string

//go:embed go-draft.q8_0.gguf
var draft string

//go:embed go-eagle.q8_0.gguf
var head string

// Target is the GGUF file of the larger model: llama architecture, 5.8 million parameters, Q8_0.
func Target() *strings.Reader { return strings.NewReader(target) }

// Draft is the GGUF file of the smaller model, which knows the same tokens: gpt2 architecture,
// 1.05 million parameters, Q8_0.
func Draft() *strings.Reader { return strings.NewReader(draft) }

// Head is the GGUF file of an EAGLE-3 head for Target, which it shares its embeddings and its output matrix with: 1.1
// million parameters of its own, Q8_0.
func Head() *strings.Reader { return strings.NewReader(head) }
