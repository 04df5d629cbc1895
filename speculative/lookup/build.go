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
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/specgo/spec/internal/wholefile"
)

// Options configure [Build].
type Options struct {
	Encode     func(text string) []int32 // token ids of a text, called by several goroutines at once
	Vocab      int                       // ids are below it
	Vocabulary [sha256.Size]byte         // sum of the vocabulary
	Memory     int64                     // bytes for sorting; 0: [UsualMemory]. The tokens are mapped beside it
	Threads    int                       // 0: as many as processors
	Progress   func(done, total int64)   // half of total is bytes of text that are read, half places in order
}

// UsualMemory is the memory for sorting, in bytes, where none is given. The tokens are mapped beside it, as many bits
// each as an id has: pages of the file that the system may drop.
const UsualMemory = 128 << 20

// Build writes an index of texts to the file at path, in place of an older one, when it is whole. Files and folders
// are read as [Texts] says. It takes a position of 32 bits for each token: more than 4,294,967,294 tokens are refused.
func Build(ctx context.Context, path string, paths []string, o Options) error {
	_, err := buildIndex(ctx, path, paths, o)
	return err
}

func buildIndex(ctx context.Context, path string, paths []string, o Options) (b *builder, err error) {
	if o.Encode == nil || o.Vocab < 1 || o.Vocab > 1<<20 {
		return nil, fmt.Errorf("lookup: an encoder and a vocabulary of 1 to %d tokens are needed, not %d", 1<<20, o.Vocab)
	}
	if o.Memory <= 0 {
		o.Memory = UsualMemory
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	list, about, err := find(ctx, paths)
	if err != nil {
		return nil, err
	}
	path = wholefile.Resolve(path) // so that a link stays one
	f, err := createTemp(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	b = &builder{o: o, f: f, counts: make([]uint32, o.Vocab+1)}
	b.h = header{Version: version, Vocab: uint32(o.Vocab), Depth: depth, Vocabulary: o.Vocabulary,
		Bits: uint32(bits.Len(uint(o.Vocab)))}
	copy(b.h.Magic[:], magic)
	for _, s := range about.Sources {
		b.total += 2 * s.Bytes
	}
	text, err := json.Marshal(about)
	if err != nil {
		return b, err
	}
	b.h.AboutLen = uint64(len(text))
	if err = b.tokens(ctx, list); err != nil {
		return b, err
	}
	if err = b.order(ctx); err != nil {
		return b, err
	}
	if err = b.end(text); err != nil {
		return b, err
	}
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return b, err
	}
	return b, os.Rename(f.Name(), path)
}

// createTemp makes a new file beside path, with the permissions that the umask leaves: an index tells the texts that it
// is of. os.CreateTemp would make it its owner's alone, also where several users share a cache directory.
func createTemp(path string) (*os.File, error) {
	const tries = 1000
	for i := 0; ; i++ {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s-%d-%d", filepath.Base(path), os.Getpid(), i))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil || !errors.Is(err, fs.ErrExist) || i == tries {
			return f, err
		}
	}
}

// builder is an index that is being written.
type builder struct {
	o      Options
	h      header
	f      *os.File
	counts []uint32 // of places by their tokens
	sums   []uint32 // of the body's blocks
	summed []bool   // which of them are known

	mu          sync.Mutex
	done, total int64

	read atomic.Int64 // keys and tokens, by which places are brought into order: for tests
}

func (b *builder) progress(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
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
	w := &tokenWriter{w: bufio.NewWriterSize(io.NewOffsetWriter(b.f, headerBytes), 1<<20), bits: int(b.h.Bits)}
	for range lead {
		w.add(int32(b.o.Vocab))
	}
	b.h.Tokens = lead
	err := b.o.encoded(ctx, list, func(p *piece, ids []int32) error {
		for _, id := range ids {
			if id < 0 || int(id) >= b.o.Vocab {
				return fmt.Errorf("lookup: token %d of a vocabulary of %d", id, b.o.Vocab)
			}
			b.counts[id]++
			w.add(id)
		}
		b.h.Places += uint64(len(ids))
		if b.h.Tokens += uint64(len(ids)); p.ends {
			w.add(int32(b.o.Vocab))
			b.h.Tokens++
			b.h.Texts++
		}
		if b.h.Tokens > mostTokens {
			return fmt.Errorf("lookup: more than %d tokens: make several indexes", uint64(mostTokens))
		}
		b.h.TextBytes += uint64(len(p.text))
		b.progress(int64(len(p.text)))
		return w.err
	})
	switch {
	case err != nil:
		return err
	case b.h.Places == 0:
		return errors.New("there are no texts to look up in")
	}
	if err := w.end(); err != nil {
		return err
	}
	body := int64(0)
	for _, n := range b.h.parts() {
		body += n
	}
	blocks := (body + blockBytes - 1) / blockBytes
	b.sums, b.summed = make([]uint32, blocks), make([]bool, blocks)
	for i, sum := range w.sums {
		b.sums[i], b.summed[i] = sum, true
	}
	return nil
}

// tokenWriter writes tokens as [packed] has them, and sums whole blocks of them.
type tokenWriter struct {
	w     *bufio.Writer
	bits  int
	word  uint64 // its lowest n bits are not in block yet
	n     int
	block []byte
	sums  []uint32
	err   error
}

func (w *tokenWriter) add(id int32) {
	w.word |= uint64(id) << w.n
	if w.n += w.bits; w.n < 32 {
		return
	}
	w.block = binary.LittleEndian.AppendUint32(w.block, uint32(w.word))
	w.word, w.n = w.word>>32, w.n-32
	if len(w.block) == blockBytes {
		w.sums = append(w.sums, crc32.Checksum(w.block, sums))
		w.flush()
	}
}

func (w *tokenWriter) flush() {
	if _, err := w.w.Write(w.block); err != nil && w.err == nil {
		w.err = err
	}
	w.block = w.block[:0]
}

// end writes what is left, to a multiple of 64 bits.
func (w *tokenWriter) end() error {
	if w.n > 0 {
		w.block = binary.LittleEndian.AppendUint32(w.block, uint32(w.word))
	}
	if len(w.block)%8 != 0 {
		w.block = append(w.block, 0, 0, 0, 0)
	}
	w.flush()
	return errors.Join(w.err, w.w.Flush())
}

// put writes bytes at a place of the body, and sums the blocks that are whole in them.
func (b *builder) put(at int64, data []byte) error {
	if _, err := b.f.WriteAt(data, headerBytes+at); err != nil {
		return err
	}
	for from := (blockBytes - at%blockBytes) % blockBytes; from+blockBytes <= int64(len(data)); from += blockBytes {
		i := (at + from) / blockBytes
		b.sums[i], b.summed[i] = crc32.Checksum(data[from:from+blockBytes], sums), true
	}
	return nil
}

// end writes the rest of the body, the sums and the header.
func (b *builder) end(about []byte) error {
	var buckets []byte
	sum := uint32(0)
	for _, n := range b.counts {
		buckets = binary.LittleEndian.AppendUint32(buckets, sum)
		sum += n
	}
	parts := b.h.parts()
	at := parts[0] + parts[1] + parts[2]
	if err := b.put(at, append(buckets, about...)); err != nil {
		return err
	}
	body := at + parts[3] + parts[4]
	var list []byte
	block := make([]byte, blockBytes)
	for i := range b.sums {
		if !b.summed[i] { // several have written it
			from := int64(i) * blockBytes
			part := block[:min(blockBytes, body-from)]
			if _, err := b.f.ReadAt(part, headerBytes+from); err != nil {
				return err
			}
			b.sums[i] = crc32.Checksum(part, sums)
		}
		list = binary.LittleEndian.AppendUint32(list, b.sums[i])
	}
	b.h.Sums = crc32.Checksum(list, sums)
	if _, err := b.f.WriteAt(list, headerBytes+body); err != nil {
		return err
	}
	_, err := b.f.WriteAt(b.h.encode(), 0)
	return err
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
