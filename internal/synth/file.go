// Package synth makes GGUF models in memory: of random weights in the shape of well-known models ([Random]), and
// small trained models enlarged to the size of large ones without changing what they compute ([Enlarge]). Nothing is
// downloaded or written, and weights are computed only where they are read, so that a model of gigabytes takes the
// memory of its packed form alone.
package synth

import (
	"bytes"
	"fmt"
	"io"
	"sort"

	"github.com/specgo/spec/gguf"
)

const alignment = 32 // of tensors; GGUF's default

// File is a GGUF file that exists only as far as it is read. It may be read concurrently.
type File struct {
	header  []byte
	tensors []source // in the order of the file
	starts  []int64  // where they begin
	size    int64
}

// source is a tensor and where its bytes come from.
type source struct {
	name string
	typ  gguf.Type
	dims []uint64 // columns first
	// fill writes the bytes [at, at+len(p)) of the tensor's data. It depends on the place alone: reading twice, or in
	// other pieces, gives the same.
	fill func(p []byte, at int64)
}

func (s *source) bytes() int64 {
	n, _ := s.typ.Size(s.dims...) // checked by gguf.Write
	return n
}

// newFile lets package gguf write the header and keeps the recipes of the rest.
func newFile(kvs []gguf.KV, tensors []source) (*File, error) {
	var end counter
	if err := write(&end, kvs, tensors); err != nil {
		return nil, err
	}
	f := &File{tensors: tensors, size: int64(end)}
	data := int64(0)
	for i := range tensors {
		f.starts = append(f.starts, data)
		data += (tensors[i].bytes() + alignment - 1) &^ (alignment - 1)
	}
	header := int64(end) - data
	for i := range f.starts {
		f.starts[i] += header
	}
	kept := prefix{left: header}
	err := write(&kept, kvs, tensors)
	f.header = kept.Bytes()
	return f, err
}

// write writes the file with zeros for weights. Large pieces of them pass gguf's buffer by and are never touched, so
// even tens of gigabytes take no time.
func write(w io.Writer, kvs []gguf.KV, tensors []source) error {
	zeros := make([]byte, 1<<20)
	var sources []gguf.TensorSource
	for _, t := range tensors {
		sources = append(sources, gguf.TensorSource{Name: t.name, Type: t.typ, Dims: t.dims, Write: func(w io.Writer) error {
			for left := t.bytes(); left > 0; {
				n, err := w.Write(zeros[:min(left, int64(len(zeros)))])
				if err != nil {
					return err
				}
				left -= int64(n)
			}
			return nil
		}})
	}
	return gguf.Write(w, kvs, sources)
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// prefix keeps the first bytes that are written to it and lets the others go.
type prefix struct {
	bytes.Buffer
	left int64
}

func (w *prefix) Write(p []byte) (int, error) {
	n := min(int64(len(p)), w.left)
	w.left -= n
	w.Buffer.Write(p[:n])
	return len(p), nil
}

// Size is the length of the file in bytes.
func (f *File) Size() int64 { return f.size }

// ReadAt reads as [io.ReaderAt] says.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("reading at offset %d", off)
	}
	if off >= f.size {
		return 0, io.EOF
	}
	var err error
	if int64(len(p)) > f.size-off {
		p, err = p[:f.size-off], io.EOF
	}
	n := len(p)
	if off < int64(len(f.header)) {
		k := copy(p, f.header[off:])
		p, off = p[k:], off+int64(k)
	}
	i := max(0, sort.Search(len(f.starts), func(i int) bool { return f.starts[i] > off })-1)
	for len(p) > 0 {
		t, at := &f.tensors[i], off-f.starts[i]
		k := max(0, min(int64(len(p)), t.bytes()-at))
		if k > 0 {
			t.fill(p[:k], at)
			p, off = p[k:], off+k
		}
		next := f.size
		if i+1 < len(f.starts) {
			next = f.starts[i+1]
		}
		padding := min(int64(len(p)), next-off)
		clear(p[:padding])
		p, off = p[padding:], off+padding
		i++
	}
	return n, err
}
