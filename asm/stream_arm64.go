//go:build !purego

package asm

func readSumNEON(b []byte, distance int) (sum uint64) {
	const step = 256 // bytes that one iteration of the assembly loop reads
	n := len(b) &^ (step - 1)
	if n > 0 {
		sumNEON(&b[0], n, distance, &sum)
	}
	return sum + readSum(b[n:], distance)
}
