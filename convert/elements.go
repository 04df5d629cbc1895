package convert

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/specgo/spec/tensor"
)

// decodeElements turns little-endian elements into float32; float64 is rounded.
func decodeElements(dtype string, raw []byte) ([]float32, error) {
	width, ok := elementBytes[dtype]
	if !ok {
		return nil, fmt.Errorf("elements of type %q are not supported (F32, F16, BF16 and F64 are)", dtype)
	}
	x := make([]float32, int64(len(raw))/width)
	switch dtype {
	case "F32":
		return x, tensor.Decode(tensor.F32, x, raw)
	case "F16":
		return x, tensor.Decode(tensor.F16, x, raw)
	case "BF16":
		return x, tensor.Decode(tensor.BF16, x, raw)
	}
	for i := range x {
		x[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])))
	}
	return x, nil
}
