package imatrix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/specgo/spec/gguf"
)

// The older format, all numbers little-endian and of 32 bits: how many tensors there are; of each, the length of its
// name, the name, how many calls there were (of chunks), how many numbers follow, and the numbers: mean squares times
// the calls. Then, or nothing, the chunks in all, and the length and name of the text.

// ofBinary reads it.
func ofBinary(r io.ReaderAt, size int64) (*File, error) {
	b := &binaryReader{io.NewSectionReader(r, 0, size), size}
	f := &File{Tensors: map[string]Tensor{}}
	n, err := b.number("the number of tensors", maxTensors)
	if err != nil {
		return nil, err
	}
	for range n {
		name, t, err := b.tensor()
		if err != nil {
			return nil, fmt.Errorf("at offset %d: %w", size-b.left, err)
		}
		if _, ok := f.Tensors[name]; ok {
			return nil, fmt.Errorf("%w: tensor %s twice", ErrFormat, gguf.Printable(name, 200))
		}
		f.Tensors[name] = t
	}
	if b.left == 0 {
		return f, nil
	}
	if f.Chunks, err = b.number("the number of chunks", math.MaxInt32); err != nil {
		return nil, err
	}
	if b.left > 0 {
		text, err := b.text("the text's name")
		if err != nil {
			return nil, err
		}
		f.Datasets = []string{text}
	}
	if b.left > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind its end", ErrFormat, b.left)
	}
	return f, nil
}

// binaryReader reads a file from its begin to its end.
type binaryReader struct {
	r    io.Reader
	left int64 // bytes
}

// bytes reads n bytes, which must be there before any memory is taken for them.
func (b *binaryReader) bytes(n int, what string) ([]byte, error) {
	if int64(n) > b.left {
		return nil, fmt.Errorf("%w: %d bytes of %s, %d are left", ErrFormat, n, what, b.left)
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(b.r, p); err != nil {
		return nil, errors.Join(ErrFormat, err)
	}
	b.left -= int64(n)
	return p, nil
}

// number reads a number that is not negative.
func (b *binaryReader) number(what string, most int) (int, error) {
	p, err := b.bytes(4, what)
	if err != nil {
		return 0, err
	}
	n := int32(binary.LittleEndian.Uint32(p))
	if n < 0 || int(n) > most {
		return 0, fmt.Errorf("%w: %s is %d", ErrFormat, what, n)
	}
	return int(n), nil
}

func (b *binaryReader) text(what string) (string, error) {
	n, err := b.number("the length of "+what, maxText)
	if err != nil {
		return "", err
	}
	p, err := b.bytes(n, what)
	return string(p), err
}

func (b *binaryReader) tensor() (name string, t Tensor, err error) {
	if name, err = b.text("a tensor's name"); err != nil {
		return "", t, err
	}
	calls, err := b.number("the number of calls", math.MaxInt32)
	if err != nil {
		return "", t, err
	}
	n, err := b.number("the number of sums", maxBytes/4-1)
	if err != nil {
		return "", t, err
	}
	raw, err := b.bytes(4*n, "sums")
	if err != nil {
		return "", t, err
	}
	t.Sums, t.Counts = decode(raw), []float32{float32(max(calls, 1))}
	return name, t, nil
}

func decode(raw []byte) []float32 {
	x := make([]float32, len(raw)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return x
}

func encode(x []float32) []byte {
	raw := make([]byte, 0, 4*len(x))
	for _, v := range x {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}
