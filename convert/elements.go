package convert

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/specgo/spec/tensor"
)

// e4m3 has the numbers of F8_E4M3 by their bytes: a sign, 4 bits of an exponent, 3 of a mantissa. There is no infinity;
// where the other bits are all ones it is not a number.
var e4m3 = func() (list [256]float32) {
	for b := range list {
		exponent, mantissa := b>>3&15, float64(b&7)
		x := math.Ldexp(mantissa, -9)
		if exponent > 0 {
			x = math.Ldexp(8+mantissa, exponent-10)
		}
		if b&127 == 127 {
			x = math.NaN()
		}
		list[b] = float32(math.Copysign(x, float64(127-b)))
	}
	return list
}()

// decodeElements turns little-endian elements into float32; float64 is rounded.
func decodeElements(dtype string, raw []byte) ([]float32, error) {
	width, ok := elementBytes[dtype]
	if !ok {
		return nil, fmt.Errorf("elements of type %q are not supported (F32, F16, BF16, F64 and F8_E4M3 are)", dtype)
	}
	x := make([]float32, int64(len(raw))/width)
	switch dtype {
	case "F32":
		return x, tensor.Decode(tensor.F32, x, raw)
	case "F16":
		return x, tensor.Decode(tensor.F16, x, raw)
	case "BF16":
		return x, tensor.Decode(tensor.BF16, x, raw)
	case "F8_E4M3":
		for i, b := range raw {
			x[i] = e4m3[b]
		}
		return x, nil
	}
	for i := range x {
		x[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])))
	}
	return x, nil
}
