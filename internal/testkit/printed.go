package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Printed checks that a part of a document is what the code says, and writes it with SPEC_UPDATE=1. The document is
// named from the root of the project; the part stands between two comments, the first of which tells what writes it.
func Printed(t *testing.T, document, part, want string) {
	t.Helper()
	root := checkout(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Rel(root, here)
	if err != nil {
		t.Fatal(err)
	}
	writer := fmt.Sprintf("SPEC_UPDATE=1 go test ./%s -run %s", filepath.ToSlash(folder),
		strings.TrimPrefix(t.Name(), "Test"))
	file := filepath.Join(root, filepath.FromSlash(document))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	printed, ok := replacePart(string(text), fmt.Sprintf("<!-- %s: written by %s -->\n", part, writer),
		fmt.Sprintf("<!-- end of %s -->", part), want)
	switch {
	case !ok:
		t.Fatalf("%s has no comments %q, written by %s", document, part, writer)
	case os.Getenv("SPEC_UPDATE") != "":
		if err := os.WriteFile(file, []byte(printed), 0o644); err != nil {
			t.Fatal(err)
		}
	case printed != string(text):
		t.Errorf("%s: %s are not what the code says; %s writes them\n%s", document, part, writer, want)
	}
}

// replacePart puts a text between two marks; it reports whether both are there, in their order.
func replacePart(text, begin, end, part string) (string, bool) {
	before, rest, ok1 := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	return before + begin + part + end + after, ok1 && ok2
}
