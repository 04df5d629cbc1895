package testkit

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostFields is how many fields a struct may have: a larger one is several things.
const mostFields = 24

// largeStructs are those that may have more, by file and name, each with the reason.
var largeStructs = map[string]string{
	"request.go Request":                 "options of a request",
	"engine/sampling/options.go Options": "options of the choice of a token",
	"serve/options.go Options":           "options of a server",
}

// No struct but a set of options has more than 24 fields; embedded structs count as one.
func TestStructsAreSmall(t *testing.T) {
	root, files, found := checkout(t), token.NewFileSet(), map[string]bool{}
	eachGoFile(t, root, func(name string) {
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(source, []byte("struct {")) {
			return
		}
		file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			x, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := x.Type.(*ast.StructType); ok {
				where := name + " " + x.Name.Name
				n := s.Fields.NumFields()
				if n > mostFields && largeStructs[where] == "" {
					t.Errorf("%s: %d fields, more than %d", where, n, mostFields)
				}
				found[where] = n > mostFields
			}
			return true
		})
	})
	for where := range largeStructs {
		if !found[where] {
			t.Errorf("%s: there is no such struct, or it is small", where)
		}
	}
}

// eachGoFile calls f with the path of every Go file below the checkout, with slashes.
func eachGoFile(t *testing.T, root string, f func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || path != root && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err == nil {
			f(filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
