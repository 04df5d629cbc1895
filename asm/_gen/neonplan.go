package main

import "slices"

// plan says which values a nest keeps in registers.
type plan struct {
	Q         int  // quads at a time
	naturally bool // groups in ascending order, so that only half of the activations is in registers at once
	scales    bool // a super-block's scales stay in registers
	starts    bool // the initial values of the sums stay in registers, for all quads
	loop      bool // quads are a loop at run time
}

// plans are tried in this order until one fits into the registers. More quads at a time use a register of activations
// more often.
func (w *neonWeights) plans(T int) (all []plan) {
	for _, loop := range []bool{false, true} {
		for _, Q := range []int{4, 2, 1} {
			for _, scales := range []bool{true, false} {
				for _, starts := range []bool{true, false} {
					for _, naturally := range []bool{false, true} {
						all = append(all, plan{Q, naturally, scales, starts, loop})
					}
				}
			}
		}
	}
	return slices.DeleteFunc(all, func(p plan) bool {
		return p.loop && p.Q == 4 || !p.loop && w.long(T) || p.scales && w.super == 0 || p.starts &&
			(w.start < 0 || w.pairs || p.loop || p.Q == 4)
	})
}

// nest is the code for T tokens.
type nest struct {
	neonFile
	plan
	w     *neonWeights
	isa   neonISA
	T     int
	facc  int // [T][4] float sums, or [T][Q] of the current quads
	sum   [2]int
	deep  int // [T][Q][2] sums of 16 bits, without SDOT
	magic int // 3<<22, whose low bits sums are added to, so that a subtraction makes floats of them; else -1
	d     int // [4] or [8] scales of a super-block; else -1
	start int // the initial values of the sums, if plan.starts
	fixed int // the first register after all these

	// The current sub-block of those that share bytes, and quads.
	c, quad int
	sums    func(i int) (lane, reg int) // what products start from
	chunk   int                         // registers from here on are a sub-block's and these quads' own
	x       int                         // [T] or [T][2] 16 activations each
	unpacked
	free registers
}

// unpacked has the registers in which weights are unpacked.
type unpacked struct {
	mask, mask2 int // constants of the type
	raw, high   int // [Q] as loaded, and high bits
	out         int // [Q] a group's weights
	loaded      int // what raw holds: an offset, or -1
}

// errRegisters is the panic value when a plan needs too many registers.
const errRegisters = "out of vector registers"

// newNest allocates the registers whose values are kept over the whole loop over blocks.
func newNest(f neonFile, w *neonWeights, s neonISA, T int, p plan) *nest {
	k := &nest{neonFile: f, plan: p, w: w, isa: s, T: T, magic: -1, d: -1}
	r := &k.free
	if k.loop {
		k.facc = r.take(T * k.Q)
	} else {
		k.facc = r.take(4 * T)
	}
	if s.sdot && !w.pairs || w.minimum == minimumK {
		k.magic = r.take(1)
	}
	k.mask = r.take(1)
	k.mask2 = k.mask
	if w.masks > 1 {
		k.mask2 = r.take(1)
	}
	if k.scales {
		k.d = r.take(k.scaleRegisters())
	}
	if k.starts {
		k.start = r.take(wordRegisters(T))
	}
	k.fixed = r.next
	return k
}

// scaleRegisters is the number of registers for a super-block's scales: of all quads, or of the current ones.
func (k *nest) scaleRegisters() int {
	if k.loop {
		return k.w.superScales() / 4 * k.Q
	}
	return k.w.superScales()
}

// superScale is the register of d or dmin of quad i of the current ones.
func (k *nest) superScale(dmin bool, i int) int {
	if !k.loop {
		i += k.quad
	}
	if dmin {
		i += k.scaleRegisters() / 2
	}
	return k.d + i
}
