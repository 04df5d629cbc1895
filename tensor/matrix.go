package tensor

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"

	"github.com/specgo/spec/asm"
)

// Matrix is an immutable matrix [rows][cols], packed into panels of 16 rows as the kernels of its Runtime read them.
// It may be used by several goroutines.
type Matrix struct {
	rows, cols int
	t          Type
	offset     bool // asm.MatrixKernels.Offset of the Runtime it was packed for
	panel      int  // bytes per panel
	steps      int  // asm.Format.Steps of a panel
	step       int  // bytes of a panel at each of them
	memory     memory
	owner      any // of a view; nil: the matrix has its own memory
}

// newMatrix allocates a matrix without contents.
func newMatrix(rt *Runtime, t Type, rows, cols int) (*Matrix, error) {
	if err := checkMatrix(t, rows, cols); err != nil {
		return nil, err
	}
	m := &Matrix{rows: rows, cols: cols, t: t, offset: rt.k.Offset, panel: t.PanelBytes(cols), steps: t.Steps(cols)}
	m.step = (m.panel + m.steps - 1) / m.steps
	if err := m.memory.own(rt.arena.allocate(m.panels() * m.panel)); err != nil {
		return nil, fmt.Errorf("matrix of %d x %d, %v: %w", rows, cols, t, err)
	}
	return m, nil
}

func checkMatrix(t Type, rows, cols int) error {
	switch {
	case !t.Valid():
		return fmt.Errorf("type %d: %w", t, ErrType)
	case rows < 1 || cols < 1:
		return shapeError("%d rows, %d columns", rows, cols)
	case cols%t.BlockWeights() != 0:
		return shapeError("%d columns are not a multiple of %d (%v)", cols, t.BlockWeights(), t)
	case cols > math.MaxInt/256:
		return shapeError("%d columns are too many", cols)
	}
	panels := (uint(rows) + asm.PanelRows - 1) / asm.PanelRows
	if high, low := bits.Mul(panels, uint(t.PanelBytes(cols))); high != 0 || low > math.MaxInt/2 {
		return shapeError("%d x %d are too many weights", rows, cols)
	}
	return nil
}

func (m *Matrix) panels() int { return (m.rows + asm.PanelRows - 1) / asm.PanelRows }

// Rows is the number of rows: the numbers a product gives per token.
func (m *Matrix) Rows() int { return m.rows }

// Cols is the number of columns: the numbers a product takes per token.
func (m *Matrix) Cols() int { return m.cols }

// Type is the type of the weights.
func (m *Matrix) Type() Type { return m.t }

// Bytes is the memory of the packed weights: the size of the GGUF rows, plus up to 8 % for the padding of some types
// (IQ3_S: 27 %) and up to 15 zero rows.
func (m *Matrix) Bytes() int64 { return int64(m.panels()) * int64(m.panel) }

// Close frees the memory now; otherwise it is freed when m is collected. No operation may be using m. Later operations
// fail with ErrClosed.
func (m *Matrix) Close() { m.memory.free() }

// Row writes row i, dequantized, into dst [cols]: the embedding of token i.
func (m *Matrix) Row(i int, dst []float32) error {
	switch {
	case i < 0 || i >= m.rows:
		return shapeError("row %d of %d", i, m.rows)
	case len(dst) != m.cols:
		return shapeError("%d numbers for a row of %d", len(dst), m.cols)
	case m.memory.data == nil:
		return fmt.Errorf("matrix: %w", ErrClosed)
	}
	asm.Row(m.t, m.offset, m.panelData(i/asm.PanelRows, 1), i%asm.PanelRows, dst)
	runtime.KeepAlive(m)
	return nil
}

// panelData is the memory of n panels.
func (m *Matrix) panelData(i, n int) []byte {
	return m.memory.data[i*m.panel:][: n*m.panel : n*m.panel]
}
