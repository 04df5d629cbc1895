package spec

import (
	"fmt"
	"math"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/tensor"
)

// Norm says to what length a vector is brought. Its numbers are not those of llama.cpp's options: see [ParseNorm].
type Norm uint8

// The norms. The zero value makes vectors whose scalar products are cosines.
const (
	NormL2   Norm = iota // the root of the sum of squares is 1
	NormNone             // vectors stay as they are pooled
	NormL1               // the sum of absolute values is 1
	NormMax              // the greatest absolute value is 32760, for integers of 16 bits
)

// maxNorm is the greatest number of NormMax, which llama.cpp has.
const maxNorm = 32760

// ParseNorm is the norm that llama.cpp's option embd_normalize numbers so: -1 none, 0 greatest absolute value, 1 sum
// of absolute values, 2 root of the sum of squares.
func ParseNorm(n int) (Norm, error) {
	norms := []Norm{NormNone, NormMax, NormL1, NormL2}
	if n < -1 || n >= len(norms)-1 {
		return 0, fmt.Errorf("%w: normalization %d (there are -1, 0, 1 and 2)", ErrOptions, n)
	}
	return norms[n+1], nil
}

// apply brings x to its length; zeros stay zeros.
func (n Norm) apply(x []float32) {
	length := 0.0
	switch n {
	case NormL2:
		tensor.Normalize(x)
		return
	case NormL1:
		for _, v := range x {
			length += math.Abs(float64(v))
		}
	case NormMax:
		for _, v := range x {
			length = max(length, math.Abs(float64(v))/maxNorm)
		}
	}
	for i, v := range x {
		if length > 0 {
			x[i] = float32(float64(v) / length)
		}
	}
}

// checkDimensions refuses more numbers than vectors of the model have; 0 are all.
func (m *Model) checkDimensions(o EmbedOptions) error {
	if size := m.VectorSize(); o.Dimensions < 0 || o.Dimensions > size {
		return bad("dimensions", "%s has %d", m.name, size)
	}
	if o.Norm > NormMax {
		return fmt.Errorf("%w: normalization %d", ErrOptions, o.Norm)
	}
	return nil
}

// VectorSize is the number of numbers of the model's vectors.
func (m *Model) VectorSize() int { return m.parts.Target.VectorSize(engine.PoolMean) }
