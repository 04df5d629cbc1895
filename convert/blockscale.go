package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// blockScales are the factors of a tensor in F8_E4M3, one for each block of so many rows and columns of its matrices. A
// factor for a whole matrix is one of a block that is as large as any.
type blockScales struct {
	of         stored // [⌈rows/block⌉][⌈columns/block⌉], of each matrix
	rows, cols int
}

// scaleEnd is what stands behind the name of a tensor in the name of its factors.
const scaleEnd = "_scale_inv"

// blockScales gives the tensors in F8_E4M3 their factors, as quantization_config says.
func (b *builder) blockScales() error {
	q := b.config.object("quantization_config")
	if q == nil || b.arch == "gpt-oss" && q.text("quant_method") == "mxfp4" { // whose tensors say so
		return *b.config.err
	}
	q.required("quant_method", "weights in blocks with factors are read", "fp8")
	q.must("fmt", "this is read", "e4m3")
	for _, key := range []string{"activation_scheme", "modules_to_not_convert", "ignored_layers", "dequantize"} {
		q.has(key) // activations are not rounded here; which tensors are plain is told by their types
	}
	q.must("scale_fmt", "factors are read as they are", "float", "ue8m0")
	block := []float32{largest, largest}
	if q.has("weight_block_size") {
		block = q.numbers("weight_block_size")
	}
	if len(block) != 2 || !isSize(block[0]) || !isSize(block[1]) {
		q.fail("weight_block_size", "%v, two sizes expected", block)
	}
	if q.rest(); *b.config.err != nil {
		return *b.config.err
	}
	w, n := b.weights, 0
	for _, name := range w.names {
		t := w.tensors[name]
		if t.dtype != "F8_E4M3" {
			continue
		}
		for _, end := range []string{"activation_scale", "input_scale"} {
			b.skip(strings.TrimSuffix(name, "weight") + end)
		}
		s, ok := w.tensors[name+scaleEnd]
		if !ok {
			return fmt.Errorf("%s: tensor %s is missing: the factors of %s", t.file.Name(),
				gguf.Printable(name+scaleEnd, 80), gguf.Printable(name, 80))
		}
		t.scales = &blockScales{of: s, rows: int(block[0]), cols: int(block[1])}
		want := t.scaleShape()
		one := len(want) == 2 && want[0]*want[1] == 1 && (len(s.shape) == 0 || slices.Equal(s.shape, []int{1}))
		if want == nil || !one && !slices.Equal(s.shape, want) || elementBytes[s.dtype] < 2 {
			return fmt.Errorf("%s: tensor %s: %s of shape %v, %v of numbers expected for %v in blocks of %v", s.file.Name(),
				gguf.Printable(name+scaleEnd, 80), gguf.Printable(s.dtype, 20), s.shape, want, t.shape,
				[]int{t.scales.rows, t.scales.cols})
		}
		w.tensors[name] = t
		b.skip(name + scaleEnd)
		n++
	}
	if n > 0 {
		b.note("%d matrices of 8 bits are written as what they stand for; what they are multiplied with is not rounded to 8 "+
			"bits, as it was in the source", n)
	}
	return nil
}

func isSize(x float32) bool { return x >= 1 && x <= largest && x == float32(int(x)) }

// scaleShape is that of the factors of a tensor, which is a matrix or several; nil: it is none.
func (s stored) scaleShape() []int {
	n := len(s.shape)
	if n < 2 || s.strides != nil {
		return nil
	}
	shape := slices.Clone(s.shape)
	shape[n-2] = (shape[n-2] + s.scales.rows - 1) / s.scales.rows
	shape[n-1] = (shape[n-1] + s.scales.cols - 1) / s.scales.cols
	return shape
}

// scale multiplies the elements x of a tensor by their factors.
func (s stored) scale(x []float32) error {
	factors, err := s.scales.of.read()
	if err != nil {
		return err
	}
	shape := s.scaleShape()
	rows, cols := s.shape[len(shape)-2], s.shape[len(shape)-1]
	down, across := shape[len(shape)-2], shape[len(shape)-1]
	for i := range x {
		matrix, row, col := i/(rows*cols), i/cols%rows, i%cols
		x[i] *= factors[(matrix*down+row/s.scales.rows)*across+col/s.scales.cols]
	}
	return nil
}
