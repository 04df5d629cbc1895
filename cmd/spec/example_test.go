package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// The library, as the README shows it.
func Example() {
	ctx := context.Background()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
	check(err)
	defer rt.Close()
	target, err := engine.Open(ctx, rt, "../../testdata/go-target.q8_0.gguf", engine.Options{})
	check(err)
	draft, err := engine.Open(ctx, rt, "../../testdata/go-draft.q8_0.gguf", engine.Options{})
	check(err)
	session, err := target.NewSession(engine.SessionOptions{})
	check(err)
	drafting, err := draft.NewSession(engine.SessionOptions{})
	check(err)
	prompt := target.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	dec := speculative.New(session, speculative.Model(drafting),
		speculative.Options{Tokenizer: target.Tokenizer(), MaxTokens: 24})
	for token, err := range dec.Generate(ctx, prompt, engine.Sampling{}) {
		check(err)
		fmt.Print(token.Text)
	}
	// Output:
	// c *uint64, n *uint64) {
	// 	if n.nn != 0 {
	// 		return
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The README's program is the example above, so it compiles and writes what it says.
func TestREADMEShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func Example() {\n")
	body, _, _ = strings.Cut(body, "\t// Output:")
	body = strings.ReplaceAll(strings.ReplaceAll("\n"+body, "\n\t", "\n"), "../../", "")
	if !strings.Contains(string(readme), "```go"+body+"```") {
		t.Errorf("the README does not show this:\n%s", body)
	}
}
