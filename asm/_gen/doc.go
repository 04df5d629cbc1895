package main

import "fmt"

// The Go loops that become the comments of the kernels' declarations. r is a row of the panel, t a token; acc begins at
// 0 and ends in out[t*stride+r].

const sideDoc = `for t < n, p < %v[n-1], r < 16: // panels are panel bytes apart
	for c < k: // k is even
		out[t*stride+16*p+r] = fma(w[p][c][r], x[c*tokens+t], out[t*stride+16*p+r])
prefetched: what is ahead bytes behind the weights`

const floatDoc = `for t < n, r < 16:
	acc := out[t*stride+r]
	for j < k: acc = fma(float32(w[j][r]), x[j][t], acc)`

const scoresDoc = `for r < n, j < 16*blocks:
	acc := 0
	for d < dim: acc = fma(q[d*rows+r], float32(k[d][j]), acc)  // keys of 8 and 4 bits: times scales[d/32][j]
	out[r*256+j] = acc * scale
prefetch in order from ahead on, for each d and each 16 keys step bytes`

const scoresParams = "out, q *float32, k, scales, ahead *byte, dim, n, rows, blocks, step int, scale float32"

const valuesDoc = `for r < n, d < 16*blocks:
	for j < count: o[r*dim+d] = fma(p[r*256+j], float32(v[j][d]), o[r*dim+d])  // values of 8 and 4 bits: times scales[j][d/32]
prefetch in order from ahead on, for each j and each 16 dimensions step bytes`

const valuesParams = "o, p *float32, v, scales, ahead *byte, dim, n, count, blocks, step int"

// Of the kernels for rows of which the first keep the numbers for the others.

const scoresKeepDoc = `for d < dim, j < 16*blocks: kept[j/16][d][j%16] = float32(k[d][j]) * scales[d/32][j]
for r < n, j < 16*blocks:
	acc := 0
	for d < dim: acc = fma(q[d*rows+r], kept[j/16][d][j%16], acc)
	out[r*256+j] = acc * scale
n is 4 to 6`

const scoresKeepParams = "out, q *float32, k, scales *byte, kept *float32, dim, n, rows, blocks int, scale float32"

const scoresKeptDoc = `the scores of scoresKeep, of what it kept; n is 3 to 6
prefetch in order from ahead on, for each d and each 16 keys step bytes`

const scoresKeptParams = "out, q, kept *float32, ahead *byte, dim, n, rows, blocks, step int, scale float32"

const valuesKeepDoc = `for j < count, d < 16: kept[j][d] = float32(v[j][d]) * scales[j][0]
for r < n, d < 16, j < count: o[r*dim+d] = fma(p[r*256+j], kept[j][d], o[r*dim+d])
n is 4 to 6; block is which 16 dimensions of the values: 4 bits are the high ones of a byte in odd blocks`

const valuesKeepParams = "o, p *float32, v, scales *byte, kept *float32, dim, n, count, block int"

const valuesKeptDoc = `the sums of valuesKeep, of what it kept; n is 3 to 6
prefetch in order from ahead on, for each j step bytes`

const valuesKeptParams = "o, p, kept *float32, ahead *byte, dim, n, count, step int"

// turnDoc is of numbers of some bytes.
func turnDoc(bytes int) string {
	return fmt.Sprintf("for d < 16*blocks, j < steps*%d: dst[j*stride+d*%d:][:%d] = src[(d*256+j)*%d:]", 64/bytes, bytes,
		bytes, bytes)
}

const nibblesDoc = `for b < blocks, i < 16, j < steps*64:
	low, high := src[(b*16+i/2)*256+j], src[(b*16+8+i/2)*256+j]
	dst[j*stride+b*16+i] = nibble i%2 of low | nibble i%2 of high << 4`

const pairDoc = `for p < 2: the kernel of one panel, with w[p*panel:], 8 tokens of 8, and out[p*16:]`
