package panels

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/specgo/spec/internal/filelock"
)

// FileInfo is a panel file in a cache directory.
type FileInfo struct {
	Name  string // with the directory
	Bytes int64
	Text  string // what it is, in lines "key: value": model, weights, layout

	written bool // by a process that is at work on it
}

// Files lists the panel files of a directory, by name. Other files are not listed. A directory that does not exist
// has none.
func Files(dir string) ([]FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		switch {
		case fileName(e.Name()):
			text, err := readText(name)
			if errors.Is(err, errVersion) {
				text, err = []byte(otherText), nil
			}
			if err == nil {
				list = append(list, FileInfo{name, info.Size(), string(text), false})
			}
		case temporaryName(e.Name()):
			list = append(list, FileInfo{name, info.Size(), temporaryText, filelock.Held(name, info.ModTime())})
		}
	}
	return list, nil
}

// otherText is the text of a panel file of another version of this program, which nobody reads any more.
const otherText = "model: unknown, the file is of another version\n"

// temporaryText is the text of a panel file that is being written, or was left over.
const temporaryText = "not complete: being written, or left by an interrupted run\n"

// Complete reports whether the file is not one that is being written or was left over.
func (p FileInfo) Complete() bool { return p.Text != temporaryText }

// BeingWritten reports whether a process is at work on a file that is not complete.
func (p FileInfo) BeingWritten() bool { return p.written }

// sweep removes what killed runs have left in a directory.
func sweep(dir string) {
	list, err := Files(dir)
	if err != nil {
		return
	}
	for _, f := range list {
		if !f.Complete() && !f.BeingWritten() {
			os.Remove(f.Name)
		}
	}
}

// fileName reports whether a file is called as a panel file is.
func fileName(name string) bool {
	stem, ok := strings.CutSuffix(name, ext)
	_, err := hex.DecodeString(stem)
	return ok && err == nil && len(stem) == 32
}

// temporaryName is fileName for files that are being written: NAME.panels.tmp-DIGITS.
func temporaryName(name string) bool {
	stem, digits, ok := strings.Cut(name, temporaryExt)
	return ok && fileName(stem) && digits != "" && strings.Trim(digits, "0123456789") == ""
}

const temporaryExt = ".tmp-"
