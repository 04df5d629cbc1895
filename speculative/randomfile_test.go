package speculative

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// randomTensor is a tensor of normally distributed numbers.
func randomTensor(rng *rand.Rand, name string, mean, spread float64, dims ...int) gguf.TensorSource {
	return randommodel.Drawn(name, func() float32 { return float32(mean + float64(spread*rng.NormFloat64())) }, dims...)
}

// noisyTensors makes tensors of a model's file, one after the other: the same numbers in each model, and on top of
// them noise of its own.
func noisyTensors(noise float32) func(name string, mean, spread float32, dims ...int) gguf.TensorSource {
	same, own := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4))
	return func(name string, mean, spread float32, dims ...int) gguf.TensorSource {
		return randommodel.Drawn(name, func() float32 {
			x := float32(same.NormFloat64()) + float32(noise*float32(own.NormFloat64()))
			return mean + float32(spread*x)
		}, dims...)
	}
}

// openTensors loads the model of a file with these keys and tensors.
func openTensors(t testing.TB, rt *engine.Runtime, kvs []gguf.KV, tensors []gguf.TensorSource,
	o engine.Options) *engine.Model {
	t.Helper()
	file := randommodel.Bytes(t, kvs, tensors)
	m, err := engine.New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
