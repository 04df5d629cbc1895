package main

import (
	"fmt"
	"io"
	"os"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/grammar"
)

// grammarFlags are llama.cpp's names for a grammar or a JSON Schema that the text follows.
type grammarFlags struct {
	grammar, grammarFile string
	schema, schemaFile   string
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
	return nil
}

// parse compiles the grammar that was given; nil if none was.
func (g *grammarFlags) parse(b *grammar.Budget) (*grammar.Grammar, error) {
	names := g.given()
	if len(names) == 0 {
		return nil, nil
	}
	source, from := g.grammar+g.schema, names[0]
	if file := g.grammarFile + g.schemaFile; file != "" {
		from = file
		var err error
		if source, err = readGrammar(file); err != nil {
			return nil, err
		}
	}
	var compiled *grammar.Grammar
	var err error
	if g.schema+g.schemaFile != "" {
		compiled, err = grammar.ParseSchema(b, []byte(source), grammar.SchemaOptions{Spaces: true, Narrow: true})
	} else {
		compiled, err = grammar.ParseGBNF(b, source)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return compiled, nil
}

func readGrammar(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxGrammar+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxGrammar:
		return "", fmt.Errorf("%s: more than %d MiB", file, maxGrammar>>20)
	}
	return string(data), nil
}

// newVocabulary is a tokenizer's, for grammars.
func newVocabulary(tok *bpe.Tokenizer) *grammar.Vocabulary {
	return grammar.NewVocabulary(tok, grammar.VocabularyOptions{Encode: func(text string) []int32 {
		return tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true})
	}})
}
