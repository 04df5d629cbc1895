package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"
)

// commit may be set by the linker, for machines without git.
var commit string

// measured are the packages whose last commit the results name: a change elsewhere, or of their tests, does not
// change a figure.
var measured = []string{":/asm", ":/tensor", ":/engine", ":/speculative", ":(top,exclude)*_test.go"}

// thisMachine describes the commit and the machine. machine is its name for people, "" for the CPU's.
func thisMachine(machine string) (h header, err error) {
	h = header{Schema: schema, CPU: cpu(), Cores: cpuid.CPU.PhysicalCores, System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Machine: machine,
		Date: time.Now().UTC().Format("2006-01-02")}
	if h.Machine == "" {
		h.Machine = h.CPU
	}
	h.Commit, err = thisCommit()
	return h, err
}

func cpu() string {
	c := cpuid.CPU
	name := strings.TrimSpace(c.BrandName)
	if name == "" {
		return runtime.GOARCH
	}
	return fmt.Sprintf("%s (family %d, model %d)", name, c.Family, c.Model)
}

// thisCommit is the last commit that touches the measured packages: the linker's, or git's, or else the one that the
// go command noted. A "+" says that there are changes on top.
func thisCommit() (string, error) {
	if commit != "" {
		return commit, nil
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append(append(args, "--"), measured...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if c, err := git("log", "-1", "--format=%h"); err == nil && c != "" {
		if changes, err := git("status", "--porcelain"); err != nil || changes != "" {
			c += "+"
		}
		return c, nil
	}
	c, changed := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				c = s.Value[:min(7, len(s.Value))]
			case "vcs.modified":
				if s.Value == "true" {
					changed = "+"
				}
			}
		}
	}
	if c == "" {
		return "", fmt.Errorf("which commit this is is unknown: run it in the repository, or set main.commit when building")
	}
	return c + changed, nil
}

// fileName makes a name of letters, digits and dashes.
func fileName(s string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	return strings.Trim(name, "-")
}
