// Package imatrix reads and writes llama.cpp's importance matrices: of every weight matrix of a model, for each of its
// columns, the sum of the squares of what was multiplied with it while the model read a text. A quantizer weighs its
// errors by them. There are two formats: GGUF files of the type "imatrix", and the older binary one (imatrix.dat),
// which is read and never written:
//
//	f, err := imatrix.Open("imatrix.gguf")
//	w, err := f.Weights("blk.0.attn_q.weight", 4096, 1) // [4096] mean squares, nil if the file has none
package imatrix

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// ErrFormat means that a file is no importance matrix, or damaged.
var ErrFormat = errors.New("not a whole importance matrix")

// File is an importance matrix.
type File struct {
	Datasets  []string // the texts that it was computed from
	Chunks    int      // of them
	ChunkSize int      // tokens; 0: not known, as in the older format
	Tensors   map[string]Tensor
}

// Tensor is what went into the matrices of one tensor.
type Tensor struct {
	Sums   []float32 // of squares, [matrices][columns]
	Counts []float32 // [matrices] how many inputs those are: whole numbers
}

// Names of a GGUF file.
const (
	keyType      = "general.type"
	kind         = "imatrix"
	keyDatasets  = "imatrix.datasets"
	keyChunks    = "imatrix.chunk_count"
	keyChunkSize = "imatrix.chunk_size"

	sums, counts = ".in_sum2", ".counts" // behind the name of the tensor
)

// Most of a file that is read.
const (
	maxBytes   = 4 << 30
	maxTensors = 1 << 18
	maxText    = 1 << 16 // bytes of a name
)

// Weights are the mean squares [matrices][columns] of a tensor with so many columns and matrices. A matrix that had no
// input has ones. They are nil if the file has nothing of the tensor; it is an error if what it has is of another
// shape.
func (f *File) Weights(name string, cols, matrices int) ([]float32, error) {
	t, ok := f.Tensors[name]
	if !ok {
		return nil, nil
	}
	if len(t.Sums) != cols*matrices || len(t.Counts) != 1 && len(t.Counts) != matrices {
		return nil, fmt.Errorf("tensor %q has %d columns in each of %d matrices, the importance matrix %d numbers and %d "+
			"counts for it", name, cols, matrices, len(t.Sums), len(t.Counts))
	}
	w := make([]float32, len(t.Sums))
	each := len(w) / len(t.Counts)
	for i, v := range t.Sums {
		if n := t.Counts[i/each]; n > 0 {
			w[i] = v / n
		} else {
			w[i] = 1
		}
	}
	return w, nil
}

// Open reads a file of either format. Errors name it.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	return Read(file, info.Size(), path)
}

// Read reads the first size bytes of r, in either format. The name is for messages. What it accepts has numbers that
// are finite and not negative, counts that are whole, and at least one tensor.
func Read(r io.ReaderAt, size int64, name string) (*File, error) {
	if size > maxBytes {
		return nil, fmt.Errorf("%s: %w: %d bytes, more than %d", name, ErrFormat, size, int64(maxBytes))
	}
	g, err := gguf.Open(r, size, name)
	var f *File
	switch {
	case err == nil:
		f, err = ofGGUF(g)
	case errors.Is(err, gguf.ErrNotGGUF):
		if f, err = ofBinary(r, size); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(f.Tensors) == 0 {
		return nil, fmt.Errorf("%s: %w: nothing of any tensor", name, ErrFormat)
	}
	for _, t := range slices.Sorted(maps.Keys(f.Tensors)) {
		if err := f.Tensors[t].check(); err != nil {
			return nil, fmt.Errorf("%s: %w: tensor %s: %w", name, ErrFormat, gguf.Printable(t, 200), err)
		}
	}
	return f, nil
}

// check refuses numbers that sums of squares and counts cannot be.
func (t Tensor) check() error {
	switch {
	case len(t.Counts) == 0 || len(t.Sums) == 0 || len(t.Sums)%len(t.Counts) != 0:
		return fmt.Errorf("%d sums for %d matrices", len(t.Sums), len(t.Counts))
	case slices.ContainsFunc(t.Sums, func(v float32) bool { return !(v >= 0) || v > math.MaxFloat32 }):
		return errors.New("a sum of squares that is negative or not finite")
	case slices.ContainsFunc(t.Counts, func(v float32) bool { return !(v >= 0) || v >= 1<<62 || v != float32(int64(v)) }):
		return errors.New("a count that is no whole number")
	}
	return nil
}

// ofGGUF reads the GGUF form.
func ofGGUF(g *gguf.File) (f *File, err error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %s", g.Name, ErrFormat, fmt.Sprintf(format, args...))
	}
	if v, _ := g.Value(keyType); v != kind {
		return nil, bad("key %q is not %q", keyType, kind)
	}
	f = &File{Tensors: map[string]Tensor{}}
	if f.Datasets, err = g.Strings(keyDatasets); err != nil {
		return nil, err
	}
	for _, n := range []struct {
		key string
		to  *int
	}{{keyChunks, &f.Chunks}, {keyChunkSize, &f.ChunkSize}} {
		v, err := g.Uint32(n.key)
		if err != nil {
			return nil, err
		}
		*n.to = int(v)
	}
	if len(g.Tensors) > 2*maxTensors {
		return nil, bad("%d tensors, more than %d", len(g.Tensors), 2*maxTensors)
	}
	left := g.Size() // tensors may lie in the same bytes: what is read is no more than the file
	for _, t := range g.Tensors {
		if left -= t.Size; left < 0 {
			return nil, bad("its tensors have more bytes than the file")
		}
		name, isSums := strings.CutSuffix(t.Name, sums)
		if base, isCounts := strings.CutSuffix(t.Name, counts); isCounts {
			if _, ok := g.Tensor(base + sums); !ok {
				return nil, bad("tensor %s without its %s", gguf.Printable(t.Name, 200), sums)
			}
			continue
		}
		n, ok := g.Tensor(name + counts)
		switch {
		case !isSums:
			return nil, bad("an unknown tensor %s", gguf.Printable(t.Name, 200))
		case !ok:
			return nil, bad("tensor %s without its %s", gguf.Printable(t.Name, 200), counts)
		case t.Type != gguf.F32 || n.Type != gguf.F32:
			return nil, bad("tensor %s is of type %v, its counts of %v: F32 is expected", gguf.Printable(t.Name, 200), t.Type,
				n.Type)
		case n.Elements() == 0 || t.Elements()%n.Elements() != 0:
			return nil, bad("tensor %s has %d sums for %d matrices", gguf.Printable(t.Name, 200), t.Elements(), n.Elements())
		}
		var all Tensor
		if all.Sums, err = floats(g, t); err == nil {
			all.Counts, err = floats(g, n)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: tensor %s: %w", g.Name, gguf.Printable(t.Name, 200), err)
		}
		f.Tensors[name] = all
	}
	return f, nil
}

// floats reads a tensor of type F32, which lies within the file.
func floats(g *gguf.File, t gguf.Tensor) ([]float32, error) {
	raw := make([]byte, t.Size)
	if n, err := g.Reader().ReadAt(raw, t.Offset); n < len(raw) {
		return nil, err
	}
	return decode(raw), nil
}

// Write writes the file in the GGUF form.
func (f *File) Write(w io.Writer) error {
	var list []gguf.TensorSource
	for _, name := range slices.Sorted(maps.Keys(f.Tensors)) {
		t := f.Tensors[name]
		if err := t.check(); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		n := uint64(len(t.Counts))
		list = append(list, source(name+sums, t.Sums, uint64(len(t.Sums))/n, n), source(name+counts, t.Counts, 1, n))
	}
	if f.Chunks < 0 || f.ChunkSize < 0 || f.Chunks > math.MaxInt32 || f.ChunkSize > math.MaxInt32 {
		return fmt.Errorf("%d chunks of %d tokens cannot be written", f.Chunks, f.ChunkSize)
	}
	return gguf.Write(w, []gguf.KV{{Key: keyType, Value: kind}, {Key: keyDatasets, Value: f.Datasets},
		{Key: keyChunks, Value: uint32(f.Chunks)}, {Key: keyChunkSize, Value: uint32(f.ChunkSize)}}, list)
}

// source is numbers as a tensor.
func source(name string, x []float32, dims ...uint64) gguf.TensorSource {
	return gguf.TensorSource{Name: name, Type: gguf.F32, Dims: dims, Write: func(w io.Writer) error {
		_, err := w.Write(encode(x))
		return err
	}}
}

// Add adds the sums and counts of another file, which must be of the same model. A file of the older format, which says
// how many chunks there were instead of how many inputs, counts as many tokens to the chunk as the other has, or 1; its
// count of a tensor is that of each of the tensor's matrices.
func (f *File) Add(other *File) error {
	scale := float32(1)
	switch {
	case f.ChunkSize == 0:
		if f.Tensors != nil && other.ChunkSize > 0 {
			f.multiply(float32(other.ChunkSize))
		}
		f.ChunkSize = other.ChunkSize
	case other.ChunkSize == 0:
		scale = float32(f.ChunkSize)
	}
	if f.Tensors == nil {
		f.Tensors = map[string]Tensor{}
	}
	for _, name := range slices.Sorted(maps.Keys(other.Tensors)) {
		from, to := other.Tensors[name], f.Tensors[name]
		if to.Sums == nil {
			to = Tensor{make([]float32, len(from.Sums)), make([]float32, len(from.Counts))}
		}
		switch n, m := len(to.Counts), len(from.Counts); { // a file of the older format has one count for all matrices
		case m == 1 && n > 1:
			from.Counts = slices.Repeat(from.Counts, n)
		case n == 1 && m > 1:
			to.Counts = slices.Repeat(to.Counts, m)
		}
		if len(to.Sums) != len(from.Sums) || len(to.Counts) != len(from.Counts) {
			return fmt.Errorf("tensor %q has %d numbers and %d counts, in another file %d and %d", name, len(from.Sums),
				len(from.Counts), len(to.Sums), len(to.Counts))
		}
		for i, v := range from.Sums {
			to.Sums[i] += float32(scale * v)
		}
		for i, n := range from.Counts {
			to.Counts[i] += float32(scale * n)
		}
		f.Tensors[name] = to
	}
	f.Datasets, f.Chunks = append(f.Datasets, other.Datasets...), f.Chunks+other.Chunks
	return nil
}

func (f *File) multiply(by float32) {
	for _, t := range f.Tensors {
		for i := range t.Sums {
			t.Sums[i] *= by
		}
		for i := range t.Counts {
			t.Counts[i] *= by
		}
	}
}
