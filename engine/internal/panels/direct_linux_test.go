package panels

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that is read once, when a model that fits is loaded, is read through the system's cache, where the next load
// finds it; one that passes read is not, for it would take the memory that the model does not get.
func TestWhatIsReadOnceStaysInTheCache(t *testing.T) {
	m := newModel(t)
	for _, budget := range []int64{0, m.Layout.Least(used)} {
		file, plain := m.open(t, budget).file.file.(*os.File)
		direct := !plain // it forgets its pages
		if plain {
			flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
			if err != nil {
				t.Fatal(err)
			}
			direct = flags&unix.O_DIRECT != 0
		}
		if direct != (budget > 0) {
			t.Errorf("budget %d: read past the cache is %v", budget, direct)
		}
	}
}
