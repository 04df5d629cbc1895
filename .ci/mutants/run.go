package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A verdict of the tests on a fault.
type verdict struct {
	Lives, Broken bool   // Broken: it does not compile
	Test          string `json:",omitempty"` // the first test that failed; empty when none has a name (a hang, a crash)
	How           string `json:",omitempty"` // of what has no name
	Seconds       float64
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

// A runner compiles the tests of a package with a fault in it and runs them.
type runner struct {
	dir   string
	clean map[string]time.Duration // by arguments: how long tests take without a fault
}

func newRunner() (*runner, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	return &runner{dir: dir, clean: map[string]time.Duration{}}, err
}

func (r *runner) close() { os.RemoveAll(r.dir) }

// try runs the tests of file's package with other content in file: first those named first, then the short ones, then
// all, unless short. The first failure ends it.
func (r *runner) try(file string, content []byte, race, short bool, first string) (verdict, error) {
	start := time.Now()
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
	faulty, err := r.build(pkg, race, "-overlay", overlay)
	if err != nil {
		return verdict{Broken: true, How: err.Error()}, nil
	}
	if first != "" {
		v := r.run(faulty, pkg, race, 2*time.Minute, "-test.run", "^("+first+")$")
		if !v.Lives {
			v.Seconds = time.Since(start).Seconds()
			return v, nil
		}
	}
	sets := [][]string{{"-test.short"}, {}}
	switch {
	case race:
		// As the stage of that name: sync.Pool drops a part of what it is given then.
		sets = [][]string{{"-test.short", "-test.skip", "Alloc"}}
	case short:
		sets = sets[:1]
	}
	var v verdict
	for _, args := range sets {
		limit, err := r.without(pkg, race, args)
		if err != nil {
			return verdict{}, err
		}
		if v = r.run(faulty, pkg, race, limit, args...); !v.Lives {
			break
		}
	}
	v.Seconds = time.Since(start).Seconds()
	return v, nil
}

// without is how long tests may take: a multiple of what they take without a fault, which must pass.
func (r *runner) without(pkg string, race bool, args []string) (time.Duration, error) {
	key := fmt.Sprint(pkg, race, args)
	if _, ok := r.clean[key]; !ok {
		binary, err := r.build(pkg, race)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if v := r.run(binary, pkg, race, 20*time.Minute, args...); !v.Lives {
			return 0, fmt.Errorf("%s: the tests fail without a fault: %v", pkg, v)
		}
		r.clean[key] = time.Since(start)
	}
	return 4*r.clean[key] + 30*time.Second, nil
}

func (r *runner) build(pkg string, race bool, args ...string) (string, error) {
	binary := filepath.Join(r.dir, fmt.Sprintf("%d.test", len(args)))
	args = append([]string{"test", "-c", "-vet=off", "-o", binary}, args...)
	if race {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "./"+pkg)...)
	if race {
		build.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	out, err := build.CombinedOutput()
	if err != nil {
		return "", errors.New(strings.TrimSpace(string(out)))
	}
	return binary, nil
}

// run runs a binary of tests where its package is. A fault may ask for all memory: 24 GiB of addresses are enough for
// the tests, but not under the race detector, which reserves far more.
func (r *runner) run(binary, pkg string, race bool, limit time.Duration, args ...string) verdict {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	script := `ulimit -v 25165824; exec "$0" "$@"`
	if race {
		script = `exec "$0" "$@"`
	}
	test := exec.CommandContext(ctx, "sh", append([]string{"-c", script, binary, "-test.failfast", "-test.v"}, args...)...)
	test.Dir = pkg
	// With the processes that a test has started.
	test.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	test.Cancel = func() error { return syscall.Kill(-test.Process.Pid, syscall.SIGKILL) }
	test.WaitDelay = time.Second
	out, err := test.CombinedOutput()
	switch {
	case err == nil:
		return verdict{Lives: true}
	case ctx.Err() != nil:
		return verdict{How: fmt.Sprintf("it hangs in %s, %.0f s", running(string(out)), limit.Seconds())}
	}
	return verdict{Test: failed(string(out)), How: strings.TrimSpace(string(out[max(0, len(out)-200):]))}
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
