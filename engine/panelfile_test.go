package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// TestPanelFileKept: with enough memory a model is loaded from a panel file that is there, whole, and one is written only if it is asked for.
func TestPanelFileKept(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	ids := []int32{1, 2, 3, 4, 5}
	want := eval(t, newSession(t, openModel(t, rt, targetFile, Options{}), SessionOptions{}), ids, nil, All)
	cache := t.TempDir()
	m := openModel(t, rt, targetFile, Options{Cache: cache})
	if list, _ := PanelFiles(cache); len(list) != 0 || m.stream != nil {
		t.Fatal("a panel file without need")
	}
	announced := ""
	m = openModel(t, rt, targetFile, Options{Cache: cache, KeepPanels: true, Announce: func(name string, n int64) { announced = fmt.Sprint(name, " ", n) }})
	list, err := PanelFiles(cache)
	if err != nil || len(list) != 1 || announced != fmt.Sprint(list[0].Name, " ", list[0].Bytes) || !strings.Contains(list[0].Text, "go-target.q8_0.gguf") || !list[0].Complete() {
		t.Fatalf("%v, announced %s: %v", list, announced, err)
	}
	for _, o := range []Options{{Cache: cache}, {Cache: cache, Memory: 1 << 40}} {
		if m = openModel(t, rt, targetFile, o); m.stream == nil || m.Memory().Streams() {
			t.Error("not loaded from the panel file")
		}
		sameBits(t, "from the panel file", eval(t, newSession(t, m, SessionOptions{}), ids, nil, All), want)
	}
	// Another time of the model's file: another panel file.
	file := filepath.Join(t.TempDir(), "m.gguf")
	data, err := os.ReadFile(targetFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{time.Unix(1000, 0), time.Unix(2000, 0)} {
		if err := errors.Join(os.WriteFile(file, data, 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
		before, _ := PanelFiles(cache)
		m = openModel(t, rt, file, Options{Cache: cache, KeepPanels: true})
		if after, _ := PanelFiles(cache); len(after) != len(before)+1 {
			t.Error("an old panel file was used")
		}
	}
}

// TestPanelFileDamaged: whatever is wrong with a panel file when a model is opened, it is written again or not used.
func TestPanelFileDamaged(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	ids := []int32{1, 2, 3, 4, 5}
	want := eval(t, newSession(t, openModel(t, rt, targetFile, Options{}), SessionOptions{}), ids, nil, All)
	limit := limits(t, targetFile, Options{})[1]
	for name, damage := range map[string]func(b []byte) []byte{
		"empty":          func(b []byte) []byte { return nil },
		"cut":            func(b []byte) []byte { return b[:len(b)-4096] },
		"header cut":     func(b []byte) []byte { return b[:100] },
		"longer":         func(b []byte) []byte { return append(b, make([]byte, 4096)...) },
		"magic":          func(b []byte) []byte { b[0]++; return b },
		"version":        func(b []byte) []byte { b[16]++; return b },
		"text length":    func(b []byte) []byte { b[20]++; return b },
		"text too long":  func(b []byte) []byte { b[23] = 255; return b },
		"header length":  func(b []byte) []byte { b[24]++; return b },
		"identity":       func(b []byte) []byte { b[40]++; return b },
		"text":           func(b []byte) []byte { b[70]++; return b },
		"checksum":       func(b []byte) []byte { b[4096-200]++; return b },
		"resident bytes": func(b []byte) []byte { flipResident(t, b, limit); return b },
	} {
		for _, keep := range []bool{false, true} {
			cache := t.TempDir()
			o := Options{Cache: cache, Memory: limit}
			openModel(t, rt, targetFile, o).Close()
			list, _ := PanelFiles(cache)
			data, err := os.ReadFile(list[0].Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(list[0].Name, damage(slices.Clone(data)), 0o600); err != nil {
				t.Fatal(err)
			}
			announced := 0
			o.Announce = func(string, int64) { announced++ }
			if !keep {
				o.Memory = 0 // everything fits: it may be left alone
			}
			m := openModel(t, rt, targetFile, o)
			sameBits(t, name, eval(t, newSession(t, m, SessionOptions{}), ids, nil, All), want)
			if again, _ := os.ReadFile(list[0].Name); keep && (announced != 1 || !slices.Equal(again, data)) {
				t.Errorf("%s: not written again: announced %d times", name, announced)
			}
			m.Close()
		}
	}
}

// flipResident changes a byte of a matrix that stays in memory under the limit.
func flipResident(t *testing.T, b []byte, limit int64) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m := openModel(t, rt, targetFile, Options{Cache: t.TempDir(), Memory: limit})
	for _, x := range m.stream.parts {
		if x.bound {
			b[x.part.offset+x.part.bytes/2]++
			return
		}
	}
	t.Fatal("nothing stays in memory")
}

// TestPanelFileRefused: full disks and directories that cannot be written are errors, and nothing stays behind; a model that fits is loaded
// all the same.
func TestPanelFileRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	limit := planOf(t, targetFile, Options{}).Least
	if _, err := Open(context.Background(), rt, targetFile, Options{Memory: limit}); !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("no cache: %v", err)
	}
	if _, err := Open(context.Background(), rt, targetFile, Options{Memory: limit - 1, Cache: t.TempDir()}); !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("too little: %v", err)
	}
	if _, err := Open(context.Background(), rt, targetFile, Options{Memory: -1}); !errors.Is(err, ErrUsage) {
		t.Errorf("negative: %v", err)
	}
	data, err := os.ReadFile(targetFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(context.Background(), rt, strings.NewReader(string(data)), int64(len(data)), Options{Memory: limit, Cache: t.TempDir()}); !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("no file: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(file, "cache") // not a directory, for root too
	if _, err := Open(context.Background(), rt, targetFile, Options{Memory: limit, Cache: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("no directory: %v", err)
	}
	openModel(t, rt, targetFile, Options{Memory: 1 << 40, Cache: dir}).Close()

	// A disk that is full after some writes.
	full := errors.New("no space left on device")
	for room := range 5 {
		cache := t.TempDir()
		f, err := gguf.OpenFile(targetFile)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		l, m, err := newModel(context.Background(), rt, f, Options{})
		if err != nil {
			t.Fatal(err)
		}
		list, err := mapPanels(l, m)
		if err != nil {
			t.Fatal(err)
		}
		id, err := identify(f, rt.t, Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := panelWriter{func(dir, pattern string) (panelOutput, error) {
			out, err := os.CreateTemp(dir, pattern)
			return &fullDisk{out, 10 * room, full}, err
		}}
		if err := w.write(context.Background(), rt.t, f, cache, id, list, &progress{r: f.Reader()}); !errors.Is(err, full) {
			t.Errorf("full disk: %v", err)
		}
		if left, _ := os.ReadDir(cache); len(left) != 0 {
			t.Errorf("%s was left", left[0].Name())
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := (panelWriter{createTemporary}).write(ctx, rt.t, f, cache, id, list, &progress{r: f.Reader()}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if left, _ := os.ReadDir(cache); len(left) != 0 {
			t.Errorf("%s was left", left[0].Name())
		}
	}
}

// fullDisk is a file that takes so many writes.
type fullDisk struct {
	*os.File
	room int
	err  error
}

func (f *fullDisk) WriteAt(b []byte, off int64) (int, error) {
	if f.room--; f.room < 0 {
		return 0, f.err
	}
	return f.File.WriteAt(b, off)
}

// TestPanelFileTogether: several that open a model for the first time do not disturb each other.
func TestPanelFileTogether(t *testing.T) {
	cache, ids := t.TempDir(), []int32{1, 2, 3}
	limit := planOf(t, targetFile, Options{}).Least
	var wait sync.WaitGroup
	var got [4][]float32
	for i := range got {
		wait.Go(func() {
			rt, err := NewRuntime(RuntimeOptions{Threads: 1})
			if err != nil {
				t.Error(err)
				return
			}
			defer rt.Close()
			m, err := Open(context.Background(), rt, targetFile, Options{Memory: limit, Cache: cache})
			if err != nil {
				t.Error(err)
				return
			}
			defer m.Close()
			s, err := m.NewSession(SessionOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			out, err := s.Eval(context.Background(), ids, nil, All)
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = slices.Clone(out.Data)
		})
	}
	wait.Wait()
	for i := range got {
		sameBits(t, "together", got[i], got[0])
	}
	if left, _ := os.ReadDir(cache); len(left) != 1 {
		t.Errorf("%d files", len(left))
	}
}

// TestPanelNames: only our own files are listed.
func TestPanelNames(t *testing.T) {
	const stem = "0123456789abcdef0123456789abcdef"
	for name, ours := range map[string]bool{stem + ".panels": true, stem + ".panel": false, stem[1:] + ".panels": false, "g" + stem[1:] + ".panels": false, stem + ".panels.tmp-1": false, stem + ".panelsx": false} {
		if panelName(name) != ours {
			t.Errorf("%s: %v", name, !ours)
		}
	}
	for name, ours := range map[string]bool{stem + ".panels.tmp-12": true, stem + ".panels.tmp-": false, stem + ".panels.tmp-1x": false, "x.tmp-1": false, stem + ".panels": false} {
		if temporaryPanelName(name) != ours {
			t.Errorf("%s: %v", name, !ours)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{stem + ".panels", "notes.txt", stem + ".panels.tmp-7"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("something else"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := PanelFiles(dir)
	if err != nil || len(list) != 1 || list[0].Complete() || filepath.Base(list[0].Name) != stem+".panels.tmp-7" {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := PanelFiles(filepath.Join(dir, "none")); err != nil || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}
