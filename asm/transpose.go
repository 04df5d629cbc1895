package asm

import "math"

// transpose is [MemoryKernels].Transpose: 16 columns at a time, a cache line of each row.
func transpose(dst []float32, to int, src []float32, from, rows, cols int) {
	const together = 16
	for first := 0; first < cols; first += together {
		n := min(together, cols-first)
		for r := range rows {
			for i, e := range src[r*from+first:][:n] {
				dst[(first+i)*to+r] = e
			}
		}
	}
}

// keyPage is [AttentionKernels].KeyPage.
func keyPage(page []byte, x []float32, stride, dim, n int) {
	keyColumns(page, x, stride, 0, dim, 0, n)
}

// keyColumns lays out dimensions d … dim-1 of positions p … n-1.
func keyColumns(page []byte, x []float32, stride, d, dim, p, n int) {
	for ; d < dim; d++ {
		column := page[d*Page*4:][:Page*4]
		for j := p; j < n; j++ {
			le.PutUint32(column[4*j:], math.Float32bits(x[j*stride+d]))
		}
	}
}

// valuePage is [AttentionKernels].ValuePage.
func valuePage(page []byte, x []float32, stride, dim, n int) {
	for j := range n {
		row := page[j*dim*4:][:dim*4]
		for d, e := range x[j*stride:][:dim] {
			le.PutUint32(row[4*d:], math.Float32bits(e))
		}
	}
}
