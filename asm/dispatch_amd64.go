//go:build !purego

package asm

import (
	"sync"

	"golang.org/x/sys/cpu"
)

//go:generate go run -C _gen .

// sets returns the kernel sets this machine can run, best last. Which features there are says golang.org/x/sys/cpu: its
// flags also require that the operating system saves the registers.
func sets() []Kernels {
	all := []Kernels{Scalar()}
	if x := &cpu.X86; x.HasAVX2 && x.HasFMA && x.HasF16C {
		all = append(all, avx2())
		if x.HasAVXVNNI {
			all = append(all, avxvnni())
		}
		if hasAVX512() {
			all = append(all, avx512(x.HasAVX512VBMI))
		}
	}
	return all
}

func hasAVX512() bool {
	x := &cpu.X86
	return x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ && x.HasAVX512VNNI
}

// tileSet returns the kernel set with the tile unit. Whether the system saves its registers x/sys/cpu does not say.
func tileSet() (Kernels, error) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C || !hasAVX512() || !x.HasAMXTile || !x.HasAMXInt8 {
		return Kernels{}, errNoTiles
	}
	if err := tilesRequested(); err != nil {
		return Kernels{}, err
	}
	return amx(x.HasAVX512VBMI), nil
}

// tilesRequested asks the system for tiles, once.
var tilesRequested = sync.OnceValue(requestTiles)

// avx2 needs AVX2, FMA and F16C, all part of x86-64-v3.
func avx2() Kernels {
	k := Scalar()
	k.Name = "avx2"
	k.Prefetches = true
	k.Weights[F32].MatMul = floatMatMul(f32AVX2, 64, 6)
	k.Weights[F16].MatMul = floatMatMul(f16AVX2, 32, 6)
	k.Weights[NVFP4].MatMul = k.Weights[F16].MatMul
	k.Weights[BF16].MatMul = floatMatMul(bf16AVX2, 32, 6)
	integerAVX2(&k)
	shareQ4_0(&k)
	tilesAVX2(&k)
	inflatesAVX2(&k)
	directAVX2(&k)
	k.Weights[F32].Pass, k.Weights[F16].Pass, k.Weights[BF16].Pass = 6, 6, 6
	k.floatPanels(F32, f32SideAVX2, 4, 2)
	k.floatPanels(F16, f16SideAVX2, 4, 2)
	k.floatPanels(BF16, bf16SideAVX2, 4, 2)
	k.SumSquares, k.RMSNorm, k.LayerNorm = sumSquaresAVX2, rmsNormAVX2, layerNormAVX2
	k.Add, k.Blend = addAVX2, blendAVX2
	k.Exp, k.ExpSum, k.SiLUMul, k.SigmoidMul, k.GELU = expAVX2, expSum256, siluMulAVX2, sigmoidMulAVX2, geluAVX2
	k.ExpSums = expSumRows(expSumsAVX2)
	k.GELUErf = geluErfAVX2
	k.RopeHalves, k.RopeInterleaved = ropeHalvesAVX2, ropeInterleaved256
	k.Quantize, k.EncodeF16, k.DecodeF16 = quantize256, encodeF16x8, decodeF16x8
	k.EncodeQ4_0 = encodeQ4_0x32
	k.ArgMax, k.Finite = argMax256, finite256
	k.Gumbel, k.MaxHash = gumbel256, maxHash256
	k.ReadSum = readSumAVX2
	k.Divide, k.Conv = divideAVX2, convOf(convAVX2)
	k.DeltaScan, k.Mamba2Scan = deltaScanOf(deltaScanAVX2, nil, 0), mamba2ScanOf(mamba2ScanAVX2, nil, 0)
	k.Transpose, k.KeyPage, k.ValuePage = transpose256, keyPage256, valuePage256
	k.Scores[KVF16] = scoresOf(scoresF16AVX2, KVF16, 6)
	k.Scores[KVF32] = scoresOf(scoresF32AVX2, KVF32, 6)
	k.Scores[KVQ8_0] = scoresKeeping(scoresQ8AVX2, KVQ8_0, 6, scoresKeepQ8AVX2, scoresKeptAVX2)
	k.Scores[KVQ4_0] = scoresKeeping(scoresQ4AVX2, KVQ4_0, 6, scoresKeepQ4AVX2, scoresKeptAVX2)
	k.Values[KVF16] = valuesOf(valuesF16AVX2, KVF16, 6)
	k.Values[KVF32] = valuesOf(valuesF32AVX2, KVF32, 6)
	k.Values[KVQ8_0] = valuesKeeping(valuesQ8AVX2, KVQ8_0, 6, valuesKeepQ8AVX2, valuesKeptAVX2)
	k.Values[KVQ4_0] = valuesKeeping(valuesQ4AVX2, KVQ4_0, 6, valuesKeepQ4AVX2, valuesKeptAVX2)
	k.ValuesOfKeys[KVF16] = valuesOfKeysOf(KVF16, turnWordsAVX2, nil)
	k.ValuesOfKeys[KVQ8_0] = valuesOfKeysOf(KVQ8_0, turnBytesAVX2, turnWordsAVX2)
	k.ValuesOfKeys[KVQ4_0] = valuesOfKeysOf(KVQ4_0, turnNibblesAVX2, turnWordsAVX2)
	k.ValuesOfKeys[KVF32] = valuesOfFloats(k.Transpose)
	return k
}

// avxvnni is avx2 with AVX-VNNI: VEX-encoded dot products of 8-bit integers, for processors without AVX-512.
func avxvnni() Kernels {
	k := avx2()
	k.Name = "avxvnni"
	k.Offset = true
	integerAVXVNNI(&k)
	shareQ4_0(&k)
	noTiles(&k)
	floatTilesAVX2(&k)
	return k
}

// avx512 needs AVX-512 F, BW, VL, DQ and VNNI; with vbmi also that.
func avx512(vbmi bool) Kernels {
	k := avx2()
	k.Name = "avx512"
	k.Offset = true
	k.Weights[F32].MatMul = floatMatMul(f32AVX512, 64, 8)
	k.Weights[F16].MatMul = floatMatMul(f16AVX512, 32, 8)
	k.Weights[NVFP4].MatMul = k.Weights[F16].MatMul
	k.Weights[BF16].MatMul = floatMatMul(bf16AVX512, 32, 8)
	k.floatPanels(F32, f32SideAVX512, 4, 4, 2, 2, 2, 2, 2)
	k.floatPanels(F16, f16SideAVX512, 4, 4, 2, 2, 2, 2, 2)
	k.floatPanels(BF16, bf16SideAVX512, 4, 4, 2, 2, 2, 2, 2)
	integerAVX512(&k)
	shareQ4_0(&k)
	noTiles(&k)
	inflatesAVX512(&k, vbmi)
	k.Weights[Q8_0].MatMulPair = blockMatMulPair(Q8_0, q8PairAVX512)
	k.Weights[Q4_0].MatMulPair = blockMatMulPair(Q4_0, q4PairAVX512)
	for f := range k.Weights {
		k.Weights[f].Pass = 0
	}
	k.Exp, k.ExpSum, k.SiLUMul, k.SigmoidMul, k.GELU = expAVX512, expSum512, siluMulAVX512, sigmoidMulAVX512, geluAVX512
	k.ExpSums = expSumRows(expSumsAVX512)
	k.GELUErf = geluErfAVX512
	k.ReadSum = readSumAVX512
	k.DeltaScan, k.Mamba2Scan = deltaScanOf(deltaScanAVX2, deltaScanAVX512, 4),
		mamba2ScanOf(mamba2ScanAVX2, mamba2ScanAVX512, 4)
	k.Scores[KVF16] = scoresOf(scoresF16AVX512, KVF16, 8)
	k.Scores[KVF32] = scoresOf(scoresF32AVX512, KVF32, 8)
	k.Scores[KVQ8_0] = scoresOf(scoresQ8AVX512, KVQ8_0, 8)
	k.Scores[KVQ4_0] = scoresOf(scoresQ4AVX512, KVQ4_0, 8)
	k.Values[KVF16] = valuesOf(valuesF16AVX512, KVF16, 8)
	k.Values[KVF32] = valuesOf(valuesF32AVX512, KVF32, 8)
	k.Values[KVQ8_0] = valuesOf(valuesQ8AVX512, KVQ8_0, 8)
	k.Values[KVQ4_0] = valuesOf(valuesQ4AVX512, KVQ4_0, 8)
	return k
}

// amx is avx512 with AMX tiles (AMX-TILE, AMX-INT8) for products of many tokens with integer weights.
func amx(vbmi bool) Kernels {
	k := avx512(vbmi)
	k.Name = "amx"
	tilesAMX(&k)
	shareQ4_0(&k)
	return k
}
