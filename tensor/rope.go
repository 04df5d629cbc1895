package tensor

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/specgo/spec/asm"
)

// RopeStyle says which numbers of a head make a pair that is rotated.
type RopeStyle uint8

// The styles.
const (
	RopeInterleaved RopeStyle = iota // 2i and 2i+1, as in the paper
	RopeHalves                       // i and i+dim/2, as in GPT-NeoX
)

// RopeTable holds the angles of rotary position embeddings (Su et al., 2021) as cosines and sines, computed once per
// position, the same on every machine. It may be used by several goroutines.
type RopeTable struct {
	freqs     []float64 // [dim/2] radians per position
	magnitude float64   // of the rotation: 1 keeps lengths
	mu        sync.Mutex
	pages     atomic.Pointer[[]*ropePage] // replaced, never changed
}

// ropePage holds asm.Page positions: [position][dim/2].
type ropePage struct{ cos, sin []float32 }

// maxPosition bounds the memory of a table.
const maxPosition = 1 << 26

// RopeOptions describe the angles of a [RopeTable]: pair i is rotated by position * Scale * Base^(-2i/Dims) /
// Factors[i] radians.
type RopeOptions struct {
	Dims    int       // numbers of a head that are rotated, the first ones: an even number
	Base    float64   // of the frequencies
	Factors []float32 // [Dims/2]; nil: all 1
	Scale   float64   // 0 is 1; 1/s stretches the context s times (linear scaling)

	// Magnitude multiplies cosines and sines; 0 is 1.
	Magnitude float64

	// Alpha > 0 multiplies Base by Alpha^(Dims/(Dims-2)).
	Alpha float64

	// Yarn, where Original > 0, applies Scale to slow pairs only (YaRN, Peng et al. 2023, arXiv:2309.00071, section 3.2).
	Yarn Yarn
}

// Yarn says which pairs are scaled: none of those that turn more than Fast times in Original positions, all of those
// that turn less than Slow times, and a linear share of those between. It multiplies Magnitude by 1 + 0.1 ln s
// (section 3.4), where s = 1/Scale > 1; with a LogMultiplier m that is divided by 1 + 0.1 m ln s.
type Yarn struct{ Original, Fast, Slow, LogMultiplier float64 }

// magnitude is the factor of RopeOptions.Magnitude.
func (y *Yarn) magnitude(scale float64) float64 {
	if y.Original == 0 || scale >= 1 {
		return 1
	}
	log := -asm.Log64(scale)
	return (1 + float64(0.1*log)) / (1 + float64(0.1*y.LogMultiplier*log))
}

// keeps gives, for every pair, the share of its frequency that is not scaled.
func (o *RopeOptions) keeps() []float64 {
	y, keep := &o.Yarn, make([]float64, o.Dims/2)
	// pair is the (fractional) pair that turns so many times in Original positions.
	pair := func(turns float64) float64 {
		return float64(o.Dims) * asm.Log64(y.Original/(turns*2*math.Pi)) / (2 * asm.Log64(o.Base))
	}
	low, high := math.Max(0, math.Floor(pair(y.Fast))), math.Min(float64(o.Dims-1), math.Ceil(pair(y.Slow)))
	for i := range keep {
		keep[i] = 1 - math.Min(math.Max((float64(i)-low)/math.Max(0.001, high-low), 0), 1)
	}
	return keep
}

// NewRopeTable makes a table. It fails with ErrShape if a pair would be rotated by more than 10^6 radians per position.
func NewRopeTable(o RopeOptions) (*RopeTable, error) {
	if o.Scale == 0 {
		o.Scale = 1
	}
	if o.Magnitude == 0 {
		o.Magnitude = 1
	}
	positive := func(x float64) bool { return x > 0 && x <= math.MaxFloat64 }
	y := &o.Yarn
	switch {
	case o.Dims < 2 || o.Dims%2 != 0 || o.Dims > 1<<16:
		return nil, shapeError("rotary embedding of %d dimensions", o.Dims)
	case o.Factors != nil && len(o.Factors) != o.Dims/2:
		return nil, shapeError("%d frequency factors for %d dimensions", len(o.Factors), o.Dims)
	case !positive(o.Base) || !positive(o.Scale) || !positive(o.Magnitude):
		return nil, shapeError("rotary embedding with base %v, scale %v, magnitude %v", o.Base, o.Scale, o.Magnitude)
	case o.Alpha != 0 && (!positive(o.Alpha) || o.Dims < 4):
		return nil, shapeError("rotary embedding of %d dimensions with alpha %v", o.Dims, o.Alpha)
	case y.Original != 0 && !(positive(y.Original) && positive(y.Fast) && positive(y.Slow) && o.Base > 1):
		return nil, shapeError("rotary embedding with base %v, YaRN over %v positions, %v to %v turns", o.Base, y.Original,
			y.Slow, y.Fast)
	}
	if o.Alpha > 0 {
		o.Base *= asm.Pow(o.Alpha, float64(o.Dims)/float64(o.Dims-2))
	}
	t := &RopeTable{freqs: make([]float64, o.Dims/2), magnitude: o.Magnitude * y.magnitude(o.Scale)}
	var keep []float64
	if y.Original != 0 {
		keep = o.keeps()
	}
	for i := range t.freqs {
		scale := o.Scale
		if keep != nil {
			scale = float64(o.Scale*(1-keep[i])) + keep[i]
		}
		f := scale * asm.Pow(o.Base, -float64(2*i)/float64(o.Dims))
		if o.Factors != nil {
			f /= float64(o.Factors[i])
		}
		if !(math.Abs(f) <= 1e6) {
			return nil, shapeError("rotary embedding rotates pair %d by %v radians per position", i, f)
		}
		t.freqs[i] = f
	}
	t.pages.Store(new([]*ropePage))
	return t, nil
}

// Dim is the number of dimensions that are rotated.
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
			page.cos[p*len(t.freqs)+k], page.sin[p*len(t.freqs)+k] = float32(cos*t.magnitude), float32(sin*t.magnitude)
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

// Rope rotates the first table.Dim() numbers of every head of x [len(positions)][heads][headDim], in place, by the
// angles of the tokens' positions.
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
