package asm

// grid is the entries of a type IQ1, IQ2 or IQ3, whose 8 or 4 weights are an entry of a grid with signs.
//
// The types below 3.2 bits per weight keep that form in their panels, so that a panel takes at most 1.08 times its
// rows' bytes. [WeightKernels].Inflate writes the panel of the table type, which products take. A compact
// super-block of 16 rows is, for each sub-block of 32 weights,
//
//	[16 rows][4 or 8] the low 8 bits of the entries
//	[16 rows][4]      the signs of 8 weights each, all 8 of them; of IQ1 none
//	[16 rows]         bits 8 and 9 of 4 entries, the first one's the lowest, of IQ2_S; of IQ1 16 bits: four times
//	                  bits 8 … 10 of an entry, then whether minus
//
// and then
//
//	[4][16 rows]      bits 8 of 4 entries, of IQ2_XS
//	[4 or 8][16 rows] s, one per 32 or 16 weights: u is 2s+1
//	[16 rows]         d binary16
//
// in the nibbles of bytes: the first half of them is the low nibbles.
type grid struct {
	octets *[2048]uint64 // nibbles of the 8 weights of an entry, each in a byte; entries that there are not are 0
	quads  *[512]uint32  // nibbles of 4 weights
	high   int           // bits of an entry beyond 8, where they are compact
	minus  bool          // a sign takes 1 off the nibbles of 8 weights, rather than negating weights
	read   func(block []byte, b *gridBlock)
}

// gridBlock is a super-block of a row.
type gridBlock struct {
	d     uint16     // binary16
	s     [16]byte   // stored scales of 16 weights each
	entry [64]uint16 // of 8 weights each, the first 32, or of 4
	signs [32]byte   // of 8 weights each
}

// octets are the nibbles of a grid's entries of 8 digits, whose nibbles are of. Kernels may read the entry before the
// first.
func octets(entries []uint16, of [4]byte) *[2048]uint64 {
	t := (*[2048]uint64)(make([]uint64, 1+2048)[1:])
	for i, e := range entries {
		for j := range 8 {
			t[i] |= uint64(of[e>>(2*j)&3]) << (8 * j)
		}
	}
	return t
}

// quads are the nibbles of a grid's entries of 4 digits. Kernels may read 3 entries before the first.
func quads(entries []uint16, of [8]byte) *[512]uint32 {
	t := (*[512]uint32)(make([]uint32, 3+512)[3:])
	for i, e := range entries {
		for j := range 4 {
			t[i] |= uint32(of[e>>(3*j)&7]) << (8 * j)
		}
	}
	return t
}

// parity completes 7 signs: the number of minus signs of 8 weights is even.
func parity(signs byte) byte {
	p := signs ^ signs>>4
	p ^= p >> 2
	return signs | (p^p>>1)&1<<7
}

// scales reads the scales of 16 weights from 8 bytes, or with 4 bytes those of 32: nibbles, the low one first.
func (b *gridBlock) scales(packed []byte) {
	each := 8 / len(packed)
	for i := range b.s {
		n := i / each
		b.s[i] = packed[n/2] >> (n % 2 * 4) & 15
	}
}

// signsAndScale reads 32 weights' number of four times 7 signs and a scale.
func (b *gridBlock) signsAndScale(g int, v uint32) {
	for k := range 4 {
		b.signs[4*g+k] = parity(byte(v>>(7*k)) & 127)
	}
	b.s[2*g] = byte(v >> 28)
	b.s[2*g+1] = b.s[2*g]
}

// signMasks has 15 in byte j of entry s where bit j of s is set: the values of a table are symmetric, so that
// nibble 15-i is minus nibble i.
var signMasks = func() *[256]uint64 {
	t := new([256]uint64)
	for s := range t {
		for j := range 8 {
			t[s] |= uint64(s>>j&1*15) << (8 * j)
		}
	}
	return t
}()

// bytesOf1 is 1 in every byte.
const bytesOf1 = 0x0101010101010101

// octet is the nibbles of weights 8k … 8k+7.
func (g *grid) octet(b *gridBlock, k int) uint64 {
	switch {
	case g.minus:
		return g.octets[b.entry[k]] - uint64(b.signs[k])*bytesOf1
	case g.quads != nil:
		return (uint64(g.quads[b.entry[2*k]]) | uint64(g.quads[b.entry[2*k+1]])<<32) ^ signMasks[b.signs[k]]
	}
	return g.octets[b.entry[k]] ^ signMasks[b.signs[k]]
}

// table writes a super-block as that of the table type.
func (g *grid) table(b *gridBlock, to *tableBlock) {
	to.d = b.d
	for i, s := range b.s {
		to.u[i] = int8(2*s + 1)
	}
	for k := range b.signs {
		le.PutUint64(to.q[8*k:], g.octet(b, k))
	}
}

// expanded is the entry of a type whose panels are those of the table.
func (g *grid) expanded(t table, name string, size int, scales ...int) format {
	t.grid = g
	f := (&t).format(name, size, scales...)
	f.pack = func(panel, row []byte, r, from, to int, _ bool) {
		var block gridBlock
		var nibbles tableBlock
		for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
			g.read(row[b*size:][:size], &block)
			g.table(&block, &nibbles)
			t.put(panel[b*t.panelBytes():][:t.panelBytes()], &nibbles, r)
		}
	}
	return f
}

// compact is the entry of a type whose panels are compact.
func (g *grid) compact(t table, name string, size int, scales ...int) format {
	t.grid = g
	l := g.layout(&t)
	f := (&t).format(name, size, scales...)
	f.productBytes, f.panelBytes, f.sections = f.panelBytes, l.size, l.sections()
	f.pack = func(panel, row []byte, r, from, to int, _ bool) {
		var block gridBlock
		for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
			g.read(row[b*size:][:size], &block)
			l.put(panel[b*l.size:][:l.size], &block, r)
		}
	}
	f.row = func(panel []byte, r int, dst []float32, _ bool) {
		var block gridBlock
		for b := range len(dst) / SuperBlock {
			l.get(panel[b*l.size:][:l.size], &block, r)
			t.decode(dst[b*SuperBlock:][:SuperBlock], &block)
		}
	}
	f.inflate = l.inflate
	return f
}

// decode: dst = ((d*f)*u)*q.
func (t *table) decode(dst []float32, block *gridBlock) {
	var b tableBlock
	t.grid.table(block, &b)
	d := FromF16(b.d) * t.factor()
	for k, q := range b.q {
		dst[k] = d * float32(b.u[k/16]) * float32(t.values[q])
	}
}

// DecodeTable writes the weights of a GGUF row of a type with a grid, which IQ1_S to IQ3_S are. It reports false for
// the other types. The row's length is f.RowBytes(len(dst)).
func DecodeTable(f Format, dst []float32, row []byte) bool {
	t, size := formats[f].table, formats[f].blockBytes
	if t == nil || t.grid == nil {
		return false
	}
	var b gridBlock
	for ; len(dst) > 0; dst, row = dst[SuperBlock:], row[size:] {
		t.grid.read(row[:size], &b)
		t.decode(dst[:SuperBlock], &b)
	}
	return true
}

// compactLayout is where the parts of a compact super-block begin.
type compactLayout struct {
	*grid
	t       *table
	signs   int // in a sub-block
	high    int // in a sub-block; of IQ2_XS in the super-block
	sub     int // bytes of a sub-block
	s, d    int
	size    int
	perRow  int // entries of a row in a sub-block: 4 or 8
	ofScale int // weights of a scale: 16 or 32
}

// layout places the parts.
func (g *grid) layout(t *table) *compactLayout {
	l := &compactLayout{grid: g, t: t, perRow: 4, ofScale: 32}
	if g.quads != nil {
		l.perRow = 8
	}
	if t.halves {
		l.ofScale = 16
	}
	l.signs = PanelRows * l.perRow
	l.high = l.signs
	if !g.minus {
		l.high += PanelRows * 4
	}
	l.sub = l.high
	switch g.high {
	case 2:
		l.sub += PanelRows
	case 3:
		l.sub += PanelRows * 2
	}
	l.s = 8 * l.sub
	if g.high == 1 {
		l.high = l.s
		l.s += 4 * PanelRows
	}
	l.d = l.s + SuperBlock/l.ofScale/2*PanelRows
	l.size = l.d + 2*PanelRows
	return l
}

// sections are those of a compact super-block.
func (l *compactLayout) sections() (list []section) {
	for range 8 {
		list = append(list, section{1, l.perRow})
		if !l.minus {
			list = append(list, section{1, 4})
		}
		if l.grid.high > 1 {
			list = append(list, section{1, l.grid.high - 1})
		}
	}
	if l.grid.high == 1 {
		list = append(list, section{4, 1})
	}
	return append(list, section{SuperBlock / l.ofScale / 2, 1}, section{1, 2})
}

// nibbleIn is where row r of the i-th of n vectors of nibbles is, and at which bit.
func nibbleIn(i, n, r int) (at, shift int) { return i%(n/2)*PanelRows + r, i / (n / 2) * 4 }

// put writes a super-block of row r. What is combined with other bytes is 0 before, or this row's.
func (l *compactLayout) put(super []byte, b *gridBlock, r int) {
	for i := range 8 {
		sub, h := super[i*l.sub:][:l.sub], uint16(0)
		for k := range l.perRow {
			sub[l.perRow*r+k] = byte(b.entry[l.perRow*i+k])
			h |= b.entry[l.perRow*i+k] >> 8 << (max(1, l.grid.high) * k)
		}
		if !l.minus {
			copy(sub[l.signs+4*r:], b.signs[4*i:4*i+4])
		}
		switch l.grid.high {
		case 1:
			at, shift := nibbleIn(i, 8, r)
			setNibble(&super[l.high+at], shift, byte(h))
		case 2:
			sub[l.high+r] = byte(h)
		case 3:
			v := uint16(0)
			for k := range 4 {
				v |= (b.entry[4*i+k]>>8 | uint16(b.signs[4*i+k])<<3) << (4 * k)
			}
			le.PutUint16(sub[l.high+2*r:], v)
		}
	}
	n := SuperBlock / l.ofScale
	for i := range n {
		at, shift := nibbleIn(i, n, r)
		setNibble(&super[l.s+at], shift, b.s[16/n*i])
	}
	le.PutUint16(super[l.d+2*r:], b.d)
}

// setNibble replaces a nibble of b.
func setNibble(b *byte, shift int, v byte) { *b = *b&^(15<<shift) | v<<shift }

// get reads a super-block of row r.
func (l *compactLayout) get(super []byte, b *gridBlock, r int) {
	for i := range 8 {
		sub, h := super[i*l.sub:][:l.sub], uint16(0)
		switch l.grid.high {
		case 1:
			at, shift := nibbleIn(i, 8, r)
			h = uint16(super[l.high+at] >> shift & 15)
		case 2:
			h = uint16(sub[l.high+r])
		case 3:
			h = le.Uint16(sub[l.high+2*r:])
		}
		for k := range l.perRow {
			e := &b.entry[l.perRow*i+k]
			*e = uint16(sub[l.perRow*r+k])
			switch {
			case l.minus:
				*e |= h >> (4 * k) & 7 << 8
				b.signs[4*i+k] = byte(h >> (4*k + 3) & 1)
			case l.grid.high > 0:
				*e |= h >> (l.grid.high * k) & (1<<l.grid.high - 1) << 8
			}
		}
		if !l.minus {
			copy(b.signs[4*i:4*i+4], sub[l.signs+4*r:])
		}
	}
	n := SuperBlock / l.ofScale
	for i := range b.s {
		at, shift := nibbleIn(i*n/16, n, r)
		b.s[i] = super[l.s+at] >> shift & 15
	}
	b.d = le.Uint16(super[l.d+2*r:])
}

// inflate is WeightKernels.Inflate.
func (l *compactLayout) inflate(dst, panel []byte, cols int) {
	size := l.t.panelBytes()
	for b := range cols / SuperBlock {
		super, to := panel[b*l.size:][:l.size], dst[b*size:][:size]
		for i := range 8 {
			sub, nibbles := super[i*l.sub:][:l.sub], (*[nibbleBytes]byte)(to[i*nibbleBytes:])
			switch {
			case l.minus:
				inflateIQ1(nibbles, sub, l.octets)
			case l.perRow == 8:
				inflateIQ3(nibbles, sub, l.quads)
			default:
				var high [PanelRows]byte
				if l.grid.high == 2 {
					copy(high[:], sub[l.high:])
				} else if l.grid.high == 1 {
					at, shift := nibbleIn(i, 8, 0)
					for r, v := range super[l.high+at:][:PanelRows] {
						high[r] = v>>shift&1 | v>>shift&2<<1 | v>>shift&4<<2 | v>>shift&8<<3
					}
				}
				inflateIQ2(nibbles, sub, &high, (*[1024]uint64)(l.octets[:]))
			}
		}
		s, u := super[l.s:l.d], to[tableScales:][:l.t.scales()]
		for i, v := range s {
			u[i], u[len(s)+i] = v&15*2+1, v>>4*2+1
		}
		copy(to[tableScales+len(u):][:2*PanelRows], super[l.d:])
	}
}

// putOctets writes 32 weights of row r: a has the nibbles of weights 0 … 7 and 16 … 23, b those of the others.
func putOctets(nibbles *[nibbleBytes]byte, r int, a, b uint64) {
	le.PutUint32(nibbles[4*r:], uint32(a))
	le.PutUint32(nibbles[64+4*r:], uint32(a>>32))
	le.PutUint32(nibbles[128+4*r:], uint32(b))
	le.PutUint32(nibbles[192+4*r:], uint32(b>>32))
}

// inflateIQ2 writes the nibbles of a sub-block.
func inflateIQ2(nibbles *[nibbleBytes]byte, sub []byte, high *[PanelRows]byte, octets *[1024]uint64) {
	low, signs := (*[64]byte)(sub), (*[64]byte)(sub[64:])
	for r := range PanelRows {
		e, s, h := le.Uint32(low[4*r:]), le.Uint32(signs[4*r:]), uint32(high[r])<<8
		a := octets[(e&255|h&0x300)&1023] ^ signMasks[s&255]
		b := octets[(e>>8&255|h>>2&0x300)&1023] ^ signMasks[s>>8&255]
		a |= (octets[(e>>16&255|h>>4&0x300)&1023] ^ signMasks[s>>16&255]) << 4
		b |= (octets[(e>>24|h>>6&0x300)&1023] ^ signMasks[s>>24]) << 4
		putOctets(nibbles, r, a, b)
	}
}

// inflateIQ1 writes the nibbles of a sub-block.
func inflateIQ1(nibbles *[nibbleBytes]byte, sub []byte, octets *[2048]uint64) {
	low, high := (*[64]byte)(sub), (*[32]byte)(sub[64:])
	for r := range PanelRows {
		e, h := le.Uint32(low[4*r:]), uint32(le.Uint16(high[2*r:]))<<8
		a := octets[(e&255|h&0x700)&2047] - uint64(h>>11&1)*bytesOf1
		b := octets[(e>>8&255|h>>4&0x700)&2047] - uint64(h>>15&1)*bytesOf1
		a |= (octets[(e>>16&255|h>>8&0x700)&2047] - uint64(h>>19&1)*bytesOf1) << 4
		b |= (octets[(e>>24|h>>12&0x700)&2047] - uint64(h>>23)*bytesOf1) << 4
		putOctets(nibbles, r, a, b)
	}
}

// inflateIQ3 writes the nibbles of a sub-block.
func inflateIQ3(nibbles *[nibbleBytes]byte, sub []byte, quads *[512]uint32) {
	low, signs := (*[128]byte)(sub), (*[64]byte)(sub[128:])
	for r := range PanelRows {
		e, f, s := le.Uint32(low[8*r:]), le.Uint32(low[8*r+4:]), le.Uint32(signs[4*r:])
		a := uint64(quads[e&255]) | uint64(quads[e>>8&255])<<32
		b := uint64(quads[e>>16&255]) | uint64(quads[e>>24])<<32
		c := uint64(quads[f&255]) | uint64(quads[f>>8&255])<<32
		d := uint64(quads[f>>16&255]) | uint64(quads[f>>24])<<32
		a ^= signMasks[s&255]
		b ^= signMasks[s>>8&255]
		c ^= signMasks[s>>16&255]
		d ^= signMasks[s>>24]
		putOctets(nibbles, r, a|c<<4, b|d<<4)
	}
}
