package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/tensor"
)

// vectorFormats are the forms in which embed writes vectors; text is the default.
var vectorFormats = []string{"text", "jsonl", "float32", "float16", "int8", "binary", "npy"}

// vectorLine is a vector in the form of lines of JSON.
type vectorLine struct {
	ID        json.RawMessage `json:"id,omitempty"` // of texts that have one
	Embedding []float32       `json:"embedding"`
}

// vectorHeader is what a file of vectors begins with.
func vectorHeader(format string, texts, size int) []byte {
	if format == "npy" {
		return npyHeader(texts, size)
	}
	return nil
}

// vectorBytes is how many bytes a vector of size numbers has, 0 for forms in which that differs.
func vectorBytes(format string, size int) int {
	switch format {
	case "float32", "npy":
		return 4 * size
	case "float16":
		return 2 * size
	case "int8":
		return size
	case "binary":
		return (size + 7) / 8
	}
	return 0
}

// appendVector appends a vector in one of vectorFormats. id is for lines of JSON.
func appendVector(row []byte, format string, v []float32, id json.RawMessage) ([]byte, error) {
	switch format {
	case "jsonl":
		b := bytes.NewBuffer(row)
		err := printJSON(b, vectorLine{id, v})
		return b.Bytes(), err
	case "float32", "npy":
		for _, x := range v {
			row = binary.LittleEndian.AppendUint32(row, math.Float32bits(x))
		}
	case "float16":
		n := len(row)
		row = slices.Grow(row, 2*len(v))[:n+2*len(v)]
		if err := tensor.Encode(tensor.F16, row[n:], v); err != nil {
			return nil, err
		}
	case "int8":
		row = appendInt8(row, v)
	case "binary":
		row = appendBits(row, v)
	default:
		for i, x := range v { // as many digits as tell a number from every other float32
			if i > 0 {
				row = append(row, ' ')
			}
			row = strconv.AppendFloat(row, float64(x), 'g', -1, 32)
		}
		row = append(row, '\n')
	}
	return row, nil
}

// appendInt8 appends x*127/m rounded half to even, m the greatest absolute value; zeros stay zeros.
func appendInt8(row []byte, v []float32) []byte {
	m := 0.0
	for _, x := range v {
		m = max(m, math.Abs(float64(x)))
	}
	for _, x := range v {
		q := 0.0
		if m > 0 {
			q = math.RoundToEven(float64(x) * 127 / m)
		}
		row = append(row, byte(int8(q)))
	}
	return row
}

// appendBits appends a bit for each number, 1 for those above 0, the first one the highest of its byte; the last byte
// is filled with zeros.
func appendBits(row []byte, v []float32) []byte {
	for i, x := range v {
		if i%8 == 0 {
			row = append(row, 0)
		}
		if x > 0 {
			row[len(row)-1] |= 0x80 >> (i % 8)
		}
	}
	return row
}

// npyHeader is what NumPy's format, version 1.0, begins with: of a matrix of float32.
func npyHeader(rows, cols int) []byte {
	const alignment = 64
	h := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, cols)
	front := "\x93NUMPY\x01\x00"
	n := len(front) + 2 + len(h) + 1
	h += strings.Repeat(" ", (alignment-n%alignment)%alignment) + "\n"
	return append(binary.LittleEndian.AppendUint16([]byte(front), uint16(len(h))), h...)
}
