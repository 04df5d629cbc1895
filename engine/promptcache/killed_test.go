package promptcache

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// The test binary writes to a folder as a process of its own, until it is killed: TestWritesUntilItIsKilled with the
// folder and, if it is to stay in the middle of a write, the number of that write.
const (
	writerFolder = "SPEC_TEST_CACHE_FOLDER"
	writerStops  = "SPEC_TEST_CACHE_STOPS"
	midWrite     = "in the middle of a write"
	writtenTexts = 3 // that a writer writes again and again
)

// killedText is text i of a writer.
func killedText(m *engine.Model, i int) []int32 {
	return randommodel.Tokens(80+40*i, m.Config().Vocab, uint64(i%2)) // two begin alike
}

var killedLineage = Lineage{Model: "m", Before: -1}

// stays is a file of a writer that stays in the middle of a write: of that one, of all files, before which so many go.
type stays struct {
	io.WriteCloser
	before *int
}

func (s stays) Write(b []byte) (int, error) {
	if *s.before--; *s.before >= 0 {
		return s.WriteCloser.Write(b)
	}
	if _, err := s.WriteCloser.Write(b[:len(b)/2]); err != nil {
		return 0, err
	}
	fmt.Println(midWrite)
	time.Sleep(time.Hour)
	return 0, errors.New("nobody has killed the writer")
}

func TestWritesUntilItIsKilled(t *testing.T) {
	dir := os.Getenv(writerFolder)
	if dir == "" {
		t.Skip("this is the process that others kill")
	}
	folder, err := NewFolder(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if before, err := strconv.Atoi(os.Getenv(writerStops)); err == nil {
		folder.create = func(dir string) (io.WriteCloser, string, error) {
			f, name, err := createFile(dir)
			return stays{f, &before}, name, err
		}
	}
	m := llama(t)
	var texts []*engine.Session
	for i := range writtenTexts {
		texts = append(texts, computed(t, m, engine.SessionOptions{}, killedText(m, i)))
	}
	for {
		for _, s := range texts {
			save(t, folder, killedLineage, s)
		}
		fmt.Println("written")
		list, err := folder.list()
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range list { // the other process may need them, or delete them too
			if i%2 == 0 {
				os.Remove(e.path)
			}
		}
	}
}

// writer starts such a process. said has its lines.
func writer(t *testing.T, dir, stops string) (cmd *exec.Cmd, said *bufio.Scanner) {
	t.Helper()
	if runtime.GOOS == "wasip1" || runtime.GOOS == "js" || runtime.GOOS == "android" {
		t.Skip("no processes here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self, "-test.run", "^TestWritesUntilItIsKilled$")
	cmd.Env = append(os.Environ(), writerFolder+"="+dir, writerStops+"="+stops)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	switch err := cmd.Start(); {
	case errors.Is(err, syscall.ENOEXEC):
		t.Skip("this emulator cannot start processes of its own kind")
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

// kills starts two writers on a folder, of which the first stays in the middle of a write if stops is a number, kills
// them when the first has said so and the second has written its texts so often, and says whether they got there.
func kills(t *testing.T, dir, stops string, often int) bool {
	t.Helper()
	a, saidA := writer(t, dir, stops)
	b, saidB := writer(t, dir, "")
	for range often {
		saidB.Scan()
	}
	for stops != "" && saidA.Scan() && saidA.Text() != midWrite {
	}
	if err := errors.Join(a.Process.Kill(), b.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	return (stops == "" || saidA.Text() == midWrite) && saidB.Text() != ""
}

// afterKills compares what is restored from a folder with what is computed, looks at all of its entries, and writes
// what is missing.
func afterKills(t *testing.T, what, dir string, m *engine.Model, entries bool) {
	t.Helper()
	folder, err := NewFolder(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	list, err := folder.list()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		var key Key
		name := strings.TrimSuffix(filepath.Base(e.path), entryExt)
		if _, err := hex.Decode(key[:], []byte(name)); err != nil {
			t.Errorf("%s: an entry called %s", what, name)
		} else if _, err := folder.Get(t.Context(), key); entries && err != nil {
			t.Errorf("%s: half an entry has the name of one: %v", what, err)
		}
	}
	for i := range writtenTexts {
		text := killedText(m, i)
		goesOn(t, what, folder, killedLineage, m, text)
		save(t, folder, killedLineage, computed(t, m, engine.SessionOptions{}, text))
		if n := goesOn(t, what+", written again", folder, killedLineage, m, text); n != len(text) {
			t.Errorf("%s: %d tokens of %d are restored of what was written again", what, n, len(text))
		}
	}
}

// Two processes write to one folder and are killed (signal 9), one of them in the middle of a file: every entry that is
// there is whole, and what is restored is right, bit for bit.
func TestKilledWritersLeaveWholeEntries(t *testing.T) {
	stops := []int{3} // bytes of the second entry
	if testkit.IsLong(t) {
		stops = nil
		for i := range 24 { // heads and bytes, at the end of the first text and in the others
			stops = append(stops, i)
		}
	}
	m := llama(t)
	for _, n := range stops {
		dir := t.TempDir()
		if !kills(t, dir, fmt.Sprint(n), 1) {
			t.Fatalf("write %d: the writers have ended", n)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*", unfinished+"*"))
		if err != nil || len(left) == 0 {
			t.Errorf("write %d: the killed writer has left no half file: %v", n, err)
		}
		afterKills(t, fmt.Sprintf("killed in write %d", n), dir, m, true)
	}
}

// Beyond TestKilledWritersLeaveWholeEntries: each write of all entries, and two writers of one folder that are killed
// at any time, again and again, between which files are cut or have a bit flipped.
func TestLongKilledWritersLeaveWholeEntries(t *testing.T) {
	testkit.Long(t)
	TestKilledWritersLeaveWholeEntries(t)
	m, dir := llama(t), t.TempDir()
	rng := rand.New(rand.NewPCG(5, 5))
	damaged := 0
	for i := range 30 {
		what := fmt.Sprintf("round %d", i)
		if !kills(t, dir, "", 1+rng.IntN(3)) {
			t.Fatalf("%s: the writers have ended", what)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*", "*"+entryExt))
		if err != nil {
			t.Fatal(err)
		}
		for range min(3, len(files)*(i%3)) {
			name := files[rng.IntN(len(files))]
			data, err := os.ReadFile(name)
			if err != nil || len(data) == 0 {
				continue
			}
			if at := rng.IntN(len(data)); rng.IntN(3) == 0 {
				data = data[:at]
			} else {
				data[at] ^= 1 << rng.IntN(8)
			}
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
			damaged++
		}
		afterKills(t, what, dir, m, i%3 == 0)
	}
	if damaged == 0 {
		t.Error("no file was damaged")
	}
}
