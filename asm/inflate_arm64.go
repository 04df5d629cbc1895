//go:build !purego

package asm

// inflatesNEON sets what turns compact panels into those of products.
func inflatesNEON(k *Kernels) {
	k.Weights[IQ3_XXS].Inflate = inflateOf(IQ3_XXS, iq3xxsInflateNEON, quadsOf(IQ3_XXS))
	k.Weights[IQ2_S].Inflate = inflateOf(IQ2_S, iq2sInflateNEON, octetsOf(IQ2_S))
	k.Weights[IQ2_XS].Inflate = inflateOf(IQ2_XS, iq2xsInflateNEON, octetsOf(IQ2_XS))
	k.Weights[IQ2_XXS].Inflate = inflateOf(IQ2_XXS, iq2xxsInflateNEON, octetsOf(IQ2_XXS))
	k.Weights[IQ1_M].Inflate = inflateOf(IQ1_M, iq1InflateNEON, octetsOf(IQ1_M))
	k.Weights[IQ1_S].Inflate = inflateOf(IQ1_S, iq1InflateNEON, octetsOf(IQ1_S))
	k.Weights[TQ1_0].Inflate = inflateTernaryOf(tq1InflateNEON)
	k.Weights[Q1_0].Inflate = inflateNarrowOf(Q1_0, q1InflateNEON)
	k.Weights[Q2_0].Inflate = inflateNarrowOf(Q2_0, q2InflateNEON)
	k.Weights[NVFP4].Inflate = inflateHalvesOf(nvfp4InflateNEON)
}
