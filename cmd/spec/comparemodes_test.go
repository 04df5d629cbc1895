package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// modes is the part of the JSON that the modes of compare change.
type modes struct {
	SIMD   string
	Mode   string
	Seeds  int `json:"n_seeds"`
	Seed   int
	Broken []string `json:"broken_promises"`
	Rows   []struct {
		Drafter, Schedule, Kernels string
		NTokens                    int  `json:"n_tokens"`
		NRuns                      int  `json:"n_runs"`
		Drafted                    int  `json:"n_drafted"`
		Accepted                   int  `json:"n_accepted"`
		Target                     int  `json:"n_target_passes"`
		Same                       bool `json:"identical"`
		BLEU                       float64
		Over                       struct{ Value, N float64 } `json:"speedup_over_first_kernels"`
	}
}

func comparedModes(t *testing.T, args ...string) (r modes) {
	t.Helper()
	out := done(t, "", append([]string{"compare", "--warmup", "0", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) == 0 || len(r.Broken) > 0 {
		t.Fatalf("%q: %s", args, out)
	}
	return r
}

// With --seeds each prompt is continued with several seeds: what they count is the sum of what each counts alone.
func TestCompareSeeds(t *testing.T) {
	args := []string{"-p", "func (r *Ring) Push(", "-p", "x :=", "-n", "12", "-r", "1", "--drafter", "model", "--schedule",
		"constant", "--temp", "1"}
	both := comparedModes(t, append(args, "-s", "5", "--seeds", "2")...)
	first, second := comparedModes(t, append(args, "-s", "5")...), comparedModes(t, append(args, "-s", "6")...)
	if both.Seeds != 2 || first.Seeds != 1 || both.Seed != 5 {
		t.Errorf("%d and %d seeds from %d on", both.Seeds, first.Seeds, both.Seed)
	}
	differ := false
	for i, row := range both.Rows {
		a, b := first.Rows[i], second.Rows[i]
		if row.NTokens != a.NTokens+b.NTokens || row.Drafted != a.Drafted+b.Drafted ||
			row.Accepted != a.Accepted+b.Accepted ||
			row.Target != a.Target+b.Target || row.NRuns != a.NRuns+b.NRuns || !row.Same {
			t.Errorf("%s %s: %+v, alone %+v and %+v", row.Drafter, row.Schedule, row, a, b)
		}
		differ = differ || a.Accepted != b.Accepted
	}
	if !differ {
		t.Error("both seeds count the same: the test tests nothing")
	}
	if r := comparedModes(t, append(args[:len(args)-1], "0", "--seeds", "3")...); r.Rows[0].NTokens > 2*12 {
		t.Errorf("greedy texts with several seeds: %+v", r.Rows[0])
	}
}

// A fixed length is that of every text, also where the model would end it; a fixed text is written by all, with other
// weights too.
func TestCompareFixed(t *testing.T) {
	dir := t.TempDir()
	ends, text := filepath.Join(dir, "ends.jsonl"), filepath.Join(dir, "text.jsonl")
	write(t, ends, `{"prompt":"x"}`+"\n")
	args := []string{"--prompts", ends, "-n", "150", "-r", "1", "--drafter", "ngram", "--schedule", "constant", "--temp",
		"1",
		"-s", "4", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.05"}
	short := comparedModes(t, args...).Rows[0].NTokens
	if short >= 150 {
		t.Errorf("the text has %d tokens: the test tests nothing", short)
	}
	for _, row := range comparedModes(t, append(args, "--fixed-length")...).Rows {
		if row.NTokens != 150 || !row.Same {
			t.Errorf("a fixed length: %+v", row)
		}
	}
	write(t, text, `{"prompt":"x :=","text":" one two three one two three one two three one two three one two"}`+"\n")
	r := comparedModes(t, "--prompts", text, "-n", "99", "-r", "1", "--drafter", "ngram,model", "--schedule", "constant",
		"--weights", "file,q4_0", "--fixed-text")
	if r.Mode != "fixed text" || len(r.Rows) != 2*5 {
		t.Errorf("mode %q, %d rows", r.Mode, len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.NTokens != r.Rows[0].NTokens || row.NTokens < 14 || row.NTokens > 98 || !row.Same || row.BLEU != 100 {
			t.Errorf("a fixed text: %+v", row)
		}
		if row.Drafter == "model" && row.Schedule == "constant" && row.Accepted*2 > row.Drafted {
			t.Errorf("a model that was trained on Go drafts this text: %+v", row)
		}
	}
	for says, bad := range map[string]string{"exclude": "--fixed-text --fixed-length",
		"--verify":        "--fixed-text --verify match",
		"context is full": "--fixed-length -c 20 -n 18 -p a,b,c,d,e,f"} {
		if _, errs, code := spec(t, "", append([]string{"compare"}, strings.Fields(bad)...)...); code == exitDone ||
			!strings.Contains(errs, says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", bad, code, errs)
		}
	}
}

// Kernel sets are measured in one run, write the same texts, and each row says how fast it is beside the first set's.
func TestCompareKernels(t *testing.T) {
	r := comparedModes(t, "-p", "x :=", "-n", "6", "-r", "2", "--drafter", "ngram", "--schedule", "constant",
		"--kernels", "scalar,"+bestKernels(t))
	if r.SIMD != "scalar,"+bestKernels(t) || len(r.Rows) != 2*3 {
		t.Errorf("kernels %q, %d rows", r.SIMD, len(r.Rows))
	}
	for i, row := range r.Rows {
		first := i < 3
		if first != (row.Kernels == "scalar") || first != (row.Over.N == 0) || !row.Same ||
			row.Accepted != r.Rows[i%3].Accepted {
			t.Errorf("row %d: %+v", i, row)
		}
		if !first && !(row.Over.Value > 0) {
			t.Errorf("%s kernels are %.2f times as fast as scalar ones", row.Kernels, row.Over.Value)
		}
	}
	for says, bad := range map[string]string{"--kernels scalar,scalar": "scalar,scalar", "--kernels none": "none",
		"--kernels ''": ""} {
		if _, errs, code := spec(t, "", "compare", "--kernels", bad); code == exitDone || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d, %s", bad, code, errs)
		}
	}
}

// bestKernels are those that this machine runs without a choice.
func bestKernels(t *testing.T) string {
	t.Helper()
	out := done(t, "", "version")
	before, _, ok := strings.Cut(out, " kernels")
	if !ok {
		t.Fatal(out)
	}
	name := before[strings.LastIndexByte(before, ' ')+1:]
	if name == "scalar" {
		t.Skip("no other kernels on this machine")
	}
	return name
}
