package panels

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/internal/filelock"
	"github.com/specgo/spec/internal/testkit"
)

// A flipped bit anywhere in a panel file never gives another matrix: the file is read as it was written, or it is found
// damaged, by name, deleted, and written again when the model is opened next. Bits between the matrices mean nothing.
func TestEveryFlippedBitIsFoundOrMeansNothing(t *testing.T) {
	m := newModel(t)
	name := filepath.Join(m.Dir, m.Identity.name)
	m.open(t, 0).Close()
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	bits := 10
	switch {
	case testkit.IsLong(t):
		bits = 200
	case testing.Short():
		bits = 4
	}
	for range bits {
		damaged := slices.Clone(whole)
		at := random.IntN(len(damaged))
		damaged[at] ^= 1 << random.IntN(8)
		if err := os.WriteFile(name, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s := m.open(t, m.Layout.Least(used)) // what is kept in memory is read here: written again if it is damaged
		var err error
		for pass := 0; err == nil && pass < 12; pass++ { // every expert is used
			err = m.use(new(Held), m.groups(random))
		}
		s.Close()
		switch {
		case errors.Is(err, ErrDamaged) && strings.Contains(err.Error(), name) && !Exists(m.Dir, m.Identity):
			found++
		case err != nil:
			t.Errorf("byte %d: %v", at, err)
		}
		s = m.open(t, m.Layout.Least(used))
		for range 12 {
			if err := m.use(new(Held), m.groups(random)); err != nil {
				t.Errorf("byte %d, opened again: %v", at, err)
			}
		}
		s.Close()
	}
	if found < max(1, bits/10) {
		t.Errorf("%d of %d bits were found when they were read", found, bits)
	}
}

// TestLongEveryFlippedBitIsFoundOrMeansNothing: more bits.
func TestLongEveryFlippedBitIsFoundOrMeansNothing(t *testing.T) {
	testkit.Long(t)
	TestEveryFlippedBitIsFoundOrMeansNothing(t)
}

// A file that has taken the place of a damaged one is not deleted with it.
func TestAnotherFileIsNotDiscarded(t *testing.T) {
	dir := t.TempDir()
	name, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, n := range []string{name, other} {
		if err := os.WriteFile(n, []byte(n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	f := packedFile{name: name, info: info}
	if err := os.Rename(other, name); err != nil {
		t.Fatal(err)
	}
	f.discard()
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
	if f.info, err = os.Stat(name); err != nil {
		t.Fatal(err)
	}
	f.discard()
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

// What a killed run has left is removed by the next run that writes; what is being written, and other files, are not.
func TestTheNextRunRemovesWhatAKilledOneLeft(t *testing.T) {
	m := newModel(t)
	const stem = "0123456789abcdef0123456789abcdef" + ext + temporaryExt
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{stem + "1", stem + "2", "notes.txt", stem[1:] + "3"} {
		path := filepath.Join(m.Dir, name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	writing, err := os.OpenFile(filepath.Join(m.Dir, stem+"2"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writing.Close()
	if _, err := filelock.Lock(writing); err != nil {
		t.Fatal(err)
	}
	lately := time.Now()
	if err := os.Chtimes(writing.Name(), lately, lately); err != nil { // where files cannot be locked, its age tells
		t.Fatal(err)
	}
	list, err := Files(m.Dir)
	if err != nil || len(list) != 2 || list[0].BeingWritten() || !list[1].BeingWritten() {
		t.Errorf("%+v, %v", list, err)
	}
	m.open(t, 0).Close()
	var left []string
	entries, _ := os.ReadDir(m.Dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{stem + "2", stem[1:] + "3", "notes.txt", m.Identity.name}
	slices.Sort(want)
	slices.Sort(left)
	if !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}

// Where writing is refused, nothing is written, and the refusal is the error.
func TestAnnounceRefuses(t *testing.T) {
	m := newModel(t)
	o := m.Options
	refusal := errors.New("not without being asked")
	o.Residency, o.Announce = m.Layout.Whole(), func(_ string, bytes int64) error {
		if bytes <= 0 {
			t.Errorf("%d bytes", bytes)
		}
		return refusal
	}
	if _, err := Open(context.Background(), m.rt, o); !errors.Is(err, refusal) {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(m.Dir); len(entries) != 0 {
		t.Errorf("%v", entries)
	}
}

// FuzzPanelFile: a file that is opened as a model's is, up to bytes that nobody reads, the one that was written.
func FuzzPanelFile(f *testing.F) {
	m := newModel(f)
	m.open(f, 0).Close()
	name := filepath.Join(m.Dir, m.Identity.name)
	whole, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	header := int(m.Layout.header)
	for _, at := range []int{0, 16, 20, 23, 24, 40, 70, header - 200, header - 1, header} {
		f.Add(at, []byte{1}, 0)
	}
	f.Add(0, []byte(magic), -4096)
	f.Fuzz(func(t *testing.T, at int, change []byte, length int) {
		b := slices.Clone(whole)
		at = int(uint(at) % uint(header+1))
		copy(b[at:], change)
		if length < 0 {
			b = b[:max(0, len(b)+length%len(b))]
		}
		path := filepath.Join(t.TempDir(), "x.panels")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := openFile(path, m.Identity, m.Layout, true)
		if err != nil {
			return
		}
		file.file.Close()
		if !bytes.Equal(b[:header], whole[:header]) || len(b) != len(whole) {
			t.Fatalf("a changed header at byte %d was taken", at)
		}
	})
}
