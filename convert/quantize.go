package convert

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// chunkWeights is about how many weights are converted at once by a thread.
const chunkWeights = 1 << 18

// A Quantization is a GGUF file's tensors with the types that they get.
type Quantization struct {
	Counts        map[string]int // tensors of each type, by its name in small letters
	Bytes, Before int64          // of all weights, as they will be and as they are

	file    *gguf.File
	mixture Mixture
	types   []gguf.Type // of the tensors of file
}

// Quantize chooses the types of a file's tensors, and writes nothing yet. Errors name the file and a tensor whose type
// cannot be read. The file must stay open.
func Quantize(f *gguf.File, m Mixture) (*Quantization, error) {
	q := &Quantization{Counts: map[string]int{}, file: f, mixture: m}
	facts := FactsOf(f)
	for _, t := range f.Tensors {
		to := m.Requantized(t.Name, t.Dims, t.Type, facts)
		if to != t.Type {
			if _, err := tensorType(t.Type); err != nil {
				return nil, fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
			}
		}
		size, err := to.Size(t.Dims...)
		if err != nil {
			return nil, fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
		}
		q.Counts[strings.ToLower(to.String())]++
		q.Bytes, q.Before = q.Bytes+size, q.Before+t.Size
		q.types = append(q.types, to)
	}
	return q, nil
}

// Write writes the GGUF file. It calls progress, which may be nil, with the bytes of weights that were read and all of
// them. When ctx ends, so does Write, with its error.
func (q *Quantization) Write(ctx context.Context, w io.Writer, progress func(done, total int64)) error {
	var done int64
	read := func(n int64) {
		if done += n; progress != nil {
			progress(done, q.Before)
		}
	}
	tensors := make([]gguf.TensorSource, len(q.types))
	for i, t := range q.file.Tensors {
		tensors[i] = gguf.TensorSource{Name: t.Name, Type: q.types[i], Dims: t.Dims, Write: func(w io.Writer) error {
			return writeTensor(ctx, w, q.file, t, q.types[i], read)
		}}
	}
	if err := gguf.Write(w, metadata(q.file, q.mixture.FileType), tensors); err != nil {
		return err
	}
	return ctx.Err()
}

// metadata is f's own, but for the keys that state the type.
func metadata(f *gguf.File, fileType uint32) (kvs []gguf.KV) {
	own := []gguf.KV{
		{Key: "general.file_type", Value: fileType},
		{Key: "general.quantization_version", Value: uint32(2)},
	}
	for key := range f.Keys() {
		if !slices.ContainsFunc(own, func(kv gguf.KV) bool { return kv.Key == key }) {
			v, _ := f.Value(key)
			kvs = append(kvs, gguf.KV{Key: key, Value: v})
		}
	}
	return append(kvs, own...)
}

// writeTensor writes the tensor t of f to w in a type, on all processors; its bytes as they are where that is its own.
// It calls read, in order, with the number of bytes read since the last call. Errors name the file and the tensor; when
// ctx ends, so does writeTensor, with its error.
func writeTensor(ctx context.Context, w io.Writer, f *gguf.File, t gguf.Tensor, to gguf.Type,
	read func(bytes int64)) error {
	cols := uint64(1)
	if len(t.Dims) > 0 {
		cols = t.Dims[0]
	}
	if cols == 0 {
		return nil
	}
	rows := t.Elements() / cols
	step := max(1, chunkWeights/cols)

	type result struct {
		encoded []byte
		read    int64
		err     error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pending := make(chan chan result, runtime.GOMAXPROCS(0)) // in the order of the rows
	go func() {
		defer close(pending)
		for at := uint64(0); at < rows; at += step {
			done := make(chan result, 1)
			select {
			case pending <- done:
			case <-ctx.Done():
				return
			}
			go func() {
				var r result
				r.encoded, r.read, r.err = convertRows(f, t, to, at*cols, min(step, rows-at)*cols)
				done <- r
			}()
		}
	}()
	for done := range pending {
		r := <-done
		if r.err != nil {
			return fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, r.err)
		}
		if _, err := w.Write(r.encoded); err != nil {
			return err
		}
		read(r.read)
	}
	return ctx.Err()
}

// convertRows converts n weights from the first on, which are whole rows, and says how many bytes it read.
func convertRows(f *gguf.File, t gguf.Tensor, to gguf.Type, first, n uint64) (encoded []byte, read int64, err error) {
	skip, err := t.Type.Size(first)
	if err != nil && first > 0 {
		return nil, 0, err
	}
	size, err := t.Type.Size(n)
	if err != nil {
		return nil, 0, err
	}
	raw := make([]byte, size)
	if k, err := f.Reader().ReadAt(raw, t.Offset+skip); k < len(raw) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, 0, err
	}
	if t.Type == to {
		return raw, int64(len(raw)), nil
	}
	from, err := tensorType(t.Type)
	if err != nil {
		return nil, 0, err
	}
	into, err := tensorType(to)
	if err != nil {
		return nil, 0, err
	}
	x := make([]float32, n)
	if err := tensor.Decode(from, x, raw); err != nil {
		return nil, 0, err
	}
	if size, err = to.Size(n); err != nil {
		return nil, 0, err
	}
	encoded = make([]byte, size)
	return encoded, int64(len(raw)), tensor.Encode(into, encoded, x)
}

// tensorType is the type of that name, or an error that gives the name.
func tensorType(t gguf.Type) (tensor.Type, error) {
	typ, err := tensor.ParseType(strings.ToLower(t.String()))
	if err != nil {
		return 0, fmt.Errorf("type %v: %w", t, tensor.ErrType)
	}
	return typ, nil
}
