package convert

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/gguf"
)

// torch reads the list of tensors of a state dict that torch.save wrote, as a zip archive or as PyTorch did before 1.6.
func (w *weights) torch(f *os.File, size int64) error {
	start := make([]byte, len(oldMagic))
	n, err := f.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return err
	}
	switch start := string(start[:n]); {
	case strings.HasPrefix(start, "PK\x03\x04"):
		return w.torchZip(f, size)
	case start == oldMagic:
		return w.torchOld(f, size)
	}
	return errors.New("not a file that torch.save wrote: neither a zip archive nor PyTorch's format before 1.6")
}

// torchZip reads a zip archive: NAME/data.pkl is the state dict, NAME/data/KEY a storage. Entries are stored, not
// compressed, so that storages are read where they lie. Checksums are not verified: torch can leave them out.
func (w *weights) torchZip(f *os.File, size int64) error {
	z, err := zip.NewReader(&limited{f, maxDirectory}, size)
	if err != nil {
		if errors.Is(err, zip.ErrFormat) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("the zip archive has no directory at its end: the file is cut or damaged (%w)", err)
		}
		return err
	}
	a := archive{file: f, size: size, entries: map[string]*zip.File{}}
	for _, e := range z.File {
		if _, twice := a.entries[e.Name]; twice {
			return fmt.Errorf("entry %s is in the archive twice", gguf.Printable(e.Name, 80))
		}
		a.entries[e.Name] = e
		if root, is := strings.CutSuffix(e.Name, "/data.pkl"); is && !strings.Contains(root, "/") {
			if a.root != "" {
				return fmt.Errorf("two lists of tensors, %s and %s/data.pkl", gguf.Printable(a.root, 80), gguf.Printable(root, 80))
			}
			a.root = root
		}
	}
	if a.root == "" {
		return errors.New("not a file that torch.save wrote: the zip archive has no NAME/data.pkl")
	}
	if a.entries[a.root+"/constants.pkl"] != nil {
		return errors.New("a TorchScript program, not a state dict: save the model as safetensors, or take a revision " +
			"that has them")
	}
	if order, err := a.word("byteorder"); err != nil {
		return err
	} else if order != "" && order != "little" {
		return fmt.Errorf("the byte order is %q: only little is read", order)
	}
	const newest = 10 // version of the archive that PyTorch's own reader knows
	if version, err := a.word("version"); err != nil {
		return err
	} else if n, err := strconv.Atoi(version); version != "" && (err != nil || n < 1 || n > newest) {
		return fmt.Errorf("version %q of the archive is not known", version)
	}
	at, n, err := a.find("data.pkl")
	if err != nil {
		return err
	}
	u := &unpickler{r: bufio.NewReader(io.NewSectionReader(f, at, n))}
	state, err := u.load()
	if err != nil {
		return fmt.Errorf("data.pkl: %w", err)
	}
	return w.state(f, state, func(s storage) (int64, error) {
		at, n, err := a.find("data/" + s.key)
		if err == nil && (s.count > n || s.count*s.kind.width != n) {
			err = fmt.Errorf("%d elements of %s in %d bytes", s.count, s.kind.dtype, n)
		}
		return at, err
	})
}

// maxDirectory bounds what is read of a zip archive besides the tensors: its directory, and the entries' headers. An
// entry takes about 200 bytes.
const maxDirectory = 64 << 20

// limited fails after left bytes.
type limited struct {
	r    io.ReaderAt
	left int64
}

func (l *limited) ReadAt(p []byte, at int64) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, fmt.Errorf("the zip archive's directory has more than %d bytes", maxDirectory)
	}
	return l.r.ReadAt(p, at)
}

// archive is the entries of a zip archive.
type archive struct {
	file    *os.File
	size    int64
	root    string
	entries map[string]*zip.File
}

// find says where the bytes of an entry are.
func (a *archive) find(name string) (at, size int64, err error) {
	name = a.root + "/" + name
	e := a.entries[name]
	fail := func(format string, args ...any) (int64, int64, error) {
		return 0, 0, fmt.Errorf("entry %s: %s", gguf.Printable(name, 80), fmt.Sprintf(format, args...))
	}
	const encrypted = 1
	switch {
	case e == nil:
		return fail("missing in the zip archive")
	case e.Method != zip.Store || e.CompressedSize64 != e.UncompressedSize64:
		return fail("compressed, which torch.save does not do: load and save the file with torch")
	case e.Flags&encrypted != 0:
		return fail("encrypted")
	}
	if at, err = e.DataOffset(); err != nil {
		return fail("%v", err)
	}
	if e.UncompressedSize64 > uint64(a.size) || at < 0 || at > a.size-int64(e.UncompressedSize64) {
		return fail("%d bytes from byte %d on, the file has %d", e.UncompressedSize64, at, a.size)
	}
	return at, int64(e.UncompressedSize64), nil
}

// word is the text of an entry of one word; empty if it is absent.
func (a *archive) word(name string) (string, error) {
	if a.entries[a.root+"/"+name] == nil {
		return "", nil
	}
	at, n, err := a.find(name)
	if err != nil {
		return "", err
	}
	const longest = 32
	if n > longest {
		return "", fmt.Errorf("entry %s: %d bytes instead of a word", name, n)
	}
	b := make([]byte, n)
	if _, err := a.file.ReadAt(b, at); err != nil {
		return "", fmt.Errorf("entry %s: %w", name, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// oldMagic is a pickle of the number that files before PyTorch 1.6 begin with.
const oldMagic = "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."

// oldProtocol is the only version of that format that was published.
const oldProtocol = 1001

// torchOld reads the format before PyTorch 1.6. Pickles follow one another: a magic number, the protocol, what
// machine wrote the file, the state dict, the keys of the storages; then for each key the number of its elements, a
// little-endian int64, and the elements.
func (w *weights) torchOld(f *os.File, size int64) error {
	start := int64(len(oldMagic))
	u := &unpickler{r: bufio.NewReader(io.NewSectionReader(f, start, size-start))}
	var parts [4]any
	for i, name := range []string{"the protocol", "the machine", "the state dict", "the keys"} {
		var err error
		if parts[i], err = u.load(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if parts[0] != any(int64(oldProtocol)) {
		return fmt.Errorf("the protocol is not %d", oldProtocol)
	}
	machine, _ := parts[1].(*dict)
	if machine == nil || machine.items["little_endian"] != any(true) {
		return errors.New("not written on a little-endian machine: only such files are read")
	}
	keys, ok := parts[3].(*list)
	if !ok {
		return fmt.Errorf("the keys of the storages are %s", kindOf(parts[3]))
	}
	storages := map[string]storage{}
	if err := w.eachTensor(parts[2], func(_ string, t tensorRef) error {
		if s, ok := storages[t.storage.key]; ok && s != t.storage {
			return fmt.Errorf("storage %s has two types or sizes", gguf.Printable(s.key, 40))
		}
		storages[t.storage.key] = t.storage
		return nil
	}); err != nil {
		return err
	}
	places := map[string]int64{}
	at := start + u.at
	for _, k := range keys.items {
		key, _ := k.(string)
		s, ok := storages[key]
		if !ok {
			return fmt.Errorf("storage %s is of no tensor", gguf.Printable(key, 40))
		}
		var count [8]byte
		if _, err := f.ReadAt(count[:], at); err != nil {
			return fmt.Errorf("storage %s: %w", gguf.Printable(key, 40), err)
		}
		at += int64(len(count))
		if n := int64(binary.LittleEndian.Uint64(count[:])); n != s.count || n > (size-at)/s.kind.width {
			return fmt.Errorf("storage %s: %d elements of %s, %d expected, in a file of %d bytes", gguf.Printable(key, 40), n,
				s.kind.dtype, s.count, size)
		}
		places[key] = at
		at += s.count * s.kind.width
	}
	return w.state(f, parts[2], func(s storage) (int64, error) {
		at, ok := places[s.key]
		if !ok {
			return 0, errors.New("it is not in the file")
		}
		return at, nil
	})
}

// eachTensor calls a function with the tensors of a state dict, in the order of their names.
func (w *weights) eachTensor(state any, do func(name string, t tensorRef) error) error {
	d, ok := state.(*dict)
	if !ok {
		return fmt.Errorf("the file holds %s, not a state dict", kindOf(state))
	}
	for _, name := range slices.Sorted(maps.Keys(d.items)) {
		t, ok := d.items[name].(tensorRef)
		if !ok {
			return fmt.Errorf("%s is %s, not a tensor: a state dict has nothing but tensors (a training checkpoint has one "+
				"inside)", gguf.Printable(name, 80), kindOf(d.items[name]))
		}
		if err := do(name, t); err != nil {
			return fmt.Errorf("tensor %s: %w", gguf.Printable(name, 80), err)
		}
	}
	return nil
}

// state enters the tensors of a state dict; place says where in the file a storage begins, and that it is whole.
func (w *weights) state(f *os.File, state any, place func(s storage) (int64, error)) error {
	places := map[storage]int64{}
	return w.eachTensor(state, func(name string, t tensorRef) error {
		at, ok := places[t.storage]
		if !ok {
			var err error
			if at, err = place(t.storage); err != nil {
				return fmt.Errorf("storage %s: %w", gguf.Printable(t.storage.key, 40), err)
			}
			places[t.storage] = at
		}
		s, err := t.in(at)
		if err != nil {
			return err
		}
		s.file = f
		return w.put(name, s)
	})
}

// in places a tensor in a storage that begins at a byte of a file and is whole.
func (t tensorRef) in(at int64) (stored, error) {
	count, width := t.storage.count, t.storage.kind.width
	s := stored{dtype: t.storage.kind.dtype, shape: make([]int, len(t.shape)), strides: make([]int, len(t.shape))}
	outside := fmt.Errorf("elements from %d on of shape %v and strides %v, the storage has %d", t.offset, t.shape,
		t.stride, count)
	if t.offset < 0 || t.offset > count {
		return s, outside
	}
	elements, last, ordered, empty := int64(1), t.offset, true, slices.Contains(t.shape, 0)
	for i := len(t.shape) - 1; i >= 0; i-- {
		d, stride := t.shape[i], t.stride[i]
		const largest = math.MaxInt32 // an int on every processor
		if d < 0 || d > largest || stride < 0 {
			return s, fmt.Errorf("shape %v, strides %v: negative or too large", t.shape, t.stride)
		}
		s.shape[i] = int(d)
		if d <= 1 || empty {
			continue // the stride is never used
		}
		if stride > 0 && d-1 > (count-1-last)/stride {
			return s, outside
		}
		if stride > largest {
			return s, fmt.Errorf("shape %v, strides %v: negative or too large", t.shape, t.stride)
		}
		s.strides[i] = int(stride)
		last += (d - 1) * stride
		ordered = ordered && stride == elements
		if elements > count/d {
			s.problem, elements = fmt.Sprintf("shape %v with strides %v: its elements share bytes (an expanded tensor), "+
				"which is not read", t.shape, t.stride), count
		} else {
			elements *= d
		}
	}
	if empty {
		elements, last = 0, t.offset-1
	} else if last >= count {
		return s, outside
	}
	if ordered {
		s.strides = nil
	}
	s.at, s.size = at+t.offset*width, (last-t.offset+1)*width
	return s, nil
}
