//go:build !purego

package asm

const streamStep = 256 // bytes that one iteration of the assembly loops reads

func readSumAVX2(b []byte, distance int) (sum uint64) {
	n := len(b) &^ (streamStep - 1)
	if n > 0 {
		sumAVX2(&b[0], n, distance, &sum)
	}
	return sum + readSum(b[n:], distance)
}

func readSumAVX512(b []byte, distance int) (sum uint64) {
	n := len(b) &^ (streamStep - 1)
	if n > 0 {
		sumAVX512(&b[0], n, distance, &sum)
	}
	return sum + readSum(b[n:], distance)
}
