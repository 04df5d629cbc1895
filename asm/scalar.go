package asm

// Scalar returns the scalar set: plain Go, complete, available on every machine. It is the specification of all other
// sets.
func Scalar() Kernels {
	k := Kernels{
		Name:          "scalar",
		MatrixKernels: MatrixKernels{Quantize: quantize, EncodeQ4_0: EncodeQ4_0},
		NormKernels:   NormKernels{SumSquares: sumSquares, RMSNorm: rmsNorm, LayerNorm: layerNorm},
		ElementKernels: ElementKernels{
			Add: add, Blend: blend, Divide: divide,
			SiLUMul: siluMul, SigmoidMul: sigmoidMul, GELU: gelu, GELUErf: geluErf, Exp: exp,
		},
		AttentionKernels: AttentionKernels{
			RopeInterleaved: ropeInterleaved, RopeHalves: ropeHalves, ExpSum: expSum, ExpSums: expSumsOf(expSum),
			KeyPage: keyPage, ValuePage: valuePage,
			Scores: [kvCount]func(out, q []float32, k []byte, dim, rows, keys int, scale float32, ahead []byte){
				KVF16: scoresF16, KVF32: scoresF32, KVQ8_0: scoresQ8_0, KVQ4_0: scoresQ4_0,
			},
			Values: [kvCount]func(o, p []float32, v []byte, dim, rows, from, to int, ahead []byte){
				KVF16: valuesF16, KVF32: valuesF32, KVQ8_0: valuesQ8_0, KVQ4_0: valuesQ4_0,
			},
			ValuesOfKeys: [kvCount]func(v, k []byte, dim, values, n int){
				KVF16: valuesOfKeysF16, KVF32: valuesOfKeysF32, KVQ8_0: valuesOfKeysQ8_0, KVQ4_0: valuesOfKeysQ4_0,
			},
		},
		RecurrentKernels: RecurrentKernels{Conv: conv, DeltaScan: deltaScan, Mamba2Scan: mamba2Scan},
		ChoiceKernels:    ChoiceKernels{ArgMax: argMax, Gumbel: gumbel, MaxHash: maxHash},
		MemoryKernels: MemoryKernels{
			EncodeF16: encodeF16, DecodeF16: decodeF16, Transpose: transpose, Finite: finite, ReadSum: readSum,
		},
	}
	for f := range formats {
		k.Weights[f].MatMul, k.Weights[f].Inflate = formats[f].matMul, formats[f].inflate
	}
	return k
}
