package quantize

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// chunkWeights is about how many weights are converted at once by a thread.
const chunkWeights = 1 << 18

// Readable returns an error that names the tensor if its type cannot be read.
func Readable(f *gguf.File, t gguf.Tensor) error {
	if _, err := tensorType(t.Type); err != nil {
		return fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
	}
	return nil
}

// Convert writes the tensor t of f to w in a type, on all processors; its bytes as they are where that is its own. It
// calls read, in order, with the number of bytes read since the last call. Errors name the file and the tensor; when
// ctx ends, so does Convert, with its error.
func Convert(ctx context.Context, w io.Writer, f *gguf.File, t gguf.Tensor, to gguf.Type,
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
