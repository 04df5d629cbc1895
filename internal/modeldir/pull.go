package modeldir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/hub"
)

// hubPrefixes stand in front of names of the Hub, as Ollama's clients and this program write them.
var hubPrefixes = []string{"hf.co/", "huggingface.co/", hub.Scheme}

// hubName is the model of the Hub that a name is; ok is false for others.
func hubName(name string) (r hub.Reference, ok bool) {
	for _, p := range hubPrefixes {
		if rest, cut := strings.CutPrefix(name, p); cut {
			r, err := hub.ParseReference(strings.TrimSuffix(rest, ":latest"))
			return r, err == nil
		}
	}
	r, err := hub.ParseReference(name)
	return r, err == nil
}

// Names are those by which a model that was pulled is also known.
func (s *Settings) Names() (names []string) {
	for _, pulled := range s.pulled() {
		names = append(names, pulled)
		for _, p := range hubPrefixes {
			names = append(names, p+pulled)
		}
	}
	return names
}

// pulled are the names of the Hub by which a model was pulled.
func (s *Settings) pulled() []string {
	if s.Pulled == "" {
		return nil
	}
	return append([]string{s.Pulled}, s.Also...)
}

// mostAlso bounds Settings.Also.
const mostAlso = 16

// Pull downloads a model of the Hub by a client, whose cache it sets to one inside of the folder, and puts the files
// into the folder under their own names.
func (d *Dir) Pull(ctx context.Context, client hub.Client, name string) (m Model, err error) {
	r, ok := hubName(name)
	if !ok {
		return m, fmt.Errorf("%.100q: %w of the Hugging Face Hub: hf.co/OWNER/NAME[:QUANTIZATION]", name, ErrName)
	}
	err = d.change(func(root *os.Root, _ []Model) error {
		if err := makeFolder(root, hubFolder); err != nil {
			return err
		}
		client.Cache, client.Download = hub.Cache{Dir: filepath.Join(d.path, hubFolder)}, true
		paths, err := client.Pull(ctx, r)
		if err != nil {
			return err
		}
		list, err := d.List() // others may have changed it in the hours of a download
		if err != nil {
			return err
		}
		first := filepath.Base(paths[0])
		for _, p := range paths {
			if _, err := checkName(Name(p)); err != nil || !strings.HasSuffix(p, Suffix) {
				return fmt.Errorf("the file %.100q: %w", filepath.Base(p), ErrName)
			}
		}
		old, err := find(list, Name(first))
		before := slices.Contains(old.Settings.pulled(), r.String())
		if err == nil && !before && (!isOf(&old, paths[0]) || len(old.Settings.Also) == mostAlso) {
			return fmt.Errorf("%s: %w", old.Name, ErrExists)
		}
		for _, p := range paths {
			if err := d.place(root, p, root.Link); err != nil {
				return err
			}
		}
		if err := superseded(root, list, r, &old, paths); err != nil {
			return err
		}
		s := old.Settings
		s.Schema = settingsSchema
		switch {
		case before:
		case s.Pulled == "":
			s.Pulled = r.String()
		default: // the same file by another name, as with the quantization
			s.Also = append(s.Also, r.String())
		}
		m, err = d.describe(root, Name(first), first, old.Draft, s)
		return err
	})
	return m, err
}

// isOf reports whether a model's file is that of the cache: what was pulled by another name, or by a pull that was
// interrupted before anything was said of it.
func isOf(m *Model, path string) bool {
	a, err := os.Stat(m.File)
	b, e := os.Stat(path)
	return err == nil && e == nil && os.SameFile(a, b)
}

// superseded takes back what a model of the Hub was before, where the repository has other files for it now: files of
// the model of the same name, and the name that was pulled, of one of another name.
func superseded(root *os.Root, list []Model, r hub.Reference, old *Model, paths []string) error {
	if old.Name != "" {
		names, err := old.files(root)
		if err != nil {
			return err
		}
		for _, n := range names {
			same := func(p string) bool { return filepath.Base(p) == n }
			if strings.HasSuffix(n, draftSuffix) || slices.ContainsFunc(paths, same) {
				continue
			}
			if err := root.Remove(n); err != nil {
				return err
			}
		}
	}
	for _, m := range list {
		names := m.Settings.pulled()
		if !slices.Contains(names, r.String()) || m.Name == old.Name {
			continue
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == r.String() })
		if m.Settings.Pulled, m.Settings.Also = "", nil; len(names) > 0 {
			m.Settings.Pulled, m.Settings.Also = names[0], names[1:]
		}
		if err := writeSettings(root, m.Name, m.Settings); err != nil {
			return err
		}
	}
	return nil
}

// makeFolder makes a folder, and refuses what stands there instead of one: a link could lead elsewhere.
func makeFolder(root *os.Root, name string) error {
	if err := root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", name)
	}
	return err
}

// place puts a link to a downloaded file into the folder, in the place of an older one; where there are no links
// (exFAT), it moves the file itself there.
func (d *Dir) place(root *os.Root, path string, link func(from, to string) error) error {
	real, err := filepath.EvalSymlinks(path) // the cache has links to contents
	if err != nil {
		return err
	}
	folder, err := filepath.EvalSymlinks(d.path)
	if err != nil {
		return err
	}
	inside, err := filepath.Rel(folder, real)
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	part := name + ".part"
	gone := func() error {
		if err := root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := gone(); err != nil {
		return err
	}
	if link(inside, part) != nil {
		if err := root.Rename(inside, part); err != nil {
			return err
		}
	}
	if err := root.Rename(part, name); err != nil {
		return err
	}
	return gone() // of two links to one file, renaming one to the other keeps both
}

// forget deletes what the cache has of a model of the Hub.
func (d *Dir) forget(root *os.Root, pulled string) error {
	if pulled == "" {
		return nil
	}
	r, err := hub.ParseReference(pulled)
	if err != nil {
		return err
	}
	if err := makeFolder(root, hubFolder); err != nil {
		return err
	}
	_, err = hub.Cache{Dir: filepath.Join(d.path, hubFolder)}.Remove(r)
	return err
}
