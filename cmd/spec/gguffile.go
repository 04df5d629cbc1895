package main

import (
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// openGGUF reads the header of the file that -m names, or of the embedded target.
func openGGUF(path string) (*gguf.File, error) {
	if path == "" {
		r := testdata.Target()
		return gguf.Open(r, r.Size(), "embedded target")
	}
	if err := regularFile(path); err != nil {
		return nil, err
	}
	return gguf.OpenFile(path)
}
