package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A verdict of the tests on a fault.
type verdict struct {
	Lives, Broken bool    // Broken: it does not compile
	Test          string  `json:",omitempty"` // the first test that failed; empty when none has a name (a hang, a crash)
	How           string  `json:",omitempty"` // of what has no name
	Seconds       float64 // of the tests, by their clock
}

func (v verdict) String() string {
	s := fmt.Sprintf(" (%.0f s)", v.Seconds)
	switch {
	case v.Lives:
		return "LIVES" + s
	case v.Broken:
		return "does not compile: port it: " + v.How
	case v.Test == "":
		return "caught: " + v.How + s
	}
	return "caught by " + v.Test + s
}

// A runner compiles the tests of a package with a fault in it and runs those that reach it.
type runner struct {
	dir   string
	reach map[string]*reach // by package and set of tests
	saved string            // the file that keeps reach, or none
}

func newRunner(saved string) (*runner, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, err
	}
	r := &runner{dir: dir, reach: map[string]*reach{}, saved: saved}
	if text, err := os.ReadFile(saved); err == nil {
		if err := json.Unmarshal(text, &r.reach); err != nil {
			return nil, fmt.Errorf("%s: %w", saved, err)
		}
	}
	return r, nil
}

func (r *runner) close() { os.RemoveAll(r.dir) }

// try runs the tests of file's package with other content in file: first those named first, then those that reach what
// differs, quick ones first. The first failure ends it. Where the package is internal to another one, whose tests are
// its tests too, those follow.
func (r *runner) try(file string, content []byte, race, short bool, first string) (verdict, error) {
	clean, err := os.ReadFile(file)
	if err != nil {
		return verdict{}, err
	}
	over := filepath.Join(r.dir, "content.go")
	if err := os.WriteFile(over, content, 0o666); err != nil {
		return verdict{}, err
	}
	where, err := filepath.Abs(file)
	if err != nil {
		return verdict{}, err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{where: over}})
	if err != nil {
		return verdict{}, err
	}
	overlay := filepath.Join(r.dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o666); err != nil {
		return verdict{}, err
	}
	pkg := filepath.Dir(file)
	v, err := r.tryIn(pkg, pkg, overlay, file, clean, content, race, short, first)
	if outside, _, internal := strings.Cut(pkg, "/internal/"); internal && err == nil && v.Lives {
		seconds := v.Seconds
		v, err = r.tryIn(outside, pkg, overlay, file, clean, content, race, short, "")
		v.Seconds += seconds
	}
	return v, err
}

// tryIn runs the tests of package pkg with an overlay that changes a file of package of.
func (r *runner) tryIn(pkg, of, overlay, file string, clean, content []byte, race, short bool, first string) (
	verdict, error) {
	// What a lock guards is seen under the race detector, which takes its time: the short tests alone.
	short = short || race
	faulty := filepath.Join(r.dir, "faulty.test")
	args := []string{"-overlay", overlay}
	if race {
		args = append(args, "-race")
	}
	if err := build(pkg, faulty, args...); errors.Is(err, errNoTests) {
		return verdict{Lives: true}, nil
	} else if err != nil {
		return verdict{Broken: true, How: err.Error()}, nil
	}
	v, err := verdict{Lives: true}, error(nil)
	if first != "" {
		if v, err = r.run(faulty, pkg, race, 5*time.Minute, "-test.run", "^("+first+")$"); err != nil {
			return verdict{}, err
		}
	}
	seconds := v.Seconds
	if v.Lives {
		reach, err := r.reached(pkg, of, short)
		if err != nil {
			return verdict{}, err
		}
		for names, expected := range reach.batches(changed(filepath.Base(file), clean, content)) {
			args := []string{"-test.run", "^(" + strings.Join(names, "|") + ")$"}
			if short {
				args = append(args, "-test.short")
			}
			if race {
				// As the stage of that name: sync.Pool drops a part of what it is given then.
				args = append(args, "-test.skip", "Alloc")
				expected *= 10
			}
			limit := 20*time.Second + time.Duration(5*expected*float64(time.Second))
			if v, err = r.run(faulty, pkg, race, limit, args...); err != nil {
				return verdict{}, err
			}
			seconds += v.Seconds
			if !v.Lives {
				break
			}
		}
	}
	v.Seconds = seconds
	return v, nil
}

// build compiles the tests of a package, without what a debugger needs.
func build(pkg, binary string, args ...string) error {
	args = append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, args...)
	build := exec.Command("go", append(args, "./"+pkg)...)
	cgo := "CGO_ENABLED=0"
	if slices.Contains(args, "-race") {
		cgo = "CGO_ENABLED=1"
	}
	build.Env = append(os.Environ(), cgo)
	os.Remove(binary) // of another package
	if out, err := build.CombinedOutput(); err != nil {
		return errors.New(strings.TrimSpace(string(out)))
	}
	if _, err := os.Stat(binary); err != nil {
		return errNoTests
	}
	return nil
}

var errNoTests = errors.New("the package has no tests")

// run runs a binary of tests where its package is, for at most limit by its clock. A fault may ask for all memory: 24
// GiB of addresses are enough for the tests, but not under the race detector, which reserves far more.
func (r *runner) run(binary, pkg string, race bool, limit time.Duration, args ...string) (verdict, error) {
	script := `ulimit -v 25165824; exec "$0" "$@"`
	if race {
		script = `exec "$0" "$@"`
	}
	// Other work on the machine is no hang: the clock is the limit.
	args = append([]string{"-c", script, binary, "-test.failfast", "-test.v"}, args...)
	test := exec.Command("sh", args...)
	test.Dir = pkg
	test.Env = append(os.Environ(), "GOCOVERDIR="+r.dir) // else a command that a test starts complains
	var out bytes.Buffer
	test.Stdout, test.Stderr = &out, &out
	// With the processes that a test has started.
	test.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	test.WaitDelay = time.Second
	if err := test.Start(); err != nil {
		return verdict{}, err
	}
	var err error
	done := make(chan struct{})
	go func() {
		err = test.Wait()
		close(done)
	}()
	c := newClock(test.Process.Pid)
	taken, hangs := c.watch(done, limit, func() { syscall.Kill(-test.Process.Pid, syscall.SIGKILL) })
	taken = max(taken, c.taken-c.cpu+test.ProcessState.UserTime()+test.ProcessState.SystemTime())
	v := verdict{Seconds: taken.Seconds()}
	switch {
	case err == nil:
		v.Lives = true
	case hangs:
		v.How = fmt.Sprintf("it hangs in %s, %.0f s", running(out.String()), limit.Seconds())
	default:
		v.Test = failed(out.String())
		v.How = strings.TrimSpace(string(out.Bytes()[max(0, out.Len()-200):]))
	}
	return v, nil
}

// failed is the first failing test in go test's output: where one panics, the one that was running.
func failed(out string) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name
		}
	}
	return running(out)
}

// running is the top-level test that was begun last and has not ended.
func running(out string) string {
	name := ""
	for line := range strings.Lines(out) {
		for _, begun := range []string{"=== RUN   ", "=== CONT  "} {
			if rest, ok := strings.CutPrefix(line, begun); ok {
				name, _, _ = strings.Cut(strings.TrimSpace(rest), "/")
			}
		}
	}
	return name
}

func trackedFiles() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "*.go").Output()
	return strings.Fields(string(out)), err
}
