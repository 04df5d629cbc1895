package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The kinds of fault, in the order in which they take turns.
var kinds = []string{
	"comparison", // < for <=, == for !=
	"border",     // a number one larger, a +1 or -1 left out, max for min
	"condition",  // one side of && or ||, a ! left out
	"dropped",    // a call or an assignment left out
	"guard",      // an if that returns or skips never does
	"error",      // the same of an if err != nil
	"field",      // another field of the same type; two arguments or values of the same type exchanged
	"lock",       // no mutex in a function, under the race detector
	"wake",       // a signal, a send, a close, a cancellation left out
}

// A site is one fault at one place.
type site struct {
	kind  string
	file  *source
	edits []edit
}

// An edit replaces a range of bytes.
type edit struct {
	from, to int
	text     string
}

func (s site) at() string { return fmt.Sprintf("%s:%d", s.file.name, s.file.line(s.edits[0].from)) }

// lines are the first line that differs, before and after.
func (s site) lines(content []byte) (before, after string) {
	n := s.file.line(s.edits[0].from) - 1
	get := func(text []byte) string { return strings.TrimSpace(strings.Split(string(text), "\n")[n]) }
	return get(s.file.text), get(content)
}

type source struct {
	name string
	text []byte
	tree *ast.File
	pkg  *pkg
}

func (f *source) line(offset int) int { return 1 + bytes.Count(f.text[:offset], []byte("\n")) }

type pkg struct {
	path  string
	files []*source
	info  types.Info
}

// code is what faults are drawn from.
type code struct {
	fset  *token.FileSet
	imp   types.Importer
	sites []site
}

// load reads the packages at roots, folders of this module, and those below them.
func load(roots []string) (*code, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export,DepOnly"}
	for _, root := range roots {
		args = append(args, "./"+root+"/...")
	}
	list := exec.Command("go", args...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	type listedPackage struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		DepOnly                 bool
	}
	exports := map[string]string{}
	var all []listedPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			all = append(all, p)
		}
	}
	fset := token.NewFileSet()
	c := &code{fset: fset, imp: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		dir, err := filepath.Rel(here, p.Dir)
		if err != nil {
			return nil, err
		}
		texts := map[string][]byte{}
		for _, name := range p.GoFiles {
			name = filepath.Join(dir, name)
			if texts[name], err = os.ReadFile(name); err != nil {
				return nil, err
			}
		}
		if err := c.add(p.ImportPath, texts); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// add finds the sites of a package.
func (c *code) add(path string, texts map[string][]byte) error {
	p := &pkg{path: path, info: types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	for name, text := range texts {
		tree, err := parser.ParseFile(c.fset, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		p.files = append(p.files, &source{name, text, tree, p})
	}
	slices.SortFunc(p.files, func(a, b *source) int { return cmp.Compare(a.name, b.name) })
	if err := c.check(p, nil, nil, &p.info); err != nil {
		return err
	}
	for _, f := range p.files {
		if !ast.IsGenerated(f.tree) {
			c.sites = append(c.sites, (&finder{fset: c.fset, file: f, info: &p.info}).find()...)
		}
	}
	return nil
}

// check finds the types of a package, with the tree of instead for that of old.
func (c *code) check(p *pkg, old *source, instead *ast.File, info *types.Info) error {
	var trees []*ast.File
	for _, f := range p.files {
		if f == old {
			trees = append(trees, instead)
		} else {
			trees = append(trees, f.tree)
		}
	}
	_, err := (&types.Config{Importer: c.imp}).Check(p.path, c.fset, trees, info)
	return err
}

// apply is the file of a site with its fault, and whether that compiles.
func (c *code) apply(s site) ([]byte, bool) {
	var out []byte
	at := 0
	for _, e := range s.edits {
		out = append(append(out, s.file.text[at:e.from]...), e.text...)
		at = e.to
	}
	out = append(out, s.file.text[at:]...)
	tree, err := parser.ParseFile(c.fset, s.file.name, out, 0)
	return out, err == nil && c.check(s.file.pkg, s.file, tree, nil) == nil
}

// draw is a random order of the sites in which the kinds take turns.
func draw(sites []site, seed uint64, kind string) iter.Seq[site] {
	return func(yield func(site) bool) {
		random := rand.New(rand.NewPCG(seed, 0))
		by := map[string][]site{}
		for _, s := range sites {
			by[s.kind] = append(by[s.kind], s)
		}
		for _, k := range kinds {
			random.Shuffle(len(by[k]), func(i, j int) { by[k][i], by[k][j] = by[k][j], by[k][i] })
		}
		for left := len(sites); left > 0; {
			for _, k := range kinds {
				if len(by[k]) == 0 {
					continue
				}
				s := by[k][0]
				by[k] = by[k][1:]
				left--
				if (kind == "" || kind == k) && !yield(s) {
					return
				}
			}
		}
	}
}

// A finder collects the sites of one file.
type finder struct {
	fset  *token.FileSet
	file  *source
	info  *types.Info
	sites []site
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *finder) text(n ast.Node) string {
	return string(f.file.text[f.offset(n.Pos()):f.offset(n.End())])
}

func (f *finder) put(n ast.Node, text string) edit {
	return edit{f.offset(n.Pos()), f.offset(n.End()), text}
}

func (f *finder) add(kind string, edits ...edit) {
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	f.sites = append(f.sites, site{kind, f.file, edits})
}

func (f *finder) find() []site {
	for _, d := range f.file.tree.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok != token.CONST && d.Tok != token.VAR {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				f.binary(n)
			case *ast.UnaryExpr:
				if n.Op == token.NOT {
					f.add("condition", f.put(n, f.text(n.X)))
				}
			case *ast.ValueSpec:
				for _, v := range n.Values {
					f.larger(v)
				}
			case *ast.CallExpr:
				f.call(n)
			case *ast.SelectorExpr:
				f.selector(n)
			case *ast.CompositeLit:
				f.values(n)
			case *ast.BlockStmt:
				f.statements(n.List)
			case *ast.CaseClause:
				f.statements(n.Body)
			case *ast.CommClause:
				f.statements(n.Body)
			case *ast.FuncDecl:
				if n.Body != nil {
					f.locks(n.Body)
				}
			}
			return true
		})
	}
	return f.sites
}

var compared = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ,
	token.NEQ: token.EQL,
}

func (f *finder) binary(n *ast.BinaryExpr) {
	if other, ok := compared[n.Op]; ok && !f.isError(n.X) {
		at := f.offset(n.OpPos)
		f.add("comparison", edit{at, at + len(n.Op.String()), other.String()})
		f.larger(n.X)
		f.larger(n.Y)
	}
	switch n.Op {
	case token.LAND, token.LOR:
		f.add("condition", f.put(n, f.text(n.X)))
		f.add("condition", f.put(n, f.text(n.Y)))
	case token.ADD, token.SUB:
		if lit, ok := n.Y.(*ast.BasicLit); ok && lit.Value == "1" {
			f.add("border", f.put(n, f.text(n.X)))
		} else {
			f.larger(n.Y)
		}
	}
}

// larger is a whole number plus one.
func (f *finder) larger(n ast.Expr) {
	if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.INT {
		if v, err := strconv.ParseInt(lit.Value, 0, 62); err == nil {
			f.add("border", f.put(lit, fmt.Sprint(v+1)))
		}
	}
}

func (f *finder) call(n *ast.CallExpr) {
	if name, ok := n.Fun.(*ast.Ident); ok {
		if _, builtin := f.info.Uses[name].(*types.Builtin); builtin {
			switch name.Name {
			case "min":
				f.add("border", f.put(name, "max"))
			case "max":
				f.add("border", f.put(name, "min"))
			}
			return
		}
	}
	f.exchange(n.Args)
}

// values exchanges the values of a literal's neighboring fields, where their types are the same.
func (f *finder) values(n *ast.CompositeLit) {
	if n.Type == nil {
		return
	}
	if _, ok := f.info.TypeOf(n).Underlying().(*types.Struct); !ok {
		return
	}
	var values []ast.Expr
	for _, e := range n.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			e = pair.Value
		}
		values = append(values, e)
	}
	f.exchange(values)
}

func (f *finder) exchange(list []ast.Expr) {
	for i := range max(0, len(list)-1) {
		a, b := f.info.Types[list[i]], f.info.Types[list[i+1]]
		if a.Type != nil && b.Type != nil && types.Identical(a.Type, b.Type) && f.text(list[i]) != f.text(list[i+1]) {
			f.add("field", f.put(list[i], f.text(list[i+1])), f.put(list[i+1], f.text(list[i])))
		}
	}
}

// selector takes the next field of the same type for a field.
func (f *finder) selector(n *ast.SelectorExpr) {
	selection, ok := f.info.Selections[n]
	if !ok || selection.Kind() != types.FieldVal || len(selection.Index()) != 1 {
		return
	}
	of := selection.Recv().Underlying()
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem().Underlying()
	}
	fields := of.(*types.Struct)
	at := selection.Index()[0]
	for step := 1; step < fields.NumFields(); step++ {
		other := fields.Field((at + step) % fields.NumFields())
		if types.Identical(other.Type(), selection.Type()) && other.Name() != "_" {
			f.add("field", f.put(n.Sel, other.Name()))
			return
		}
	}
}

func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		if l, ok := s.(*ast.LabeledStmt); ok {
			s = l.Stmt
		}
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt:
			switch lockOrWake(s) {
			case "lock":
			case "wake":
				f.add("wake", f.put(s, ""))
			default:
				f.add("dropped", f.put(s, ""))
			}
		case *ast.SendStmt:
			f.add("wake", f.put(s, ""))
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				f.add("dropped", f.put(s, ""))
			}
		case *ast.IncDecStmt:
			f.add("dropped", f.put(s, ""))
		case *ast.IfStmt:
			if s.Else != nil || len(s.Body.List) == 0 {
				continue
			}
			kind := "guard"
			if c, ok := s.Cond.(*ast.BinaryExpr); ok && c.Op == token.NEQ && f.isError(c.X) {
				kind = "error"
			}
			switch s.Body.List[len(s.Body.List)-1].(type) {
			case *ast.ReturnStmt, *ast.BranchStmt:
				// So that what it names is still used.
				f.add(kind, f.put(s.Cond, "false && ("+f.text(s.Cond)+")"))
			}
		}
	}
}

func (f *finder) isError(e ast.Expr) bool {
	t := f.info.TypeOf(e)
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// lockOrWake says what kind of fault it is to leave a call out: "lock", "wake" or "".
func lockOrWake(s ast.Stmt) string {
	switch name := called(s); {
	case strings.HasSuffix(name, "Lock"), strings.HasSuffix(name, "Unlock"):
		return "lock"
	case name == "Broadcast", name == "Signal", name == "close", name == "Done", strings.HasPrefix(name, "cancel"):
		return "wake"
	}
	return ""
}

// called is the name of the function or method that a statement calls.
func called(s ast.Stmt) string {
	var e ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt:
		e = s.X
	case *ast.DeferStmt:
		e = s.Call
	}
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return ""
	}
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

// locks leaves out all calls of one mutex in a function that locks and unlocks it.
func (f *finder) locks(body *ast.BlockStmt) {
	by := map[string][]edit{}
	locked, unlocked := map[string]bool{}, map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		s, ok := n.(ast.Stmt)
		if !ok || lockOrWake(s) != "lock" {
			return true
		}
		mutex, _, ok := strings.Cut(strings.TrimPrefix(f.text(s), "defer "), "."+called(s))
		if ok {
			by[mutex] = append(by[mutex], f.put(s, ""))
			if strings.HasSuffix(called(s), "Unlock") {
				unlocked[mutex] = true
			} else {
				locked[mutex] = true
			}
		}
		return true
	})
	for mutex, edits := range by {
		if locked[mutex] && unlocked[mutex] {
			f.add("lock", edits...)
		}
	}
}
