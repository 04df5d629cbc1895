package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/specgo/spec/tensor"
)

// vectorFormats are the forms in which embed writes vectors; text is the default.
var vectorFormats = []string{"text", "jsonl", "float32", "float16", "int8", "binary", "npy"}

// vectorWriter writes vectors in one of vectorFormats.
type vectorWriter struct {
	w      *bufio.Writer
	format string
	begun  bool
	row    []byte
}

// write writes a vector, of texts in all.
func (o *vectorWriter) write(v []float32, texts int) error {
	if o.format == "npy" && !o.begun {
		o.w.Write(npyHeader(texts, len(v)))
	}
	o.begun, o.row = true, o.row[:0]
	switch o.format {
	case "jsonl":
		line, err := json.Marshal(struct {
			Embedding []float32 `json:"embedding"`
		}{v})
		if err != nil {
			return err
		}
		o.row = append(line, '\n')
	case "float32", "npy":
		for _, x := range v {
			o.row = binary.LittleEndian.AppendUint32(o.row, math.Float32bits(x))
		}
	case "float16":
		o.row = slices.Grow(o.row, 2*len(v))[:2*len(v)]
		if err := tensor.Encode(tensor.F16, o.row, v); err != nil {
			return err
		}
	case "int8":
		o.row = appendInt8(o.row, v)
	case "binary":
		o.row = appendBits(o.row, v)
	default:
		return writeVector(o.w, v)
	}
	_, err := o.w.Write(o.row)
	return err
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
