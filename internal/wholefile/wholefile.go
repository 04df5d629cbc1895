// Package wholefile writes small files as a whole or not at all. Those of commands, which may be large, are
// cmd/spec/internal/output's.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Resolve is where the links of a path end, also where there is nothing yet: a file that is put there leaves the links
// as they are. Of links in a circle it is the path itself.
func Resolve(path string) string {
	const most = 40 // as Linux follows
	end := path
	for range most {
		if real, err := filepath.EvalSymlinks(end); err == nil {
			return real
		}
		to, err := os.Readlink(end)
		if err != nil { // no link, or nothing
			return end
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(end), to)
		}
		end = to
	}
	return path
}

// Write puts data in place of the file at path, with these permissions. Where it fails, or the machine does, the old
// file stays; nothing else is left behind but by a failure of the machine: a file .NAME-… beside it. A link to a file
// stays one.
func Write(path string, data []byte, mode fs.FileMode) error {
	path = Resolve(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
