package gguf

import (
	"bytes"
	"io"
	"testing"
)

// FuzzOpen: no input crashes Open. What it accepts has readable tensors, and can
// be written and read again without a change.
func FuzzOpen(f *testing.F) {
	f.Add(write(f, sampleKVs(), sampleTensors()))
	for _, test := range damaged {
		f.Add(test.file)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := open(b)
		if err != nil {
			return
		}
		if file.Alignment > 1<<16 {
			return // padded to that, it would be slow
		}
		for _, tensor := range file.Tensors {
			data, err := io.ReadAll(io.NewSectionReader(file.Reader(), tensor.Offset, tensor.Size))
			if err != nil || int64(len(data)) != tensor.Size {
				t.Fatalf("%v: %d of %d bytes, %v", tensor, len(data), tensor.Size, err)
			}
			if len(tensor.Name) > maxName {
				return
			}
		}
		for _, kv := range file.KVs {
			file.Uint32(kv.Key)
			file.Int32s(kv.Key)
			file.Float32s(kv.Key)
		}
		once := write(t, file.KVs, copied(file))
		again, err := open(once)
		if err != nil {
			t.Fatalf("written again, it does not open: %v", err)
		}
		if twice := write(t, again.KVs, copied(again)); !bytes.Equal(once, twice) {
			t.Fatal("written twice, it differs")
		}
	})
}
