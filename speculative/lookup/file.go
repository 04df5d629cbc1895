package lookup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"runtime/debug"
	"sync/atomic"
)

const (
	magic       = "SPECLKUP"
	version     = 2
	headerBytes = 4096
	blockBytes  = 4096
	depth       = 24  // tokens by which places are in order
	mostDepth   = 64  // that a header may say
	lead        = 128 // ends of texts before the first, so that what is before a token can be read without a look
	fenceEvery  = 64  // places
	mostTokens  = 1<<32 - 2
	mostAbout   = 64 << 20 // bytes of a description
)

// Errors of indexes.
var (
	// ErrIndex is a file that is no index, or a damaged one.
	ErrIndex = errors.New("no intact index of texts")
	// ErrNoIndex is a file or folder that does not begin as an index: it may be a text.
	ErrNoIndex = fmt.Errorf("%w: it does not begin as one", ErrIndex)
	// ErrVocabulary is an index of another vocabulary.
	ErrVocabulary = errors.New("an index of another vocabulary")
)

// header is the fixed part of the header.
type header struct {
	Magic                                      [8]byte
	Version, Bits, Vocab, Depth                uint32
	Tokens, Places, Texts, TextBytes, AboutLen uint64
	Vocabulary                                 [sha256.Size]byte
	Sums, Header                               uint32
}

var sums = crc32.MakeTable(crc32.Castagnoli)

// parts are the bytes of the body's: tokens, places, fences, buckets and description.
func (h *header) parts() [5]int64 {
	tokens := (int64(h.Tokens)*int64(h.Bits) + 63) / 64 * 8
	fences := (int64(h.Places) + fenceEvery - 1) / fenceEvery
	return [5]int64{tokens, int64(h.Places) * 4, fences * 8, 4 * (int64(h.Vocab) + 1), int64(h.AboutLen)}
}

// packed are token ids of so many bits each, from the lowest bit of the first byte on.
type packed struct {
	data []byte
	bits uint64
	each int // tokens of a key
}

func newPacked(data []byte, h *header) packed {
	return packed{data, uint64(h.Bits), min(57/int(h.Bits), depth)}
}

// before is the token at a position in the highest bits, the one before it below it, and so on: 57 bits or more of
// them. There have to be 64 bits up to the token's end.
func (p *packed) before(at uint64) uint64 {
	end := (at + 1) * p.bits
	b := (end + 7) / 8
	return binary.LittleEndian.Uint64(p.data[b-8:b]) << (8*b - end)
}

// key is a number in the order of so many tokens up to a position, the last of them first.
func (p *packed) key(at uint64) uint64 { return p.before(at) >> (64 - p.bits*uint64(p.each)) }

// encode is the header with its sum.
func (h *header) encode() []byte {
	var b bytes.Buffer
	h.Header = 0
	binary.Write(&b, binary.LittleEndian, h)
	raw := b.Bytes()
	h.Header = crc32.Checksum(raw[:len(raw)-4], sums)
	binary.LittleEndian.PutUint32(raw[len(raw)-4:], h.Header)
	return append(raw, make([]byte, headerBytes-len(raw))...)
}

// decodeHeader reads a header strictly.
func decodeHeader(raw []byte) (h header, err error) {
	n := binary.Size(h)
	if len(raw) < headerBytes || string(raw[:8]) != magic {
		return h, ErrNoIndex
	}
	binary.Read(bytes.NewReader(raw[:n]), binary.LittleEndian, &h)
	switch {
	case h.Version != version:
		return h, fmt.Errorf("%w: version %d, known is %d", ErrIndex, h.Version, version)
	case crc32.Checksum(raw[:n-4], sums) != h.Header, !zero(raw[n:headerBytes]):
		return h, fmt.Errorf("%w: the header is damaged", ErrIndex)
	case h.Vocab == 0 || h.Vocab > 1<<30 || int(h.Bits) != bits.Len32(h.Vocab) || h.Depth == 0 || h.Depth > mostDepth ||
		h.Tokens < lead || h.Tokens > mostTokens || h.Places > h.Tokens-lead || h.AboutLen > mostAbout:
		return h, fmt.Errorf("%w: the header has sizes that cannot be", ErrIndex)
	}
	return h, nil
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// About is what an index says of itself.
type About struct {
	Sources []Source `json:"sources"` // that it was made of
	Left    int      `json:"left"`    // files that were left out: no texts
	Tokens  int64    `json:"-"`       // with an end of each text
	Texts   int64    `json:"-"`
	Bytes   int64    `json:"-"` // of text
	File    int64    `json:"-"` // bytes of the file
}

// Source is a file or folder that an index was made of.
type Source struct {
	Path    string `json:"path"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
	Changed string `json:"changed"` // of the file that was changed last, RFC 3339
}

// Index is an open index. It is safe for concurrent use; nobody may use it when it is closed.
type Index struct {
	name    string
	data    []byte // the whole file
	release func() error
	h       header
	about   About

	sums    []byte          // of the blocks
	checked []atomic.Uint32 // a bit for each block
	tokens  packed
	from    [5]int64 // where the parts of the body begin in data
}

// Open opens the index at path. What is damaged is an error that wraps [ErrIndex], here or when it is first read; a
// file that becomes shorter while it is open is one, too.
func Open(path string) (x *Index, err error) {
	wrong := func(err error) error { return fmt.Errorf("%s: %w", path, err) }
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe waits for its writer
		return nil, wrong(ErrNoIndex)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, headerBytes)
	if _, err := io.ReadFull(f, raw); !info.Mode().IsRegular() || err != nil {
		return nil, wrong(ErrNoIndex)
	}
	x = &Index{name: path}
	if x.h, err = decodeHeader(raw); err != nil {
		return nil, wrong(err)
	}
	body := int64(0)
	for i, n := range x.h.parts() {
		x.from[i] = headerBytes + body
		body += n
	}
	blocks := (body + blockBytes - 1) / blockBytes
	if whole := headerBytes + body + 4*blocks; whole != info.Size() {
		return nil, wrong(fmt.Errorf("%w: %d bytes, by its header %d", ErrIndex, info.Size(), whole))
	}
	if x.data, x.release, err = view(f, info.Size()); err != nil {
		return nil, wrong(err)
	}
	x.tokens = newPacked(x.data[headerBytes:x.from[1]], &x.h)
	x.sums, x.checked = x.data[headerBytes+body:], make([]atomic.Uint32, blocks/32+1)
	err = x.guarded(func() error {
		if crc32.Checksum(x.sums, sums) != x.h.Sums {
			return fmt.Errorf("%w: its sums are damaged", ErrIndex)
		}
		text, err := x.read(x.from[4], int64(x.h.AboutLen))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &x.about); err != nil {
			return fmt.Errorf("%w: its description: %w", ErrIndex, err)
		}
		return nil
	})
	if err != nil {
		x.release()
		return nil, err
	}
	x.about.Tokens, x.about.Texts, x.about.Bytes = int64(x.h.Tokens-lead), int64(x.h.Texts), int64(x.h.TextBytes)
	x.about.File = info.Size()
	return x, nil
}

// Close gives the file back.
func (x *Index) Close() error { return x.release() }

// About describes the index.
func (x *Index) About() About { return x.about }

// Name is the path of the file.
func (x *Index) Name() string { return x.name }

// Fits refuses, with an error that wraps [ErrVocabulary], an index of another vocabulary than that with this sum.
func (x *Index) Fits(vocabulary [sha256.Size]byte) error {
	if x.h.Vocabulary != vocabulary {
		return fmt.Errorf("%s: %w than the model's: spec lookup build -m MODEL makes one", x.name, ErrVocabulary)
	}
	return nil
}

// Check reads the whole file, and returns what is wrong.
func (x *Index) Check() error {
	return x.guarded(func() error {
		for at := int64(headerBytes); at < int64(len(x.data)-len(x.sums)); at += blockBytes {
			if _, err := x.read(at, 1); err != nil {
				return err
			}
		}
		r := reader{x: x}
		for i := int64(0); i < int64(x.h.Places) && r.err == nil; i++ {
			r.place(i)
		}
		return r.err
	})
}

// guarded runs f, whose reads fail where the file has become shorter, and names the file in its error.
func (x *Index) guarded(f func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if e := recover(); e != nil {
			if fault, ok := e.(interface{ Addr() uintptr }); !ok {
				panic(e)
			} else {
				err = fmt.Errorf("%w: the file cannot be read at address %x: has it become shorter?", ErrIndex, fault.Addr())
			}
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", x.name, err)
		}
	}()
	return f()
}

// read is n bytes of the body at a place of the file, whose sums hold.
func (x *Index) read(at, n int64) ([]byte, error) {
	for b := (at - headerBytes) / blockBytes; b <= (at-headerBytes+n-1)/blockBytes; b++ {
		if bit := uint32(1) << (b % 32); x.checked[b/32].Load()&bit == 0 {
			if err := x.check(b); err != nil {
				return nil, err
			}
			x.checked[b/32].Or(bit)
		}
	}
	return x.data[at : at+n], nil
}

// check compares a block with its sum.
func (x *Index) check(b int64) error {
	from := headerBytes + b*blockBytes
	to := min(from+blockBytes, int64(len(x.data)-len(x.sums)))
	if crc32.Checksum(x.data[from:to], sums) != binary.LittleEndian.Uint32(x.sums[4*b:]) {
		return fmt.Errorf("%w: bytes %d to %d are damaged", ErrIndex, from, to-1)
	}
	return nil
}

// reader reads an index. After an error it reads zeros.
type reader struct {
	x     *Index
	reads int
	err   error
}

// bytes are n bytes, at most 8 of them, at a place of the file.
func (r *reader) bytes(at, n int64) (b []byte) {
	r.reads++
	if r.err == nil {
		b, r.err = r.x.read(at, n)
	}
	if r.err != nil {
		return make([]byte, 8)[:n]
	}
	return b
}

// place is a place in the order: the position of a token.
func (r *reader) place(i int64) uint64 {
	p := uint64(binary.LittleEndian.Uint32(r.bytes(r.x.from[1]+4*i, 4)))
	if r.err == nil && (p < lead || p >= r.x.h.Tokens) {
		r.err = fmt.Errorf("%w: place %d is token %d of %d", ErrIndex, i, p, r.x.h.Tokens)
	}
	return max(p, lead)
}

// fence is the key of the tokens before the last one of place fenceEvery*i.
func (r *reader) fence(i int64) uint64 {
	return binary.LittleEndian.Uint64(r.bytes(r.x.from[2]+8*i, 8))
}

// bucket is the places of a token: from lo to hi.
func (r *reader) bucket(id int32) (lo, hi int64) {
	b := r.bytes(r.x.from[3]+4*int64(id), 8)
	lo, hi = int64(binary.LittleEndian.Uint32(b)), int64(binary.LittleEndian.Uint32(b[4:]))
	if r.err == nil && (lo > hi || hi > int64(r.x.h.Places)) {
		r.err = fmt.Errorf("%w: token %d has places %d to %d of %d", ErrIndex, id, lo, hi, r.x.h.Places)
	}
	return lo, max(lo, hi)
}

// before is [packed.before].
func (r *reader) before(at uint64) uint64 {
	at = min(at, r.x.h.Tokens-1)
	r.bytes(headerBytes+(int64(at+1)*int64(r.x.tokens.bits)+7)/8-8, 8)
	if r.err != nil {
		return 0
	}
	return r.x.tokens.before(at)
}

// token is the token at a position; vocab, which is the end of a text, behind the last.
func (r *reader) token(at uint64) int32 {
	if at >= r.x.h.Tokens {
		return int32(r.x.h.Vocab)
	}
	return int32(r.before(at) >> (64 - r.x.tokens.bits))
}
