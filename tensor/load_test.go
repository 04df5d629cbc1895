package tensor

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec/asm"
)

func TestEncodeByHand(t *testing.T) {
	ramp := make([]float32, 32) // -16 … 15
	for i := range ramp {
		ramp[i] = float32(i - 16)
	}
	unit := make([]float32, 32) // 127, 0.5 (away from zero), -0.5, 1.49, then zeros
	copy(unit, []float32{127, 0.5, -0.5, 1.49})
	zeros := strings.Repeat("00", 28)
	for _, c := range []struct {
		t    Type
		x    []float32
		want string
	}{
		{F32, []float32{1, -2}, "0000803f" + "000000c0"},
		{F16, []float32{1, -2, 65504, 0x1p-24}, "003c" + "00c0" + "ff7b" + "0100"},
		{BF16, []float32{1, -2, 1.00390625, 1.01171875}, "803f" + "00c0" + "803f" + "823f"}, // ties to even
		{Q8_0, make([]float32, 32), "0000" + strings.Repeat("00", 32)},
		{Q8_0, unit, "003c" + "7f01ff01" + zeros},
		// d = 16/127 = 0.12598, binary16 0x3008; q = round(x*7.9375): -127, -119, -111, -103, -95, …
		{Q8_0, ramp, "0830" + "818991" + "99a1a9b1b9c0c8d0d8e0e8f0f8000810182028303840474f575f676f77"},
		// the greatest magnitude is -16: d = 2, q = int(x/2 + 8.5) = 0, 1, 1, 2, 2, … 15, 15; low nibbles are 0 … 15
		{Q4_0, ramp, "0040" + "809191a2a2b3b3c4c4d5d5e6e6f7f7f8"},
		// the greatest is 127: d = -15.875, so 127 is 0 and zero is 8
		{Q4_0, unit, "f0cb" + "80888888" + strings.Repeat("88", 12)},
	} {
		got := make([]byte, c.t.RowBytes(len(c.x)))
		ok(t, Encode(c.t, got, c.x))
		if hex.EncodeToString(got) != c.want {
			t.Errorf("%v of %v:\n%x, want\n%s", c.t, c.x[:2], got, c.want)
		}
	}
}

func TestEncodeErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	x := make([]float32, 256)
	for _, f := range Encodable() {
		x := x[:max(64, f.BlockWeights())]
		dst := make([]byte, f.RowBytes(len(x)))
		for _, bad := range []float32{nan, inf} {
			x[40] = bad
			if err := Encode(f, dst, x); !errors.Is(err, ErrNotFinite) {
				t.Errorf("%v of %v: %v", f, bad, err)
			}
		}
		x[40] = 0
		if err := Encode(f, dst[1:], x); !errors.Is(err, ErrShape) {
			t.Errorf("%v short: %v", f, err)
		}
		if err := Decode(f, x, dst[1:]); !errors.Is(err, ErrShape) {
			t.Errorf("%v short: %v", f, err)
		}
	}
	x[40] = 1e30
	for _, f := range Encodable() {
		if f == F32 || f == BF16 {
			continue
		}
		if err := Encode(f, make([]byte, f.RowBytes(256)), x); !errors.Is(err, ErrNotFinite) {
			t.Errorf("%v of 1e30: %v", f, err)
		}
	}
	x[40] = 1e-40 // too small for a scale, or for its inverse: zeros
	for _, f := range Encodable() {
		if f == F32 || f == BF16 {
			continue
		}
		dst := make([]byte, f.RowBytes(256))
		ok(t, Encode(f, dst, x))
		back := make([]float32, 256)
		ok(t, Decode(f, back, dst))
		for i, v := range back {
			if v != 0 {
				t.Errorf("%v: 1e-40 gives %v at %d", f, v, i)
			}
		}
	}
	if err := Encode(Q8_0, nil, x[:33]); !errors.Is(err, ErrShape) {
		t.Errorf("33 numbers: %v", err)
	}
	if err := Encode(99, nil, nil); !errors.Is(err, ErrType) {
		t.Errorf("type 99: %v", err)
	}
	if _, err := ParseType("q8_1"); !errors.Is(err, ErrType) {
		t.Errorf("q8_1: %v", err)
	}
	if f, err := ParseType("q4_0"); err != nil || f != Q4_0 {
		t.Errorf("q4_0: %v %v", f, err)
	}
	if k, err := ParseKVType(""); err != nil || k != KVF16 {
		t.Errorf("no cache type: %v %v", k, err)
	}
	if k, err := ParseKVType("q8_0"); err != nil || k != KVQ8_0 {
		t.Errorf("cache type q8_0: %v %v", k, err)
	}
	if k, err := ParseKVType("q4_0"); err != nil || k != KVQ4_0 {
		t.Errorf("cache type q4_0: %v %v", k, err)
	}
	if _, err := ParseKVType("q4_1"); !errors.Is(err, ErrType) {
		t.Errorf("cache type q4_1: %v", err)
	}
}

// TestRow: what a panel gives back is what the GGUF row says.
func TestRow(t *testing.T) {
	rt := runtimeOf(t, 2)
	for _, f := range asm.Formats() {
		const rows, cols = 37, 512
		raw := rawRows(t, f, 5, rows, cols)
		m, err := Pack(rt, f, rows, cols, raw)
		ok(t, err)
		want := make([]float32, rows*cols)
		ok(t, Decode(f, want, raw))
		got := make([]float32, cols)
		for i := range rows {
			ok(t, m.Row(i, got))
			sameBits(t, fmt.Sprint(f, " row ", i), got, want[i*cols:][:cols])
		}
		if m.Rows() != rows || m.Cols() != cols || m.Type() != f || m.Bytes() < int64(len(raw)) {
			t.Errorf("%d x %d %v, %d bytes", m.Rows(), m.Cols(), m.Type(), m.Bytes())
		}
		for _, i := range []int{-1, rows} {
			if err := m.Row(i, got); !errors.Is(err, ErrShape) {
				t.Errorf("row %d: %v", i, err)
			}
		}
		if err := m.Row(0, got[1:]); !errors.Is(err, ErrShape) {
			t.Errorf("short row: %v", err)
		}
	}
}

// TestRead reads matrices of several reads' size, as they are and converted, from the middle of a file.
func TestRead(t *testing.T) {
	for i, from := range asm.Formats() {
		if testing.Short() && i%4 > 0 {
			continue
		}
		const cols, off = 1024, 77
		rows := min(900, loadBytes/from.RowBytes(cols)+21) // more than is read at a time
		raw := rawRows(t, from, 6, rows, cols)
		file := bytes.NewReader(append(make([]byte, off), raw...))
		floats := make([]float32, rows*cols)
		ok(t, Decode(from, floats, raw))
		for _, threads := range []int{1, 5} {
			rt := runtimeOf(t, threads)
			all := []Type{F32, F16, BF16, Q8_0, Q4_0}
			to := []Type{from, all[i%len(all)], all[(i+2)%len(all)]} // rows are decoded, then encoded
			switch {
			case threads == 1 && testing.Short():
				to = nil
			case threads == 1 || testing.Short():
				to = []Type{from, Q8_0}
			case from == Q8_0:
				to = append(all, Q4_K, Q6_K) // these take their time
			}
			for _, to := range to {
				m, err := Read(context.Background(), rt, file, off, from, rows, cols, to)
				ok(t, err)
				got, want, enc := make([]float32, cols), make([]float32, cols), make([]byte, to.RowBytes(cols))
				for i := 0; i < rows; i += 99 {
					ok(t, m.Row(i, got))
					want := append(want[:0], floats[i*cols:][:cols]...)
					if from != to {
						ok(t, Encode(to, enc, want))
						ok(t, Decode(to, want, enc))
					}
					sameBits(t, fmt.Sprint(from, " to ", to, " row ", i), got, want)
				}
				m.Close()
			}
		}
	}
}

// flaky fails at its size, in one of the ways a reader can, or in one place.
type flaky struct {
	size  int64
	err   error // with the bytes before
	hole  int64 // the offset of a read that fails
	calls atomic.Int64
	each  func()
}

func (f *flaky) ReadAt(p []byte, off int64) (int, error) {
	f.calls.Add(1)
	if f.each != nil {
		f.each()
	}
	if f.hole > 0 && f.hole == off {
		return 0, f.err
	}
	if off+int64(len(p)) <= f.size {
		return len(p), nil
	}
	return int(max(0, f.size-off)), f.err
}

func TestReadFails(t *testing.T) {
	const rows, cols = 4096, 1024 // F32: 64 reads of 256 KB
	rt := runtimeOf(t, 2)
	broken := errors.New("broken disk")
	for _, c := range []struct {
		name     string
		err      error
		want     error
		complete bool
	}{
		{"shrunk file", io.EOF, io.ErrUnexpectedEOF, false},
		{"broken disk", broken, broken, false},
		{"reader that breaks its contract", nil, io.ErrUnexpectedEOF, false},
		{"end of file with the last byte", io.EOF, nil, true},
	} {
		f := &flaky{size: 5<<20 + 100, err: c.err}
		if c.complete {
			f.size = rows*cols*4 + 64
		}
		m, err := Read(context.Background(), rt, f, 64, F32, rows, cols, F32)
		if !errors.Is(err, c.want) || (m == nil) != (err != nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "at offset 5242944") {
			t.Errorf("%s: no offset in %q", c.name, err)
		}
		if err != nil && f.calls.Load() > 30 {
			t.Errorf("%s: %d reads", c.name, f.calls.Load())
		}
	}
	hole := &flaky{size: 1 << 40, err: broken, hole: 2 << 20}
	hole.each = func() {
		if hole.calls.Load() > 4 {
			time.Sleep(20 * time.Millisecond) // so that the others cannot be done before they are told
		}
	}
	if _, err := Read(context.Background(), rt, hole, 0, F32, rows, cols, F32); !errors.Is(err, broken) ||
		hole.calls.Load() > 14 {
		t.Errorf("a hole: %v after %d reads", err, hole.calls.Load())
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flaky{size: 1 << 40}
	f.each = func() {
		if f.calls.Load() >= 4 { // of two reads at once each may see the other
			cancel()
		}
	}
	if _, err := Read(ctx, rt, f, 0, F32, rows, cols, F32); !errors.Is(err, context.Canceled) || f.calls.Load() > 6 {
		t.Errorf("cancelled: %v after %d reads", err, f.calls.Load())
	}
	if _, err := Read(ctx, rt, f, -1, F32, rows, cols, F32); !errors.Is(err, ErrShape) {
		t.Errorf("offset -1: %v", err)
	}
	if _, err := Read(ctx, rt, f, math.MaxInt64-5, F32, rows, cols, F32); !errors.Is(err, ErrShape) {
		t.Errorf("offset too great: %v", err)
	}
	if _, err := Read(ctx, rt, f, 0, F32, rows, cols, 99); !errors.Is(err, ErrType) {
		t.Errorf("to type 99: %v", err)
	}
}

func TestMatrixErrors(t *testing.T) {
	rt := runtimeOf(t, 1)
	for _, c := range []struct {
		f          Type
		rows, cols int
		n          int
		want       error
	}{
		{99, 1, 32, 34, ErrType}, {Q8_0, 0, 32, 0, ErrShape}, {Q8_0, 1, 0, 0, ErrShape}, {Q8_0, 1, 33, 36, ErrShape},
		{Q4_K, 1, 32, 18, ErrShape}, {Q8_0, 2, 32, 67, ErrShape}, {Q8_0, 2, 32, 69, ErrShape}, {Q8_0, -1, 32, 34, ErrShape},
		{F32, math.MaxInt, math.MaxInt / 1024, 0, ErrShape}, {F32, 1, math.MaxInt, 0, ErrShape},
	} {
		if _, err := Pack(rt, c.f, c.rows, c.cols, make([]byte, c.n)); !errors.Is(err, c.want) {
			t.Errorf("%d x %d %v of %d bytes: %v", c.rows, c.cols, c.f, c.n, err)
		}
	}
	if _, err := FromFloats(rt, Q8_0, 2, 32, make([]float32, 65)); !errors.Is(err, ErrShape) {
		t.Errorf("65 floats: %v", err)
	}
	x := make([]float32, 64*40)
	x[50*40] = float32(math.NaN())
	if _, err := FromFloats(rt, F16, 64, 40, x); !errors.Is(err, ErrNotFinite) ||
		!strings.Contains(err.Error(), "row 50") {
		t.Errorf("NaN: %v", err)
	}
}

// TestLowBits: matrices of the types below 3.5 bits take about their file's bytes, and their rows and products are the
// weights' whatever the number of threads and tokens.
func TestLowBits(t *testing.T) {
	const rows, cols, most = 48, 1024, 300
	for _, f := range []Type{IQ3_S, IQ3_XXS, IQ2_S, IQ2_XS, IQ2_XXS, TQ2_0, IQ1_M, TQ1_0, IQ1_S, Q2_0, Q1_0, NVFP4} {
		bound := 1.1
		if f == IQ3_S || f == IQ3_XXS {
			bound = 1.35
		}
		raw, x := rawRows(t, f, 5, rows, cols), normal(6, most*cols)
		var whole []float64 // of most tokens, with one thread
		for _, threads := range []int{1, 3} {
			rt := runtimeOf(t, threads)
			w, err := Pack(rt, f, rows, cols, raw)
			ok(t, err)
			if got := float64(w.Bytes()) / float64(len(raw)); got < 1 || got > bound {
				t.Errorf("%v: %.3f of the file's bytes in memory", f, got)
			}
			row, want := make([]float32, cols), make([]float32, cols)
			ok(t, w.Row(rows-1, row))
			ok(t, Decode(f, want, raw[len(raw)-f.RowBytes(cols):]))
			near(t, "row", row, float64s(want), 0)
			for _, tokens := range []int{most, 9, 1} {
				out := make([]float32, tokens*rows)
				var in Input
				ok(t, in.Set(rt, x[:tokens*cols], tokens, cols))
				ok(t, rt.MatMul(&in, Product{W: w, Out: out}))
				if len(whole) == 0 {
					whole = float64s(out)
				}
				near(t, "product", out, whole[:len(out)], 0)
			}
		}
	}
}

// float64s are the same numbers.
func float64s(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// Gathered rows are packed as the rows' bytes would be, of every type, in whole and in part filled panels.
func TestGather(t *testing.T) {
	rt := runtimeOf(t, 2)
	for _, f := range asm.Formats() {
		const rows, cols = 53, 512
		raw, size := rawRows(t, f, 5, rows, cols), f.RowBytes(cols)
		m, err := Pack(rt, f, rows, cols, raw)
		ok(t, err)
		for _, list := range [][]int32{{52}, {0, 16, 32, 48, 1, 17},
			{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 20, 21, 22, 23, 24, 25, 26, 40}} {
			var some []byte
			for _, r := range list {
				some = append(some, raw[int(r)*size:][:size]...)
			}
			want, err := Pack(rt, f, len(list), cols, some)
			ok(t, err)
			got, err := Gather(context.Background(), rt, m, list)
			ok(t, err)
			if got.Rows() != len(list) || got.Type() != f || !bytes.Equal(got.Panels(), want.Panels()) {
				t.Errorf("%v, rows %v: other panels", f, list)
			}
			for i := range list { // the other way round, row by row
				ok(t, got.CopyRow(i, m, int(list[len(list)-1-i])))
			}
			slices.Reverse(list)
			if want, err = Gather(context.Background(), rt, m, list); err != nil || !bytes.Equal(got.Panels(), want.Panels()) {
				t.Errorf("%v, rows %v copied: other panels, %v", f, list, err)
			}
		}
	}
	m, err := Pack(rt, Q8_0, 20, 32, rawRows(t, Q8_0, 5, 20, 32))
	ok(t, err)
	if _, err := Gather(context.Background(), rt, m, []int32{3, 20}); !errors.Is(err, ErrShape) {
		t.Errorf("a row too many: %v", err)
	}
	if _, err := Gather(context.Background(), rt, m, nil); !errors.Is(err, ErrShape) {
		t.Errorf("no rows: %v", err)
	}
	other, err := Pack(rt, Q8_0, 20, 64, rawRows(t, Q8_0, 5, 20, 64))
	ok(t, err)
	for _, c := range []struct {
		from  *Matrix
		i, at int
	}{{m, 20, 0}, {m, 0, 20}, {m, -1, 0}, {m, 0, -1}, {other, 0, 0}} {
		if err := m.CopyRow(c.i, c.from, c.at); !errors.Is(err, ErrShape) {
			t.Errorf("row %d for row %d: %v", c.at, c.i, err)
		}
	}
	m.Close()
	if _, err := Gather(context.Background(), rt, m, []int32{3}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed matrix: %v", err)
	}
	if err := m.CopyRow(0, m, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("a row of a closed matrix: %v", err)
	}
}

// A matrix in another type is that of its values, encoded row by row, whatever the number of threads; one that was
// closed, a type that the rows do not fit, and a context that has ended are errors.
func TestRecode(t *testing.T) {
	const rows, cols = 53, 512
	for _, threads := range []int{1, 3} {
		rt := runtimeOf(t, threads)
		for _, from := range []Type{F16, Q8_0, Q6_K} {
			raw := rawRows(t, from, 5, rows, cols)
			m, err := Pack(rt, from, rows, cols, raw)
			ok(t, err)
			values := make([]float32, rows*cols)
			ok(t, Decode(from, values, raw))
			for _, to := range []Type{Q4_0, Q8_0, F32} {
				want, err := FromFloats(rt, to, rows, cols, values)
				ok(t, err)
				got, err := Recode(t.Context(), rt, m, to)
				ok(t, err)
				if got.Type() != to || got.Rows() != rows || !bytes.Equal(got.Panels(), want.Panels()) {
					t.Errorf("%d threads, %v to %v: other panels", threads, from, to)
				}
			}
		}
	}
	rt := runtimeOf(t, 2)
	m, err := FromFloats(rt, F32, 40, 48, make([]float32, 40*48))
	ok(t, err)
	if _, err := Recode(t.Context(), rt, m, Q8_0); !errors.Is(err, ErrShape) {
		t.Errorf("48 numbers in blocks of 32: %v", err)
	}
	if _, err := Recode(t.Context(), rt, m, 99); !errors.Is(err, ErrType) {
		t.Errorf("to type 99: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Recode(ctx, rt, m, F16); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	m.Close()
	if _, err := Recode(t.Context(), rt, m, F16); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed matrix: %v", err)
	}
}
