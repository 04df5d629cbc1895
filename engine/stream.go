package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/tensor"
)

// stream brings weights from a panel file into memory in time for their products.
//
// Matrices that every pass reads go through a ring: a buffer in which they lie one after the other, in the order in which they are expected
// to be used. The next ones are read while products use the first. What follows a matrix is what followed it the last time (in the beginning, the
// next one of the file); where a pass takes another way, what has been read is dropped, and the matrix that it needs is read at once.
// Experts are read when the router has chosen them; those that were used last are kept.
//
// A pass owns the matrices that it has acquired until it releases them. Passes of a Runtime run one after the other, so at most one
// owns any.
type stream struct {
	file     *panelFile
	parts    []*streamed // by part
	resident *tensor.Buffer
	ring     *tensor.Buffer
	slots    []*expertSlot
	slotData *tensor.Buffer
	pages    sync.Pool // *[]byte for rows

	mu      sync.Mutex
	work    sync.Cond  // there is something to read, or the stream is closed
	ready   sync.Cond  // something has been read
	entries []*entry   // of the ring, in order
	urgent  []*reading // experts
	predict *streamed  // what comes into the ring next; nil: nothing is expected
	last    *streamed  // the matrix of the ring that was used last
	clock   int64      // of the experts' use
	closed  bool
	onClose func()
	readers sync.WaitGroup

	read   atomic.Int64 // bytes, of all reads for products
	waited atomic.Int64 // nanoseconds that passes waited for reads
}

// streamed is a matrix of a model that has a panel file: the owner of its view.
type streamed struct {
	stream *stream
	part   *panelPart
	w      *tensor.Matrix
	bound  bool        // in memory for good
	expert *diskExpert // nil: it goes through the ring
	next   *streamed   // that was used after it the last time
}

// reading is a matrix, or an expert's, on its way into memory. The stream's lock guards it.
type reading struct {
	parts   []*streamed
	at      [][]byte // where they go, each up to the next page
	issued  int      // pieces of all parts
	done    int
	pieces  int
	err     error
	dropped bool // nobody waits for it any more
}

func newReading(parts []*streamed, memory []byte) *reading {
	l := &reading{parts: parts}
	for _, m := range parts {
		n := alignPage(m.part.bytes)
		l.at = append(l.at, memory[:n:n])
		l.pieces += m.part.pieces()
		memory = memory[n:]
	}
	return l
}

// take is the next piece to read.
func (l *reading) take() (m *streamed, piece int, dst []byte) {
	i := l.issued
	l.issued++
	for j, m := range l.parts {
		if i < m.part.pieces() {
			return m, i, l.at[j][i*panelPiece:]
		}
		i -= m.part.pieces()
	}
	return nil, 0, nil
}

func (l *reading) unissued() bool { return !l.dropped && l.err == nil && l.issued < l.pieces }
func (l *reading) idle() bool     { return l.done == l.issued }
func (l *reading) complete() bool { return l.done == l.pieces || l.err != nil && l.idle() }

// entry is a matrix in the ring.
type entry struct {
	reading
	m        *streamed
	from, to int // of the ring
}

// reader reads pieces, one at a time.
func (s *stream) reader() {
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
		err := s.file.readPiece(m.part, piece, dst)
		s.read.Add(min(panelPiece, m.part.bytes-int64(piece)*panelPiece))
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
func (s *stream) nextLoad() *reading {
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
func (s *stream) clean() {
	s.entries = slices.DeleteFunc(s.entries, func(e *entry) bool { return e.dropped && e.idle() })
	s.fill()
}

// fill appends what is expected to the ring, as far as there is room.
func (s *stream) fill() {
	for s.predict != nil && s.ring != nil && !s.closed {
		from, ok := s.room(int(alignPage(s.predict.part.bytes)))
		if !ok {
			return
		}
		m := s.predict
		e := &entry{m: m, from: from, to: from + int(alignPage(m.part.bytes))}
		e.reading = *newReading([]*streamed{m}, s.ring.Data[from:])
		s.entries = append(s.entries, e)
		s.predict = m.next
		s.work.Broadcast()
	}
}

// room finds n bytes after the last entry.
func (s *stream) room(n int) (from int, ok bool) {
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
func (s *stream) drop(list []*entry) {
	for _, e := range list {
		e.dropped = true
	}
}

// fits reports whether matrices of the ring can be there at once.
func (s *stream) fits(group []*streamed) bool {
	n := int64(0)
	for _, m := range group {
		n += alignPage(m.part.bytes)
	}
	return n <= int64(len(s.ring.Data))/2
}

// acquire waits until all matrices of the group, which all go through the ring, are in memory, and binds them. release follows, unless
// there is an error.
func (s *stream) acquire(ctx context.Context, group []*streamed) error {
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
	s.drop(live[:i])
	if n < len(group) { // the rest of the group is next
		s.drop(live[i+n:])
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
			return fmt.Errorf("%s: tensor %q is in the place of %q", s.file.name, e.m.part.name, group[j].part.name)
		}
		if err := e.m.w.Bind(e.at[0][:e.m.part.bytes]); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until a condition holds, which it asks with the lock, or the context is done.
func (s *stream) wait(ctx context.Context, holds func() (bool, error)) error {
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
			return fmt.Errorf("%s: %w", s.file.name, ErrClosed)
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
func (s *stream) release(group []*streamed) {
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
func (s *stream) row(m *streamed, i int, dst []float32) error {
	size := int(alignPage(int64(m.part.panel))) + tensor.PageBytes
	memory, _ := s.pages.Get().(*[]byte)
	if memory == nil || len(*memory) < size {
		b := alignedBytes(size)
		memory = &b
	}
	defer s.pages.Put(memory)
	panel, err := s.file.readPanel(m.part, i, *memory)
	if err != nil {
		return err
	}
	return m.w.PanelRow(panel, i, dst)
}

// close ends the reads and frees the memory. No pass may own a matrix.
func (s *stream) close() {
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
