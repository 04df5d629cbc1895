package gguf

import (
	"errors"
	"fmt"
	"math"
)

var (
	// ErrMissing means that a file has no such key.
	ErrMissing = errors.New("the key is missing")
	// ErrType means that a value has another type than was asked for.
	ErrType = errors.New("wrong type")
	// ErrRange means that a number does not fit into the type that was asked for.
	ErrRange = errors.New("out of range")
)

// Has reports whether the metadata has the key.
func (f *File) Has(key string) bool {
	_, ok := f.keys[key]
	return ok
}

// Value returns a key's value in its type in the file, and whether the key exists.
func (f *File) Value(key string) (Value, bool) {
	i, ok := f.keys[key]
	if !ok {
		return nil, false
	}
	return f.KVs[i].Value, true
}

// The getters below return an error that names the file and the key and wraps
// ErrMissing, ErrType or ErrRange. Those for integers take every integer type, because
// writers differ in it, as long as the value fits. There are no conversions
// between integers, floats, bools and strings.

// String returns the value of a key that holds a string.
func (f *File) String(key string) (string, error) { return exactly[string](f, key, "a string") }

// Bool returns the value of a key that holds a bool.
func (f *File) Bool(key string) (bool, error) { return exactly[bool](f, key, "a bool") }

// Strings returns the value of a key that holds an array of strings.
func (f *File) Strings(key string) ([]string, error) {
	return exactly[[]string](f, key, "an array of strings")
}

// Uint32 returns the value of a key that holds an integer from 0 to 2^32-1.
func (f *File) Uint32(key string) (uint32, error) { return integer[uint32](f, key) }

// Uint64 returns the value of a key that holds an integer that is not negative.
func (f *File) Uint64(key string) (uint64, error) { return integer[uint64](f, key) }

// Int64 returns the value of a key that holds an integer up to 2^63-1.
func (f *File) Int64(key string) (int64, error) { return integer[int64](f, key) }

// Int32s returns the value of a key that holds an array of integers that fit 32 bits.
func (f *File) Int32s(key string) ([]int32, error) { return integers[int32](f, key) }

// Uint32s returns the value of a key that holds an array of integers from 0 to 2^32-1.
func (f *File) Uint32s(key string) ([]uint32, error) { return integers[uint32](f, key) }

// Uint64s returns the value of a key that holds an array of integers that are not negative.
func (f *File) Uint64s(key string) ([]uint64, error) { return integers[uint64](f, key) }

// Float64 returns the value of a key that holds a float of either width.
func (f *File) Float64(key string) (float64, error) {
	v, err := f.need(key)
	switch v := v.(type) {
	case float64:
		return v, nil
	case float32:
		return float64(v), nil
	}
	return 0, wrong(err, f, key, v, "a float")
}

// Float32 returns the value of a key that holds a float of either width; a float64
// is rounded, and refused if it overflows.
func (f *File) Float32(key string) (float32, error) {
	v, err := f.need(key)
	switch v := v.(type) {
	case float32:
		return v, nil
	case float64:
		if x, ok := narrow(v); ok {
			return x, nil
		}
		return 0, f.failKey(key, ErrRange, "%v does not fit float32", v)
	}
	return 0, wrong(err, f, key, v, "a float")
}

// Float32s returns the value of a key that holds an array of floats, as Float32 does.
func (f *File) Float32s(key string) ([]float32, error) {
	v, err := f.need(key)
	switch v := v.(type) {
	case []float32:
		return v, nil
	case []float64:
		out := make([]float32, len(v))
		for i, x := range v {
			var ok bool
			if out[i], ok = narrow(x); !ok {
				return nil, f.failKey(key, ErrRange, "element %d, %v, does not fit float32", i, x)
			}
		}
		return out, nil
	}
	return nil, wrong(err, f, key, v, "an array of floats")
}

func narrow(x float64) (float32, bool) {
	y := float32(x)
	return y, !math.IsInf(float64(y), 0) || math.IsInf(x, 0)
}

func (f *File) need(key string) (Value, error) {
	if v, ok := f.Value(key); ok {
		return v, nil
	}
	return nil, fmt.Errorf("%s: key %s: %w", fileName(f.Name), quote(key), ErrMissing)
}

func (f *File) failKey(key string, kind error, format string, args ...any) error {
	return fmt.Errorf("%s: key %s: %w: %s", fileName(f.Name), quote(key), kind, fmt.Sprintf(format, args...))
}

// wrong is err, or the error that v is not what was wanted.
func wrong(err error, f *File, key string, v Value, want string) error {
	if err != nil {
		return err
	}
	return f.failKey(key, ErrType, "%s where %s is needed", describe(v), want)
}

func exactly[T any](f *File, key, want string) (T, error) {
	v, err := f.need(key)
	if t, ok := v.(T); ok {
		return t, nil
	}
	var zero T
	return zero, wrong(err, f, key, v, want)
}

type number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64
}

func integer[T number](f *File, key string) (T, error) {
	v, err := f.need(key)
	var x T
	var ok bool
	switch v := v.(type) {
	case uint8:
		x, ok = fit[T](v)
	case int8:
		x, ok = fit[T](v)
	case uint16:
		x, ok = fit[T](v)
	case int16:
		x, ok = fit[T](v)
	case uint32:
		x, ok = fit[T](v)
	case int32:
		x, ok = fit[T](v)
	case uint64:
		x, ok = fit[T](v)
	case int64:
		x, ok = fit[T](v)
	default:
		return 0, wrong(err, f, key, v, "an integer")
	}
	if !ok {
		return 0, f.failKey(key, ErrRange, "%v does not fit %T", v, x)
	}
	return x, nil
}

func integers[T number](f *File, key string) ([]T, error) {
	v, err := f.need(key)
	if v, ok := v.([]T); ok {
		return v, nil
	}
	switch v := v.(type) {
	case []uint8:
		return fitAll[T](f, key, v)
	case []int8:
		return fitAll[T](f, key, v)
	case []uint16:
		return fitAll[T](f, key, v)
	case []int16:
		return fitAll[T](f, key, v)
	case []uint32:
		return fitAll[T](f, key, v)
	case []int32:
		return fitAll[T](f, key, v)
	case []uint64:
		return fitAll[T](f, key, v)
	case []int64:
		return fitAll[T](f, key, v)
	}
	return nil, wrong(err, f, key, v, "an array of integers")
}

// fit converts x and reports whether it is still the same number.
func fit[T, S number](x S) (T, bool) {
	y := T(x)
	return y, S(y) == x && (y < 0) == (x < 0)
}

func fitAll[T, S number](f *File, key string, in []S) ([]T, error) {
	out := make([]T, len(in))
	for i, x := range in {
		var ok bool
		if out[i], ok = fit[T](x); !ok {
			return nil, f.failKey(key, ErrRange, "element %d, %d, does not fit %T", i, x, out[i])
		}
	}
	return out, nil
}
