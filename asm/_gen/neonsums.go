package main

// The integer sums of products of a sub-block, for Q quads.

// part multiplies one sub-block's rows of Q quads.
func (k *nest) part() {
	w := k.w
	k.free = registers{k.fixed}
	r := &k.free
	if !k.isa.sdot {
		k.deep = r.take(2 * k.T * k.Q)
	}
	if k.isa.sdot || w.pairs {
		k.sum[0] = r.take(k.T * k.Q)
	}
	if k.isa.sdot && w.pairs {
		k.sum[1] = r.take(k.T * k.Q)
	}
	k.chunk = r.next
	if k.isa.sdot {
		k.startSums()
	}
	if k.both() {
		k.x = r.take(2 * k.T)
	} else {
		k.x = r.take(k.T)
	}
	k.high = r.take(w.high * k.Q)
	if !k.shared() {
		k.raw = r.take(w.raw * k.Q)
	}
	k.out = r.take(k.Q)
	r.take(w.spare) // behind it
	k.loaded = -1
	if k.isa.sdot {
		k.dot()
	} else {
		k.multiply()
	}
	if w.pairs {
		k.scaleHalves()
	} else {
		k.scaleBlock()
	}
}

// both reports whether all activations of a sub-block are in registers at once.
func (k *nest) both() bool { return !k.naturally && k.w.order[1] > 3 }

// shared reports whether each loaded vector serves one group only, so that it is unpacked in place.
func (k *nest) shared() bool { return k.naturally && k.w.order[1] > 3 }

func (k *nest) order() []int {
	if k.both() {
		return k.w.order
	}
	return naturally
}

// activations loads what the n-th group of the order needs, and returns where those of group g of token t are.
func (k *nest) activations(n int) func(g, t int) int {
	if k.both() {
		for t := 0; n == 0 && t < k.T; t++ {
			k.ins("FLDPQ", at(k.act("R2"), 32*t), pair(k.x+2*t))
		}
		return func(g, t int) int { return k.x + 2*t + g/4 }
	}
	for t := 0; n%4 == 0 && t < k.T; t++ {
		k.ins("FMOVQ", at(k.act("R2"), 32*t+4*n), q(k.x+t))
	}
	return func(_, t int) int { return k.x + t }
}

// act is the register that points to activations, or to their scales or sums.
func (k *nest) act(reg string) string {
	if k.loop {
		return map[string]string{"R2": "R24", "R3": "R25", "R4": "R26"}[reg]
	}
	return reg
}

// weights is the memory off bytes after a register that points to weights or their scales, and quad bytes more for each
// quad before the current ones.
func (k *nest) weights(reg string, off, quad int) (base string, at int) {
	if k.loop {
		return reg, off
	}
	return map[string]string{"R14": "R0", "R15": "R1", "R16": "R11"}[reg], off + quad*k.quad
}

// wordRegisters is how many registers words takes for n numbers, up to 4.
func wordRegisters(n int) int { return 1 + n/3 - n/4 }

// words4 loads one number for each token, or two.
func (k *nest) words4(reg string, r *registers) func(i int) (lane, reg int) {
	n := k.T
	if reg == "R4" && k.w.pairs {
		n *= 2
	}
	first := r.next
	lane, used := k.words(k.act(reg), 0, n, first)
	r.take(used)
	if reg == "R4" {
		for i := first; i < first+used; i++ {
			k.w.prepare(k, i)
		}
	}
	return lane
}

// half is the index of the sum to which a group belongs.
func (k *nest) half(g int) int {
	if k.w.pairs {
		return g / 4
	}
	return 0
}

// startSums sets the registers of the sums to their initial values.
func (k *nest) startSums() {
	w := k.w
	halves := 1
	if w.pairs {
		halves = 2
	}
	switch {
	case w.start < 0:
	case !k.starts:
		r := k.free // weights' registers, for now
		k.sums = k.words4("R4", &r)
	case k.quad == 0:
		k.sums = k.words4("R4", &registers{k.start})
	}
	for h := range halves {
		for t := range k.T {
			for i := range k.Q {
				s := k.isum(h, t, i)
				switch {
				case w.start >= 0:
					lane, reg := k.sums(t*halves + h)
					k.ins("VDUP", vlane(reg, lane), v(s, "S4"))
				case w.pairs:
					k.clear(s, 1)
				case k.T == 1: // there loads are as scarce as arithmetic
					k.ins("VMOV", v(k.magic, "B16"), v(s, "B16"))
				case i%2 == 0:
					k.loadVectors("R13", 0, s, min(2, k.Q))
				}
			}
		}
	}
}

// dot adds a sub-block's products: one SDOT per token, quad and group.
func (k *nest) dot() {
	for n, g := range k.order() {
		x := k.activations(n)
		k.w.unpack(k, k.c, g, k.out)
		for i := range k.Q {
			for t := range k.T {
				k.op("SDOT", g%4, x(g, t), k.out+i, k.isum(k.half(g), t, i))
			}
		}
	}
}

// multiply is startSums and dot without SDOT. Products are 16-bit numbers, of which as many groups are added as cannot
// overflow.
func (k *nest) multiply() {
	w := k.w
	r := k.free
	xs := r.take(2) // of two tokens, or of two groups
	sum := func(t, i int) int { return k.deep + 2*(t*k.Q+i) }
	if w.fit == 2 {
		k.multiplyPairs(xs, r)
		return
	}
	for n, g := range k.order() {
		x := k.activations(n)
		w.unpack(k, k.c, g, k.out)
		for t := range k.T {
			k.ins("VDUP", vlane(x(g, t), g%4), v(xs+t, "S4"))
		}
		mul := "SMLAL"
		if n%w.fit == 0 {
			mul = "SMULL"
		}
		for i := range k.Q {
			for t := range k.T {
				k.op(mul, xs+t, k.out+i, sum(t, i))
				k.op(mul+"2", xs+t, k.out+i, sum(t, i)+1)
			}
		}
		if n%w.fit == w.fit-1 {
			k.reduce(k.half(g), true)
		}
	}
}

// reduce adds pairs of neighboring deep sums, of 16 or 32 bits, and the initial values.
func (k *nest) reduce(half int, narrow bool) {
	if k.w.start >= 0 {
		r := registers{k.out} // they are not needed now
		k.sums = k.words4("R4", &r)
	}
	for t := range k.T {
		for i := range k.Q {
			s := k.deep + 2*(t*k.Q+i)
			to := k.isum(half, t, i)
			if narrow {
				k.op("SADDLP", s, s)
				k.op("SADDLP", s+1, s+1)
			}
			k.ins("VADDP", v(s+1, "S4"), v(s, "S4"), v(to, "S4"))
			if k.w.start >= 0 {
				n := t
				if k.w.pairs {
					n = 2*t + half
				}
				lane, reg := k.sums(n)
				k.ins("VDUP", vlane(reg, lane), v(s+1, "S4"))
				k.ins("VADD", v(s+1, "S4"), v(to, "S4"), v(to, "S4"))
			}
		}
	}
}

// multiplyPairs is for weights up to 128: two products fit.
func (k *nest) multiplyPairs(xs int, r registers) {
	w := k.w
	p := r.take(2)
	second := r.take(k.Q)
	order := k.order()
	for n := 0; n < 8; n += 2 {
		a, b := order[n], order[n+1]
		x := k.activations(n)
		w.unpack(k, k.c, a, k.out)
		w.unpack(k, k.c, b, second)
		for t := range k.T {
			k.ins("VDUP", vlane(x(a, t), a%4), v(xs, "S4"))
			k.ins("VDUP", vlane(x(b, t), b%4), v(xs+1, "S4"))
			for i := range k.Q {
				s := k.deep + 2*(t*k.Q+i)
				add := "SADALP"
				if n == 0 {
					add = "SADDLP"
				}
				k.op("SMULL", xs, k.out+i, p)
				k.op("SMULL2", xs, k.out+i, p+1)
				k.op("SMLAL", xs+1, second+i, p)
				k.op("SMLAL2", xs+1, second+i, p+1)
				k.op(add, p, s)
				k.op(add, p+1, s+1)
			}
		}
	}
	k.reduce(0, false)
}

// toFloat converts an integer sum to float32.
func (k *nest) toFloat(sum int) {
	if k.isa.sdot && !k.w.pairs {
		k.op("FSUB4", k.magic, sum, sum)
	} else {
		k.op("SCVTF4", sum, sum)
	}
}
