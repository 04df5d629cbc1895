package main

import (
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// The lines come with their scores, the best first; a query is needed, and a reranker.
func TestRerank(t *testing.T) {
	file := testkit.Shared(t, "families/encoders", "bert-rank.gguf")
	r := done(t, "the cat\n\na ship at sea\na cat sat\n", "rerank", "-m", file, "--query", "which cat sat")
	lines := strings.Split(strings.TrimSpace(r), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[0], "\tthe cat") {
		t.Errorf("%q", lines)
	}
	one := done(t, "the cat\na ship at sea\n", "rerank", "-m", file, "--query", "which cat sat", "--top-n", "1")
	if one != lines[0]+"\n" {
		t.Errorf("%q, expected the first of %q", one, lines)
	}
}
