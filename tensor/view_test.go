package tensor

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
)

// TestView: a view gives the products of the matrix whose panels it is bound to, then those of another, and none when
// it is not bound.
func TestView(t *testing.T) {
	rt, err := NewRuntime(Options{Threads: 2})
	ok(t, err)
	defer rt.Close()
	const rows, cols = 40, 96
	build := func(seed float32) *Matrix {
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(i%17)*seed - 3
		}
		m, err := FromFloats(rt, Q8_0, rows, cols, x)
		ok(t, err)
		return m
	}
	a, b := build(0.5), build(-0.25)
	v, err := NewView(rt, Q8_0, rows, cols, "owner")
	ok(t, err)
	if v.Owner() != "owner" || a.Owner() != nil || v.Bytes() != a.Bytes() {
		t.Errorf("owner %v, %d bytes", v.Owner(), v.Bytes())
	}
	x := []float32{}
	for i := range 3 * cols {
		x = append(x, float32(i%5)-2)
	}
	product := func(m *Matrix) ([]float32, error) {
		var in Input
		if err := in.Set(rt, x, 3, cols); err != nil {
			return nil, err
		}
		out := slices.Repeat([]float32{-1}, 3*rows)
		return out, rt.MatMul(&in, Product{W: m, Out: out})
	}
	if _, err := product(v); !errors.Is(err, ErrClosed) {
		t.Errorf("not bound: %v", err)
	}
	memory, err := NewBuffer(v.Bytes())
	ok(t, err)
	defer memory.Close()
	for _, m := range []*Matrix{a, b, a} {
		copy(memory.Data, m.Panels())
		ok(t, v.Bind(memory.Data))
		want, err := product(m)
		ok(t, err)
		got, err := product(v)
		ok(t, err)
		if !slices.Equal(got, want) {
			t.Error("other products")
		}
		for _, i := range []int{0, 15, 16, 39} {
			one, two, three := [cols]float32{}, [cols]float32{}, [cols]float32{}
			ok(t, m.Row(i, one[:]))
			ok(t, v.Row(i, two[:]))
			ok(t, v.PanelRow(m.Panels()[i/16*m.PanelBytes():][:m.PanelBytes()], i, three[:]))
			if one != two || one != three {
				t.Errorf("row %d differs", i)
			}
		}
	}
	longer, err := NewBuffer(v.Bytes() + 64)
	ok(t, err)
	defer longer.Close()
	for _, wrong := range [][]byte{memory.Data[:len(memory.Data)-1], append(memory.Data, 0)[1:], longer.Data} {
		if err := v.Bind(wrong); err == nil {
			t.Errorf("%d bytes were taken", len(wrong))
		}
	}
	if err := a.Bind(memory.Data); err == nil {
		t.Error("a matrix with its own memory was bound")
	}
	ok(t, v.Bind(nil))
	if _, err := product(v); !errors.Is(err, ErrClosed) {
		t.Errorf("not bound any more: %v", err)
	}
}

// TestLimitThreads: all units are done whatever the limit is, and a limit of n lets n threads at most work at a time,
// once those that slept have had their turn.
func TestLimitThreads(t *testing.T) {
	rt, err := NewRuntime(Options{Threads: 4})
	ok(t, err)
	defer rt.Close()
	for _, limit := range []int{4, 2, 1, 0, 3, 9, 2} {
		rt.LimitThreads(limit)
		for range 50 {
			var sum atomic.Int64
			rt.Parallel(64, func(i int) { sum.Add(int64(i)) })
			if sum.Load() != 63*64/2 {
				t.Fatalf("limit %d: %d", limit, sum.Load())
			}
		}
	}
	rt.LimitThreads(1)
	running, most := 0, 0
	// the race detector sees a second thread
	rt.Parallel(100, func(int) { running++; most = max(most, running); running-- })
	if most != 1 {
		t.Error("several threads at a limit of one")
	}
}
