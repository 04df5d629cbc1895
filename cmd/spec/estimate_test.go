package main

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/specgo/spec/speculative"
)

func TestEstimate(t *testing.T) {
	var e estimate
	if s := e.speedup(speculative.Stats{Generated: 3}); !math.IsNaN(s) {
		t.Errorf("nothing drafted: %v", s)
	}
	drafted := new(speculative.Draft)
	drafted.Tokens = []int32{1, 2}
	e.round(&speculative.Round{Draft: drafted, Verifying: 3 * time.Second})
	s := speculative.Stats{Generated: 8, Drafted: 2, Draft: 1, Verify: 11}
	if got := e.speedup(s); got != 2 {
		t.Errorf("by the shortest pass: %v, want 8*3/12", got)
	}
	e.round(&speculative.Round{Draft: new(speculative.Draft), Verifying: time.Second})
	e.round(&speculative.Round{Draft: new(speculative.Draft), Verifying: 2 * time.Second})
	if got := e.speedup(s); got != 1 {
		t.Errorf("by passes without drafts: %v, want 8*1.5/12", got)
	}
}

// The last line tells tokens, tokens per second, acceptance and the estimate, and calls it one.
func TestGenerateLastLine(t *testing.T) {
	_, errs, _ := spec(t, "", "generate", "-p", ring, "--temp", "0", "-n", "32", "--trace")
	if !regexp.MustCompile(`(?m)^32 tokens in [0-9.]+ s \([0-9.]+/s\), .*accepted \([0-9]+ %\), estimated [0-9.]+ times as fast as without$`).MatchString(errs) {
		t.Errorf("the last line is not in\n%s", errs)
	}
	if !regexp.MustCompile(`(?m)^at [0-9]+ drafted .* ms, accepted .* then .* verified in .* ms$`).MatchString(errs) {
		t.Errorf("no round in\n%s", errs)
	}
}
