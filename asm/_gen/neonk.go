package main

import "fmt"

// The K formats for NEON: registers as for blocks, but
//
//	R0 quants  R1 d and dmin  R5 super-blocks  R11 scales  R12 pairs (Q4_K) or halves (Q6_K) left
//	R13 pairs of high bits (Q6_K), else as for blocks

func neonMatMulK(s neonISA) func(*file) {
	return neon(func(f neonFile) {
		if s.sdot {
			f.constant("magic", 0x4b400000)
		}
		f.q4k(s)
		f.q6k(s)
	})
}

func (f neonFile) superArgs(sums string) {
	f.args("w", "R0", "q", "R2", "d", "R3", sums, "R4", "supers", "R5", "n", "R6", "tokens", "R7", "out", "R8", "stride", "R9")
	f.strides()
}

// bytes widens n*4 signed bytes, 4 or 8, to integers in as many registers.
func (f neonFile) bytes(base string, off, n, reg int) {
	if n == 1 {
		f.ins("FMOVS", at(base, off), q(reg))
	} else {
		f.ins("FMOVD", at(base, off), q(reg))
	}
	f.op("SXTL8", reg, reg)
	if n == 2 {
		f.op("SXTL4H", reg, reg+1)
	}
	f.op("SXTL4", reg, reg)
}

// smalls makes n*4 float32s of unsigned bytes: added to 3<<22, and that subtracted.
func (f neonFile) smalls(base string, off, n, magic, reg int) {
	if n == 1 {
		f.ins("FMOVS", at(base, off), q(reg))
	} else {
		f.ins("FMOVD", at(base, off), q(reg))
	}
	f.ins("VUXTL", v(reg, "B8"), v(reg, "H8"))
	if n == 2 {
		f.ins("VUADDW2", v(reg, "H8"), v(magic, "S4"), v(reg+1, "S4"))
	}
	f.ins("VUADDW", v(reg, "H4"), v(magic, "S4"), v(reg, "S4"))
	for i := reg; i < reg+n; i++ {
		f.op("FSUB4", magic, i, i)
	}
}

func (f neonFile) q4k(s neonISA) {
	f.function("q4k"+s.name, 0, superParams, q4kDoc)
	f.superArgs("dsum")
	f.choose("R6", s.most)
	for T := s.most; T > 0; T-- {
		k := newTile(s, T, s.wholeQuads(T))
		mask := k.free.take(1)
		f.label(fmt.Sprintf("t%d", T))
		f.ins("VMOVI", "$15", v(mask, "B16"))
		f.begin(k)
		magic := k.magic
		if magic < 0 {
			magic = k.free.take(1)
			f.magic(magic)
		}
		scales := -1 // of d and dmin, if there is room
		if k.free.next <= 32-8-6 {
			scales = k.free.take(8)
		}
		f.label(fmt.Sprintf("loop%d", T))
		f.prefetch(2048, q4kBytes-2048)
		f.ins("ADD", "$2048", "R0", "R1")
		f.ins("ADD", "$2112", "R0", "R11")
		f.ins("MOVD", "$4", "R12")
		if scales >= 0 {
			f.halves("R1", 0, 4, scales)
			f.halves("R1", 32, 4, scales+4)
		}
		f.label(fmt.Sprintf("pair%d", T))
		f.prefetch(0, 512)
		for nibble := range 2 {
			for quad := 0; quad < 4; quad += k.quads {
				f.add(k, k.iacc, quad, 0, 8, nil, func(g, quad, n, reg int) {
					f.nibbles(64*g+16*quad, n, nibble == 1, mask, reg)
				})
				for i := 0; i < k.quads; i += 2 {
					f.scaleQ4K(k, quad, i, 16*nibble, magic, scales)
				}
			}
			f.ins("ADD", "R10", "R2")
			f.ins("ADD", "R7", "R3")
			f.ins("ADD", "R7", "R4")
		}
		f.ins("ADD", "$512", "R0")
		f.ins("ADD", "$32", "R11")
		f.ins("SUB", "$1", "R12")
		f.ins("CBNZ", "R12", fmt.Sprintf("pair%d", T))
		f.ins("ADD", imm(q4kBytes-2048), "R0")
		f.ins("SUB", "$1", "R5")
		f.ins("CBNZ", "R5", fmt.Sprintf("loop%d", T))
		f.store(k)
		f.done()
	}
}

// scaleQ4K adds the sums of quads i and i+1 of those from quad on; their scales are at R11+at, their minimums 128 bytes on. d and
// dmin are in registers from scales on, or, if that is negative, in memory.
func (f neonFile) scaleQ4K(k *tile, quad, i, at, magic, scales int) {
	n := min(2, k.quads)
	r := k.free
	spare, sc, tmp := r.take(2), r.take(n), r.take(1)
	product := func(base, off int) {
		d := spare
		if scales >= 0 {
			d = scales + base/8 + quad + i
		} else {
			f.halves("R1", base+8*(quad+i), n, d)
		}
		f.smalls("R11", off+4*(quad+i), n, magic, sc)
		for j := range n {
			f.op("FMUL4", d+j, sc+j, sc+j)
		}
	}
	product(0, at)
	dx, _ := f.words("R3", 0, k.T, spare)
	for t := range k.T {
		for j := range n {
			lane, reg := dx(t)
			sum := k.sum(k.iacc, t, i+j)
			f.float(k, sum)
			f.op("FMULI", lane, reg, sc+j, tmp)
			f.ins("VFMLA", v(tmp, "S4"), v(sum, "S4"), v(k.float(t, quad+i+j), "S4"))
		}
	}
	product(32, 128+at)
	dsum, _ := f.words("R4", 0, k.T, spare)
	for t := range k.T {
		for j := range n {
			lane, reg := dsum(t)
			f.op("FMLSI", lane, reg, sc+j, k.float(t, quad+i+j))
		}
	}
}

func (f neonFile) q6k(s neonISA) {
	f.function("q6k"+s.name, 0, superParams6, q6kDoc)
	f.superArgs("half")
	f.choose("R6", s.most)
	for T := s.most; T > 0; T-- {
		quads := s.wholeQuads(T)
		if s.sdot && T > 2 { // two sums for each
			quads = []int{3: 2, 4: 1}[T]
		}
		k := newTile(s, T, quads)
		second := k.takeSums()
		mask, high := k.free.take(1), k.free.take(1)
		scales := -1 // of d, if there is room
		if T == 1 {
			scales = k.free.take(4)
		}
		starts := k.free.next
		if !s.sdot {
			k.free.take(1)
		}
		f.label(fmt.Sprintf("t%d", T))
		f.ins("VMOVI", "$63", v(mask, "B16"))
		f.clear(k.facc, 4*T)
		f.label(fmt.Sprintf("loop%d", T))
		f.ins("ADD", "$3328", "R0", "R1")
		f.ins("ADD", "$3072", "R0", "R11")
		f.ins("ADD", "$2048", "R0", "R13")
		f.ins("MOVD", "$2", "R12")
		if scales >= 0 {
			f.halves("R1", 0, 4, scales)
		}
		f.label(fmt.Sprintf("half%d", T))
		f.prefetch(0, q6kBytes/2)
		for i := range 4 {
			for quad := 0; quad < 4; quad += k.quads {
				for h := range 2 {
					at, _ := f.words("R4", 0, 2*T, starts)
					f.add(k, []int{k.iacc, second}[h], quad, 4*h, 4*h+4, func(t int) (int, int) { return at(2*t + h) }, func(g, quad, n, reg int) {
						for j := range n {
							f.sixBits(i, 64*g+16*(quad+j), mask, high, reg+j)
						}
					})
				}
				for j := 0; j < k.quads; j += 2 {
					f.scaleQ6K(k, second, quad, j, 32*i, scales)
				}
			}
			f.ins("ADD", "R10", "R2")
			f.ins("ADD", "R7", "R3")
			f.ins("ADD", "R7<<1", "R4")
		}
		f.ins("ADD", "$1024", "R0")
		f.ins("ADD", "$512", "R13")
		f.ins("ADD", "$128", "R11")
		f.ins("SUB", "$1", "R12")
		f.ins("CBNZ", "R12", fmt.Sprintf("half%d", T))
		f.ins("ADD", imm(q6kBytes-2048), "R0")
		f.ins("SUB", "$1", "R5")
		f.ins("CBNZ", "R5", fmt.Sprintf("loop%d", T))
		f.store(k)
		f.done()
	}
}

// sixBits loads 4 weights of each of 4 rows of sub-block i of four: 4 bits, and 2 bits above them.
func (f neonFile) sixBits(i, off, mask, high, reg int) {
	f.ins("FMOVQ", at("R0", i/2*512+off), q(reg))
	f.ins("FMOVQ", at("R13", off), q(high))
	if i%2 == 1 {
		f.ins("VUSHR", "$4", v(reg, "B16"), v(reg, "B16"))
	}
	if i > 0 {
		f.ins("VUSHR", imm(2*i), v(high, "B16"), v(high, "B16"))
	}
	f.ins("VSLI", "$4", v(high, "B16"), v(reg, "B16"))
	if i < 3 {
		f.ins("VAND", v(mask, "B16"), v(reg, "B16"), v(reg, "B16"))
	}
}

// scaleQ6K adds the two sums of quads i and i+1 of those from quad on; their scales are at R11+at and 16 bytes on; d is in
// registers from scales on, or, if that is negative, in memory.
func (f neonFile) scaleQ6K(k *tile, second, quad, i, at, scales int) {
	n := min(2, k.quads)
	r := k.free
	d, s1, tmp := r.take(n), r.take(n), r.take(1)
	f.bytes("R11", at+4*(quad+i), n, d)
	f.bytes("R11", at+16+4*(quad+i), n, s1)
	for t := range k.T {
		for j := range n {
			sum := k.sum(k.iacc, t, i+j)
			f.op("MUL4", d+j, sum, sum)
			f.op("MLA4", s1+j, k.sum(second, t, i+j), sum)
			f.op("SCVTF4", sum, sum)
		}
	}
	if scales >= 0 {
		d = scales + quad + i
	} else {
		f.halves("R1", 8*(quad+i), n, d)
	}
	dx, _ := f.words("R3", 0, k.T, s1)
	for t := range k.T {
		for j := range n {
			lane, reg := dx(t)
			f.op("FMULI", lane, reg, d+j, tmp)
			f.ins("VFMLA", v(tmp, "S4"), v(k.sum(k.iacc, t, i+j), "S4"), v(k.float(t, quad+i+j), "S4"))
		}
	}
}
