package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A reach says which tests of a package reach which statements: a test that does not reach a fault cannot notice it.
type reach struct {
	Tests  []timed
	Blocks map[string][]block // by file
}

type timed struct {
	Name    string
	Seconds float64 // without a fault, by the clock of its process
}

// A block is statements that run together, as go tool cover finds them. Case expressions and declarations are in none.
type block struct {
	From, To place
	Tests    []int
}

type place struct{ Line, Column int }

func (p place) less(o place) bool {
	return cmp.Or(cmp.Compare(p.Line, o.Line), cmp.Compare(p.Column, o.Column)) < 0
}

// reached runs each test of a package by itself, once, and counts what it reaches of another, or of its own. All must
// pass.
func (r *runner) reached(pkg, of string, short bool) (*reach, error) {
	key, cover := pkg, []string{"-cover"}
	if of != pkg {
		key, cover = of+" by "+pkg, []string{"-cover", "-coverpkg=./" + of}
	}
	var args []string
	if short {
		key, args = key+" -short", []string{"-test.short"}
	}
	if x, ok := r.reach[key]; ok {
		return x, nil
	}
	binary, profile := filepath.Join(r.dir, "cover.test"), filepath.Join(r.dir, "profile")
	if err := build(pkg, binary, cover...); err != nil {
		return nil, err
	}
	list := exec.Command(binary, "-test.list", "^(Test|Example|Fuzz)")
	list.Dir = pkg
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: the list of its tests: %w", pkg, err)
	}
	x := &reach{Blocks: map[string][]block{}}
	for _, name := range strings.Fields(string(names)) {
		v, err := r.run(binary, pkg, false, 20*time.Minute,
			append(args, "-test.run", "^"+name+"$", "-test.coverprofile", profile)...)
		if err != nil {
			return nil, err
		}
		if !v.Lives {
			return nil, fmt.Errorf("%s: %s fails without a fault: %s", pkg, name, v.How)
		}
		x.Tests = append(x.Tests, timed{name, v.Seconds})
		text, err := os.ReadFile(profile)
		if err != nil {
			return nil, err
		}
		if err := x.add(text); err != nil {
			return nil, err
		}
	}
	r.reach[key] = x
	if r.saved == "" {
		return x, nil
	}
	text, err := json.Marshal(r.reach)
	if err != nil {
		return nil, err
	}
	return x, os.WriteFile(r.saved, text, 0o666)
}

// add reads the profile of the last test. Its lines are FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT.
func (x *reach) add(profile []byte) error {
	for line := range strings.Lines(string(profile)) {
		if strings.HasPrefix(line, "mode: ") {
			continue
		}
		var b block
		var statements, count int
		at := strings.LastIndexByte(line, ':')
		if _, err := fmt.Sscanf(line[at+1:], "%d.%d,%d.%d %d %d", &b.From.Line, &b.From.Column, &b.To.Line, &b.To.Column,
			&statements, &count); err != nil {
			return fmt.Errorf("coverage %q: %w", line, err)
		}
		file := path.Base(line[:at])
		i := slices.IndexFunc(x.Blocks[file], func(o block) bool { return o.From == b.From && o.To == b.To })
		if i < 0 {
			i = len(x.Blocks[file])
			x.Blocks[file] = append(x.Blocks[file], b)
		}
		if count > 0 {
			x.Blocks[file][i].Tests = append(x.Blocks[file][i].Tests, len(x.Tests)-1)
		}
	}
	return nil
}

// changed is where two texts of a file begin and cease to differ, as places in the first.
func changed(file string, a, b []byte) (string, place, place) {
	at := func(offset int) place {
		return place{1 + bytes.Count(a[:offset], []byte("\n")), offset - bytes.LastIndexByte(a[:offset], '\n')}
	}
	from, most := 0, min(len(a), len(b))
	for from < most && a[from] == b[from] {
		from++
	}
	same := 0
	for same < most-from && a[len(a)-1-same] == b[len(b)-1-same] {
		same++
	}
	return file, at(from), at(len(a) - same)
}

// batches are the tests that reach what lies between two places, the quickest first, and the seconds that a batch takes
// without a fault: a few seconds first, since most faults are noticed by many tests. What begins in no block is tried
// with all tests.
func (x *reach) batches(file string, from, to place) iter.Seq2[[]string, float64] {
	var tests []int
	inside := false
	for _, b := range x.Blocks[file] {
		if b.To.less(from) || to.less(b.From) {
			continue
		}
		inside = inside || !from.less(b.From)
		tests = append(tests, b.Tests...)
	}
	if !inside {
		tests = nil
		for i := range x.Tests {
			tests = append(tests, i)
		}
	}
	slices.SortFunc(tests, func(a, b int) int {
		return cmp.Or(cmp.Compare(x.Tests[a].Seconds, x.Tests[b].Seconds), cmp.Compare(a, b))
	})
	tests = slices.Compact(tests)
	return func(yield func([]string, float64) bool) {
		most := 2.0
		for len(tests) > 0 {
			var names []string
			sum := 0.0
			for len(tests) > 0 && (len(names) == 0 || sum+x.Tests[tests[0]].Seconds < most) {
				sum += x.Tests[tests[0]].Seconds
				names = append(names, x.Tests[tests[0]].Name)
				tests = tests[1:]
			}
			if !yield(names, sum) {
				return
			}
			most *= 8
		}
	}
}
