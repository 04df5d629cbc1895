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

// weights is the tensors of one or more files of weights.
type weights struct {
	from    string // the file that was read, or the index and how many it lists
	files   []*os.File
	tensors map[string]stored
	names   []string // sorted
}

// stored is a tensor in a file. Whatever the file's format, its elements lie in one range of bytes, little endian.
type stored struct {
	file    *os.File
	dtype   string // as safetensors writes it
	shape   []int
	at      int64 // first byte in the file
	size    int64
	strides []int // in elements, where the elements are not in order; nil: rows first, without gaps
	scales  *blockScales
	problem string // why the tensor cannot be read; it matters only if the model needs it
}

// elementBytes is the size of an element, for the types that hold weights.
var elementBytes = map[string]int64{"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "F8_E4M3": 1}

// formats of weights, the preferred one first.
var formats = []struct {
	file string // a model in one file; file.index.json lists the files of a model in several
	read func(w *weights, f *os.File, size int64) error
}{
	{"model.safetensors", (*weights).safetensors},
	{"pytorch_model.bin", (*weights).torch},
}

// openWeights opens the files of the first format that the folder has.
func openWeights(dir string) (*weights, error) {
	w := &weights{tensors: map[string]stored{}}
	var looked []string
	for _, format := range formats {
		index := format.file + ".index.json"
		looked = append(looked, index, format.file)
		data, err := os.ReadFile(filepath.Join(dir, index))
		if err == nil {
			return w, w.closeOn(w.shards(dir, index, data, format.read))
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		name := filepath.Join(dir, format.file)
		if _, err := os.Stat(name); err == nil {
			w.from = format.file
			return w, w.closeOn(w.add(name, nil, format.read))
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	for _, format := range formats {
		parts, err := partsOf(dir, format.file)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			if err := w.closeOn(w.add(filepath.Join(dir, part), nil, format.read)); err != nil {
				return nil, err
			}
		}
		if parts != nil {
			w.from = fmt.Sprintf("%s (files: %d)", parts[0], len(parts))
			return w, nil
		}
	}
	for _, other := range []string{"tf_model.h5", "flax_model.msgpack"} {
		if _, err := os.Stat(filepath.Join(dir, other)); err == nil {
			return nil, fmt.Errorf("%s: none of %s is there; %s is, which is not read: save the model as safetensors (in "+
				"Python, save_pretrained(DIR, safe_serialization=True)), or take a revision that has them", dir,
				strings.Join(looked, ", "), other)
		}
	}
	return nil, fmt.Errorf("%s: no weights: none of %s is there", dir, strings.Join(looked, ", "))
}

// partsOf are the files of a model in several that has no index: of model.safetensors those that are called
// model-00001-of-0000N.safetensors and so on. Whether all tensors are in them shows where they are looked for.
func partsOf(dir, file string) (parts []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	end := filepath.Ext(file)
	stem := strings.TrimSuffix(file, end) + "-"
	for _, e := range entries {
		middle, is := strings.CutPrefix(e.Name(), stem)
		middle, ends := strings.CutSuffix(middle, end)
		var number, count int
		if !is || !ends {
			continue
		}
		if _, err := fmt.Sscanf(middle, "%05d-of-%05d", &number, &count); err != nil ||
			middle != fmt.Sprintf("%05d-of-%05d", number, count) {
			continue
		}
		if parts = append(parts, e.Name()); number != len(parts) { // the names are sorted
			return nil, fmt.Errorf("%s: %s%05d-of-%05d%s is not there: %s is, and no index", dir, stem, len(parts), count, end,
				e.Name())
		}
		if number == count {
			return parts, nil
		}
	}
	if parts != nil {
		return nil, fmt.Errorf("%s: the last part behind %s is not there, and no index", dir, parts[len(parts)-1])
	}
	return nil, nil
}

// shards opens the files that an index lists.
func (w *weights) shards(dir, index string, data []byte, read func(*weights, *os.File, int64) error) error {
	var list struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	name := filepath.Join(dir, index)
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	byFile := map[string][]string{}
	for tensor, file := range list.WeightMap {
		if file == "" || filepath.Base(file) != file || strings.HasPrefix(file, ".") {
			return fmt.Errorf("%s: tensor %s: %q is not a file of this folder", name, gguf.Printable(tensor, 80), file)
		}
		byFile[file] = append(byFile[file], tensor)
	}
	files := make([]string, 0, len(byFile))
	for file := range byFile {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %s is not there: %s lists %d tensors in it", dir, file, index, len(byFile[file]))
		}
		if err := w.add(filepath.Join(dir, file), byFile[file], read); err != nil {
			return err
		}
	}
	w.from = fmt.Sprintf("%s (files: %d)", index, len(files))
	return nil
}

// closeOn closes the files if err is not nil.
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

// pointer is how a file of Git LFS begins that was not fetched.
const pointer = "version https://git-lfs"

// add reads a file's list of tensors. expected, if not nil, is the tensors that the index promises in it.
func (w *weights) add(name string, expected []string, read func(*weights, *os.File, int64) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	w.files = append(w.files, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", name)
	}
	start := make([]byte, len(pointer))
	if n, _ := f.ReadAt(start, 0); string(start[:n]) == pointer {
		return fmt.Errorf("%s: a Git LFS pointer in the place of the weights: fetch them (git lfs pull)", name)
	}
	if err := read(w, f, info.Size()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	slices.Sort(w.names)
	for _, e := range expected {
		if w.tensors[e].file != f {
			return fmt.Errorf("%s: tensor %s is missing: the index promises it", name, gguf.Printable(e, 80))
		}
	}
	return nil
}

// put enters a tensor.
func (w *weights) put(name string, s stored) error {
	if _, twice := w.tensors[name]; twice {
		return errors.New("it is in two files")
	}
	w.tensors[name] = s
	w.names = append(w.names, name)
	return nil
}

// empty reports whether a tensor has no elements: nothing depends on it.
func (s stored) empty() bool { return slices.Contains(s.shape, 0) }

// rowsCols is a tensor's shape as a matrix; a vector is one row, and a convolution of each row by itself has one
// channel.
func (s stored) rowsCols() (rows, cols int) {
	switch n := len(s.shape); {
	case n == 1:
		return 1, s.shape[0]
	case n == 2:
		return s.shape[0], s.shape[1]
	case n == 3 && s.shape[1] == 1:
		return s.shape[0], s.shape[2]
	case n == 4 && s.shape[0] == 1 && s.shape[1] == 1 && s.shape[3] == 1: // a number for each head
		return 1, s.shape[2]
	}
	return 0, 0
}

// stacked is the shape of a tensor of n matrices as one matrix, where it says how many they are.
func (s stored) stacked(n int) (rows, cols int) {
	if len(s.shape) == 3 && s.shape[0] == n {
		return n * s.shape[1], s.shape[2]
	}
	return s.rowsCols()
}

// matrix is the k-th of a tensor's n matrices.
func (s stored) matrix(k, n int) stored {
	s.size /= int64(n)
	s.at += int64(k) * s.size
	s.shape = s.shape[1:]
	if s.scales != nil {
		s.scales = &blockScales{of: s.scales.of.matrix(k, n), rows: s.scales.rows, cols: s.scales.cols}
	}
	return s
}

// bytes returns a tensor's bytes, in the file's order.
func (s stored) bytes() ([]byte, error) {
	if s.problem != "" {
		return nil, fmt.Errorf("%s: %s", s.file.Name(), s.problem)
	}
	raw := make([]byte, s.size)
	if n, err := s.file.ReadAt(raw, s.at); n < len(raw) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("%s: %w", s.file.Name(), err)
	}
	return raw, nil
}

// read returns a tensor's elements, rows first.
func (s stored) read() ([]float32, error) {
	raw, err := s.bytes()
	if err != nil {
		return nil, err
	}
	x, err := decodeElements(s.dtype, raw)
	if err == nil && s.scales != nil {
		return x, s.scale(x)
	}
	if err != nil || s.strides == nil {
		return x, err
	}
	return inOrder(x, s.shape, s.strides), nil
}

// integers returns the n elements of a vector of type I64.
func (s stored) integers(n int) ([]int64, error) {
	if s.dtype != "I64" || len(s.shape) != 1 || s.shape[0] != n || s.size != 8*int64(n) || s.strides != nil {
		return nil, fmt.Errorf("%s of shape %v, I64 of %d expected", gguf.Printable(s.dtype, 20), s.shape, n)
	}
	raw, err := s.bytes()
	if err != nil {
		return nil, err
	}
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	return list, nil
}

// inOrder copies strided elements into order, rows first.
func inOrder(x []float32, shape, strides []int) []float32 {
	n := 1
	for _, d := range shape {
		n *= d
	}
	out := make([]float32, n)
	at, index := make([]int, len(shape)), 0
	for i := range out {
		out[i] = x[index]
		for d := len(shape) - 1; d >= 0; d-- { // the next position, like an odometer
			at[d]++
			index += strides[d]
			if at[d] < shape[d] {
				break
			}
			index -= at[d] * strides[d]
			at[d] = 0
		}
	}
	return out
}
