package main

import (
	"go/token"
	"slices"
	"strings"
	"testing"
)

// Each kind of fault in a few lines, and those that do not compile.
func TestOperatorsWriteTheFaultsOfEachKind(t *testing.T) {
	const text = `package p

type mutex struct{}

func (mutex) Lock()   {}
func (mutex) Unlock() {}

type box struct {
	mu     mutex
	a, b   int
	name   string
	change chan int
}

const most = 4

func fill(b *box, from, to int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if from < to && !full(b) {
		b.a = min(b.a, to-1)
	}
	if err := check(b.a, b.b); err != nil {
		return err
	}
	for from = range to {
		if b.name == "" {
			continue
		}
		b.change <- b.a + 2
	}
	*b = box{a: from, b: to}
	close(b.change)
	fill(b, 0, most)
	return nil
}

func full(b *box) bool      { return b.b > 2 }
func check(a, b int) error { return nil }
`
	c := &code{fset: token.NewFileSet()}
	if err := c.add("p", map[string][]byte{"p.go": []byte(text)}); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, s := range c.sites {
		content, ok := c.apply(s)
		if !ok {
			continue
		}
		_, after := s.lines(content)
		got[s.kind] = append(got[s.kind], after)
	}
	want := map[string][]string{
		"comparison": {"if from <= to && !full(b) {", `if b.name != "" {`, "func full(b *box) bool      { return b.b >= 2 }"},
		"border": {"const most = 5", "b.a = max(b.a, to-1)", "b.a = min(b.a, to)", "b.change <- b.a + 3",
			"func full(b *box) bool      { return b.b > 3 }"},
		"condition": {"if from < to {", "if !full(b) {", "if from < to && full(b) {"},
		"dropped":   {"", "", ""},
		"guard":     {`if false && (b.name == "") {`},
		"error":     {"if err := check(b.a, b.b); false && (err != nil) {"},
		"field": {"b.b = min(b.a, to-1)", "b.a = min(b.b, to-1)", "if err := check(b.b, b.b); err != nil {",
			"if err := check(b.a, b.a); err != nil {", "if err := check(b.b, b.a); err != nil {", "b.change <- b.b + 2",
			"*b = box{a: to, b: from}", "fill(b, most, 0)", "func full(b *box) bool      { return b.a > 2 }"},
		"lock": {""},
		"wake": {"", ""},
	}
	for _, kind := range kinds {
		slices.Sort(got[kind])
		slices.Sort(want[kind])
		if !slices.Equal(got[kind], want[kind]) {
			t.Errorf("%s:\n%s\nwanted\n%s", kind, strings.Join(got[kind], "\n"), strings.Join(want[kind], "\n"))
		}
	}
}

// The same seed draws the same faults, whichever of them compile, and the kinds take turns.
func TestDrawRepeats(t *testing.T) {
	var sites []site
	for i, k := range []string{"wake", "border", "wake", "border", "field", "border"} {
		sites = append(sites, site{kind: k, edits: []edit{{from: i}}})
	}
	first := slices.Collect(draw(sites, 3, ""))
	order := func(sites []site) (list []string) {
		for _, s := range sites {
			list = append(list, s.kind)
		}
		return list
	}
	if got := order(first); !slices.Equal(got, []string{"border", "field", "wake", "border", "wake", "border"}) {
		t.Error("order", got)
	}
	for i, s := range slices.Collect(draw(sites, 3, "")) {
		if s.edits[0] != first[i].edits[0] {
			t.Error("another order for the same seed")
		}
	}
	if got := order(slices.Collect(draw(sites, 3, "wake"))); !slices.Equal(got, []string{"wake", "wake"}) {
		t.Error("of one kind", got)
	}
}

// The verdict names the test that failed, or the one that was running when the process ended.
func TestFailedNamesTheTest(t *testing.T) {
	for out, want := range map[string]string{
		"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x\n--- FAIL: TestB (0.10s)\n    --- " +
			"FAIL: TestB/x (0.10s)\n": "TestB",
		"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestC\n=== RUN   TestC/y\npanic: boom\n": "TestC",
		"fatal error: all goroutines are asleep":                                                      "",
	} {
		if got := failed(out); got != want {
			t.Errorf("%q: %q, not %q", out, got, want)
		}
	}
}
