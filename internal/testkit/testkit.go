// Package testkit is what the tests of several packages share: the files beside the checkout, which tests are long, and
// comparisons.
package testkit

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// Shared is the path of a file or folder of ../shared, which lies beside the checkout or where SPEC_SHARED says:
// models, goldens and texts that are not in the repository. Where that folder is not, a test that asks for it is
// skipped; one that asks for what the folder does not have fails.
func Shared(t testing.TB, name ...string) string {
	t.Helper()
	root := os.Getenv("SPEC_SHARED")
	if root == "" {
		root = filepath.Join(checkout(t), "..", "shared")
	}
	if _, err := os.Stat(root); err != nil {
		t.Skip("needs ../shared/" + strings.Join(name, "/") + " beside the checkout")
	}
	path := filepath.Join(append([]string{root}, name...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatal("../shared is here, and has not what the test needs: ", err)
	}
	return path
}

// checkout is the root of the project: tests run in the folder of their package.
func checkout(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/specgo/spec\n") {
			return dir
		}
		above := filepath.Dir(dir)
		if above == dir {
			t.Fatal("not inside the checkout")
		}
		dir = above
	}
}

// Long skips a test that is not part of the quick set: it runs with SPEC_LONG=1, in the stage "long" of .ci/run. Such a
// test is called TestLong…, by which the stage finds it, and its comment says what it proves beyond the quick ones.
func Long(t testing.TB) {
	t.Helper()
	if !IsLong(t) {
		t.Fatal("the name of a long test begins with TestLong")
	}
	if os.Getenv("SPEC_LONG") == "" {
		t.Skip("long: SPEC_LONG=1 runs it")
	}
}

// IsLong says whether t belongs to a long test. One that is a quick test with more cases calls that one, which asks
// here how many it is to try.
func IsLong(t testing.TB) bool { return strings.HasPrefix(t.Name(), "TestLong") }

// Main is what a TestMain calls whose package's tests make models, vocabularies or texts by the hundred: it collects
// garbage a quarter as often, unless GOGC says how often, and exits. With the usual 100, speculative took 74 and 76 s
// of processors, with 400 69 and 71 s, engine 56 and 53 s; serve the same (two cores of a Zen 5, nothing beside it).
func Main(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}

// Allocs is how often f allocates: the least of three of [testing.AllocsPerRun], which counts what the whole process
// allocates, as for the collection of what earlier tests left.
func Allocs(runs int, f func()) float64 {
	return min(testing.AllocsPerRun(runs, f), testing.AllocsPerRun(runs, f), testing.AllocsPerRun(runs, f))
}

// SameBits compares numbers bit for bit.
func SameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, expected %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: number %d of %d is %v, expected %v", what, i, len(got), got[i], want[i])
		}
	}
}

// AtOnce calls each function n times in a goroutine of its own, all at once. Under the race detector it shows what
// they share without a lock.
func AtOnce(n int, f ...func()) {
	var begin, end sync.WaitGroup
	begin.Add(1)
	for _, f := range f {
		end.Go(func() {
			begin.Wait()
			for range n {
				f()
			}
		})
	}
	begin.Done()
	end.Wait()
}
