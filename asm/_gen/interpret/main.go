// Command interpret runs the tests of package asm with the generated amd64 assembly interpreted, on any little-endian
// machine: every kernel of every amd64 set against its scalar twin.
//
//	go run ./interpret            # in asm/_gen
//	go run ./interpret -run X     # some tests only; then what was not executed is no failure
//
// It prints, per set, whether this machine runs it natively and how much of it was interpreted, and fails if an
// instruction of a kernel was not executed. Assembly is read from ../*_amd64.s, so what is committed is what is run.
//
// Package asm is built with an overlay: its dispatch for amd64 and everything around it is the real one; only the
// functions that assembly implements call package interp instead, and the tests' slices are watched, so that touching a
// byte beside one fails.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	_ "embed"
)

//go:embed hooks.go.txt
var hooks []byte

func main() {
	only := flag.String("run", "", "run only these tests")
	flag.Parse()
	if err := run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "interpret:", err)
		os.Exit(1)
	}
}

func run(only string) error {
	asm, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "interpret")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o := overlay{asm: asm, dir: dir, Replace: map[string]string{}}
	if err := o.build(); err != nil {
		return err
	}
	list, err := json.Marshal(o)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o644); err != nil {
		return err
	}
	// Interpreted kernels allocate, and have no tile unit that the system could refuse; nothing else is left out.
	args := []string{"test", "-overlay", file, "-count=1", "-vet=off", "-short", "-skip=Alloc|TestTiles"}
	if only != "" {
		args = append(args, "-run="+only, "-v")
	}
	test := exec.Command("go", args...) // of the folder, which prints what passes, too
	test.Dir = asm
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	test.Env = append(os.Environ(), "SPEC_INTERPRETED_PART="+only)
	return test.Run()
}

// overlay is what go test -overlay reads: files that take the place of others; an empty name deletes one.
type overlay struct {
	asm, dir string
	Replace  map[string]string
}

// put places text at a path of package asm.
func (o *overlay) put(name string, text []byte) error {
	at := filepath.Join(o.dir, strings.ReplaceAll(name, "/", "_"))
	o.Replace[filepath.Join(o.asm, name)] = at
	return os.WriteFile(at, text, 0o644)
}

func (o *overlay) delete(name string) { o.Replace[filepath.Join(o.asm, name)] = "" }

var archSuffix = regexp.MustCompile(`_(386|amd64|arm|arm64|riscv64|wasm)(_test)?\.(go|s)$`)

func (o *overlay) build() error {
	files, err := os.ReadDir(o.asm)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := f.Name()
		arch := archSuffix.FindStringSubmatch(name)
		switch {
		case strings.HasSuffix(name, ".s"):
			o.delete(name)
		case !strings.HasSuffix(name, ".go"):
		case strings.HasPrefix(name, "guard_") || arch != nil && arch[1] != "amd64":
			o.delete(name)
		default:
			if err := o.source(name, arch != nil); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	interpreter, err := filepath.Glob("interp/*.go")
	if err != nil {
		return err
	}
	for _, name := range interpreter {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := o.put(filepath.ToSlash(name), text); err != nil {
			return err
		}
	}
	return o.put("hooks_test.go", hooks)
}

// source takes a Go file over as amd64 would have it, whatever this machine is.
func (o *overlay) source(name string, amd64 bool) error {
	text, err := os.ReadFile(filepath.Join(o.asm, name))
	if err != nil {
		return err
	}
	limited := false // to an architecture
	for line := range strings.Lines(string(text)) {
		if !constraint.IsGoBuild(line) {
			continue
		}
		x, err := constraint.Parse(strings.TrimSpace(line))
		if err != nil {
			return err
		}
		used := x.Eval(func(tag string) bool {
			limited = limited || tag == "amd64" || tag == "arm64" || tag == "purego"
			return tag == "amd64" || tag == runtime.GOOS || tag == "unix" && runtime.GOOS != "windows"
		})
		if limited && !used {
			o.delete(name)
			return nil
		}
		if limited {
			text = bytes.Replace(text, []byte(line), []byte("\n"), 1)
		}
	}
	if name == "dispatch_amd64.go" {
		for _, f := range []struct{ old, native, here string }{
			{"sets() []Kernels", "nativeSets() []Kernels", "return []Kernels{Scalar(), avx2(), avxvnni(), avx512(true)}"},
			{"tileSet() (Kernels, error)", "nativeTileSet() (Kernels, error)", "return amx(true), nil"},
		} {
			renamed := bytes.Replace(text, []byte("\nfunc "+f.old+" {"), []byte("\nfunc "+f.native+" {"), 1)
			if bytes.Equal(renamed, text) {
				return errors.New("has no function " + f.old)
			}
			text = fmt.Appendf(renamed, "\nfunc %s { %s }\n", f.old, f.here)
		}
	}
	if name == "stubs_amd64.go" {
		if text, err = stubs(text); err != nil {
			return err
		}
	}
	if !amd64 && !limited {
		return nil
	}
	o.delete(name)
	return o.put("interpreted_"+strings.Replace(name, "_amd64", "", 1), text)
}

// stubs writes bodies for functions without one: the parameters as ABI0 lays them out are a struct of them, the results
// begin at a multiple of 8.
func stubs(text []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, 0)
	if err != nil {
		return nil, err
	}
	source := func(n ast.Node) string {
		return string(text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
	}
	var b bytes.Buffer
	b.WriteString("package asm\n\nimport \"unsafe\"\n")
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body != nil {
			continue
		}
		fmt.Fprintf(&b, "\nfunc %s%s {\n\tvar frame struct {\n", f.Name.Name,
			strings.TrimPrefix(source(f.Type), "func "+f.Name.Name))
		var set, get []string
		for _, p := range f.Type.Params.List {
			for _, n := range p.Names {
				fmt.Fprintf(&b, "\t\tp_%s %s\n", n.Name, source(p.Type))
				set = append(set, fmt.Sprintf("\tframe.p_%s = %s\n", n.Name, n.Name))
			}
		}
		if f.Type.Results != nil {
			b.WriteString("\t\t_ [0]uint64\n")
			for _, p := range f.Type.Results.List {
				for _, n := range p.Names {
					fmt.Fprintf(&b, "\t\tr_%s %s\n", n.Name, source(p.Type))
					get = append(get, "frame.r_"+n.Name)
				}
			}
		}
		fmt.Fprintf(&b, "\t}\n%s\tinterpreted(%q, unsafe.Pointer(&frame), unsafe.Sizeof(frame))\n\treturn %s\n}\n",
			strings.Join(set, ""), f.Name.Name, strings.Join(get, ", "))
	}
	b.WriteString("\nvar interpreted func(name string, args unsafe.Pointer, size uintptr) // set by the tests\n")
	return format.Source(b.Bytes())
}
