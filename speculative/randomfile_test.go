package speculative

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
)

// drawnTensor is a tensor of F32 whose numbers are drawn in the order of the file; dims has the columns first.
func drawnTensor(name string, draw func() float32, dims ...int) gguf.TensorSource {
	n, all := 1, []uint64(nil)
	for _, d := range dims {
		n *= d
		all = append(all, uint64(d))
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = draw()
	}
	return gguf.TensorSource{Name: name, Type: gguf.F32, Dims: all, Write: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, x) }}
}

// randomTensor is a tensor of normally distributed numbers.
func randomTensor(rng *rand.Rand, name string, mean, spread float64, dims ...int) gguf.TensorSource {
	return drawnTensor(name, func() float32 { return float32(mean + spread*rng.NormFloat64()) }, dims...)
}

// noisyTensors makes tensors of a model's file, one after the other: the same numbers in each model, and on top of them noise of its own.
func noisyTensors(noise float32) func(name string, mean, spread float32, dims ...int) gguf.TensorSource {
	same, own := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4))
	return func(name string, mean, spread float32, dims ...int) gguf.TensorSource {
		return drawnTensor(name, func() float32 { return mean + spread*(float32(same.NormFloat64())+noise*float32(own.NormFloat64())) }, dims...)
	}
}

// openTensors loads the model of a file with these keys and tensors.
func openTensors(t testing.TB, rt *engine.Runtime, kvs []gguf.KV, tensors []gguf.TensorSource, o engine.Options) *engine.Model {
	t.Helper()
	var file bytes.Buffer
	if err := gguf.Write(&file, kvs, tensors); err != nil {
		t.Fatal(err)
	}
	m, err := engine.New(context.Background(), rt, bytes.NewReader(file.Bytes()), int64(file.Len()), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
