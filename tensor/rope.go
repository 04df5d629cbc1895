package tensor

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/specgo/spec/asm"
)

// RopeStyle says which numbers of a head are turned together.
type RopeStyle uint8

// The styles.
const (
	RopeInterleaved RopeStyle = iota // 2i and 2i+1, as in the paper
	RopeHalves                       // i and i+dim/2, as in GPT-NeoX
)

// RopeTable holds the angles of rotary position embeddings (Su et al., 2021) as cosines and sines, computed once per
// position, the same on every machine. It may be used by several goroutines.
type RopeTable struct {
	freqs []float64 // [dim/2] radians per position
	mu    sync.Mutex
	pages atomic.Pointer[[]*ropePage] // replaced, never changed
}

// ropePage holds asm.Page positions: [position][dim/2].
type ropePage struct{ cos, sin []float32 }

// maxPosition bounds the memory of a table.
const maxPosition = 1 << 26

// NewRopeTable makes a table for heads whose first dim numbers are turned: pair i by position * scale * base^(-2i/dim) /
// freqFactors[i] radians. freqFactors is nil or has dim/2 numbers; scale 0 is 1.
func NewRopeTable(dim int, base float64, freqFactors []float32, scale float64) (*RopeTable, error) {
	if scale == 0 {
		scale = 1
	}
	switch {
	case dim < 2 || dim%2 != 0 || dim > 1<<16:
		return nil, shapeError("rotary embedding of %d dimensions", dim)
	case freqFactors != nil && len(freqFactors) != dim/2:
		return nil, shapeError("%d frequency factors for %d dimensions", len(freqFactors), dim)
	case !(base > 0 && base <= math.MaxFloat64 && scale > 0 && scale <= math.MaxFloat64):
		return nil, shapeError("rotary embedding with base %v, scale %v", base, scale)
	}
	t := &RopeTable{freqs: make([]float64, dim/2)}
	for i := range t.freqs {
		f := scale * asm.Pow(base, -float64(2*i)/float64(dim))
		if freqFactors != nil {
			f /= float64(freqFactors[i])
		}
		if !(math.Abs(f) <= 1e6) {
			return nil, shapeError("rotary embedding turns pair %d by %v per position", i, f)
		}
		t.freqs[i] = f
	}
	t.pages.Store(new([]*ropePage))
	return t, nil
}

// Dim is the number of dimensions turned.
func (t *RopeTable) Dim() int { return 2 * len(t.freqs) }

// At gives the cosines and sines [dim/2] of a position; nil for a negative one or one beyond 2^26.
func (t *RopeTable) At(pos int) (cos, sin []float32) {
	if pos < 0 || pos >= maxPosition {
		return nil, nil
	}
	pages := *t.pages.Load()
	if pos/asm.Page >= len(pages) || pages[pos/asm.Page] == nil {
		pages = t.extend(pos / asm.Page)
	}
	page, n := pages[pos/asm.Page], len(t.freqs)
	from := pos % asm.Page * n
	return page.cos[from:][:n:n], page.sin[from:][:n:n]
}

// extend makes page i.
func (t *RopeTable) extend(i int) []*ropePage {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.pages.Load()
	if i < len(old) && old[i] != nil {
		return old
	}
	pages := make([]*ropePage, max(i+1, len(old)))
	copy(pages, old)
	n := asm.Page * len(t.freqs)
	page := &ropePage{make([]float32, n), make([]float32, n)}
	for p := range asm.Page {
		for k, f := range t.freqs {
			sin, cos := asm.SinCos(float64(float64(i*asm.Page+p) * f))
			page.cos[p*len(t.freqs)+k], page.sin[p*len(t.freqs)+k] = float32(cos), float32(sin)
		}
	}
	pages[i] = page
	t.pages.Store(&pages)
	return pages
}

type ropeJob struct {
	turn           func(x, cos, sin []float32)
	x              []float32
	heads, headDim int
	table          *RopeTable
	positions      []int32
	tokens         int // per unit
	unit           func(worker, unit int)
}

func (j *ropeJob) init(*Runtime) {
	j.unit = func(_, unit int) {
		width := j.heads * j.headDim
		for t := unit * j.tokens; t < min((unit+1)*j.tokens, len(j.positions)); t++ {
			cos, sin := j.table.At(int(j.positions[t]))
			for h := range j.heads {
				j.turn(j.x[t*width+h*j.headDim:][:2*len(cos)], cos, sin)
			}
			safepoint()
		}
	}
}

// Rope turns the first table.Dim() numbers of every head of x [len(positions)][heads][headDim], in place, by the angles of
// the tokens' positions.
func (rt *Runtime) Rope(style RopeStyle, x []float32, heads, headDim int, table *RopeTable, positions []int32) error {
	switch {
	case style > RopeHalves || table == nil || heads < 1 || headDim < table.Dim() || len(positions) == 0:
		return shapeError("rotary embedding of %d heads of %d, %d positions", heads, headDim, len(positions))
	case len(x)/len(positions) != heads*headDim || len(x)%len(positions) != 0:
		return shapeError("%d numbers for %d positions of %d heads of %d", len(x), len(positions), heads, headDim)
	}
	for _, pos := range positions {
		if pos < 0 || pos >= maxPosition {
			return shapeError("position %d", pos)
		}
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	j := &rt.rope
	j.turn = rt.k.RopeInterleaved
	if style == RopeHalves {
		j.turn = rt.k.RopeHalves
	}
	j.x, j.heads, j.headDim, j.table, j.positions = x, heads, headDim, table, positions
	j.tokens = max(1, vectorUnit/(heads*headDim))
	rt.pool.run((len(positions)+j.tokens-1)/j.tokens, j.unit)
	j.x, j.table, j.positions = nil, nil, nil
	return nil
}
