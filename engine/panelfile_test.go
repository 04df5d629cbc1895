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

	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/tensor"
)

// TestPanelFileKept: with enough memory a model is loaded from a panel file that is there, whole, and one is written
// only if it is asked for.
func TestPanelFileKept(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	ids := []int32{1, 2, 3, 4, 5}
	want := eval(t, newSession(t, openModel(t, rt, targetFile, Options{}), SessionOptions{}), ids, nil, All)
	cache := t.TempDir()
	m := openModel(t, rt, targetFile, Options{Cache: cache})
	if list, _ := PanelFiles(cache); len(list) != 0 || m.store != nil {
		t.Fatal("a panel file without need")
	}
	announced := ""
	m = openModel(t, rt, targetFile, Options{Cache: cache, KeepPanels: true, Announce: func(name string, n int64) error {
		announced = fmt.Sprint(name, " ", n)
		return nil
	}})
	list, err := PanelFiles(cache)
	if err != nil || len(list) != 1 || announced != fmt.Sprint(list[0].Name, " ", list[0].Bytes) ||
		!strings.Contains(list[0].Text, "go-target.q8_0.gguf") || !list[0].Complete() {
		t.Fatalf("%v, announced %s: %v", list, announced, err)
	}
	for _, o := range []Options{{Cache: cache}, {Cache: cache, Memory: 1 << 40}} {
		if m = openModel(t, rt, targetFile, o); m.store == nil || m.Memory().Streams() {
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

// Another model with the same header, size and time has a panel file of its own, as in images whose files all have one
// time.
func TestPanelFilesOfModelsAlike(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	dir, at := t.TempDir(), time.Unix(1, 0)
	file := filepath.Join(dir, "m.gguf")
	for seed := range 2 {
		shape := randommodel.Llama()
		shape.Seed = uint64(seed + 5)
		if err := errors.Join(os.WriteFile(file, shape.File(t), 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
		ids := []int32{1, 2, 3, 4, 5}
		want := eval(t, newSession(t, openModel(t, rt, file, Options{}), SessionOptions{}), ids, nil, All)
		for range 2 {
			m := openModel(t, rt, file, Options{Cache: dir, KeepPanels: true})
			sameBits(t, "from the panel file", eval(t, newSession(t, m, SessionOptions{}), ids, nil, All), want)
		}
		if list, err := PanelFiles(dir); err != nil || len(list) != seed+1 {
			t.Errorf("model %d: %v, %v", seed, list, err)
		}
	}
}

// TestPanelFileDamaged: whatever is wrong with a panel file when a model is opened, it is written again or not used.
func TestPanelFileDamaged(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	ids := []int32{1, 2, 3, 4, 5}
	want := eval(t, newSession(t, openModel(t, rt, moeFile, Options{}), SessionOptions{}), ids, nil, All)
	cache := t.TempDir()
	o := Options{Cache: cache, Memory: limits(t, moeFile, Options{})[1]}
	openModel(t, rt, moeFile, o).Close()
	list, _ := PanelFiles(cache)
	data, err := os.ReadFile(list[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(b []byte) []byte{
		"empty":         func(b []byte) []byte { return nil },
		"cut":           func(b []byte) []byte { return b[:len(b)-4096] },
		"header cut":    func(b []byte) []byte { return b[:100] },
		"longer":        func(b []byte) []byte { return append(b, make([]byte, 4096)...) },
		"magic":         func(b []byte) []byte { b[0]++; return b },
		"version":       func(b []byte) []byte { b[16]++; return b },
		"text length":   func(b []byte) []byte { b[20]++; return b },
		"text too long": func(b []byte) []byte { b[23] = 255; return b },
		"header length": func(b []byte) []byte { b[24]++; return b },
		"identity":      func(b []byte) []byte { b[40]++; return b },
		"text":          func(b []byte) []byte { b[70]++; return b },
		"checksum":      func(b []byte) []byte { b[4096-200]++; return b },
		"weights": func(b []byte) []byte {
			for i := 2 * 4096; i < len(b); i += 4096 { // of every matrix
				b[i]++
			}
			return b
		},
	} {
		for _, keep := range []bool{false, true} {
			if err := os.WriteFile(list[0].Name, damage(slices.Clone(data)), 0o600); err != nil {
				t.Fatal(err)
			}
			announced, o := 0, o
			o.Announce = func(string, int64) error { announced++; return nil }
			if !keep {
				o.Memory = 0 // everything fits: it may be left alone
			}
			m := openModel(t, rt, moeFile, o)
			sameBits(t, name, eval(t, newSession(t, m, SessionOptions{}), ids, nil, All), want)
			if again, _ := os.ReadFile(list[0].Name); keep && (announced != 1 || !slices.Equal(again, data)) {
				t.Errorf("%s: not written again: announced %d times", name, announced)
			}
			m.Close()
		}
	}
}

// TestPanelFileRefused: full disks and directories that cannot be written are errors, and nothing stays behind; a
// model that fits is loaded all the same.
func TestPanelFileRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	limit := planOf(t, targetFile, Options{}).Least
	if _, err := Open(context.Background(), rt, targetFile, Options{Memory: limit}); !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("no cache: %v", err)
	}
	if _, err := Open(context.Background(), rt, targetFile, Options{Memory: limit - 1, Cache: t.TempDir()}); !errors.Is(
		err, tensor.ErrMemory) {
		t.Errorf("too little: %v", err)
	}
	if _, err := Open(context.Background(), rt, targetFile, Options{Memory: -1}); !errors.Is(err, ErrUsage) {
		t.Errorf("negative: %v", err)
	}
	data, err := os.ReadFile(targetFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(context.Background(), rt, strings.NewReader(string(data)), int64(len(data)),
		Options{Memory: limit, Cache: t.TempDir()}); !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("no file: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(file, "cache") // not a directory, for root too
	if _, err := Open(context.Background(), rt, targetFile, Options{Memory: limit, Cache: dir}); err == nil ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("no directory: %v", err)
	}
	openModel(t, rt, targetFile, Options{Memory: 1 << 40, Cache: dir}).Close()
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
