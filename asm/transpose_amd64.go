//go:build !purego

package asm

import "unsafe"

// transpose256 is Transpose by a kernel of 8 rows and 8 columns. What it writes beyond the last rows is in the next
// columns, where nothing is between columns; columns that nothing follows are left to the scalar kernel.
func transpose256(dst []float32, to int, src []float32, from, rows, cols int) {
	if rows < 1 || cols < 8 {
		transpose(dst, to, src, from, rows, cols)
		return
	}
	_, _ = dst[(cols-1)*to+rows-1], src[(rows-1)*from+cols-1]
	whole := cols &^ 7
	r := 0
	for ; r+8 <= rows; r += 8 {
		transposeAVX2(&dst[r], &src[r*from], to, from, 8, whole)
	}
	if r == 0 && rows == to { // up to 7 rows, one column after the other
		if whole = (cols - 7/to) &^ 7; whole > 0 {
			transposeAVX2(&dst[0], &src[0], to, from, rows, whole)
		} else {
			whole = 0
		}
	} else if r < rows {
		transpose(dst[r:], to, src[r*from:], from, rows-r, whole)
	}
	if whole < cols {
		transpose(dst[whole*to:], to, src[whole:], from, rows, cols-whole)
	}
}

// keyPage256 is KeyPage; a page is float32 numbers as this processor has them in memory.
func keyPage256(page []byte, x []float32, stride, dim, n int) {
	whole, p := dim&^7, 0
	if whole > 0 && n > 0 {
		_, _ = page[((dim-1)*Page+n-1)*4+3], x[(n-1)*stride+dim-1]
		for ; p+8 <= n; p += 8 {
			transposeAVX2((*float32)(unsafe.Pointer(&page[4*p])), &x[p*stride], Page, stride, 8, whole)
		}
	}
	keyColumns(page, x, stride, 0, whole, p, n)
	keyColumns(page, x, stride, whole, dim, 0, n)
}

// valuePage256 is ValuePage.
func valuePage256(page []byte, x []float32, stride, dim, n int) {
	if dim == 0 || n == 0 {
		return
	}
	_ = page[4*dim*n-1]
	rows := unsafe.Slice((*float32)(unsafe.Pointer(&page[0])), dim*n)
	for j := range n {
		copy(rows[j*dim:][:dim], x[j*stride:][:dim])
	}
}
