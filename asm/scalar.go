package asm

// Scalar returns the scalar set: plain Go, complete, available on every machine. It is the specification of all other
// sets.
func Scalar() Kernels {
	k := Kernels{
		Name:            "scalar",
		Quantize:        quantize,
		SumSquares:      sumSquares,
		RMSNorm:         rmsNorm,
		LayerNorm:       layerNorm,
		Finite:          finite,
		Add:             add,
		Blend:           blend,
		Divide:          divide,
		SiLUMul:         siluMul,
		SigmoidMul:      sigmoidMul,
		GELU:            gelu,
		GELUErf:         geluErf,
		RopeInterleaved: ropeInterleaved,
		RopeHalves:      ropeHalves,
		Exp:             exp,
		ExpSum:          expSum,
		EncodeF16:       encodeF16,
		DecodeF16:       decodeF16,
		ArgMax:          argMax,
		Gumbel:          gumbel,
		MaxHash:         maxHash,
		ReadSum:         readSum,
		Transpose:       transpose,
		KeyPage:         keyPage,
		ValuePage:       valuePage,
		Conv:            conv,
		DeltaScan:       deltaScan,
		Mamba2Scan:      mamba2Scan,
		Scores: [kvCount]func(out, q []float32, k []byte, dim, rows, keys int, scale float32){
			KVF16: scoresF16, KVF32: scoresF32, KVQ8_0: scoresQ8_0,
		},
		Values: [kvCount]func(o, p []float32, v []byte, dim, rows, from, to int){
			KVF16: valuesF16, KVF32: valuesF32, KVQ8_0: valuesQ8_0,
		},
	}
	for f := range formats {
		k.MatMul[f], k.Inflate[f] = formats[f].matMul, formats[f].inflate
	}
	return k
}
