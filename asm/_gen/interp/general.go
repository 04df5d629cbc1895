package interp

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"
)

// Instructions of general registers, and jumps. Go writes the destination last; CMP and TEST compare in the order
// written.

// get reads a general operand of size bytes, extended with zeros.
func (m *machine) get(o *operand, size int) uint64 {
	switch o.kind {
	case immediate:
		return uint64(o.imm)
	case general:
		return m.g[o.reg] & (uint64(1)<<(8*size) - 1)
	case memory:
		var b [8]byte
		m.read(m.address(o), b[:size])
		return binary.LittleEndian.Uint64(b[:])
	case address:
		return uint64(m.address(o))
	}
	panic("operand of another kind")
}

// set writes a general operand; 32 bits clear the upper half of a register.
func (m *machine) set(o *operand, size int, v uint64) {
	if size == 4 {
		v = uint64(uint32(v))
	}
	switch o.kind {
	case general:
		m.g[o.reg] = v
	case memory:
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], v)
		m.write(m.address(o), b[:size])
	default:
		panic("operand of another kind")
	}
}

// logic sets the flags of a result without carry or overflow.
func (m *machine) logic(v uint64, size int) {
	f := &m.flags
	f.zero = v<<(64-8*size) == 0
	f.sign = int64(v<<(64-8*size)) < 0
	f.carry, f.overflow = false, false
	f.noZero, f.noSign, f.noCarry, f.noOverflow = false, false, false, false
}

// shifted sets the flags of a shift's result. What carry and overflow hold then nobody may ask here.
func (m *machine) shifted(v uint64, size int) {
	m.logic(v, size)
	m.flags.noCarry, m.flags.noOverflow = true, true
}

// lost marks all flags as undefined.
func (m *machine) lost() {
	f := &m.flags
	f.noZero, f.noSign, f.noCarry, f.noOverflow = true, true, true, true
}

// The flags, for conditions.

func defined(flag, not bool) bool {
	if not {
		panic("depends on a flag that is undefined")
	}
	return flag
}

func (m *machine) zero() bool     { return defined(m.flags.zero, m.flags.noZero) }
func (m *machine) sign() bool     { return defined(m.flags.sign, m.flags.noSign) }
func (m *machine) carry() bool    { return defined(m.flags.carry, m.flags.noCarry) }
func (m *machine) overflow() bool { return defined(m.flags.overflow, m.flags.noOverflow) }

// sum is a+b+carry or a-b-borrow with its flags.
func (m *machine) sum(a, b uint64, size int) uint64 {
	shift := 64 - 8*size
	v, c := bits.Add64(a<<shift, b<<shift, 0)
	m.logic(v>>shift, size)
	m.flags.carry = c != 0
	m.flags.overflow = int64((a<<shift^v)&(b<<shift^v)) < 0
	return v >> shift
}

func (m *machine) difference(a, b uint64, size int) uint64 {
	shift := 64 - 8*size
	v, c := bits.Sub64(a<<shift, b<<shift, 0)
	m.logic(v>>shift, size)
	m.flags.carry = c != 0
	m.flags.overflow = int64((a<<shift^b<<shift)&(a<<shift^v)) < 0
	return v >> shift
}

// binaries combine the last operand with the first.
var binaries = map[string]func(m *machine, old, v uint64, size int) uint64{
	"ADD": func(m *machine, old, v uint64, size int) uint64 { return m.sum(old, v, size) },
	"SUB": func(m *machine, old, v uint64, size int) uint64 { return m.difference(old, v, size) },
	"XOR": func(m *machine, old, v uint64, size int) uint64 { m.logic(old^v, size); return old ^ v },
	"AND": func(m *machine, old, v uint64, size int) uint64 { m.logic(old&v, size); return old & v },
	"OR":  func(m *machine, old, v uint64, size int) uint64 { m.logic(old|v, size); return old | v },
	"SHL": func(m *machine, old, v uint64, size int) uint64 { m.shifted(old<<v, size); return old << v },
	"SHR": func(m *machine, old, v uint64, size int) uint64 { m.shifted(old>>v, size); return old >> v },
	"SAR": func(m *machine, old, v uint64, size int) uint64 {
		shift := 64 - 8*size
		old = uint64(int64(old<<shift) >> shift >> v)
		m.shifted(old, size)
		return old
	},
	"IMUL": func(m *machine, old, v uint64, size int) uint64 { m.lost(); return old * v },
}

// unaries change their operand. INC and DEC keep the carry.
var unaries = map[string]func(m *machine, old uint64, size int) uint64{
	"INC": func(m *machine, old uint64, size int) uint64 {
		c, not := m.flags.carry, m.flags.noCarry
		v := m.sum(old, 1, size)
		m.flags.carry, m.flags.noCarry = c, not
		return v
	},
	"DEC": func(m *machine, old uint64, size int) uint64 {
		c, not := m.flags.carry, m.flags.noCarry
		v := m.difference(old, 1, size)
		m.flags.carry, m.flags.noCarry = c, not
		return v
	},
	"NEG": func(m *machine, old uint64, size int) uint64 { return m.difference(0, old, size) },
	"NOT": func(m *machine, old uint64, size int) uint64 { return ^old },
}

// conditions by the suffix of a jump or conditional move.
var conditions = map[string]func(m *machine) bool{
	"EQ": func(m *machine) bool { return m.zero() },
	"NE": func(m *machine) bool { return !m.zero() },
	"LT": func(m *machine) bool { return m.sign() != m.overflow() },
	"GE": func(m *machine) bool { return m.sign() == m.overflow() },
	"GT": func(m *machine) bool { return !m.zero() && m.sign() == m.overflow() },
	"LE": func(m *machine) bool { return m.zero() || m.sign() != m.overflow() },
	"CS": func(m *machine) bool { return m.carry() },
	"CC": func(m *machine) bool { return !m.carry() },
	"HI": func(m *machine) bool { return !m.carry() && !m.zero() },
	"LS": func(m *machine) bool { return m.carry() || m.zero() },
	"MI": func(m *machine) bool { return m.sign() },
	"PL": func(m *machine) bool { return !m.sign() },
}

var conditionNames = map[string]string{"NZ": "NE", "Z": "EQ", "JB": "CS", "L": "LT", "G": "GT"}

func condition(suffix string) func(m *machine) bool {
	if other := conditionNames[suffix]; other != "" {
		suffix = other
	}
	return conditions[suffix]
}

var errUnknown = errors.New("unknown instruction")

// errOperands is for operands that the instruction does not take here.
var errOperands = errors.New("operands of another kind")

// shape holds the operands against a pattern: i immediate, g general, v vector, k mask, m memory, a address, l label,
// t tile.
func (in *Instruction) shape(patterns ...string) bool {
	got := make([]byte, len(in.operands))
	for i, o := range in.operands {
		got[i] = "igvkmalt"[o.kind]
	}
	for _, p := range patterns {
		if p == string(got) {
			return true
		}
	}
	return false
}

// resolve finds what an instruction does.
func (in *Instruction) resolve() error {
	name := in.Name
	switch {
	case name == "RET":
		in.op = func(m *machine, _ *Instruction) {
			if m.tiles.configured {
				panic("tiles are not released")
			}
			m.done = true
		}
		return nil
	case name == "JMP":
		if !in.shape("l") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) { m.pc = in.operands[0].at }
		return nil
	case strings.HasPrefix(name, "PREFETCH"): // reads nothing that counts, wherever it points
		if !in.shape("m") {
			return errOperands
		}
		in.op = func(*machine, *Instruction) {}
		return nil
	case name[0] == 'V' || name[0] == 'K':
		return in.resolveVector()
	case name[0] == 'J':
		met := condition(name[1:])
		if met == nil || !in.shape("l") {
			return errUnknown
		}
		in.op = func(m *machine, in *Instruction) {
			if met(m) {
				m.pc = in.operands[0].at
			}
		}
		return nil
	}
	if suffix, ok := strings.CutPrefix(name, "CMOVQ"); ok {
		met := condition(suffix)
		if met == nil || !in.shape("gg", "mg") {
			return errUnknown
		}
		in.op = func(m *machine, in *Instruction) {
			if v := m.get(&in.operands[0], 8); met(m) {
				m.set(&in.operands[1], 8, v)
			}
		}
		return nil
	}
	if width := map[string]int{"MOVBLZX": 1, "MOVWLZX": 2}[name]; width > 0 {
		if !in.shape("mg", "gg") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) { m.set(&in.operands[1], 4, m.get(&in.operands[0], width)) }
		return nil
	}
	if len(name) < 3 {
		return errUnknown
	}
	size := map[byte]int{'L': 4, 'Q': 8}[name[len(name)-1]]
	stem := name[:len(name)-1]
	if size == 0 {
		return errUnknown
	}
	if f := binaries[stem]; f != nil {
		if !in.shape("ig", "gg", "mg", "im", "gm") || (stem == "SHL" || stem == "SHR" || stem == "SAR") && !in.shape("ig") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) {
			d := &in.operands[1]
			v := m.get(&in.operands[0], size)
			m.set(d, size, f(m, m.get(d, size), v, size))
		}
		return nil
	}
	if f := unaries[stem]; f != nil {
		if !in.shape("g", "m") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) {
			d := &in.operands[0]
			m.set(d, size, f(m, m.get(d, size), size))
		}
		return nil
	}
	switch stem {
	case "MOV":
		if !in.shape("ig", "gg", "mg", "gm", "im", "ag") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) { m.set(&in.operands[1], size, m.get(&in.operands[0], size)) }
	case "LEA":
		if !in.shape("mg") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) { m.set(&in.operands[1], size, uint64(m.address(&in.operands[0]))) }
	case "CMP":
		if !in.shape("gg", "gi", "mg", "gm", "mi") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) {
			m.difference(m.get(&in.operands[0], size), m.get(&in.operands[1], size), size)
		}
	case "TEST":
		if !in.shape("gg", "ig") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) {
			m.logic(m.get(&in.operands[0], size)&m.get(&in.operands[1], size), size)
		}
	case "IMUL3":
		if !in.shape("igg", "img") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) {
			m.set(&in.operands[2], size, m.get(&in.operands[0], size)*m.get(&in.operands[1], size))
			m.lost()
		}
	case "BSF":
		if !in.shape("gg") {
			return errOperands
		}
		in.op = func(m *machine, in *Instruction) {
			v := m.get(&in.operands[0], size)
			if v == 0 {
				panic("BSF of 0 is undefined")
			}
			m.lost()
			m.set(&in.operands[1], size, uint64(bits.TrailingZeros64(v)))
		}
	default:
		return errUnknown
	}
	return nil
}
