package lookup

import (
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"sync"
)

// Places are brought into order in the file itself. They are distributed by their tokens into spans of as many as one
// thread has memory for, and these are sorted side by side; those of a token that has more places than that are
// distributed by the token before it, and so on. A place is moved at most depth times, and its tokens are read twice as
// often at most, whatever the texts repeat.

const (
	placeBytes  = 4
	recordBytes = 2 * 16    // of a place that is being sorted
	fewRecords  = 48        // that are sorted by insertion
	manyRecords = 1 << 15   // that are distributed before they are sorted, so that a part stays in a core's cache
	digitBits   = 11        // by which they are distributed
	chunkBytes  = 256 << 10 // that are read or written at once
	bufferBytes = 4 << 20   // of all spans that places are distributed into,
	leastBuffer = 64        // and of each
	mostBuffer  = 64 << 10
	mostThreads = 64
)

// record is a place with the key of its tokens, behind those that are known to be the same.
type record struct {
	key uint64
	at  uint32
}

// span is places that stand together in the order: n from lo on, with so many last tokens the same. They are in the
// order of their positions, in the file or in the spare one; for the first span, of all, in neither.
type span struct {
	lo, n int64
	same  int
	in    *os.File
}

// sorter brings the places of a file into order.
type sorter struct {
	b      *builder
	tokens packed
	ends   uint64 // the token between texts
	most   int64  // places of a span that are sorted at once

	mu    sync.Mutex
	spare *os.File // nil until it is needed
}

// order writes the places in their order, and the fences.
func (b *builder) order(ctx context.Context) (err error) {
	parts := b.h.parts()
	data, release, err := view(b.f, headerBytes+parts[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	s := &sorter{b: b, tokens: newPacked(data[headerBytes:], &b.h), ends: uint64(b.o.Vocab)}
	defer func() { err = errors.Join(err, s.close()) }()
	threads := min(b.o.Threads, mostThreads)
	s.most = max(b.o.Memory/recordBytes/int64(threads), 1)
	t := tasks{list: []span{{n: int64(b.h.Places)}}}
	t.wake.L = &t.mu
	var running sync.WaitGroup
	for range threads {
		running.Go(func() {
			w := &worker{sorter: s}
			for x, ok := t.next(); ok; x, ok = t.next() {
				more, err := w.do(ctx, x)
				t.done(more, err)
			}
		})
	}
	running.Wait()
	return t.failed
}

// tasks are spans that are not in order yet.
type tasks struct {
	mu     sync.Mutex
	wake   sync.Cond
	list   []span
	busy   int // spans that somebody is at
	failed error
}

// next is a span to bring into order; false: there are no more.
func (t *tasks) next() (x span, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.list) == 0 && t.busy > 0 && t.failed == nil {
		t.wake.Wait()
	}
	if len(t.list) == 0 || t.failed != nil {
		return x, false
	}
	x = t.list[len(t.list)-1]
	t.list = t.list[:len(t.list)-1]
	t.busy++
	return x, true
}

// done says that a span is in order but for its parts.
func (t *tasks) done(parts []span, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, parts...)
	if t.busy--; t.failed == nil {
		t.failed = err
	}
	t.wake.Broadcast()
}

// worker has what one thread sorts in.
type worker struct {
	*sorter
	list, spare  []record
	groups, next []group
	chunk        []byte
	counts       []uint32
}

// group is records from from to to that have the same keys so far.
type group struct{ from, to int }

// do brings a span into order, or distributes it into parts.
func (w *worker) do(ctx context.Context, x span) ([]span, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch {
	case x.in == nil, x.n > w.most && x.same < depth:
		return w.distribute(ctx, x)
	case x.n > w.most:
		return nil, w.move(ctx, x)
	}
	return nil, w.sort(x)
}

// file is the file that places go to from another one.
func (s *sorter) file(from *os.File) (*os.File, error) {
	if from != s.b.f {
		return s.b.f, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare == nil {
		f, err := os.CreateTemp(filepath.Dir(s.b.f.Name()), filepath.Base(s.b.f.Name())+"-*")
		if err != nil {
			return nil, err
		}
		s.spare = f
	}
	return s.spare, nil
}

func (s *sorter) close() error {
	if s.spare == nil {
		return nil
	}
	return errors.Join(s.spare.Close(), os.Remove(s.spare.Name()))
}

// offset is where a place of the order is in either file.
func (s *sorter) offset(i int64) int64 { return headerBytes + s.b.h.parts()[0] + placeBytes*i }

// each calls take with the positions of a span, some at a time, and with where the first of them is in it.
func (w *worker) each(ctx context.Context, x span, take func(i int64, at []uint32) error) error {
	list := make([]uint32, 0, min(x.n, chunkBytes/placeBytes))
	if x.in == nil {
		i := int64(0)
		for at := uint64(lead); at < w.b.h.Tokens; at++ {
			if w.token(at) != w.ends {
				list = append(list, uint32(at))
			}
			if len(list) == cap(list) || at+1 == w.b.h.Tokens {
				if err := errors.Join(ctx.Err(), take(i, list)); err != nil {
					return err
				}
				i += int64(len(list))
				list = list[:0]
			}
		}
		return nil
	}
	if w.chunk == nil {
		w.chunk = make([]byte, chunkBytes)
	}
	for i := int64(0); i < x.n; i += int64(len(list)) {
		part := w.chunk[:placeBytes*min(int64(cap(list)), x.n-i)]
		if n, err := x.in.ReadAt(part, w.offset(x.lo+i)); n < len(part) {
			return err
		}
		list = list[:0]
		for k := 0; k < len(part); k += placeBytes {
			list = append(list, binary.LittleEndian.Uint32(part[k:]))
		}
		if err := errors.Join(ctx.Err(), take(i, list)); err != nil {
			return err
		}
	}
	return nil
}

// key is the key of the tokens before so many last ones of a place, to depth.
func (s *sorter) key(at uint32, same int) uint64 {
	return s.tokens.key(uint64(at)-uint64(same)) >> (s.tokens.bits * uint64(max(same+s.tokens.each-depth, 0)))
}

func (s *sorter) token(at uint64) uint64 { return s.tokens.before(at) >> (64 - s.tokens.bits) }

// distribute moves the places of a span into spans by the token before those that are the same.
func (w *worker) distribute(ctx context.Context, x span) (parts []span, err error) {
	counts := w.b.counts
	if x.in != nil {
		if w.counts == nil {
			w.counts = make([]uint32, len(counts))
		}
		counts = w.counts
		clear(counts)
		err = w.each(ctx, x, func(_ int64, list []uint32) error {
			for _, at := range list {
				counts[w.token(uint64(at)-uint64(x.same))]++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		w.b.read.Add(x.n)
	}
	of := make([]uint32, len(counts)) // tokens
	lo := x.lo
	for id, n := range counts {
		if n == 0 {
			continue
		}
		last := len(parts) - 1
		if last >= 0 && parts[last].n+int64(n) <= w.most {
			parts[last].n += int64(n)
			parts[last].same = x.same
		} else {
			parts = append(parts, span{lo, int64(n), x.same + 1, nil})
		}
		of[id] = uint32(len(parts) - 1)
		lo += int64(n)
	}
	if len(parts) == 1 && x.in != nil { // all the same
		parts[0].in = x.in
		return parts, nil
	}
	to := w.b.f
	if x.in != nil {
		if to, err = w.file(x.in); err != nil {
			return nil, err
		}
	}
	size := min(max(bufferBytes/len(parts), leastBuffer), mostBuffer)
	buffers := make([][]byte, len(parts))
	written := make([]int64, len(parts)) // places
	flush := func(i uint32) error {
		_, err := to.WriteAt(buffers[i], w.offset(parts[i].lo+written[i]))
		written[i] += int64(len(buffers[i]) / placeBytes)
		buffers[i] = buffers[i][:0]
		return err
	}
	for i := range buffers {
		buffers[i] = make([]byte, 0, size)
	}
	err = w.each(ctx, x, func(_ int64, list []uint32) error {
		for _, at := range list {
			i := of[w.token(uint64(at)-uint64(x.same))]
			buffers[i] = binary.LittleEndian.AppendUint32(buffers[i], at)
			if len(buffers[i])+placeBytes > size {
				if err := flush(i); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for i := range parts {
		if parts[i].in = to; err == nil && len(buffers[i]) > 0 {
			err = flush(uint32(i))
		}
	}
	w.b.read.Add(x.n)
	return parts, err
}

// put writes places that are in order, from a place of the order on, with the fences among them.
func (w *worker) put(lo int64, n int, at func(int) uint32) error {
	parts := w.b.h.parts()
	if w.chunk == nil {
		w.chunk = make([]byte, chunkBytes)
	}
	var fences []byte
	firstFence := (lo + fenceEvery - 1) / fenceEvery
	for i := 0; i < n; {
		from := parts[0] + placeBytes*(lo+int64(i)) // chunks end where blocks do
		part := w.chunk[:0]
		for room := chunkBytes - from%blockBytes; int64(len(part)) < room && i < n; i++ {
			if (lo+int64(i))%fenceEvery == 0 {
				fences = binary.LittleEndian.AppendUint64(fences, w.tokens.key(uint64(at(i))-1))
			}
			part = binary.LittleEndian.AppendUint32(part, at(i))
		}
		if err := w.b.put(from, part); err != nil {
			return err
		}
	}
	w.b.progress(int64(float64(w.b.total) / 2 * float64(n) / float64(w.b.h.Places)))
	return w.b.put(parts[0]+parts[1]+8*firstFence, fences)
}

// move writes the places of a span that are in order, as all their tokens are the same.
func (w *worker) move(ctx context.Context, x span) error {
	return w.each(ctx, x, func(i int64, list []uint32) error {
		return w.put(x.lo+i, len(list), func(i int) uint32 { return list[i] })
	})
}

// sort brings a span that fits the memory into order.
func (w *worker) sort(x span) error {
	if int64(len(w.list)) < x.n {
		n := min(w.most, int64(w.b.h.Places))
		w.list, w.spare = make([]record, n), make([]record, n)
	}
	list, spare := w.list[:x.n], w.spare[:x.n]
	err := w.each(context.Background(), x, func(i int64, places []uint32) error {
		for k, at := range places {
			list[i+int64(k)] = record{w.key(at, x.same), at}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.b.read.Add(x.n)
	if x.same < depth {
		w.parts(list, spare, x.same)
	}
	return w.put(x.lo, len(list), func(i int) uint32 { return list[i].at })
}

// parts sorts records, which come in the order of their positions: many of them in parts, by the highest bits in which
// keys differ.
func (w *worker) parts(list, spare []record, same int) {
	least, most := list[0].key, list[0].key
	if len(list) > manyRecords {
		for i := range list {
			least, most = min(least, list[i].key), max(most, list[i].key)
		}
	}
	if least == most { // or they are few
		w.levels(list, spare, same)
		return
	}
	shift := max(bits.Len64(least^most)-digitBits, 0)
	var ends [1<<digitBits + 1]uint32
	for i := range list {
		ends[list[i].key>>shift&(1<<digitBits-1)+1]++
	}
	for i := range 1 << digitBits {
		ends[i+1] += ends[i]
	}
	next := ends
	for _, r := range list {
		d := r.key >> shift & (1<<digitBits - 1)
		spare[next[d]] = r
		next[d]++
	}
	copy(list, spare)
	for i := range 1 << digitBits {
		if from, to := ends[i], ends[i+1]; from < to {
			w.parts(list[from:to], spare[from:to], same)
		}
	}
}

// levels sorts records by their keys, and those with the same keys by the tokens before, to depth.
func (w *worker) levels(list, spare []record, same int) {
	byKey(list, spare)
	groups := alike(w.groups[:0], list, 0)
	for same += w.tokens.each; same < depth && len(groups) > 0; same += w.tokens.each {
		n := 0
		for _, g := range groups { // apart from sorting, so that reading memory overlaps
			n += g.to - g.from
			for i := g.from; i < g.to; i++ {
				list[i].key = w.key(list[i].at, same)
			}
		}
		w.b.read.Add(int64(n))
		more := w.next[:0]
		for _, g := range groups {
			part := list[g.from:g.to]
			byKey(part, spare[:len(part)])
			more = alike(more, part, g.from)
		}
		groups, w.next = more, groups
	}
	w.groups = groups
}

// alike appends the groups of sorted records that have the same keys; the first record is number from.
func alike(groups []group, list []record, from int) []group {
	for i := 0; i < len(list); {
		k := i + 1
		for k < len(list) && list[k].key == list[i].key {
			k++
		}
		if k-i > 1 {
			groups = append(groups, group{from + i, from + k})
		}
		i = k
	}
	return groups
}

// byKey sorts by keys; equal ones stay in their order.
func byKey(list, spare []record) {
	if len(list) <= fewRecords {
		insertion(list)
	} else {
		radix(list, spare)
	}
}

// insertion does so for few.
func insertion(list []record) {
	for i := 1; i < len(list); i++ {
		r, k := list[i], i
		for ; k > 0 && list[k-1].key > r.key; k-- {
			list[k] = list[k-1]
		}
		list[k] = r
	}
}

// radix does so by the bytes of keys from the last to the first.
func radix(list, spare []record) {
	var counts [8][256]uint32
	for i := range list {
		for d, key := 0, list[i].key; d < 8; d, key = d+1, key>>8 {
			counts[d][byte(key)]++
		}
	}
	from, to := list, spare
	for d := range counts {
		c, shift := &counts[d], 8*d
		if int(c[byte(from[0].key>>shift)]) == len(list) { // the same in all
			continue
		}
		sum := uint32(0)
		for i := range c {
			c[i], sum = sum, sum+c[i]
		}
		for _, r := range from {
			b := byte(r.key >> shift)
			to[c[b]] = r
			c[b]++
		}
		from, to = to, from
	}
	if &from[0] != &list[0] {
		copy(list, from)
	}
}
