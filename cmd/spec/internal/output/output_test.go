package output

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/internal/filelock"
)

func contents(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// alone checks that nothing else lies beside the named files.
func alone(t *testing.T, dir string, names ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(names) {
		t.Errorf("%d files, want %q: %v", len(list), names, list)
	}
}

func TestCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Create(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("new text")); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, path); got != "old" {
		t.Errorf("before Commit the file holds %q", got)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	if got := contents(t, path); got != "new text" {
		t.Errorf("after Commit the file holds %q", got)
	}
	if info, _ := os.Stat(path); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, was 0600", info.Mode())
	}
	alone(t, dir, "x")
}

// Outputs are one file by one path, by a link to it or to its folder, and by a second name of it.
func TestApart(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.Mkdir(at("d"), 0o755), os.WriteFile(at("x"), nil, 0o644), os.Link(at("x"), at("y")))
	if err != nil {
		t.Fatal(err)
	}
	links := os.Symlink(at("d"), at("l")) == nil && os.Symlink(at("x"), at("s")) == nil
	for _, c := range []struct {
		a, b  string
		apart bool
	}{
		{at("n"), at("n"), false}, {at("n"), at("d/../n"), false}, {at("x"), at("y"), false}, {at("x"), at("n"), true},
		{at("d/n"), at("n"), true}, {"", "", true}, {"-", "-", true}, {os.DevNull, os.DevNull, true},
		{at("d/n"), at("l/n"), !links}, {at("x"), at("s"), !links}, {at("none/n"), at("none/n"), false},
	} {
		err := Apart(Named{"-a", c.a}, Named{"-b", at("other")}, Named{"-c", c.b})
		if (err == nil) != c.apart || err != nil && err.Error() != "-a "+c.a+" and -c "+c.b+" are one file" {
			t.Errorf("%q and %q: %v", c.a, c.b, err)
		}
	}
}

func TestAbort(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	for _, old := range []string{"", "old"} {
		if old != "" {
			if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f, err := Create(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte("half"))
		f.Abort()
		if old == "" {
			alone(t, dir)
		} else if got := contents(t, path); got != old {
			t.Errorf("after Abort the file holds %q", got)
		} else {
			alone(t, dir, "x")
		}
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Create(t.Context(), dir, nil); err == nil {
		t.Error("a folder was taken")
	}
	none := filepath.Join(dir, "no", "x")
	if _, err := Create(t.Context(), none, nil); !errors.Is(err, os.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), none+": ") || strings.Contains(err.Error(), partSuffix) {
		t.Errorf("in no folder: %v", err)
	}
	if f, err := Create(t.Context(), filepath.Join(dir, "x"), nil); err != nil {
		t.Error(err)
	} else {
		f.file.Close()
		_, err := f.Write([]byte("x")) // fails as on a full disk
		if f.Abort(); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, "x")+": ") {
			t.Errorf("writing failed: %v", err)
		}
	}
	if _, err := Create(t.Context(), "-", nil); err == nil {
		t.Error("no standard output was taken")
	}
	locked := filepath.Join(dir, "locked")
	if err := os.WriteFile(locked, []byte("old"), 0o444); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() > 0 { // root may write everything
		if _, err := Create(t.Context(), locked, nil); !errors.Is(err, os.ErrPermission) {
			t.Errorf("a file that may not be written: %v", err)
		}
	}
	alone(t, dir, "locked")
}

// Standard output and devices are written to as they are, a link stays a link.
func TestNotReplaced(t *testing.T) {
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	f, err := Create(t.Context(), "-", out)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("text"))
	if err := f.Commit(); err != nil || contents(t, out.Name()) != "text" {
		t.Errorf("%v, %q", err, contents(t, out.Name()))
	}
	if _, err := out.Write([]byte("more")); err != nil {
		t.Errorf("standard output was closed: %v", err)
	}

	before, err := os.Stat(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(*File){func(f *File) { f.Commit() }, (*File).Abort} {
		f, err := Create(t.Context(), os.DevNull, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte("text"))
		end(f)
		if after, err := os.Stat(os.DevNull); err != nil || after.Mode() != before.Mode() {
			t.Fatalf("the device is %v now, was %v", after, before)
		}
	}

	link := filepath.Join(dir, "link")
	if err := os.Symlink("stdout", link); err != nil {
		t.Skip("no links here")
	}
	if f, err = Create(t.Context(), link, nil); err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("through the link"))
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Lstat(link); info.Mode()&os.ModeSymlink == 0 ||
		contents(t, filepath.Join(dir, "stdout")) != "through the link" {
		t.Errorf("the link is %v now", info.Mode())
	}
	alone(t, dir, "stdout", "link")

	// Nor is a link to a file that is not there yet, by way of another link.
	elsewhere := t.TempDir()
	target := filepath.Join(elsewhere, "new")
	err = errors.Join(os.Remove(link), os.Symlink("second", link), os.Symlink(target, filepath.Join(dir, "second")))
	if err != nil {
		t.Fatal(err)
	}
	if Apart(Named{"-a", link}, Named{"-b", target}) == nil {
		t.Error("a file and a link to where it will be count as two")
	}
	if f, err = Create(t.Context(), link, nil); err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("new"))
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Lstat(link); info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link to nothing is %v now", info.Mode())
	} else if got := contents(t, target); got != "new" {
		t.Errorf("%q at the link's end", got)
	}
	alone(t, elsewhere, "new")
	if err := os.Symlink("round", filepath.Join(dir, "round")); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(t.Context(), filepath.Join(dir, "round"), nil); err == nil {
		t.Error("a link to itself was taken")
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "fifo")
	if mkfifo(path) != nil {
		t.Skip("no named pipes here")
	}
	if _, err := Create(ctx, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a pipe that nobody reads: %v", err)
	}
}

// What a killed program has left of an output goes with the next one to the same path. What another program is at, and
// files of other names, stay.
func TestLeftoversGo(t *testing.T) {
	if !filelock.Works {
		t.Skip("files cannot be marked here")
	}
	dir := t.TempDir()
	path, old := filepath.Join(dir, "x"), time.Now().Add(-time.Hour)
	age := func(name string) {
		t.Helper()
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	others := []string{"x.1-0.part.txt", "x.y-0.part", "x.1.part", "x.part", "x.1-.part", "y.1-0.part"}
	for _, name := range append(others, "x.1-0.part") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		age(filepath.Join(dir, name))
	}
	running, err := Create(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	age(running.file.Name())
	second, err := Create(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	second.Abort()
	if err := running.Commit(); err != nil {
		t.Error(err)
	}
	alone(t, dir, append(others, "x")...)
}
