package testkit

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers are the public packages from the ground up, each with those below it: a package imports those of lower layers
// alone (CONTRIBUTING.md, "Packages").
var layers = [][]string{
	{"asm", "gguf", "bpe", "grammar", "hub"},
	{"tensor", "chat", "imatrix"},
	{"engine", "convert"},
	{"speculative"},
	{"."}, // package spec
	{"serve", "spectest", "testdata"},
	{"cmd"},
}

// forTests are packages that no other files than tests import.
var forTests = []string{"internal/testkit", "internal/randommodel"}

const module = "github.com/specgo/spec"

// layer is that of a package of the module; -1: it has none.
func layer(pkg string) int {
	top, _, _ := strings.Cut(pkg, "/")
	return slices.IndexFunc(layers, func(list []string) bool { return slices.Contains(list, top) })
}

// Imports go one way, also by way of internal packages.
func TestImportsGoOneWay(t *testing.T) {
	root, imports := checkout(t), map[string][]string{}
	eachGoFile(t, root, func(name string) {
		if strings.HasSuffix(name, "_test.go") || ownModule(name) {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		pkg := path.Dir(name)
		for _, x := range file.Imports {
			to, err := strconv.Unquote(x.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if to == module {
				imports[pkg] = append(imports[pkg], ".")
			} else if rest, ok := strings.CutPrefix(to, module+"/"); ok {
				imports[pkg] = append(imports[pkg], rest)
			}
		}
	})
	found := 0
	for from := range imports {
		of := layer(from)
		if of < 0 {
			continue
		}
		seen := map[string]bool{}
		var look func(pkg string)
		look = func(pkg string) {
			for _, to := range imports[pkg] {
				if seen[to] {
					continue
				}
				seen[to] = true
				top, _, _ := strings.Cut(from, "/")
				switch below := layer(to); {
				case slices.Contains(forTests, to):
					t.Errorf("%s imports %s, which is for tests", from, to)
				case below < 0:
					look(to)
				case to == top || strings.HasPrefix(to, top+"/"): // of one family
				case below >= of:
					t.Errorf("%s imports %s, by way of %s, and stands below it or beside it", from, to, pkg)
				default:
					found++
				}
			}
		}
		look(from)
	}
	if found < 50 {
		t.Errorf("%d imports", found)
	}
}

// ownModule reports whether a file is of a nested module, of a generator, or of what trains the embedded models.
func ownModule(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return top == "lab" || top == "cluster" || strings.HasPrefix(name, "testdata/train/") ||
		strings.Contains("/"+name, "/_")
}

// loud are the functions and variables by which a program ends, prints, reads its environment or takes over signals.
var loud = map[string][]string{
	"os":     {"Exit", "Stdin", "Stdout", "Stderr", "Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv"},
	"fmt":    {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"log":    {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "Default"},
	"signal": {"Notify", "NotifyContext", "Ignore", "Reset"},
	"slog":   {"Default", "Info", "Warn", "Error", "Debug", "SetDefault"},
}

// mayBeLoud are files of libraries that do so all the same.
var mayBeLoud = map[string]string{
	"spectest/run.go": "tests are told by the environment to write golden files",
}

// Libraries do not exit, print, read the environment or take signals: that is for commands.
func TestLibrariesAreQuiet(t *testing.T) {
	root, found := checkout(t), 0
	eachGoFile(t, root, func(name string) {
		if strings.HasSuffix(name, "_test.go") || ownModule(name) || strings.HasPrefix(name, "cmd/") ||
			strings.HasPrefix(name, "internal/hello/") || strings.HasPrefix(name, "internal/testkit/") {
			return
		}
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		found++
		if mayBeLoud[name] != "" || !mayCall(source) {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && slices.Contains(loud[x.Name], s.Sel.Name) {
					t.Errorf("%s: %s.%s", files.Position(s.Pos()), x.Name, s.Sel.Name)
				}
			}
			return true
		})
	})
	if found < 300 {
		t.Errorf("%d files", found)
	}
	for name := range mayBeLoud {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}

// mayCall reports whether a source has the words of a loud function, in code or in comments.
func mayCall(source []byte) bool {
	for pkg, names := range loud {
		for _, name := range names {
			if bytes.Contains(source, []byte(pkg+"."+name)) {
				return true
			}
		}
	}
	return false
}
