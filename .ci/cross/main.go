// Cross checks the types of all packages, tests included, for other systems and processors: what does not compile
// there, constants that do not fit a smaller int, and shifts by as many bits as a type has. Unlike a build for the same
// target it makes no code, which takes a twentieth of the time.
//
//	go run ./.ci/cross GOOS/GOARCH[/TAGS]... -- PACKAGE...
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	at := slices.Index(os.Args, "--")
	if at < 0 {
		fmt.Fprintln(os.Stderr, "usage: cross GOOS/GOARCH[/TAGS]... -- PACKAGE...")
		os.Exit(2)
	}
	c := newChecker()
	failed := false
	for _, target := range os.Args[1:at] {
		packages, err := c.check(".", target, os.Args[at+1:])
		if err != nil {
			fmt.Printf("%s:\n%v\n", target, err)
			failed = true
			continue
		}
		fmt.Printf("%s: the types of %d packages\n", target, packages)
	}
	if failed {
		os.Exit(1)
	}
}

// A checker keeps the files that targets share, and what they declare: the files without bodies of functions.
type checker struct {
	fset             *token.FileSet
	parsed, declared map[string]*ast.File
}

func newChecker() *checker {
	return &checker{token.NewFileSet(), map[string]*ast.File{}, map[string]*ast.File{}}
}

// listed is what go list says of a package. Tests make variants of packages, with names of their own.
type listed struct {
	ImportPath, Dir   string
	GoFiles           []string
	ImportMap         map[string]string // import in a file to the variant's name
	Standard, DepOnly bool
	Error             *struct{ Err string }
}

// check checks packages, and what they import, and returns how many of those named there are, variants included.
func (c *checker) check(dir, target string, packages []string) (int, error) {
	system, rest, _ := strings.Cut(target, "/")
	processor, tags, _ := strings.Cut(rest, "/")
	sizes := types.SizesFor("gc", processor)
	if sizes == nil {
		return 0, fmt.Errorf("no processor %q", processor)
	}
	args := []string{"list", "-deps", "-test", "-tags=" + tags,
		"-json=ImportPath,Dir,GoFiles,ImportMap,Standard,DepOnly,Error"}
	list := exec.Command("go", append(args, packages...)...)
	list.Dir = dir
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	own := 0
	known := map[string]*types.Package{"unsafe": types.Unsafe}
	var found []error
	// Dependencies come first.
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, err
		}
		switch {
		case p.Error != nil:
			found = append(found, errors.New(p.Error.Err))
			continue
		case p.ImportPath == "unsafe", strings.HasSuffix(p.ImportPath, ".test"):
			continue // the latter is a program that go test writes
		}
		if !p.DepOnly {
			own++
		}
		pkg, errs := c.types(&p, known, sizes)
		known[p.ImportPath] = pkg
		found = append(found, errs...)
	}
	return own, errors.Join(found...)
}

// Imports are the packages that one may import, by the names in its files.
type imports func(path string) (*types.Package, error)

func (f imports) Import(path string) (*types.Package, error) { return f(path) }

func (c *checker) types(p *listed, known map[string]*types.Package, sizes types.Sizes) (*types.Package, []error) {
	var errs []error
	var files []*ast.File
	path, variant, _ := strings.Cut(p.ImportPath, " ")
	for _, name := range p.GoFiles {
		name = filepath.Join(p.Dir, name)
		file, ok := c.parsed[name]
		if !ok {
			var err error
			if file, err = parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution); err != nil {
				errs = append(errs, err)
				continue
			}
			c.parsed[name] = file
		}
		if variant != "" && !strings.HasSuffix(name, "_test.go") { // the package itself was checked
			file = c.declarations(name, file)
		}
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{
		Sizes: sizes,
		// What the standard library declares is enough; its authors test the rest.
		IgnoreFuncBodies: p.Standard,
		Error: func(err error) {
			if e, ok := err.(types.Error); ok && e.Soft && variant != "" &&
				!strings.HasSuffix(c.fset.Position(e.Pos).Filename, "_test.go") {
				return // functions without bodies, and what only bodies use
			}
			if !p.Standard {
				errs = append(errs, err)
			}
		},
		Importer: imports(func(path string) (*types.Package, error) {
			if variant, ok := p.ImportMap[path]; ok {
				path = variant
			}
			if pkg := known[path]; pkg != nil {
				return pkg, nil
			}
			return nil, fmt.Errorf("%s is not listed", path)
		}),
	}
	pkg, _ := config.Check(path, c.fset, files, info) // errors went to config.Error
	if !p.Standard {
		for _, file := range files {
			errs = append(errs, c.shifts(file, info, sizes)...)
		}
	}
	return pkg, errs
}

// declarations is a file without the bodies of its functions.
func (c *checker) declarations(name string, file *ast.File) *ast.File {
	if c.declared[name] == nil {
		declared := *file
		declared.Decls = slices.Clone(file.Decls)
		for i, d := range declared.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				without := *f
				without.Body = nil
				declared.Decls[i] = &without
			}
		}
		c.declared[name] = &declared
	}
	return c.declared[name]
}

// shifts are those that move all bits out of a number: 1<<40 is right where int has 64 bits.
func (c *checker) shifts(file *ast.File, info *types.Info, sizes types.Sizes) (errs []error) {
	check := func(at token.Pos, x, y ast.Expr) {
		if info.Types[x].Value != nil { // the compiler calculates with all bits, and looks whether the result fits
			return
		}
		by, exact := uint64(0), false
		if v := info.Types[y].Value; v != nil {
			by, exact = constant.Uint64Val(constant.ToInt(v))
		}
		if of, ok := info.TypeOf(x).Underlying().(*types.Basic); ok && exact && by >= uint64(8*sizes.Sizeof(of)) {
			errs = append(errs, fmt.Errorf("%s: a shift of %s by %d bits", c.fset.Position(at), of, by))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.SHL || n.Op == token.SHR {
				check(n.OpPos, n.X, n.Y)
			}
		case *ast.AssignStmt:
			if n.Tok == token.SHL_ASSIGN || n.Tok == token.SHR_ASSIGN {
				check(n.TokPos, n.Lhs[0], n.Rhs[0])
			}
		}
		return true
	})
	return errs
}
