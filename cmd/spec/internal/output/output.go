// Package output writes a file that appears under its name only when it is whole.
package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/specgo/spec/internal/filelock"
	"github.com/specgo/spec/internal/wholefile"
)

// File is an output under way. Where the destination is a regular file or does not exist, the bytes go
// to a temporary file beside it (its name ends in ".part"), and Commit puts that in its place; what killed
// programs have left of the same output is deleted. A device, a named pipe and standard output are written to directly.
type File struct {
	file   *os.File // what is written to
	path   string   // destination, symbolic links resolved; "" if written to directly
	closes bool     // file is to be closed
	done   bool
}

// Create opens an output: a path, or "-" for stdout. Nothing at the path changes before Commit. An
// existing file keeps its permissions, and one that may not be written is refused; a new file gets what
// the umask leaves of 0666. Opening a named pipe waits for its reader, or until ctx is cancelled.
func Create(ctx context.Context, path string, stdout *os.File) (*File, error) {
	if path == "-" {
		if stdout == nil {
			return nil, fmt.Errorf("standard output cannot be written to here")
		}
		return &File{file: stdout}, nil
	}
	path = wholefile.Resolve(path) // so that a link stays a link
	perm := os.FileMode(0o666)
	info, err := os.Stat(path)
	exists := err == nil
	switch {
	case !exists && !errors.Is(err, fs.ErrNotExist): // as of links in a circle
		return nil, err
	case exists && info.IsDir():
		return nil, fmt.Errorf("%s is a folder", path)
	case exists && !info.Mode().IsRegular():
		file, err := openDevice(ctx, path)
		if err != nil {
			return nil, err
		}
		return &File{file: file, closes: true}, nil
	case exists:
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		file.Close()
		perm = info.Mode().Perm()
	}
	sweep(path)
	file, err := createTemp(path, perm)
	if err != nil {
		return nil, fmt.Errorf("%s: no file can be made in its folder: %w", path, reason(err))
	}
	// Until it is closed it is marked; where it cannot be, others tell by its age.
	_, _ = filelock.Lock(file)
	if exists { // without what the umask took
		if err := file.Chmod(perm); err != nil {
			file.Close()
			os.Remove(file.Name())
			return nil, err
		}
	}
	return &File{file: file, path: path, closes: true}, nil
}

// Distinct refuses a path that is one of the inputs, under whatever name: a link to it, or another path. Inputs that do
// not exist are none.
func Distinct(path string, inputs ...string) error {
	to, err := os.Stat(path)
	if err != nil || !to.Mode().IsRegular() {
		return nil
	}
	for _, name := range inputs {
		if in, err := os.Stat(name); err == nil && os.SameFile(in, to) {
			if name == path {
				return fmt.Errorf("%s is the input: it would be destroyed", path)
			}
			return fmt.Errorf("%s is the input, %s: it would be destroyed", path, name)
		}
	}
	return nil
}

// Named is an output by its flag.
type Named struct{ Flag, Path string }

// Apart refuses two outputs of a command that are one file, under whatever name: of what one writes, the other would
// leave nothing. Outputs without a path, standard output and what is no regular file are left out.
func Apart(outputs ...Named) error {
	seen := map[string]Named{}
	for _, o := range outputs {
		if o.Path == "" || o.Path == "-" {
			continue
		}
		if info, err := os.Stat(o.Path); err == nil && !info.Mode().IsRegular() {
			continue
		}
		at := place(o.Path)
		for other, before := range seen {
			if at == other || sameFile(at, other) {
				return fmt.Errorf("%s %s and %s %s are one file", before.Flag, before.Path, o.Flag, o.Path)
			}
		}
		seen[at] = o
	}
	return nil
}

// place is the path of a file that may not be there yet, without links.
func place(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	path = wholefile.Resolve(path)
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// sameFile reports whether two files that are there are one, by two names.
func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// openDevice opens what is no regular file.
func openDevice(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		done <- opened{file, err}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sweep deletes what killed programs have left of outputs to a path.
func sweep(path string) {
	filelock.Sweep(filepath.Dir(path), func(name string) bool {
		rest, ok := strings.CutPrefix(name, filepath.Base(path)+".")
		number, part := strings.CutSuffix(rest, partSuffix)
		process, i, two := strings.Cut(number, "-")
		return ok && part && two && digits(process) && digits(i)
	})
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// partSuffix ends the names of temporary files.
const partSuffix = ".part"

// createTemp makes a new file beside path. os.CreateTemp would always make it 0600.
func createTemp(path string, perm os.FileMode) (*os.File, error) {
	const tries = 1000
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s.%d-%d%s", path, os.Getpid(), i, partSuffix)
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if err == nil || !os.IsExist(err) || i == tries {
			return file, err
		}
	}
}

// Write writes to the output.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	return n, f.named(err)
}

// named is an error that names the output, not the temporary file.
func (f *File) named(err error) error {
	if err == nil || f.path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", f.path, reason(err))
}

// reason is an error without the name of the file that it is about.
func reason(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// Commit makes the output final: its bytes are on disk before its name is there.
func (f *File) Commit() (err error) {
	if f.done {
		return nil
	}
	if f.path != "" {
		if err := f.file.Sync(); err != nil {
			return f.named(err)
		}
	}
	f.done = true
	if f.closes {
		err = f.file.Close()
	}
	if f.path == "" {
		return err
	}
	if err == nil {
		err = os.Rename(f.file.Name(), f.path)
	}
	if err != nil {
		os.Remove(f.file.Name())
		return f.named(err)
	}
	if dir, err := os.Open(filepath.Dir(f.path)); err == nil { // makes the new name durable, where folders can be synced
		dir.Sync()
		dir.Close()
	}
	return nil
}

// Abort gives the output up, if it was not committed, and removes what was written. What was at the path
// before stays.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.done = true
	if f.closes {
		f.file.Close()
	}
	if f.path != "" {
		os.Remove(f.file.Name())
	}
}
