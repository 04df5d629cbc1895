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
	"os"
	"runtime/debug"
	"sync/atomic"
)

const (
	magic       = "SPECLKUP"
	version     = 1
	headerBytes = 4096
	blockBytes  = 4096
	depth       = 24 // tokens by which suffixes are in order
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
	Magic                                        [8]byte
	Version, Width, Vocab, Depth                 uint32
	Tokens, Suffixes, Texts, TextBytes, AboutLen uint64
	Vocabulary                                   [sha256.Size]byte
	Sums, Header                                 uint32
}

var sums = crc32.MakeTable(crc32.Castagnoli)

// body is the bytes of tokens, suffixes, buckets and description.
func (h *header) body() (tokens, suffixes, buckets, about int64) {
	return int64(h.Tokens) * int64(h.Width), int64(h.Suffixes) * 4, 4 * (int64(h.Vocab) + 1), int64(h.AboutLen)
}

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
	case h.Width < 2 || h.Width > 4 || h.Depth == 0 || h.Depth > 1024 || h.Vocab == 0 || h.Vocab > 1<<30 ||
		h.Tokens > mostTokens || h.Suffixes > h.Tokens || h.AboutLen > mostAbout || uint64(h.Vocab)>>(8*h.Width) > 0:
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
	from    [3]int64        // where suffixes, buckets and description begin in data
}

// Open opens the index at path. What is damaged is an error that wraps [ErrIndex], here or when it is first read; a
// file that becomes shorter while it is open is one, too.
func Open(path string) (x *Index, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	wrong := func(err error) error { return fmt.Errorf("%s: %w", path, err) }
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
	tokens, suffixes, buckets, about := x.h.body()
	body := tokens + suffixes + buckets + about
	blocks := (body + blockBytes - 1) / blockBytes
	if whole := headerBytes + body + 4*blocks; whole != info.Size() {
		return nil, wrong(fmt.Errorf("%w: %d bytes, by its header %d", ErrIndex, info.Size(), whole))
	}
	if x.data, x.release, err = view(f, info.Size()); err != nil {
		return nil, wrong(err)
	}
	x.from = [3]int64{headerBytes + tokens, headerBytes + tokens + suffixes, headerBytes + tokens + suffixes + buckets}
	x.sums, x.checked = x.data[headerBytes+body:], make([]atomic.Uint32, blocks/32+1)
	err = x.guarded(func() error {
		if crc32.Checksum(x.sums, sums) != x.h.Sums {
			return fmt.Errorf("%w: its sums are damaged", ErrIndex)
		}
		text, err := x.read(x.from[2], about)
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
	x.about.Tokens, x.about.Texts, x.about.Bytes = int64(x.h.Tokens), int64(x.h.Texts), int64(x.h.TextBytes)
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
		for i := range int64(x.h.Suffixes) {
			if p, err := x.suffix(i); err != nil {
				return err
			} else if uint64(p) >= x.h.Tokens {
				return fmt.Errorf("%w: suffix %d begins at %d of %d", ErrIndex, i, p, x.h.Tokens)
			}
		}
		return nil
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

// suffix is the position of suffix i.
func (x *Index) suffix(i int64) (uint32, error) {
	b, err := x.read(x.from[0]+4*i, 4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// token is the token at a position; vocab, which is the end of a text, behind the last.
func (x *Index) token(at uint64) (int32, error) {
	if at >= x.h.Tokens {
		return int32(x.h.Vocab), nil
	}
	w := int64(x.h.Width)
	b, err := x.read(headerBytes+int64(at)*w, w)
	if err != nil {
		return 0, err
	}
	id := int32(b[0]) | int32(b[1])<<8
	for i := 2; i < len(b); i++ {
		id |= int32(b[i]) << (8 * i)
	}
	return id, nil
}
