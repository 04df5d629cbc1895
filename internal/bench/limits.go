package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/tensor"
)

// Limits say what to measure of a machine without a model: what its parts can do, and how much of that the kernels
// reach. An empty list leaves its rows out.
type Limits struct {
	Types    []tensor.Type   // of weights
	Tokens   []int           // of a product with them: decode 1, verify up to 16, prefill more
	KV       []tensor.KVType // of the cache
	Contexts []int           // tokens before the one whose attention is measured
	Repeats  int             // of everything, of which the fastest counts
	Memory   int             // bytes of weights, and that the memory's bandwidth is measured with
	Caches   tensor.Caches   // that are read; 0 is not
}

// Bounds are what a machine can do at most: the greatest values that loops of nothing else reached. 0: not measured.
type Bounds struct {
	MemoryThreads []int     `json:"memory_threads"` // that read the memory together
	MemoryGBPS    []float64 `json:"memory_gbps"`    // what they read, in 10^9 bytes per second
	L1GBPS        float64   `json:"l1_gbps"`        // all threads, each half of its core's cache again and again
	L2GBPS        float64   `json:"l2_gbps"`
	// 10^9 products of a weight and an activation, with their additions, per second, of all threads, and the instruction
	IntegerGPS float64 `json:"integer_gps"`
	IntegerBy  string  `json:"integer_instruction"`
	FloatGPS   float64 `json:"float_gps"`
	FloatBy    string  `json:"float_instruction"`
}

// Reach is a row: what some kernels do, beside the bound of what it takes.
type Reach struct {
	// decode, verify or prefill: products of a matrix with 1, up to 16, or more tokens; attention of all layers of
	// llama-1b; norm (RMSNorm), silu (SiLU times another), rope: of 64 tokens of 2048 numbers, in the L2 cache
	Kind    string `json:"kind"`
	Type    string `json:"type"` // of the weights or the cache; "": float32 activations
	Tokens  int    `json:"n_tokens"`
	Context int    `json:"context"` // tokens before them
	Repeats int    `json:"repeats"`

	Seconds  float64 `json:"seconds"`  // the least
	Bytes    float64 `json:"bytes"`    // that must be read
	Products float64 `json:"products"` // that must be made

	// What takes longest of what it needs: memory, l2, integer or float; "": nothing of it was measured.
	BoundBy      string  `json:"bound_by"`
	BoundSeconds float64 `json:"bound_seconds"`
	Reached      float64 `json:"reached"` // BoundSeconds / Seconds

	from  string // where the bytes come from: memory or l2
	float bool   // the products are of float32
}

// bind computes the bound of a row.
func (b *Bounds) bind(r *Reach) {
	r.BoundBy, r.BoundSeconds, r.Reached = "", 0, 0
	needs := func(by string, amount, giga float64) {
		if giga <= 0 {
			return
		}
		if s := amount / (giga * 1e9); s > r.BoundSeconds {
			r.BoundBy, r.BoundSeconds = by, s
		}
	}
	switch r.from {
	case "memory":
		needs("memory", r.Bytes, b.memory())
	case "l2":
		needs("l2", r.Bytes, b.L2GBPS)
	}
	if r.float {
		needs("float", r.Products, b.FloatGPS)
	} else {
		needs("integer", r.Products, b.IntegerGPS)
	}
	if r.Seconds > 0 {
		r.Reached = r.BoundSeconds / r.Seconds
	}
}

// memory is the greatest bandwidth with any number of threads: fewer may read faster than all.
func (b *Bounds) memory() float64 {
	if len(b.MemoryGBPS) == 0 {
		return 0
	}
	return slices.Max(b.MemoryGBPS)
}

// raise keeps the greater ones of two measurements.
func (b *Bounds) raise(o Bounds) {
	b.MemoryThreads = o.MemoryThreads
	for i, v := range o.MemoryGBPS {
		if i == len(b.MemoryGBPS) {
			b.MemoryGBPS = append(b.MemoryGBPS, 0)
		}
		b.MemoryGBPS[i] = max(b.MemoryGBPS[i], v)
	}
	b.L1GBPS, b.L2GBPS = max(b.L1GBPS, o.L1GBPS), max(b.L2GBPS, o.L2GBPS)
	if o.IntegerGPS > b.IntegerGPS {
		b.IntegerGPS, b.IntegerBy = o.IntegerGPS, o.IntegerBy
	}
	if o.FloatGPS > b.FloatGPS {
		b.FloatGPS, b.FloatBy = o.FloatGPS, o.FloatBy
	}
}

// task is work of kernels that is measured.
type task struct {
	Reach
	run func() error
}

// group makes tasks that share memory, and frees it.
type group func(ctx context.Context) (tasks []task, free func(), err error)

// measured is what limits are measured on: this machine, or a test's.
type measured interface {
	bounds() (Bounds, error)
	groups() []group
	seconds(run func() error) (float64, error) // of one run
}

// MeasureLimits measures the machine with the kernels and threads of rt. Each row is handed to report when it was
// timed, before its bound is known.
func MeasureLimits(ctx context.Context, rt *tensor.Runtime, o Limits, report func(Reach)) (Bounds, []Reach, error) {
	m, err := newMachine(rt, o)
	if err != nil {
		return Bounds{}, nil, err
	}
	defer m.close()
	return limits(ctx, m, max(1, o.Repeats), report)
}

// limits measures the bounds once for every repeat of every group, since on a shared machine they change from second
// to second: a row is compared with the greatest of them.
func limits(ctx context.Context, m measured, repeats int, report func(Reach)) (b Bounds, rows []Reach, err error) {
	for _, open := range m.groups() {
		tasks, free, err := open(ctx)
		if err != nil {
			return b, nil, err
		}
		for range repeats {
			now, err := m.bounds()
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				free()
				return b, nil, err
			}
			b.raise(now)
			for i := range tasks {
				t := &tasks[i]
				s, err := m.seconds(t.run)
				if err != nil {
					free()
					return b, nil, err
				}
				if t.Repeats++; t.Seconds == 0 || s < t.Seconds {
					t.Seconds = s
				}
			}
		}
		free()
		for i := range tasks {
			rows = append(rows, tasks[i].Reach)
			report(tasks[i].Reach)
		}
	}
	for i := range rows {
		b.bind(&rows[i])
	}
	return b, rows, nil
}

// machine is this machine.
type machine struct {
	rt      *tensor.Runtime
	o       Limits
	readers []*tensor.Runtime // of 1, 2, 4 … threads
	rng     *rand.Rand
}

func newMachine(rt *tensor.Runtime, o Limits) (*machine, error) {
	m := &machine{rt: rt, o: o, rng: rand.New(rand.NewPCG(1, 2))}
	for n := 1; ; n *= 2 {
		n = min(n, rt.Threads())
		reader, err := tensor.NewRuntime(tensor.Options{Threads: n, SIMD: "scalar"}) // it reads as the machine can
		if err != nil {
			m.close()
			return nil, err
		}
		if m.readers = append(m.readers, reader); n == rt.Threads() {
			return m, nil
		}
	}
}

func (m *machine) close() {
	for _, r := range m.readers {
		r.Close()
	}
}

func (m *machine) seconds(run func() error) (float64, error) { return timed(run) }

func (m *machine) bounds() (b Bounds, err error) {
	for _, r := range m.readers {
		gbps, err := r.ReadBandwidth(m.o.Memory)
		if err != nil {
			return b, err
		}
		b.MemoryThreads, b.MemoryGBPS = append(b.MemoryThreads, r.Threads()), append(b.MemoryGBPS, gbps)
	}
	for cache, to := range map[int]*float64{m.o.Caches.L1 / 2: &b.L1GBPS, m.o.Caches.L2 / 2: &b.L2GBPS} {
		if cache < leastCache {
			continue // unknown
		}
		if *to, err = m.rt.CacheBandwidth(cache); err != nil {
			return b, err
		}
	}
	r := m.rt.Rates()
	b.IntegerGPS, b.IntegerBy, b.FloatGPS, b.FloatBy = r.Integer/1e9, r.IntegerBy, r.Float/1e9, r.FloatBy
	return b, nil
}

const (
	leastCache = 4 << 10
	limitCols  = 2048 // of matrices, and numbers of a token: llama-1b's
	limitRows  = 64   // tokens of the operations on activations
	panelRows  = 16   // rows in a panel of weights

	mostVerified = 16 // tokens of a product that is called verify
)

func (m *machine) groups() (list []group) {
	for _, t := range m.o.Types {
		list = append(list, func(ctx context.Context) ([]task, func(), error) { return m.weights(ctx, t) })
	}
	for _, kv := range m.o.KV {
		for _, n := range m.o.Contexts {
			list = append(list, func(context.Context) ([]task, func(), error) { return m.attention(kv, n) })
		}
	}
	return append(list, func(context.Context) ([]task, func(), error) { return m.vectors() })
}

// weights are products of one matrix, as large as o.Memory, so that no cache holds it.
func (m *machine) weights(ctx context.Context, t tensor.Type) (tasks []task, free func(), err error) {
	rows := max(1, m.o.Memory/t.PanelBytes(limitCols)) * panelRows
	w, err := tensor.Read(ctx, m.rt, synth.Rows(t), 0, t, rows, limitCols, t)
	if err != nil {
		return nil, nil, fmt.Errorf("weights in %v: %w", t, err)
	}
	for _, n := range m.o.Tokens {
		in, out := new(tensor.Input), make([]float32, n*rows)
		x := m.random(n * limitCols)
		kind := "decode"
		switch {
		case n > mostVerified:
			kind = "prefill"
		case n > 1:
			kind = "verify"
		}
		r := Reach{Kind: kind, Type: t.String(), Tokens: n, Bytes: float64(w.Bytes()), from: "memory", float: !t.Integer(),
			Products: float64(n) * float64(rows) * limitCols}
		tasks = append(tasks, task{r, func() error {
			if err := in.Set(m.rt, x, n, limitCols); err != nil {
				return err
			}
			return m.rt.MatMul(in, tensor.Product{W: w, Out: out})
		}})
	}
	return tasks, w.Close, nil
}

// attention is that of one token, and of 8, after n others, in all layers of llama-1b.
func (m *machine) attention(kv tensor.KVType, n int) (tasks []task, free func(), err error) {
	s, err := synth.FindShape("llama-1b")
	if err != nil {
		return nil, nil, err
	}
	dim := s.HiddenSize / s.Heads
	most := slices.Max(attended[:])
	cache, err := tensor.NewKV(tensor.KVShape{Layers: s.Layers, Heads: s.KVHeads, HeadDim: dim, Type: kv,
		Context: n + most})
	if err == nil {
		err = cache.Grow(n + most)
	}
	// Every 16th slot touches each page of the system's memory.
	for layer := 0; layer < s.Layers && err == nil; layer++ {
		for slot := 0; slot < n+most && err == nil; slot += 16 {
			err = cache.Store(layer, slot, m.random(s.KVHeads*dim), m.random(s.KVHeads*dim))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	for _, tokens := range attended {
		q := m.random(tokens * s.Heads * dim)
		out := make([]float32, len(q))
		seen := float64(tokens)*float64(n) + float64(tokens*(tokens+1)/2) // by all tokens
		r := Reach{Kind: "attention", Type: kv.String(), Tokens: tokens, Context: n, from: "memory", float: true,
			Bytes:    float64(cache.Shape().SlotBytes()) * float64(n+tokens),
			Products: 2 * seen * float64(s.Layers*s.Heads*dim)}
		tasks = append(tasks, task{r, func() error {
			for layer := range s.Layers {
				o := tensor.AttentionOptions{Layer: layer, Heads: s.Heads, Scale: float32(1 / math.Sqrt(float64(dim)))}
				segs := []tensor.AttentionSegment{{KV: cache, Start: n, Tokens: tokens}}
				if err := m.rt.Attention(out, q, o, segs); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	return tasks, cache.Close, nil
}

// attended are the numbers of tokens whose attention is measured.
var attended = [...]int{1, 8}

// vectors are operations on activations.
func (m *machine) vectors() ([]task, func(), error) {
	const heads, dim = 32, limitCols / 32
	x, y, w := m.random(limitRows*limitCols), m.random(limitRows*limitCols), m.random(limitCols)
	table, err := tensor.NewRopeTable(tensor.RopeOptions{Dims: dim, Base: 10000})
	if err != nil {
		return nil, nil, err
	}
	positions := make([]int32, limitRows)
	for i := range positions {
		positions[i] = int32(i)
	}
	row := func(kind string, reads int) Reach {
		bytes := float64(4 * reads * limitRows * limitCols)
		return Reach{Kind: kind, Tokens: limitRows, Bytes: bytes, from: "l2", float: true}
	}
	out := make([]float32, len(x))
	return []task{
		{row("norm", 1), func() error { return m.rt.RMSNorm(out, x, w, 1e-5) }},
		{row("silu", 2), func() error { return m.rt.SiLUMul(out, x, y) }},
		{row("rope", 1), func() error { return m.rt.Rope(tensor.RopeHalves, x, heads, dim, table, positions) }},
	}, func() {}, nil
}

func (m *machine) random(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(m.rng.NormFloat64())
	}
	return x
}

// LimitMemory is how many bytes of weights no cache holds much of: several times the third-level cache, at least 128
// MB, and at most 1 GB.
func LimitMemory(c tensor.Caches) int { return min(max(128<<20, 4*c.L3), 1<<30) }
