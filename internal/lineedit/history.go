package lineedit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/wholefile"
)

// Bounds of a history.
const (
	mostEntries  = 1000
	longestEntry = 64 << 10 // bytes; a longer one is kept until the program ends
	longestFile  = 4 << 20  // bytes; of a longer file the end is read
)

// History is what was entered before, the oldest first.
type History struct {
	entries []string
	file    string // "" is none
}

// OpenHistory reads the history in a file, "" for one in memory alone. The file need not be there; who can read it is
// its owner alone.
func OpenHistory(file string) (*History, error) {
	h := &History{file: file}
	if file == "" {
		return h, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return h, err
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() { // opening a pipe waits for its writer
		h.file = ""
		return h, fmt.Errorf("%s: a history must be a regular file", file)
	}
	f, err := os.OpenFile(file, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return h, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return h, err
	}
	lines, others, torn, err := h.read(f, info.Size())
	if errors.Is(err, bufio.ErrTooLong) || others > max(1, lines/2) || lines == 1 && others > 0 && !torn {
		h.file, h.entries = "", nil
		return h, fmt.Errorf("%s: not a history: its lines are no entries", file)
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	if err == nil && (lines > 2*mostEntries || info.Size() > longestFile) {
		err = h.rewrite()
	}
	return h, err
}

// read takes the entries of a file, each a line of JSON. What is no such line is left out, and counted; torn says of
// the last of them that a failure of the machine may have left it: the beginning of an entry, or zeros.
func (h *History) read(f *os.File, size int64) (lines, others int, torn bool, err error) {
	if size > longestFile {
		if _, err := f.Seek(size-longestFile, 0); err != nil {
			return 0, 0, false, err
		}
	}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 8*longestEntry)
	for in.Scan() {
		lines++
		var text string
		if json.Unmarshal(in.Bytes(), &text) == nil {
			h.remember(text)
			continue
		}
		others++
		torn = bytes.HasPrefix(bytes.TrimLeft(in.Bytes(), "\x00"), []byte{'"'}) || len(bytes.Trim(in.Bytes(), "\x00")) == 0
	}
	return lines, others, torn, in.Err()
}

// remember adds an entry in memory.
func (h *History) remember(text string) bool {
	if strings.TrimSpace(text) == "" || len(h.entries) > 0 && h.entries[len(h.entries)-1] == text {
		return false
	}
	h.entries = append(h.entries, text)
	if extra := len(h.entries) - mostEntries; extra > 0 {
		h.entries = slices.Delete(h.entries, 0, extra)
	}
	return true
}

// Add appends an entry that is not the last one again.
func (h *History) Add(text string) error {
	if !h.remember(text) || h.file == "" || len(text) > longestEntry {
		return nil
	}
	f, err := os.OpenFile(h.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(entryLine(text)) // one write: other programs add to the same file
	return errors.Join(err, f.Close())
}

func entryLine(text string) []byte {
	line, _ := json.Marshal(text) // of a string
	return append(line, '\n')
}

// rewrite replaces the file by the entries that are kept.
func (h *History) rewrite() error {
	var all bytes.Buffer
	for _, e := range h.entries {
		all.Write(entryLine(e))
	}
	return wholefile.Write(h.file, all.Bytes(), 0o600)
}

// search returns the newest entry before an index that holds a text, -1 if there is none.
func (h *History) search(text string, before int) int {
	for i := min(before, len(h.entries)) - 1; i >= 0; i-- {
		if strings.Contains(h.entries[i], text) {
			return i
		}
	}
	return -1
}
