package bench

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/specgo/spec/tensor"
)

// fakeMachine has scripted bounds, one after the other, and times.
type fakeMachine struct {
	script []Bounds
	at     int
	list   []group
	times  []float64
	freed  int
}

func (f *fakeMachine) bounds() (Bounds, error) { f.at++; return f.script[f.at-1], nil }
func (f *fakeMachine) groups() []group         { return f.list }
func (f *fakeMachine) seconds(run func() error) (float64, error) {
	s := f.times[0]
	f.times = f.times[1:]
	return s, run()
}

func (f *fakeMachine) group(rows ...Reach) group {
	return func(context.Context) ([]task, func(), error) {
		var tasks []task
		for _, r := range rows {
			tasks = append(tasks, task{r, func() error { return nil }})
		}
		return tasks, func() { f.freed++ }, nil
	}
}

// A row is compared with the greatest bounds of the whole run, and the one that takes longest counts: no row with times
// that the bounds allow exceeds 1.
func TestLimitsArithmetic(t *testing.T) {
	f := &fakeMachine{
		script: []Bounds{
			{MemoryThreads: []int{1, 2}, MemoryGBPS: []float64{10, 8}, L1GBPS: 3, L2GBPS: 40, IntegerGPS: 100, IntegerBy: "A",
				FloatGPS: 20, FloatBy: "F"},
			{MemoryThreads: []int{1, 2}, MemoryGBPS: []float64{9, 20}, L1GBPS: 2, L2GBPS: 50, IntegerGPS: 200, IntegerBy: "B",
				FloatGPS: 10, FloatBy: "G"},
			{MemoryThreads: []int{1, 2}, MemoryGBPS: []float64{5, 5}},
			{MemoryThreads: []int{1, 2}, MemoryGBPS: []float64{5, 5}},
		},
		times: []float64{0.4, 9, 0.2, 8, 4, 1, 3, 2},
	}
	f.list = []group{
		f.group(Reach{Kind: "decode", Bytes: 2e9, Products: 1e9, from: "memory"}, // 0.1 s of memory, 0.005 of products
			Reach{Kind: "prefill", Bytes: 2e9, Products: 400e9, from: "memory"}), // 0.1 and 2
		f.group(Reach{Kind: "attention", Bytes: 1e9, Products: 40e9, from: "memory", float: true}, // 0.05 and 2
			Reach{Kind: "norm", Bytes: 25e9, from: "l2", float: true}), // 0.5
	}
	told := 0
	b, rows, err := limits(t.Context(), f, 2, func(Reach) { told++ })
	if err != nil || told != 4 || f.freed != 2 {
		t.Fatal(err, told, f.freed)
	}
	if b.memory() != 20 || b.MemoryGBPS[0] != 10 || b.L1GBPS != 3 || b.L2GBPS != 50 || b.IntegerGPS != 200 ||
		b.IntegerBy != "B" || b.FloatGPS != 20 || b.FloatBy != "F" || len(b.MemoryThreads) != 2 {
		t.Errorf("bounds %+v", b)
	}
	want := []struct {
		by             string
		bound, seconds float64
	}{{"memory", 0.1, 0.2}, {"integer", 2, 8}, {"float", 2, 3}, {"l2", 0.5, 1}}
	for i, w := range want {
		r := rows[i]
		if r.BoundBy != w.by || math.Abs(r.BoundSeconds/w.bound-1) > 1e-12 || r.Seconds != w.seconds || r.Repeats != 2 ||
			math.Abs(r.Reached-w.bound/w.seconds) > 1e-12 || r.Reached > 1 {
			t.Errorf("row %d: %+v, want %+v", i, r, w)
		}
	}
}

// What is not measured bounds nothing.
func TestLimitsUnknown(t *testing.T) {
	r := Reach{Bytes: 1, Products: 1, Seconds: 1, from: "l2", BoundBy: "memory", Reached: 3}
	if new(Bounds).bind(&r); r.BoundBy != "" || r.BoundSeconds != 0 || r.Reached != 0 {
		t.Errorf("%+v", r)
	}
	b := Bounds{MemoryGBPS: []float64{2}}
	if b.bind(&r); r.BoundBy != "" { // the memory does not bound what is in a cache
		t.Errorf("%+v", r)
	}
	f := &fakeMachine{script: make([]Bounds, 1), times: []float64{1}}
	failed := errors.New("failed")
	f.list = []group{func(context.Context) ([]task, func(), error) {
		return []task{{run: func() error { return failed }}}, func() { f.freed++ }, nil
	}}
	if _, _, err := limits(t.Context(), f, 1, nil); !errors.Is(err, failed) || f.freed != 1 {
		t.Errorf("%v, %d freed", err, f.freed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.at = 0
	if _, _, err := limits(ctx, f, 1, nil); !errors.Is(err, context.Canceled) || f.freed != 2 {
		t.Errorf("%v, %d freed", err, f.freed)
	}
}

// Every kind of work runs on this machine, with what it needs.
func TestMeasureLimits(t *testing.T) {
	rt, err := tensor.NewRuntime(tensor.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	_, rows, err := MeasureLimits(t.Context(), rt, Limits{Types: []tensor.Type{tensor.Q4_0, tensor.F16},
		Tokens: []int{1, 17}, KV: []tensor.KVType{tensor.KVQ8_0}, Contexts: []int{20}, Repeats: 1, Memory: 1 << 20},
		func(Reach) {})
	if err != nil {
		t.Fatal(err)
	}
	// 56 panels of 18432 bytes; 16 of 65536; 16 layers of 8 heads of 2*(64+4) bytes.
	const n4, n16 = 56 * 16 * 2048, 16 * 16 * 2048
	want := []Reach{
		{Kind: "decode", Type: "q4_0", Tokens: 1, Bytes: n4 * 18 / 32, Products: n4, from: "memory"},
		{Kind: "prefill", Type: "q4_0", Tokens: 17, Bytes: n4 * 18 / 32, Products: 17 * n4, from: "memory"},
		{Kind: "decode", Type: "f16", Tokens: 1, Bytes: 2 * n16, Products: n16, from: "memory", float: true},
		{Kind: "prefill", Type: "f16", Tokens: 17, Bytes: 2 * n16, Products: 17 * n16, from: "memory", float: true},
		{Kind: "attention", Type: "q8_0", Tokens: 1, Context: 20, Bytes: 16 * 8 * 2 * 68 * 21, Products: 2 * 21 * 16 * 2048,
			from: "memory", float: true},
		{Kind: "attention", Type: "q8_0", Tokens: 8, Context: 20, Bytes: 16 * 8 * 2 * 68 * 28,
			Products: 2 * (160 + 36) * 16 * 2048, from: "memory", float: true},
		{Kind: "norm", Tokens: 64, Bytes: 4 * 64 * 2048, from: "l2", float: true},
		{Kind: "silu", Tokens: 64, Bytes: 8 * 64 * 2048, from: "l2", float: true},
		{Kind: "rope", Tokens: 64, Bytes: 4 * 64 * 2048, from: "l2", float: true},
	}
	for i, r := range rows {
		if !(r.Seconds > 0) || r.Repeats != 1 {
			t.Errorf("row %+v", r)
		}
		r.Seconds, r.Repeats, r.BoundBy, r.BoundSeconds, r.Reached = 0, 0, "", 0, 0
		if i >= len(want) || r != want[i] {
			t.Errorf("row %d: %+v, want %+v", i, r, want[min(i, len(want)-1)])
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d rows", len(rows))
	}
}
