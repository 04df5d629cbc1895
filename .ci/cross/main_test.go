package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What compiles here and not elsewhere is found, in tests too; what the target leaves out is not looked at.
func TestCrossFindsWhatOtherTargetsRefuse(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module example.com/p\n\ngo 1.26\n",
		"a.go":         "package p\n\nimport \"strings\"\n\nfunc Half(x int) int { return x >> 32 }\n\nvar Up = strings.ToUpper\n",
		"b.go":         "package p\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Same[T any](x T) T { return x }\n",
		"b_linux.go":   "package p\n\nfunc f() {}\n",
		"b_darwin.go":  "package p\n\nfunc f() { _ = big }\n",
		"a_windows.go": "package p\n\nvar n string = 1\n",
		"a_test.go":    "package p\n\nvar big int = 1 << 40\n",
		"b_test.go":    "package p_test\n\nimport \"example.com/p\"\n\nvar _ = p.Half(1)\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := newChecker()
	for target, want := range map[string][]string{
		"linux/amd64":   nil,
		"linux/arm":     {"a.go:5:33: a shift of int by 32 bits", "a_test.go:3:15: "},
		"windows/amd64": {"a_windows.go:3:16: "},
		"darwin/arm64":  {"b_darwin.go:3:16: "}, // which a test alone declares
	} {
		packages, err := c.check(dir, target, []string{"./..."})
		if want == nil {
			if err != nil || packages != 3 { // with tests inside and outside
				t.Errorf("%s: %d packages, %v", target, packages, err)
			}
			continue
		}
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: no %q in %v", target, text, err)
			}
		}
	}
}
