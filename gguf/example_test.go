package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/specgo/spec/gguf"
)

// A small file, written to memory and read back.
func Example() {
	weights := []float32{1, 2, 3, 4, 5, 6}
	var file bytes.Buffer
	err := gguf.Write(&file,
		[]gguf.KV{
			{Key: "general.architecture", Value: "llama"},
			{Key: "llama.block_count", Value: uint32(2)},
		},
		[]gguf.TensorSource{{
			Name: "token_embd.weight",
			Type: gguf.F32,
			Dims: []uint64{3, 2}, // 3 columns, 2 rows
			Write: func(w io.Writer) error {
				return binary.Write(w, binary.LittleEndian, weights)
			},
		}})
	if err != nil {
		fmt.Println(err)
		return
	}

	f, err := gguf.Open(bytes.NewReader(file.Bytes()), int64(file.Len()), "small.gguf")
	if err != nil {
		fmt.Println(err)
		return
	}
	layers, err := f.Uint32("llama.block_count")
	fmt.Println(layers, err)

	t, _ := f.Tensor("token_embd.weight")
	row := make([]float32, t.Dims[0])
	second := io.NewSectionReader(f.Reader(), t.Offset+t.Size/2, t.Size/2)
	fmt.Println(t, binary.Read(second, binary.LittleEndian, row), row)
	// Output:
	// 2 <nil>
	// token_embd.weight F32 [3 2] <nil> [4 5 6]
}

// Getters say what is wrong and where; nothing has a silent default.
func ExampleFile_Uint32() {
	var file bytes.Buffer
	if err := gguf.Write(&file, []gguf.KV{{Key: "general.name", Value: "tiny"}}, nil); err != nil {
		fmt.Println(err)
		return
	}
	f, err := gguf.Open(bytes.NewReader(file.Bytes()), int64(file.Len()), "tiny.gguf")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = f.Uint32("general.name")
	fmt.Println(err)
	_, err = f.Uint32("llama.context_length")
	fmt.Println(err, errors.Is(err, gguf.ErrMissing))
	// Output:
	// tiny.gguf: key "general.name": wrong type: string where an integer is needed
	// tiny.gguf: key "llama.context_length": the key is missing true
}

// A file of another kind is named as what it looks like.
func ExampleOpen() {
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	_, err := gguf.Open(bytes.NewReader([]byte(png)), int64(len(png)), "x.png")
	fmt.Println(err)
	// Output:
	// x.png: not a GGUF file: it starts with "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" (a PNG image)
}

// Block types pack neighbouring weights: Q4_0 puts 32 into 18 bytes.
func ExampleType_Size() {
	fmt.Println(gguf.Q4_0.Size(64, 3))
	fmt.Println(gguf.Q4_0.Size(65, 3))
	// Output:
	// 108 <nil>
	// 0 rows of shape [65 3] are not whole blocks of 32, which Q4_0 needs
}
