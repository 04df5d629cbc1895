package gguf

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
)

func TestGetters(t *testing.T) {
	kvs := append(sampleKVs(),
		KV{"inf", math.Inf(-1)}, KV{"nan", math.NaN()}, KV{"huge", 1e300},
		KV{"small64", int64(7)}, KV{"small64s", []int64{7, -7}}, KV{"positive64s", []uint64{7, 8}},
		KV{"halves", []float64{0.5, 1.5}})
	f, err := open(write(t, kvs, nil))
	if err != nil {
		t.Fatal(err)
	}
	get := map[string]func(string) (any, error){
		"String":   func(k string) (any, error) { return f.String(k) },
		"Bool":     func(k string) (any, error) { return f.Bool(k) },
		"Uint32":   func(k string) (any, error) { return f.Uint32(k) },
		"Uint64":   func(k string) (any, error) { return f.Uint64(k) },
		"Int64":    func(k string) (any, error) { return f.Int64(k) },
		"Float32":  func(k string) (any, error) { return f.Float32(k) },
		"Float64":  func(k string) (any, error) { return f.Float64(k) },
		"Strings":  func(k string) (any, error) { return f.Strings(k) },
		"Int32s":   func(k string) (any, error) { return f.Int32s(k) },
		"Uint32s":  func(k string) (any, error) { return f.Uint32s(k) },
		"Uint64s":  func(k string) (any, error) { return f.Uint64s(k) },
		"Float32s": func(k string) (any, error) { return f.Float32s(k) },
	}
	for _, test := range []struct {
		getter, key string
		want        any // nil: ErrType or ErrRange
	}{
		{"String", "general.architecture", "sample"}, {"String", "empty", ""}, {"String", "u8", nil},
		{"String", "strings", nil},
		{"Bool", "yes", true}, {"Bool", "no", false}, {"Bool", "u8", nil},
		{"Uint32", "u8", uint32(200)}, {"Uint32", "u16", uint32(60000)}, {"Uint32", "u32", uint32(4e9)},
		{"Uint32", "small64", uint32(7)},
		{"Uint32", "i8", nil}, {"Uint32", "i32", nil}, {"Uint32", "u64", nil}, {"Uint32", "f32", nil},
		{"Uint32", "yes", nil}, {"Uint32", "empty", nil}, {"Uint32", "u32s", nil},
		{"Uint64", "u64", uint64(math.MaxUint64)}, {"Uint64", "i64", nil}, {"Uint64", "i16", nil},
		{"Uint64", "small64", uint64(7)},
		{"Int64", "i8", int64(-100)}, {"Int64", "i16", int64(-30000)}, {"Int64", "i32", int64(-2e9)},
		{"Int64", "i64", int64(math.MinInt64)}, {"Int64", "u32", int64(4e9)}, {"Int64", "u64", nil},
		{"Float32", "f32", float32(1.5)}, {"Float32", "f64", float32(0.1)}, {"Float32", "inf", float32(math.Inf(-1))},
		{"Float32", "huge", nil}, {"Float32", "u8", nil}, {"Float32", "empty", nil},
		{"Float64", "f64", 0.1}, {"Float64", "f32", 1.5}, {"Float64", "huge", 1e300}, {"Float64", "i32", nil},
		{"Strings", "strings", []string{"a", "", "\xff\x00 not UTF-8"}}, {"Strings", "none", []string{}},
		{"Strings", "empty", nil}, {"Strings", "u8s", nil},
		{"Int32s", "i32s", []int32{-1, 2}}, {"Int32s", "small64s", []int32{7, -7}}, {"Int32s", "u8s", []int32{1, 255}},
		{"Int32s", "u32s", nil}, {"Int32s", "f32s", nil}, {"Int32s", "i32", nil},
		{"Uint32s", "u32s", []uint32{1, math.MaxUint32}}, {"Uint32s", "positive64s", []uint32{7, 8}},
		{"Uint32s", "u16s", []uint32{1, 65535}}, {"Uint32s", "small64s", nil}, {"Uint32s", "i8s", nil},
		{"Uint32s", "u64s", nil}, {"Uint32s", "bools", nil},
		{"Uint64s", "u32s", []uint64{1, math.MaxUint32}}, {"Uint64s", "small64s", nil}, {"Uint64s", "bools", nil},
		{"Float32s", "f32s", []float32{-0.5, float32(math.Inf(1))}}, {"Float32s", "halves", []float32{0.5, 1.5}},
		{"Float32s", "f64s", nil}, {"Float32s", "i32s", nil},
	} {
		got, err := get[test.getter](test.key)
		if test.want == nil {
			if errors.Is(err, ErrType) == errors.Is(err, ErrRange) || !reflect.ValueOf(got).IsZero() {
				t.Errorf("%s(%q) = %v, %v; want ErrType or ErrRange", test.getter, test.key, got, err)
			}
		} else if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s(%q) = %v, %v; want %v", test.getter, test.key, got, err, test.want)
		}
	}
	for name, get := range get {
		got, err := get("absent")
		if !errors.Is(err, ErrMissing) || !reflect.ValueOf(got).IsZero() {
			t.Errorf("%s of an absent key = %v, %v", name, got, err)
		}
	}
	if x, err := f.Float32("nan"); err != nil || x == x {
		t.Errorf("NaN became %v, %v", x, err)
	}
	if v, ok := f.Value("absent"); ok || v != nil || f.Has("absent") || !f.Has("u8") {
		t.Error("Value or Has")
	}
	_, missing := f.Uint32("absent")
	_, wrong := f.Uint32("f32s")
	_, range_ := f.Uint32("i8")
	_, element := f.Uint32s("small64s")
	got := fmt.Sprintf("%v\n%v\n%v\n%v", missing, wrong, range_, element)
	if want := `test.gguf: key "absent": the key is missing
test.gguf: key "f32s": wrong type: array of 2 float32 where an integer is needed
test.gguf: key "i8": out of range: -100 does not fit uint32
test.gguf: key "small64s": out of range: element 1, -7, does not fit uint32`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
