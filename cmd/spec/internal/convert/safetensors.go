package convert

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// maxHeader bounds the JSON header of a safetensors file, as the format's own reader does.
const maxHeader = 100 << 20

// weights is the tensors of one or more safetensors files.
//
// The format: a little-endian uint64, the header's length; the header, {name: {dtype, shape, data_offsets}}, with an optional
// __metadata__; the tensors' bytes, little endian, rows first.
type weights struct {
	files   []*os.File
	tensors map[string]stored
	names   []string // in the files' order
}

// stored is a tensor in a file.
type stored struct {
	file  *os.File
	dtype string
	shape []int
	at    int64 // first byte in the file
	size  int64
}

// elementBytes is the size of an element, for the types that hold weights.
var elementBytes = map[string]int64{"F32": 4, "F16": 2, "BF16": 2, "F64": 8}

// openWeights opens model.safetensors, or the files that model.safetensors.index.json lists.
func openWeights(dir string) (*weights, error) {
	w := &weights{tensors: map[string]stored{}}
	index := filepath.Join(dir, "model.safetensors.index.json")
	data, err := os.ReadFile(index)
	if errors.Is(err, os.ErrNotExist) {
		name := filepath.Join(dir, "model.safetensors")
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			return nil, noWeights(dir)
		}
		return w, w.closeOn(w.add(name, nil))
	}
	if err != nil {
		return nil, err
	}
	var list struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", index, err)
	}
	byFile := map[string][]string{}
	for name, file := range list.WeightMap {
		if file == "" || filepath.Base(file) != file || strings.HasPrefix(file, ".") {
			return nil, fmt.Errorf("%s: tensor %s: %q is not a file of this folder", index, gguf.Printable(name, 80), file)
		}
		byFile[file] = append(byFile[file], name)
	}
	files := make([]string, 0, len(byFile))
	for file := range byFile {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, os.ErrNotExist) {
			return nil, w.closeOn(fmt.Errorf("%s: %s is not there: %s lists %d tensors in it", dir, file, filepath.Base(index), len(byFile[file])))
		}
		if err := w.closeOn(w.add(filepath.Join(dir, file), byFile[file])); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// noWeights says what is wrong with a folder without safetensors files, and what to do about other formats of weights.
func noWeights(dir string) error {
	const missing = "neither model.safetensors nor model.safetensors.index.json is there"
	for _, other := range []string{"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"} {
		if _, err := os.Stat(filepath.Join(dir, other)); err == nil {
			return fmt.Errorf("%s: %s; %s is, which is not read: save the model as safetensors (in Python, save_pretrained(DIR, safe_serialization=True)), or take a revision that has them", dir, missing, other)
		}
	}
	return fmt.Errorf("%s: %s", dir, missing)
}

func (w *weights) closeOn(err error) error {
	if err != nil {
		w.close()
	}
	return err
}

func (w *weights) close() {
	for _, f := range w.files {
		f.Close()
	}
}

// add reads a file's header. expected, if not nil, is the tensors that the index promises in it.
func (w *weights) add(name string, expected []string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	w.files = append(w.files, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.header(f, info.Size()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, e := range expected {
		if w.tensors[e].file != f {
			return fmt.Errorf("%s: tensor %s is missing: the index promises it", name, gguf.Printable(e, 80))
		}
	}
	return nil
}

func (w *weights) header(f *os.File, size int64) error {
	var length [8]byte
	if _, err := f.ReadAt(length[:], 0); err != nil {
		return fmt.Errorf("no safetensors header: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > size-8 {
		return fmt.Errorf("a header of %d bytes in a file of %d", n, size)
	}
	raw := make([]byte, n)
	if _, err := f.ReadAt(raw, 8); err != nil {
		return fmt.Errorf("the header: %w", err)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		return fmt.Errorf("the header: %w", err)
	}
	room := size - 8 - int64(n)
	type entry struct {
		Dtype   string  `json:"dtype"`
		Shape   []int64 `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	for name, raw := range entries {
		if name == "__metadata__" {
			continue
		}
		var e entry
		fail := func(format string, args ...any) error {
			return fmt.Errorf("tensor %s: %s", gguf.Printable(name, 80), fmt.Sprintf(format, args...))
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return fail("%v", err)
		}
		if _, twice := w.tensors[name]; twice {
			return fail("it is in two files")
		}
		if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > room {
			return fail("data_offsets %v, the file has %d bytes of data", e.Offsets, room)
		}
		s := stored{file: f, dtype: e.Dtype, at: 8 + int64(n) + e.Offsets[0], size: e.Offsets[1] - e.Offsets[0]}
		elements := int64(1)
		for _, d := range e.Shape {
			if d < 1 || d > 1<<31 || elements > room/d {
				return fail("shape %v, %d bytes", e.Shape, s.size)
			}
			elements *= d
			s.shape = append(s.shape, int(d))
		}
		if width, ok := elementBytes[e.Dtype]; ok && elements*width != s.size {
			return fail("shape %v of %s in %d bytes", e.Shape, e.Dtype, s.size)
		}
		w.tensors[name] = s
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
	return nil
}

// rowsCols is a tensor's shape as a matrix; a vector is one row.
func (s stored) rowsCols() (rows, cols int) {
	switch len(s.shape) {
	case 1:
		return 1, s.shape[0]
	case 2:
		return s.shape[0], s.shape[1]
	}
	return 0, 0
}

// read returns a tensor's elements.
func (s stored) read() ([]float32, error) {
	raw := make([]byte, s.size)
	if n, err := s.file.ReadAt(raw, s.at); n < len(raw) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("%s: %w", s.file.Name(), err)
	}
	return decodeElements(s.dtype, raw)
}
