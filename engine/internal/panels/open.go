package panels

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/specgo/spec/tensor"
)

// Options say which panel file a model is read from, and how.
type Options struct {
	Dir       string // of panel files
	Identity  *Identity
	Layout    *Layout
	Residency *Residency

	Model  string      // name of its file, for messages
	Source io.ReaderAt // that file: a panel file that is missing, or of another model, is written from it
	// ReadOnly says that none is written: a file that is missing, another model's or damaged is an error.
	ReadOnly bool

	// called before a panel file is written, which an error refuses; may be nil
	Announce func(file string, bytes int64) error
	Progress func(done, total int64) // called while what stays in memory is read, may be nil
}

// Exists reports whether there is a panel file of that name. It may still be another model's, or damaged.
func Exists(dir string, id *Identity) bool {
	_, err := os.Stat(filepath.Join(dir, id.name))
	return err == nil
}

// Open opens the panel file of a model, writes it where it must, and reads what stays in memory. The views of the
// layout are the Store's then.
func Open(ctx context.Context, rt *tensor.Runtime, o Options) (*Store, error) {
	name := filepath.Join(o.Dir, o.Identity.name)
	whole := !slices.Contains(o.Residency.kept, false)
	// A file that turns out to be damaged is written again, once.
	for attempt := 0; ; attempt++ {
		file, err := openFile(name, o.Identity, o.Layout, whole)
		if err != nil {
			if o.ReadOnly && errors.Is(err, errOther) { // its name says that it is this model's: it is damaged
				os.Remove(name)
			}
			if o.ReadOnly || attempt > 0 && !errors.Is(err, errOther) && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			if o.Announce != nil {
				o.Layout.place(len(o.Identity.text))
				if err := o.Announce(name, o.Layout.size); err != nil {
					return nil, err
				}
			}
			if err := (writer{createTemporary}).write(ctx, rt, o); err != nil {
				return nil, writeError(o.Dir, o.Layout.size, err)
			}
			if file, err = openFile(name, o.Identity, o.Layout, whole); err != nil {
				return nil, err
			}
		}
		s, err := newStore(ctx, file, o.Residency, o.Progress)
		if err == nil {
			if whole {
				s.file.file.Close() // all of it is in memory; where an open file cannot be deleted, it can be now
			}
			return s, nil
		}
		if attempt > 0 || o.ReadOnly || !errors.Is(err, errFileDamaged) {
			return nil, err
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
}

// newStore reads what stays in memory from a panel file, and begins to read the rest when it is asked for. It closes
// the file if it fails.
func newStore(ctx context.Context, file *packedFile, r *Residency, tell func(done, total int64)) (s *Store, err error) {
	s = &Store{file: file, parts: file.m.parts}
	s.work.L, s.ready.L = &s.mu, &s.mu
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	resident := int64(0)
	for i, x := range s.parts {
		x.store, x.bound, x.expert, x.next = s, r.kept[i], nil, nil
		if x.bound {
			resident += alignPage(x.bytes)
		}
	}
	if resident > 0 {
		if s.resident, err = tensor.NewBuffer(resident); err != nil {
			return nil, err
		}
		if err = s.fillResident(ctx, tell); err != nil {
			return nil, err
		}
	}
	if r.ring > 0 {
		if s.ring, err = tensor.NewBuffer(r.ring); err != nil {
			return nil, err
		}
	}
	s.link()
	if len(r.units) > 0 {
		if s.slotData, err = tensor.NewBuffer(int64(r.Experts) * r.slot); err != nil {
			return nil, err
		}
		for i := range r.Experts {
			s.slots = append(s.slots, &slot{memory: s.slotData.Data[i*int(r.slot):][:r.slot]})
		}
		for _, u := range r.units {
			x := &expert{parts: u}
			for _, p := range u {
				p.expert = x
			}
		}
	}
	for range readDepth {
		s.readers.Go(s.reader)
	}
	return s, nil
}

// link expects the matrices of the ring in the order of the file.
func (s *Store) link() {
	var first, last *weight
	for _, x := range s.parts {
		if x.bound || x.Use == Rows || x.Number >= 0 {
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
func (s *Store) fillResident(ctx context.Context, tell func(done, total int64)) error {
	type job struct {
		x     *weight
		piece int
		dst   []byte
	}
	var jobs []job
	at, total := int64(0), int64(0)
	for _, x := range s.parts {
		if !x.bound {
			continue
		}
		memory := s.resident.Data[at:][:alignPage(x.bytes)]
		at += int64(len(memory))
		for i := range x.pieces() {
			at, _ := x.span(i)
			jobs = append(jobs, job{x, i, memory[at:]})
		}
		if err := x.w.Bind(memory[:x.bytes]); err != nil {
			return err
		}
		total += x.bytes
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
				_, n := jobs[i].x.span(jobs[i].piece)
				if err == nil {
					err = s.file.readPiece(jobs[i].x, jobs[i].piece, jobs[i].dst)
				}
				mu.Lock()
				if err != nil {
					failure = err
					next.Store(int64(len(jobs)))
				} else if done += n; tell != nil {
					tell(done, total)
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return failure
}

// alignedBytes is n bytes that begin at a page.
func alignedBytes(n int) []byte {
	b := make([]byte, n+tensor.PageBytes)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (tensor.PageBytes - 1)
	return b[skip : skip+n : skip+n]
}
