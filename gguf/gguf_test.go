package gguf

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"testing"
)

// sampleKVs has every value type, alone and in arrays.
func sampleKVs() []KV {
	return []KV{
		{"general.architecture", "sample"},
		{"u8", uint8(200)}, {"i8", int8(-100)}, {"u16", uint16(60000)}, {"i16", int16(-30000)},
		{"u32", uint32(4e9)}, {"i32", int32(-2e9)}, {"u64", uint64(math.MaxUint64)}, {"i64", int64(math.MinInt64)},
		{"f32", float32(1.5)}, {"f64", 0.1}, {"yes", true}, {"no", false}, {"empty", ""},
		{"u8s", []uint8{1, 255}}, {"i8s", []int8{-1, 127}}, {"u16s", []uint16{1, 65535}}, {"i16s", []int16{-1, 2}},
		{"u32s", []uint32{1, math.MaxUint32}}, {"i32s", []int32{-1, 2}}, {"u64s", []uint64{1, math.MaxUint64}},
		{"i64s", []int64{-1, 2}},
		{"f32s", []float32{-0.5, float32(math.Inf(1))}}, {"f64s", []float64{0.25, 1e300}},
		{"bools", []bool{true, false, true}}, {"strings", []string{"a", "", "\xff\x00 not UTF-8"}}, {"none", []string{}},
		{"nested", []Value{[]uint32{1}, []string{"x"}, []Value{[]bool{true}}}},
	}
}

func source(name string, t Type, data []byte, dims ...uint64) TensorSource {
	return TensorSource{Name: name, Type: t, Dims: dims, Write: func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}}
}

func count(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i)
	}
	return p
}

func sampleTensors() []TensorSource {
	return []TensorSource{
		source("odd", I8, count(3), 3),
		source("matrix", Q8_0, count(2*3*34), 64, 3),
		source("scalar", F32, count(4)),
		source("four", F16, count(2*2*3*4*5), 2, 3, 4, 5),
	}
}

func write(t testing.TB, kvs []KV, tensors []TensorSource) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, kvs, tensors); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(b []byte) (*File, error) { return Open(bytes.NewReader(b), int64(len(b)), "test.gguf") }

// A raw builds headers by hand, damaged ones included.
type raw []byte

func header(version uint32, tensors, kvs uint64) raw {
	return raw("GGUF").u32(version).u64(tensors).u64(kvs)
}
func (r raw) u8(v byte) raw       { return append(r, v) }
func (r raw) u32(v uint32) raw    { return binary.LittleEndian.AppendUint32(r, v) }
func (r raw) u64(v uint64) raw    { return binary.LittleEndian.AppendUint64(r, v) }
func (r raw) str(s string) raw    { return append(r.u64(uint64(len(s))), s...) }
func (r raw) zeros(n int) raw     { return append(r, make([]byte, n)...) }
func (r raw) pad(align int) raw   { return r.zeros(-len(r) & (align - 1)) }
func (r raw) key(k string) raw    { return r.str(k) }
func (r raw) typ(t ValueType) raw { return r.u32(uint32(t)) }
func (r raw) tensor(name string, t Type, offset uint64, dims ...uint64) raw {
	r = r.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		r = r.u64(d)
	}
	return r.u32(uint32(t)).u64(offset)
}
