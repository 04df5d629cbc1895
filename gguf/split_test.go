package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// splitModel writes a model of several tensors as so many files in a folder, and returns their names and the bytes of
// its tensors. edit may change what a part says.
func splitModel(t *testing.T, n int, edit func(part int, kvs []KV, tensors []TensorSource) ([]KV, []TensorSource)) (
	names []string, data map[string][]byte) {
	t.Helper()
	dir, data := t.TempDir(), map[string][]byte{}
	const tensors = 7
	at := 0
	for i := range n {
		kvs := []KV{{splitNumber, uint16(i)}, {splitCount, uint16(n)}, {splitTensors, int32(tensors)}}
		if i == 0 {
			kvs = append([]KV{{"general.architecture", "x"}, {"general.name", "split"}}, kvs...)
		}
		var list []TensorSource
		for ; at < (i+1)*tensors/n; at++ {
			name := fmt.Sprintf("t%d", at)
			data[name] = bytes.Repeat([]byte{byte(at + 1)}, 4*(3+5*at))
			list = append(list, TensorSource{Name: name, Type: F32, Dims: []uint64{uint64(3 + 5*at)},
				Write: func(w io.Writer) error {
					_, err := w.Write(data[name])
					return err
				}})
		}
		if edit != nil {
			kvs, list = edit(i, kvs, list)
		}
		var b bytes.Buffer
		if err := Write(&b, kvs, list); err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.Join(dir, "model"+partName(i, n)))
		if err := os.WriteFile(names[i], b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return names, data
}

// TestSplit: any part opens the whole model, whose tensors are read across the files.
func TestSplit(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		names, data := splitModel(t, n, nil)
		for _, name := range names {
			f, err := OpenFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := f.String("general.name"); err != nil || v != "split" || len(f.Tensors) != len(data) ||
				f.Parts != n || f.Name != name {
				t.Errorf("%s: %d tensors of %d, %d parts of %d, %q: %v", name, len(f.Tensors), len(data), f.Parts, n, v, err)
			}
			end := int64(0)
			for _, tensor := range f.Tensors {
				got := make([]byte, tensor.Size)
				if k, err := f.Reader().ReadAt(got, tensor.Offset); k != len(got) || err != nil ||
					!bytes.Equal(got, data[tensor.Name]) {
					t.Errorf("%s of %s: %d bytes, %v", tensor.Name, name, k, err)
				}
				end = max(end, tensor.Offset+tensor.Size)
			}
			// A read across all the files, from any byte on, is that of the files one after the other.
			var all []byte
			for _, name := range names {
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, b...)
			}
			for _, off := range []int{0, 1, len(all) / 2, len(all) - 1} {
				got := make([]byte, len(all)+5)
				k, err := f.Reader().ReadAt(got, int64(off))
				if err != io.EOF || !bytes.Equal(got[:k], all[off:]) {
					t.Errorf("%d parts from byte %d: %d bytes of %d, %v", n, off, k, len(all)-off, err)
				}
			}
			if _, err := f.Reader().ReadAt(make([]byte, 1), int64(len(all))); err != io.EOF {
				t.Errorf("beyond the end: %v", err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if _, err := f.Reader().ReadAt(make([]byte, 1), end-1); !errors.Is(err, os.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		}
	}
}

// TestSplitIsAsNewAsItsNewestPart: what is kept of a file is known to be of another one when any of its parts was
// replaced.
func TestSplitIsAsNewAsItsNewestPart(t *testing.T) {
	names, _ := splitModel(t, 3, nil)
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for newest := range names {
		for i, name := range names {
			when := begin.Add(time.Duration(i) * time.Second)
			if i == newest {
				when = begin.Add(time.Hour)
			}
			if err := os.Chtimes(name, when, when); err != nil {
				t.Fatal(err)
			}
		}
		f, err := OpenFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		if want := begin.Add(time.Hour); !f.Modified.Equal(want) {
			t.Errorf("part %d is of %v, the whole of %v", newest, want, f.Modified)
		}
		f.Close()
	}
}

// TestSplitRefused: parts that do not make a whole are refused, with the name of the part.
func TestSplitRefused(t *testing.T) {
	set := func(part int, key string, v Value) func(int, []KV, []TensorSource) ([]KV, []TensorSource) {
		return func(i int, kvs []KV, list []TensorSource) ([]KV, []TensorSource) {
			for j := range kvs {
				if i == part && kvs[j].Key == key {
					kvs[j].Value = v
				}
			}
			return kvs, list
		}
	}
	for name, c := range map[string]struct {
		edit func(int, []KV, []TensorSource) ([]KV, []TensorSource)
		file func(names []string) error
		want error
		says []string
	}{
		"missing": {nil, func(names []string) error { return os.Remove(names[1]) }, os.ErrNotExist,
			[]string{"part 2 of 3", "model-00002-of-00003.gguf"}},
		"cut short": {nil, func(names []string) error { return os.Truncate(names[2], 300) }, ErrSplit,
			[]string{"part 3 of 3", "model-00003-of-00003.gguf"}},
		"not a part": {nil, func(names []string) error { return os.WriteFile(names[1], []byte("hello"), 0o600) }, ErrNotGGUF,
			[]string{"part 2 of 3"}},
		"twice the same": {nil, func(names []string) error {
			b, err := os.ReadFile(names[1])
			return errors.Join(err, os.WriteFile(names[2], b, 0o600))
		}, ErrSplit, []string{"should be part 3 of 3", "say 2 of 3"}},
		"other count": {set(1, splitCount, uint16(4)), nil, ErrSplit, []string{"should be part 2 of 3", "say 2 of 4"}},
		"beyond":      {set(2, splitNumber, uint16(3)), nil, ErrSplit, []string{"00003-of-00003", "should be part 3 of 3"}},
		"no number":   {set(0, splitNumber, "one"), nil, ErrType, []string{splitNumber}},
		"tensors":     {set(0, splitTensors, int32(8)), nil, ErrSplit, []string{"7 tensors", "says 8"}},
		"no total":    {set(0, splitTensors, "x"), nil, ErrType, []string{splitTensors}},
		"many parts":  {set(0, splitCount, uint64(1<<40)), nil, ErrSplit, []string{splitCount}},
		"duplicate": {func(i int, kvs []KV, list []TensorSource) ([]KV, []TensorSource) {
			if i == 2 {
				list[0].Name = "t0"
			}
			return kvs, list
		}, nil, ErrSplit, []string{"00003-of-00003", `"t0"`, "earlier part"}},
	} {
		names, _ := splitModel(t, 3, c.edit)
		if c.file != nil {
			if err := c.file(names); err != nil {
				t.Fatal(err)
			}
		}
		before := openFiles()
		f, err := OpenFile(names[0])
		if n := openFiles(); err != nil && n != before {
			t.Errorf("%s: %d files are open, %d before", name, n, before)
		}
		if err == nil {
			f.Close()
			t.Errorf("%s: it opens", name)
			continue
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, expected %v", name, err, c.want)
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: no %q in %v", name, part, err)
			}
		}
	}
	names, _ := splitModel(t, 2, nil)
	other := filepath.Join(t.TempDir(), "part.gguf")
	if err := os.Rename(names[1], other); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(other); !errors.Is(err, ErrSplit) || !strings.Contains(err.Error(), "-00002-of-00002.gguf") {
		t.Errorf("another name: %v", err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if f, err := Open(bytes.NewReader(b), int64(len(b)), "part"); err != nil || f.Parts != 1 {
		t.Errorf("a part by itself: %v", err)
	}
}

// openFiles is how many files the process has open, 0 where the system does not say.
func openFiles() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}
