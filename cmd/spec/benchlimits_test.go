package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/tensor"
)

// --limits measures the machine's bounds and each kind of work.
func TestBenchLimits(t *testing.T) {
	text := benched(t, func(b *benchmark) {
		b.machine, b.typ, b.deep, b.o.Contexts, b.o.Repeats = true, "q4_0", true, []int{0, 9}, 1
		b.cache.kv, b.threads, b.results.format = "f16", 1, "json"
	})
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if got["memory_threads"].([]any)[0] != 1. || !(got["memory_gbps"].([]any)[0].(float64) > 0) {
		t.Errorf("memory %v %v", got["memory_threads"], got["memory_gbps"])
	}
	var kinds []string
	for _, row := range got["rows"].([]any) {
		r := row.(map[string]any)
		kinds = append(kinds, r["kind"].(string))
		if !(r["seconds"].(float64) > 0) || r["kind"] == "decode" && !(r["reached"].(float64) > 0) {
			t.Errorf("row %v", r)
		}
	}
	if want := "decode verify verify prefill attention attention norm silu rope"; strings.Join(kinds, " ") != want {
		t.Errorf("rows %v, want %s", kinds, want)
	}
}

// The report has the bounds and every row: for people, in Markdown and in CSV. What is not measured is "-".
func TestLimitsReport(t *testing.T) {
	r := limitsReport{1, results.Origin{CPU: "a CPU", SIMD: "avx2", Threads: 2}, bench.Bounds{MemoryThreads: []int{1, 2},
		MemoryGBPS: []float64{20, 40}, L1GBPS: 300, L2GBPS: 200, IntegerGPS: 500, IntegerBy: "VPX", FloatGPS: 100,
		FloatBy: "VPY"}, []bench.Reach{
		{Kind: "decode", Type: "q4_0", Tokens: 1, Seconds: 0.004, Bytes: 1e8, Products: 2e8, BoundBy: "memory",
			BoundSeconds: 0.0025, Reached: 0.625},
		{Kind: "norm", Tokens: 64, Seconds: 0.001, Bytes: 1e6}}}
	var text, md, csv bytes.Buffer
	if err := errors.Join(r.write(&text, false, 120), r.write(&md, true, 80), results.CSV(&csv, r, r.Rows)); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"a CPU, avx2 kernels, 2 threads", "1: 20.0, 2: 40.0", "L1 300, L2 200",
		"500 of integers (VPX)",
		"100 of floats (VPY)", "4.000", "25.0", "2.500", "62 %"} {
		if !strings.Contains(text.String(), part) || !strings.Contains(md.String(), part) {
			t.Errorf("no %q in\n%s%s", part, &text, &md)
		}
	}
	if lines := strings.Split(text.String(), "\n"); strings.Fields(lines[len(lines)-2])[6] != "-" {
		t.Errorf("the last row is %q", lines[len(lines)-2])
	}
	if lines := strings.Split(csv.String(), "\n"); len(lines) != 4 || !strings.Contains(lines[0], ",memory_gbps,") ||
		!strings.Contains(lines[1], ",20 40,") || !strings.HasSuffix(lines[1], ",memory,0.0025,0.625") {
		t.Errorf("%s", &csv)
	}
}

// Without --type all of them are measured, but for --quick; without --kv all types of a cache.
func TestLimitsTypes(t *testing.T) {
	for args, want := range map[string][3]int{"": {len(allTypes()), len(kvTypes), 5}, "--quick": {5, len(kvTypes), 2},
		"--type q4_k --kv f32 -r 3": {1, 1, 3}} {
		l := options[*benchmark](t, strings.Fields("bench --limits "+args)...).limits
		if len(l.Types) != want[0] || len(l.KV) != want[1] || l.Repeats != want[2] {
			t.Errorf("%s: %+v", args, l)
		}
	}
	if list := allTypes(); len(list) < 28 || list[0] != tensor.F32 {
		t.Errorf("types %v", list)
	}
	for args, says := range map[string]string{"-m x": "-m and", "--shape llama-1b": "--shape and", "-f x": "-f and",
		"--weights q8_0": "--weights and", "--type q4_k_m": "q4_k_m", "--kernels scalar": "SPEC_SIMD",
		"--verify 2": "--verify and", "-p 9": "-p and", "--draft-vocab 9": "--draft-vocab and"} {
		if _, errs, code := spec(t, "", strings.Fields("bench --limits "+args)...); code != exitUsage ||
			!strings.Contains(errs, says) {
			t.Errorf("%s: exit %d, %q", args, code, errs)
		}
	}
}

// Variables for the passes of a model do not count where none is measured.
func TestLimitsLeaveVariablesOfModels(t *testing.T) {
	c, err := findCommand("bench")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.parse([]string{"--limits"}, environment("SPEC_BENCH_VERIFY=2")); err != nil {
		t.Error(err)
	}
}
