package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/units"
	"github.com/specgo/spec/tensor"
)

const (
	// streamRows is the rows of a pass of a model whose weights are read from disk, where the memory suffices: every
	// pass reads them once.
	streamRows = 1024
	// scratchShare is the part of the memory that the activations of more than passRows rows may take.
	scratchShare = 16
	// scratchMargin is more than the activations of a pass take in models that are near any limit.
	scratchMargin = 1 << 30
)

// arrange decides what of a model stays in memory. Under a limit that does not suffice it returns an error that names
// the least one; the plan has that too.
func (s *packedSource) arrange(m *Model, vectors, limit int64) (*MemoryPlan, *panels.Residency, error) {
	row := s.scratch(m.config.StateSize)
	used := m.config.ExpertsUsed
	fixed := vectors + passRows*row
	p := &MemoryPlan{Limit: limit, Weights: vectors + s.layout.Bytes(), Rows: passRows,
		Least: fixed + s.layout.Least(used)}
	if limit == 0 || p.Weights+passRows*row <= limit {
		p.Resident, p.Buffers = p.Weights, passRows*row
		return p, s.layout.Whole(), nil
	}
	if limit < p.Least {
		return p, nil, fmt.Errorf("%s: %s of memory are not enough to read its weights from disk: %s are needed: %w",
			m.name, units.Bytes(limit), units.Bytes(p.Least+1<<20), tensor.ErrMemory)
	}
	for rows := streamRows; rows > passRows; rows -= passRows {
		if more := int64(rows-passRows) * row; int64(rows)*row <= limit/scratchShare && limit-more >= p.Least {
			p.Rows, fixed = rows, fixed+more
			break
		}
	}
	r := s.layout.Within(limit-fixed, used)
	p.Resident, p.Buffers, p.PerPass, p.Experts = vectors+r.Resident, fixed-vectors+r.Buffers, r.PerPass, r.Experts
	p.PerPass *= s.rounds(m)
	return p, r, nil
}

// rounds is how often a pass goes through the blocks of the file.
func (s *packedSource) rounds(m *Model) int64 {
	blocks := map[string]bool{}
	for _, p := range s.layout.Parts() {
		blocks[blockOf(p.Name)] = true
	}
	delete(blocks, "")
	if d, ok := m.net.(*decoder); ok && len(blocks) > 0 {
		return max(1, int64(len(d.blocks)/len(blocks)))
	}
	return 1
}

// scratch is what a pass takes for a row.
func (s *packedSource) scratch(hidden int) int64 {
	return activationBytes(hidden, func(yield func(string, uint64) bool) {
		for _, p := range s.layout.Parts() {
			if p.Number < 1 && !yield(p.Name, uint64(p.Rows)) {
				return
			}
		}
	})
}

// PassBytes is more than the activations of a pass take of the model of a file, which need not be one by itself: room
// for a draft head is planned before its target is open.
func PassBytes(f *gguf.File) int64 {
	arch, _ := f.String("general.architecture")
	hidden, _ := f.Uint32(arch + ".embedding_length")
	streams, _ := f.Uint32(arch + ".hyper_connection.count") // of models with several residual streams
	state := int(min(hidden, largest)) * int(min(max(streams, 1), mostStreams))
	return passRows * activationBytes(state, func(yield func(string, uint64) bool) {
		for _, t := range f.Tensors {
			if len(t.Dims) > 1 && !yield(t.Name, t.Dims[1]) {
				return
			}
		}
	})
}

// rowBytes is what a pass of a model whose tensors were asked for takes for a row.
func (m *Model) rowBytes() int64 {
	return activationBytes(m.config.StateSize, func(yield func(string, uint64) bool) {
		for name, at := range m.sites {
			if !yield(name, uint64(at.dims[1])) {
				return
			}
		}
	})
}

// activationBytes is the bytes of a pass for a row, at most: of what the matrices of the widest block give, which has
// so many rows of them.
func activationBytes(hidden int, matrices iter.Seq2[string, uint64]) int64 {
	wide, most := map[string]int64{}, int64(0)
	for name, rows := range matrices {
		if block := blockOf(name); block != "" {
			wide[block] += int64(min(rows, 1<<32))
			most = max(most, wide[block])
		}
	}
	return 4 * (most + 6*int64(hidden))
}

// openPacked loads a model of which nothing has been read from its panel file, which is written where it must. It
// returns nil where the model is loaded from its own file.
func openPacked(l *loader, unread *Model, o Options) (*Model, error) {
	f, rt := l.f, unread.rt
	if o.Memory < 0 {
		return nil, fmt.Errorf("%s: %w: a limit of %d bytes of memory", f.Name, ErrUsage, o.Memory)
	}
	if o.Memory == 0 && o.Cache == "" {
		return nil, nil
	}
	keep := o.KeepPanels && o.Cache != ""
	var id *panels.Identity
	if o.Cache != "" && !f.Modified.IsZero() {
		var err error
		if id, err = panels.Identify(f, rt.t, NumericRules, o.Weights, o.MTP); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	exists := id != nil && panels.Exists(o.Cache, id)
	if !exists && !keep && (o.Memory == 0 || l.atMost() <= o.Memory) {
		return nil, nil
	}
	list, err := newLoader(l.ctx, rt, f,
		Options{Weights: o.Weights, RopeContext: o.RopeContext, Rope: o.Rope, Override: o.Override}, l.arch)
	if err != nil {
		return nil, err
	}
	views := &packedSource{fileSource: fileSource{l.ctx, rt.t, list.progress}}
	list.from = views
	m := &Model{
		rt: rt, name: unread.name, kind: unread.kind, target: unread.target, tokenizer: unread.tokenizer,
		origin:   unread.origin,
		metadata: unread.metadata, start: unread.start,
	}
	if m.read(list); !list.ok() {
		return nil, list.err
	}
	plan, residency, err := views.arrange(m, list.vectors, o.Memory)
	if err != nil {
		return nil, err
	}
	whole := plan.Resident == plan.Weights
	switch {
	case whole && (id == nil || !exists && !keep):
		return nil, nil
	case id == nil && o.Cache == "":
		return nil, fmt.Errorf("%s: its weights, %s, do not fit into %s, and there is no Options.Cache to keep them "+
			"in: %w",
			f.Name, units.Bytes(plan.Weights), units.Bytes(o.Memory), tensor.ErrMemory)
	case id == nil:
		return nil, fmt.Errorf("%s: its weights, %s, do not fit into %s, and only those of a file can be read from "+
			"disk: %w",
			f.Name, units.Bytes(plan.Weights), units.Bytes(o.Memory), tensor.ErrMemory)
	}
	m.store, err = panels.Open(l.ctx, rt.t, panels.Options{
		Dir: o.Cache, Identity: id, Layout: &views.layout, Residency: residency,
		Model: f.Name, Source: l.progress, ReadOnly: whole && !keep, Announce: o.Announce, Progress: o.Progress})
	if err != nil {
		if whole && !keep && l.ctx.Err() == nil {
			return nil, nil // the model's own file has everything
		}
		return nil, err
	}
	if plan.Streams() {
		rt.streaming(1)
		m.store.OnClose(func() { rt.streaming(-1) })
	}
	runtime.AddCleanup(m, func(s *panels.Store) { s.Close() }, m.store)
	m.memory, m.bytes = *plan, plan.Resident+plan.Buffers
	return m, nil
}

// atMost is more than the packed weights of the file can take.
func (l *loader) atMost() (n int64) {
	for _, t := range l.f.Tensors {
		size := t.Size
		if len(t.Dims) < 2 {
			size *= 2 // vectors become float32
		} else if cols := dim(t, 0); cols > 0 {
			w := shape{rows: int(t.Elements() / uint64(cols)), cols: cols}
			var err error
			if w.t, err = tensor.ParseType(strings.ToLower(t.Type.String())); err == nil {
				size = max(size, w.bytes())
			}
			if to, ok := tensor.Fitting(l.to, cols); l.convert && ok {
				w.t = to
				size = max(size, w.bytes())
			}
		}
		n += size + size/8 + 2*tensor.PageBytes // padding of experts' rows
	}
	return n + scratchMargin
}

// streaming counts the models of the Runtime that read weights from disk. While there are any, a processor is left to
// the reads: kernels cannot be interrupted.
func (rt *Runtime) streaming(n int) {
	rt.streamsMu.Lock()
	defer rt.streamsMu.Unlock()
	rt.streams += n
	if rt.streams > 0 {
		rt.t.LimitThreads(max(1, min(rt.t.Threads(), runtime.GOMAXPROCS(0)-1)))
	} else {
		rt.t.LimitThreads(rt.t.Threads())
	}
}

// PanelFileInfo is a panel file in a cache directory: its Name with the directory, its Bytes, and a Text about it, in
// lines "key: value" (model, weights, layout).
type PanelFileInfo = panels.FileInfo

// PanelFiles lists the panel files of a directory, by name. Other files are not listed. A directory that does not exist
// has none.
func PanelFiles(dir string) ([]PanelFileInfo, error) { return panels.Files(dir) }

// ReadSpeed measures how fast a file is read from its beginning on, in bytes per second: at most so many bytes, past
// the system's cache where that is possible, with as many reads under way as passes have. A file on a disk that caches
// by itself, or that a virtual machine's host does, is read faster the second time. A file that is too small for that
// is an error that wraps ErrUsage.
func ReadSpeed(ctx context.Context, name string, most int64) (float64, error) {
	speed, err := panels.ReadSpeed(ctx, name, most)
	if errors.Is(err, panels.ErrTooSmall) {
		err = fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return speed, err
}
