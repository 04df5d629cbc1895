package modeldir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/hub"
)

// folder makes a folder of models beside a file that is none of theirs. The contents of files are their names.
func folder(t *testing.T, names ...string) (d *Dir, secret string) {
	t.Helper()
	outside := t.TempDir()
	secret = filepath.Join(outside, "secret.gguf")
	dir := filepath.Join(outside, "models")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, secret)
	for _, n := range names {
		write(t, filepath.Join(dir, n))
	}
	return New(dir), secret
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(filepath.Base(path)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tree is the names and contents of all files under a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		all[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// badNames are names that lead elsewhere, or that another reader could take for something else.
var badNames = []string{"", ".", "..", "../secret", "..\\secret", "/etc/passwd", "/tmp/x", "a/b", "a/../../secret",
	"./../secret", "a\x00b", "a\nb", "a b", "ä", "a:b", "a:latest:latest", ".hub", ".hidden", "a.", "-a", "a*", "C:x",
	"~a",
	"x.draft", "x.gguf", "x.GGUF", "x-00001-of-00002", "%2e%2e%2fsecret", "$HOME", strings.Repeat("a", 129)}

// No name that a caller gives leads out of the folder: as what is made, as what is copied, and as what is deleted.
func TestNamesStayInside(t *testing.T) {
	d, secret := folder(t, "a.gguf")
	before := tree(t, filepath.Dir(secret))
	for _, name := range append(badNames, secret, strings.TrimSuffix(secret, ".gguf")) {
		if _, err := d.Copy("a", name); !errors.Is(err, ErrName) {
			t.Errorf("copied to %q: %v", name, err)
		}
		if _, err := d.Create("b", name, Settings{System: "x"}); !errors.Is(err, ErrNotFound) {
			t.Errorf("made of %q: %v", name, err)
		}
		if err := d.Delete(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("deleted %q: %v", name, err)
		}
		if name == "a/b" { // which the Hub may have
			continue
		}
		if _, err := d.Pull(t.Context(), hub.Client{Endpoint: "http://127.0.0.1:1"}, "hf.co/"+name); !errors.Is(err,
			ErrName) {
			t.Errorf("pulled %q: %v", name, err)
		}
	}
	after := tree(t, filepath.Dir(secret))
	if len(after) != len(before) {
		t.Errorf("%v, was %v", after, before)
	}
}

// A link that leads out of the folder is deleted and copied as a link: what it leads to stays, and nothing is written
// through it.
func TestLinksStayLinks(t *testing.T) {
	d, secret := folder(t, "a.gguf")
	link := func(name, to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(d.path, name)); err != nil {
			t.Skip(err)
		}
	}
	link("out.gguf", secret)
	if _, err := d.Copy("out", "out2"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"out", "out2"} {
		if err := d.Delete(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Settings are never written through a link, nor read through one that leads out.
	link("b.settings.json", secret)
	if _, err := d.Create("b", "a", Settings{System: "x"}); err != nil {
		t.Error(err)
	}
	link("c.settings.json.part", secret)
	if _, err := d.Create("c", "a", Settings{System: "x"}); err == nil {
		t.Error("settings are written through a link")
	}
	if _, err := os.Lstat(filepath.Join(d.path, "c.gguf")); err == nil {
		t.Error("what could not be made whole stays in part")
	}
	link("a.settings.json", secret)
	if _, err := d.List(); err == nil {
		t.Error("settings from outside are read")
	}
	if err := os.Remove(filepath.Join(d.path, "a.settings.json")); err != nil {
		t.Fatal(err)
	}
	// The cache is not where a link leads.
	link(hubFolder, filepath.Dir(secret))
	if _, err := d.Pull(t.Context(), hub.Client{Endpoint: "http://127.0.0.1:1"}, "hf.co/a/b"); err == nil ||
		!strings.Contains(err.Error(), "not a folder") {
		t.Errorf("a cache behind a link: %v", err)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret.gguf" {
		t.Errorf("the file outside has %q, %v", data, err)
	}
}

// A copy and its source live without each other, with all parts, the draft and the settings; settings that are made
// come before those of the source.
func TestCopiesAreModelsOfTheirOwn(t *testing.T) {
	d, _ := folder(t, "m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "m.draft.gguf", "other.gguf")
	if _, err := d.Create("m", "m", Settings{System: "S", Parameters: []byte(`{"top_k":1}`)}); err != nil {
		t.Fatal(err)
	}
	c, err := d.Create("c", "m", Settings{System: "C", Template: "T"})
	if err != nil || c.Settings.System != "C" || c.Settings.Template != "T" ||
		string(c.Settings.Parameters) != `{"top_k":1}` {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := d.Copy("m", "other"); !errors.Is(err, ErrExists) {
		t.Errorf("another model's name: %v", err)
	}
	if err := d.Delete("m:latest"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"c-00001-of-00002.gguf": "m-00001-of-00002.gguf",
		"c-00002-of-00002.gguf": "m-00002-of-00002.gguf",
		"c.draft.gguf":          "m.draft.gguf", "other.gguf": "other.gguf", "c.settings.json": ""}
	got := tree(t, d.path)
	for name, content := range want {
		if have, ok := got[name]; !ok || content != "" && have != content {
			t.Errorf("%s: %q", name, have)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	list, err := d.List()
	if err != nil || len(list) != 2 || list[0].Name != "c" || list[0].Draft == "" || list[0].Settings.System != "C" {
		t.Errorf("%+v, %v", list, err)
	}
}

// Changes come one at a time, and settings of another version are refused.
func TestChangesComeOneAtATime(t *testing.T) {
	d, _ := folder(t, "a.gguf")
	d.changing.Lock()
	if err := d.Delete("a"); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	d.changing.Unlock()
	for _, text := range []string{`{"schema":2}`, `{"schema":1,"next":true}`, `{`, ``} {
		if err := os.WriteFile(filepath.Join(d.path, "a.settings.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.List(); err == nil || !strings.Contains(err.Error(), "a.settings.json") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Hidden files are no models: neither those that macOS puts beside others' on a disk of exFAT, nor drafts without one.
func TestHiddenFilesAreNoModels(t *testing.T) {
	d, _ := folder(t, "a.gguf", "a.draft.gguf", "._a.gguf", "._a.draft.gguf", ".b.draft.gguf")
	if list, err := d.List(); err != nil || len(list) != 1 || list[0].Name != "a" || list[0].Draft == "" {
		t.Errorf("%+v, %v", list, err)
	}
}

// A link to nothing takes none of the other models away, and can be deleted.
func TestLinksToNothing(t *testing.T) {
	d, _ := folder(t, "a.gguf", "c.gguf")
	if err := os.Symlink("nothing", filepath.Join(d.path, "b.gguf")); err != nil {
		t.Skip(err)
	}
	list, err := d.List()
	if err != nil || len(list) != 3 || list[1].Name != "b" || list[1].Bytes != 0 || list[2].Bytes == 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := d.Delete("b"); err != nil {
		t.Error(err)
	}
	if list, err := d.List(); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// The size of a split model is that of its parts, without a look into them; of one that lacks a part, that of the file.
func TestSizeIsThatOfAllParts(t *testing.T) {
	d, _ := folder(t, "m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "torn-00001-of-00002.gguf", "x.gguf")
	want := map[string]int64{"m": 2 * int64(len("m-00001-of-00002.gguf")), "torn": int64(len("torn-00001-of-00002.gguf")),
		"x": int64(len("x.gguf"))}
	list, err := d.List()
	if err != nil || len(list) != len(want) {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, m := range list {
		if m.Bytes != want[m.Name] {
			t.Errorf("%s has %d bytes, want %d", m.Name, m.Bytes, want[m.Name])
		}
	}
}
