package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// stream opens the panel file that a model is loaded from, writes it where it must, and reads what stays in memory. It returns nil where
// the model is loaded from its own file.
func (l *loader) openStream(rt *Runtime, m *Model, o Options) (*stream, *arrangement, error) {
	f := l.f
	if o.Memory < 0 {
		return nil, nil, fmt.Errorf("%s: %w: a limit of %d bytes of memory", f.Name, ErrUsage, o.Memory)
	}
	if o.Memory == 0 && o.Cache == "" {
		return nil, nil, nil
	}
	keep := o.KeepPanels && o.Cache != ""
	var id *panelIdentity
	name := ""
	if o.Cache != "" && !f.Modified.IsZero() {
		var err error
		if id, err = identify(f, rt.t, o); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		name = filepath.Join(o.Cache, id.name)
	}
	_, err := os.Stat(name)
	exists := name != "" && err == nil
	if !exists && !keep && (o.Memory == 0 || l.atMost() <= o.Memory) {
		return nil, nil, nil
	}
	probe := *l
	probe.keys, probe.tensors, probe.ctx = map[string]bool{}, map[string]bool{}, l.ctx
	probe.progress = &progress{r: f.Reader()}
	list, err := mapPanels(&probe, &Model{rt: rt, name: f.Name, kind: m.kind, target: m.target, tokenizer: m.tokenizer})
	if err != nil {
		return nil, nil, err
	}
	a, err := list.arrange(o.Memory, f.Name)
	if err != nil {
		return nil, nil, err
	}
	whole := a.Resident == a.Weights
	switch {
	case whole && (id == nil || !exists && !keep):
		return nil, nil, nil
	case id == nil && o.Cache == "":
		return nil, nil, fmt.Errorf("%s: its weights, %d MB, do not fit into %d MB, and there is no Options.Cache to keep them in: %w", f.Name, a.Weights>>20, o.Memory>>20, tensor.ErrMemory)
	case id == nil:
		return nil, nil, fmt.Errorf("%s: its weights, %d MB, do not fit into %d MB, and only those of a file can be read from disk: %w", f.Name, a.Weights>>20, o.Memory>>20, tensor.ErrMemory)
	}
	// A file that turns out to be damaged is written again, once.
	for attempt := 0; ; attempt++ {
		file, err := openPanelFile(name, id, list)
		if err != nil {
			if whole && !keep {
				return nil, nil, nil
			}
			if attempt > 0 && !errors.Is(err, errPanelFile) && !errors.Is(err, os.ErrNotExist) {
				return nil, nil, err
			}
			if o.Announce != nil {
				list.place(len(id.text))
				o.Announce(name, list.size)
			}
			if err := (panelWriter{createTemporary}).write(l.ctx, rt.t, f, o.Cache, id, list, l.progress); err != nil {
				return nil, nil, panelError(o.Cache, list.size, err)
			}
			l.progress.done = 0
			if file, err = openPanelFile(name, id, list); err != nil {
				return nil, nil, err
			}
		}
		s, err := newStream(l.ctx, rt, file, a, o.Progress)
		if err == nil {
			return s, a, nil
		}
		if l.ctx.Err() != nil {
			return nil, nil, err
		}
		if whole && !keep {
			return nil, nil, nil // the model's own file has everything
		}
		if attempt > 0 || !errors.Is(err, errPanelDamaged) {
			return nil, nil, err
		}
		if err := os.Remove(name); err != nil {
			return nil, nil, err
		}
	}
}

// atMost is more than the packed weights of the file can take.
func (l *loader) atMost() (n int64) {
	for _, t := range l.f.Tensors {
		size := t.Size
		if k := t.Elements(); l.convert && len(t.Dims) > 1 {
			size = max(size, int64(k)/int64(l.to.BlockWeights())*int64(l.to.BlockBytes()))
		}
		if len(t.Dims) < 2 {
			size *= 2 // vectors become float32
		}
		n += size + size/8 + 2*tensor.PageBytes // padding of types and rows
	}
	return n + scratchMargin
}

// scratchMargin is more than the activations of a pass take in models that are near any limit.
const scratchMargin = 1 << 30

// newStream reads what stays in memory from a panel file, and begins to read the rest when it is asked for. It closes the file if it fails.
func newStream(ctx context.Context, rt *Runtime, file *panelFile, a *arrangement, tell func(done, total int64)) (s *stream, err error) {
	s = &stream{file: file}
	s.work.L, s.ready.L = &s.mu, &s.mu
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	resident := int64(0)
	for i := range file.m.parts {
		p := &file.m.parts[i]
		x := &streamed{stream: s, part: p, bound: a.resident[i]}
		if x.w, err = tensor.NewView(rt.t, p.to, p.rows, p.cols, x); err != nil {
			return nil, err
		}
		if x.w.Bytes() != p.bytes || x.w.PanelBytes() != p.panel {
			return nil, fmt.Errorf("%s: tensor %q: %d bytes, expected %d: %w", file.name, p.name, x.w.Bytes(), p.bytes, ErrShape)
		}
		if x.bound {
			resident += alignPage(p.bytes)
		}
		s.parts = append(s.parts, x)
	}
	if resident > 0 {
		if s.resident, err = tensor.NewBuffer(resident); err != nil {
			return nil, err
		}
		if err = s.fillResident(ctx, tell); err != nil {
			return nil, err
		}
	}
	if a.ring > 0 {
		if s.ring, err = tensor.NewBuffer(a.ring); err != nil {
			return nil, err
		}
	}
	s.link()
	if len(a.units) > a.slots || a.slots > 0 {
		if s.slotData, err = tensor.NewBuffer(int64(a.slots) * a.slot); err != nil {
			return nil, err
		}
		for i := range a.slots {
			s.slots = append(s.slots, &expertSlot{memory: s.slotData.Data[i*int(a.slot):][:a.slot]})
		}
		for _, u := range a.units {
			x := &diskExpert{}
			for _, i := range u {
				x.parts = append(x.parts, s.parts[i])
				s.parts[i].expert = x
			}
		}
	}
	if a.Streams() {
		rt.streaming(1)
		s.onClose = func() { rt.streaming(-1) }
	}
	for range readDepth {
		s.readers.Go(s.reader)
	}
	return s, nil
}

// link expects the matrices of the ring in the order of the file.
func (s *stream) link() {
	var first, last *streamed
	for _, x := range s.parts {
		if x.bound || x.part.rowsOnly || x.part.stacked >= 0 {
			continue
		}
		if last != nil {
			last.next = x
		} else {
			first = x
		}
		last = x
	}
	if last != nil {
		last.next = first
	}
}

// fillResident reads the matrices that stay in memory, several pieces at once.
func (s *stream) fillResident(ctx context.Context, tell func(done, total int64)) error {
	type job struct {
		x     *streamed
		piece int
		dst   []byte
	}
	var jobs []job
	at, total := int64(0), int64(0)
	for _, x := range s.parts {
		if !x.bound {
			continue
		}
		memory := s.resident.Data[at:][:alignPage(x.part.bytes)]
		at += int64(len(memory))
		for i := range x.part.pieces() {
			jobs = append(jobs, job{x, i, memory[i*panelPiece:]})
		}
		if err := x.w.Bind(memory[:x.part.bytes]); err != nil {
			return err
		}
		total += x.part.bytes
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failure error
	done := int64(0)
	for range readDepth {
		wait.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= len(jobs) {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = s.file.readPiece(jobs[i].x.part, jobs[i].piece, jobs[i].dst)
				}
				mu.Lock()
				if err != nil {
					failure = err
					next.Store(int64(len(jobs)))
				} else if done += min(panelPiece, jobs[i].x.part.bytes-int64(jobs[i].piece)*panelPiece); tell != nil {
					tell(done, total)
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return failure
}

// streaming counts the models of the Runtime that read weights from disk. While there are any, a processor is left to the reads: kernels cannot be
// interrupted.
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

// alignedBytes is n bytes that begin at a page.
func alignedBytes(n int) []byte {
	b := make([]byte, n+tensor.PageBytes)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (tensor.PageBytes - 1)
	return b[skip : skip+n : skip+n]
}

// rowsLooked reports whether single rows of a tensor are looked up.
func rowsLooked(tensor string) bool {
	return tensor == "token_embd.weight" || tensor == "per_layer_token_embd.weight" || strings.HasSuffix(tensor, ".nextn.embed_tokens.weight")
}

// note lists the matrices of a tensor instead of reading them.
func (l *loader) note(t gguf.Tensor, from, to tensor.Type, rows []int, cols, each int) {
	all := 0
	for _, n := range rows {
		all += n
	}
	offset, rowBytes := t.Offset, t.Size/int64(all)
	looked := rowsLooked(t.Name)
	for i, n := range rows {
		p := panelPart{name: t.Name, rows: n, cols: cols, from: from, to: to, source: offset, stacked: -1, looked: looked}
		p.rowsOnly = looked && (t.Name != "token_embd.weight" || l.holds("output.weight"))
		if each > 0 {
			p.stacked = i / each
		}
		l.list.parts = append(l.list.parts, p)
		offset += int64(n) * rowBytes
	}
}

// views are the next matrices of the panel file, which are those of the tensor.
func (l *loader) views(name string, rows []int) (list []*tensor.Matrix) {
	for _, n := range rows {
		if l.nextView >= len(l.stream.parts) || l.stream.parts[l.nextView].part.name != name || l.stream.parts[l.nextView].part.rows != n {
			l.keep(fmt.Errorf("%s: tensor %q: read in another order than before: %w", l.f.Name, name, ErrUnsupported))
			return nil
		}
		list = append(list, l.stream.parts[l.nextView].w)
		l.nextView++
	}
	return list
}
