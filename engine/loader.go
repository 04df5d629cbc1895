package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/units"
	"github.com/specgo/spec/tensor"
)

// loader reads a model's hyperparameters and tensors. It keeps the first error and does nothing after
// it, so that the architectures can list what they need. Every error names the file and the key or tensor.
type loader struct {
	ctx      context.Context
	t        *tensor.Runtime // nil: of a model that does not run
	f        *gguf.File
	from     source
	arch     string // prefix of the hyperparameters' keys
	options  Options
	convert  bool
	to       tensor.Type // what matrices become if convert is set
	progress *progress
	err      error

	keys    map[string]bool // hyperparameters that were asked for, without the prefix that is the architecture's name
	tensors map[string]bool // tensors that were asked for
	first   int             // block that is layer 0; not 0 where MTP blocks are read as a model of their own
	alone   bool            // the file has nothing but those blocks
	layers  int             // blocks that are the model's layers; those after them predict tokens further ahead

	queryHeads, kvHeads, ffn []int // [layers] H, K and F; K is 0 in layers without attention

	valueDim int // of a head: attention.value_length

	caches    []cache           // of the layers that have been read
	recurrent []recurrent.Layer // likewise

	sites      sites // the matrices that have been read
	vectors    int64 // bytes of what is no matrix
	parameters parameters
}

func newLoader(ctx context.Context, rt *Runtime, f *gguf.File, o Options, arch string) (*loader, error) {
	l := &loader{ctx: ctx, f: f, arch: arch, options: o, keys: map[string]bool{}, tensors: map[string]bool{},
		sites: sites{}}
	if o.Weights != "" {
		to, err := tensor.ParseType(o.Weights)
		if err != nil || !slices.Contains(WeightNames(), o.Weights) {
			return nil, fmt.Errorf("weights %q: %w (there are %s)", o.Weights, ErrWeightType, strings.Join(WeightNames(), ", "))
		}
		l.convert, l.to = true, to
	}
	l.progress = &progress{r: f.Reader(), tell: o.Progress}
	if l.from = (noSource{}); rt != nil {
		l.t, l.from = rt.t, &fileSource{ctx, rt.t, l.progress}
	}
	for _, t := range f.Tensors {
		l.progress.total += t.Size
	}
	if addresses32 {
		return l, l.fits(1 << 31)
	}
	return l, nil
}

// addresses32 says that addresses have 32 bits. WebAssembly's have, though its int has 64.
const addresses32 = strconv.IntSize == 32 || runtime.GOARCH == "wasm"

// fits refuses a file whose weights take more memory than a program with 32-bit addresses can have.
func (l *loader) fits(most int64) error {
	var need int64
	for _, t := range l.f.Tensors {
		size := t.Size
		if n := t.Elements(); l.convert && len(t.Dims) > 1 && n <= largest*largest {
			size = max(size, int64(n)/int64(l.to.BlockWeights())*int64(l.to.BlockBytes()))
		}
		if need += size; need > most || size > most {
			return fmt.Errorf("%s: its weights take more than the %s of memory that a program for %s, with 32-bit "+
				"addresses, can have: %w",
				l.f.Name, units.Bytes(most), runtime.GOARCH, tensor.ErrMemory)
		}
	}
	return nil
}

func (l *loader) ok() bool { return l.err == nil }

// keep keeps the first error.
func (l *loader) keep(err error) {
	if l.err == nil {
		l.err = err
	}
}

// fail says what is wrong with a hyperparameter.
func (l *loader) fail(key string, kind error, format string, args ...any) {
	l.failKey(l.arch+"."+key, kind, format, args...)
}

// failKey says what is wrong with a key that is not one of the architecture's.
func (l *loader) failKey(key string, kind error, format string, args ...any) {
	l.keep(fmt.Errorf("%s: key %q: %s: %w", l.f.Name, key, fmt.Sprintf(format, args...), kind))
}

// find looks a tensor up and notes that it was asked for.
func (l *loader) find(name string) (gguf.Tensor, bool) {
	l.tensors[name] = true
	return l.f.Tensor(name)
}

// block is what the names of layer i's tensors begin with.
func (l *loader) block(i int) string { return fmt.Sprintf("blk.%d.", l.first+i) }

// tensor finds a tensor and checks its shape, columns first, and its type.
func (l *loader) tensor(name string, dims ...int) (gguf.Tensor, tensor.Type, bool) {
	l.tensors[name] = true
	if !l.ok() {
		return gguf.Tensor{}, 0, false
	}
	wrong := func(kind error, format string, args ...any) (gguf.Tensor, tensor.Type, bool) {
		l.keep(fmt.Errorf("%s: tensor %q: %s: %w", l.f.Name, name, fmt.Sprintf(format, args...), kind))
		return gguf.Tensor{}, 0, false
	}
	t, ok := l.f.Tensor(name)
	if !ok {
		return wrong(ErrMissing, "not in the file")
	}
	for i := range max(len(dims), len(t.Dims)) {
		have, want := uint64(1), uint64(1)
		if i < len(t.Dims) {
			have = t.Dims[i]
		}
		if i < len(dims) {
			want = uint64(dims[i])
		}
		if have != want {
			return wrong(ErrShape, "%d, expected %d", t.Dims, dims)
		}
	}
	typ, err := tensor.ParseType(strings.ToLower(t.Type.String()))
	if err != nil {
		return wrong(ErrWeightType, "%v", t.Type)
	}
	return t, typ, true
}

// request is what a loader asks its source for: a tensor's matrices, which lie one after the other.
type request struct {
	name  string
	dims  []int // of the tensor, columns first
	rows  []int // of the matrices
	each  int   // how many of them are an expert's; 0: a token needs them all
	use   panels.Use
	exact bool // the type stays that of the file
}

// matrix reads the matrix [rows][cols] of that name, and its factor.
func (l *loader) matrix(name string, rows, cols int) (m linear) {
	if list := l.read(request{name: name, dims: []int{cols, rows}, rows: []int{rows}}); list != nil {
		m = list[0]
	}
	return m
}

// lookup reads a matrix [rows][cols] whose rows are looked up one by one.
func (l *loader) lookup(name string, rows, cols int) *tensor.Matrix {
	return l.one(request{name: name, dims: []int{cols, rows}, rows: []int{rows}, use: panels.Rows})
}

// exact reads a matrix [rows][cols] that is not converted, and has no factor.
func (l *loader) exact(name string, rows, cols int) *tensor.Matrix {
	return l.one(request{name: name, dims: []int{cols, rows}, rows: []int{rows}, exact: true})
}

func (l *loader) one(r request) *tensor.Matrix {
	if m := l.read(r); m != nil {
		return m[0].w
	}
	return nil
}

// split reads the rows of one tensor as several matrices, each [rows][cols].
func (l *loader) split(name string, cols int, rows ...int) []linear {
	all := 0
	for _, n := range rows {
		all += n
	}
	return l.read(request{name: name, dims: []int{cols, all}, rows: rows})
}

// stack reads a tensor of n experts' matrices [rows][cols] that lie one after the other.
func (l *loader) stack(name string, n, rows, cols int) []linear {
	return l.read(request{name: name, dims: []int{cols, rows, n}, rows: slices.Repeat([]int{rows}, n), each: 1})
}

// read reads the matrices of a request, and their factors.
func (l *loader) read(r request) (list []linear) {
	t, from, ok := l.tensor(r.name, r.dims...)
	if !ok {
		return nil
	}
	cols, all := r.dims[0], 1
	for _, n := range r.dims[1:] {
		all *= n
	}
	p := panels.Part{Name: r.name, Cols: cols, From: from, To: from, Source: t.Offset, Use: r.use, Number: -1}
	if l.convert && !r.exact {
		if fit, ok := tensor.Fitting(l.to, cols); ok {
			p.To = fit
		}
	}
	at := l.sites[r.name]
	if at == nil {
		at = &site{dims: r.dims}
		l.sites[r.name] = at
	}
	at.lookup = at.lookup || r.use != panels.Products
	at.products = at.products || r.use != panels.Rows
	at.exact = at.exact || r.exact
	factors := l.factors(r)
	for i, n := range r.rows {
		p.Rows = n
		if r.each > 0 {
			p.Group, _ = blockIndex(r.name)
			p.Number = i / r.each
		}
		m, err := l.from.matrix(p)
		if err != nil {
			l.keep(fmt.Errorf("%s: tensor %q: %w", l.f.Name, r.name, err))
			return nil
		}
		if m != nil {
			at.matrices = append(at.matrices, m)
		}
		list = append(list, linear{w: m})
		if factors != nil {
			list[i].scale = factors[max(p.Number, 0)]
		}
		p.Source += int64(n) * (t.Size / int64(all))
	}
	if l.parameters.all += int64(t.Elements()); r.each > 0 {
		l.parameters.ofExperts += int64(t.Elements())
	}
	return list
}

// factors reads what the products of a request's matrices are multiplied by: NAME.scale of NAME.weight, one number, or
// one for each expert; nil where there is none. Files with NVFP4 weights have it, and BitNet's.
func (l *loader) factors(r request) []float32 {
	base, ok := strings.CutSuffix(r.name, ".weight")
	if !ok || r.exact || r.use != panels.Products {
		return nil
	}
	n := 1
	if r.each > 0 {
		n = len(r.rows) / r.each
	}
	w := l.optional(base+".scale", n)
	if i := slices.Index(w, 0); i >= 0 {
		l.bad(base+".scale", ErrDamaged, "element %d is 0", i)
	}
	return w
}

// vector reads the n numbers of that name.
func (l *loader) vector(name string, n int) []float32 { return l.floats(name, n) }

// optional reads a vector that need not be there; nil if it is not.
func (l *loader) optional(name string, n int) []float32 {
	if _, ok := l.find(name); !ok {
		return nil
	}
	return l.vector(name, n)
}

// floats reads a tensor of the given shape, columns first, as float32.
func (l *loader) floats(name string, dims ...int) []float32 {
	t, from, ok := l.tensor(name, dims...)
	if !ok {
		return nil
	}
	x, err := l.from.vector(t, from)
	if err != nil {
		l.keep(fmt.Errorf("%s: tensor %q: %w", l.f.Name, name, err))
		return nil
	}
	l.vectors += 4 * int64(len(x))
	l.parameters.all += int64(len(x))
	return x
}

// embedding reads the token embeddings [vocabulary][hidden size]. Where the file has no vocabulary, its
// size is the number of rows.
func (l *loader) embedding(c *Config) *tensor.Matrix { return l.embeddingOf(c, c.HiddenSize) }

// embeddingOf is embedding for token embeddings of another size than hidden states.
func (l *loader) embeddingOf(c *Config, width int) *tensor.Matrix {
	const name = "token_embd.weight"
	if t, ok := l.f.Tensor(name); ok && len(t.Dims) == 2 {
		// Where the tensors agree with each other, the key is to blame.
		norm, ok := l.f.Tensor("output_norm.weight")
		if cols := t.Dims[0]; ok && width == c.HiddenSize && cols != uint64(c.HiddenSize) && len(norm.Dims) == 1 &&
			norm.Dims[0] == cols {
			l.fail("embedding_length", ErrValue, "%d, the tensors have %d columns", c.HiddenSize, cols)
		}
		rows := t.Dims[1]
		if c.Vocab == 0 && rows <= largest {
			c.Vocab = int(rows)
		}
		if rows != uint64(c.Vocab) {
			l.keep(fmt.Errorf("%s: tensor %q: rows for %d tokens, the vocabulary has %d: %w", l.f.Name, name, rows, c.Vocab,
				ErrShape))
		}
	}
	use := panels.Rows
	if !l.holds("output.weight") {
		use = panels.ProductsAndRows // it is the output matrix, too
	}
	return l.one(request{name: name, dims: []int{width, c.Vocab}, rows: []int{c.Vocab}, use: use})
}

// largest is the greatest hyperparameter that is accepted: products of two fit an int64, and no model comes near it.
const largest = 1 << 24

// blockIndex is N of a tensor's name blk.N.… .
func blockIndex(tensor string) (int, bool) {
	rest, ok := strings.CutPrefix(tensor, "blk.")
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, ".")
	i, err := strconv.Atoi(digits)
	return max(i, 0), ok && err == nil && i >= 0 && strconv.Itoa(i) == digits
}

// blockOf is the block that a tensor is a part of, as a name: "blk.3", and of an encoder-decoder model "enc.blk.3" or
// "dec.blk.3"; "" if it is a part of none.
func blockOf(tensor string) string {
	stack, rest := "", tensor
	for _, s := range []string{"enc.", "dec."} {
		if after, ok := strings.CutPrefix(tensor, s); ok {
			stack, rest = s, after
		}
	}
	i, ok := blockIndex(rest)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%sblk.%d", stack, i)
}

// bad says what is wrong with a tensor.
func (l *loader) bad(tensor string, kind error, format string, args ...any) {
	l.keep(fmt.Errorf("%s: tensor %q: %s: %w", l.f.Name, tensor, fmt.Sprintf(format, args...), kind))
}
