package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// source is where a loader has a model's weights from. Its errors do not name the tensor.
type source interface {
	// matrix is a matrix of the file; nil if the source has shapes alone.
	matrix(p panels.Part) (*tensor.Matrix, error)
	// vector is a tensor's numbers.
	vector(t gguf.Tensor, from tensor.Type) ([]float32, error)
}

// fileSource reads the model's file.
type fileSource struct {
	ctx context.Context
	t   *tensor.Runtime
	r   *progress
}

func (s *fileSource) matrix(p panels.Part) (*tensor.Matrix, error) {
	m, err := tensor.Read(s.ctx, s.t, s.r, p.Source, p.From, p.Rows, p.Cols, p.To)
	if errors.Is(err, tensor.ErrNotFinite) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, err
}

func (s *fileSource) vector(t gguf.Tensor, from tensor.Type) ([]float32, error) {
	if t.Size > math.MaxInt/8 {
		return nil, fmt.Errorf("%d bytes are too many for this machine: %w", t.Size, tensor.ErrMemory)
	}
	raw := make([]byte, t.Size)
	x := make([]float32, t.Elements())
	if n, err := s.r.ReadAt(raw, t.Offset); n < len(raw) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if err := tensor.Decode(from, x, raw); err != nil {
		return nil, err
	}
	if !tensor.Finite(x) {
		i := slices.IndexFunc(x, func(v float32) bool { return v-v != 0 })
		return nil, fmt.Errorf("%w: element %d is %v", ErrDamaged, i, x[i])
	}
	return x, nil
}

// packedSource lists the matrices of a panel file, which brings them into memory; vectors are those of the model's
// file. Without a tensor.Runtime the matrices are listed only.
type packedSource struct {
	fileSource
	layout panels.Layout
}

func (s *packedSource) matrix(p panels.Part) (*tensor.Matrix, error) { return s.layout.Add(s.t, p) }

// noSource is that of a model which is only described.
type noSource struct{}

func (noSource) matrix(panels.Part) (*tensor.Matrix, error) { return nil, nil }

// vector is of ones: factors of 0 would be damaged weights.
func (noSource) vector(t gguf.Tensor, _ tensor.Type) ([]float32, error) {
	if t.Size > math.MaxInt/8 {
		return nil, fmt.Errorf("%d bytes are too many for this machine: %w", t.Size, tensor.ErrMemory)
	}
	return slices.Repeat([]float32{1}, int(t.Elements())), nil
}

// progress counts the bytes that are read through it, by several goroutines.
type progress struct {
	r     io.ReaderAt
	tell  func(done, total int64)
	total int64

	mu   sync.Mutex
	done int64
}

func (p *progress) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.r.ReadAt(b, off)
	if p.tell != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done += int64(n)
		p.tell(p.done, p.total)
	}
	return n, err
}

// finish accounts for tensors that the model has no use for.
func (p *progress) finish() {
	if p.tell != nil && p.done != p.total {
		p.tell(p.total, p.total)
	}
}
