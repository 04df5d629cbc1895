// Package randommodel draws the files of small models for tests: of every architecture, and of their draft heads. The
// seed and a tensor's name determine its numbers, bit for bit the same on every machine: products are rounded before
// they are added.
package randommodel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// elements is how many numbers a tensor of dims has, and dims as a file has them.
func elements(dims []int) (n int, all []uint64) {
	n = 1
	for _, d := range dims {
		n *= d
		all = append(all, uint64(d))
	}
	return n, all
}

// drawn draws a tensor's numbers. The seed and the tensor's name determine them: they do not depend on which other
// tensors there are.
func drawn(seed uint64, name string) *rand.Rand {
	h := fnv.New64()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// Tensor is a tensor of F32 with normally distributed numbers, by the seed and the name; dims has the columns first.
func Tensor(seed uint64, name string, mean, spread float64, dims ...int) gguf.TensorSource {
	n, _ := elements(dims)
	return once(normal{seed, name, mean, spread, fmt.Sprint(dims)}, n, func() gguf.TensorSource {
		rng := drawn(seed, name)
		return Drawn(name, func() float32 { return float32(mean + float64(spread*rng.NormFloat64())) }, dims...)
	})
}

// normals are n normally distributed numbers, by the seed and a tensor's name. They are not to be changed.
func normals(seed uint64, name string, n int) []float32 {
	return once(normal{seed: seed, name: name, dims: fmt.Sprint(n)}, n, func() []float32 {
		rng, x := drawn(seed, name), make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	})
}

// once is what draw returns, n numbers. Most models have tensors of others, so what was drawn is kept.
func once[T any](key normal, n int, draw func() T) T {
	if known, ok := kept.Load(key); ok {
		return known.(T)
	}
	t := draw()
	if bytesKept.Add(int64(4*n)) <= mostKept {
		kept.Store(key, t)
	}
	return t
}

// normal is what determines numbers that are drawn: those of a Tensor, whose dims are in brackets, or of normals.
type normal struct {
	seed         uint64
	name         string
	mean, spread float64
	dims         string
}

// mostKept is how many bytes of tensors are kept: those of about the first hundred models of a test.
const mostKept = 32 << 20

var (
	kept      sync.Map // normal: what was drawn
	bytesKept atomic.Int64
)

// Drawn is a tensor of F32 whose numbers are drawn in the order of the file; dims has the columns first.
func Drawn(name string, draw func() float32, dims ...int) gguf.TensorSource {
	n, all := elements(dims)
	x := make([]float32, n)
	for i := range x {
		x[i] = draw()
	}
	return Encoded(name, gguf.F32, x, all)
}

// Encoded is a tensor of numbers in a type; of types that the engine does not have it is zeros.
func Encoded(name string, typ gguf.Type, x []float32, dims []uint64) gguf.TensorSource {
	if typ == gguf.F32 { // numbers that are not finite too; most tensors are written many times
		raw := make([]byte, 4*len(x))
		for i, v := range x {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
		}
		return gguf.TensorSource{Name: name, Type: typ, Dims: dims, Write: func(w io.Writer) error {
			_, err := w.Write(raw)
			return err
		}}
	}
	return gguf.TensorSource{Name: name, Type: typ, Dims: dims, Write: func(w io.Writer) error {
		size, err := typ.Size(dims...)
		if err != nil {
			return err
		}
		raw := make([]byte, size)
		if to, err := tensor.ParseType(strings.ToLower(typ.String())); err == nil {
			if err := tensor.Encode(to, raw, x); err != nil {
				return err
			}
		}
		_, err = w.Write(raw)
		return err
	}}
}

// Bytes is a GGUF file.
func Bytes(tb testing.TB, kvs []gguf.KV, tensors []gguf.TensorSource) []byte {
	tb.Helper()
	most := 64 << 10 // a header of most files
	for _, t := range tensors {
		if size, err := t.Type.Size(t.Dims...); err == nil {
			most += int(size) + 64
		}
	}
	b := bytes.NewBuffer(make([]byte, 0, most))
	if err := gguf.Write(b, kvs, tensors); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// Tokens is n random tokens of a vocabulary.
func Tokens(n, vocab int, seed uint64) []int32 {
	rng := rand.New(rand.NewPCG(seed, 3))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(rng.IntN(vocab))
	}
	return ids
}
