package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
)

const (
	writeVersion = 3
	maxName      = 63 // bytes in a tensor's name that other readers have room for
)

// TensorSource is a tensor for [Write].
type TensorSource struct {
	Name  string
	Type  Type
	Dims  []uint64                // as in Tensor
	Write func(w io.Writer) error // writes the data: exactly Type.Size(Dims...) bytes
}

// Write writes a GGUF file, version 3, little endian. Tensors are written in the
// order given, by calling their Write functions one after another, so the file may
// be larger than memory.
//
// Tensor data is aligned to the value of the key "general.alignment", a uint32 that
// is a power of two, or else to 32 bytes. Keys, values and shapes are checked
// before the first byte is written; what [Open] would refuse is refused here.
func Write(w io.Writer, kvs []KV, tensors []TensorSource) error {
	align, err := checkKVs(kvs)
	if err != nil {
		return err
	}
	sizes, err := checkTensors(tensors)
	if err != nil {
		return err
	}
	e := &encoder{w: bufio.NewWriterSize(w, windowBytes)}
	e.bytes(magic)
	e.uint32(writeVersion)
	e.uint64(uint64(len(tensors)))
	e.uint64(uint64(len(kvs)))
	for _, kv := range kvs {
		e.string(kv.Key)
		t, _, _, _ := TypeOf(kv.Value)
		e.uint32(uint32(t))
		e.value(kv.Value)
	}
	offset := int64(0)
	for i, t := range tensors {
		e.string(t.Name)
		e.uint32(uint32(len(t.Dims)))
		for _, d := range t.Dims {
			e.uint64(d)
		}
		e.uint32(uint32(t.Type))
		e.uint64(uint64(offset))
		offset = (offset + sizes[i] + align - 1) &^ (align - 1)
		if offset < 0 {
			return fmt.Errorf("gguf: tensor %s: the file would be larger than any can be", quote(t.Name))
		}
	}
	e.pad(align)
	for i, t := range tensors {
		data := &limited{w: e, left: sizes[i]}
		if err := t.Write(data); err != nil {
			return fmt.Errorf("gguf: tensor %s: %w", quote(t.Name), err)
		}
		if data.left != 0 {
			return fmt.Errorf("gguf: tensor %s: %d of %d bytes were not written", quote(t.Name), data.left, sizes[i])
		}
		e.pad(align)
	}
	if e.err == nil {
		e.err = e.w.Flush()
	}
	return e.err
}

// checkKVs checks keys and values and returns the alignment they ask for.
func checkKVs(kvs []KV) (align int64, err error) {
	align = alignment
	seen := make(map[string]bool, len(kvs))
	for _, kv := range kvs {
		fail := func(format string, args ...any) (int64, error) {
			return 0, fmt.Errorf("gguf: key %s: %w", quote(kv.Key), fmt.Errorf(format, args...))
		}
		if seen[kv.Key] {
			return fail("duplicate key")
		}
		seen[kv.Key] = true
		if len(kv.Key) > maxKey {
			return fail("key of %d bytes, at most %d are allowed", len(kv.Key), maxKey)
		}
		if err := checkValue(kv.Value, 1); err != nil {
			return fail("%w", err)
		}
		if kv.Key == alignmentKey {
			a, ok := kv.Value.(uint32)
			if !ok {
				return fail("%w: %s where a uint32 is needed", ErrType, describe(kv.Value))
			}
			if bits.OnesCount32(a) != 1 {
				return fail("alignment %d is not a power of two", a)
			}
			align = int64(a)
		}
	}
	return align, nil
}

func checkValue(v Value, depth int) error {
	if _, _, _, ok := TypeOf(v); !ok {
		return fmt.Errorf("%w: %T is not a metadata value", ErrType, v)
	}
	nested, _ := v.([]Value)
	for _, v := range nested {
		if t, _, _, _ := TypeOf(v); t != ValueArray {
			return fmt.Errorf("%w: %T inside an array of arrays", ErrType, v)
		}
		if depth == maxDepth {
			return fmt.Errorf("arrays nested deeper than %d", maxDepth)
		}
		if err := checkValue(v, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkTensors checks names, types and shapes and returns the sizes of the data.
func checkTensors(tensors []TensorSource) ([]int64, error) {
	sizes := make([]int64, len(tensors))
	seen := make(map[string]bool, len(tensors))
	for i, t := range tensors {
		var err error
		switch sizes[i], err = t.Type.Size(t.Dims...); {
		case err != nil:
		case seen[t.Name]:
			err = fmt.Errorf("duplicate tensor name")
		case len(t.Name) > maxName:
			err = fmt.Errorf("name of %d bytes, at most %d are allowed", len(t.Name), maxName)
		case t.Write == nil:
			err = fmt.Errorf("no Write function")
		}
		if err != nil {
			return nil, fmt.Errorf("gguf: tensor %s: %w", quote(t.Name), err)
		}
		seen[t.Name] = true
	}
	return sizes, nil
}

// An encoder writes the format's primitives. Its first error sticks.
type encoder struct {
	w       *bufio.Writer
	offset  int64
	err     error
	scratch [8]byte
}

// Write implements io.Writer and counts the bytes.
func (e *encoder) Write(p []byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	n, err := e.w.Write(p)
	e.offset += int64(n)
	e.err = err
	return n, err
}

func (e *encoder) bytes(s string) {
	if e.err == nil {
		_, e.err = e.w.WriteString(s)
		e.offset += int64(len(s))
	}
}

func (e *encoder) string(s string) {
	e.uint64(uint64(len(s)))
	e.bytes(s)
}

func (e *encoder) uint32(x uint32) {
	binary.LittleEndian.PutUint32(e.scratch[:], x)
	e.Write(e.scratch[:4])
}

func (e *encoder) uint64(x uint64) {
	binary.LittleEndian.PutUint64(e.scratch[:], x)
	e.Write(e.scratch[:8])
}

// number writes a number or a bool, or a slice of them.
func (e *encoder) number(v any) {
	if e.err == nil {
		e.err = binary.Write(e, binary.LittleEndian, v)
	}
}

// value writes a value that checkValue has passed.
func (e *encoder) value(v Value) {
	if t, elem, n, _ := TypeOf(v); t == ValueArray {
		e.uint32(uint32(elem))
		e.uint64(uint64(n))
	}
	switch v := v.(type) {
	case string:
		e.string(v)
	case []string:
		for _, s := range v {
			e.string(s)
		}
	case []Value:
		for _, v := range v {
			e.value(v)
		}
	default:
		e.number(v)
	}
}

// pad writes zeros up to the next multiple of align.
func (e *encoder) pad(align int64) {
	var zeros [256]byte
	for n := -e.offset & (align - 1); n > 0 && e.err == nil; {
		k := min(n, int64(len(zeros)))
		e.Write(zeros[:k])
		n -= k
	}
}

// limited is a writer that takes at most left bytes.
type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, fmt.Errorf("%d bytes more than its shape has", int64(len(p))-l.left)
	}
	n, err := l.w.Write(p)
	l.left -= int64(n)
	return n, err
}
