package panels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/specgo/spec/internal/filelock"
	"github.com/specgo/spec/internal/units"
	"github.com/specgo/spec/tensor"
)

// packBytes is how much of a matrix is packed at a time: it bounds the memory of writing a panel file.
const packBytes = 16 << 20

// writer writes a panel file. Tests replace create.
type writer struct {
	create func(dir, pattern string) (output, error)
}

// output is what a panel file is written to.
type output interface {
	Name() string
	WriteAt(b []byte, off int64) (int, error)
	Sync() error
	Close() error
}

// createTemporary makes a temporary file that is marked as being written. What killed runs have left is removed first:
// it takes the room that the file needs.
func createTemporary(dir, pattern string) (output, error) {
	sweep(dir)
	f, err := os.CreateTemp(dir, pattern)
	if err == nil {
		_, _ = filelock.Lock(f) // a file system without locks: others tell by its age
	}
	return f, err
}

// write makes the panel file of a model: under a temporary name, which becomes the file's name when everything has
// been written. So processes that write the same file at once do not disturb each other, and what has the name is
// complete.
func (w writer) write(ctx context.Context, rt *tensor.Runtime, o Options) (err error) {
	id, m := o.Identity, o.Layout
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	m.place(len(id.text))
	out, err := w.create(o.Dir, id.name+temporaryExt+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			out.Close()
			os.Remove(out.Name())
		}
	}()
	sums := make([]uint32, m.sums)
	for _, p := range m.parts {
		if err := packPart(ctx, rt, o, p, out, sums); err != nil {
			return err
		}
	}
	last := m.parts[len(m.parts)-1]
	if rest := m.size - last.offset - last.bytes; rest > 0 { // the last page is whole
		if _, err := out.WriteAt(make([]byte, rest), last.offset+last.bytes); err != nil {
			return err
		}
	}
	if _, err := out.WriteAt(encodeHeader(id, m, sums), 0); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	name := filepath.Join(o.Dir, id.name)
	if err := os.Rename(out.Name(), name); err != nil {
		// another process was first, on a system that does not replace files in use
		if have, e := openFile(name, id, m, true); e == nil {
			os.Remove(out.Name())
			return have.file.Close()
		}
		return err
	}
	return nil
}

// packPart packs a matrix and writes its panels and their checksums.
func packPart(ctx context.Context, rt *tensor.Runtime, o Options, p *weight, out output, sums []uint32) error {
	rowBytes := int64(p.From.RowBytes(p.Cols))
	step := int(max(1, packBytes/(16*max(rowBytes, int64(p.To.RowBytes(p.Cols)))))) * 16
	done := int64(0) // bytes of panels
	for row := 0; row < p.Rows; row += step {
		n := min(step, p.Rows-row)
		w, err := tensor.Read(ctx, rt, o.Source, p.Source+int64(row)*rowBytes, p.From, n, p.Cols, p.To)
		if errors.Is(err, tensor.ErrNotFinite) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err != nil {
			return fmt.Errorf("%s: tensor %q: from row %d on: %w", o.Model, p.Name, row, err)
		}
		data := w.Panels()
		_, err = out.WriteAt(data, p.offset+done)
		if p.looked() {
			for i := range len(data) / p.panel {
				sums[p.firstPanel+row/16+i] = crc32.Checksum(data[i*p.panel:(i+1)*p.panel], castagnoli)
			}
		}
		for len(data) > 0 {
			i := done / p.piece
			k := min(int64(len(data)), (i+1)*p.piece-done)
			sums[p.first+int(i)] = crc32.Update(sums[p.first+int(i)], castagnoli, data[:k])
			data, done = data[k:], done+k
		}
		w.Close()
		if err != nil {
			return err
		}
	}
	if done != p.bytes {
		return fmt.Errorf("%s: tensor %q: %d bytes of panels, expected %d: %w", o.Model, p.Name, done, p.bytes,
			tensor.ErrShape)
	}
	return nil
}

// writeError says that a panel file could not be written, and what helps.
func writeError(dir string, bytes int64, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrDamaged) {
		return err
	}
	return fmt.Errorf("writing a panel file of %s in %s: %w", units.Bytes(bytes), cmp.Or(dir, "."), err)
}
