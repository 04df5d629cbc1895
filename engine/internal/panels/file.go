package panels

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/specgo/spec/tensor"
)

// A panel file is a model's matrices as the kernels read them (package tensor: panels of 16 rows), one after the
// other in the order in which they are loaded. It is a copy that can be made again at any time, in a cache directory:
//
//	magic [16], version u32, length of the text u32, bytes of the header u64, identity [32]
//	text: what the file is, for people
//	checksums: CRC-32C u32 of each piece of each matrix
//	CRC-32C u32 of the header up to here; zeros up to a multiple of 4096 bytes
//	matrices, each from a multiple of 4096 bytes on
//
// Numbers are little-endian. The identity is the SHA-256 of everything that decides about the bytes: the layout's
// version, the kernels' layout, what weights are converted to, the model's size and time, its header and samples of its
// weights, and every matrix's name, type, shape and place. Nothing in the file says where its parts are: that follows
// from the model, and a file whose identity is another one is not used.
const (
	magic      = "spec panel file\n"
	version    = 3
	ext        = ".panels"
	fixedBytes = 16 + 4 + 4 + 8 + sha256.Size

	// pieceBytes is the bytes that are read at once and have a checksum: enough for a disk to reach its speed with a few
	// of them under way.
	pieceBytes = 4 << 20
	mostText   = 64 << 10 // most bytes of the text
)

// ErrDamaged is of weights that are not what was written, or no finite numbers.
var ErrDamaged = errors.New("damaged weights")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errOther means that a panel file is not the model's, or damaged: it is written again.
var errOther = errors.New("not a panel file of this model, or damaged")

// errVersion means that a panel file is one of another version.
var errVersion = fmt.Errorf("another version: %w", errOther)

// errFileDamaged means that a panel file does not hold what was written.
var errFileDamaged = fmt.Errorf("panel file: %w", ErrDamaged)

// encodeHeader writes the header of a panel file with these checksums.
func encodeHeader(id *Identity, m *Layout, sums []uint32) []byte {
	b := make([]byte, 0, m.header)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(id.text)))
	b = binary.LittleEndian.AppendUint64(b, uint64(m.header))
	sum := id.complete(m)
	b = append(append(b, sum[:]...), id.text...)
	for _, s := range sums {
		b = binary.LittleEndian.AppendUint32(b, s)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(b, make([]byte, m.header-int64(len(b)))...)
}

// packedFile is an open panel file.
type packedFile struct {
	name string
	info os.FileInfo
	file File
	m    *Layout
	sums []uint32
}

// File is a file that is read past the system's cache where that is possible: at multiples of 4096 bytes, into memory
// aligned likewise.
type File interface {
	io.ReaderAt
	io.Closer
}

// openFile opens a panel file that is the model's. once: all of it is read once, from the system's cache if it is
// there; else it is read past it. The error wraps errOther if there is another file, or fs.ErrNotExist.
func openFile(name string, id *Identity, m *Layout, once bool) (*packedFile, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: %w", name, fmt.Sprintf(format, args...), errOther)
	}
	if !info.Mode().IsRegular() {
		return nil, wrong("not a regular file")
	}
	text, err := readText(name)
	if err != nil {
		return nil, err
	}
	m.place(len(text)) // the text says where the model was when the file was written: it may be elsewhere now
	if info.Size() != m.size {
		return nil, wrong("%d bytes, expected %d", info.Size(), m.size)
	}
	header := make([]byte, m.header)
	plain, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if plain != nil {
			plain.Close()
		}
	}()
	if _, err := io.ReadFull(plain, header); err != nil {
		return nil, wrong("header: %v", err)
	}
	sums := make([]uint32, m.sums)
	for i := range sums {
		sums[i] = binary.LittleEndian.Uint32(header[fixedBytes+len(text)+4*i:])
	}
	if !bytes.Equal(header, encodeHeader(&Identity{sum: id.sum, text: text}, m, sums)) {
		return nil, wrong("its header is another one")
	}
	var file File
	if once {
		file, plain = openOnce(plain, m.size), nil
	} else if file, err = openDirect(name); err != nil {
		return nil, err
	}
	return &packedFile{name: name, info: info, file: file, m: m, sums: sums}, nil
}

// readText reads the beginning of a panel file of any model: the text about it.
func readText(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var fixed [fixedBytes]byte
	if _, err := io.ReadFull(f, fixed[:]); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, errOther, err)
	}
	length := binary.LittleEndian.Uint32(fixed[20:])
	switch {
	case string(fixed[:16]) != magic:
		return nil, fmt.Errorf("%s: %w", name, errOther)
	case binary.LittleEndian.Uint32(fixed[16:]) != version || length > mostText:
		return nil, fmt.Errorf("%s: %w", name, errVersion)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(f, text); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, errOther, err)
	}
	return text, nil
}

// readPiece reads piece i of a matrix into dst, which has room for it up to the next multiple of 4096 bytes, and
// checks it.
func (f *packedFile) readPiece(p *weight, i int, dst []byte) error {
	at, n := p.span(i)
	if err := f.readFull(dst[:alignPage(n)], p.offset+at); err != nil {
		return fmt.Errorf("%s: tensor %q: %w", f.name, p.Name, err)
	}
	return f.check(p, dst[:n], p.first+i, p.offset+at)
}

func (f *packedFile) readFull(dst []byte, at int64) error {
	n, err := f.file.ReadAt(dst, at)
	if n == len(dst) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading %d bytes at offset %d: %w", len(dst), at, err)
}

// check compares bytes, which are at offset at, with a checksum.
func (f *packedFile) check(p *weight, data []byte, sum int, at int64) error {
	if crc32.Checksum(data, castagnoli) != f.sums[sum] {
		f.discard()
		return fmt.Errorf("%s: tensor %q: wrong checksum at offset %d: the file was damaged or changed; it is deleted, and "+
			"written again when the model is loaded: %w", f.name, p.Name, at, errFileDamaged)
	}
	return nil
}

// discard deletes a file that is damaged, unless another one has its name by now. Where an open file cannot be deleted,
// it stays until the model is loaded.
func (f *packedFile) discard() {
	if now, err := os.Stat(f.name); err == nil && os.SameFile(now, f.info) {
		os.Remove(f.name)
	}
}

// readPanel reads the panel that has a row, into memory with room for a page more on both sides, and returns it.
func (f *packedFile) readPanel(p *weight, row int, memory []byte) ([]byte, error) {
	from := int64(row/16) * int64(p.panel)
	start := (p.offset + from) &^ (tensor.PageBytes - 1)
	end := alignPage(p.offset + from + int64(p.panel))
	if err := f.readFull(memory[:end-start], start); err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", f.name, p.Name, err)
	}
	data := memory[p.offset+from-start:][:p.panel]
	return data, f.check(p, data, p.firstPanel+row/16, p.offset+from)
}
