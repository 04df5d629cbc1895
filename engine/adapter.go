package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// Adapter is low-rank changes to the matrices of one Model, of one file (LoRA, Hu et al. 2021, arXiv:2106.09685). For
// a matrix W [rows][cols] it has A [r][cols] and B [rows][r], and the product with W becomes
//
//	y = W x + bias + B (s·alpha/r · (A x))
//
// for the scale s of a session ([AdapterSet]). W stays as it is: sessions with and without the adapter share passes.
// Both products have float32 activations: what is quantized in the file is decoded while it is loaded. An Adapter does
// not change and is safe for concurrent use; its memory is freed when nobody refers to it any more.
type Adapter struct {
	m     *Model
	info  AdapterInfo
	sum   string
	parts map[*tensor.Matrix]change // by the model's matrices
}

// change is the change of a matrix.
type change struct {
	a, b   *tensor.Matrix // [r][cols], [rows][r]
	factor float64        // alpha/r, or 1
}

// AdapterInfo is what an adapter's file says of it.
type AdapterInfo struct {
	File         string // its name
	Name         string // general.name, or ""
	Architecture string // of the models that it is for
	// Alpha is adapter.lora.alpha: what the products are multiplied by, times 1/r. 0: they are not.
	Alpha        float32
	Ranks        []int  // r of its matrices, ascending, each once
	Matrices     int    // that it changes
	Parameters   int64  // of A and B
	Bytes        int64  // of memory
	Task         string // adapter.lora.task_name, for people
	PromptPrefix string // adapter.lora.prompt_prefix, likewise: nobody adds it to a prompt
}

// Keys of an adapter's file (llama.cpp's format).
const (
	keyGeneralType  = "general.type"
	keyAdapterType  = "adapter.type"
	keyAdapterAlpha = "adapter.lora.alpha"
	keyAdapterTask  = "adapter.lora.task_name"
	keyAdapterText  = "adapter.lora.prompt_prefix"
	keyActivated    = "adapter.alora.invocation_tokens"

	loraA, loraB = ".lora_a", ".lora_b" // behind the name of the matrix
)

// isAdapter reports whether a file says that it is one.
func isAdapter(f *gguf.File) bool {
	v, _ := f.Value(keyGeneralType)
	return v == "adapter"
}

// OpenAdapter loads an adapter for the model. Its errors name the file and the key or tensor: the adapter is for this
// architecture, every tensor of it belongs to a matrix of the model, and its shape fits. Refused with ErrUnsupported
// are those of token embeddings and of other tensors that are not multiplied with, activated adapters (aLoRA), and
// those of encoders, encoder-decoder models and draft heads.
func (m *Model) OpenAdapter(ctx context.Context, path string) (*Adapter, error) {
	f, err := gguf.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return m.ReadAdapter(ctx, f)
}

// ReadAdapter is OpenAdapter for a file that is open. The file is not used after ReadAdapter returns.
func (m *Model) ReadAdapter(ctx context.Context, f *gguf.File) (*Adapter, error) {
	list, info, err := adapterTensors(f)
	m.rt.t.Lock()
	sites := m.sites
	m.rt.t.Unlock()
	switch {
	case err != nil:
		return nil, err
	case m.closed.Load() || m.rt.closed.Load():
		return nil, fmt.Errorf("%s: %w", m.name, ErrClosed)
	case m.kind.is != KindModel:
		return nil, fmt.Errorf("%s: %w: an adapter of a %s (%s)", f.Name, ErrUnsupported, m.kind.is, m.name)
	case info.Architecture != m.config.Architecture:
		return nil, fmt.Errorf("%s: key \"general.architecture\": %w: the adapter is for %s models, %s is a %s model", f.Name,
			ErrValue, info.Architecture, m.name, m.config.Architecture)
	}
	a := &Adapter{m: m, info: info, parts: map[*tensor.Matrix]change{}}
	a.info.Bytes = 0
	for i := range list {
		if err := a.read(ctx, f, sites[list[i].name], &list[i]); err != nil {
			return nil, err
		}
	}
	a.sum, err = adapterSum(ctx, f)
	return a, err
}

// Info is what the adapter's file says of it.
func (a *Adapter) Info() AdapterInfo { return a.info }

// Model is the model that the adapter is for.
func (a *Adapter) Model() *Model { return a.m }

// Fingerprint identifies what the adapter computes: SHA-256, in lower-case hexadecimal, of its architecture, its keys
// adapter.*, and every tensor's name, type, shape and bytes.
func (a *Adapter) Fingerprint() string { return a.sum }

// DescribeAdapter reads the header of an adapter's file, and refuses what no model could have. Whether it fits a model
// is not looked at.
func DescribeAdapter(f *gguf.File) (AdapterInfo, error) {
	_, info, err := adapterTensors(f)
	return info, err
}

// adapterPair is the two tensors of a matrix.
type adapterPair struct {
	name    string // of the matrix
	a, b    gguf.Tensor
	rank, n int // n: matrices that lie one after the other, those of experts
	factor  float64
}

// adapterTensors checks the keys of an adapter and finds its tensors, by the names of their matrices.
func adapterTensors(f *gguf.File) ([]adapterPair, AdapterInfo, error) {
	info, err := adapterKeys(f)
	if err != nil {
		return nil, info, err
	}
	var list []adapterPair
	bad := func(tensor string, kind error, format string, args ...any) error {
		return fmt.Errorf("%s: tensor %q: %s: %w", f.Name, tensor, fmt.Sprintf(format, args...), kind)
	}
	for _, t := range f.Tensors {
		name, isA := strings.CutSuffix(t.Name, loraA)
		if base, isB := strings.CutSuffix(t.Name, loraB); isB {
			if _, ok := f.Tensor(base + loraA); !ok {
				return nil, info, bad(t.Name, ErrMissing, "without its %s", base+loraA)
			}
			continue
		}
		if !isA {
			return nil, info, bad(t.Name, ErrUnsupported, "an unknown part of an adapter, which has NAME%s and NAME%s", loraA,
				loraB)
		}
		b, ok := f.Tensor(name + loraB)
		if !ok {
			return nil, info, bad(t.Name, ErrMissing, "without its %s", name+loraB)
		}
		p := adapterPair{name: name, a: t, b: b, rank: dim(b, 0), n: dim(b, 2), factor: 1}
		if len(t.Dims) > 3 || len(b.Dims) > 3 || dim(t, 1) != p.rank && !lookedUp(name) || dim(t, 2) != p.n ||
			p.rank < 1 {
			return nil, info, bad(t.Name, ErrShape, "%d, and %s is %d", t.Dims, b.Name, b.Dims)
		}
		if info.Alpha != 0 {
			p.factor = float64(info.Alpha) / float64(p.rank)
		}
		for _, t := range []gguf.Tensor{p.a, p.b} {
			_, to, ok := adapterType(t)
			if !ok {
				return nil, info, bad(t.Name, ErrWeightType, "%v", t.Type)
			}
			info.Parameters += int64(t.Elements())
			info.Bytes += int64(p.n) * int64((dim(t, 1)+panelRows-1)/panelRows) * int64(to.PanelBytes(dim(t, 0)))
		}
		info.Ranks = append(info.Ranks, p.rank)
		list = append(list, p)
	}
	if list == nil {
		return nil, info, fmt.Errorf("%s: %w: an adapter without tensors", f.Name, ErrMissing)
	}
	info.Matrices = len(list)
	slices.Sort(info.Ranks)
	info.Ranks = slices.Compact(info.Ranks)
	return list, info, nil
}

// panelRows is how many rows of a matrix get their memory together.
const panelRows = 16

// lookedUp reports whether a tensor is one of which rows are looked up. An adapter has its A the other way round.
func lookedUp(name string) bool { return name == "token_embd.weight" }

// dim is a tensor's i-th dimension, columns first.
func dim(t gguf.Tensor, i int) int {
	switch {
	case i >= len(t.Dims):
		return 1
	case t.Dims[i] > largest:
		return 0
	}
	return int(t.Dims[i])
}

// adapterType is a tensor's type in the file and in memory, where it takes float32 activations.
func adapterType(t gguf.Tensor) (from, to tensor.Type, ok bool) {
	from, err := tensor.ParseType(strings.ToLower(t.Type.String()))
	if to = from; from.Integer() {
		to = tensor.F32
	}
	return from, to, err == nil
}

// adapterKeys reads the keys of an adapter. One that is not known is refused.
func adapterKeys(f *gguf.File) (info AdapterInfo, err error) {
	info.File = f.Name
	refuse := func(key string, kind error, format string, args ...any) (AdapterInfo, error) {
		return info, fmt.Errorf("%s: key %q: %s: %w", f.Name, key, fmt.Sprintf(format, args...), kind)
	}
	if !isAdapter(f) {
		v, _ := f.Value(keyGeneralType)
		return refuse(keyGeneralType, ErrValue, "%v: no adapter, which is of type \"adapter\"", v)
	}
	if info.Architecture, err = f.String("general.architecture"); err != nil {
		return info, err
	}
	kind, err := f.String(keyAdapterType)
	if err != nil {
		return info, err
	}
	if kind != "lora" {
		return refuse(keyAdapterType, ErrUnsupported, "%q; \"lora\" is known", kind)
	}
	for _, s := range []struct {
		key string
		to  *string
	}{{"general.name", &info.Name}, {keyAdapterTask, &info.Task}, {keyAdapterText, &info.PromptPrefix}} {
		if f.Has(s.key) {
			if *s.to, err = f.String(s.key); err != nil {
				return info, err
			}
		}
	}
	if f.Has(keyAdapterAlpha) {
		if info.Alpha, err = f.Float32(keyAdapterAlpha); err != nil {
			return info, err
		}
	}
	if x := float64(info.Alpha); math.IsNaN(x) || math.IsInf(x, 0) {
		return refuse(keyAdapterAlpha, ErrValue, "%v", x)
	}
	known := []string{keyAdapterType, keyAdapterAlpha, keyAdapterTask, keyAdapterText}
	for key := range f.Keys() {
		switch {
		case key == keyActivated:
			return refuse(key, ErrUnsupported, "an activated adapter (aLoRA), which is on from some tokens on")
		case strings.HasPrefix(key, "adapter.") && !slices.Contains(known, key):
			return refuse(key, ErrUnsupported, "an unknown key of an adapter")
		}
	}
	return info, nil
}

// read reads the tensors of a matrix, which may be several in the model.
func (a *Adapter) read(ctx context.Context, f *gguf.File, site *site, p *adapterPair) error {
	bad := func(t gguf.Tensor, kind error, format string, args ...any) error {
		return fmt.Errorf("%s: tensor %q: %s: %w", f.Name, t.Name, fmt.Sprintf(format, args...), kind)
	}
	switch {
	case site == nil:
		return bad(p.a, ErrMissing, "%s has no matrix %q that it multiplies with", a.m.name, p.name)
	case site.lookup:
		return bad(p.a, ErrUnsupported, "rows of %q are looked up; adapters of token embeddings are not implemented", p.name)
	case dim(p.a, 0) != site.dims[0]:
		return bad(p.a, ErrShape, "%d, %q is %d", p.a.Dims, p.name, site.dims)
	case dim(p.b, 1) != site.dims[1] || p.n != site.count():
		return bad(p.b, ErrShape, "%d, %q is %d", p.b.Dims, p.name, site.dims)
	}
	rows, at := site.dims[1], 0
	shared := make([]*tensor.Matrix, p.n)
	for _, w := range site.matrices {
		e, row := at/rows%p.n, at%rows
		l, err := change{factor: p.factor}, error(nil)
		if shared[e] == nil {
			if shared[e], err = a.matrix(ctx, f, p.a, e*p.rank, p.rank); err != nil {
				return err
			}
		}
		l.a = shared[e]
		if l.b, err = a.matrix(ctx, f, p.b, e*rows+row, w.Rows()); err != nil {
			return err
		}
		a.parts[w] = l
		at += w.Rows()
	}
	return nil
}

// matrix reads n rows of a tensor, from row on.
func (a *Adapter) matrix(ctx context.Context, f *gguf.File, t gguf.Tensor, row, n int) (*tensor.Matrix, error) {
	from, to, _ := adapterType(t)
	cols := dim(t, 0)
	all := int64(dim(t, 1)) * int64(dim(t, 2))
	m, err := tensor.Read(ctx, a.m.rt.t, f.Reader(), t.Offset+int64(row)*(t.Size/all), from, n, cols, to)
	if err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
	}
	a.info.Bytes += m.Bytes()
	return m, nil
}

// adapterSum is what Fingerprint says.
func adapterSum(ctx context.Context, f *gguf.File) (string, error) {
	h, err := hashKeys(f, func(key string) bool {
		return key == "general.architecture" || strings.HasPrefix(key, "adapter.")
	})
	if err == nil {
		err = hashTensors(ctx, h, f)
	}
	if err != nil {
		return "", err
	}
	return hexSum(h), nil
}

// sites are the matrices of a model, by the tensors that they were read from.
type sites map[string]*site

// site is the matrices that a tensor's rows became.
type site struct {
	dims     []int            // of the tensor: columns, rows, and how many of those lie one after the other
	matrices []*tensor.Matrix // of its rows, in order; once more from the first row on where it was read again
	lookup   bool             // single rows are looked up
	products bool             // it is multiplied with
	exact    bool             // it keeps the type that it has in the file
}

// count is how many matrices of dims[0] columns and dims[1] rows the tensor has.
func (s *site) count() int {
	if len(s.dims) < 3 {
		return 1
	}
	return s.dims[2]
}

// each calls yield with all matrices.
func (s sites) each(yield func(*tensor.Matrix) bool) {
	for _, site := range s {
		for _, w := range site.matrices {
			if !yield(w) {
				return
			}
		}
	}
}
