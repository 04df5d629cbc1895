package panels

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A file that is read once, when a model that fits is loaded, is read from the system's cache if it is there, and
// closed. What passes read is not, for it would take the memory that the model does not get.
func TestWhatIsReadOnceIsReadFromTheCache(t *testing.T) {
	m := newModel(t)
	b := alignedBytes(4096)
	for _, budget := range []int64{m.Layout.Least(used), 0} {
		s := m.open(t, budget)
		if _, err := s.file.file.ReadAt(b, 0); errors.Is(err, os.ErrClosed) != (budget == 0) {
			t.Errorf("budget %d: %v", budget, err)
		}
	}
	name := filepath.Join(m.Dir, m.Identity.name)
	for _, once := range []bool{true, false} {
		opened, err := openFile(name, m.Identity, m.Layout, once)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.file.Close()
		file, plain := opened.file.(*os.File)
		direct := !plain // it forgets its pages
		if plain {
			flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
			if err != nil {
				t.Fatal(err)
			}
			direct = flags&unix.O_DIRECT != 0
		}
		if direct == once {
			t.Errorf("once %v: read past the cache is %v", once, direct)
		}
	}

	// Not there it is read past the cache, the same bytes, and through it once the disk is found to be slow.
	open := func() (f *onceFile) {
		plain, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Fadvise(int(plain.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
		opened := openOnce(plain, m.Layout.size)
		t.Cleanup(func() { opened.Close() })
		f, _ = opened.(*onceFile)
		return f
	}
	f := open()
	if f == nil {
		t.Skip("this file system keeps the file in memory, or has no direct reads")
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b = alignedBytes(len(want))
	for _, slow := range []bool{false, true} {
		if f = open(); f == nil {
			t.Fatal("it came back into the cache")
		}
		f.slow.Store(slow)
		if n, err := f.ReadAt(b, 0); n != len(b) || err != nil || !bytes.Equal(b, want) {
			t.Errorf("slow %v: %d bytes of %d, %v", slow, n, len(b), err)
		}
		if inCache(f.cached, int64(len(b))) != slow {
			t.Errorf("slow %v: it is in the cache otherwise", slow)
		}
	}
}

func TestSlowDisk(t *testing.T) {
	for _, c := range []struct {
		bytes int64
		took  time.Duration
		slow  bool
	}{{1, time.Hour, false}, {64 << 20, 60 * time.Millisecond, true}, {64 << 20, 30 * time.Millisecond, false},
		{1 << 30, time.Second, true}, {2 << 30, time.Second, false}} {
		if slowDisk(c.bytes, c.took) != c.slow {
			t.Errorf("%d bytes in %v", c.bytes, c.took)
		}
	}
}
