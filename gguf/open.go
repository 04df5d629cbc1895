package gguf

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	magic        = "GGUF"
	maxDims      = 4
	maxKey       = 65535 // bytes in a key or a tensor's name
	alignmentKey = "general.alignment"
	alignment    = 32 // where that key is absent
)

// ErrNotGGUF means that a file does not begin with GGUF's magic number.
var ErrNotGGUF = errors.New("not a GGUF file")

// A FormatError says what is wrong with a GGUF file, and where. Its message quotes
// names from the file, and cuts long ones.
type FormatError struct {
	File   string // the name given to Open
	Item   string // which part: `key "general.name"`, `tensor "output.weight"`, `header`, `data`
	Offset int64  // in bytes from the start of the file
	Err    error
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: %s at offset %d: %v", fileName(e.File), e.Item, e.Offset, e.Err)
}

func (e *FormatError) Unwrap() error { return e.Err }

// Tensor is an entry of the table of tensors.
type Tensor struct {
	Name   string
	Type   Type
	Dims   []uint64 // at most four, the contiguous one (columns) first; none for a scalar
	Offset int64    // of the first byte, from the start of the file
	Size   int64    // in bytes
}

// Elements returns the number of elements: the product of Dims, 1 for a scalar.
func (t Tensor) Elements() uint64 {
	n := uint64(1)
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// String describes the tensor for people: "blk.0.attn_q.weight Q8_0 [2048 2048]".
// The name is as [Printable] returns it.
func (t Tensor) String() string {
	return fmt.Sprintf("%s %v %d", Printable(t.Name, maxQuoted), t.Type, t.Dims)
}

// File is an open GGUF file: its metadata and its table of tensors.
type File struct {
	Name       string // the name given to Open
	Version    uint32 // of the format: 2 or 3
	Alignment  int64  // of every tensor's data, in bytes: a power of two
	DataOffset int64  // of the tensor data, from the start of the file; at or past its end if there are no tensors
	KVs        []KV   // the metadata in the file's order
	Tensors    []Tensor
	Files      []string  // that OpenFile opened: the parts of a split model in their order, or the file alone
	Parts      int       // files that the model was split into and this File reads, 1 if it is not split
	Modified   time.Time // when the file was last written, or the last of its parts; zero where OpenFile did not open it

	keys, tensors map[string]int // indices into KVs and Tensors
	src           io.ReaderAt
	size          int64
	closer        io.Closer
}

// Open reads the header of the GGUF file in the first size bytes of r. The name
// is for messages only. The File keeps r, for [File.Reader].
//
// The error is a [*FormatError] for a damaged or unsupported file and wraps
// [ErrNotGGUF] for a file of another format.
func Open(r io.ReaderAt, size int64, name string) (*File, error) {
	if size <= 0 {
		return nil, fmt.Errorf("%s: %w: it is empty", fileName(name), ErrNotGGUF)
	}
	h := newReader(r, size, name)
	if h.fill(int(min(size, 8))); h.err != nil {
		return nil, h.err
	}
	if start := h.window; string(start[:min(len(start), len(magic))]) != magic {
		return nil, fmt.Errorf("%s: %w: it starts with %s", fileName(name), ErrNotGGUF,
			describeStart(start[:min(len(start), 16)]))
	}
	h.next(len(magic))
	f := &File{Name: name, Version: h.uint32(), Alignment: alignment, Parts: 1, src: r, size: size}
	switch v := f.Version; {
	case v == 2 || v == 3 || h.err != nil:
	case v == 1:
		h.failAt(4, "GGUF version 1 is not supported (versions 2 and 3 are): convert the model again")
	case v != 0 && v&0xffff == 0:
		h.failAt(4, "big-endian GGUF (version %d): only little-endian files are supported", bits.ReverseBytes32(v))
	default:
		h.failAt(4, "GGUF version %d is not supported (versions 2 and 3 are)", v)
	}
	nTensors := h.uint64()
	h.fits(nTensors, 8+4+4+8, "tensors", 8)
	nKVs := h.uint64()
	h.fits(nKVs, 8+4+1, "keys", 8)
	if h.err == nil {
		f.readKVs(h, int(nKVs))
	}
	if h.err == nil {
		f.readTensors(h, int(nTensors))
	}
	if h.err == nil {
		f.placeTensors(h, size)
	}
	if h.err != nil {
		return nil, h.err
	}
	return f, nil
}

// OpenFile opens the named GGUF file. If it is a part of a split model, NAME-00001-of-0000N.gguf, it opens the other
// parts beside it too: the File is the whole model. Parts that are missing or do not belong together give [ErrSplit].
// The caller must call [File.Close].
func OpenFile(name string) (*File, error) {
	f, err := openOne(name)
	if err != nil {
		return nil, err
	}
	whole, err := f.openParts()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return whole, nil
}

// openOne opens a file by itself.
func openOne(name string) (*File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s: %w: it is a directory", fileName(name), ErrNotGGUF)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s: %w: it is not a regular file", fileName(name), ErrNotGGUF)
	}
	var f *File
	if err == nil {
		f, err = Open(file, info.Size(), name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f.closer, f.Modified, f.Files = file, info.ModTime(), []string{name}
	return f, nil
}

// Close closes the file if [OpenFile] opened it, and does nothing otherwise.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// With is the file with these values of keys, instead of its own or beside them. It reads from the same source.
func (f *File) With(kvs []KV) *File {
	g := *f
	g.KVs, g.keys = slices.Clone(f.KVs), maps.Clone(f.keys)
	for _, kv := range kvs {
		if i, ok := g.keys[kv.Key]; ok {
			g.KVs[i].Value = kv.Value
			continue
		}
		g.keys[kv.Key] = len(g.KVs)
		g.KVs = append(g.KVs, kv)
	}
	return &g
}

// Reader returns the source that the file is read from. [Tensor].Offset is an
// offset into it.
func (f *File) Reader() io.ReaderAt { return f.src }

// Size is the bytes of the file, or of all parts together.
func (f *File) Size() int64 { return f.size }

// Keys yields the metadata keys in the file's order.
func (f *File) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range f.KVs {
			if !yield(f.KVs[i].Key) {
				return
			}
		}
	}
}

// Tensor returns the tensor with the given name, and whether there is one.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.tensors[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// readKVs reads n times: key, type, value.
func (f *File) readKVs(h *reader, n int) {
	// n entries fit into the file, but a damaged file may still have fewer: allocate as they are read.
	f.KVs = make([]KV, 0, min(n, 64))
	f.keys = make(map[string]int, min(n, 64))
	for i := range n {
		h.item, h.label = "key", strconv.Itoa(i)
		start := h.offset()
		key := h.string(maxKey, "bytes of key")
		if h.err != nil {
			return
		}
		h.label = quote(key)
		if _, ok := f.keys[key]; ok {
			h.failAt(start, "duplicate key")
		}
		value := h.value(ValueType(h.uint32()), 1)
		if key == alignmentKey && h.err == nil {
			a, ok := value.(uint32)
			if !ok {
				h.failAt(start, "%w: %s where a uint32 is needed", ErrType, describe(value))
			} else if bits.OnesCount32(a) != 1 {
				h.failAt(start, "alignment %d is not a power of two", a)
			}
			f.Alignment = int64(a)
		}
		if h.err != nil {
			return
		}
		f.keys[key] = i
		f.KVs = append(f.KVs, KV{key, value})
	}
}

// maxData bounds the bytes of all tensors, so that sums of offsets and sizes do not overflow.
const maxData = 1 << 62

// readTensors reads n times: name, number of dimensions, dimensions, type, offset
// (from the start of the data, which is not known yet). Data lies in the table's order:
// each tensor begins where the one before it ends, rounded up to the alignment.
func (f *File) readTensors(h *reader, n int) {
	f.Tensors = make([]Tensor, 0, min(n, 512))
	f.tensors = make(map[string]int, min(n, 512))
	next := uint64(0)
	for i := range n {
		h.item, h.label = "tensor", strconv.Itoa(i)
		start := h.offset()
		t := Tensor{Name: h.string(maxKey, "bytes of name")}
		if h.err != nil {
			return
		}
		h.label = quote(t.Name)
		if _, ok := f.tensors[t.Name]; ok {
			h.failAt(start, "duplicate tensor name")
		}
		dims := h.uint32()
		if dims > maxDims {
			h.failAt(h.offset()-4, "%d dimensions, at most %d are allowed", dims, maxDims)
			return
		}
		t.Dims = make([]uint64, dims)
		for j := range t.Dims {
			t.Dims[j] = h.uint64()
		}
		t.Type = Type(h.uint32())
		offset := h.uint64()
		if h.err != nil {
			return
		}
		var err error
		if t.Size, err = t.Type.Size(t.Dims...); err != nil {
			h.failAt(start, "%w", err)
			return
		}
		if next > maxData {
			h.failAt(start, "the tensors before it have more bytes than a file can hold")
			return
		}
		if offset != next {
			if i == 0 {
				h.failAt(h.offset()-8, "data offset %d, want 0 for the first tensor", offset)
			} else {
				h.failAt(h.offset()-8, "data offset %d, want %d: the end of tensor %s, aligned to %d", offset, next,
					quote(f.Tensors[i-1].Name), f.Alignment)
			}
			return
		}
		t.Offset = int64(offset)
		next = f.align(next + uint64(t.Size))
		f.tensors[t.Name] = i
		f.Tensors = append(f.Tensors, t)
	}
}

// align rounds n up to the file's alignment.
func (f *File) align(n uint64) uint64 {
	a := uint64(f.Alignment)
	return (n + a - 1) &^ (a - 1)
}

// placeTensors turns offsets into ones from the start of the file, and checks that
// the data of the tensors is the rest of the file: no byte is missing, and none is
// left over but the padding of the last tensor, which may be there or not.
func (f *File) placeTensors(h *reader, size int64) {
	f.DataOffset = int64(f.align(uint64(h.offset())))
	end := f.DataOffset
	for i := range f.Tensors {
		t := &f.Tensors[i]
		// By subtraction: the sums might overflow.
		if room := size - f.DataOffset; t.Offset > room || t.Size > room-t.Offset {
			h.item, h.label = "tensor", quote(t.Name)
			h.failAt(f.DataOffset+t.Offset, "its %d bytes of data are not inside the file, which ends at %d: is it cut short?",
				t.Size, size)
			return
		}
		t.Offset += f.DataOffset
		end = int64(f.align(uint64(t.Offset + t.Size)))
	}
	if size > end {
		h.item, h.label = "data", ""
		h.failAt(end, "%d bytes belong to no tensor: is a type or shape wrong?", size-end)
	}
}

// describeStart quotes the first bytes of a file that is not GGUF, and names the
// format if it is one that users often take for GGUF.
func describeStart(start []byte) string {
	s := string(start)
	quoted := strconv.Quote(s)
	for _, kind := range [...]struct{ prefix, name string }{
		{"\x89PNG", "a PNG image"},
		{"\xff\xd8\xff", "a JPEG image"},
		{"PK\x03\x04", "a zip archive; PyTorch checkpoints are"},
		{"\x1f\x8b", "compressed with gzip"},
		{"(\xb5/\xfd", "compressed with zstd"},
		{"version https://", "a Git LFS pointer; the file itself was not fetched"},
		{"<", "a web page or XML"},
		{"FUGG", "GGUF in another byte order"},
		{"tjgg", "a GGML file from before GGUF; convert the model again"},
		{"fmgg", "a GGML file from before GGUF; convert the model again"},
		{"lmgg", "a GGML file from before GGUF; convert the model again"},
	} {
		if strings.HasPrefix(s, kind.prefix) {
			return quoted + " (" + kind.name + ")"
		}
	}
	if len(s) > 8 && s[8] == '{' {
		return quoted + " (a safetensors file, it seems; convert the model)"
	}
	return quoted
}
