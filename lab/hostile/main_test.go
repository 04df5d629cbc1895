package main

import (
	"strings"
	"testing"
)

// A kind that there is not is told before a server is started.
func TestNoSuchKind(t *testing.T) {
	err := command(t.Context(), []string{"-spec", "no such program", "-only", "no such kind"})
	if err == nil || !strings.Contains(err.Error(), "no such kind") {
		t.Error(err)
	}
}
