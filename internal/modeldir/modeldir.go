// Package modeldir is a folder of models: which there are, and how they come and go. Names that callers give become
// names of files inside of the folder and nothing else; operations go through an [os.Root], so that neither a name nor
// a link leads out of it.
package modeldir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/specgo/spec/internal/strictjson"
)

// Ends of names: a model, the draft model for it, and what is said about it beside its file.
const (
	Suffix         = ".gguf"
	draftSuffix    = ".draft" + Suffix
	settingsSuffix = ".settings.json"
)

// hubFolder is the cache of what [Dir.Pull] downloads, inside of the folder: an interrupted download goes on there.
const hubFolder = ".hub"

// settingsBytes is the most that is read of a file of settings.
const settingsBytes = 1 << 20

var (
	// ErrName: a name that no model of the folder can have.
	ErrName = errors.New("not a name of a model: letters, digits, '.', '_' and '-', at most 128, no tag but :latest")
	// ErrNotFound: the folder has no model of that name.
	ErrNotFound = errors.New("no such model in the models' folder")
	// ErrExists: another model has the name.
	ErrExists = errors.New("there is another model of that name")
	// ErrBusy: another change is under way.
	ErrBusy = errors.New("another change of the models is under way")
)

// Dir is a folder of models. Its methods may be called by several goroutines; of changes one is made at a time, and
// others are refused meanwhile.
type Dir struct {
	path     string
	changing sync.Mutex
}

// New is the folder at path.
func New(path string) *Dir { return &Dir{path: path} }

// Settings is what is said about a model beside its file.
type Settings struct {
	Schema     int             `json:"schema"`
	Pulled     string          `json:"pulled,omitempty"` // the model of the Hub that it is: OWNER/NAME[:QUANTIZATION]
	Also       []string        `json:"also,omitempty"`   // other names of it there, by which it was pulled too
	System     string          `json:"system,omitempty"`
	Template   string          `json:"template,omitempty"`   // Jinja
	Parameters json.RawMessage `json:"parameters,omitempty"` // an object
}

// settingsSchema is the version of a file of settings.
const settingsSchema = 1

// Model is a model of the folder.
type Model struct {
	Name        string
	File, Draft string // paths; Draft is "" where there is none
	Settings    Settings
	Bytes       int64 // of both files, with all parts of a split model
	Modified    time.Time
}

// partSuffix is the end of the name of a part of a split model.
var partSuffix = regexp.MustCompile(`-(\d{5})-of-(\d{5})$`)

// Name is what a file's model is called: the file's name without its end, nor that of a part.
func Name(file string) string {
	return partSuffix.ReplaceAllString(strings.TrimSuffix(filepath.Base(file), Suffix), "")
}

// Size is the size of a model's file, or of all its parts, and the time of the file. Nothing is read: lists ask for it
// again and again.
func Size(file string) (int64, time.Time, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, time.Time{}, err
	}
	stem := strings.TrimSuffix(file, Suffix)
	part := partSuffix.FindStringSubmatch(stem)
	if part == nil {
		return info.Size(), info.ModTime(), nil
	}
	n, _ := strconv.Atoi(part[2]) // five digits
	bytes := int64(0)
	for i := range n {
		name := fmt.Sprintf("%s-%05d-of-%s%s", strings.TrimSuffix(stem, part[0]), i+1, part[2], Suffix)
		other, err := os.Stat(name)
		if err != nil {
			return info.Size(), info.ModTime(), nil // loading it says what is wrong
		}
		bytes += other.Size()
	}
	return bytes, info.ModTime(), nil
}

// List is the models of the folder, by name. Of a split model it is the first part. Hidden files are none: systems put
// some of their own beside others' on disks that know no attributes (._m.gguf).
func (d *Dir) List() (list []Model, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
	drafts := map[string]string{}
	for _, e := range entries {
		if base, ok := strings.CutSuffix(e.Name(), draftSuffix); ok {
			drafts[base] = filepath.Join(d.path, e.Name())
		}
	}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), Suffix)
		if !ok || strings.HasSuffix(e.Name(), draftSuffix) || e.IsDir() {
			continue
		}
		if part := partSuffix.FindStringSubmatch(base); part != nil && part[1] != "00001" {
			continue // the first part opens them all
		}
		m := Model{Name: Name(e.Name()), File: filepath.Join(d.path, e.Name())}
		m.Draft = drafts[m.Name]
		delete(drafts, m.Name)
		if err := m.complete(root); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	for base := range drafts {
		return nil, fmt.Errorf("%s drafts for %s%s, which is not there", drafts[base], base, Suffix)
	}
	return list, nil
}

// complete reads a model's settings and sizes. A link to nothing has no size: loading it says what is wrong.
func (m *Model) complete(root *os.Root) (err error) {
	for _, file := range []string{m.File, m.Draft} {
		if file == "" {
			continue
		}
		bytes, modified, err := Size(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if m.Bytes += bytes; m.Modified.IsZero() {
			m.Modified = modified
		}
	}
	m.Settings, err = readSettings(root, m.Name)
	return err
}

// readSettings reads what is said about a model; nothing, where there is no such file.
func readSettings(root *os.Root, name string) (s Settings, err error) {
	f, err := root.Open(name + settingsSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer f.Close()
	if err := strictjson.Decode(f, settingsBytes, &s); err != nil {
		return s, fmt.Errorf("%s%s: %w", name, settingsSuffix, err)
	}
	if s.Schema != settingsSchema {
		return s, fmt.Errorf("%s%s: schema %d, not %d", name, settingsSuffix, s.Schema, settingsSchema)
	}
	return s, nil
}

// plainName is what a name of a model is made of.
var plainName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?$`)
})

// checkName is the name of files that a caller's name stands for. Ollama's clients write the tag latest.
func checkName(given string) (string, error) {
	name := strings.TrimSuffix(given, ":latest")
	if !plainName().MatchString(name) || !filepath.IsLocal(name+Suffix) || partSuffix.MatchString(name) ||
		strings.HasSuffix(name+Suffix, draftSuffix) || strings.HasSuffix(strings.ToLower(name), Suffix) {
		return "", fmt.Errorf("%.100q: %w", given, ErrName)
	}
	return name, nil
}

// find is the model that a caller's name stands for: its own name, or that by which it was pulled.
func find(list []Model, given string) (Model, error) {
	r, pulled := hubName(given)
	for _, m := range list {
		if m.Name == strings.TrimSuffix(given, ":latest") || pulled && slices.Contains(m.Settings.pulled(), r.String()) {
			return m, nil
		}
	}
	return Model{}, fmt.Errorf("%.100q: %w", given, ErrNotFound)
}

// change makes one change of the folder, with what there is before.
func (d *Dir) change(f func(root *os.Root, list []Model) error) error {
	if !d.changing.TryLock() {
		return ErrBusy
	}
	defer d.changing.Unlock()
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return err
	}
	defer root.Close()
	list, err := d.List()
	if err != nil {
		return err
	}
	return f(root, list)
}

// files are the names of all files of a model in the folder, the one to open first.
func (m *Model) files(root *os.Root) (names []string, err error) {
	first := filepath.Base(m.File)
	names = []string{first}
	if part := partSuffix.FindStringSubmatch(strings.TrimSuffix(first, Suffix)); part != nil {
		entries, err := fs.ReadDir(root.FS(), ".")
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			base := strings.TrimSuffix(e.Name(), Suffix)
			if other := partSuffix.FindStringSubmatch(base); other != nil && e.Name() != first &&
				strings.HasSuffix(e.Name(), Suffix) && other[2] == part[2] && Name(e.Name()) == m.Name {
				names = append(names, e.Name())
			}
		}
	}
	if m.Draft != "" {
		names = append(names, filepath.Base(m.Draft))
	}
	return names, nil
}

// Delete deletes a model: its files in the folder, and what the cache of downloads has of it. Of a link it deletes the
// link.
func (d *Dir) Delete(name string) error {
	return d.change(func(root *os.Root, list []Model) error {
		m, err := find(list, name)
		if err != nil {
			return err
		}
		names, err := m.files(root)
		if err != nil {
			return err
		}
		// What is interrupted can be repeated: the settings say what the cache has of it, and the file that makes it a
		// model goes last.
		for _, pulled := range m.Settings.pulled() {
			if err := d.forget(root, pulled); err != nil {
				return err
			}
		}
		if err := removeSettings(root, m.Name); err != nil {
			return err
		}
		slices.Reverse(names)
		for _, n := range names {
			if err := root.Remove(n); err != nil {
				return err
			}
		}
		return nil
	})
}

// Copy gives a model another name: hard links to its files, so that either may be deleted.
func (d *Dir) Copy(from, to string) (m Model, err error) { return d.Create(to, from, Settings{}) }

// Create makes a model of another one's files, with settings that come before the other's.
func (d *Dir) Create(name, from string, s Settings) (m Model, err error) {
	err = d.change(func(root *os.Root, list []Model) error {
		to, err := checkName(name)
		if err != nil {
			return err
		}
		source, err := find(list, strings.TrimSuffix(strings.TrimPrefix(from, "./"), Suffix))
		if err != nil {
			return err
		}
		s = Settings{Schema: settingsSchema, System: cmp.Or(s.System, source.Settings.System),
			Template: cmp.Or(s.Template, source.Settings.Template), Parameters: s.Parameters}
		if s.Parameters == nil {
			s.Parameters = source.Settings.Parameters
		}
		if old, err := find(list, to); err == nil && old.Name == source.Name {
			s.Pulled, s.Also = source.Settings.Pulled, source.Settings.Also // other settings of the same model
			m, err = d.describe(root, source.Name, filepath.Base(source.File), source.Draft, s)
			return err
		} else if err == nil {
			return fmt.Errorf("%s: %w", to, ErrExists)
		}
		m, err = d.link(root, &source, to, s)
		return err
	})
	return m, err
}

// link makes links to a model's files under another name. What was made is taken back when one cannot be made.
func (d *Dir) link(root *os.Root, source *Model, to string, s Settings) (m Model, err error) {
	names, err := source.files(root)
	if err != nil {
		return m, err
	}
	var made []string
	defer func() {
		if err != nil {
			for _, n := range made {
				err = errors.Join(err, root.Remove(n))
			}
		}
	}()
	draft := ""
	for _, n := range names {
		other := to + strings.TrimPrefix(n, source.Name)
		if err := root.Link(n, other); errors.Is(err, fs.ErrExist) {
			return m, fmt.Errorf("%s: %w", other, ErrExists)
		} else if err != nil {
			return m, err
		}
		if made = append(made, other); strings.HasSuffix(other, draftSuffix) {
			draft = filepath.Join(d.path, other)
		}
	}
	return d.describe(root, to, made[0], draft, s)
}

// describe writes a model's settings and reads the model.
func (d *Dir) describe(root *os.Root, name, file, draft string, s Settings) (m Model, err error) {
	m = Model{Name: name, File: filepath.Join(d.path, file), Draft: draft}
	if err := writeSettings(root, name, s); err != nil {
		return m, err
	}
	return m, m.complete(root)
}

// writeSettings writes what is said about a model; where that is nothing, there is no file of it, also none that
// another model of the name has left.
func writeSettings(root *os.Root, name string, s Settings) error {
	if s.Pulled == "" && s.System == "" && s.Template == "" && s.Parameters == nil {
		return removeSettings(root, name)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(data) > settingsBytes {
		return fmt.Errorf("the settings of %s take %d bytes, more than %d", name, len(data), settingsBytes)
	}
	part := name + settingsSuffix + ".part"
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data) // on disk before its name is there: an empty file of settings has the whole folder refused
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return root.Rename(part, name+settingsSuffix)
}

func removeSettings(root *os.Root, name string) error {
	if err := root.Remove(name + settingsSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
