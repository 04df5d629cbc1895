package tensor

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/specgo/spec/asm"
)

// loadBytes is about how much is read from a file at once, per thread: it stays in the second-level cache until it is
// packed.
const loadBytes = 256 << 10

// Pack makes a matrix of raw, GGUF rows of type t: rows * t.RowBytes(cols) bytes. A weight that is NaN or infinite
// gives ErrNotFinite, here and in Read.
func Pack(rt *Runtime, t Type, rows, cols int, raw []byte) (*Matrix, error) {
	if err := checkMatrix(t, rows, cols); err != nil {
		return nil, err
	}
	size := t.RowBytes(cols)
	if len(raw)/rows != size || len(raw)%rows != 0 {
		return nil, shapeError("%d bytes for %d rows of %d bytes", len(raw), rows, size)
	}
	return load(context.Background(), rt, t, rows, cols, t, func(_ *loadScratch, row, n int) ([]byte, error) {
		return raw[row*size:][:n*size], nil
	})
}

// Read makes a matrix of type to from GGUF rows of type from, which begin at byte off of r. Where the types differ
// the weights are decoded and encoded again, as [Decode] and [Encode] do. Every thread reads about 256 KB at a time
// through r.ReadAt, which must allow concurrent calls. A read error names its offset. When ctx is done, Read returns
// its error after the reads in progress.
func Read(ctx context.Context, rt *Runtime, r io.ReaderAt, off int64, from Type, rows, cols int, to Type) (
	*Matrix, error) {
	if err := checkMatrix(from, rows, cols); err != nil {
		return nil, err
	}
	size := from.RowBytes(cols)
	if off < 0 || off+int64(rows)*int64(size) < off {
		return nil, shapeError("offset %d for %d rows of %d bytes", off, rows, size)
	}
	return load(ctx, rt, from, rows, cols, to, func(s *loadScratch, row, n int) ([]byte, error) {
		s.raw = grow(s.raw, n*size)
		at := off + int64(row)*int64(size)
		k, err := r.ReadAt(s.raw, at)
		if k == len(s.raw) {
			return s.raw, nil
		}
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading %d bytes at offset %d: %w", len(s.raw), at, err)
	})
}

// FromFloats makes a matrix of type t of x [rows][cols], encoded as [Encode] does.
func FromFloats(rt *Runtime, t Type, rows, cols int, x []float32) (*Matrix, error) {
	if err := checkMatrix(t, rows, cols); err != nil {
		return nil, err
	}
	if len(x)/rows != cols || len(x)%rows != 0 {
		return nil, shapeError("%d numbers for %d rows of %d", len(x), rows, cols)
	}
	size := t.RowBytes(cols)
	return load(context.Background(), rt, t, rows, cols, t, func(s *loadScratch, row, n int) ([]byte, error) {
		s.raw = grow(s.raw, n*size)
		return s.raw, s.encodeRows(t, s.raw, x[row*cols:][:n*cols], row, cols)
	})
}

// Recode makes a matrix of type to of the values of another one, encoded as [Encode] does. When ctx is done it returns
// its error. m must not be closed meanwhile.
func Recode(ctx context.Context, rt *Runtime, m *Matrix, to Type) (*Matrix, error) {
	if err := checkMatrix(to, m.rows, m.cols); err != nil {
		return nil, err
	}
	size := to.RowBytes(m.cols)
	return load(ctx, rt, to, m.rows, m.cols, to, func(s *loadScratch, row, n int) ([]byte, error) {
		s.raw, s.floats = grow(s.raw, n*size), grow(s.floats, m.cols)
		for i := range n {
			err := m.Row(row+i, s.floats)
			if err == nil {
				err = s.encodeRows(to, s.raw[i*size:][:size], s.floats, row+i, m.cols)
			}
			if err != nil {
				return nil, err
			}
		}
		return s.raw, nil
	})
}

// Gather makes a matrix of rows of another one, in any order, of the same type: row i is row rows[i] of m, the same
// bytes, so that its products are the same bits. When ctx is done it returns its error. m must not be closed
// meanwhile.
func Gather(ctx context.Context, rt *Runtime, m *Matrix, rows []int32) (*Matrix, error) {
	for i, r := range rows {
		if r < 0 || int(r) >= m.rows {
			return nil, shapeError("row %d, number %d of those to gather, of %d", r, i, m.rows)
		}
	}
	if m.memory.data == nil {
		return nil, fmt.Errorf("matrix: %w", ErrClosed)
	}
	to, err := newMatrix(rt, m.t, len(rows), m.cols)
	if err != nil {
		return nil, err
	}
	err = rt.spread(to.panels(), 1, func(p, _ int) error {
		to.gather(p, m, rows)
		return ctx.Err()
	})
	runtime.KeepAlive(m)
	if err != nil {
		to.Close()
		return nil, err
	}
	return to, nil
}

// CopyRow makes row i of m the bytes of row r of another matrix of the same type and width. No product with m may be
// under way.
func (m *Matrix) CopyRow(i int, from *Matrix, r int) error {
	switch {
	case m.t != from.t || m.cols != from.cols:
		return shapeError("a row of %d, %v, for one of %d, %v", from.cols, from.t, m.cols, m.t)
	case i < 0 || i >= m.rows || r < 0 || r >= from.rows:
		return shapeError("row %d of %d for row %d of %d", r, from.rows, i, m.rows)
	case m.memory.data == nil || from.memory.data == nil:
		return fmt.Errorf("matrix: %w", ErrClosed)
	}
	asm.CopyRow(m.t, m.panelData(i/asm.PanelRows, 1), i%asm.PanelRows, from.panelData(r/asm.PanelRows, 1),
		r%asm.PanelRows, m.cols)
	runtime.KeepAlive(from)
	return nil
}

// gather fills panel p with rows of another matrix.
func (m *Matrix) gather(p int, from *Matrix, rows []int32) {
	to := m.panelData(p, 1)
	for i := range asm.PanelRows {
		at := p*asm.PanelRows + i
		if at >= len(rows) {
			asm.ZeroRow(m.t, m.offset, to, i, m.cols)
			continue
		}
		r := int(rows[at])
		asm.CopyRow(m.t, to, i, from.panelData(r/asm.PanelRows, 1), r%asm.PanelRows, m.cols)
	}
}

// encodeRows encodes rows of cols numbers; first is the number of the first one, for the error.
func (s *loadScratch) encodeRows(t Type, dst []byte, x []float32, first, cols int) error {
	size := t.RowBytes(cols)
	for i := range len(x) / cols {
		if t == Q4_0 && s.k.EncodeQ4_0(dst[i*size:][:size], x[i*cols:][:cols]) {
			continue // else Encode says what is wrong
		}
		if err := Encode(t, dst[i*size:][:size], x[i*cols:][:cols]); err != nil {
			return fmt.Errorf("row %d: %w", first+i, err)
		}
	}
	return nil
}

// loadScratch is the buffers of a loading thread; they grow to 256 KB or one panel, whichever is more, and are reused.
type loadScratch struct {
	k       *asm.Kernels // the Runtime's
	raw     []byte       // rows as they come
	floats  []float32    // a row, decoded
	encoded []byte       // a panel's rows in another type
}

// spread calls f for all panels, step of them at a time, with the first and the number, on its own goroutines rather
// than the pool's: loading waits for a disk, and a Runtime has other users. Where threads are bound to memory nodes,
// each calls it for panels of its own node's part. After an error no later panels are begun; of several errors that of
// the first panels is returned.
func (rt *Runtime) spread(panels, step int, f func(panel, n int) error) error {
	place := &rt.place
	var end atomic.Int64 // of the panels that are begun
	end.Store(int64(panels))
	var mu sync.Mutex
	var failure error
	work := func(next *atomic.Int64, to int) {
		for {
			panel := int(next.Add(int64(step))) - step
			if panel >= to || panel >= int(end.Load()) {
				return
			}
			if err := f(panel, min(step, to-panel)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if panel < int(end.Load()) {
					end.Store(int64(panel))
					failure = err
				}
				return
			}
		}
	}
	var wait sync.WaitGroup
	for node := range place.nodes() {
		from, to := place.part(node, panels)
		next := new(atomic.Int64)
		next.Store(int64(from))
		first := place.first[node]
		for i := range min(place.first[node+1]-first, (to-from+step-1)/step) {
			wait.Go(func() {
				_ = place.enter(first + i) // as in Lock
				defer place.leave()
				work(next, to)
			})
		}
	}
	wait.Wait()
	return failure
}

// load fills a matrix of type to. source gives n rows of type from, beginning with row.
func load(ctx context.Context, rt *Runtime, from Type, rows, cols int, to Type,
	source func(s *loadScratch, row, n int) ([]byte, error)) (*Matrix, error) {
	if from != to && !encodable(to) {
		return nil, fmt.Errorf("cannot encode %v: %w", to, ErrType)
	}
	m, err := newMatrix(rt, to, rows, cols)
	if err != nil {
		return nil, err
	}
	step := max(1, loadBytes/(asm.PanelRows*from.RowBytes(cols)))
	err = rt.spread(m.panels(), step, func(panel, n int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, _ := rt.loading.Get().(*loadScratch)
		if s == nil {
			s = &loadScratch{k: &rt.k}
		}
		defer rt.loading.Put(s)
		row := panel * asm.PanelRows
		n = min(n*asm.PanelRows, rows-row)
		raw, err := source(s, row, n)
		if err != nil {
			return err
		}
		return m.fill(s, from, raw, row, n)
	})
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// fill packs n rows of type from, beginning with row, the first of a panel.
func (m *Matrix) fill(s *loadScratch, from Type, raw []byte, row, n int) error {
	if m.memory.release != nil {
		populate(m.memory.data[row/asm.PanelRows*m.panel:][:(n+asm.PanelRows-1)/asm.PanelRows*m.panel])
	}
	size := from.RowBytes(m.cols)
	for done := 0; done < n; done += asm.PanelRows {
		rows := min(asm.PanelRows, n-done)
		panelRaw := raw[done*size:][:rows*size]
		for i := range rows {
			if err := checkFinite(from, panelRaw[i*size:][:size]); err != nil {
				return fmt.Errorf("row %d: %w", row+done+i, err)
			}
		}
		if from != m.t {
			to := m.t.RowBytes(m.cols)
			s.floats = grow(s.floats, m.cols)
			s.encoded = grow(s.encoded, asm.PanelRows*to)
			for i := range rows {
				codecs[from].decode(s.floats, panelRaw[i*size:][:size])
				if err := s.encodeRows(m.t, s.encoded[i*to:][:to], s.floats, row+done+i, m.cols); err != nil {
					return err
				}
			}
			panelRaw = s.encoded[:rows*to]
		}
		asm.Pack(m.t, m.offset, m.panelData((row+done)/asm.PanelRows, 1), panelRaw, rows, m.cols)
	}
	return nil
}

// checkFinite checks that the weights of a row are finite as they are decoded.
func checkFinite(t Type, raw []byte) error {
	b := t.NotFinite(raw)
	if b < 0 {
		return nil
	}
	block := make([]float32, t.BlockWeights())
	codecs[t].decode(block, raw[b*t.BlockBytes():][:t.BlockBytes()])
	i := max(0, firstNotFinite(block))
	return fmt.Errorf("weight %d is %v: %w", b*t.BlockWeights()+i, block[i], ErrNotFinite)
}

// grow returns s with length n, with new memory if need be; its contents are lost then.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
