// Package panels keeps the weights of a model on disk as the kernels read them, and brings them into memory in time
// for their products. It knows matrices, and which of them are read together; it does not know what a model does with
// them.
//
//	layout := &panels.Layout{}
//	w, err := layout.Add(rt, part)                      // for every matrix: a view, without memory yet
//	store, err := panels.Open(ctx, rt, panels.Options{Layout: layout, Residency: layout.Within(budget, experts), …})
//	held.Want(w); held.Fetch(ctx); rt.MatMul(…); held.Release()
package panels

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/tensor"
)

// Store brings weights from a panel file into memory in time for their products.
//
// Matrices that every pass reads go through a ring: a buffer in which they lie one after the other, in the order in
// which they are expected to be used. The next ones are read while products use the first. What follows a matrix is
// what followed it the last time (in the beginning, the next one of the file); where a pass takes another way, what
// has been read is dropped, and the matrix that it needs is read at once. Experts are read when the router has chosen
// them; those that were used last are kept.
//
// A pass owns the matrices that it has acquired until it releases them. Passes of a Runtime run one after the other,
// so at most one owns any.
type Store struct {
	file     *packedFile
	parts    []*weight // by part
	resident *tensor.Buffer
	ring     *tensor.Buffer
	slots    []*slot
	slotData *tensor.Buffer
	pages    sync.Pool // *[]byte for rows

	mu      sync.Mutex
	work    sync.Cond  // there is something to read, or the store is closed
	ready   sync.Cond  // something has been read
	entries []*entry   // of the ring, in order
	urgent  []*reading // experts
	predict *weight    // what comes into the ring next; nil: nothing is expected
	last    *weight    // the matrix of the ring that was used last
	clock   int64      // of the experts' use
	closed  bool
	onClose func()
	readers sync.WaitGroup

	read   atomic.Int64 // bytes, of all reads for products
	waited atomic.Int64 // nanoseconds that passes waited for reads
}

// reading is a matrix, or an expert's, on its way into memory. The store's lock guards it.
type reading struct {
	parts   []*weight
	at      [][]byte // where they go, each up to the next page
	issued  int      // pieces of all parts
	done    int
	pieces  int
	err     error
	dropped bool // nobody waits for it any more
}

func newReading(parts []*weight, memory []byte) *reading {
	l := &reading{parts: parts}
	for _, m := range parts {
		n := alignPage(m.bytes)
		l.at = append(l.at, memory[:n:n])
		l.pieces += m.pieces()
		memory = memory[n:]
	}
	return l
}

// take is the next piece to read.
func (l *reading) take() (m *weight, piece int, dst []byte) {
	i := l.issued
	l.issued++
	for j, m := range l.parts {
		if i < m.pieces() {
			at, _ := m.span(i)
			return m, i, l.at[j][at:]
		}
		i -= m.pieces()
	}
	return nil, 0, nil
}

func (l *reading) unissued() bool { return !l.dropped && l.err == nil && l.issued < l.pieces }
func (l *reading) idle() bool     { return l.done == l.issued }
func (l *reading) complete() bool { return l.done == l.pieces || l.err != nil && l.idle() }

// entry is a matrix in the ring.
type entry struct {
	reading
	m        *weight
	from, to int // of the ring
}

// reader reads pieces, one at a time.
func (s *Store) reader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		l := s.nextLoad()
		if s.closed {
			return
		}
		if l == nil {
			s.work.Wait()
			continue
		}
		m, piece, dst := l.take()
		s.mu.Unlock()
		err := s.file.readPiece(m, piece, dst)
		_, n := m.span(piece)
		s.read.Add(n)
		s.mu.Lock()
		l.done++
		if err != nil && l.err == nil {
			l.err = err
		}
		if l.complete() || l.dropped {
			s.clean()
			s.ready.Broadcast()
		}
	}
}

// nextLoad is what to read next: experts first, as a pass waits for them.
func (s *Store) nextLoad() *reading {
	s.urgent = slices.DeleteFunc(s.urgent, func(l *reading) bool { return !l.unissued() })
	if len(s.urgent) > 0 {
		return s.urgent[0]
	}
	for _, e := range s.entries {
		if e.unissued() {
			return &e.reading
		}
	}
	return nil
}

// clean removes dropped entries that nothing is being read into, and fills the room.
func (s *Store) clean() {
	s.entries = slices.DeleteFunc(s.entries, func(e *entry) bool { return e.dropped && e.idle() })
	s.fill()
}

// fill appends what is expected to the ring, as far as there is room.
func (s *Store) fill() {
	for s.predict != nil && s.ring != nil && !s.closed {
		from, ok := s.room(int(alignPage(s.predict.bytes)))
		if !ok {
			return
		}
		m := s.predict
		e := &entry{m: m, from: from, to: from + int(alignPage(m.bytes))}
		e.reading = *newReading([]*weight{m}, s.ring.Data[from:])
		s.entries = append(s.entries, e)
		s.predict = m.next
		s.work.Broadcast()
	}
}

// room finds n bytes after the last entry.
func (s *Store) room(n int) (from int, ok bool) {
	if len(s.entries) == 0 {
		return 0, n <= len(s.ring.Data)
	}
	first, end := s.entries[0].from, s.entries[len(s.entries)-1].to
	switch {
	case end <= first: // it has begun again at 0
		return end, end+n <= first
	case end+n <= len(s.ring.Data):
		return end, true
	default:
		return 0, n <= first
	}
}

// drop gives up entries.
func (s *Store) drop(list []*entry) {
	for _, e := range list {
		e.dropped = true
	}
}

// fits reports whether matrices of the ring can be there at once.
func (s *Store) fits(group []*weight) bool {
	n := int64(0)
	for _, m := range group {
		n += alignPage(m.bytes)
	}
	return n <= int64(len(s.ring.Data))/2
}

// acquire waits until all matrices of the group, which all go through the ring, are in memory, and binds them.
// release follows, unless there is an error.
func (s *Store) acquire(ctx context.Context, group []*weight) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range group {
		if s.last != nil {
			s.last.next = m
		}
		s.last = m
	}
	live := slices.DeleteFunc(slices.Clone(s.entries), func(e *entry) bool { return e.dropped })
	i := max(0, slices.IndexFunc(live, func(e *entry) bool { return e.m == group[0] }))
	n := 0 // of the group that are there
	for i+n < len(live) && n < len(group) && live[i+n].m == group[n] {
		n++
	}
	if i+n < len(live) && n < len(group) {
		i, n = len(live), 0 // none of the group is kept: the rest of it might find no room behind what is still being read
	}
	s.drop(live[:i])
	if n < len(group) { // the rest of the group is next
		s.predict = group[n]
	}
	s.clean()
	var found []*entry
	err := s.wait(ctx, func() (bool, error) {
		found = found[:0]
		for _, e := range s.entries {
			if e.dropped || len(found) == len(group) {
				continue
			}
			if !e.complete() {
				return false, nil
			}
			if e.err != nil {
				return true, e.err
			}
			found = append(found, e)
		}
		return len(found) == len(group), nil
	})
	if err != nil {
		s.drop(s.entries)
		s.predict = nil
		s.clean()
		return err
	}
	for j, e := range found {
		if e.m != group[j] {
			return fmt.Errorf("%s: tensor %q is in the place of %q", s.file.name, e.m.Name, group[j].Name)
		}
		if err := e.m.w.Bind(e.at[0][:e.m.bytes]); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until a condition holds, which it asks with the lock, or the context is done.
func (s *Store) wait(ctx context.Context, holds func() (bool, error)) error {
	ok, err := holds()
	if ok {
		return err
	}
	begin := time.Now()
	defer func() { s.waited.Add(int64(time.Since(begin))) }()
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ready.Broadcast()
	})
	defer stop()
	for {
		if s.closed {
			return fmt.Errorf("%s: %w", s.file.name, tensor.ErrClosed)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if ok, err := holds(); ok {
			return err
		}
		s.ready.Wait()
	}
}

// release gives the matrices back that acquire has bound, and reads on.
func (s *Store) release(group []*weight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range group {
		_ = m.w.Bind(nil)
	}
	n := len(group)
	for _, e := range s.entries {
		if !e.dropped && n > 0 {
			e.dropped = true
			n--
		}
	}
	s.clean()
}

// row writes row i of a matrix, dequantized, into dst. Several goroutines may call it.
func (s *Store) row(m *weight, i int, dst []float32) error {
	size := int(alignPage(int64(m.panel))) + tensor.PageBytes
	memory, _ := s.pages.Get().(*[]byte)
	if memory == nil || len(*memory) < size {
		b := alignedBytes(size)
		memory = &b
	}
	defer s.pages.Put(memory)
	panel, err := s.file.readPanel(m, i, *memory)
	if err != nil {
		return err
	}
	return m.w.PanelRow(panel, i, dst)
}

// Close ends the reads and frees the memory. No pass may own a matrix.
func (s *Store) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.work.Broadcast()
	s.ready.Broadcast()
	s.mu.Unlock()
	s.readers.Wait()
	for _, b := range []*tensor.Buffer{s.resident, s.ring, s.slotData} {
		if b != nil {
			b.Close()
		}
	}
	s.file.file.Close()
	if s.onClose != nil {
		s.onClose()
	}
}

// OnClose has f called when the Store is closed.
func (s *Store) OnClose(f func()) { s.onClose = f }

// Name is the name of the panel file.
func (s *Store) Name() string { return s.file.name }

// Disk is what was read from disk for products, in all, and how long passes waited for it.
func (s *Store) Disk() (bytes int64, waited time.Duration) {
	return s.read.Load(), time.Duration(s.waited.Load())
}

// Replace has the Store read from another file, and returns the one before: tests make disks fail with it. It waits
// until nothing is being read.
func (s *Store) Replace(f File) (before File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reading := func(l *reading) bool { return l != nil && (l.unissued() || !l.idle()) }
	for slices.ContainsFunc(s.entries, func(e *entry) bool { return reading(&e.reading) }) ||
		slices.ContainsFunc(s.slots, func(t *slot) bool { return reading(t.load) }) {
		s.ready.Wait()
	}
	before, s.file.file = s.file.file, f
	return before
}
