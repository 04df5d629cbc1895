package gguf

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// A model may be split into several files, NAME-00001-of-0000N.gguf and so on. Each is a GGUF file with some of the
// tensors; the keys split.no (from 0), split.count and split.tensors.count (of all parts) are in each, the model's
// metadata in the first.

// ErrSplit means that the parts of a split model do not make a whole: one is missing, or is another model's.
var ErrSplit = errors.New("split model")

const (
	splitCount   = "split.count"
	splitNumber  = "split.no"
	splitTensors = "split.tensors.count"
	mostParts    = 1 << 16 // split.count is a uint16
)

// partName is the end of the name of part i of n, i from 0.
func partName(i, n int) string { return fmt.Sprintf("-%05d-of-%05d.gguf", i+1, n) }

// part returns the file's number, from 0, and the number of parts; 0 and 1 if it is whole.
func (f *File) part() (i, n int, err error) {
	if !f.Has(splitCount) {
		return 0, 1, nil
	}
	count, err := f.Uint64(splitCount)
	if err == nil && count > mostParts {
		err = fmt.Errorf("%s: key %q: %d parts: %w", fileName(f.Name), splitCount, count, ErrSplit)
	}
	if err != nil || count <= 1 {
		return 0, 1, err
	}
	number, err := f.Uint64(splitNumber)
	if err == nil && number >= count {
		err = fmt.Errorf("%s: key %q: part %d of %d: %w", fileName(f.Name), splitNumber, number+1, count, ErrSplit)
	}
	return int(number), int(count), err
}

// openParts opens the other parts of a split model, one of which f is, and returns the whole: the first part's
// metadata, the tensors of all. Closing it closes all parts, f too. f is whole already if it is not split.
func (f *File) openParts() (*File, error) {
	at, n, err := f.part()
	if err != nil || n == 1 {
		return f, err
	}
	stem, ok := strings.CutSuffix(f.Name, partName(at, n))
	if !ok {
		return nil, fmt.Errorf("%s: %w: it is part %d of %d, so its name must end in %s for the others to be found",
			fileName(f.Name), ErrSplit, at+1, n, partName(at, n))
	}
	parts := make([]*File, n)
	parts[at] = f
	closeOthers := func() {
		for i, p := range parts {
			if p != nil && i != at {
				p.Close()
			}
		}
	}
	for i := range parts {
		if i == at {
			continue
		}
		if parts[i], err = openOne(stem + partName(i, n)); err != nil {
			err = fmt.Errorf("%s: %w: part %d of %d, %s: %w", fileName(f.Name), ErrSplit, i+1, n,
				fileName(filepath.Base(stem+partName(i, n))), err)
		} else if j, m, e := parts[i].part(); e != nil || i != j || n != m {
			err = fmt.Errorf("%s: %w: it should be part %d of %d, its keys say %d of %d", fileName(parts[i].Name), ErrSplit,
				i+1, n, j+1, m)
		}
		if err != nil {
			closeOthers()
			return nil, err
		}
	}
	whole, err := join(parts)
	if err != nil {
		closeOthers()
		return nil, err
	}
	whole.Name = f.Name
	return whole, nil
}

// join makes one file of the parts of a model.
func join(parts []*File) (*File, error) {
	whole := *parts[0]
	whole.Parts = len(parts)
	whole.Files, whole.Tensors, whole.tensors = nil, nil, map[string]int{}
	var src joined
	for i, p := range parts {
		base := int64(0)
		if i > 0 {
			base = src.ends[i-1]
		}
		for _, t := range p.Tensors {
			if _, ok := whole.tensors[t.Name]; ok {
				return nil, fmt.Errorf("%s: tensor %s: %w: an earlier part has it too", fileName(p.Name), quote(t.Name), ErrSplit)
			}
			t.Offset += base
			whole.tensors[t.Name] = len(whole.Tensors)
			whole.Tensors = append(whole.Tensors, t)
		}
		whole.Files = append(whole.Files, p.Files...)
		if p.Modified.After(whole.Modified) {
			whole.Modified = p.Modified
		}
		src.parts, src.ends, src.closers = append(src.parts, p.src), append(src.ends, base+p.size), append(src.closers, p)
	}
	if want, err := whole.Uint64(splitTensors); err != nil {
		return nil, err
	} else if want != uint64(len(whole.Tensors)) {
		return nil, fmt.Errorf("%s: %w: %d parts with %d tensors, key %q says %d", fileName(whole.Name), ErrSplit,
			len(parts), len(whole.Tensors), splitTensors, want)
	}
	whole.src, whole.closer = &src, &src
	whole.size = src.ends[len(parts)-1]
	return &whole, nil
}

// joined is the bytes of several files, one after the other.
type joined struct {
	parts   []io.ReaderAt
	ends    []int64 // of each part in the whole
	closers []*File
}

func (j *joined) ReadAt(b []byte, off int64) (n int, err error) {
	i, _ := slices.BinarySearch(j.ends, off) // of a part that ends there nothing is read
	for ; i < len(j.parts) && n < len(b); i++ {
		begin := int64(0)
		if i > 0 {
			begin = j.ends[i-1]
		}
		at := off + int64(n) - begin
		want := b[n:min(int64(len(b)), int64(n)+j.ends[i]-begin-at)]
		k, err := j.parts[i].ReadAt(want, at)
		if n += k; k < len(want) {
			return n, err
		}
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Close closes all parts.
func (j *joined) Close() error {
	var all error
	for _, f := range j.closers {
		all = errors.Join(all, f.Close())
	}
	return all
}
