// Package wholefile writes small files as a whole or not at all. Those of commands, which may be large, are
// cmd/spec/internal/output's.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts data in place of the file at path, with these permissions. Where it fails, or the machine does, the old
// file stays; nothing else is left behind but by a failure of the machine: a file .NAME-… beside it. A link to a file
// stays one.
func Write(path string, data []byte, mode fs.FileMode) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
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
