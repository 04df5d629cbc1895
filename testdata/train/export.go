//go:build ignore

// Export writes what eagle.py trained as a GGUF file, its matrices in Q8_0. Tokenizer and licence are the target's.
//
//	go run testdata/train/export.go head.npz testdata/go-eagle.q8_0.gguf
package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
	"github.com/specgo/spec/testdata"
)

// array is a NumPy array of numbers of 4 or 8 bytes.
type array struct {
	shape []uint64 // rows first
	raw   []byte
}

var (
	shapeOf = regexp.MustCompile(`'shape': \(([^)]*)\)`)
	typeOf  = regexp.MustCompile(`'descr': '([^']*)'`)
)

// read parses a file of NumPy's format, version 1.
func read(data []byte, descr string) array {
	size := int(binary.LittleEndian.Uint16(data[8:]))
	header := string(data[10 : 10+size])
	if got := typeOf.FindStringSubmatch(header)[1]; got != descr || !strings.Contains(header, "'fortran_order': False") {
		log.Fatalf("an array of %s, expected %s: %s", got, descr, header)
	}
	a := array{raw: data[10+size:]}
	between := func(r rune) bool { return r == ',' || r == ' ' }
	for _, s := range strings.FieldsFunc(shapeOf.FindStringSubmatch(header)[1], between) {
		n, err := strconv.ParseUint(s, 10, 64)
		check(err)
		a.shape = append(a.shape, n)
	}
	return a
}

func main() {
	archive, err := zip.OpenReader(os.Args[1])
	check(err)
	target, err := gguf.Open(testdata.Target(), testdata.Target().Size(), "target")
	check(err)
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: "eagle3"},
		{Key: "general.name", Value: "go-eagle"},
	}
	key := func(k string, v gguf.Value) { kvs = append(kvs, gguf.KV{Key: "eagle3." + k, Value: v}) }
	for _, kv := range target.KVs {
		if strings.HasPrefix(kv.Key, "tokenizer.") ||
			slices.Contains([]string{"general.license", "general.description", "general.file_type"}, kv.Key) {
			kvs = append(kvs, kv)
		}
		if k, ok := strings.CutPrefix(kv.Key, "llama."); ok && k != "block_count" {
			key(k, kv.Value)
		}
	}
	key("block_count", uint32(1))
	width, err := target.Uint32("llama.embedding_length")
	check(err)
	key("target_hidden_size", width)
	key("norm_before_residual", false)
	key("norm_before_fc", false)
	var tensors []gguf.TensorSource
	for _, f := range archive.File {
		r, err := f.Open()
		check(err)
		data, err := io.ReadAll(r)
		check(err)
		name := strings.TrimSuffix(f.Name, ".npy")
		if name == "layers" {
			a, layers := read(data, "<i8"), []int32(nil)
			for i := 0; i < len(a.raw); i += 8 {
				layers = append(layers, int32(binary.LittleEndian.Uint64(a.raw[i:])))
			}
			key("target_layers", layers)
			continue
		}
		a := read(data, "<f4")
		slices.Reverse(a.shape) // columns first
		t := gguf.TensorSource{Name: name, Type: gguf.F32, Dims: a.shape}
		if len(a.shape) == 2 {
			t.Type = gguf.Q8_0
			x := make([]float32, len(a.raw)/4)
			for i := range x {
				x[i] = math.Float32frombits(binary.LittleEndian.Uint32(a.raw[4*i:]))
			}
			size, err := gguf.Q8_0.Size(a.shape...)
			check(err)
			a.raw = make([]byte, size)
			check(tensor.Encode(tensor.Q8_0, a.raw, x))
		}
		t.Write = func(w io.Writer) error {
			_, err := w.Write(a.raw)
			return err
		}
		tensors = append(tensors, t)
	}
	slices.SortFunc(tensors, func(a, b gguf.TensorSource) int { return strings.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	check(gguf.Write(&b, kvs, tensors))
	check(os.WriteFile(os.Args[2], b.Bytes(), 0o644))
	fmt.Println(os.Args[2], b.Len(), "bytes")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
