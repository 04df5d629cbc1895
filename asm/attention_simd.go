//go:build !purego && (amd64 || arm64)

package asm

import (
	"sync"
	"unsafe"
)

// scoresKernel multiplies n of rows queries with 16*blocks keys; see stubs_*.go. scales is for keys of 8 and 4 bits.
type scoresKernel func(out, q *float32, k, scales, ahead *byte, dim, n, rows, blocks, step int, scale float32)

// wideKeys are the dimensions from which on a page of keys does not stay in the L1 cache. Then all rows are multiplied
// with the same cache lines before the next ones, so that memory is read while the other rows are multiplied.
const wideKeys = 256

// scoresKeep are scores of a scoresKernel that also writes the keys as float32 to kept, from where scoresKept
// multiplies them with further rows. Both are for at least half of the rows that a kernel multiplies at once.
type (
	scoresKeep func(out, q *float32, k, scales *byte, kept *float32, dim, n, rows, blocks int, scale float32)
	scoresKept func(out, q, kept *float32, ahead *byte, dim, n, rows, blocks, step int, scale float32)
)

// keptNumbers are kept for further rows: half of an L1 cache of 32 KB.
const keptNumbers = 4096

// keptMemory holds them. A local variable would be allocated at each call, for its address goes to a function value.
type keptMemory [keptNumbers + 15]float32

var keptMemories = sync.Pool{New: func() any { return new(keptMemory) }}

// line is the memory from the first cache line on.
func (m *keptMemory) line() *float32 { return &m[-uintptr(unsafe.Pointer(m))/4%16] }

// scoresOf makes a Scores of a scoresKernel that multiplies up to most rows at once.
func scoresOf(kernel scoresKernel, t KV, most int) func([]float32, []float32, []byte, int, int, int, float32, []byte) {
	return scoresKeeping(kernel, t, most, nil, nil)
}

// scoresKeeping is scoresOf with keep and kept for more rows; nil: there are none.
func scoresKeeping(kernel scoresKernel, t KV, most int, keep scoresKeep, kept scoresKept) func([]float32, []float32,
	[]byte, int, int, int, float32, []byte) {
	block := 16 * KRows(t, 1)[0].bytes // bytes of 16 keys in a row of the page
	return func(out, q []float32, k []byte, dim, rows, keys int, scale float32, ahead []byte) {
		blocks := (keys + 15) / 16
		if dim == 0 || blocks == 0 || rows == 0 || t == KVQ4_0 && dim%2 != 0 {
			scores(t, out, q, k, dim, rows, keys, scale)
			return
		}
		steps := dim // of 16 keys
		if t == KVQ4_0 {
			steps /= 2
		}
		_, _, _ = out[(rows-1)*Page+16*blocks-1], q[dim*rows-1], k[KPageBytes(t, dim)-1]
		scales, apart, together := 0, 0, blocks
		if t.scaled() {
			scales, apart = kScales(t, dim), 32
		}
		parts := (rows + most - 1) / most
		var memory *float32 // of what the first part of the rows keeps for the others
		switch {
		case keep != nil && parts > 1 && dim <= keptNumbers/16:
			m := keptMemories.Get().(*keptMemory)
			defer keptMemories.Put(m)
			memory = m.line()
			together, steps, parts = keptNumbers/16/dim, dim, parts-1
		case parts > 1 && dim >= wideKeys:
			together = max(2, 64/block)
		}
		n := 0
		calls := (blocks + together - 1) / together * parts
		for b := 0; b < blocks; b += together {
			count := min(together, blocks-b)
			for r := 0; r < rows; r += n {
				n = part(rows-r, most)
				to, from, s := &out[r*Page+16*b], &k[b*block], &k[scales+b*apart]
				if memory != nil && r == 0 {
					keep(to, &q[0], from, s, memory, dim, n, rows, count, scale)
					continue
				}
				next, step := readAhead(&ahead, k, count*steps, calls, t, vBytes(t, 16))
				if calls--; memory != nil {
					kept(to, &q[r], memory, next, dim, n, rows, count, step, scale)
				} else {
					kernel(to, &q[r], from, s, next, dim, n, rows, count, step, scale)
				}
			}
		}
	}
}

// readAhead takes from ahead what the next one of so many calls of a kernel prefetches, which reads a block of so many
// bytes at each of its steps: step bytes at each, at most about as many as the block has, with scales an eighth more.
// Without anything ahead that is the page that it reads.
func readAhead(ahead *[]byte, page []byte, steps, calls int, t KV, block int) (next *byte, step int) {
	b := *ahead
	if len(b) == 0 {
		return &page[0], 0
	}
	if t.scaled() {
		block += block / 8
	}
	step = min((len(b)+calls*steps-1)/(calls*steps), block)
	*ahead = b[min(step*steps, len(b)):]
	return &b[0], step
}

// valuesKernel adds count values to 16*blocks dimensions of n rows.
type valuesKernel func(o, p *float32, v, scales, ahead *byte, dim, n, count, blocks, step int)

// valuesKeep and valuesKept are like [scoresKeep] and [scoresKept], of 16 dimensions.
type (
	valuesKeep func(o, p *float32, v, scales *byte, kept *float32, dim, n, count, block int)
	valuesKept func(o, p, kept *float32, ahead *byte, dim, n, count, step int)
)

// valuesOf makes a Values of a valuesKernel that multiplies up to most rows at once. Dimensions past the last
// multiple of 16 are computed in Go.
func valuesOf(kernel valuesKernel, t KV, most int) func([]float32, []float32, []byte, int, int, int, int, []byte) {
	return valuesKeeping(kernel, t, most, nil, nil)
}

// valuesKeeping is valuesOf with keep and kept for more rows; nil: there are none.
func valuesKeeping(kernel valuesKernel, t KV, most int, keep valuesKeep, kept valuesKept) func([]float32, []float32,
	[]byte, int, int, int, int, []byte) {
	return func(o, p []float32, v []byte, dim, rows, from, to int, ahead []byte) {
		if dim == 0 || rows == 0 || from >= to {
			return
		}
		_, _, _ = o[rows*dim-1], p[(rows-1)*Page+to-1], v[VPageBytes(t, dim)-1]
		if dim < 16 {
			values(t, o, p, v, 0, dim, rows, from, to)
			return
		}
		steps, block := (to-from)*(dim/16), vBytes(t, 16)
		if t == KVQ4_0 {
			block = 8 // vBytes has 16 for up to 32 numbers
		}
		if dim%16 > 0 {
			values(t, o, p, v, dim&^15, dim, rows, from, to)
		}
		bytes, scales, apart := vBytes(t, dim), 0, 0
		if t.scaled() {
			scales, apart = bytes*Page+from*kvGroups(dim)*2, 2
		}
		if keep != nil && rows > most {
			memory := keptMemories.Get().(*keptMemory)
			defer keptMemories.Put(memory)
			numbers := memory.line()
			calls := dim / 16 * ((rows - 1) / most)
			for b := range dim / 16 {
				at, n := b*block&^15, part(rows, most) // two blocks of 4 bits are in the same 16 bytes
				keep(&o[16*b], &p[from], &v[from*bytes+at], &v[scales+b/2*apart], numbers, dim, n, to-from, b)
				for r := n; r < rows; r += n {
					n = part(rows-r, most)
					next, step := readAhead(&ahead, v, to-from, calls, t, block)
					kept(&o[r*dim+16*b], &p[r*Page+from], numbers, next, dim, n, to-from, step)
					calls--
				}
			}
			return
		}
		n := 0
		for r := 0; r < rows; r += n {
			n = part(rows-r, most)
			next, step := readAhead(&ahead, v, steps, (rows-r+most-1)/most, t, block)
			kernel(&o[r*dim], &p[r*Page+from], &v[from*bytes], &v[scales], next, dim, n, to-from, dim/16, step)
		}
	}
}

// valuesOfFloats makes a ValuesOfKeys of KVF32 of a Transpose: a page is float32 numbers as these processors have them
// in memory.
func valuesOfFloats(transpose func(dst []float32, to int, src []float32, from, rows, cols int)) func(v, k []byte,
	dim, values, n int) {
	floats := func(b []byte, n int) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&b[:4*n][0])), n) }
	return func(v, k []byte, dim, values, n int) {
		if values > 0 && n > 0 {
			transpose(floats(v, values*n), values, floats(k, (values-1)*Page+n), Page, values, n)
		}
	}
}

// turnKernel turns rows of a page into columns: 16*blocks rows, as many positions as steps*64 bytes of a row hold; see
// stubs_*.go.
type turnKernel func(dst, src *byte, stride, blocks, steps int)

// valuesOfKeysOf makes a ValuesOfKeys of the kernels for the numbers and for scales. What is beyond their blocks is
// laid out in Go.
func valuesOfKeysOf(t KV, numbers, scales turnKernel) func(v, k []byte, dim, values, n int) {
	block, size := 16, KRows(t, 1)[0].bytes // dimensions of a block, bytes of a number in a row
	if t == KVQ4_0 {
		block = 32
	}
	return func(v, k []byte, dim, values, n int) {
		if values < 1 || n < 1 {
			return
		}
		_, _ = v[VPageBytes(t, values)-1], k[KPageBytes(t, dim)-1]
		bytes, blocks := vBytes(t, values), values/block
		if blocks > 0 {
			numbers(&v[0], &k[0], bytes, blocks, (n*size+63)/64)
		}
		valueColumns(t, v, k, blocks*block, values, n)
		if groups := kvGroups(values); t.scaled() {
			if groups >= 16 {
				scales(&v[bytes*Page], &k[kScales(t, dim)], 2*groups, groups/16, (2*n+63)/64)
			}
			valueScales(t, v, k, dim, groups&^15, values, n)
		}
	}
}
