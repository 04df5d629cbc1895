package main

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/speculative"
)

func TestEstimate(t *testing.T) {
	drafted := new(speculative.Draft)
	drafted.Tokens = []int32{1, 2}
	rounds := func(plain, verify []float64) *estimate {
		var e estimate
		for _, s := range plain {
			e.round(&speculative.Round{Draft: new(speculative.Draft), Verifying: time.Duration(s * float64(time.Second))})
		}
		for _, s := range verify {
			e.round(&speculative.Round{Draft: drafted, Verifying: time.Duration(s * float64(time.Second))})
		}
		return &e
	}
	text := speculative.Stats{Generated: 100, Drafted: 80, Draft: 10, Verify: 40}
	steady := []float64{1, 1, 1, 1, 1, 1, 1, 1}
	for name, c := range map[string]struct {
		e    *estimate
		s    speculative.Stats
		want float64
	}{
		"plain passes":      {rounds(steady, []float64{2, 3}), text, 2},
		"the shortest pass": {rounds(nil, []float64{1, 1.1, 1.2}), text, 2},
		"few plain passes":  {rounds([]float64{1, 1}, []float64{1.1, 1.2}), text, 2},
		"nothing drafted":   {rounds(steady, nil), speculative.Stats{Generated: 100, Verify: 50}, math.NaN()},
		"too few tokens": {rounds(steady, nil),
			speculative.Stats{Generated: 63, Drafted: 9, Verify: 30}, math.NaN()},
		"spread above the effect": {rounds([]float64{.4, .4, .4, .5, .6, .8, .8, .8}, nil), text, math.NaN()},
		"unlike passes":           {rounds(nil, []float64{0.6, 2, 2}), text, math.NaN()},
		"no effect": {rounds([]float64{.5, .5, .5, .5, .51, .51, .51, .51}, nil),
			speculative.Stats{Generated: 100, Drafted: 8, Verify: 50.5}, math.NaN()},
	} {
		if got := c.e.speedup(c.s); math.Abs(got-c.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The last line has tokens, tokens per second and acceptance; the estimate only where there is enough to
// tell.
func TestGenerateLastLine(t *testing.T) {
	_, errs, _ := spec(t, "", "generate", "-p", ring, "--temp", "0", "-n", "32", "--trace")
	if !regexp.MustCompile(`(?m)^32 tokens in [0-9.]+ s \([0-9.]+/s\), .*accepted \([0-9]+ %\)$`).MatchString(errs) {
		t.Errorf("the last line is not in\n%s", errs)
	}
	if !regexp.MustCompile(`(?m)^position [0-9]+: drafted .* ms, accepted .* then .* verified in .* ms$`).MatchString(
		errs) {
		t.Errorf("no round in\n%s", errs)
	}
	var out strings.Builder
	w := &writer{p: &program{stderr: &out}, result: result{TokenIDs: make([]int32, 64)}}
	w.result.Stats = speculative.Stats{Generated: 64, Drafted: 9, Accepted: 6, TargetPasses: 58, Draft: 8, Verify: 24}
	for range 8 {
		w.estimate.round(&speculative.Round{Draft: new(speculative.Draft), Verifying: time.Second})
	}
	w.figures(32 * time.Second)
	if got, want := out.String(), "64 tokens in 32.00 s (2.0/s), 58 target passes, 6 of 9 drafted tokens accepted (67 "+
		"%), estimated speedup 2.00x\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
