package main

import (
	"fmt"
	"io"
	"os"

	library "github.com/specgo/spec"
)

// grammarFlags are llama.cpp's names for a grammar or a JSON Schema that the text follows.
type grammarFlags struct {
	grammar, grammarFile string
	schema, schemaFile   string
	anyOrder             bool // of keys
}

// maxGrammar bounds the size of a grammar's or schema's file.
const maxGrammar = 16 << 20

// given lists the flags that were given.
func (g *grammarFlags) given() (names []string) {
	for _, f := range []struct{ name, value string }{
		{"--grammar", g.grammar}, {"--grammar-file", g.grammarFile}, {"--json-schema", g.schema},
		{"--json-schema-file", g.schemaFile},
	} {
		if f.value != "" {
			names = append(names, f.name)
		}
	}
	return names
}

func (g *grammarFlags) checkGrammar() error {
	if names := g.given(); len(names) > 1 {
		return usagef("%s and %s exclude each other", names[0], names[1])
	}
	if g.anyOrder && g.schema+g.schemaFile == "" {
		return usagef("--json-any-order needs --json-schema or --json-schema-file")
	}
	return nil
}

// constraint is the one that was given, if any.
func (g *grammarFlags) constraint() (c library.Constraint, err error) {
	names := g.given()
	if len(names) == 0 {
		return c, nil
	}
	c = library.Constraint{Kind: library.GBNF, Source: []byte(g.grammar + g.schema), Field: names[0],
		AnyOrder: g.anyOrder}
	if g.schema+g.schemaFile != "" {
		c.Kind = library.JSONSchema
	}
	if file := g.grammarFile + g.schemaFile; file != "" {
		c.Field = file
		c.Source, err = readGrammar(file)
	}
	return c, err
}

func readGrammar(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxGrammar+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxGrammar:
		return nil, fmt.Errorf("%s: more than %d MiB", file, maxGrammar>>20)
	}
	return withoutMark(data), nil
}
