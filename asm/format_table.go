package asm

// A table type has weights d*f*u*q: d the block's binary16 number, f a power of two that the type has, u an integer of
// 16 or 32 weights, q one of at most 16 integers. Whatever a GGUF block says in grids, signs and parities becomes
// nibbles that index the table of q, so that one panel and one kernel serve all of them. The weights are exactly the
// type's: their product has at most 22 bits.
//
// A panel is super-blocks: [8 sub-blocks] of nibbles, 256 bytes each; u int8 at 2048, [8 sub-blocks][16 rows], or with
// halves [16][16 rows], one per 16 weights; d [16 rows] binary16; 32 bytes of padding.
//
// Kernels multiply without f, a power of two, which commutes with every rounding but that of a subnormal sum; the
// products are multiplied by f at the end.
type table struct {
	values [16]int8 // of q, by nibble; not all are used by all types
	f      float32  // 0 is 1
	halves bool     // u is of 16 weights
	grid   *grid    // of types whose blocks have entries of a grid
}

// tableBlock is a super-block of a row.
type tableBlock struct {
	d uint16           // binary16
	u [16]int8         // of 16 weights each
	q [SuperBlock]byte // nibbles
}

const tableScales = 8 * nibbleBytes

// panelBytes is the size of a super-block as products take it.
func (t *table) panelBytes() int { return tableScales + t.scales() + 2*32 }

// scales is the size of a super-block's u.
func (t *table) scales() int {
	if t.halves {
		return 16 * PanelRows
	}
	return 8 * PanelRows
}

// kernelTable is what kernels look up: unsigned numbers, q+128 or with halves q+64, whose products start at -128
// times the sum of the activations, which is Tile.Bias, or -64 times, twice Tile.Half; then q.
func (t *table) kernelTable() *[32]byte {
	offset := byte(128)
	if t.halves {
		offset = 64
	}
	var k [32]byte
	for i, q := range t.values {
		k[i], k[16+i] = byte(q)+offset, byte(q)
	}
	return &k
}

// format is the entry of a table type with blocks of size bytes.
func (t *table) format(name string, size int, scales ...int) format {
	f := format{
		name: name, integer: true, blockWeights: SuperBlock, blockBytes: size, panelBytes: t.panelBytes(),
		sums: biasSums, scales: scales, table: t, row: t.row, matMul: t.matMul,
		sections: []section{{8 * 4, 4}, {t.scales() / PanelRows, 1}, {2, 2}},
	}
	if t.halves {
		f.sums = halfSums
	}
	return f
}

// put writes a super-block of row r, in the form that products take.
func (t *table) put(super []byte, block *tableBlock, r int) {
	for i := range 8 {
		q, nibbles := block.q[32*i:][:32], super[i*nibbleBytes+4*r:]
		for g := range 4 {
			le.PutUint32(nibbles[64*g:], le.Uint32(q[4*g:])|le.Uint32(q[16+4*g:])<<4)
		}
	}
	u := super[tableScales:]
	for i := range t.scales() / PanelRows {
		u[16*i+r] = byte(block.u[i*16*PanelRows/t.scales()])
	}
	le.PutUint16(u[t.scales()+2*r:], block.d)
}

// row: dst = ((d*f)*u)*q.
func (t *table) row(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*t.panelBytes():][:t.panelBytes()]
		u := super[tableScales:]
		d := FromF16(le.Uint16(u[t.scales()+2*r:])) * t.factor()
		for k, out := 0, dst[b*SuperBlock:][:SuperBlock]; k < SuperBlock; k++ {
			s := d * float32(int8(u[k*t.scales()/SuperBlock/PanelRows*PanelRows+r]))
			out[k] = s * float32(t.values[nibble(super[k/32*nibbleBytes:], r, k%32)])
		}
	}
}

// factor is f.
func (t *table) factor() float32 {
	if t.f == 0 {
		return 1
	}
	return t.f
}

// matMul: for sub-blocks of 32 ascending: acc = fma(float(isum), (d*float(u))*dx, acc), isum = sum of q*qx; or with
// halves acc = fma(float(u0*isum0 + u1*isum1), d*dx, acc), the integer exact. Then out = f*acc.
func (t *table) matMul(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*t.panelBytes():][:t.panelBytes()], b%8
		u := super[tableScales:]
		var d perRow
		readF16(d[:], u[t.scales():])
		w.nibbles(super[i*nibbleBytes:])
		w.lookup(&t.values)
		if t.halves {
			acc.halves(x, b, &w, signedScales(u[32*i:]), &d, 0)
			continue
		}
		for r, v := range u[16*i:][:PanelRows] {
			d[r] *= float32(int8(v))
		}
		acc.block(x, b, &w, &d, 0)
	}
	acc.store(x.Tokens, out, stride)
	t.scaleOut(x.Tokens, out, stride)
}

// scaleOut is out = f*out.
func (t *table) scaleOut(tokens int, out []float32, stride int) {
	if f := t.factor(); f != 1 {
		for k := range tokens {
			for r, v := range out[k*stride:][:PanelRows] {
				out[k*stride+r] = f * v
			}
		}
	}
}
