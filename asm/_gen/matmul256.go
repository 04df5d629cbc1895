package main

import "fmt"

// Kernels for 16 registers of 256 bits. The 16 rows of a panel are two halves. Y0 to Y7 are integer sums of the current block,
// Y8 and Y9 the halves' weights, Y10 an activation or a scale of activations, Y11 to Y13 whatever else; Y14 and Y15 are mostly
// constants. There is no room for the float sums of 8 tokens, so they lie in out itself:
//
//	R10 + R11 * {0, 1, 2, 4}, + R8 (3 strides) * {1, 2}, + R9 (5 strides), + R12 (7 strides)

// outAt is the address of token t's row, half h.
func outAt(t, h int) string {
	off := 32 * h
	switch t {
	case 0:
		return at("R10", off)
	case 1, 2, 4:
		return atx("R10", "R11", t, off)
	case 3, 6:
		return atx("R10", "R8", t/3, off)
	case 5:
		return atx("R10", "R9", 1, off)
	}
	return atx("R10", "R12", 1, off)
}

func matmul256(f *file, vnni bool) {
	set := "AVX2"
	if vnni {
		set = "AVXVNNI"
	}
	f.constant("nibbles", 0x0f0f0f0f)
	q8_256(f, set, vnni)
	q4_256(f, set, vnni)
	q4k_256(f, set, vnni)
	q6k_256(f, set, vnni)
}

const nibbleMask = "nibbles<>(SB)"

// turn is what the 8 integer sums are of: tokens first .. first+n-1, one half of the rows or both.
type turn struct {
	first, n int
	halves   []int
}

// sum is the register of token t's integer sums, half h.
func (u turn) sum(t, h int) int {
	if len(u.halves) == 1 {
		return t - u.first
	}
	return 2*(t-u.first) + h
}

// earliest tells the turn that is to read ahead.
func (u turn) earliest() bool { return u.first+u.halves[0] == 0 }

// each calls do for every token and half.
func (u turn) each(do func(t, h, sum int)) {
	for t := u.first; t < u.first+u.n; t++ {
		for _, h := range u.halves {
			do(t, h, u.sum(t, h))
		}
	}
}

// turns cuts T tokens into turns. With VNNI loads are the limit, and an activation loaded for both halves saves one: 4 tokens at
// a time. Without, the work on the weights costs more: all tokens, one half at a time.
func turns(T int, vnni bool, do func(u turn)) {
	switch {
	case T <= 4:
		do(turn{0, T, []int{0, 1}})
	case vnni:
		do(turn{0, (T + 1) / 2, []int{0, 1}})
		do(turn{(T + 1) / 2, T / 2, []int{0, 1}})
	default:
		do(turn{0, T, []int{0}})
		do(turn{0, T, []int{1}})
	}
}

func q8_256(f *file, set string, vnni bool) {
	if vnni {
		f.function("q8"+set, 0, blockParams, q8Doc)
		f.blockArgs()
	} else {
		f.function("q8"+set, 0, blockParams, q8SignedDoc)
		f.blockArgs()
		f.ones()
	}
	f.tiles256("blocks", 8, func(T int) {
		turns(T, vnni, func(u turn) {
			if vnni {
				f.bias256(u, 0)
			} else {
				f.clear256(u)
			}
			f.groups("DI", T, 8, 2, func(g int) {
				f.weights256(u, g, func(h int) {
					f.ins("VMOVDQU", at("AX", 64*g+32*h), y(8+h))
					if !vnni {
						f.ins("VPABSB", y(8+h), y(13+h))
					}
				})
				u.each(func(t, h, sum int) {
					switch {
					case h != u.halves[0]:
					case T == 1 && vnni: // loads are the limit: one for four groups
						if g%4 == 0 {
							f.ins("VBROADCASTI128", at("CX", 4*g), y(11))
						}
						f.ins("VPSHUFD", imm(0x55*(g%4)), y(11), y(10))
					default:
						f.ins("VPBROADCASTD", at("CX", 32*t+4*g), y(10))
					}
					if vnni {
						f.dpbusd256(10, 8+h, sum)
					} else {
						f.dotSigned(10, 8+h, 13+h, sum)
					}
				})
			})
			if u.earliest() {
				f.readAhead(8)
			}
			f.scale256(u)
		})
		f.afterBlock(512)
	})
}

// q4_256: without VNNI the sums of a block's nibbles fit into 16 bits: 8 times 2*15*127.
func q4_256(f *file, set string, vnni bool) {
	f.function("q4"+set, 0, blockParams, q4Doc)
	f.blockArgs()
	f.ins("VMOVDQU", nibbleMask, y(14))
	f.ones()
	f.tiles256("blocks", 8, func(T int) {
		turns(T, vnni, func(u turn) {
			if vnni {
				f.bias256(u, 4)
			} else {
				f.clear256(u)
			}
			f.groups("DI", T, 4, 1, func(g int) {
				for nibble := range 2 {
					f.weights256(u, g, func(h int) { f.nibbles256(nibble, at("AX", 64*g+32*h), 8+h) })
					f.dot256(u, vnni, 16*nibble+4*g)
				}
			})
			if !vnni {
				u.each(func(t, h, sum int) {
					if h == u.halves[0] {
						f.ins("VPBROADCASTD", at("SI", 4*t), y(10))
						f.ins("VPSRAD", "$4", y(10), y(10))
					}
					f.ins("VPMADDWD", y(15), y(sum), y(sum))
					f.ins("VPADDD", y(10), y(sum), y(sum))
				})
			}
			if u.earliest() {
				f.readAhead(4)
			}
			f.scale256(u)
		})
		f.afterBlock(256)
	})
}

// tiles256 writes a loop over as many blocks as the parameter count says, for every number of tokens up to max.
func (f *file) tiles256(count string, max int, body func(T int)) {
	f.dispatch("R8", max)
	for T := max; T >= 1; T-- {
		f.label(fmt.Sprintf("t%d", T))
		f.ins("LEAQ", "(R11)(R11*2)", "R8")
		f.ins("LEAQ", "(R11)(R11*4)", "R9")
		f.ins("LEAQ", "(R8)(R11*4)", "R12")
		f.ins("VPXOR", y(0), y(0), y(0))
		for t := range T {
			f.ins("VMOVUPS", y(0), outAt(t, 0))
			f.ins("VMOVUPS", y(0), outAt(t, 1))
		}
		f.label(fmt.Sprintf("loop%d", T))
		body(T)
		f.ins("DECQ", f.arg(count))
		f.ins("JNZ", fmt.Sprintf("loop%d", T))
		f.ret()
	}
}

// bias256 starts sums at the tokens' biases, shifted right.
func (f *file) bias256(u turn, shift int) {
	u.each(func(t, h, sum int) {
		if h != u.halves[0] {
			f.ins("VMOVDQA", y(u.sum(t, u.halves[0])), y(sum))
			return
		}
		f.ins("VPBROADCASTD", at("SI", 4*t), y(sum))
		if shift > 0 {
			f.ins("VPSRAD", imm(shift), y(sum), y(sum))
		}
	})
}

func (f *file) clear256(u turn) { u.each(func(_, _, sum int) { f.zero(avx2, sum) }) }

// weights256 reads a turn's halves of group g; the first turn also reads ahead.
func (f *file) weights256(u turn, g int, read func(h int)) {
	for _, h := range u.halves {
		read(h)
	}
	if u.earliest() {
		f.readAhead(g)
	}
}

// dot256 multiplies unsigned weights with the 4 activations of each token at offset off: into 32 bits with VNNI, else in pairs
// into 16.
func (f *file) dot256(u turn, vnni bool, off int) {
	u.each(func(t, h, sum int) {
		if h == u.halves[0] {
			f.ins("VPBROADCASTD", at("CX", 32*t+off), y(10))
		}
		if vnni {
			f.dpbusd256(10, 8+h, sum)
			return
		}
		f.ins("VPMADDUBSW", y(10), y(8+h), y(11))
		f.ins("VPADDW", y(11), y(sum), y(sum))
	})
}

// dotSigned multiplies |w| with v that has taken the sign of w: two products of u8 x s8 fit into 16 bits, two of (w+128)*v do
// not.
func (f *file) dotSigned(v, w, abs, sum int) {
	f.ins("VPSIGNB", y(w), y(v), y(11))
	f.ins("VPMADDUBSW", y(11), y(abs), y(11))
	f.ins("VPMADDWD", y(15), y(11), y(11))
	f.ins("VPADDD", y(11), y(sum), y(sum))
}

// scale256 is out = fma(float(isum), dw*dx, out).
func (f *file) scale256(u turn) {
	for _, h := range u.halves {
		f.ins("VCVTPH2PS", blockScales(16*h), y(12+h))
	}
	u.each(func(t, h, sum int) {
		if h == u.halves[0] {
			f.ins("VBROADCASTSS", at("DX", 4*t), y(10))
		}
		f.ins("VCVTDQ2PS", y(sum), y(sum))
		f.ins("VMULPS", y(10), y(12+h), y(11))
		f.ins("VFMADD213PS", outAt(t, h), y(11), y(sum))
		f.ins("VMOVUPS", y(sum), outAt(t, h))
	})
}

// ones fills Y15 with 16-bit ones, with which VPMADDWD adds neighbours.
func (f *file) ones() {
	f.ins("VPCMPEQW", y(15), y(15), y(15))
	f.ins("VPSRLW", "$15", y(15), y(15))
}
