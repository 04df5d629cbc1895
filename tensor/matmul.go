package tensor

import (
	"fmt"
	"runtime"

	"github.com/specgo/spec/asm"
)

// Product is a matrix to multiply an [Input] with.
type Product struct {
	W    *Matrix
	Bias []float32 // [rows], added last; nil is none
	Out  []float32 // [tokens][rows], overwritten; shares no memory with other products' or the input
}

// unitBytes is about how many bytes of weights, counted once per tile of tokens, make a unit of work worth claiming.
const unitBytes = 64 << 10

type matmulJob struct {
	rt           *Runtime
	in           *Input
	products     []productUnits
	edges        []float32 // [thread][8 tokens][16 rows]: outputs of panels that are not full
	unit         func(worker, unit int)
	quantizeUnit func(worker, unit int)
	floatUnit    func(worker, unit int)
}

// productUnits is a product and how it is cut: into groups of panels, and for few panels and many tokens also of tiles.
type productUnits struct {
	Product
	first      int // its first unit
	panels     int // per unit
	tiles      int // per unit
	tileGroups int
}

func (j *matmulJob) init(rt *Runtime) {
	j.rt = rt
	j.edges = make([]float32, rt.Threads()*asm.TileTokens*asm.PanelRows)
	j.unit = j.multiply
	j.quantizeUnit = func(_, unit int) { j.in.quantizeTile(&rt.k, unit) }
	j.floatUnit = func(_, unit int) { j.in.floatTile(unit) }
}

// MatMul computes out[token][row] = sum over cols of w[row][col]*x[token][col], plus the bias, for all products, in one
// parallel phase. It checks shapes before it writes anything; activations that are NaN or infinite give ErrNotFinite.
func (rt *Runtime) MatMul(in *Input, products ...Product) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	j := &rt.matmul
	for i := range products {
		if err := j.check(in, &products[i]); err != nil {
			return fmt.Errorf("product %d: %w", i, err)
		}
	}
	j.in, j.products = in, j.products[:0]
	defer j.forget()
	units := 0
	for _, p := range products {
		if err := in.prepare(rt, p.W.t); err != nil {
			return err
		}
		units += j.add(p, units)
	}
	rt.pool.run(units, j.unit)
	return nil
}

func (j *matmulJob) check(in *Input, p *Product) error {
	switch {
	case p.W == nil:
		return shapeError("no matrix")
	case p.W.memory.data == nil:
		return fmt.Errorf("matrix: %w", ErrClosed)
	case in == nil || in.tokens == 0:
		return shapeError("no input")
	case p.W.cols != in.cols:
		return shapeError("%d x %d matrix for inputs of %d", p.W.rows, p.W.cols, in.cols)
	case p.Bias != nil && len(p.Bias) != p.W.rows:
		return shapeError("bias of %d for %d rows", len(p.Bias), p.W.rows)
	case len(p.Out)/p.W.rows != in.tokens || len(p.Out)%p.W.rows != 0:
		return shapeError("output of %d for %d tokens, %d rows", len(p.Out), in.tokens, p.W.rows)
	case j.rt.k.MatMul[p.W.t] == nil:
		return fmt.Errorf("no kernel for %v: %w", p.W.t, ErrType)
	case p.W.t == Q8_0 && p.W.offset != j.rt.k.Offset:
		return fmt.Errorf("matrix was packed for other kernels than %s: %w", j.rt.k.Name, ErrType)
	}
	return nil
}

// add cuts a product into units, of which there are to be several per thread, and returns their number.
func (j *matmulJob) add(p Product, first int) int {
	tiles, panels, threads := len(j.in.tiles), p.W.panels(), j.rt.Threads()
	u := productUnits{Product: p, first: first, panels: 1, tiles: tiles}
	u.panels = max(1, min(unitBytes/(p.W.panel*tiles), panels/(4*threads)))
	groups := (panels + u.panels - 1) / u.panels
	u.tileGroups = max(1, min(tiles, 4*threads/groups))
	u.tiles = (tiles + u.tileGroups - 1) / u.tileGroups
	j.products = append(j.products, u)
	return groups * u.tileGroups
}

// multiply is a unit: every panel of its group, which stays in the cache meanwhile, with every tile of its group.
func (j *matmulJob) multiply(worker, unit int) {
	i := len(j.products) - 1
	for j.products[i].first > unit {
		i--
	}
	p := &j.products[i]
	unit -= p.first
	w, rows, kernel := p.W, p.W.rows, j.rt.k.MatMul[p.W.t]
	edge := j.edges[worker*asm.TileTokens*asm.PanelRows:][:asm.TileTokens*asm.PanelRows]
	firstTile := unit % p.tileGroups * p.tiles
	tiles := j.in.tiles[min(firstTile, len(j.in.tiles)):min(firstTile+p.tiles, len(j.in.tiles))]
	firstPanel := unit / p.tileGroups * p.panels
	for panel := firstPanel; panel < min(firstPanel+p.panels, w.panels()); panel++ {
		data := w.panelData(panel)
		row := panel * asm.PanelRows
		n := min(asm.PanelRows, rows-row)
		for t := range tiles {
			x := &tiles[t]
			out := p.Out[(firstTile+t)*asm.TileTokens*rows+row:]
			if n == asm.PanelRows {
				kernel(data, x, out, rows)
			} else {
				kernel(data, x, edge, asm.PanelRows)
				for t := range x.Tokens {
					copy(out[t*rows:][:n], edge[t*asm.PanelRows:])
				}
			}
			if p.Bias != nil {
				bias := p.Bias[row:][:n]
				for t := range x.Tokens {
					o := out[t*rows:][:n]
					for r, b := range bias {
						o[r] += b
					}
				}
			}
			safepoint()
		}
	}
}

// forget drops the references to what belongs to the caller, and keeps the matrices' memory mapped until then.
func (j *matmulJob) forget() {
	for i := range j.products {
		runtime.KeepAlive(j.products[i].W)
	}
	clear(j.products)
	j.in = nil
}
