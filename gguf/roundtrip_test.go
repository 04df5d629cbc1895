package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

func TestRoundTrip(t *testing.T) {
	for _, align := range []uint32{0, 1, 8, 32, 64, 4096} {
		t.Run(fmt.Sprint("alignment/", align), func(t *testing.T) {
			kvs, want := sampleKVs(), int64(32)
			if align != 0 {
				kvs, want = append(kvs, KV{"general.alignment", align}), int64(align)
			}
			tensors := sampleTensors()
			b := write(t, kvs, tensors)
			f, err := open(b)
			if err != nil {
				t.Fatal(err)
			}
			if f.Version != 3 || f.Alignment != want || f.Name != "test.gguf" {
				t.Errorf("version %d, alignment %d, name %q", f.Version, f.Alignment, f.Name)
			}
			if !reflect.DeepEqual(f.KVs, kvs) {
				t.Errorf("metadata\n%v, want\n%v", f.KVs, kvs)
			}
			var keys []string
			for _, kv := range kvs {
				keys = append(keys, kv.Key)
			}
			if got := slices.Collect(f.Keys()); !slices.Equal(got, keys) {
				t.Errorf("keys %q, want %q", got, keys)
			}
			if len(f.Tensors) != len(tensors) {
				t.Fatalf("%d tensors, want %d", len(f.Tensors), len(tensors))
			}
			for i, src := range tensors {
				got, ok := f.Tensor(src.Name)
				if !ok || got.Name != src.Name || got.Type != src.Type || !slices.Equal(got.Dims, src.Dims) ||
					!reflect.DeepEqual(got, f.Tensors[i]) {
					t.Errorf("tensor %d is %v, want %v", i, got, src)
				}
				if got.Offset%want != 0 || got.Offset < f.DataOffset {
					t.Errorf("%v at offset %d, data at %d", got, got.Offset, f.DataOffset)
				}
				data, err := io.ReadAll(io.NewSectionReader(f.Reader(), got.Offset, got.Size))
				if err != nil || !bytes.Equal(data, count(len(data))) || int64(len(data)) != got.Size {
					t.Errorf("%v: data %v, %v", got, data, err)
				}
			}
			if _, ok := f.Tensor("absent"); ok {
				t.Error("a tensor that is not there")
			}
		})
	}
}

// A window is much smaller than some values; reads that come in small pieces and
// strings and arrays that straddle windows must make no difference.
func TestLargeValues(t *testing.T) {
	long := strings.Repeat("0123456789abcde", 3*windowBytes/15)
	var tokens []string
	var scores []float32
	var wide []int64
	for i := range 40_000 {
		tokens = append(tokens, strings.Repeat("x", i%23))
		scores = append(scores, -float32(i))
		wide = append(wide, -int64(i)<<20)
	}
	kvs := []KV{{"a", long}, {"b", tokens}, {"c", scores}, {"d", long[1:]}, {"e", wide}, {"f", []Value{tokens, wide}}}
	f, err := open(write(t, kvs, nil))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.KVs, kvs) {
		t.Error("large values differ")
	}
}

func TestVersion2(t *testing.T) {
	b := write(t, sampleKVs(), sampleTensors())
	b[4] = 2
	f, err := open(b)
	if err != nil || f.Version != 2 || !reflect.DeepEqual(f.KVs, sampleKVs()) {
		t.Fatalf("%v, %v", f, err)
	}
}

// The bytes of a small file, as the format's description has them.
func TestBytes(t *testing.T) {
	want := header(3, 1, 2).
		key("a").typ(ValueUint16).u8(0x34).u8(0x12).
		key("b").typ(ValueArray).typ(ValueString).u64(2).str("x").str("yz").
		tensor("w", Q4_0, 0, 32, 2).pad(32)
	want = append(want, count(36)...).pad(32)
	got := write(t, []KV{{"a", uint16(0x1234)}, {"b", []string{"x", "yz"}}},
		[]TensorSource{source("w", Q4_0, count(36), 32, 2)})
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%x, want\n%x", got, want)
	}
}

func TestWriteErrors(t *testing.T) {
	ok := source("w", F32, count(4), 1)
	with := func(change func(*TensorSource)) []TensorSource {
		s := ok
		change(&s)
		return []TensorSource{s}
	}
	failing := errors.New("disk on fire")
	deep := Value([]uint8{1})
	for range maxDepth {
		deep = []Value{deep}
	}
	for _, test := range []struct {
		name    string
		kvs     []KV
		tensors []TensorSource
		want    string
	}{
		{"int", []KV{{"n", 1}}, nil, `key "n": wrong type: int is not a metadata value`},
		{"nil", []KV{{"n", nil}}, nil, `key "n": wrong type: <nil> is not`},
		{"twice", []KV{{"n", true}, {"n", false}}, nil, `key "n": duplicate key`},
		{"long key", []KV{{strings.Repeat("k", maxKey+1), true}}, nil, "key of 65536 bytes"},
		{"alignment", []KV{{"general.alignment", uint32(24)}}, nil, "alignment 24 is not a power of two"},
		{"alignment type", []KV{{"general.alignment", uint64(32)}}, nil, "wrong type: uint64 where a uint32"},
		{"nested scalar", []KV{{"n", []Value{uint8(1)}}}, nil, "wrong type: uint8 inside an array of arrays"},
		{"deep", []KV{{"n", deep}}, nil, "nested deeper than"},
		{"tensor twice", nil, []TensorSource{ok, ok}, `tensor "w": duplicate tensor name`},
		{"long name", nil, with(func(s *TensorSource) { s.Name = strings.Repeat("n", 64) }), "name of 64 bytes"},
		{"no writer", nil, with(func(s *TensorSource) { s.Write = nil }), `tensor "w": no Write function`},
		{"type", nil, with(func(s *TensorSource) { s.Type = 99 }), "unknown tensor type 99"},
		{"shape", nil, with(func(s *TensorSource) { s.Dims = []uint64{1, 0} }), "dimension 1 is zero"},
		{"short", nil, with(func(s *TensorSource) { s.Dims = []uint64{2} }), `tensor "w": 4 of 8 bytes were not written`},
		{"long", nil, with(func(s *TensorSource) { s.Type = F16 }), `tensor "w": 2 bytes more than its shape has`},
		{"failing", nil, with(func(s *TensorSource) { s.Write = func(io.Writer) error { return failing } }), "disk on fire"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := Write(io.Discard, test.kvs, test.tensors)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if test.name == "failing" && !errors.Is(err, failing) {
				t.Errorf("%v does not wrap the writer's error", err)
			}
		})
	}
}

// full takes n bytes and then fails, as a full disk does.
type full int

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), int(*f))
	*f -= full(n)
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func TestWriteToFullDisk(t *testing.T) {
	size := len(write(t, sampleKVs(), sampleTensors()))
	for n := range size {
		w := full(n)
		if err := Write(&w, sampleKVs(), sampleTensors()); !errors.Is(err, io.ErrShortWrite) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

func TestOpenFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ok.gguf")
	b := write(t, sampleKVs(), sampleTensors())
	half, empty := filepath.Join(dir, "half.gguf"), filepath.Join(dir, "empty.gguf")
	for path, data := range map[string][]byte{path: b, half: b[:len(b)/2], empty: nil} {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var one [1]byte
	if _, err := f.Reader().ReadAt(one[:], f.DataOffset); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Reader().ReadAt(one[:], 0); err == nil {
		t.Error("the file is still open after Close")
	}
	if _, err := OpenFile(dir); !errors.Is(err, ErrNotGGUF) || !strings.Contains(err.Error(), "it is a directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := OpenFile(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for _, bad := range []string{half, empty} {
		if _, err := OpenFile(bad); err == nil || !strings.HasPrefix(err.Error(), bad+": ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestTypes(t *testing.T) {
	sizes := map[Type]int{ // bytes of 256 weights
		F32: 1024, F16: 512, BF16: 512, F64: 2048, I8: 256, I16: 512, I32: 1024, I64: 2048,
		Q4_0: 144, Q4_1: 160, Q5_0: 176, Q5_1: 192, Q8_0: 272, Q8_1: 288,
		Q2_K: 84, Q3_K: 110, Q4_K: 144, Q5_K: 176, Q6_K: 210, Q8_K: 292,
		IQ2_XXS: 66, IQ2_XS: 74, IQ3_XXS: 98, IQ1_S: 50, IQ4_NL: 144, IQ3_S: 110, IQ2_S: 82, IQ4_XS: 136, IQ1_M: 56,
		TQ1_0: 54, TQ2_0: 66, MXFP4: 136, NVFP4: 144, Q1_0: 36, Q2_0: 72,
	}
	for typ := range Type(64) {
		want, known := sizes[typ]
		got, err := typ.Size(256)
		if known != (err == nil) || known != (typ.BlockWeights() > 0) || known != (typ.BlockBytes() > 0) {
			t.Errorf("%v (%d): size %d, %v", typ, uint32(typ), got, err)
		}
		if known && (got != int64(want) || typ.BlockBytes()*256/typ.BlockWeights() != want) {
			t.Errorf("%v: %d bytes, want %d", typ, got, want)
		}
		if typ.String() == "" {
			t.Errorf("type %d has no name", uint32(typ))
		}
	}
	if s := Type(1e9).String() + ValueType(1e9).String(); s != "type 1000000000value type 1000000000" {
		t.Error(s)
	}
	for _, test := range []struct {
		typ  Type
		dims []uint64
		want int64 // 0: an error
	}{
		{F32, nil, 4},
		{Q8_0, nil, 0},
		{Q8_0, []uint64{33}, 0},
		{Q8_0, []uint64{16, 2}, 0},
		{F32, []uint64{1, 2, 3, 4, 5}, 0},
		{F32, []uint64{5, 0}, 0},
		{I8, []uint64{math.MaxInt64}, math.MaxInt64},
		{I8, []uint64{1 << 63}, 0},
		{F32, []uint64{1 << 62}, 0},
		{F32, []uint64{1 << 32, 1 << 32}, 0},
		{F32, []uint64{1 << 33, 1 << 33, 1 << 33, 1 << 33}, 0},
		{Q4_0, []uint64{1 << 63}, 1 << 58 * 18},
		{4, []uint64{1}, 0},
	} {
		if got, err := test.typ.Size(test.dims...); got != test.want || (err == nil) != (test.want != 0) {
			t.Errorf("%v.Size(%d) = %d, %v", test.typ, test.dims, got, err)
		}
	}
}

// Every model and vocabulary that is at hand opens, and written again differs in no
// byte but padding at its end.
func TestShared(t *testing.T) {
	var files []string
	for _, dir := range []string{"models", "tokenizers"} {
		found, err := filepath.Glob(filepath.Join(testkit.Shared(t, dir), "*.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if tokens, err := f.Strings("tokenizer.ggml.tokens"); err != nil || len(tokens) == 0 {
				t.Errorf("%d tokens, %v", len(tokens), err)
			}
			old, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if binary.LittleEndian.Uint32(old[4:]) != 3 {
				t.Skip("not version 3")
			}
			again := write(t, f.KVs, copied(f))
			n := min(len(old), len(again))
			if !bytes.Equal(old[:n], again[:n]) || len(bytes.Trim(old[n:], "\x00")) != 0 ||
				len(bytes.Trim(again[n:], "\x00")) != 0 {
				t.Error("written again, it differs")
			}
		})
	}
}

// copied returns sources that copy f's tensors.
func copied(f *File) []TensorSource {
	var out []TensorSource
	for _, t := range f.Tensors {
		out = append(out, TensorSource{t.Name, t.Type, t.Dims, func(w io.Writer) error {
			_, err := io.Copy(w, io.NewSectionReader(f.Reader(), t.Offset, t.Size))
			return err
		}})
	}
	return out
}
