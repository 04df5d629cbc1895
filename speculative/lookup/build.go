package lookup

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// Options configure [Build].
type Options struct {
	Encode     func(text string) []int32 // token ids of a text, called by several goroutines at once
	Vocab      int                       // ids are below it
	Vocabulary [sha256.Size]byte         // sum of the vocabulary
	Memory     int64                     // bytes for sorting; 0: [UsualMemory]. The tokens are mapped beside it
	Threads    int                       // 0: as many as processors
	Progress   func(done, total int64)   // half of total is bytes of text that are read, half suffixes in order
}

// UsualMemory is the memory for sorting, in bytes, where none is given; about twice as much is taken. The tokens are
// mapped beside it, 2 to 4 bytes each: pages of the file that the system may drop.
const UsualMemory = 192 << 20

const (
	recordBytes = 2 * 16 // of a suffix that is being sorted
	fewRecords  = 48     // that are sorted by insertion
)

// Build writes an index of texts to the file at path, in place of an older one, when it is whole. Files and folders
// are read as [Texts] says. It takes a position of 32 bits for each token: more than 4,294,967,294 tokens are refused.
func Build(ctx context.Context, path string, paths []string, o Options) (err error) {
	if o.Encode == nil || o.Vocab < 1 || o.Vocab > 1<<20 {
		return fmt.Errorf("lookup: an encoder and a vocabulary of 1 to %d tokens are needed, not %d", 1<<20, o.Vocab)
	}
	if o.Memory <= 0 {
		o.Memory = UsualMemory
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	list, about, err := find(ctx, paths)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	b := &builder{o: o, out: newWriter(f), counts: make([]uint32, o.Vocab+1), about: about}
	b.h = header{Version: version, Vocab: uint32(o.Vocab), Depth: depth, Vocabulary: o.Vocabulary, Width: 2}
	copy(b.h.Magic[:], magic)
	for uint64(o.Vocab)>>(8*b.h.Width) > 0 {
		b.h.Width++
	}
	for _, s := range about.Sources {
		b.total += 2 * s.Bytes
	}
	if _, err = f.Write(make([]byte, headerBytes)); err != nil {
		return err
	}
	if err = b.tokens(ctx, list); err != nil {
		return err
	}
	if err = b.suffixes(ctx, f); err != nil {
		return err
	}
	text, err := json.Marshal(b.about)
	if err != nil {
		return err
	}
	b.h.AboutLen = uint64(len(text))
	b.out.Write(text)
	if err = b.out.end(&b.h); err != nil {
		return err
	}
	if _, err = f.WriteAt(b.h.encode(), 0); err != nil {
		return err
	}
	if err = errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// builder is an index that is being written.
type builder struct {
	o           Options
	h           header
	out         *writer
	about       About
	counts      []uint32 // of suffixes by first token
	done, total int64
}

func (b *builder) progress(n int64) {
	if b.done += n; b.o.Progress != nil {
		b.o.Progress(min(b.done, b.total), b.total)
	}
}

// piece is a part of a text that is encoded by itself.
type piece struct {
	text string
	ends bool // the text
	ids  chan []int32
}

// tokens writes the tokens of all texts.
func (b *builder) tokens(ctx context.Context, list []file) error {
	err := b.o.encoded(ctx, list, func(p *piece, ids []int32) error {
		if err := b.add(ids, p.ends); err != nil {
			return err
		}
		b.h.TextBytes += uint64(len(p.text))
		b.progress(int64(len(p.text)))
		return nil
	})
	switch {
	case err != nil:
		return err
	case b.h.Suffixes == 0:
		return errors.New("there are no texts to look up in")
	}
	return b.out.err
}

// Count counts how often each token is in texts, which are read as [Build] reads them: the first most bytes of them.
func Count(ctx context.Context, paths []string, o Options, most int64) (counts []uint64, err error) {
	list, _, err := find(ctx, paths)
	if err != nil {
		return nil, err
	}
	counts, o.Threads = make([]uint64, o.Vocab), cmp.Or(max(o.Threads, 0), runtime.GOMAXPROCS(0))
	enough := errors.New("enough")
	err = o.encoded(ctx, list, func(p *piece, ids []int32) error {
		for _, id := range ids {
			if id < 0 || int(id) >= o.Vocab {
				return fmt.Errorf("lookup: token %d of a vocabulary of %d", id, o.Vocab)
			}
			counts[id]++
		}
		if most -= int64(len(p.text)); most <= 0 {
			return enough
		}
		return nil
	})
	if err != nil && err != enough {
		return nil, err
	}
	return counts, nil
}

// encoded gives take the pieces of all texts with their tokens, in their order. They are encoded side by side.
func (o *Options) encoded(ctx context.Context, list []file, take func(*piece, []int32) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	order, work := make(chan *piece, 4*o.Threads), make(chan *piece, 4*o.Threads)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(nil)
	for range o.Threads {
		running.Go(func() {
			for p := range work {
				p.ids <- o.Encode(p.text)
			}
		})
	}
	running.Go(func() {
		defer close(order)
		defer close(work)
		err := texts(ctx, list, func(text string, ends bool) error {
			p := &piece{text: text, ends: ends, ids: make(chan []int32, 1)}
			for _, to := range []chan *piece{work, order} {
				select {
				case to <- p:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		})
		if err != nil {
			stop(err)
		}
	})
	for p := range order {
		if err := take(p, <-p.ids); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// add writes tokens.
func (b *builder) add(ids []int32, ends bool) error {
	for _, id := range ids {
		if id < 0 || int(id) >= b.o.Vocab {
			return fmt.Errorf("lookup: token %d of a vocabulary of %d", id, b.o.Vocab)
		}
		b.counts[id]++
		b.out.token(id, b.h.Width)
	}
	b.h.Suffixes += uint64(len(ids))
	if b.h.Tokens += uint64(len(ids)); ends {
		b.out.token(int32(b.o.Vocab), b.h.Width)
		b.h.Tokens++
		b.h.Texts++
	}
	if b.h.Tokens > mostTokens {
		return fmt.Errorf("lookup: more than %d tokens: make several indexes", uint64(mostTokens))
	}
	return b.out.err
}

// record is a suffix by its next tokens, behind those that are known to be the same.
type record struct {
	key uint64
	at  uint32
}

// suffixes writes the suffixes in their order: those of as many first tokens at a time as fit the memory.
func (b *builder) suffixes(ctx context.Context, f *os.File) error {
	if err := b.out.w.Flush(); err != nil {
		return err
	}
	tokens, _, _, _ := b.h.body()
	begun := b.out.block // of a block that suffixes will complete
	if _, err := f.WriteAt(begun, headerBytes+tokens-int64(len(begun))); err != nil {
		return err
	}
	data, release, err := view(f, headerBytes+tokens)
	if err != nil {
		return err
	}
	defer release()
	s := newSorter(data[headerBytes:], &b.h)
	most := max(b.o.Memory/recordBytes, 1)
	next := make([]uint32, b.o.Vocab)
	var records []record
	for from := 0; from < b.o.Vocab; {
		to, n := from, int64(0)
		for to < b.o.Vocab && (to == from || n+int64(b.counts[to]) <= most) {
			next[to] = uint32(n)
			n += int64(b.counts[to])
			to++
		}
		records = slices.Grow(records[:0], int(n))[:n]
		if err := s.gather(ctx, records, next, int32(from), int32(to)); err != nil {
			return err
		}
		if err := b.order(ctx, s, records, next[from:to]); err != nil {
			return err
		}
		for i := range records {
			b.out.uint32(records[i].at)
		}
		b.progress(int64(float64(b.total) / 2 * float64(n) / float64(b.h.Suffixes)))
		if from = to; b.out.err != nil {
			return b.out.err
		}
	}
	sum := uint32(0)
	for _, n := range b.counts {
		b.out.uint32(sum)
		sum += n
	}
	return b.out.err
}

// order sorts records; ends are where those of each first token end.
func (b *builder) order(ctx context.Context, s *sorter, records []record, ends []uint32) error {
	var running sync.WaitGroup
	work := make(chan []record, 64)
	for range b.o.Threads {
		running.Go(func() {
			var spare []record
			for list := range work {
				spare = slices.Grow(spare[:0], len(list))[:len(list)]
				s.sort(list, spare, 1)
			}
		})
	}
	from := uint32(0)
	for _, to := range ends {
		if ctx.Err() != nil {
			break
		}
		if to-from > 1 {
			work <- records[from:to]
		}
		from = to
	}
	close(work)
	running.Wait()
	return ctx.Err()
}

// sorter sorts suffixes by their tokens.
type sorter struct {
	data        []byte
	width       int
	tokens, end uint64
	bits, each  int // of a token in a key; tokens of a key
}

func newSorter(data []byte, h *header) *sorter {
	s := &sorter{data: data, width: int(h.Width), tokens: h.Tokens, end: uint64(h.Vocab), bits: bits.Len32(h.Vocab)}
	s.each = min(64/s.bits, depth)
	return s
}

// token is the one at a position; behind the last text its end.
func (s *sorter) token(at uint64) uint64 {
	if at >= s.tokens {
		return s.end
	}
	i := int(at) * s.width
	id := uint64(s.data[i]) | uint64(s.data[i+1])<<8
	for k := 2; k < s.width; k++ {
		id |= uint64(s.data[i+k]) << (8 * k)
	}
	return id
}

// key is the tokens from a position on.
func (s *sorter) key(at uint64) (key uint64) {
	for i := range uint64(s.each) {
		key = key<<s.bits | s.token(at+i)
	}
	return key
}

// gather collects the suffixes that begin with tokens from from to to, those of each where next says, which is moved to
// their end.
func (s *sorter) gather(ctx context.Context, to []record, next []uint32, from, end int32) error {
	first, key := s.token(0), s.key(1)
	top, mask := s.bits*(s.each-1), ^uint64(0)>>(64-s.bits*s.each)
	for at := uint64(0); at < s.tokens; at++ {
		if int32(first) >= from && int32(first) < end {
			to[next[first]] = record{key, uint32(at)}
			next[first]++
		}
		first = key >> top
		key = key<<s.bits&mask | s.token(at+1+uint64(s.each))
		if at%(1<<24) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// sort sorts suffixes, which come in the order of their positions, and whose keys begin behind so many tokens. spare is
// scratch of the same length.
func (s *sorter) sort(list, spare []record, behind int) {
	if len(list) <= fewRecords {
		insertion(list)
	} else {
		radix(list, spare)
	}
	if behind += s.each; behind >= depth {
		return
	}
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].key == list[from].key {
			to++
		}
		if same := list[from:to]; len(same) > 1 {
			for i := range same {
				same[i].key = s.key(uint64(same[i].at) + uint64(behind))
			}
			s.sort(same, spare[:len(same)], behind)
		}
		from = to
	}
}

// insertion sorts by keys; equal ones stay in their order.
func insertion(list []record) {
	for i := 1; i < len(list); i++ {
		r, k := list[i], i
		for ; k > 0 && list[k-1].key > r.key; k-- {
			list[k] = list[k-1]
		}
		list[k] = r
	}
}

// radix does likewise, by the bytes of keys from the last to the first.
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

// writer writes the body and sums its blocks.
type writer struct {
	w     *bufio.Writer
	block []byte
	sums  []byte
	err   error
}

func newWriter(w io.Writer) *writer {
	return &writer{w: bufio.NewWriterSize(w, 1<<20), block: make([]byte, 0, blockBytes)}
}

func (w *writer) Write(p []byte) (int, error) {
	for n := len(p); len(p) > 0 && w.err == nil; n = len(p) {
		n = min(n, blockBytes-len(w.block))
		w.block = append(w.block, p[:n]...)
		if p = p[n:]; len(w.block) == blockBytes {
			w.flush()
		}
	}
	return len(p), w.err
}

func (w *writer) flush() {
	if len(w.block) == 0 || w.err != nil {
		return
	}
	w.sums = binary.LittleEndian.AppendUint32(w.sums, crc32.Checksum(w.block, sums))
	_, w.err = w.w.Write(w.block)
	w.block = w.block[:0]
}

func (w *writer) token(id int32, width uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(id))
	w.Write(b[:width])
}

func (w *writer) uint32(n uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], n)
	w.Write(b[:])
}

// end writes the sums.
func (w *writer) end(h *header) error {
	w.flush()
	h.Sums = crc32.Checksum(w.sums, sums)
	if w.err == nil {
		_, w.err = w.w.Write(w.sums)
	}
	return errors.Join(w.err, w.w.Flush())
}
