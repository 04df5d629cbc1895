package tensor

import (
	"cmp"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/asm"
)

// Product is a matrix to multiply an [Input] with.
type Product struct {
	W     *Matrix
	Scale float32   // what the sums are multiplied by, before the bias; 0 is none
	Bias  []float32 // [rows], added last; nil is none
	Out   []float32 // [tokens][rows], overwritten; shares no memory with other products' or the inputs
	In    *Input    // its own input; nil: MatMul's
}

// claimBytes is about the fewest bytes of weights, counted once per tile of tokens, that a thread claims at a time:
// with fewer the cost of the atomic operation would be measurable.
const claimBytes = 16 << 10

// maxGroup is the most tokens in an item.
const maxGroup = asm.MostTokens

// matmulJob is the state of a MatMul. An item of work is a panel and a group of tiles. The items, in the order of
// memory, are cut into one share for each thread, which goes through its own from the front, because prefetching
// helps only where the same thread continues; a thread that is done takes items from the backs of the others' shares.
// Where threads are bound to memory nodes, the items of a node's panels, of all products, come one after the other, and
// are the shares of its threads; a thread that is done takes from those of its own node first.
type matmulJob struct {
	rt           *Runtime
	in           *Input // that is prepared
	products     []productItems
	runs         []run
	items        int
	shares       []share // of which the first parts are in use
	parts        int
	step         uint32    // items to claim at a time
	distance     int       // bytes from a panel's weights to those that are prefetched, where it is read once
	cache        int       // bytes of the L2 cache
	buffers      []byte    // [thread][MatrixKernels.TilesBytes], for kernels that take a buffer
	inflated     [][]byte  // [thread], a panel of a compact type as kernels take it
	edges        []float32 // [thread][tokens][16 rows]: outputs of panels that are not full
	unit         func(worker, unit int)
	quantizeUnit func(worker, unit int)
	largeUnit    func(worker, unit int)
	floatUnit    func(worker, unit int)
	form         asm.TileForm // that formUnit makes
	formUnit     func(worker, unit int)
}

// productItems is a product, with the input that it takes, and how it becomes items.
type productItems struct {
	Product
	tiled  bool
	tiles  []asm.Tile // of the whole input
	size   int        // tokens of a tile
	group  int        // tiles in a group; there are several groups only where panels are few or tokens many
	panels int
}

// run is the items of a product's panels that are of one node: all with the first group of tiles, then with the next
// one.
type run struct {
	product       int
	first         int // its first item
	panel, panels int
}

// share is a run of items that nobody has claimed: the next one in the upper half, the end in the lower.
type share struct {
	items atomic.Uint64
	_     [56]byte
}

func (s *share) set(next, end int) { s.items.Store(uint64(next)<<32 | uint64(end)) }

// take claims half of what is left, at least least items if there are as many, from the front or from the back. An
// atomic operation waits for all reads under way, so few large claims are better than many small ones.
func (s *share) take(least uint32, back bool) (from, to int) {
	return s.claim(least, 1<<32-1, back)
}

// claim is take for at most so many items.
func (s *share) claim(least, most uint32, back bool) (from, to int) {
	for {
		old := s.items.Load()
		next, end := uint32(old>>32), uint32(old)
		if next >= end {
			return 0, 0
		}
		n := min(max(least, (end-next)/2), end-next, most)
		if back {
			if s.items.CompareAndSwap(old, old-uint64(n)) {
				return int(end - n), int(end)
			}
		} else if s.items.CompareAndSwap(old, old+uint64(n)<<32) {
			return int(next), int(next + n)
		}
	}
}

func (j *matmulJob) init(rt *Runtime) {
	j.rt = rt
	j.cache = cmp.Or(asm.CPU().L2, 512<<10)
	j.shares = make([]share, rt.Threads())
	j.inflated = make([][]byte, rt.Threads())
	j.edges = make([]float32, rt.Threads()*maxGroup*asm.PanelRows)
	j.buffers = make([]byte, rt.Threads()*rt.k.TilesBytes)
	j.unit = j.work
	j.quantizeUnit = func(_, unit int) { j.in.quantizeTile(&rt.k, unit) }
	j.largeUnit = func(_, unit int) { j.in.quantizeLarge(&rt.k, unit) }
	j.floatUnit = func(_, unit int) { j.in.floatTile(&rt.k, unit) }
	j.formUnit = func(_, unit int) { rt.k.Forms[j.form](&j.in.tiles[unit]) }
}

// MatMul computes out[token][row] = sum over cols of w[row][col]*x[token][col], times the scale, plus the bias, for all
// products, in one parallel phase. Scale and bias are one rounding each. in may be nil if every product has its own.
// It checks shapes before it writes anything; activations that are NaN or infinite give ErrNotFinite.
func (rt *Runtime) MatMul(in *Input, products ...Product) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	j := &rt.matmul
	for i := range products {
		if err := j.check(cmp.Or(products[i].In, in), &products[i]); err != nil {
			return fmt.Errorf("product %d: %w", i, err)
		}
	}
	j.products = j.products[:0]
	defer j.forget()
	size, tiles, tokens, bytes := 0, 0, 0, 0
	for _, p := range products {
		j.in = cmp.Or(p.In, in)
		if err := j.in.prepare(rt, p.W.t); err != nil {
			return err
		}
		j.add(p)
		size, tiles = max(size, p.W.panel), max(tiles, len(j.in.tiles))
		tokens, bytes = max(tokens, j.in.tokens), bytes+p.W.panel*p.W.panels()
	}
	j.cut()
	j.setStep(size, tiles)
	var tuned *tuning
	var start time.Time
	j.distance = prefetchDistance
	if p := &j.products[0]; rt.k.Prefetches && j.ahead(p.W, p.tiles) {
		if j.distance, tuned = rt.ahead.begin(p.W, tokens, bytes); tuned != nil {
			start = time.Now()
		}
	}
	rt.pool.run(min(rt.Threads(), j.items), j.unit)
	if tuned != nil {
		tuned.took += time.Since(start)
	}
	return nil
}

// setStep sets the fewest items that are claimed, of panels of at most so many bytes and inputs of at most so many
// tiles.
func (j *matmulJob) setStep(size, tiles int) {
	j.step = uint32(max(1, min(max(2, claimBytes/(size*tiles)), j.items/(4*j.rt.Threads()))))
}

// cut numbers the items, node by node, and cuts those of each node into shares of its threads.
func (j *matmulJob) cut() {
	place := &j.rt.place
	j.runs, j.items, j.parts = j.runs[:0], 0, 0
	for node := range place.nodes() {
		first := j.items
		for i := range j.products {
			p := &j.products[i]
			if from, to := place.part(node, p.panels); from < to {
				j.runs = append(j.runs, run{i, j.items, from, to - from})
				j.items += (to - from) * ((len(p.tiles) + p.group - 1) / p.group)
			}
		}
		threads, items := place.first[node+1]-place.first[node], j.items-first
		if !place.binds() {
			threads = min(threads, items)
		}
		from := first
		for i := range threads {
			to := first + (i+1)*items/threads
			j.shares[j.parts].set(from, to)
			from = to
			j.parts++
		}
	}
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
	case len(p.Out) != in.tokens*p.W.rows:
		return shapeError("output of %d for %d tokens, %d rows", len(p.Out), in.tokens, p.W.rows)
	case j.rt.k.Weights[p.W.t].MatMul == nil:
		return fmt.Errorf("no kernel for %v: %w", p.W.t, ErrType)
	case p.W.t.Offset() && p.W.offset != j.rt.k.Offset:
		return fmt.Errorf("matrix was packed for other kernels than %s: %w", j.rt.k.Name, ErrType)
	}
	return nil
}

// add appends a product with j.in.
func (j *matmulJob) add(p Product) {
	u := productItems{Product: p, panels: p.W.panels(), group: 1}
	u.In = j.in
	u.tiles, u.size = j.in.tilesFor(j.rt, p.W.t)
	u.tiled = j.rt.tiled(p.W.t, j.in.tokens)
	if tiles := len(u.tiles); tiles > 1 {
		most, least := maxGroup/u.size, 1
		if u.tiled {
			least = max(1, j.rt.k.Weights[p.W.t].TilesFrom/u.size)
		}
		groups := max((tiles+most-1)/most, min(tiles/least, 4*j.rt.Threads()/u.panels))
		u.group = (tiles + groups - 1) / groups
	}
	j.products = append(j.products, u)
}

// work does the items of a share, that of the worker where it is bound to a node, and then those left in the others.
func (j *matmulJob) work(worker, unit int) {
	var r reader
	for i := range j.parts {
		s := &j.shares[j.share(worker, unit, i)]
		for {
			from, to := s.take(j.step, i > 0)
			if from == to {
				break
			}
			for item := from; item < to; {
				item += j.multiply(worker, item, to-item, &r)
			}
		}
	}
}

// share is the share that a worker takes items from after i others.
func (j *matmulJob) share(worker, unit, i int) int {
	if j.rt.place.binds() {
		return j.rt.place.neighbor(worker, i)
	}
	return (unit + i) % j.parts
}

// tokenTiles are the tiles of an item. tiled: for [asm.WeightKernels].MatMulTiles.
type tokenTiles struct {
	tiles  []asm.Tile
	tokens int
	tiled  bool
}

// tiled reports whether a product of that many tokens is faster by the kernel for several tiles.
func (rt *Runtime) tiled(t Type, tokens int) bool {
	return rt.k.Weights[t].MatMulTiles != nil && tokens >= rt.k.Weights[t].TilesFrom
}

// find is the run of an item; *last is the number of the run of a worker's last item, to search from.
func (j *matmulJob) find(item int, last *int) *run {
	for j.runs[*last].first > item {
		*last--
	}
	for *last+1 < len(j.runs) && j.runs[*last+1].first <= item {
		*last++
	}
	return &j.runs[*last]
}

// multiply does an item, or several adjacent whole panels at once, and returns how many: at most most if panels are
// read once or expanded; else two, where they and what is prefetched fit into the second-level cache.
func (j *matmulJob) multiply(worker, item, most int, r *reader) int {
	u := j.find(item, &r.run)
	p := &j.products[u.product]
	item -= u.first
	w, rows := p.W, p.W.rows
	firstTile := item / u.panels * p.group
	tiles := p.tiles[firstTile:min(firstTile+p.group, len(p.tiles))]
	tokens := min(len(tiles)*p.size, p.In.tokens-firstTile*p.size)
	panel := u.panel + item%u.panels
	row := panel * asm.PanelRows
	if j.rt.k.Weights[w.t].Inflate != nil {
		most = 1
	} else if !p.tiled && !j.onePass(w, tiles) {
		most = min(most, 2)
		if fit := 4*w.panel <= j.cache || len(tiles) > 2 && j.rt.k.Weights[w.t].MatMulPair != nil; !fit {
			most = 1
		}
	}
	count := max(1, min(most, min(rows/asm.PanelRows, u.panel+u.panels)-panel))
	n := min(count*asm.PanelRows, rows-row)
	out := p.Out[firstTile*p.size*rows+row:]
	x := &tokenTiles{tiles, tokens, p.tiled}
	if n >= asm.PanelRows {
		j.kernel(worker, w, panel, count, x, out, rows, r)
	} else {
		edge := j.edges[worker*maxGroup*asm.PanelRows:]
		j.kernel(worker, w, panel, count, x, edge, asm.PanelRows, r)
		for t := range tokens {
			copy(out[t*rows:][:n], edge[t*asm.PanelRows:])
		}
	}
	if p.Scale != 0 {
		for t := range tokens {
			multiplyBy(out[t*rows:][:n], p.Scale)
		}
	}
	if p.Bias != nil {
		bias := p.Bias[row:][:n]
		for t := range tokens {
			j.rt.k.Add(out[t*rows:][:n], bias)
		}
	}
	return count
}

// onePass reports whether a panel is read only once: then nothing has to stay in a cache, and the pass prefetches
// what follows.
func (j *matmulJob) onePass(w *Matrix, tiles []asm.Tile) bool {
	return len(tiles) == 1 && j.rt.k.FirstPass(w.t, tiles[0].Tokens) == tiles[0].Tokens
}

// ahead reports whether a product's panels are prefetched at the job's distance.
func (j *matmulJob) ahead(w *Matrix, tiles []asm.Tile) bool {
	return j.onePass(w, tiles) && j.rt.k.Weights[w.t].Inflate == nil && !j.rt.tiled(w.t, tiles[0].Tokens)
}

// kernel multiplies panels with tiles: any number in one pass, else one or two. A kernel for two panels is faster
// where arithmetic is the limit: with at least two whole tiles.
func (j *matmulJob) kernel(worker int, w *Matrix, panel, count int, x *tokenTiles, out []float32, stride int,
	r *reader) {
	k, tiles := &j.rt.k, x.tiles
	if k.Weights[w.t].Inflate != nil {
		j.compact(worker, w, panel, x, out, stride)
		return
	}
	if x.tiled {
		ahead := asm.Prefetch{From: prefetchDistance, Step: w.step}
		j.many(worker, w, w.panelData(panel, count), count, x, out, stride, ahead)
		return
	}
	one, two := k.Weights[w.t].MatMul, k.Weights[w.t].MatMulPair
	if j.onePass(w, tiles) {
		ahead := asm.Prefetch{From: j.distance, Step: w.step}
		if several := k.Weights[w.t].MatMulPanels; several != nil && x.tokens <= k.Weights[w.t].PanelsTokens {
			several(w.panelData(panel, count), count, &tiles[0], out, stride, ahead)
			safepoint()
			return
		}
		for p := range count {
			one(w.panelData(panel+p, 1), &tiles[0], out[p*asm.PanelRows:], stride, ahead)
			safepoint()
		}
		return
	}
	together := two != nil && count == 2 && len(tiles) > 1 && tiles[1].Tokens == asm.TileTokens
	cold := r.begin(k, w, panel, count, together, tiles)
	for i := range tiles {
		x, out := &tiles[i], out[i*asm.TileTokens*stride:]
		if together && x.Tokens == asm.TileTokens && !(cold && i == 0) {
			two(w.panelData(panel, 2), x, out, stride, r.prefetch(panel, 2, i, x.Tokens))
			safepoint()
			continue
		}
		for p := range count {
			one(w.panelData(panel+p, 1), x, out[p*asm.PanelRows:], stride, r.prefetch(panel+p, 1, i, x.Tokens))
			safepoint()
		}
	}
}

// many multiplies panels by the kernel for several tiles.
func (j *matmulJob) many(worker int, w *Matrix, panels []byte, count int, x *tokenTiles, out []float32, stride int,
	ahead asm.Prefetch) {
	size := j.rt.k.TilesBytes
	j.rt.k.Weights[w.t].MatMulTiles(panels, count, x.tiles, x.tokens, out, stride, j.buffers[worker*size:][:size], ahead)
	safepoint()
}

// compact multiplies a panel of a compact type with tiles: with one token as it is, where there is a kernel for that.
// Else it is inflated once for all of them, into memory that stays in the second-level cache. Inflating prefetches what
// comes asm.InflateDistance later; the last tile's product, which reads no other memory and takes about half as long, a
// third of a panel after that, as do several tiles' products.
func (j *matmulJob) compact(worker int, w *Matrix, panel int, x *tokenTiles, out []float32, stride int) {
	if direct := j.rt.k.Weights[w.t].MatMulCompact; direct != nil && x.tokens == 1 {
		direct(w.panelData(panel, 1), &x.tiles[0], out)
		safepoint()
		return
	}
	size := w.t.ProductBytes(w.cols)
	if len(j.inflated[worker]) < size {
		j.inflated[worker] = allocateInHeap(size)
	}
	inflated, data := j.inflated[worker][:size], w.panelData(panel, 1)
	j.rt.k.Weights[w.t].Inflate(inflated, data, w.cols)
	safepoint()
	ahead := asm.Prefetch{From: apart(inflated, data) + w.panel + asm.InflateDistance, Step: w.step / 3}
	if x.tiled {
		j.many(worker, w, inflated, 1, x, out, stride, ahead)
		return
	}
	for i := range x.tiles {
		var next asm.Prefetch
		if i == len(x.tiles)-1 {
			next = ahead
		}
		j.rt.k.Weights[w.t].MatMul(inflated, &x.tiles[i], out[i*asm.TileTokens*stride:], stride, next)
		safepoint()
	}
}

// forget drops the references to the caller's memory; until then the matrices stay mapped.
func (j *matmulJob) forget() {
	for i := range j.products {
		runtime.KeepAlive(j.products[i].W)
	}
	clear(j.products)
	j.in = nil
}
