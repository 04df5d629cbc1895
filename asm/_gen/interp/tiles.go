package interp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// tiles is the state of the tile unit (AMX). A kernel configures it before it uses it and releases it before it
// returns.
type tiles struct {
	configured    bool
	rows, rowSize [8]int // of each tile; bytes of a row
	data          [8][16 * 64]byte
}

// shape is the number of rows of a tile and their bytes. Using a tile that has none is an error of the processor, too.
func (m *machine) shape(t int) (rows, size int) {
	rows, size = m.tiles.rows[t], m.tiles.rowSize[t]
	switch {
	case !m.tiles.configured:
		panic("tiles are not configured")
	case rows == 0 || size == 0:
		panic(fmt.Sprintf("tile %d has no rows", t))
	}
	return rows, size
}

// configure reads the 64 bytes of a configuration. The processor clears the tiles; here they begin with garbage.
func (m *machine) configure(at uintptr) {
	var c [64]byte
	m.read(at, c[:])
	if c[0] != 1 || c[1] != 0 {
		panic(fmt.Sprintf("palette %d, first row %d", c[0], c[1]))
	}
	t := &m.tiles
	t.configured = true
	for i := range 8 {
		t.rowSize[i], t.rows[i] = int(binary.LittleEndian.Uint16(c[16+2*i:])), int(c[48+i])
		if t.rows[i] > 16 || t.rowSize[i] > 64 || (t.rows[i] == 0) != (t.rowSize[i] == 0) {
			panic(fmt.Sprintf("tile %d of %d rows of %d bytes", i, t.rows[i], t.rowSize[i]))
		}
		for j := range t.data[i] {
			t.data[i][j] = byte(0xb3 + 29*i + 11*j)
		}
	}
}

// tileRow is where a row of a tile lies in memory: the index register is the distance of rows.
func (m *machine) tileRow(o *operand, row int) uintptr {
	at := *o
	at.index = -1
	return m.address(&at) + uintptr(row)*uintptr(m.g[o.index])
}

func tileLoad(m *machine, in *Instruction) {
	t := in.operands[1].reg
	rows, size := m.shape(t)
	var data [16 * 64]byte // the processor clears the rest
	for r := range rows {
		m.read(m.tileRow(&in.operands[0], r), data[64*r:][:size])
	}
	m.tiles.data[t] = data
}

func tileStore(m *machine, in *Instruction) {
	t := in.operands[0].reg
	rows, size := m.shape(t)
	for r := range rows {
		m.write(m.tileRow(&in.operands[1], r), m.tiles.data[t][64*r:][:size])
	}
}

// tileProduct adds products of bytes, signed or not: c[r][n] += sum over k of a[r][k]*b[k/4][n][k%4].
func tileProduct(signedA, signedB bool) func(m *machine, in *Instruction) {
	number := func(b byte, signed bool) int32 {
		if signed {
			return int32(int8(b))
		}
		return int32(b)
	}
	return func(m *machine, in *Instruction) {
		b, a, c := in.operands[0].reg, in.operands[1].reg, in.operands[2].reg
		rowsA, sizeA := m.shape(a)
		rowsB, sizeB := m.shape(b)
		rowsC, sizeC := m.shape(c)
		if a == b || a == c || b == c || rowsA != rowsC || sizeB != sizeC || sizeA != 4*rowsB {
			panic(fmt.Sprintf("tiles %d, %d and %d of %d x %d, %d x %d and %d x %d bytes", c, a, b, rowsC, sizeC, rowsA, sizeA,
				rowsB, sizeB))
		}
		for r := range rowsC {
			x, sums := m.tiles.data[a][64*r:][:sizeA], m.tiles.data[c][64*r:][:sizeC]
			for n := 0; n < sizeC; n += 4 {
				v := int32(binary.LittleEndian.Uint32(sums[n:]))
				for k, q := range x {
					v += number(q, signedA) * number(m.tiles.data[b][64*(k/4)+n+k%4], signedB)
				}
				binary.LittleEndian.PutUint32(sums[n:], uint32(v))
			}
		}
	}
}

// tileInstructions by opcode and prefix of their VEX form in map 2, with registers only or with memory.
var tileInstructions = map[[2]int]struct {
	registers, memory string
}{
	{0x49, 0}: {"TILERELEASE", "LDTILECFG"},
	{0x49, 3}: {"TILEZERO", ""},
	{0x4B, 2}: {"", "TILESTORED"},
	{0x4B, 3}: {"", "TILELOADD"},
	{0x5E, 0}: {"TDPBUUD", ""},
	{0x5E, 1}: {"TDPBUSD", ""},
	{0x5E, 2}: {"TDPBSUD", ""},
	{0x5E, 3}: {"TDPBSSD", ""},
}

var tileOperations = map[string]func(m *machine, in *Instruction){
	"TILERELEASE": func(m *machine, _ *Instruction) { m.tiles.configured = false },
	"LDTILECFG":   func(m *machine, in *Instruction) { m.configure(m.address(&in.operands[0])) },
	"TILEZERO": func(m *machine, in *Instruction) {
		t := in.operands[0].reg
		m.shape(t)
		clear(m.tiles.data[t][:])
	},
	"TILELOADD":  tileLoad,
	"TILESTORED": tileStore,
	"TDPBUUD":    tileProduct(false, false),
	"TDPBUSD":    tileProduct(false, true),
	"TDPBSUD":    tileProduct(true, false),
	"TDPBSSD":    tileProduct(true, true),
}

var errTile = errors.New("not a tile instruction that is known here")

// decodeTile reads a tile instruction from its bytes: C4, R X B mmmmm, W vvvv L pp, opcode, ModRM and, with memory, SIB
// and a displacement of 32 bits.
func (in *Instruction) decodeTile(b []byte) error {
	if len(b) < 5 || b[0] != 0xC4 || b[1]&0x9f != 0x82 || b[2]&0x84 != 0 {
		return errTile
	}
	names := tileInstructions[[2]int{int(b[3]), int(b[2] & 3)}]
	v, mod, reg, rm := int(^b[2]>>3&15), b[4]>>6, int(b[4]>>3&7), int(b[4]&7)
	tile := func(i int) operand { return operand{kind: tileRegister, reg: i} }
	product := b[3] == 0x5E
	if mod == 3 && len(b) == 5 && b[1]&0x60 == 0x60 && names.registers != "" && (product && v < 8 || v == 0 && rm == 0) {
		in.Name = names.registers
		switch {
		case product:
			in.operands = []operand{tile(v), tile(rm), tile(reg)}
		case in.Name == "TILEZERO":
			in.operands = []operand{tile(reg)}
		case reg != 0:
			return errTile
		}
		in.op = tileOperations[in.Name]
		return nil
	}
	if mod != 2 || rm != 4 || len(b) != 10 || names.memory == "" || v != 0 || b[5]>>6 != 0 {
		return errTile
	}
	in.Name = names.memory
	at := operand{
		kind: memory, scale: 1,
		base:  int(b[5]&7) | int(^b[1]>>5&1)<<3,
		index: int(b[5]>>3&7) | int(^b[1]>>6&1)<<3,
		imm:   int64(int32(binary.LittleEndian.Uint32(b[6:]))),
	}
	if at.index == 4 {
		at.index = -1
	}
	switch in.Name {
	case "LDTILECFG":
		in.operands = []operand{at}
		if at.index >= 0 || reg != 0 {
			return errTile
		}
	case "TILELOADD":
		in.operands = []operand{at, tile(reg)}
	default:
		in.operands = []operand{tile(reg), at}
	}
	if in.Name != "LDTILECFG" && at.index < 0 {
		return errTile
	}
	in.op = tileOperations[in.Name]
	return nil
}

// bytesOf are the bytes of a line of BYTE directives.
func bytesOf(text string) (b []byte) {
	for _, m := range byteLine.FindAllStringSubmatch(text, -1) {
		v, _ := strconv.ParseUint(m[1], 16, 8)
		b = append(b, byte(v))
	}
	return b
}
