package asm

// Grid is the entries that the weights of a type with a grid are taken from.
type Grid struct {
	Entries []uint16 // digits of Bits bits, that of the first weight the lowest
	Bits    int
	Weights int       // of an entry: 4 or 8
	Levels  []float32 // the magnitudes that digits stand for, times the scale's integer and the block's number
	Group   int       // weights with one scale: 16 or 32
	Even    bool      // of 8 weights an even number is negative
}

// GridOf is the grid of a type. It reports false where it has none, or one that its encoders do not use.
func GridOf(f Format) (g Grid, ok bool) {
	three := []float32{8. / 8, 25. / 8, 43. / 8}
	switch f {
	case IQ3_S:
		return Grid{gridIQ3_S[:], 3, 4, []float32{1, 3, 5, 7, 9, 11, 13, 15}, 32, false}, true
	case IQ3_XXS:
		return Grid{gridIQ3_XXS[:], 3, 4, []float32{1, 3, 5, 7, 9, 11, 13, 15.5}, 32, true}, true
	case IQ2_S:
		return Grid{gridIQ2_S[:], 2, 8, three, 16, false}, true
	case IQ2_XS:
		return Grid{gridIQ2_XS[:], 2, 8, three, 16, true}, true
	case IQ2_XXS:
		return Grid{gridIQ2_XXS[:], 2, 8, three, 32, true}, true
	}
	return Grid{}, false
}
