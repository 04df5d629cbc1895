//go:build !purego

package asm

const streamStep = 256 // bytes that a turn of the assembly loops reads

func readSumAVX2(b []byte, ahead int) (sum uint64) {
	n := len(b) &^ (streamStep - 1)
	if n > 0 {
		sumAVX2(&b[0], n, ahead, &sum)
	}
	return sum + readSum(b[n:], ahead)
}

func readSumAVX512(b []byte, ahead int) (sum uint64) {
	n := len(b) &^ (streamStep - 1)
	if n > 0 {
		sumAVX512(&b[0], n, ahead, &sum)
	}
	return sum + readSum(b[n:], ahead)
}
