package tensor

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/specgo/spec/asm"
)

// NewView makes a view: a matrix without memory of its own. [Matrix.Bind] sets the memory of its panels, any number
// of times, so that they can be read from a file just before a product, into memory that another view has used. owner
// is what [Matrix.Owner] returns. Products with a view that is not bound fail with ErrClosed.
func NewView(rt *Runtime, t Type, rows, cols int, owner any) (*Matrix, error) {
	if err := checkMatrix(t, rows, cols); err != nil {
		return nil, err
	}
	m := &Matrix{rows: rows, cols: cols, t: t, offset: rt.k.Offset, panel: t.PanelBytes(cols), steps: t.Steps(cols),
		owner: owner}
	m.step = (m.panel + m.steps - 1) / m.steps
	return m, nil
}

// Owner is what the view was made with; nil for other matrices.
func (m *Matrix) Owner() any { return m.owner }

// Bind makes panels the memory of a view; nil unbinds it. panels must begin at a multiple of 64 bytes, be m.Bytes()
// long, hold the panels as the Runtime's kernels read them, and live as long as the view is bound. No operation may
// be using m.
func (m *Matrix) Bind(panels []byte) error {
	switch {
	case m.owner == nil:
		return shapeError("a matrix with memory of its own")
	case panels == nil:
		m.memory.data = nil
		return nil
	case int64(len(panels)) != m.Bytes():
		return shapeError("%d bytes of panels, expected %d", len(panels), m.Bytes())
	case uintptr(unsafe.Pointer(&panels[0]))&63 != 0:
		return shapeError("panels that do not begin at a multiple of 64 bytes")
	}
	m.memory.data = panels
	return nil
}

// Panels is the memory of the matrix: panels of [Matrix.PanelBytes] each, of 16 rows. It must not be changed. nil if
// m is closed or a view that is not bound.
func (m *Matrix) Panels() []byte { return m.memory.data }

// PanelBytes is the size of a panel.
func (m *Matrix) PanelBytes() int { return m.panel }

// PanelRow writes row i, dequantized, into dst [cols]; panel is the bytes of the panel that has the row, number i/16.
func (m *Matrix) PanelRow(panel []byte, i int, dst []float32) error {
	switch {
	case i < 0 || i >= m.rows:
		return shapeError("row %d of %d", i, m.rows)
	case len(dst) != m.cols:
		return shapeError("%d numbers for a row of %d", len(dst), m.cols)
	case len(panel) != m.panel:
		return shapeError("a panel of %d bytes, expected %d", len(panel), m.panel)
	}
	asm.Row(m.t, m.offset, panel, i%asm.PanelRows, dst)
	return nil
}

// PanelLayout names the layout of the Runtime's panels: two Runtimes with the same name have the same bytes for the
// same weights.
func (rt *Runtime) PanelLayout() string {
	if rt.k.Offset {
		return "offset"
	}
	return "plain"
}

// PageBytes is what a [Buffer] is aligned to: enough for direct reads from any disk.
const PageBytes = 4096

// Buffer is memory for panels, outside Go's heap where the system has that. It is freed by Close, or when it is
// collected.
type Buffer struct {
	Data   []byte // begins at a multiple of PageBytes
	memory memory
}

// NewBuffer makes a buffer of n bytes, which are zero.
func NewBuffer(n int64) (*Buffer, error) {
	b := new(Buffer)
	if n < 1 {
		return nil, shapeError("a buffer of %d bytes", n)
	}
	if n > math.MaxInt-PageBytes { // on 32-bit processors
		return nil, fmt.Errorf("buffer of %d bytes: %w", n, ErrMemory)
	}
	if err := b.memory.allocate(int(n) + PageBytes); err != nil {
		return nil, fmt.Errorf("buffer: %w", err)
	}
	skip := -int(uintptr(unsafe.Pointer(&b.memory.data[0]))) & (PageBytes - 1)
	b.Data = b.memory.data[skip:][:n:n]
	return b, nil
}

// Close frees the memory. Nobody may be using it.
func (b *Buffer) Close() {
	b.Data = nil
	b.memory.free()
	runtime.KeepAlive(b)
}

// LimitThreads makes operations use at most n of the Runtime's threads from now on, at least one; n >= Threads takes
// the limit away. Threads that read a file in the meantime need a processor now and then, and kernels cannot be
// interrupted.
func (rt *Runtime) LimitThreads(n int) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.pool.setLimit(n)
}
