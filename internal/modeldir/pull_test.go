package modeldir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/hub"
)

const commit = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// repository is a Hub with the one repository o/n; the contents of its files are their names.
type repository struct {
	files []string
	sends func() // called before a file is sent
}

func (h *repository) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/api/models/o/n/revision/main" {
		var list []string
		for _, f := range h.files {
			list = append(list, fmt.Sprintf(`{"rfilename":%q}`, f))
		}
		fmt.Fprintf(w, `{"sha":%q,"siblings":[%s]}`, commit, strings.Join(list, ","))
		return
	}
	name := filepath.Base(r.URL.Path)
	sum := sha256.Sum256([]byte(name))
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	w.Header().Set("Content-Length", fmt.Sprint(len(name)))
	if r.Method == http.MethodGet {
		if h.sends != nil {
			h.sends()
		}
		fmt.Fprint(w, name)
	}
}

func newRepository(t *testing.T, files ...string) (*repository, hub.Client) {
	t.Helper()
	if err := os.Symlink("file", filepath.Join(t.TempDir(), "link")); err != nil {
		t.Skip(err)
	}
	h := &repository{files: files}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return h, hub.Client{Endpoint: s.URL}
}

// models are the names of a folder's models, with those by which they were pulled, and its files.
func models(t *testing.T, d *Dir) (names, files []string) {
	t.Helper()
	list, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		names = append(names, m.Name+" "+m.Settings.Pulled)
	}
	entries, _ := os.ReadDir(d.path)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), Suffix) {
			files = append(files, e.Name())
		}
	}
	return names, files
}

// A model that somebody puts into the folder while one of its name is downloaded stays as it is.
func TestPullLeavesWhatCameMeanwhile(t *testing.T) {
	d, _ := folder(t)
	h, client := newRepository(t, "m-Q8_0.gguf")
	mine := filepath.Join(d.path, "m-Q8_0.gguf")
	h.sends = func() {
		if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Pull(t.Context(), client, "o/n"); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if data, err := os.ReadFile(mine); err != nil || string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
}

// Where a repository has other files for a model than when it was pulled, those before go, or what has another name is
// no longer called like it. A pull that was interrupted before anything was said of its file is made whole.
func TestPullAgain(t *testing.T) {
	d, _ := folder(t)
	h, client := newRepository(t)
	for _, c := range []struct{ has, names, files []string }{
		{[]string{"m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"}, []string{"m-Q8_0 o/n"},
			[]string{"m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"}},
		{[]string{"m-Q8_0.gguf"}, []string{"m-Q8_0 o/n"}, []string{"m-Q8_0.gguf"}},
		{[]string{"x-Q8_0.gguf"}, []string{"m-Q8_0 ", "x-Q8_0 o/n"}, []string{"m-Q8_0.gguf", "x-Q8_0.gguf"}},
		{[]string{"x-Q8_0.gguf"}, []string{"m-Q8_0 ", "x-Q8_0 o/n"}, []string{"m-Q8_0.gguf", "x-Q8_0.gguf"}},
	} {
		h.files = c.has
		if _, err := d.Pull(t.Context(), client, "hf.co/o/n"); err != nil {
			t.Fatalf("%q: %v", c.has, err)
		}
		if names, files := models(t, d); !slices.Equal(names, c.names) || !slices.Equal(files, c.files) {
			t.Errorf("%q: models %q, files %q", c.has, names, files)
		}
		if err := os.Remove(filepath.Join(d.path, "x-Q8_0"+settingsSuffix)); err != nil && c.has[0] == "x-Q8_0.gguf" {
			t.Error(err)
		}
	}
	if _, err := d.Pull(t.Context(), client, "o/n"); err != nil {
		t.Error(err)
	}
}

// What could not be deleted as a whole can be deleted again, with what the cache has of it.
func TestDeleteAgain(t *testing.T) {
	d, _ := folder(t)
	_, client := newRepository(t, "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf")
	if _, err := d.Pull(t.Context(), client, "o/n"); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(d.path, "m-Q8_0-00002-of-00002.gguf")
	if err := os.Remove(part); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(part, "in it"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete("m-Q8_0"); err == nil {
		t.Error("a folder with a file in it is deleted")
	}
	if err := os.RemoveAll(part); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete("m-Q8_0"); err != nil {
		t.Error(err)
	}
	if left := tree(t, d.path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A copy of a model of which nothing is said has not what was said of another one of its name.
func TestCopiesHaveNoSettingsOfOthers(t *testing.T) {
	d, _ := folder(t, "a.gguf", "b.gguf")
	if _, err := d.Create("b", "b", Settings{System: "S"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(d.path, "b.gguf")); err != nil {
		t.Fatal(err)
	}
	if m, err := d.Copy("a", "b"); err != nil || m.Settings.System != "" {
		t.Errorf("%+v, %v", m.Settings, err)
	}
}

// A model that is pulled by several names of one file is known by all of them, until one of them stands for another
// file; deleted by one, it is gone with what the cache has of it.
func TestPullByOtherNames(t *testing.T) {
	d, _ := folder(t)
	h, client := newRepository(t, "m-Q8_0.gguf")
	all := []string{"o/n", "o/n:Q8_0", "o/n:m-Q8_0.gguf"}
	for _, name := range []string{"o/n", "hf.co/o/n:Q8_0", "o/n", "hf://o/n:m-Q8_0.gguf", "o/n:Q8_0"} {
		if m, err := d.Pull(t.Context(), client, name); err != nil || m.Name != "m-Q8_0" {
			t.Fatalf("%s: %+v, %v", name, m, err)
		}
	}
	list, err := d.List()
	if err != nil || len(list) != 1 || !slices.Equal(list[0].Settings.pulled(), all) ||
		!slices.Contains(list[0].Settings.Names(), "hf.co/o/n:Q8_0") {
		t.Errorf("%+v, %v", list, err)
	}
	for _, name := range all {
		if m, err := find(list, name); err != nil || m.Name != "m-Q8_0" {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.files = []string{"x-Q8_0.gguf"}
	if _, err := d.Pull(t.Context(), client, "o/n"); err != nil {
		t.Fatal(err)
	}
	if names, _ := models(t, d); !slices.Equal(names, []string{"m-Q8_0 o/n:Q8_0", "x-Q8_0 o/n"}) {
		t.Errorf("%q", names)
	}
	for _, name := range []string{"hf.co/o/n:m-Q8_0.gguf", "o/n"} {
		if err := d.Delete(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left := tree(t, d.path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Where there are no hard links, what was downloaded is moved into the folder, in the place of what it had.
func TestPlaceWithoutLinks(t *testing.T) {
	d, _ := folder(t, "m.gguf")
	root, err := os.OpenRoot(d.path)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Mkdir(hubFolder, 0o700); err != nil {
		t.Fatal(err)
	}
	pulled := filepath.Join(d.path, hubFolder, "m.gguf")
	if err := os.WriteFile(pulled, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.place(root, pulled, func(string, string) error { return errors.ErrUnsupported }); err != nil {
		t.Error(err)
	}
	if got := tree(t, d.path); len(got) != 1 || got["m.gguf"] != "new" {
		t.Errorf("%v", got)
	}
}
