package convert

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// MXFP4 as safetensors have it: a tensor of codes [experts][rows][blocks][16], two weights a byte, the low nibble
// first, and a tensor of scales [experts][rows][blocks], both of U8. GGUF has a block's scale and codes together, and
// in byte i those of weights i and 16+i. Codes and scales mean the same in both.

const (
	mxfp4Weights = 32 // of a block
	mxfp4Codes   = mxfp4Weights / 2
	mxfp4Bytes   = 1 + mxfp4Codes // of a block of GGUF
	mxfp4NaN     = 255            // the scale that is no number
)

// checkMXFP4 checks the tensor from of a target of such weights.
func (b *builder) checkMXFP4(t target, from string) error {
	s, ok := b.weights.tensors[from]
	if !ok {
		return fmt.Errorf("%s: tensor %s is missing", b.config.file, from)
	}
	want := []int{t.stack, max(t.rows, t.sourceRows) / t.stack, t.cols / mxfp4Weights}
	bytes := int64(want[0]) * int64(want[1]) * int64(want[2])
	if from == t.from {
		want, bytes = append(want, mxfp4Codes), mxfp4Codes*bytes
	}
	if !slices.Equal(s.shape, want) || t.cols%mxfp4Weights != 0 {
		return fmt.Errorf("%s: tensor %s: shape %v, %v expected by config.json", s.file.Name(), from, s.shape, want)
	}
	if s.dtype != "U8" || s.size != bytes || s.strides != nil {
		return fmt.Errorf("%s: tensor %s: %d bytes of type %q, %d of U8 expected", s.file.Name(), from, s.size, s.dtype,
			bytes)
	}
	return nil
}

// writeMXFP4 writes a tensor of such weights, until ctx ends. It holds one expert's in memory.
func (m *Model) writeMXFP4(ctx context.Context, w io.Writer, t target) error {
	row := make([]byte, t.cols/mxfp4Weights*mxfp4Bytes)
	for k := range t.stack {
		if err := ctx.Err(); err != nil {
			return err
		}
		codes, err := m.weights.tensors[t.from].matrix(k, t.stack).bytes()
		if err != nil {
			return err
		}
		scales, err := m.weights.tensors[t.codeScales].matrix(k, t.stack).bytes()
		if err != nil {
			return err
		}
		for r := range t.rows / t.stack {
			from := r
			if t.order != nil {
				from = t.order(r)
			}
			at := from * (t.cols / mxfp4Weights)
			for to := row; len(to) > 0; to, at = to[mxfp4Bytes:], at+1 {
				if scales[at] == mxfp4NaN {
					return fmt.Errorf("from %s: expert %d, row %d: the scale of a block is not a number", t.codeScales, k, from)
				}
				to[0] = scales[at]
				packMXFP4(to[1:mxfp4Bytes], codes[at*mxfp4Codes:][:mxfp4Codes])
			}
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// packMXFP4 puts the codes of a block into GGUF's order.
func packMXFP4(to, from []byte) {
	for i := range to {
		low := from[i/2] >> (4 * (i % 2)) & 15
		high := from[mxfp4Codes/2+i/2] >> (4 * (i % 2)) & 15
		to[i] = low | high<<4
	}
}
