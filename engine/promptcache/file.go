package promptcache

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/specgo/spec/internal/filelock"
	"github.com/specgo/spec/internal/wholefile"
)

// Contents says what a file of one sequence is.
type Contents struct {
	Lineage Lineage `json:"lineage"`
	Tokens  []int32 `json:"tokens"`
}

// contentsKey is the key of the entry that has them.
var contentsKey = Key{}.of('c', 0)

// mostContents is the most bytes of that entry: a context of a million tokens has less.
const mostContents = 16 << 20

// File is a Store in one file: what was put is written when Commit is called, in place of what the file had, together
// with those entries of it that were of use since.
type File struct {
	path string // links resolved, so that a link stays one

	mu       sync.Mutex
	old      *os.File // nil: there was none
	contents Contents
	index    map[Key]place // of the old file
	kept     map[Key]bool  // of those, which are of use
	next     *os.File      // nil: nothing was put
	w        *bufio.Writer
	at       int64 // in next
	size     int64 // of the old file
	added    map[Key]place
	short    map[Key][]byte // of those, which Get returns: they change
	order    []Key
	failed   error
	renewed  bool
}

// place is where the bytes of an entry are, behind their head.
type place struct{ at, n int64 }

// ErrNotCache is wrapped by errors about files that are not what File writes.
var ErrNotCache = errors.New("not a prompt cache of spec")

// OpenFile opens a file that Commit wrote; one that is not there, or is empty, is a store without entries. Of a
// damaged file those entries are there that can be read.
func OpenFile(path string) (*File, error) {
	path = wholefile.Resolve(path)
	f := &File{path: path, index: map[Key]place{}, kept: map[Key]bool{}, added: map[Key]place{},
		short: map[Key][]byte{}}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe waits for its writer
		return nil, fmt.Errorf("%s: %w: it is not a regular file", path, ErrNotCache)
	}
	old, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := old.Stat()
	if err == nil && info.Size() > 0 {
		f.old, f.size = old, info.Size()
		err = f.scan(f.size)
	}
	if err != nil || f.old == nil {
		f.old = nil
		return f, errors.Join(err, old.Close())
	}
	return f, nil
}

// scan finds the entries of the old file, up to one whose head cannot be read.
func (f *File) scan(size int64) error {
	head := make([]byte, headBytes)
	for at := int64(0); at < size; {
		n, err := f.old.ReadAt(head, at)
		key, bytes, ok := headOf(head[:n])
		if at == 0 && !ok {
			return fmt.Errorf("%s: %w", f.path, ErrNotCache)
		}
		at += int64(headBytes)
		if !ok || err != nil || bytes > mostEntry || bytes > uint64(size-at) {
			break
		}
		f.index[key] = place{at, int64(bytes)}
		at += int64(bytes)
	}
	if p, ok := f.index[contentsKey]; ok && p.n <= mostContents {
		if data, err := f.read(contentsKey); err == nil {
			if json.Unmarshal(data, &f.contents) != nil {
				f.contents = Contents{}
			}
		}
	}
	return nil
}

// Contents is what the file had when it was opened; the zero value: nothing.
func (f *File) Contents() Contents { return f.contents }

// New reports whether there was no file, or an empty one.
func (f *File) New() bool { return f.size == 0 }

// Renew has Commit write the file even where nothing was put: then it has the new contents alone.
func (f *File) Renew() { f.renewed = true }

// read reads an entry of the old file.
func (f *File) read(key Key) ([]byte, error) {
	p, ok := f.index[key]
	if !ok {
		return nil, ErrMissing
	}
	all := make([]byte, int64(headBytes)+p.n)
	if _, err := f.old.ReadAt(all, p.at-int64(headBytes)); err != nil || !intact(key, all[:headBytes], all[headBytes:]) {
		delete(f.index, key)
		delete(f.kept, key)
		return nil, fmt.Errorf("%s: %w: damaged", f.path, ErrMissing)
	}
	return all[headBytes:], nil
}

// Has is [Store].Has.
func (f *File) Has(_ context.Context, key Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.added[key]; ok {
		return true
	}
	_, ok := f.index[key]
	return ok
}

// shortBytes is the most bytes of an entry that Get returns before Commit: those that change are shorter.
const shortBytes = 64

// Get is [Store].Get, of what the file had when it was opened, and of what is short.
func (f *File) Get(_ context.Context, key Key) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if data, ok := f.short[key]; ok {
		return slices.Clone(data), nil
	}
	return f.read(key)
}

// Put is [Store].Put.
func (f *File) Put(_ context.Context, key Key, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed = f.put(key, data)
	}
	return f.failed
}

func (f *File) put(key Key, data []byte) error {
	if f.added == nil {
		return fmt.Errorf("%s: %w", f.path, os.ErrClosed)
	}
	if len(data) > mostEntry {
		return fmt.Errorf("%s: an entry of %d bytes, at most %d", f.path, len(data), mostEntry)
	}
	if f.next == nil {
		f.sweep()
		next, err := os.CreateTemp(filepath.Dir(f.path), f.temporary()+"*")
		if err != nil {
			return err
		}
		_, _ = filelock.Lock(next) // where it cannot be marked, others tell by its age
		f.next, f.w = next, bufio.NewWriterSize(next, 1<<16)
	}
	if _, err := f.w.Write(entryHead(key, data)); err != nil {
		return err
	}
	if _, err := f.w.Write(data); err != nil {
		return err
	}
	f.added[key] = place{f.at + int64(headBytes), int64(len(data))}
	f.at += EntryBytes(len(data))
	if len(data) <= shortBytes {
		f.short[key] = slices.Clone(data)
	}
	return nil
}

// temporary is how the names begin of what is to become the file; digits follow.
func (f *File) temporary() string { return "." + filepath.Base(f.path) + "-" }

// sweep deletes what killed programs have left of the file beside it.
func (f *File) sweep() {
	filelock.Sweep(filepath.Dir(f.path), func(name string) bool {
		digits, ok := strings.CutPrefix(name, f.temporary())
		return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
	})
}

// Used is [Store].Used: these entries remain in the file.
func (f *File) Used(_ context.Context, keys []Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		if _, ok := f.index[key]; ok && !f.kept[key] {
			f.kept[key] = true
			f.order = append(f.order, key)
		}
	}
}

// Commit writes the file, with these contents, and closes it. bytes is its size. Where it fails, or nothing was put and
// Renew was not called, the old file stays.
func (f *File) Commit(c Contents) (bytes int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bytes = f.size
	if err = f.failed; err == nil && (f.next != nil || f.renewed) {
		err = f.commit(c)
		bytes = f.at
	}
	return bytes, errors.Join(err, f.close())
}

func (f *File) commit(c Contents) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := f.put(contentsKey, text); err != nil {
		return err
	}
	for _, key := range f.order {
		if _, ok := f.added[key]; ok || key == contentsKey {
			continue
		}
		if data, err := f.read(key); err == nil {
			if err := f.put(key, data); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(f.w.Flush(), f.next.Sync(), f.next.Close()); err != nil {
		return err
	}
	if f.old != nil { // there are systems where an open file is not replaced
		f.old.Close()
		f.old = nil
	}
	if err := os.Rename(f.next.Name(), f.path); err != nil {
		return err
	}
	f.next = nil
	return nil
}

// Close leaves the file as it was, unless Commit has written it.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.close()
}

func (f *File) close() (err error) {
	if f.next != nil {
		f.next.Close() // again, where Commit has failed
		err = os.Remove(f.next.Name())
		f.next = nil
	}
	if f.old != nil {
		err = errors.Join(err, f.old.Close())
		f.old = nil
	}
	f.index, f.added, f.short = nil, nil, nil
	return err
}

// CopyTo puts all entries of the file into another store, but for its contents. What is damaged is left out.
func (f *File) CopyTo(ctx context.Context, to Store) (bytes int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := make([]Key, 0, len(f.index))
	for key := range f.index {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int { return int(f.index[a].at - f.index[b].at) })
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return bytes, err
		}
		if data, err := f.read(key); err == nil && key != contentsKey {
			if err := to.Put(ctx, key, data); err != nil {
				return bytes, err
			}
			bytes += int64(len(data))
		}
	}
	return bytes, nil
}

var _ io.Closer = (*File)(nil)
