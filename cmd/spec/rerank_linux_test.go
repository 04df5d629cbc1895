package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// No document controls the terminal that it is shown on.
func TestRerankOnATerminal(t *testing.T) {
	file := testkit.Shared(t, "families/encoders", "bert-rank.gguf")
	tty, user := pseudoterminal(t)
	j, _, err := rerankCommand.parse([]string{"-m", file, "--query", "cat", "-p", "a \x1b[31mcat"}, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{stdin: strings.NewReader(""), stdout: tty, stderr: tty, env: noEnvironment}
	if err := j.run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(user).ReadString('\n')
	if err != nil || !strings.Contains(line, "\ta \\x1b[31mcat") {
		t.Errorf("%q, %v", line, err)
	}
}
