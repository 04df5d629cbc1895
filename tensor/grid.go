package tensor

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/specgo/spec/asm"
)

// How the types with grids are encoded. A weight is d*u*q: d the block's, u an odd integer of 16 or 32 weights, q a
// level with a sign; the levels of 4 or 8 neighbouring weights are an entry of the grid. For each group of weights with
// one u alone the best of some scales is searched for, improved by least squares; for a scale, each entry is the best
// of those near the levels that the weights would have without a grid. Then come d, by what the groups' scales lose,
// the best u beside each group's own, and d once more by least squares.

// grid is a grid with, for each choice of levels, the entries near it.
type grid struct {
	asm.Grid
	entries [][8]float32 // their levels
	middles []float32    // between the levels
	near    [][]uint16   // by the levels as digits of base len(Levels), that of the first weight the highest
}

// nearEntries is how many entries are tried for levels that are no entry.
const nearEntries = 12

func newGrid(of asm.Grid) *grid {
	g := &grid{Grid: of}
	for _, e := range of.Entries {
		var levels [8]float32
		for j := range of.Weights {
			levels[j] = of.Levels[e>>(j*of.Bits)&(1<<of.Bits-1)]
		}
		g.entries = append(g.entries, levels)
	}
	for i := range len(of.Levels) - 1 {
		g.middles = append(g.middles, (of.Levels[i]+of.Levels[i+1])/2)
	}
	n := 1
	for range of.Weights {
		n *= len(of.Levels)
	}
	g.near = make([][]uint16, n)
	type entry struct {
		distance float32
		number   uint16
	}
	var all []entry
	for i := range g.near {
		var levels [8]float32
		for j, rest := of.Weights-1, i; j >= 0; j, rest = j-1, rest/len(of.Levels) {
			levels[j] = of.Levels[rest%len(of.Levels)]
		}
		all = all[:0]
		for k := range g.entries {
			distance, most := float32(0), float32(math.MaxFloat32)
			if len(all) == nearEntries {
				most = all[nearEntries-1].distance
			}
			for j, v := range levels[:of.Weights] {
				e := v - g.entries[k][j]
				if distance += float32(e * e); distance >= most {
					break
				}
			}
			if distance >= most {
				continue
			}
			if distance == 0 {
				all = append(all[:0], entry{0, uint16(k)})
				break
			}
			at, _ := slices.BinarySearchFunc(all, distance, func(e entry, d float32) int {
				return cmp.Compare(e.distance, math.Nextafter32(d, math.MaxFloat32)) // behind equal ones
			})
			if all = slices.Insert(all, at, entry{distance, uint16(k)}); len(all) > nearEntries {
				all = all[:nearEntries]
			}
		}
		for _, e := range all {
			g.near[i] = append(g.near[i], e.number)
		}
	}
	return g
}

// gridGroup is weights with one scale, and what they become.
type gridGroup struct {
	x, w    []float32
	q       [32]float32 // levels, with signs
	entries [8]uint16
	signs   [4]byte
}

// assign chooses entries and signs for the scale s, which is not 0, and returns the error.
func (g *grid) assign(b *gridGroup, s float32) (sum float32) {
	inverse := reciprocal(s)
	for at := 0; at < len(b.x); at += 8 {
		b.signs[at/8] = g.signsOf(b.x[at:at+8], b.w[at:at+8], s, inverse)
	}
	var a [8]float32
	for at := 0; at < len(b.x); at += g.Weights {
		index, signs := 0, b.signs[at/8]>>(at%8)
		for j, v := range b.x[at : at+g.Weights] {
			if signs>>j&1 != 0 {
				v = -v
			}
			a[j] = v
			index = index*len(g.Levels) + g.level(float32(v*inverse))
		}
		least, best := float32(math.MaxFloat32), g.near[index][0]
		for _, n := range g.near[index] {
			e, levels := float32(0), &g.entries[n]
			for j, w := range b.w[at : at+g.Weights] {
				d := float32(s*levels[j]) - a[j]
				e += float32(w * float32(d*d))
			}
			if e < least {
				least, best = e, n
			}
		}
		sum += least
		b.entries[at/g.Weights] = best
		for j := range g.Weights {
			q := g.entries[best][j]
			if signs>>j&1 != 0 {
				q = -q
			}
			b.q[at+j] = q
		}
	}
	return sum
}

// level is the number of the level nearest to v.
func (g *grid) level(v float32) int {
	n := 0
	for n < len(g.middles) && v > g.middles[n] {
		n++
	}
	return n
}

// signsOf is which of 8 numbers get a minus. Where the type has an even number of them, the one whose sign matters
// least may have the wrong one.
func (g *grid) signsOf(x, w []float32, s, inverse float32) (signs byte) {
	odd := false
	for j, v := range x {
		if v < 0 {
			signs |= 1 << j
			odd = !odd
		}
	}
	if !odd || !g.Even {
		return signs
	}
	least, at := float32(math.MaxFloat32), 0
	for j, v := range x {
		a := abs32(v)
		right, wrong := a-float32(s*g.Levels[g.level(float32(a*inverse))]), a+float32(s*g.Levels[0])
		if e := w[j] * (float32(wrong*wrong) - float32(right*right)); e < least {
			least, at = e, j
		}
	}
	return signs ^ 1<<at
}

// fit finds a group's best scale, and how fast it loses more beside it: (s - scale)²·curve at the scale s.
func (g *grid) fit(b *gridGroup) (scale, curve float32) {
	top := greatest(b.x)
	if top < minK {
		return 0, 0
	}
	least := float32(math.MaxFloat32)
	try := func(s float32) {
		g.assign(b, s)
		s = solveScale(b.x, b.w, b.q[:len(b.x)], s)
		if e := rangeError(b.x, b.w, b.q[:len(b.x)], s, 0); s > 0 && e < least {
			least, scale, curve = e, s, 0
			for j, q := range b.q[:len(b.x)] {
				curve += float32(b.w[j] * float32(q*q))
			}
		}
	}
	for step := range 15 {
		try(top / float32(g.Levels[len(g.Levels)-1]*(0.72+float32(0.045*float32(step)))))
	}
	for range 2 {
		try(scale)
	}
	return scale, curve
}

// greatestU is the greatest scale of a group: 2s+1 with s in 0 … 15.
const greatestU = 31

// block encodes a super-block of 256 numbers: groups with their choices, s of each, and d in binary16.
func (g *grid) block(groups []gridGroup, x, importance []float32) (s [16]int, d float32) {
	var (
		weights       [256]float32
		scales, curve [16]float32
		top           float32
	)
	weigh(weights[:], x, importance)
	for i := range groups {
		b := &groups[i]
		b.x, b.w = x[i*g.Group:][:g.Group], weights[i*g.Group:][:g.Group]
		scales[i], curve[i] = g.fit(b)
		top = max(top, scales[i])
	}
	d = g.common(scales[:len(groups)], curve[:len(groups)], top)
	for round := range 3 {
		if d = asm.FromF16(asm.ToF16(d)); d == 0 || d > math.MaxFloat32 {
			break
		}
		var sxq, sqq float32
		for i := range groups {
			b := &groups[i]
			s[i] = g.choose(b, scales[i], d)
			for j, q := range b.q[:len(b.x)] {
				uq := float32(q * float32(2*s[i]+1))
				sxq += float32(b.w[j] * float32(uq*b.x[j]))
				sqq += float32(b.w[j] * float32(uq*uq))
			}
		}
		if round == 2 || !(sqq > 0) || sxq <= 0 {
			break
		}
		d = sxq / sqq
	}
	if d == 0 {
		for i := range groups {
			g.assign(&groups[i], minK) // entries and signs that the type has
		}
	}
	return s, d
}

// common is the d whose multiples are nearest to the groups' scales, by what the groups lose.
func (g *grid) common(scales, curve []float32, top float32) (d float32) {
	if top == 0 {
		return 0
	}
	least := float32(math.MaxFloat32)
	for step := range 33 {
		try := top / float32(greatestU*(0.8+float32(0.0125*float32(step))))
		var e float32
		for i, s := range scales {
			u := min(max(int(s/try)|1, 1), greatestU) // the nearest odd number
			off := float32(try*float32(u)) - s
			e += float32(curve[i] * float32(off*off))
		}
		if e < least {
			least, d = e, try
		}
	}
	return d
}

// choose makes a group's choices for the best u = 2s+1 near its scale.
func (g *grid) choose(b *gridGroup, scale, d float32) (s int) {
	near := min(max(int(scale/d)/2, 0), 15)
	least := float32(math.MaxFloat32)
	for _, n := range neighbors(near, 0, 15) {
		if e := g.assign(b, float32(d*float32(2*n+1))); e < least {
			least, s = e, n
		}
	}
	g.assign(b, float32(d*float32(2*s+1)))
	return s
}

// encodeGrid encodes the types with grids. What follows from the format's constants is made once, by the first row.
func encodeGrid(t Type) func(row []byte, x, importance []float32) error {
	made := sync.OnceValue(func() *grid {
		of, _ := asm.GridOf(t)
		return newGrid(of)
	})
	return func(row []byte, x, importance []float32) error {
		g := made()
		groups := make([]gridGroup, 256/g.Group)
		return encodeBlocks(t, row, x, importance, func(block []byte, x, importance []float32) float32 {
			if amax := greatest(x); amax >= maxK {
				return amax
			}
			s, d := g.block(groups, x, importance)
			if d < maxF16 {
				clear(block)
				le.PutUint16(block, asm.ToF16(d))
				putGrid(t, block, groups, &s)
			}
			return d
		})
	}
}

// putGrid writes entries, signs and scales where the types have them: see [asm.DecodeTable].
func putGrid(t Type, block []byte, groups []gridGroup, s *[16]int) {
	for i := range groups {
		b := &groups[i]
		for j := range len(b.x) / 8 {
			octet, signs := i*len(b.x)/8+j, b.signs[j]
			quads, e := b.entries[2*j:2*j+2], b.entries[j]
			switch t {
			case IQ3_S:
				block[2+2*octet], block[3+2*octet], block[74+octet] = byte(quads[0]), byte(quads[1]), signs
				block[66+octet/4] |= byte(quads[0]>>8|quads[1]>>8<<1) << (octet % 4 * 2)
			case IQ3_XXS:
				block[2+2*octet], block[3+2*octet] = byte(quads[0]), byte(quads[1])
				addUint32(block[66+4*i:], uint32(signs&127)<<(7*j))
			case IQ2_S:
				block[2+octet], block[34+octet] = byte(e), signs
				block[66+octet/4] |= byte(e>>8) << (octet % 4 * 2)
			case IQ2_XS:
				le.PutUint16(block[2+2*octet:], e|uint16(signs&127)<<9)
			case IQ2_XXS:
				block[2+8*i+j] = byte(e)
				addUint32(block[6+8*i:], uint32(signs&127)<<(7*j))
			}
		}
		scale := byte(s[i]) << (i % 2 * 4)
		switch t {
		case IQ3_S:
			block[106+i/2] |= scale
		case IQ3_XXS:
			addUint32(block[66+4*i:], uint32(s[i])<<28)
		case IQ2_S:
			block[74+i/2] |= scale
		case IQ2_XS:
			block[66+i/2] |= scale
		case IQ2_XXS:
			addUint32(block[6+8*i:], uint32(s[i])<<28)
		}
	}
}

func addUint32(p []byte, v uint32) { le.PutUint32(p, le.Uint32(p)|v) }
