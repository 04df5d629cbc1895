package hub

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/specgo/spec/internal/filelock"
	"github.com/specgo/spec/internal/wholefile"
)

// Cache is a folder of models in the layout of the Hugging Face Hub: per repository the files' contents in
// blobs, named by their tags; the files of each commit in snapshots, as links to blobs; and the commit that
// a branch had in refs.
type Cache struct{ Dir string }

// DefaultCache is the cache that Hugging Face's own tools use: HF_HUB_CACHE, else hub in HF_HOME, else huggingface/hub
// in XDG_CACHE_HOME, else ~/.cache/huggingface/hub.
func DefaultCache(env func(string) string) (Cache, error) {
	if dir := env("HF_HUB_CACHE"); dir != "" {
		return Cache{dir}, nil
	}
	if dir := env("HF_HOME"); dir != "" {
		return Cache{filepath.Join(dir, "hub")}, nil
	}
	if dir := env("XDG_CACHE_HOME"); dir != "" {
		return Cache{filepath.Join(dir, "huggingface", "hub")}, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return Cache{}, err
	}
	return Cache{filepath.Join(home, ".cache", "huggingface", "hub")}, nil
}

// Entry is a model file in the cache.
type Entry struct {
	Repo   string // OWNER/NAME
	Commit string
	File   string // its name in the repository
	Path   string
	Bytes  int64
}

var commitName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}$`) })

// List lists the GGUF files in the cache, by repository and name.
func (c Cache) List() (list []Entry, err error) {
	repos, err := os.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, dir := range repos {
		owner, name, ok := strings.Cut(strings.TrimPrefix(dir.Name(), "models--"), "--")
		if !ok || !strings.HasPrefix(dir.Name(), "models--") {
			continue
		}
		r, err := ParseReference(owner + "/" + name)
		if err != nil {
			continue // not one of the Hub's
		}
		more, err := c.files(r)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// files lists a repository's GGUF files in all snapshots.
func (c Cache) files(r Reference) (list []Entry, err error) {
	root := filepath.Join(c.Dir, r.folder(), "snapshots")
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if p == root && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		commit, file, ok := strings.Cut(filepath.ToSlash(rel), "/")
		if !ok || d.IsDir() || !strings.HasSuffix(strings.ToLower(file), ".gguf") || !commitName().MatchString(commit) {
			return nil
		}
		info, err := os.Stat(p) // of the blob
		if err != nil {
			return nil // a link to nothing
		}
		list = append(list, Entry{r.Repo(), commit, file, p, info.Size()})
		return nil
	})
	return list, err
}

// Find returns the files of a model that are in the cache, nil if it is not there whole. The snapshot is that
// of the branch main.
func (c Cache) Find(r Reference) ([]string, error) {
	commit, err := os.ReadFile(filepath.Join(c.Dir, r.folder(), "refs", "main"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := c.files(r)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	var names []string
	for _, e := range all {
		if e.Commit == strings.TrimSpace(string(commit)) {
			paths[e.File] = e.Path
			names = append(names, e.File)
		}
	}
	chosen, err := choose(names, r.File)
	if err != nil {
		return nil, nil
	}
	var list []string
	for _, name := range chosen {
		list = append(list, paths[name])
	}
	return list, nil
}

// Remove deletes the files that a reference names, in all snapshots: models by their quantization, any file by its
// name, without both all GGUF files of the repository, and where that leaves nothing of it, downloads that were not
// finished and that no program is at. A blob is deleted when no snapshot links to it any more. It returns what was
// removed, also beside the errors of what could not be; an unfinished download has no commit.
func (c Cache) Remove(r Reference) (removed []Entry, err error) {
	all, err := c.files(r)
	if err != nil {
		return nil, err
	}
	var failed error
	for _, e := range all {
		base := filepath.Base(filepath.FromSlash(e.File))
		if r.File == "" || sameModel(e.File, r.File) || sameModel(base, r.File) ||
			isModel(e.File) && hasQuant(e.File, r.File) {
			if err := os.Remove(e.Path); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			removed = append(removed, e)
		}
	}
	if len(removed) == 0 && r.File != "" {
		return nil, failed
	}
	blobs, err := sweep(filepath.Join(c.Dir, r.folder()))
	for _, b := range blobs {
		if strings.HasSuffix(b.File, incomplete) {
			b.Repo = r.Repo()
			removed = append(removed, b)
		}
	}
	return removed, errors.Join(failed, err)
}

// sweep deletes the blobs that no snapshot links to, and then empty folders, and returns these blobs. An unfinished
// download stays while anything of the repository does, or a program is at it.
func sweep(root string) (gone []Entry, err error) {
	used := map[string]bool{}
	err = filepath.WalkDir(filepath.Join(root, "snapshots"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			if to, err := os.Readlink(p); err == nil {
				used[filepath.Base(to)] = true
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	left := 0
	filepath.WalkDir(filepath.Join(root, "snapshots"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left++
		}
		return nil
	})
	blobs, err := os.ReadDir(filepath.Join(root, "blobs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, b := range blobs {
		name := filepath.Join(root, "blobs", b.Name())
		info, err := b.Info()
		if err != nil || !info.Mode().IsRegular() || used[b.Name()] ||
			strings.HasSuffix(b.Name(), incomplete) && (left > 0 || downloading(name)) {
			continue
		}
		if err := os.Remove(name); err != nil {
			return gone, err
		}
		gone = append(gone, Entry{File: b.Name(), Path: name, Bytes: info.Size()})
	}
	if left == 0 {
		os.Remove(filepath.Join(root, "refs", "main"))
	}
	var folders []string
	filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, p)
		}
		return nil
	})
	slices.Reverse(folders)
	for _, p := range folders {
		os.Remove(p) // only if it is empty
	}
	return gone, nil
}

// downloading reports whether a program is writing an unfinished download.
func downloading(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return filelock.Locked(f)
}

// snapshot is where a commit has a file.
func (c Cache) snapshot(r Reference, commit, file string) string {
	return filepath.Join(c.Dir, r.folder(), "snapshots", commit, filepath.FromSlash(file))
}

// install puts a blob into a snapshot under a file's name.
func (c Cache) install(r Reference, commit, file, tag string) (string, error) {
	to := c.snapshot(r, commit, file)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	blob := filepath.Join(c.Dir, r.folder(), "blobs", tag)
	link, err := filepath.Rel(filepath.Dir(to), blob)
	if err != nil {
		return "", err
	}
	return to, place(blob, link, to, os.Symlink)
}

// place makes a link to a blob; where there are no links, it moves the blob itself there.
func place(blob, link, to string, symlink func(to, name string) error) error {
	there := func() bool {
		old, err := os.Readlink(to)
		return err == nil && old == link
	}
	if there() {
		return nil
	}
	os.Remove(to)
	if symlink(link, to) == nil || there() { // or another program was first
		return nil
	}
	return os.Rename(blob, to)
}

// setMain makes commit the branch main's.
func (c Cache) setMain(r Reference, commit string) error {
	dir := filepath.Join(c.Dir, r.folder(), "refs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(dir, "main"), []byte(commit), 0o644)
}
