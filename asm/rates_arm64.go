//go:build !purego

package asm

// rateResults is how many results a loop has. _gen/neonrates.go has the same number.
const rateResults = 24

func ratesOf(set string) []Rate {
	fma := rateOf("FMLA", true, 4*rateResults, rateFMANEON)
	dot := rateOf("SDOT", false, 16*rateResults, rateDotDotprod)
	switch set {
	case "neon":
		return []Rate{rateOf("SMULL", false, 8*rateResults, rateBytesNEON), fma}
	case "dotprod":
		return []Rate{dot, fma}
	case "i8mm":
		return []Rate{rateOf("SMMLA", false, 32*rateResults, rateMatrixI8MM), dot, fma}
	}
	return nil
}
