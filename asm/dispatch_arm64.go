//go:build !purego

package asm

import "golang.org/x/sys/cpu"

// sets returns the kernel sets this machine can run, best last. golang.org/x/sys/cpu says which features there are;
// every arm64 has NEON.
func sets() []Kernels {
	all := []Kernels{Scalar(), neon()}
	if cpu.ARM64.HasASIMDDP {
		all = append(all, dotprod())
		if cpu.ARM64.HasI8MM {
			all = append(all, i8mm())
		}
	}
	return all
}

// neon needs NEON only, which every arm64 processor has.
func neon() Kernels {
	k := Scalar()
	k.Name = "neon"
	k.Weights[F32].MatMul = floatMatMul(f32NEON, 64, 6)
	k.Weights[F16].MatMul = floatMatMul(f16NEON, 32, 6)
	k.Weights[NVFP4].MatMul = k.Weights[F16].MatMul
	k.Weights[BF16].MatMul = floatMatMul(bf16NEON, 32, 6)
	integerNEON(&k)
	inflatesNEON(&k)
	shareQ4_0(&k)
	k.SumSquares, k.RMSNorm, k.LayerNorm = sumSquaresNEON, rmsNormNEON, layerNormNEON
	k.Add, k.Blend = addNEON, blendNEON
	k.Exp, k.ExpSum, k.SiLUMul, k.SigmoidMul, k.GELU = expNEON, expSumNEON, siluMulNEON, sigmoidMulNEON, geluNEON
	k.ExpSums = expSumsOf(expSumNEON)
	k.GELUErf = geluErfNEON
	k.RopeHalves, k.RopeInterleaved = ropeHalvesNEON, ropeInterleavedARM64
	k.Quantize, k.EncodeF16, k.DecodeF16 = quantizeARM64, encodeF16ARM64, decodeF16ARM64
	k.EncodeQ4_0 = encodeQ4_0ARM64
	k.ArgMax, k.Finite = argMaxARM64, finiteARM64
	k.Gumbel, k.MaxHash = gumbelARM64, maxHashARM64
	k.ReadSum = readSumNEON
	k.Divide, k.Conv = divideNEON, convOf(convNEON)
	k.DeltaScan, k.Mamba2Scan = deltaScanOf(deltaScanNEON, nil, 0), mamba2ScanOf(mamba2ScanNEON, nil, 0)
	k.Scores[KVF16] = scoresOf(scoresF16NEON, KVF16, 4)
	k.Scores[KVF32] = scoresOf(scoresF32NEON, KVF32, 4)
	k.Scores[KVQ8_0] = scoresOf(scoresQ8NEON, KVQ8_0, 4)
	k.Scores[KVQ4_0] = scoresOf(scoresQ4NEON, KVQ4_0, 4)
	k.Values[KVF16] = valuesOf(valuesF16NEON, KVF16, 4)
	k.Values[KVF32] = valuesOf(valuesF32NEON, KVF32, 4)
	k.Values[KVQ8_0] = valuesOf(valuesQ8NEON, KVQ8_0, 4)
	k.Values[KVQ4_0] = valuesOf(valuesQ4NEON, KVQ4_0, 4)
	k.ValuesOfKeys[KVF16] = valuesOfKeysOf(KVF16, turnWordsNEON, nil)
	k.ValuesOfKeys[KVF32] = valuesOfFloats(k.Transpose)
	k.ValuesOfKeys[KVQ8_0] = valuesOfKeysOf(KVQ8_0, turnBytesNEON, turnWordsNEON)
	k.ValuesOfKeys[KVQ4_0] = valuesOfKeysOf(KVQ4_0, turnNibblesNEON, turnWordsNEON)
	return k
}

// dotprod is neon with the dot products of bytes of most cores since 2018.
func dotprod() Kernels {
	k := neon()
	k.Name = "dotprod"
	integerDotprod(&k)
	shareQ4_0(&k)
	return k
}

// i8mm is dotprod with products of matrices, which are faster where a panel meets a whole tile: in prefill.
func i8mm() Kernels {
	k := dotprod()
	k.Name = "i8mm"
	integerI8MM(&k)
	shareQ4_0(&k)
	return k
}

// tileSet says that there is no kernel set with a tile unit.
func tileSet() (Kernels, error) { return Kernels{}, errNoTiles }
