package promptcache

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/specgo/spec/internal/filelock"
)

const (
	entryExt   = ".kv"
	unfinished = ".writing-" // the beginning of the names of files that are being written
	abandoned  = time.Hour   // age from which such a file is one that its program has left
	lockName   = ".lock"
	// trimTo and lookAfter are parts of the bound: what remains when entries go, and what is written before the folder
	// is looked at again, since others may write to it.
	trimTo    = 0.9
	lookAfter = 8
)

// Folder is a Store in a folder: a file for each entry. Several processes may use it at a time. What was used longest
// ago goes where the files take more than the bound, beyond which each process may write an eighth of it before it
// looks.
type Folder struct {
	dir   string
	limit int64

	mu      sync.Mutex
	bytes   int64 // of all entries, as of the last look and what was written since
	written int64 // since the last look

	create func(dir string) (io.WriteCloser, string, error) // of a file; tests
}

// NewFolder makes the folder if there is none, and looks at what it has. limit is the most bytes of its files; 0: any
// number. What its files hold of prompts is for their owner alone.
func NewFolder(dir string, limit int64) (*Folder, error) {
	if limit < 0 {
		return nil, fmt.Errorf("%s: a prompt cache of %d bytes", dir, limit)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, limit: limit, create: createFile}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f, f.look()
}

func createFile(dir string) (io.WriteCloser, string, error) {
	file, err := os.CreateTemp(dir, unfinished)
	if err != nil {
		return nil, "", err
	}
	return file, file.Name(), nil
}

func (f *Folder) path(key Key) string {
	name := key.String()
	return filepath.Join(f.dir, name[:2], name+entryExt)
}

// Has is [Store].Has.
func (f *Folder) Has(_ context.Context, key Key) bool {
	info, err := os.Stat(f.path(key))
	return err == nil && info.Mode().IsRegular() && info.Size() >= int64(headBytes)
}

// Get is [Store].Get.
func (f *Folder) Get(_ context.Context, key Key) ([]byte, error) {
	path := f.path(key)
	var all []byte
	info, err := os.Stat(path)
	if err == nil && info.Size() <= int64(headBytes+mostEntry) {
		all, err = os.ReadFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if len(all) < headBytes || !intact(key, all[:headBytes], all[headBytes:]) {
		return nil, errors.Join(fmt.Errorf("%s: %w: damaged", path, ErrMissing), os.Remove(path))
	}
	return all[headBytes:], nil
}

// Put is [Store].Put. After a crash of the machine a file may be incomplete, which Get finds out.
func (f *Folder) Put(_ context.Context, key Key, data []byte) error {
	size := EntryBytes(len(data))
	if len(data) > mostEntry || f.limit > 0 && size > f.limit {
		return fmt.Errorf("%s: an entry of %d bytes in a prompt cache of %d, with at most %d each", f.dir, size, f.limit,
			mostEntry)
	}
	path := f.path(key)
	if err := f.write(path, entryHead(key, data), data); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes += size
	f.written += size
	if f.limit > 0 && (f.bytes > f.limit || f.written > f.limit/lookAfter) {
		return f.look()
	}
	return nil
}

// write makes a file of these parts.
func (f *Folder) write(path string, parts ...[]byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	w, name, err := f.create(dir)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err == nil {
			_, err = w.Write(part)
		}
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = os.Rename(name, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// Used is [Store].Used: it sets the times of the files.
func (f *Folder) Used(_ context.Context, keys []Key) {
	now := time.Now()
	for i, key := range keys {
		at := now.Add(-time.Duration(i) * time.Microsecond)
		_ = os.Chtimes(f.path(key), at, at) // it may be gone
	}
}

// Entries is what the folder has: its entries and their bytes.
func (f *Folder) Entries() (n int, bytes int64, err error) {
	list, err := f.list()
	for _, e := range list {
		bytes += e.bytes
	}
	return len(list), bytes, err
}

// Clear deletes all entries, and says what they were.
func (f *Folder) Clear() (n int, bytes int64, err error) {
	list, err := f.list()
	for _, e := range list {
		if gone := os.Remove(e.path); gone == nil {
			n++
			bytes += e.bytes
		} else if !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return n, bytes, errors.Join(err, f.look())
}

// entryFile is a file of an entry.
type entryFile struct {
	path  string
	bytes int64
	used  time.Time
}

// list finds the entries, and deletes what a program has left half-written.
func (f *Folder) list() (list []entryFile, err error) {
	parts, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if b, err := hex.DecodeString(part.Name()); err != nil || len(b) != 1 || !part.IsDir() {
			continue
		}
		dir := filepath.Join(f.dir, part.Name())
		files, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return list, err
		}
		for _, file := range files {
			info, err := file.Info()
			if err != nil || !info.Mode().IsRegular() {
				continue // it is gone
			}
			name := file.Name()
			path := filepath.Join(dir, name)
			switch {
			case strings.HasPrefix(name, unfinished) && time.Since(info.ModTime()) > abandoned:
				_ = os.Remove(path)
			case strings.HasSuffix(name, entryExt) && len(name) == 2*len(Key{})+len(entryExt):
				list = append(list, entryFile{path, info.Size(), info.ModTime()})
			}
		}
	}
	return list, nil
}

// look counts the entries, and deletes those used longest ago where they are more than the bound. One process does so
// at a time. The caller has the lock.
func (f *Folder) look() error {
	list, err := f.list()
	if err != nil {
		return err
	}
	f.bytes, f.written = 0, 0
	for _, e := range list {
		f.bytes += e.bytes
	}
	if f.limit == 0 || f.bytes <= f.limit {
		return nil
	}
	lock, err := os.OpenFile(filepath.Join(f.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	unlock, err := filelock.Lock(lock)
	if err != nil {
		return nil // another process is at it
	}
	defer unlock()
	for i, now := 0, time.Now(); i < len(list); i++ {
		if list[i].used.Sub(now) > abandoned { // of a clock that was wrong: it would be the newest for years
			list[i].used = time.Time{}
		}
	}
	slices.SortFunc(list, func(a, b entryFile) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path))
	})
	for _, e := range list {
		if f.bytes <= int64(trimTo*float64(f.limit)) {
			break
		}
		if err := os.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.bytes -= e.bytes
	}
	return nil
}
