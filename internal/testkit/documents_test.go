package testkit

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents are the *.md files of the checkout that describe it as it is, with their text: CHANGELOG.md has the past.
func documents(t *testing.T, root string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || path != root && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".md") || d.Name() == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		texts[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil || len(texts) < 10 {
		t.Fatalf("%d documents: %v", len(texts), err)
	}
	return texts
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s#]+)[^)]*\)`)
	quotedCode   = regexp.MustCompile("`([^`\n]+)`")
	// a Go file, or anything below one of the project's folders
	sourcePath = regexp.MustCompile(
		`^(?:\./)?((?:[A-Za-z0-9_.-]+/)*[a-z0-9_]+\.go|(?:asm|tensor|gguf|bpe|engine|speculative|chat|grammar|serve|hub|` +
			`convert|cmd|internal|lab|docs|testdata)/[A-Za-z0-9_./-]*[A-Za-z0-9_])$`)
	qualified = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?$`)
)

// Every path that a document names, in a link or as code, exists: from the root, or from the document's folder.
func TestDocumentsNamePaths(t *testing.T) {
	root, found := checkout(t), 0
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		return err == nil
	}
	for doc, text := range documents(t, root) {
		folder := filepath.ToSlash(filepath.Dir(doc))
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if found++; !exists(folder + "/" + m[1]) {
				t.Errorf("%s links to %s, which is not there", doc, m[1])
			}
		}
		for _, m := range quotedCode.FindAllStringSubmatch(text, -1) {
			path := sourcePath.FindStringSubmatch(strings.TrimSpace(m[1]))
			if path == nil || strings.ContainsAny(path[1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && strings.HasSuffix(path[1], ".go") {
				continue // a capital stands for any name, as in codec_TYPE.go
			}
			if found++; !exists(path[1]) && !exists(folder+"/"+path[1]) {
				t.Errorf("%s names %s, which is not there", doc, path[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("%d paths", found)
	}
}

// Every exported name that a document gives with its package is there, with the member behind it.
func TestDocumentsNameIdentifiers(t *testing.T) {
	root := checkout(t)
	names := exportedNames(t, root)
	found := 0
	for doc, text := range documents(t, root) {
		for _, m := range quotedCode.FindAllStringSubmatch(text, -1) {
			code, _, _ := strings.Cut(m[1], "(")
			code, _, _ = strings.Cut(code, "[")
			code, _, _ = strings.Cut(code, "{")
			id := qualified.FindStringSubmatch(code)
			if id == nil || names[id[1]] == nil {
				continue
			}
			found++
			members, ok := names[id[1]][id[2]]
			if !ok || id[3] != "" && !slices.Contains(members, id[3]) {
				t.Errorf("%s names %s, which is not there", doc, id[0])
			}
		}
	}
	if found < 60 {
		t.Errorf("%d identifiers", found)
	}
}

// The documentation of every public package begins with an example: lines of code, before its third paragraph, whose
// names exist.
func TestPackagesBeginWithAnExample(t *testing.T) {
	root := checkout(t)
	names, found := exportedNames(t, root), map[string]bool{}
	eachGoFile(t, root, func(name string) {
		if !public(name) || strings.HasPrefix(name, "testdata/") || strings.Contains(name, "/_") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil,
			parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		if found[dir] = found[dir] || file.Doc != nil; file.Doc == nil {
			return
		}
		for i, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
			code, ok := block.(*comment.Code)
			if !ok {
				continue
			}
			if i > 2 {
				break
			}
			for _, m := range qualifiedInCode.FindAllStringSubmatch(code.Text, -1) {
				if _, ok := names[m[1]][m[2]]; names[m[1]] != nil && !ok {
					t.Errorf("%s: the example names %s, which is not there", dir, m[0])
				}
			}
			return
		}
		t.Errorf("%s: no example begins the documentation", dir)
	})
	for dir, documented := range found {
		if !documented {
			t.Errorf("%s: no documentation", dir)
		}
	}
	if len(found) < 15 {
		t.Errorf("%d packages", len(found))
	}
}

var qualifiedInCode = regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)`)

// public reports whether a file belongs to a package that other modules can import.
func public(name string) bool {
	return !strings.HasSuffix(name, "_test.go") && !slices.ContainsFunc(strings.Split(filepath.ToSlash(filepath.Dir(name)),
		"/"), func(part string) bool {
		return part == "internal" || part == "lab" || part == "cmd" || strings.HasPrefix(part, "_")
	})
}

// exportedNames are the exported names of the public packages, by package, each with its fields and methods. Those of
// embedded fields count for the type that embeds them by their type's name alone.
func exportedNames(t *testing.T, root string) map[string]map[string][]string {
	t.Helper()
	all := map[string]map[string][]string{}
	eachGoFile(t, root, func(name string) {
		if !public(name) {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		names := all[file.Name.Name]
		if names == nil {
			names = map[string][]string{}
			all[file.Name.Name] = names
		}
		for _, d := range file.Decls {
			declare(names, d)
		}
	})
	return all
}

// declare adds what a declaration declares.
func declare(names map[string][]string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = append(names[d.Name.Name], "")
			return
		}
		of := d.Recv.List[0].Type
		if p, ok := of.(*ast.StarExpr); ok {
			of = p.X
		}
		if g, ok := of.(*ast.IndexExpr); ok {
			of = g.X
		}
		if id, ok := of.(*ast.Ident); ok {
			names[id.Name] = append(names[id.Name], d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = append(names[n.Name], "")
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = append(names[s.Name.Name], "")
				var fields *ast.FieldList
				switch x := s.Type.(type) {
				case *ast.StructType:
					fields = x.Fields
				case *ast.InterfaceType:
					fields = x.Methods
				}
				if fields == nil {
					continue
				}
				for _, f := range fields.List {
					for _, n := range f.Names {
						names[s.Name.Name] = append(names[s.Name.Name], n.Name)
					}
				}
			}
		}
	}
}
