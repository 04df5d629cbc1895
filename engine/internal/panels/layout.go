package panels

import (
	"cmp"
	"fmt"
	"math"

	"github.com/specgo/spec/tensor"
)

// Use is what is done with a matrix.
type Use uint8

const (
	Products        Use = iota // it is multiplied with
	ProductsAndRows            // single rows of it are looked up, too
	Rows                       // and nothing else is done with it
)

// Part describes a matrix of a model.
type Part struct {
	Name       string // of its tensor
	Rows, Cols int
	From, To   tensor.Type // in the model's file, and of the panels
	Source     int64       // where its rows begin in the model's file
	Use        Use

	// Matrices of a mixture's expert have its Group, which stands for its layer, and its Number in that, and are read
	// together. Number is -1 for all others.
	Group, Number int
}

// weight is a matrix of a model that has a panel file: the owner of its view.
type weight struct {
	Part

	offset, bytes int64 // of its panels in the file
	piece         int64 // bytes that are read at once
	panel         int   // bytes of one
	first         int   // its first checksum, of a piece
	firstPanel    int   // its first checksum of a panel, where rows are looked up

	w      *tensor.Matrix // nil: the matrices are only listed
	store  *Store
	bound  bool    // in memory for good
	expert *expert // nil: it goes through the ring
	next   *weight // that was used after it the last time
}

// looked reports whether single rows of it are looked up: it has a checksum for each panel, too.
func (p *weight) looked() bool { return p.Use != Products }

// pieces is the number of pieces.
func (p *weight) pieces() int { return int((p.bytes-1)/p.piece) + 1 }

// span is where piece i begins in the matrix, and its bytes.
func (p *weight) span(i int) (at, n int64) {
	at = int64(i) * p.piece
	return at, min(p.piece, p.bytes-at)
}

// panels is the number of panels.
func (p *weight) panels() int { return (p.Rows + 15) / 16 }

// Layout says where a model's matrices are in its panel file. The zero value has none.
type Layout struct {
	parts  []*weight
	header int64 // bytes
	size   int64 // of the file
	sums   int
	piece  int64 // bytes that are read at once: pieceBytes, or 0, which means it; less in tests
}

// Add appends a matrix, and returns its view: a Store of the layout brings it into memory. Without a Runtime the
// matrix is only listed, and there is no view.
func (m *Layout) Add(rt *tensor.Runtime, p Part) (*tensor.Matrix, error) {
	x := &weight{Part: p, piece: cmp.Or(m.piece, pieceBytes), panel: p.To.PanelBytes(p.Cols), first: m.sums}
	x.bytes = int64(x.panels()) * int64(x.panel)
	m.sums += x.pieces()
	if x.firstPanel = m.sums; x.looked() {
		m.sums += x.panels()
	}
	if m.sums > math.MaxInt32 || x.bytes < 1 {
		return nil, fmt.Errorf("%d rows of %d: %w", p.Rows, p.Cols, tensor.ErrShape)
	}
	m.parts = append(m.parts, x)
	if rt == nil {
		return nil, nil
	}
	var err error
	if x.w, err = tensor.NewView(rt, p.To, p.Rows, p.Cols, x); err != nil {
		return nil, err
	}
	if x.w.Bytes() != x.bytes || x.w.PanelBytes() != x.panel {
		return nil, fmt.Errorf("%d bytes, expected %d: %w", x.w.Bytes(), x.bytes, tensor.ErrShape)
	}
	return x.w, nil
}

// Parts lists the matrices.
func (m *Layout) Parts() (list []Part) {
	for _, p := range m.parts {
		list = append(list, p.Part)
	}
	return list
}

// Bytes is the memory of all matrices, each in whole pages.
func (m *Layout) Bytes() (n int64) {
	for _, p := range m.parts {
		n += alignPage(p.bytes)
	}
	return n
}

// place decides where everything is, for a text of so many bytes.
func (m *Layout) place(text int) {
	m.header = alignPage(int64(fixedBytes + text + 4*m.sums + 4))
	at := m.header
	for _, p := range m.parts {
		p.offset = at
		at += alignPage(p.bytes)
	}
	m.size = at
}

// alignPage rounds up to what direct reads are aligned to.
func alignPage(n int64) int64 { return (n + tensor.PageBytes - 1) &^ (tensor.PageBytes - 1) }
