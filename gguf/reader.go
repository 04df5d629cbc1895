package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

const (
	windowBytes = 64 << 10 // how much is read at a time
	arenaBytes  = 64 << 10 // how much text is allocated at a time
	maxHeader   = 1 << 30  // no header is larger; vocabularies take some 10 MB
	maxDepth    = 4        // arrays within arrays
)

// A reader reads a header sequentially, through a buffer (the window).
//
// The first error is kept: after it every method returns zeros and reads nothing.
// So the parser follows the format's specification line by line, and checks err only
// before it loops, allocates, or uses what it has read.
type reader struct {
	src    io.ReaderAt
	name   string // the file's, for messages
	item   string // what is being read: key, tensor or header
	label  string // the item's quoted name, or its index until the name is read
	end    int64  // the header ends here at the latest
	base   int64  // offset of window[0] in the file
	window []byte // what has been read ahead, within buf
	pos    int    // of the first unread byte in window
	buf    []byte
	arena  strings.Builder // strings are cut from it, many per allocation
	err    error
}

func newReader(src io.ReaderAt, size int64, name string) *reader {
	end := min(size, maxHeader)
	return &reader{src: src, name: name, item: "header", end: end, buf: make([]byte, min(end, windowBytes))}
}

func (r *reader) offset() int64     { return r.base + int64(r.pos) }
func (r *reader) remaining() uint64 { return uint64(r.end - r.offset()) }

// failAt records the first failure, at an offset in the file.
func (r *reader) failAt(offset int64, format string, args ...any) {
	if r.err == nil {
		item := r.item
		if r.label != "" {
			item += " " + r.label
		}
		r.err = &FormatError{File: r.name, Item: item, Offset: offset, Err: fmt.Errorf(format, args...)}
	}
}

// fits reports whether n items of at least size bytes each fit into the bytes that
// remain. It is called before every allocation whose length comes from the file. The
// error's offset is that of the length: back bytes before the current one.
func (r *reader) fits(n uint64, size int, what string, back int64) bool {
	if r.err == nil && n > r.remaining()/uint64(size) {
		r.failAt(r.offset()-back, "%d %s cannot be in the %d bytes that remain", n, what, r.remaining())
	}
	return r.err == nil
}

// fill makes at least n unread bytes visible; n is at most len(buf) or fails.
func (r *reader) fill(n int) bool {
	if r.err != nil {
		return false
	}
	if uint64(n) > r.remaining() {
		r.failAt(r.offset(), "the file ends here: %d bytes are needed, %d remain", n, r.remaining())
		return false
	}
	kept := copy(r.buf, r.window[r.pos:])
	r.base, r.pos = r.base+int64(r.pos), 0
	want := min(int64(len(r.buf)), r.end-r.base)
	got, err := r.src.ReadAt(r.buf[kept:want], r.base+int64(kept))
	r.window = r.buf[:kept+got]
	if len(r.window) < n {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		r.failAt(r.base+int64(len(r.window)), "%w", err)
		return false
	}
	return true
}

// next returns the next n bytes, n at most 8.
func (r *reader) next(n int) []byte {
	if len(r.window)-r.pos < n && !r.fill(n) || r.err != nil {
		return make([]byte, n)
	}
	p := r.window[r.pos : r.pos+n]
	r.pos += n
	return p
}

// nextUpTo returns as many of the next n bytes as the window has, a multiple of
// size; nil after an error.
func (r *reader) nextUpTo(n, size int) []byte {
	if len(r.window)-r.pos < size && !r.fill(size) || r.err != nil {
		return nil
	}
	n = min(n, (len(r.window)-r.pos)/size*size)
	p := r.window[r.pos : r.pos+n]
	r.pos += n
	return p
}

func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.next(4)) }
func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.next(8)) }

// string reads a length and that many bytes, at most limit; what is "bytes of key" or the like.
func (r *reader) string(limit uint64, what string) string {
	length := r.uint64()
	if !r.fits(length, 1, what, 8) {
		return ""
	}
	if length > limit {
		r.failAt(r.offset()-8, "%d %s, at most %d are allowed", length, what, limit)
		return ""
	}
	n := int(length)
	if r.arena.Cap()-r.arena.Len() < n {
		r.arena = strings.Builder{} // strings cut from the old one keep it
		r.arena.Grow(max(n, int(min(arenaBytes, r.remaining()))))
	}
	from := r.arena.Len()
	for n > 0 && r.err == nil {
		p := r.nextUpTo(n, 1)
		r.arena.Write(p)
		n -= len(p)
	}
	return r.arena.String()[from:]
}

// value reads a metadata value of the given type.
func (r *reader) value(t ValueType, depth int) Value {
	switch t {
	case ValueUint8:
		return r.next(1)[0]
	case ValueInt8:
		return int8(r.next(1)[0])
	case ValueUint16:
		return binary.LittleEndian.Uint16(r.next(2))
	case ValueInt16:
		return int16(binary.LittleEndian.Uint16(r.next(2)))
	case ValueUint32:
		return r.uint32()
	case ValueInt32:
		return int32(r.uint32())
	case ValueFloat32:
		return math.Float32frombits(r.uint32())
	case ValueBool:
		b := r.next(1)[0]
		if b > 1 {
			r.failAt(r.offset()-1, "bool is %d, neither 0 nor 1", b)
		}
		return b == 1
	case ValueString:
		return r.string(maxHeader, "bytes of string")
	case ValueArray:
		return r.array(depth)
	case ValueUint64:
		return r.uint64()
	case ValueInt64:
		return int64(r.uint64())
	case ValueFloat64:
		return math.Float64frombits(r.uint64())
	}
	r.failAt(r.offset()-4, "unknown %v", t)
	return nil
}

// array reads an element type, a length, and the elements.
func (r *reader) array(depth int) Value {
	t, n := ValueType(r.uint32()), r.uint64()
	switch t {
	case ValueUint8:
		return numbers[uint8](r, n, 1)
	case ValueInt8:
		return numbers[int8](r, n, 1)
	case ValueUint16:
		return numbers[uint16](r, n, 2)
	case ValueInt16:
		return numbers[int16](r, n, 2)
	case ValueUint32:
		return numbers[uint32](r, n, 4)
	case ValueInt32:
		return numbers[int32](r, n, 4)
	case ValueFloat32:
		return numbers[float32](r, n, 4)
	case ValueUint64:
		return numbers[uint64](r, n, 8)
	case ValueInt64:
		return numbers[int64](r, n, 8)
	case ValueFloat64:
		return numbers[float64](r, n, 8)
	case ValueBool:
		start := r.offset()
		raw := numbers[uint8](r, n, 1)
		out := make([]bool, len(raw))
		for i, b := range raw {
			if b > 1 {
				r.failAt(start+int64(i), "bool is %d, neither 0 nor 1", b)
			}
			out[i] = b == 1
		}
		return out
	case ValueString:
		if !r.fits(n, 8, "strings", 8) {
			return nil
		}
		out := make([]string, n)
		for i := range out {
			if r.err != nil {
				return nil
			}
			out[i] = r.string(maxHeader, "bytes of string")
		}
		return out
	case ValueArray:
		if depth == maxDepth {
			r.failAt(r.offset()-12, "arrays nested deeper than %d", maxDepth)
		}
		if !r.fits(n, 12, "arrays", 8) {
			return nil
		}
		out := make([]Value, n)
		for i := range out {
			if r.err != nil {
				return nil
			}
			out[i] = r.array(depth + 1)
		}
		return out
	}
	r.failAt(r.offset()-12, "array of unknown %v", t)
	return nil
}

// numbers reads n numbers of size bytes each.
func numbers[T any](r *reader, n uint64, size int) []T {
	if !r.fits(n, size, "array elements", 8) {
		return nil
	}
	out := make([]T, n)
	for rest := out; len(rest) > 0; {
		p := r.nextUpTo(len(rest)*size, size)
		if p == nil {
			return nil
		}
		done := len(p) / size
		if _, err := binary.Decode(p, binary.LittleEndian, rest[:done]); err != nil {
			r.failAt(r.offset(), "%w", err)
			return nil
		}
		rest = rest[done:]
	}
	return out
}
