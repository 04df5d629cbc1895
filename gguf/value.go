package gguf

import "fmt"

// Value is one metadata value, as the Go type that corresponds to its type in the
// file: uint8, int8, uint16, int16, uint32, int32, uint64, int64, float32, float64,
// bool or string; a slice of one of these; or, for an array of arrays, []Value,
// whose elements are slices. No other Go type is a metadata value; int is not one
// because its width depends on the platform.
type Value any

// KV is one metadata entry. Keys are dotted names: "llama.block_count".
type KV struct {
	Key   string
	Value Value
}

// ValueType is the type of a metadata value in the file.
type ValueType uint32

const (
	ValueUint8   ValueType = 0
	ValueInt8    ValueType = 1
	ValueUint16  ValueType = 2
	ValueInt16   ValueType = 3
	ValueUint32  ValueType = 4
	ValueInt32   ValueType = 5
	ValueFloat32 ValueType = 6
	ValueBool    ValueType = 7
	ValueString  ValueType = 8
	ValueArray   ValueType = 9
	ValueUint64  ValueType = 10
	ValueInt64   ValueType = 11
	ValueFloat64 ValueType = 12
)

var valueTypes = [...]string{
	"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool",
	"string", "array", "uint64", "int64", "float64",
}

// String returns the type's name: "uint32".
func (t ValueType) String() string {
	if int64(t) < int64(len(valueTypes)) {
		return valueTypes[t]
	}
	return fmt.Sprintf("value type %d", uint32(t))
}

// TypeOf returns the type that v has in a file. For an array elem is the type of
// its elements and n their number. It reports false if v is not a metadata value.
func TypeOf(v Value) (t, elem ValueType, n int, ok bool) {
	array := func(elem ValueType, n int) (ValueType, ValueType, int, bool) { return ValueArray, elem, n, true }
	switch v := v.(type) {
	case uint8:
		t = ValueUint8
	case int8:
		t = ValueInt8
	case uint16:
		t = ValueUint16
	case int16:
		t = ValueInt16
	case uint32:
		t = ValueUint32
	case int32:
		t = ValueInt32
	case uint64:
		t = ValueUint64
	case int64:
		t = ValueInt64
	case float32:
		t = ValueFloat32
	case float64:
		t = ValueFloat64
	case bool:
		t = ValueBool
	case string:
		t = ValueString
	case []uint8:
		return array(ValueUint8, len(v))
	case []int8:
		return array(ValueInt8, len(v))
	case []uint16:
		return array(ValueUint16, len(v))
	case []int16:
		return array(ValueInt16, len(v))
	case []uint32:
		return array(ValueUint32, len(v))
	case []int32:
		return array(ValueInt32, len(v))
	case []uint64:
		return array(ValueUint64, len(v))
	case []int64:
		return array(ValueInt64, len(v))
	case []float32:
		return array(ValueFloat32, len(v))
	case []float64:
		return array(ValueFloat64, len(v))
	case []bool:
		return array(ValueBool, len(v))
	case []string:
		return array(ValueString, len(v))
	case []Value:
		return array(ValueArray, len(v))
	default:
		return 0, 0, 0, false
	}
	return t, 0, 0, true
}

// describe names v's type for a message: "array of 3 float32".
func describe(v Value) string {
	t, elem, n, ok := TypeOf(v)
	switch {
	case !ok:
		return fmt.Sprintf("%T", v)
	case t == ValueArray:
		return fmt.Sprintf("array of %d %v", n, elem)
	}
	return t.String()
}
