package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/testdata"
)

// openGGUF reads the header of the file that -m names, or of the embedded target.
func openGGUF(path string) (*gguf.File, error) {
	if path == "" {
		r := testdata.Target()
		return gguf.Open(r, r.Size(), "embedded target")
	}
	switch err := regularFile(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such file; spec list shows the models that are here", terminal.Line(path, 0))
	case err != nil:
		return nil, err
	}
	return gguf.OpenFile(path)
}

// tokenizerOf is a model's tokenizer; without one it is an error. What messages call the model is name.
func tokenizerOf(m *engine.Model, name string) (*bpe.Tokenizer, error) {
	return someTokenizer(m.Tokenizer(), name)
}

// readTokenizer is tokenizerOf for a file whose model is not loaded.
func readTokenizer(f *gguf.File) (*bpe.Tokenizer, error) {
	tok, err := engine.ReadTokenizer(f)
	if err != nil {
		return nil, err
	}
	return someTokenizer(tok, f.Name)
}

func someTokenizer(tok *bpe.Tokenizer, name string) (*bpe.Tokenizer, error) {
	if tok == nil {
		return nil, fmt.Errorf("%s: no tokenizer in the file", name)
	}
	return tok, nil
}

// filesOf lists the files of models, which no output may be: of a split one all parts.
func filesOf(models ...string) (list []string) {
	for _, path := range models {
		list = append(list, path)
		if path == "" || regularFile(path) != nil { // opening a pipe waits for a writer
			continue
		}
		if f, err := gguf.OpenFile(path); err == nil { // loading it says what is wrong
			list = append(list, f.Files...)
			f.Close()
		}
	}
	return list
}
