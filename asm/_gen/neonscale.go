package main

// How a sub-block's integer sums are scaled and added. Registers after those of the sums are scratch, since the weights
// are no longer needed. Two quads are scaled at a time.

// scaleBlock: acc = fma(float(isum), dw*dx, acc), and the term of the minimum. The same instruction for several tokens
// and quads is written in batches, so that an in-order core stalls less.
func (k *nest) scaleBlock() {
	r := registers{k.chunk}
	numbers := r.take(wordRegisters(k.T))
	n := min(k.Q, 2)
	dw, work := r.take(n), r.take(2)
	batch := min(32-work, k.T*n, 4) // products with dx at a time
	for from := 0; from < k.Q; from += n {
		tokens := registers{numbers}
		dx := k.words4("R3", &tokens)
		k.weightScales(from, n, dw, work)
		for at := 0; at < k.T*n; at += batch {
			all := func(do func(product, sum, t, i int)) {
				for j := at; j < min(at+batch, k.T*n); j++ {
					do(work+j-at, k.isum(0, j/n, from+j%n), j/n, j%n)
				}
			}
			all(func(_, sum, _, _ int) { k.toFloat(sum) })
			all(func(product, _, t, i int) {
				lane, reg := dx(t)
				k.op("FMULI", lane, reg, dw+i, product)
			})
			all(func(product, sum, t, i int) {
				k.ins("VFMLA", v(product, "S4"), v(sum, "S4"), v(k.float(t, from+i), "S4"))
			})
		}
		if k.w.minimum == noMinimum {
			continue
		}
		tokens = registers{numbers}
		dsum := k.words4("R4", &tokens)
		add := "FMLAI"
		if k.w.minimum == minimumBlock {
			base, off := k.weights("R15", 32+8*from, 8)
			k.halves(base, off, n, dw)
		} else {
			add = "FMLSI"
			k.scaled(32, minimumsAt, false, from, n, dw, work)
		}
		for t := range k.T {
			for i := range n {
				lane, reg := dsum(t)
				k.op(add, lane, reg, dw+i, k.float(t, from+i))
			}
		}
	}
}

// weightScales leaves a sub-block's scales of n quads, quad from of the current ones and the next, in registers from dw
// on.
func (k *nest) weightScales(from, n, dw, work int) {
	switch {
	case k.w.dBytes == 16:
		k.powers(from, n, dw, work)
	case k.w.alone && k.d >= 0:
		for i := range n {
			d := v(k.superScale(false, from)+i, "B16")
			k.ins("VORR", d, d, v(dw+i, "B16"))
		}
	case k.w.super == 0, k.w.alone:
		base, off := k.weights("R15", 8*from, 8)
		k.halves(base, off, n, dw)
	default:
		k.scaled(0, 0, k.w.minimum != minimumK, from, n, dw, work)
	}
}

// scaled leaves the products of a super-block's binary16 scales, at off, with bytes of the sub-block, at off bytes,
// signed or not.
func (k *nest) scaled(off, bytes int, signed bool, from, n, dst, work int) {
	d := work
	if k.d >= 0 {
		d = k.superScale(off > 0, from)
	} else {
		base, off := k.weights("R15", off+8*from, 8)
		k.halves(base, off, n, d)
	}
	base, bytes := k.weights("R16", k.c*k.w.scalesStep+bytes+4*from, 4)
	if signed {
		k.bytes(base, bytes, n, dst)
		for i := range n {
			k.op("SCVTF4", dst+i, dst+i)
		}
	} else {
		k.smalls(base, bytes, n, k.magic, dst)
	}
	for i := range n {
		k.op("FMUL4", d+i, dst+i, dst+i)
	}
}

// powers is 2^(e-128) of bytes e: the greater of (e-1)<<23 and (e+1)<<21 as the bits of a float32. It uses two scratch
// registers.
func (k *nest) powers(from, n, dw, work int) {
	one, small := work, work+1
	k.ins("VMOVI", "$1", v(one, "B16"))
	k.ins("VUSHR", "$24", v(one, "S4"), v(one, "S4"))
	for i := range n {
		k.ins("FMOVS", at(k.weights("R15", 4*(from+i), 4)), q(dw+i))
		k.ins("VUXTL", v(dw+i, "B8"), v(dw+i, "H8"))
		k.ins("VUXTL", v(dw+i, "H4"), v(dw+i, "S4"))
		k.ins("VADD", v(one, "S4"), v(dw+i, "S4"), v(small, "S4"))
		k.ins("VSUB", v(one, "S4"), v(dw+i, "S4"), v(dw+i, "S4"))
		k.ins("VSHL", "$21", v(small, "S4"), v(small, "S4"))
		k.ins("VSHL", "$23", v(dw+i, "S4"), v(dw+i, "S4"))
		k.op("SMAX4", small, dw+i, dw+i)
	}
}

// scaleHalves: acc = fma(float(sc0*isum0 + sc1*isum1), d*dx, acc), and the term of the minimum.
func (k *nest) scaleHalves() {
	r := registers{k.chunk}
	dx := k.words4("R3", &r)
	var sums func(i int) (lane, reg int)
	if k.w.minimum != noMinimum {
		sums = k.words4("R4", &r)
	}
	n := min(k.Q, 2)
	sc0, sc1 := r.take(n), r.take(n)
	tmp := r.take(1)
	d, dmin, u := sc0, 0, 0
	if k.w.minimum != noMinimum {
		d, dmin, u = r.take(n), r.take(n), r.take(1)
	}
	for from := 0; from < k.Q; from += n {
		k.halfScale(0, from, n, sc0, false)
		k.halfScale(1, from, n, sc1, false)
		for t := range k.T {
			for i := range n {
				sum := k.isum(0, t, from+i)
				k.op("MUL4", sc0+i, sum, sum)
				k.op("MLA4", sc1+i, k.isum(1, t, from+i), sum)
				k.op("SCVTF4", sum, sum)
			}
		}
		dw := d
		if k.d >= 0 {
			dw = k.superScale(false, from)
		} else {
			base, off := k.weights("R15", 8*from, 8)
			k.halves(base, off, n, dw)
		}
		low := dmin
		if k.w.minimum != noMinimum {
			k.halfScale(0, from, n, sc0, true)
			k.halfScale(1, from, n, sc1, true)
			if k.d >= 0 {
				low = k.superScale(true, from)
			} else {
				base, off := k.weights("R15", 32+8*from, 8)
				k.halves(base, off, n, low)
			}
		}
		for t := range k.T {
			for i := range n {
				acc := k.float(t, from+i)
				lane, reg := dx(t)
				k.op("FMULI", lane, reg, dw+i, tmp)
				k.ins("VFMLA", v(tmp, "S4"), v(k.isum(0, t, from+i), "S4"), v(acc, "S4"))
				if k.w.minimum == noMinimum {
					continue
				}
				lane0, reg0 := sums(2 * t)
				lane1, reg1 := sums(2*t + 1)
				k.op("MULI", lane0, reg0, sc0+i, u)
				k.op("MLAI", lane1, reg1, sc1+i, u)
				k.op("SCVTF4", u, u)
				k.op("FMULI", lane, reg, low+i, tmp)
				k.ins("VFMLS", v(tmp, "S4"), v(u, "S4"), v(acc, "S4"))
			}
		}
	}
}

// halfScale leaves the scales, or the minimums, of half a sub-block as integers, for n quads.
func (k *nest) halfScale(half, from, n, to int, minimums bool) {
	base, off := k.weights("R16", k.c*k.w.scalesStep+16*half+4*from, 4)
	if k.w.minimum == minimumHalves {
		k.nibbleBytes(base, off, n, minimums, to)
	} else {
		k.bytes(base, off, n, to)
	}
}

// nibbleBytes converts the low or high nibbles of n*4 bytes to integers.
func (k *nest) nibbleBytes(base string, off, n int, high bool, reg int) {
	if n == 1 {
		k.ins("FMOVS", at(base, off), q(reg))
	} else {
		k.ins("FMOVD", at(base, off), q(reg))
	}
	if high {
		k.ins("VUSHR", "$4", v(reg, "B16"), v(reg, "B16"))
	} else {
		k.ins("VSHL", "$4", v(reg, "B16"), v(reg, "B16"))
		k.ins("VUSHR", "$4", v(reg, "B16"), v(reg, "B16"))
	}
	k.ins("VUXTL", v(reg, "B8"), v(reg, "H8"))
	if n == 2 {
		k.ins("VUXTL2", v(reg, "H8"), v(reg+1, "S4"))
	}
	k.ins("VUXTL", v(reg, "H4"), v(reg, "S4"))
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

// smalls converts n*4 unsigned bytes to float32: by adding them to the bits of 3<<22, and subtracting that number.
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
