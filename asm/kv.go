package asm

import "math"

// KV is a storage type of keys and values in the cache. Pages belong to one head and hold [Page] positions:
//
//	KVF16 KVF32  K [dim][Page], V [Page][dim]
//	KVQ8_0       K int8 [dim][Page], then float16 scales [groups][Page];
//	             V int8 [Page][dim], then float16 scales [Page][groups];
//	             groups = dim/32 rounded up; a value is float32(q)*d
//	KVQ4_0       K [dim/2 rounded up][Page]: a byte has dimension 2i in its low nibble, 2i+1 in its high one;
//	             V [Page][bytes], 16 for 32 dimensions: byte i of them has dimension i in its low nibble, 16+i in its
//	             high one, of the last fewer than 32 at most 16 bytes; then scales as KVQ8_0. A nibble is a signed
//	             number q
//
// K is transposed so that a lane is a position; in V a lane is a dimension.
type KV uint8

// The storage types of the cache.
const (
	KVF16 KV = iota
	KVF32
	KVQ8_0
	KVQ4_0
	kvCount
)

// Valid reports whether t is one of the storage types.
func (t KV) Valid() bool { return t < kvCount }

// String gives the usual name in lower case.
func (t KV) String() string {
	switch t {
	case KVF16:
		return "f16"
	case KVF32:
		return "f32"
	case KVQ8_0:
		return "q8_0"
	case KVQ4_0:
		return "q4_0"
	}
	return "unknown"
}

// KPageBytes is the size of a page of keys of one head of dim dimensions.
func KPageBytes(t KV, dim int) int { return KRows(t, dim).pageBytes() }

// VPageBytes is the size of a page of values of one head of dim dimensions.
func VPageBytes(t KV, dim int) int { return VRows(t, dim).pageBytes() }

// vBytes is the bytes of one value in a page, without scales.
func vBytes(t KV, dim int) int {
	switch t {
	case KVF32:
		return 4 * dim
	case KVF16:
		return 2 * dim
	case KVQ4_0:
		return dim/BlockSize*BlockSize/2 + min(dim%BlockSize, BlockSize/2)
	}
	return dim
}

// scaled reports whether t has scales.
func (t KV) scaled() bool { return t == KVQ8_0 || t == KVQ4_0 }

// kScales is where the scales of a page of keys begin.
func kScales(t KV, dim int) int {
	if t == KVQ4_0 {
		return (dim + 1) / 2 * Page
	}
	return dim * Page
}

func kvGroups(dim int) int { return (dim + BlockSize - 1) / BlockSize }

// StoreK writes the key x of one head, len(x) dimensions, at position pos of a page of keys. For KVQ8_0, per 32
// dimensions: amax = greatest |x|; d = binary16(amax/127), at most 65504; q = x*(127/amax) rounded half to even,
// clamped to ±127; amax below 2^-100 gives zeros; an Inf or NaN makes the 32 dimensions NaN. For KVQ4_0 likewise with
// m, the first x of that magnitude, in place of amax: d = binary16(m/-8), at least -65504 and at most 65504;
// q = x*(-8/m) rounded half to even, clamped to -8 … 7.
func StoreK(t KV, page []byte, pos int, x []float32) {
	switch t {
	case KVF32:
		for d, e := range x {
			le.PutUint32(page[(d*Page+pos)*4:], math.Float32bits(e))
		}
	case KVF16:
		for d, e := range x {
			le.PutUint16(page[(d*Page+pos)*2:], ToF16(e))
		}
	case KVQ8_0:
		scales := page[len(x)*Page:]
		for g := range kvGroups(len(x)) {
			var q [BlockSize]int8
			group := x[g*BlockSize : min(len(x), (g+1)*BlockSize)]
			le.PutUint16(scales[(g*Page+pos)*2:], quantizeKV(&q, group))
			for i := range group {
				page[(g*BlockSize+i)*Page+pos] = byte(q[i])
			}
		}
	case KVQ4_0:
		scales := page[kScales(t, len(x)):]
		for g := range kvGroups(len(x)) {
			var q [BlockSize]int8
			group := x[g*BlockSize : min(len(x), (g+1)*BlockSize)]
			le.PutUint16(scales[(g*Page+pos)*2:], quantizeKV4(&q, group))
			for i := 0; i < len(group); i += 2 {
				page[(g*BlockSize+i)/2*Page+pos] = nibbles(q[i], q[i+1])
			}
		}
	}
}

// nibbles are two numbers of 4 bits in a byte.
func nibbles(low, high int8) byte { return byte(low)&15 | byte(high)<<4 }

// Numbers of the low and of the high nibble of a byte.
func lowNibble(b byte) int8  { return int8(b<<4) >> 4 }
func highNibble(b byte) int8 { return int8(b) >> 4 }

// StoreV writes the value x of one head at position pos of a page of values; see [StoreK].
func StoreV(t KV, page []byte, pos int, x []float32) {
	dim := len(x)
	switch t {
	case KVF32:
		for d, e := range x {
			le.PutUint32(page[(pos*dim+d)*4:], math.Float32bits(e))
		}
	case KVF16:
		for d, e := range x {
			le.PutUint16(page[(pos*dim+d)*2:], ToF16(e))
		}
	case KVQ8_0:
		scales := page[(dim*Page + pos*kvGroups(dim)*2):]
		for g := range kvGroups(dim) {
			var q [BlockSize]int8
			group := x[g*BlockSize : min(dim, (g+1)*BlockSize)]
			le.PutUint16(scales[g*2:], quantizeKV(&q, group))
			for i := range group {
				page[pos*dim+g*BlockSize+i] = byte(q[i])
			}
		}
	case KVQ4_0:
		bytes := vBytes(t, dim)
		scales := page[(bytes*Page + pos*kvGroups(dim)*2):]
		for g := range kvGroups(dim) {
			var q [BlockSize]int8
			group := x[g*BlockSize : min(dim, (g+1)*BlockSize)]
			le.PutUint16(scales[g*2:], quantizeKV4(&q, group))
			for i := range min(len(group), BlockSize/2) {
				page[pos*bytes+g*BlockSize/2+i] = nibbles(q[i], q[BlockSize/2+i])
			}
		}
	}
}

func quantizeKV(q *[BlockSize]int8, x []float32) (scale uint16) {
	amax, ok := absMax(x)
	switch {
	case !ok:
		return 0x7e00 // NaN
	case amax < 0x1p-100:
		return 0
	}
	inv := 127 / amax
	for i, e := range x {
		q[i] = int8(roundInt(float32(e * inv)))
	}
	return min(ToF16(amax/127), 0x7bff)
}

func quantizeKV4(q *[BlockSize]int8, x []float32) (scale uint16) {
	amax, ok := absMax(x)
	switch {
	case !ok:
		return 0x7e00 // NaN
	case amax < 0x1p-100:
		return 0
	}
	m := amax
	for _, e := range x {
		if e == amax || e == -amax {
			m = e
			break
		}
	}
	inv := -8 / m
	for i, e := range x {
		q[i] = int8(min(max(roundInt(float32(e*inv)), -8), 7))
	}
	scale = ToF16(m / -8)
	return scale&0x8000 | min(scale&0x7fff, 0x7bff)
}

// KeyRow reads dimension d of the keys at positions pos … pos+len(dst)-1 of a page of keys of dim dimensions.
func KeyRow(t KV, dst []float32, page []byte, d, dim, pos int) {
	switch t {
	case KVF32:
		readF32(dst, page[(d*Page+pos)*4:])
	case KVF16:
		readF16(dst, page[(d*Page+pos)*2:])
	case KVQ8_0:
		quants := page[d*Page+pos:][:len(dst)]
		readF16(dst, page[dim*Page+(d/BlockSize*Page+pos)*2:])
		for j, s := range dst {
			dst[j] = float32(int8(quants[j])) * s
		}
	case KVQ4_0:
		quants, nibble := page[d/2*Page+pos:][:len(dst)], lowNibble
		if d%2 == 1 {
			nibble = highNibble
		}
		readF16(dst, page[kScales(t, dim)+(d/BlockSize*Page+pos)*2:])
		for j, s := range dst {
			dst[j] = float32(nibble(quants[j])) * s
		}
	}
}

// CopyK copies the key at position from of page src to position to of page dst, bit for bit.
func CopyK(t KV, dst []byte, to int, src []byte, from, dim int) {
	switch t {
	case KVF32:
		copyColumns(dst, to, src, from, dim, 4)
	case KVF16:
		copyColumns(dst, to, src, from, dim, 2)
	case KVQ8_0:
		copyColumns(dst, to, src, from, dim, 1)
		copyColumns(dst[dim*Page:], to, src[dim*Page:], from, kvGroups(dim), 2)
	case KVQ4_0:
		at := kScales(t, dim)
		copyColumns(dst, to, src, from, at/Page, 1)
		copyColumns(dst[at:], to, src[at:], from, kvGroups(dim), 2)
	}
}

func copyColumns(dst []byte, to int, src []byte, from, dim, size int) {
	for d := range dim {
		copy(dst[(d*Page+to)*size:][:size], src[(d*Page+from)*size:])
	}
}

// CopyV copies the value at position from of page src to position to of page dst, bit for bit.
func CopyV(t KV, dst []byte, to int, src []byte, from, dim int) {
	n := vBytes(t, dim)
	if t.scaled() {
		g := 2 * kvGroups(dim)
		copy(dst[n*Page+to*g:][:g], src[n*Page+from*g:])
	}
	copy(dst[to*n:][:n], src[from*n:])
}

// KVRows is what a page of keys or values of one head consists of: its parts in order, each rows of [Page] positions.
type KVRows [2]struct{ rows, bytes int } // bytes of a position in a row

func (r KVRows) pageBytes() (n int) {
	for _, part := range r {
		n += part.rows * part.bytes * Page
	}
	return n
}

// KRows are those of a page of keys of dim dimensions.
func KRows(t KV, dim int) KVRows {
	switch t {
	case KVF32:
		return KVRows{{dim, 4}}
	case KVQ8_0:
		return KVRows{{dim, 1}, {kvGroups(dim), 2}}
	case KVQ4_0:
		return KVRows{{(dim + 1) / 2, 1}, {kvGroups(dim), 2}}
	}
	return KVRows{{dim, 2}}
}

// VRows are those of a page of values of dim dimensions.
func VRows(t KV, dim int) KVRows {
	if t.scaled() {
		return KVRows{{1, vBytes(t, dim)}, {1, 2 * kvGroups(dim)}}
	}
	return KVRows{{1, vBytes(t, dim)}}
}

// CopyPacked copies n positions of a page, from position at on, to packed, which has the rows of n positions one after
// another, or, unless pack is set, from there to the page. It returns what follows of both.
func CopyPacked(packed, page []byte, rows KVRows, at, n int, pack bool) (restPacked, restPage []byte) {
	for _, part := range rows {
		for range part.rows {
			if row := page[at*part.bytes : (at+n)*part.bytes]; pack {
				copy(packed[:len(row)], row)
			} else {
				copy(row, packed)
			}
			packed, page = packed[n*part.bytes:], page[Page*part.bytes:]
		}
	}
	return packed, page
}

// CopyPositions copies n positions of a page, from position at on, to another one. It returns what follows of both.
func CopyPositions(to, from []byte, rows KVRows, at, n int) (restTo, restFrom []byte) {
	for _, part := range rows {
		for range part.rows {
			copy(to[at*part.bytes:(at+n)*part.bytes], from[at*part.bytes:])
			to, from = to[Page*part.bytes:], from[Page*part.bytes:]
		}
	}
	return to, from
}
