package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/imatrix"
	"github.com/specgo/spec/tensor"
)

// file makes a file of one tensor "w" of float32 numbers.
func file(t *testing.T, x []float32, dims ...uint64) *gguf.File {
	t.Helper()
	raw := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
	}
	var b bytes.Buffer
	err := gguf.Write(&b, nil, []gguf.TensorSource{{Name: "w", Type: gguf.F32, Dims: dims, Write: func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), "test.gguf")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestConvert: many chunks, converted by several threads, come out in order.
func TestConvert(t *testing.T) {
	const cols, rows = 96, 9001 // three chunks and a bit
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	f := file(t, x, cols, rows)
	for _, to := range []gguf.Type{gguf.Q4_0, gguf.Q5_1, gguf.F16} {
		typ, err := tensorType(to)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, typ.RowBytes(len(x)))
		if err := tensor.Encode(typ, want, x); err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		var read int64
		if err := (&Quantization{file: f}).writeTensor(context.Background(), &got, f.Tensors[0], to,
			func(n int64) { read += n }); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) || read != 4*int64(len(x)) {
			t.Errorf("%v: %d bytes of %d, %d read; or they differ", to, got.Len(), len(want), read)
		}
	}
}

// TestConvertCopies: a tensor that has the type already keeps its bytes, which decoding and encoding again would
// change.
func TestConvertCopies(t *testing.T) {
	raw := make([]byte, 40*18) // q4_0: a scale and 16 bytes
	for i := range raw {
		raw[i] = 0x98 + byte(i%3) // no block has the least quant, which sets an encoded scale
	}
	for block := range 40 {
		binary.LittleEndian.PutUint16(raw[18*block:], 0x2e66) // 0.1
	}
	var b, got bytes.Buffer
	write := func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}
	err := gguf.Write(&b, nil, []gguf.TensorSource{{Name: "w", Type: gguf.Q4_0, Dims: []uint64{64, 20}, Write: write}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), "test.gguf")
	if err != nil {
		t.Fatal(err)
	}
	err = (&Quantization{file: f}).writeTensor(context.Background(), &got, f.Tensors[0], gguf.Q4_0, func(int64) {})
	if err != nil || !bytes.Equal(got.Bytes(), raw) {
		t.Errorf("%v, or other bytes", err)
	}
}

// broken accepts some bytes.
type broken struct{ left int }

var errBroken = errors.New("broken pipe")

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestConvertFails(t *testing.T) {
	const cols, rows = 64, 20000
	x := make([]float32, rows*cols)
	x[cols*rows-3] = float32(math.Inf(1))
	f := file(t, x, cols, rows)
	ignore := func(int64) {}
	err := (&Quantization{file: f}).writeTensor(context.Background(), io.Discard, f.Tensors[0], gguf.Q8_0, ignore)
	if !errors.Is(err, tensor.ErrNotFinite) || !strings.Contains(err.Error(), "test.gguf: row 19999: number 61 is +Inf") {
		t.Errorf("infinity: %v", err)
	}
	err = (&Quantization{file: f}).writeTensor(context.Background(), &broken{left: 1 << 19}, f.Tensors[0], gguf.Q8_0,
		ignore)
	if !errors.Is(err, errBroken) {
		t.Errorf("broken pipe: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = (&Quantization{file: f}).writeTensor(ctx, io.Discard, f.Tensors[0], gguf.F16, func(int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	const unread = "blk.0.ffn_up.weight"
	f.Tensors = []gguf.Tensor{{Name: unread, Type: gguf.I8, Dims: []uint64{cols, rows}}}
	mixture, err := FindMixture("q8_0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Quantize(f, mixture); err == nil || !strings.Contains(err.Error(), "I8") ||
		!strings.Contains(err.Error(), unread) {
		t.Errorf("I8: %v", err)
	}
}

// TestQuantizeBy: choices of types go before the mixture's, and each expert's rows are weighed by its importance.
func TestQuantizeBy(t *testing.T) {
	const cols, rows, experts = 32, 3, 2
	x := make([]float32, cols*rows*experts)
	for i := range x {
		x[i] = float32(math.Sin(float64(i * i)))
	}
	f := file(t, x, cols, rows, experts)
	const name = "blk.0.ffn_down_exps.weight"
	f.Tensors[0].Name = name
	mixture, err := FindMixture("q8_0")
	if err != nil {
		t.Fatal(err)
	}
	known := imatrix.Tensor{Sums: make([]float32, cols*experts), Counts: []float32{2, 4}}
	for i := range known.Sums {
		known.Sums[i] = float32(1 + i%7)
	}
	o := Quantizing{Name: "x.gguf", Importance: &imatrix.File{Tensors: map[string]imatrix.Tensor{name: known}},
		Tensors: []TensorChoice{{regexp.MustCompile("down"), "q5_0"}}}
	q, err := QuantizeBy(f, mixture, o)
	if err != nil || q.Counts["q5_0"] != 1 {
		t.Fatalf("%v, %v", q, err)
	}
	var got, want bytes.Buffer
	if err := q.writeTensor(context.Background(), &got, f.Tensors[0], gguf.Q5_0, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	row := make([]byte, tensor.Q5_0.RowBytes(cols))
	for i := range rows * experts {
		e := i / rows
		w := make([]float32, cols)
		for j := range w {
			w[j] = known.Sums[e*cols+j] / known.Counts[e]
		}
		if err := tensor.EncodeWeighted(tensor.Q5_0, row, x[i*cols:][:cols], w); err != nil {
			t.Fatal(err)
		}
		want.Write(row)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Error("other bytes than row by row")
	}
	importance, err := q.importance(f.Tensors[0])
	if err != nil {
		t.Fatal(err)
	}
	from := (rows + 1) * len(row) // a chunk that begins within the second expert
	if rest, _, err := convertRows(f, f.Tensors[0], gguf.Q5_0, rows+1, 2, importance); err != nil ||
		!bytes.Equal(rest, want.Bytes()[from:from+2*len(row)]) {
		t.Errorf("%v, or a chunk is weighed as another expert's", err)
	}
	plain := make([]byte, want.Len())
	if err := tensor.Encode(tensor.Q5_0, plain, x); err != nil || bytes.Equal(plain, want.Bytes()) {
		t.Errorf("%v, or the importance has no effect", err)
	}
	for says, bad := range map[string]Quantizing{
		"attn":                  {Tensors: []TensorChoice{{regexp.MustCompile("attn"), "q5_0"}}},
		"iq1_s":                 {Output: "iq1_s"},
		"no pattern":            {Tensors: []TensorChoice{{nil, "q5_0"}}},
		"no type":               {Tensors: []TensorChoice{{regexp.MustCompile("down"), ""}}},
		"nothing of any matrix": {Name: "x", Importance: &imatrix.File{Tensors: map[string]imatrix.Tensor{"a": known}}},
		"64 numbers": {Name: "x", Importance: &imatrix.File{Tensors: map[string]imatrix.Tensor{
			name: {Sums: known.Sums, Counts: []float32{1, 2, 3, 4}}}}},
	} {
		if _, err := QuantizeBy(f, mixture, bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, expected %s", err, says)
		}
	}
}

// TestQuantizedPartsAreWhole: of a model in several files one is made, which can be opened by any name.
func TestQuantizedPartsAreWhole(t *testing.T) {
	dir := t.TempDir()
	part := func(i int) string { return filepath.Join(dir, fmt.Sprintf("m-%05d-of-00002.gguf", i+1)) }
	for i := range 2 {
		kvs := []gguf.KV{{Key: "general.architecture", Value: "llama"}, {Key: "split.no", Value: uint16(i)},
			{Key: "split.count", Value: uint16(2)}, {Key: "split.tensors.count", Value: int32(2)}}
		tensor := gguf.TensorSource{Name: fmt.Sprintf("blk.%d.ffn_up.weight", i), Type: gguf.F32, Dims: []uint64{32, 2},
			Write: func(w io.Writer) error {
				_, err := w.Write(make([]byte, 4*64))
				return err
			}}
		var b bytes.Buffer
		if err := errors.Join(gguf.Write(&b, kvs, []gguf.TensorSource{tensor}),
			os.WriteFile(part(i), b.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := gguf.OpenFile(part(0))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := FindMixture("q8_0")
	if err != nil {
		t.Fatal(err)
	}
	q, err := Quantize(f, m)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	out := filepath.Join(dir, "whole.gguf")
	if err := errors.Join(q.Write(t.Context(), &b, nil), os.WriteFile(out, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	whole, err := gguf.OpenFile(out)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if arch, _ := whole.String("general.architecture"); len(whole.Tensors) != 2 || whole.Has("split.count") ||
		whole.Has("split.no") || whole.Has("split.tensors.count") || arch != "llama" {
		t.Errorf("%d tensors, keys %v", len(whole.Tensors), whole.KVs)
	}
}
