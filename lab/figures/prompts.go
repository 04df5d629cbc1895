package main

import (
	_ "embed" // for the prompts
	"fmt"
	"strings"
	"sync"

	"github.com/specgo/spec/internal/compare"
)

// warmPrompt is continued once before an experiment's first prompt.
const warmPrompt = "// Count returns the number of elements of list that are equal to x.\nfunc Count(list []int, x " +
	"int) int {\n"

// functions were written for this project, like the prompts that package compare has. They are separated by empty
// lines.
//
//go:embed functions.txt
var functions string

// headLines are those of a function that a code prompt shows, its comment included.
const headLines = 3

var promptSets = sync.OnceValue(func() map[string][]compare.Prompt {
	sets := map[string][]compare.Prompt{paper: {{ID: "paper", Text: "translate English to German: My dog is cute."}}}
	for _, name := range allSets {
		set, _ := compare.Builtin(name)
		sets[name] = set.Prompts
	}
	for i, text := range strings.Split(strings.TrimSpace(functions), "\n\n") {
		lines := strings.SplitAfter(text+"\n", "\n")
		head := strings.Join(lines[:min(headLines, len(lines))], "")
		switch i % 2 {
		case 0:
			sets[code] = append(sets[code], compare.Prompt{ID: fmt.Sprintf("code-%02d", i/2+1), Text: head})
		case 1: // the whole function, then its own head
			sets[copied] = append(sets[copied], compare.Prompt{ID: fmt.Sprintf("copy-%02d", i/2+1), Text: text + "\n\n" + head})
		}
	}
	for i, name := range strings.Fields(packages) {
		sets[open] = append(sets[open], compare.Prompt{
			ID: fmt.Sprintf("open-%02d", i+1), Text: "// Package " + name + " implements"})
	}
	return sets
})

// packages are the names with which the open-ended prompts begin.
const packages = "queue matrix lexer router cachefile graph timer ledger parser scheduler bitmap histogram mailer " +
	"archive rectangle tokenizer session monitor"

// promptSet is the prompts of a set, at least 30 of the three common ones.
func promptSet(name string) []compare.Prompt { return promptSets()[name] }
