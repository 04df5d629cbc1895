package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/results"
)

// Kernel sets that are measured in turn are beside each other in every form, with medians and intervals.
func TestBenchKernels(t *testing.T) {
	sets := []string{"scalar", bestKernels(t)}
	args := []string{"bench", "--kernels", strings.Join(sets, ","), "-p", "0", "-n", "2", "-d", "0", "--verify", "2",
		"--batch", "0", "-r", "2", "-t", "1"}
	r := decode[kernelReport](t, done(t, "", append(args, "--json")...))
	if len(r.Rows) != 2*len(sets) || r.SIMD != strings.Join(sets, ",") || len(r.Models) == 0 || r.Bandwidth <= 0 {
		t.Fatalf("%+v", r)
	}
	for i, x := range r.Rows {
		if x.Kernels != sets[i%len(sets)] || x.Pass.N != 2 || x.Pass.Low > x.Pass.Value || x.Pass.High < x.Pass.Value ||
			x.Pass.Value <= 0 || i%len(sets) == 0 && x.Over.Value != 1 {
			t.Errorf("%+v", x)
		}
	}
	for _, markdown := range []bool{false, true} {
		var b strings.Builder
		if err := r.write(&b, "a model", markdown, 200); err != nil {
			t.Fatal(err)
		}
		if out := b.String(); !strings.Contains(out, "medians of 2 rounds") || strings.Count(out, "scalar") != 2 {
			t.Error(out)
		}
	}
	var b strings.Builder
	if err := results.CSV(&b, r, r.Rows); err != nil || strings.Count(b.String(), "\n") != 1+len(r.Rows) {
		t.Error(err, b.String())
	}
	for _, bad := range []string{"nosuch", "scalar,scalar"} {
		if _, errs, code := spec(t, "", "bench", "--kernels", bad); code == 0 || !strings.Contains(errs, "--kernels") {
			t.Errorf("%s: exit %d, %s", bad, code, errs)
		}
	}
}

// The model is open on every kernel set at once: each has its part of the memory, and the least is that of all.
func TestKernelSetsShareTheMemory(t *testing.T) {
	sets := "scalar," + bestKernels(t)
	for _, args := range [][]string{{"bench", "--quick"}, {"compare"}} {
		least := func(more ...string) (megabytes float64) {
			code, _, stderr := runWith(t, t.TempDir(), slices.Concat(args, []string{"-m", servedTarget, "--memory=1M"}, more)...)
			_, after, _ := strings.Cut(stderr, "the least is ")
			_, err := fmt.Sscanf(after, "%f MB", &megabytes)
			if code != exitFailed || err != nil {
				t.Fatalf("%v: exit %d, %s", args, code, stderr)
			}
			return megabytes
		}
		if one, two := least(), least("--kernels", sets); two < 1.5*one {
			t.Errorf("%v: the least is %f MB, with two kernel sets %f", args, one, two)
		}
	}
}

// A set is compared with the first one round by round.
func TestKernelRows(t *testing.T) {
	list := []bench.Turns{
		{Row: bench.Row{Kind: "decode", Tokens: 1, Bytes: 10}, Kernels: "a", Seconds: []float64{2, 4, 6}},
		{Row: bench.Row{Kind: "decode", Tokens: 1, Bytes: 10}, Kernels: "b", Seconds: []float64{1, 2, 1}},
	}
	rows := kernelRows(list, 2, 5)
	if rows[0].Over.Value != 1 || rows[1].Over.Value != 2 || rows[1].Over.High != 6 || rows[1].TokensPerSecond != 1 ||
		rows[1].BandwidthFraction != 2 || rows[0].Pass.Value != 4 {
		t.Errorf("%+v", rows)
	}
}
