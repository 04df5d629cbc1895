//go:build !purego

package asm

// How many results a loop has. _gen/rates.go has the same numbers.
const (
	rateResults256 = 12
	rateResults512 = 24
	rateTiles      = 4
)

func ratesOf(set string) []Rate {
	bytes := rateOf("VPMADDUBSW", false, 32*rateResults256, rateBytesAVX2)
	fma := rateOf("VFMADD231PS", true, 8*rateResults256, rateFMAAVX2)
	wide := []Rate{rateOf("VPDPBUSD", false, 64*rateResults512, rateDotAVX512),
		rateOf("VFMADD231PS", true, 16*rateResults512, rateFMAAVX512)}
	switch set {
	case "avx2":
		// One multiplication of 16 bits makes two products: _gen/README.md, the buffer of AVX2.
		return []Rate{bytes, rateOf("VPMADDWD", false, 2*16*rateResults256, rateWordsAVX2), fma}
	case "avxvnni":
		return []Rate{bytes, rateOf("VPDPBUSD", false, 32*rateResults256, rateDotAVXVNNI), fma}
	case "avx512":
		return wide
	case "amx":
		var config [64]byte
		configureAMX(&config)
		return append([]Rate{{"TDPBSSD", false, amxTokens * PanelRows * BlockSize * rateTiles,
			func(n int, a, b, out *[64]byte) { rateTilesAMX(n, &a[0], &b[0], &out[0], &config[0]) }}}, wide...)
	}
	return nil
}
