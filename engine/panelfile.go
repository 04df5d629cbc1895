package engine

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// A panel file is a model's matrices as the kernels read them (package tensor: panels of 16 rows), one after the other in the order in which
// they are loaded. It is a copy that can be made again at any time, in a cache directory:
//
//	magic [16], version u32, length of the text u32, bytes of the header u64, identity [32]
//	text: what the file is, for people
//	checksums: CRC-32C u32 of each piece of each matrix
//	CRC-32C u32 of the header up to here; zeros up to a multiple of 4096 bytes
//	matrices, each from a multiple of 4096 bytes on
//
// Numbers are little-endian. The identity is the SHA-256 of everything that decides about the bytes: the layout's version, the kernels'
// layout, Options.Weights, the model's size and time and its header, and every matrix's name, type, shape and place. Nothing in
// the file says where its parts are: that follows from the model, and a file whose identity is another one is not used.
const (
	panelMagic   = "spec panel file\n"
	panelVersion = 1
	panelExt     = ".panels"
	panelFixed   = 16 + 4 + 4 + 8 + sha256.Size

	// panelPiece is the bytes that are read at once and have a checksum: enough for a disk to reach its speed with a few of them
	// under way.
	panelPiece = 4 << 20
	panelText  = 64 << 10 // most bytes of the text
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errPanelFile means that a panel file is not the model's, or damaged: it is written again.
var errPanelFile = errors.New("not a panel file of this model, or damaged")

// errPanelDamaged means that a panel file does not hold what was written.
var errPanelDamaged = fmt.Errorf("panel file: %w", ErrDamaged)

// panelPart is a matrix in a panel file.
type panelPart struct {
	name       string // of the tensor
	rows, cols int
	from, to   tensor.Type // in the model's file, and of the panels
	source     int64       // where its rows begin in the model's file

	looked   bool // single rows of it are looked up: it has a checksum for each panel, too
	rowsOnly bool // and nothing else is done with it
	stacked  int  // its number among the matrices of one tensor, an expert's; -1: it is the only one

	offset, bytes int64 // of the panels
	panel         int   // bytes of one
	first         int   // its first checksum, of a piece
	firstPanel    int   // its first checksum of a panel, where rows are looked up
}

// pieces is the number of pieces.
func (p *panelPart) pieces() int { return int((p.bytes-1)/panelPiece) + 1 }

// panels is the number of panels.
func (p *panelPart) panels() int { return (p.rows + 15) / 16 }

// panelMap says where a model's matrices are in its panel file, and what else it takes.
type panelMap struct {
	parts  []panelPart
	header int64 // bytes
	size   int64 // of the file
	sums   int

	vectors int64 // bytes of what is no matrix: always in memory
	scratch int64 // bytes of a pass for a row, at most
	used    int   // experts for a token
	hidden  int
}

// mapPanels reads a model's header and lists its matrices. It reads no weights but vectors.
func mapPanels(l *loader, m *Model) (*panelMap, error) {
	list := &panelMap{}
	l.list = list
	m.read(l)
	if !l.ok() {
		return nil, l.err
	}
	list.vectors, list.hidden, list.used = l.bytes, m.config.HiddenSize, m.config.ExpertsUsed
	wide := map[string]int64{} // numbers that a block's matrices give a row
	for i := range list.parts {
		p := &list.parts[i]
		p.panel = p.to.PanelBytes(p.cols)
		p.bytes = int64(p.panels()) * int64(p.panel)
		p.first = list.sums
		list.sums += p.pieces()
		if p.firstPanel = list.sums; p.looked {
			list.sums += p.panels()
		}
		if list.sums > math.MaxInt32 || p.bytes < 1 {
			return nil, fmt.Errorf("%s: tensor %q: %d rows of %d: %w", l.f.Name, p.name, p.rows, p.cols, ErrShape)
		}
		if block := blockOf(p.name); block != "" && p.stacked < 1 {
			wide[block] += int64(p.rows)
		}
	}
	most := int64(0)
	for _, n := range wide {
		most = max(most, n)
	}
	list.scratch = 4 * (most + 6*int64(list.hidden))
	return list, nil
}

// place decides where everything is, for a text of so many bytes.
func (m *panelMap) place(text int) {
	m.header = alignPage(int64(panelFixed + text + 4*m.sums + 4))
	at := m.header
	for i := range m.parts {
		m.parts[i].offset = at
		at += alignPage(m.parts[i].bytes)
	}
	m.size = at
}

// alignPage rounds up to what direct reads are aligned to.
func alignPage(n int64) int64 { return (n + tensor.PageBytes - 1) &^ (tensor.PageBytes - 1) }

// panelIdentity is what a panel file must be for a model.
type panelIdentity struct {
	name string // of the file, without its directory
	text []byte
	sum  [sha256.Size]byte
}

// identify finds the name of a model's panel file: of the model's header, size and time, and of what decides about the packed bytes.
func identify(f *gguf.File, rt *tensor.Runtime, o Options) (*panelIdentity, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s\n%s\n%v\n%d\n%d\n%d\n", panelVersion, rt.PanelLayout(), o.Weights, o.MTP, f.Size(), f.Modified.UnixNano(), f.DataOffset)
	if err := gguf.Write(h, f.KVs, nil); err != nil {
		return nil, err
	}
	for _, t := range f.Tensors {
		fmt.Fprintf(h, "%q %d %d %d %d\n", t.Name, t.Type, t.Dims, t.Offset, t.Size)
	}
	id := &panelIdentity{}
	h.Sum(id.sum[:0])
	id.name = hex.EncodeToString(id.sum[:16]) + panelExt
	path, err := filepath.Abs(f.Name)
	if err != nil {
		path = f.Name
	}
	weights := cmp.Or(o.Weights, "as in the file")
	if o.MTP {
		weights += ", MTP block"
	}
	id.text = fmt.Appendf(nil, "model: %s\nweights: %s\nlayout: %s\n", gguf.Printable(path, panelText/4), weights, rt.PanelLayout())
	return id, nil
}

// complete adds the matrices to the identity.
func (id *panelIdentity) complete(m *panelMap) [sha256.Size]byte {
	h := sha256.New()
	h.Write(id.sum[:])
	for i := range m.parts {
		p := &m.parts[i]
		fmt.Fprintf(h, "%q %d %d %d %v %v %d %d %d\n", p.name, p.stacked, p.rows, p.cols, p.from, p.to, p.bytes, p.first, p.firstPanel)
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return sum
}

// encodeHeader writes the header of a panel file with these checksums.
func encodeHeader(id *panelIdentity, m *panelMap, sums []uint32) []byte {
	b := make([]byte, 0, m.header)
	b = append(b, panelMagic...)
	b = binary.LittleEndian.AppendUint32(b, panelVersion)
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

// panelFile is an open panel file.
type panelFile struct {
	name string
	file directFile
	m    *panelMap
	sums []uint32
}

// directFile is a file that is read past the system's cache where that is possible: at multiples of 4096 bytes, into memory aligned likewise.
type directFile interface {
	io.ReaderAt
	io.Closer
}

// openPanelFile opens a panel file that is the model's. The error wraps errPanelFile if there is another file, or fs.ErrNotExist.
func openPanelFile(name string, id *panelIdentity, m *panelMap) (*panelFile, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: %w", name, fmt.Sprintf(format, args...), errPanelFile)
	}
	if !info.Mode().IsRegular() {
		return nil, wrong("not a regular file")
	}
	text, err := readPanelText(name)
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
	defer plain.Close()
	if _, err := io.ReadFull(plain, header); err != nil {
		return nil, wrong("header: %v", err)
	}
	sums := make([]uint32, m.sums)
	for i := range sums {
		sums[i] = binary.LittleEndian.Uint32(header[panelFixed+len(text)+4*i:])
	}
	if !bytes.Equal(header, encodeHeader(&panelIdentity{sum: id.sum, text: text}, m, sums)) {
		return nil, wrong("its header is another one")
	}
	file, err := openDirect(name)
	if err != nil {
		return nil, err
	}
	return &panelFile{name: name, file: file, m: m, sums: sums}, nil
}

// readPanelText reads the beginning of a panel file of any model: the text about it.
func readPanelText(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var fixed [panelFixed]byte
	if _, err := io.ReadFull(f, fixed[:]); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, errPanelFile, err)
	}
	length := binary.LittleEndian.Uint32(fixed[20:])
	if string(fixed[:16]) != panelMagic || binary.LittleEndian.Uint32(fixed[16:]) != panelVersion || length > panelText {
		return nil, fmt.Errorf("%s: %w", name, errPanelFile)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(f, text); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, errPanelFile, err)
	}
	return text, nil
}

// readPiece reads piece i of a matrix into dst, which has room for it up to the next multiple of 4096 bytes, and checks it.
func (f *panelFile) readPiece(p *panelPart, i int, dst []byte) error {
	at := int64(i) * panelPiece
	n := min(panelPiece, p.bytes-at)
	if err := f.readFull(dst[:alignPage(n)], p.offset+at); err != nil {
		return fmt.Errorf("%s: tensor %q: %w", f.name, p.name, err)
	}
	return f.check(p, dst[:n], p.first+i, p.offset+at)
}

func (f *panelFile) readFull(dst []byte, at int64) error {
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
func (f *panelFile) check(p *panelPart, data []byte, sum int, at int64) error {
	if crc32.Checksum(data, castagnoli) != f.sums[sum] {
		return fmt.Errorf("%s: tensor %q: wrong checksum at offset %d: the file was damaged or changed, and can be deleted: %w", f.name, p.name, at, errPanelDamaged)
	}
	return nil
}

// readPanel reads the panel that has a row, into memory with room for a page more on both sides, and returns it.
func (f *panelFile) readPanel(p *panelPart, row int, memory []byte) ([]byte, error) {
	from := int64(row/16) * int64(p.panel)
	start := (p.offset + from) &^ (tensor.PageBytes - 1)
	end := alignPage(p.offset + from + int64(p.panel))
	if err := f.readFull(memory[:end-start], start); err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", f.name, p.name, err)
	}
	data := memory[p.offset+from-start:][:p.panel]
	return data, f.check(p, data, p.firstPanel+row/16, p.offset+from)
}

// PanelFileInfo is a panel file in a cache directory.
type PanelFileInfo struct {
	Name  string // with the directory
	Bytes int64
	Text  string // what it is, in lines "key: value": model, weights, layout
}

// PanelFiles lists the panel files of a directory, by name. Other files are not listed. A directory that does not exist has none.
func PanelFiles(dir string) ([]PanelFileInfo, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []PanelFileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		switch {
		case panelName(e.Name()):
			if text, err := readPanelText(name); err == nil {
				list = append(list, PanelFileInfo{name, info.Size(), string(text)})
			}
		case temporaryPanelName(e.Name()):
			list = append(list, PanelFileInfo{name, info.Size(), temporaryText})
		}
	}
	return list, nil
}

// temporaryText is the text of a panel file that is being written, or was left over.
const temporaryText = "not complete: being written, or left by an interrupted run\n"

// Complete reports whether the file is not one that is being written or was left over.
func (p PanelFileInfo) Complete() bool { return p.Text != temporaryText }

// panelName reports whether a file is called as a panel file is.
func panelName(name string) bool {
	stem, ok := strings.CutSuffix(name, panelExt)
	_, err := hex.DecodeString(stem)
	return ok && err == nil && len(stem) == 32
}

// temporaryPanelName is panelName for files that are being written: NAME.panels.tmp-DIGITS.
func temporaryPanelName(name string) bool {
	stem, digits, ok := strings.Cut(name, temporaryExt)
	return ok && panelName(stem) && digits != "" && strings.Trim(digits, "0123456789") == ""
}

const temporaryExt = ".tmp-"
