package main

import "fmt"

// The K formats: super-blocks of 8 blocks, each with small integers for scales.
const superParams = "w *byte, q *int8, d, dsum *float32, supers, n, tokens int, out *float32, stride" + aheadParams
const superParams6 = "w *byte, q *int8, d *float32, half *int32, supers, n, tokens int, out *float32, stride" + aheadParams

const (
	q4kBytes = 2368 // low and high nibbles of 4 pairs of blocks; d 2048; dmin 2080; sc 2112; mn 2240
	q6kBytes = 3392 // nibbles; pairs of bits 2048; sc 3072; d 3328
)

// superArgs loads what blockArgs does: AX weights, DI super-blocks; sums names the parameter in SI.
func (f *file) superArgs(sums string) {
	f.load("w", "AX", "q", "CX", "d", "DX", sums, "SI", "supers", "DI", "n", "R8", "tokens", "R13", "out", "R10", "stride", "R11")
	f.ins("SHLQ", "$2", "R11")
	f.ins("SHLQ", "$2", "R13")
	f.load("ahead", "R15")
}

// nextPair moves AX to the next pair of blocks of Q4_K, and the reading ahead, of which 8 lines were read with the quants.
func (f *file) nextPair() {
	f.readAhead(8)
	f.readAhead(9)
	f.stepAhead()
	f.stepAhead()
	f.advance(512)
}

// q4k_512: BX scales of a pair of blocks, R9 pairs left; Z24 d, Z25 dmin, Z26 d*sc, Z27 dmin*mn.
func q4k_512(f *file) {
	f.function("q4kAVX512", 0, superParams, q4kDoc)
	f.superArgs("dsum")
	f.broadcast512(0x0f0f0f0f, 31)
	f.tiles512(func(T int) {
		f.ins("VCVTPH2PS", at("AX", 2048), z(24))
		f.ins("VCVTPH2PS", at("AX", 2080), z(25))
		f.ins("LEAQ", at("AX", 2112), "BX")
		f.ins("MOVQ", "$4", "R9")
		f.label(fmt.Sprintf("pair%d", T))
		for nibble := range 2 {
			for i := range 2 {
				f.ins("VPMOVZXBD", at("BX", 128*i+16*nibble), z(26+i))
				f.ins("VCVTDQ2PS", z(26+i), z(26+i))
				f.ins("VMULPS", z(24+i), z(26+i), z(26+i))
			}
			for t := range T {
				f.ins("VPXORD", z(t), z(t), z(t))
			}
			f.groups("R12", T, 8, 4, func(g int) {
				w := 14 + g&1
				f.nibbles512(nibble, at("AX", 64*g), 31, w)
				if nibble == 0 {
					f.readAhead(g)
				}
				for t := range T {
					f.ins("VPDPBUSD.BCST", at("CX", 32*t+4*g), z(w), z(t))
				}
			})
			for t := range T {
				s := 28 + t&1
				f.ins("VCVTDQ2PS", z(t), z(t))
				f.ins("VMULPS.BCST", at("DX", 4*t), z(26), z(s))
				f.ins("VFMADD231PS", z(s), z(t), z(16+t))
				f.ins("VFNMADD231PS.BCST", at("SI", 4*t), z(27), z(16+t))
			}
			f.nextBlock()
		}
		f.nextPair()
		f.ins("ADDQ", "$32", "BX")
		f.ins("DECQ", "R9")
		f.ins("JNZ", fmt.Sprintf("pair%d", T))
		f.advance(q4kBytes - 2048)
	})
}

// nibbles512 reads the low (0) or high (1) nibbles at mem.
func (f *file) nibbles512(nibble int, mem string, mask, reg int) {
	if nibble == 0 {
		f.ins("VPANDD", mem, z(mask), z(reg))
		return
	}
	f.ins("VPSRLW", "$4", mem, z(reg))
	f.ins("VPANDD", z(mask), z(reg), z(reg))
}

// Where a half of a super-block (R14 = 0, then 128) has its nibbles, its pairs of bits and its scales.

func q6kLow(base string, off int) string   { return atx(base, "R14", 8, off) }
func q6kHigh(base string, off int) string  { return atx(base, "R14", 4, 2048+off) }
func q6kScale(base string, off int) string { return atx(base, "R14", 1, 3072+off) }

// q6k_512: two integer sums per token, one for each scale: Z0.. and Z8..; Z27, Z28 scales, Z29 d, Z30 mask of bits 4 and 5.
func q6k_512(f *file) {
	f.function("q6kAVX512", 0, superParams6, q6kDoc)
	f.superArgs("half")
	f.broadcast512(0x0f0f0f0f, 31)
	f.broadcast512(0x30303030, 30)
	f.tiles512(func(T int) {
		f.ins("VCVTPH2PS", at("AX", 3328), z(29))
		f.ins("XORQ", "R14", "R14")
		f.label(fmt.Sprintf("half%d", T))
		for i := range 4 {
			for c := range 2 {
				f.ins("VPMOVSXBD", q6kScale("AX", 32*i+16*c), z(27+c))
				f.ins("VCVTDQ2PS", z(27+c), z(27+c))
				for t := range T {
					f.ins("VPBROADCASTD", at("SI", 8*t+4*c), z(8*c+t))
				}
			}
			for c := range 2 {
				f.groups("R12", T, 4, 2, func(g int) {
					g += 4 * c
					f.nibbles512(i&1, q6kLow("AX", 512*(i/2)+64*g), 31, 24)
					f.readAhead(g)
					high, v := q6kHigh("AX", 64*g), z(25)
					switch i {
					case 0:
						f.ins("VPSLLW", "$4", high, v)
					case 1:
						f.ins("VPSLLW", "$2", high, v)
					case 2:
						v = high
					case 3:
						f.ins("VPSRLW", "$2", high, v)
					}
					f.ins("VPTERNLOGD", "$0xF8", v, z(30), z(24)) // nibbles | (mask & v)
					for t := range T {
						f.ins("VPDPBUSD.BCST", at("CX", 32*t+4*g), z(24), z(8*c+t))
					}
				})
			}
			for t := range T {
				f.ins("VCVTDQ2PS", z(t), z(t))
				f.ins("VCVTDQ2PS", z(8+t), z(8+t))
				f.ins("VMULPS", z(27), z(t), z(t)) // exact, as is the sum: below 2^24
				f.ins("VFMADD231PS", z(28), z(8+t), z(t))
				f.ins("VMULPS.BCST", at("DX", 4*t), z(29), z(26))
				f.ins("VFMADD231PS", z(26), z(t), z(16+t))
			}
			f.nextBlock()
			f.ins("ADDQ", "R13", "SI") // two numbers for each token
			f.stepAhead()
		}
		f.ins("ADDQ", "$128", "R14")
		f.ins("CMPQ", "R14", "$256")
		f.ins("JNE", fmt.Sprintf("half%d", T))
		f.advance(q6kBytes)
	})
}

// q4k_256: R14 the super-block, BX scales of a pair of blocks; Y12, Y13 d*sc, Y8, Y9 dmin*mn.
func q4k_256(f *file, set string, vnni bool) {
	f.function("q4k"+set, 0, superParams, q4kDoc)
	f.superArgs("dsum")
	f.ins("VMOVDQU", nibbleMask, y(14))
	f.ones()
	f.tiles256("supers", 8, func(T int) {
		f.ins("MOVQ", "AX", "R14")
		f.ins("LEAQ", at("AX", 2112), "BX")
		f.label(fmt.Sprintf("pair%d", T))
		for nibble := range 2 {
			turns(T, vnni, func(u turn) {
				f.clear256(u)
				f.groups("DI", T, 8, 2, func(g int) {
					for _, h := range u.halves {
						f.nibbles256(nibble, at("AX", 64*g+32*h), 8+h)
					}
					if nibble == 0 && u.earliest() {
						f.readAhead(g)
					}
					f.dot256(u, vnni, 4*g)
				})
				for i, reg := range []int{12, 8} {
					for _, h := range u.halves {
						f.ins("VCVTPH2PS", at("R14", 2048+32*i+16*h), y(11))
						f.ins("VPMOVZXBD", at("BX", 128*i+16*nibble+8*h), y(reg+h))
						f.ins("VCVTDQ2PS", y(reg+h), y(reg+h))
						f.ins("VMULPS", y(11), y(reg+h), y(reg+h))
					}
				}
				u.each(func(t, h, sum int) {
					if !vnni {
						f.ins("VPMADDWD", y(15), y(sum), y(sum))
					}
					f.ins("VCVTDQ2PS", y(sum), y(sum))
					f.ins("VBROADCASTSS", at("DX", 4*t), y(10))
					f.ins("VMULPS", y(10), y(12+h), y(10))
					f.ins("VFMADD213PS", outAt(t, h), y(10), y(sum))
					f.ins("VBROADCASTSS", at("SI", 4*t), y(10))
					f.ins("VFNMADD231PS", y(10), y(8+h), y(sum))
					f.ins("VMOVUPS", y(sum), outAt(t, h))
				})
			})
			f.nextBlock()
		}
		f.nextPair()
		f.ins("ADDQ", "$32", "BX")
		f.ins("LEAQ", at("R14", 2048), "DI")
		f.ins("CMPQ", "AX", "DI")
		f.ins("JNE", fmt.Sprintf("pair%d", T))
		f.advance(q4kBytes - 2048)
	})
}

// nibbles256 reads the low (0) or high (1) nibbles at mem; Y14 is their mask.
func (f *file) nibbles256(nibble int, mem string, reg int) {
	if nibble == 0 {
		f.ins("VPAND", mem, y(14), y(reg))
		return
	}
	f.ins("VMOVDQU", mem, y(reg))
	f.ins("VPSRLW", "$4", y(reg), y(reg))
	f.ins("VPAND", y(14), y(reg), y(reg))
}

// q6k_256: without VNNI a sum of 4 products of 6-bit weights fits into 16 bits, and VPMADDWD multiplies it with its scale on
// the way to 32: one sum per token, from which 32*sum(q)*scale is taken at the end. With VNNI there are two sums, as in q6k_512.
func q6k_256(f *file, set string, vnni bool) {
	bits := f.constant("bits45", 0x30303030)
	f.function("q6k"+set, 0, superParams6, q6kDoc)
	f.superArgs("half")
	f.ins("VMOVDQU", nibbleMask, y(14))
	f.ins("VMOVDQU", bits, y(15))
	f.tiles256("supers", 4, func(T int) {
		f.ins("XORQ", "R14", "R14")
		f.label(fmt.Sprintf("half%d", T))
		for i := range 4 {
			for h := range 2 {
				if vnni {
					f.q6kVNNI(T, i, h)
				} else {
					f.q6kAVX2(T, i, h)
				}
				f.ins("VCVTPH2PS", at("AX", 3328+16*h), y(12))
				for t := range T {
					f.ins("VBROADCASTSS", at("DX", 4*t), y(10))
					f.ins("VMULPS", y(10), y(12), y(10))
					f.ins("VFMADD213PS", outAt(t, h), y(10), y(t))
					f.ins("VMOVUPS", y(t), outAt(t, h))
				}
			}
			f.nextBlock()
			f.ins("ADDQ", "R13", "SI") // two numbers for each token
			f.stepAhead()
		}
		f.ins("ADDQ", "$128", "R14")
		f.ins("CMPQ", "R14", "$256")
		f.ins("JNE", fmt.Sprintf("half%d", T))
		f.advance(q6kBytes)
	})
}

// sixBits256 reads group g of block i, half h; Y13 is used.
func (f *file) sixBits256(i, h, g, reg int) {
	f.nibbles256(i&1, q6kLow("AX", 512*(i/2)+64*g+32*h), reg)
	if h == 0 {
		f.readAhead(g)
	}
	f.ins("VMOVDQU", q6kHigh("AX", 64*g+32*h), y(13))
	switch i {
	case 0:
		f.ins("VPSLLW", "$4", y(13), y(13))
	case 1:
		f.ins("VPSLLW", "$2", y(13), y(13))
	case 3:
		f.ins("VPSRLW", "$2", y(13), y(13))
	}
	f.ins("VPAND", y(15), y(13), y(13))
	f.ins("VPOR", y(13), y(reg), y(reg))
}

func (f *file) q6kAVX2(T, i, h int) {
	for t := range T {
		f.zero(avx2, t)
	}
	for c := range 2 {
		// the scale of 16 weights, twice in 32 bits
		f.ins("VPMOVSXBD", q6kScale("AX", 32*i+16*c+8*h), y(12))
		f.ins("VPSLLD", "$16", y(12), y(13))
		f.ins("VPBLENDW", "$0xAA", y(13), y(12), y(12))
		f.groups("DI", T, 4, 2, func(g int) {
			g += 4 * c
			f.sixBits256(i, h, g, 8+g&1)
			if g&1 == 0 {
				return
			}
			for t := range T { // both groups
				for j := range 2 {
					f.ins("VPBROADCASTD", at("CX", 32*t+4*(g-1+j)), y(10+j))
					f.ins("VPMADDUBSW", y(10+j), y(8+j), y(10+j))
				}
				f.ins("VPADDW", y(11), y(10), y(10))
				f.ins("VPMADDWD", y(12), y(10), y(10))
				f.ins("VPADDD", y(10), y(t), y(t))
			}
		})
	}
	for c := range 2 {
		f.ins("VPMOVSXBD", q6kScale("AX", 32*i+16*c+8*h), y(8))
		for t := range T {
			f.ins("VPBROADCASTD", at("SI", 8*t+4*c), y(10))
			f.ins("VPMULLD", y(8), y(10), y(10))
			f.ins("VPADDD", y(10), y(t), y(t))
		}
	}
	for t := range T {
		f.ins("VCVTDQ2PS", y(t), y(t))
	}
}

func (f *file) q6kVNNI(T, i, h int) {
	for c := range 2 {
		for t := range T {
			f.ins("VPBROADCASTD", at("SI", 8*t+4*c), y(4*c+t))
		}
		f.groups("DI", T, 4, 2, func(g int) {
			g += 4 * c
			f.sixBits256(i, h, g, 8)
			for t := range T {
				f.ins("VPBROADCASTD", at("CX", 32*t+4*g), y(10))
				f.dpbusd256(10, 8, 4*c+t)
			}
		})
		f.ins("VPMOVSXBD", q6kScale("AX", 32*i+16*c+8*h), y(8))
		f.ins("VCVTDQ2PS", y(8), y(8))
		for t := range T {
			f.ins("VCVTDQ2PS", y(4*c+t), y(4*c+t))
			if c == 0 {
				f.ins("VMULPS", y(8), y(t), y(t))
			} else {
				f.ins("VFMADD231PS", y(8), y(4+t), y(t))
			}
		}
	}
}
