package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A fault is tried with the tests that reach what it changes, quick ones first, and with all where no block is.
func TestFaultsAreTriedWithTheTestsThatReachThem(t *testing.T) {
	x := &reach{Blocks: map[string][]block{}}
	for _, test := range []struct {
		timed
		profile string
	}{
		{timed{"Slow", 9}, "mode: set\nexample.com/p/a.go:3.10,5.4 1 1\nexample.com/p/a.go:7.2,9.3 2 1\n"},
		{timed{"Quick", 0.5}, "mode: set\nexample.com/p/a.go:3.10,5.4 1 1\nexample.com/p/a.go:7.2,9.3 2 0\n"},
		{timed{"Quickest", 0.1}, "mode: set\nexample.com/p/a.go:3.10,5.4 1 1\nexample.com/p/b.go:1.1,9.3 2 1\n"},
		{timed{"None", 0}, "mode: set\n"},
	} {
		x.Tests = append(x.Tests, test.timed)
		if err := x.add([]byte(test.profile)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct {
		file     string
		from, to place
		tests    [][]string
	}{
		{"a.go", place{3, 10}, place{3, 11}, [][]string{{"Quickest", "Quick"}, {"Slow"}}},
		{"a.go", place{8, 1}, place{8, 9}, [][]string{{"Slow"}}},
		{"a.go", place{4, 1}, place{8, 1}, [][]string{{"Quickest", "Quick"}, {"Slow"}}}, // in two blocks
		{"a.go", place{3, 9}, place{3, 12}, [][]string{{"None", "Quickest", "Quick"}, {"Slow"}}},
		{"a.go", place{6, 1}, place{6, 2}, [][]string{{"None", "Quickest", "Quick"}, {"Slow"}}},
		{"c.go", place{1, 1}, place{1, 2}, [][]string{{"None", "Quickest", "Quick"}, {"Slow"}}},
	} {
		var got [][]string
		for names := range x.batches(want.file, want.from, want.to) {
			got = append(got, names)
		}
		if !slices.EqualFunc(got, want.tests, slices.Equal) {
			t.Errorf("%s from %v to %v: %q, not %q", want.file, want.from, want.to, got, want.tests)
		}
	}
	x.Blocks["a.go"][1].Tests = nil
	for names := range x.batches("a.go", place{7, 2}, place{7, 3}) {
		t.Errorf("tests of a block that none reaches: %q", names)
	}
}

// Places count lines and bytes from one, as profiles do.
func TestChangedFindsWhereTextsDiffer(t *testing.T) {
	for _, c := range []struct {
		a, b     string
		from, to place
	}{
		{"ab\ncd\n", "ab\ncxd\n", place{2, 2}, place{2, 2}},
		{"ab\ncd\n", "ab\nd\n", place{2, 1}, place{2, 2}},
		{"ab\ncd\n", "xb\ncy\n", place{1, 1}, place{2, 3}},
		{"aaa", "aa", place{1, 3}, place{1, 4}},
	} {
		if _, from, to := changed("", []byte(c.a), []byte(c.b)); from != c.from || to != c.to {
			t.Errorf("%q, %q: from %v to %v, not from %v to %v", c.a, c.b, from, to, c.from, c.to)
		}
	}
}

// Of a package without tests there is no binary, and not that of the package before it.
func TestAPackageWithoutTestsHasNoBinary(t *testing.T) {
	t.Chdir("../..")
	binary := filepath.Join(t.TempDir(), "x.test")
	if err := os.WriteFile(binary, nil, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := build("engine/internal/vocabulary", binary); !errors.Is(err, errNoTests) {
		t.Error(err)
	}
	if _, err := os.Stat(binary); err == nil {
		t.Error("the binary of another package is there")
	}
}
