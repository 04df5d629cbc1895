// Package interp executes the generated amd64 assembly of package asm on any little-endian machine: it reads the
// committed *_amd64.s files, not what the generator holds in memory, so that what is checked is what is built.
package interp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unsafe"
)

// kind says what an operand is.
type kind uint8

const (
	immediate kind = iota
	general        // AX … R15
	vector         // X, Y or Z
	mask           // K
	memory
	address // of a symbol: $name<>(SB)
	target  // a label
	tileRegister
)

// operand is one operand of an instruction.
type operand struct {
	kind  kind
	reg   int // general, vector, mask
	width int // of a vector register in bytes
	imm   int64
	base  int    // of memory: a general register, or one of the bases below
	index int    // a general register or -1
	scale int64  // of the index
	name  string // symbol or label
	at    int    // the label's instruction
}

// Bases of memory that are no general registers.
const (
	baseFP     = -1 - iota // parameters
	baseSP                 // the bottom of the local memory
	baseLocal              // its top: name-8(SP)
	baseStatic             // a symbol
)

// Instruction is one parsed instruction.
type Instruction struct {
	Name     string // with suffixes, as in VMOVUPS.Z
	Text     string
	Line     int
	Executed bool
	operands []operand
	op       func(m *machine, in *Instruction)
	vec      *packed
	width    int // of the vector operation in bytes
	bcst     bool
	zeroing  bool
	maskAt   int // index of the mask operand, or -1
}

// Function is one function of a file.
type Function struct {
	Name, File    string
	Frame, Params int // bytes of local memory and of parameters with results
	Code          []*Instruction
	Called        bool
	symbols       map[string]*symbol
}

// symbol is a table of constants. Its bytes lie between unused ones, so that what lies outside is noticed.
type symbol struct {
	whole []byte
	size  int
}

// symbolGap is how many bytes before and after a table belong to nobody.
const symbolGap = 128

// Program holds the functions of all files.
type Program struct {
	Functions map[string]*Function
	Order     []string
}

// ErrParse wraps the file and line that cannot be read.
var ErrParse = errors.New("cannot interpret")

// ReadDir parses all *_amd64.s files of a folder.
func ReadDir(dir string) (*Program, error) {
	names, err := fs.Glob(os.DirFS(dir), "*_amd64.s") // the folder's own name is no pattern
	if err != nil {
		return nil, err
	}
	p := &Program{Functions: map[string]*Function{}}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if err := p.Parse(name, string(text)); err != nil {
			return nil, err
		}
	}
	if len(p.Functions) == 0 {
		return nil, fmt.Errorf("%w: no functions in %s", ErrParse, dir)
	}
	return p, nil
}

var (
	textLine = regexp.MustCompile(`^TEXT ·(\w+)\(SB\), (?:\w+), \$(\d+)-(\d+)$`)
	dataLine = regexp.MustCompile(`^DATA (\w+)<>\+(\d+)\(SB\)/(\d), \$(0x[0-9a-fA-F]+|-?\d+)$`)
	globl    = regexp.MustCompile(`^GLOBL (\w+)<>\(SB\), [^,]+, \$(\d+)$`)
	label    = regexp.MustCompile(`^(\w+):$`)
	byteLine = regexp.MustCompile(`BYTE \$0x([0-9A-Fa-f]{2})`)
)

// Parse adds the functions of one file.
func (p *Program) Parse(file, text string) error {
	symbols := map[string]*symbol{}
	var f *Function
	labels := map[string]int{}
	finish := func() error {
		if f == nil {
			return nil
		}
		for _, in := range f.Code {
			for i := range in.operands {
				if o := &in.operands[i]; o.kind == target {
					at, ok := labels[o.name]
					if !ok {
						return fmt.Errorf("%w: %s:%d: no label %s", ErrParse, file, in.Line, o.name)
					}
					o.at = at
				}
			}
		}
		return nil
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		fail := func(err error) error {
			return fmt.Errorf("%w: %s:%d: %s: %w", ErrParse, file, number, strings.TrimSpace(line), err)
		}
		code, _, _ := strings.Cut(line, "//")
		code = strings.TrimSpace(code)
		switch {
		case code == "" || strings.HasPrefix(code, "#include"):
		case strings.HasPrefix(code, "TEXT"):
			if err := finish(); err != nil {
				return err
			}
			m := textLine.FindStringSubmatch(code)
			if m == nil {
				return fail(errors.New("another form of TEXT"))
			}
			f = &Function{Name: m[1], File: file, symbols: symbols}
			f.Frame, _ = strconv.Atoi(m[2])
			f.Params, _ = strconv.Atoi(m[3])
			if p.Functions[f.Name] != nil {
				return fail(errors.New("a second one of this name"))
			}
			p.Functions[f.Name] = f
			p.Order = append(p.Order, f.Name)
			labels = map[string]int{}
		case strings.HasPrefix(code, "DATA"):
			m := dataLine.FindStringSubmatch(code)
			if m == nil {
				return fail(errors.New("another form of DATA"))
			}
			at, _ := strconv.Atoi(m[2])
			size, _ := strconv.Atoi(m[3])
			v, err := parseNumber(m[4])
			if err != nil {
				return fail(err)
			}
			s := symbols[m[1]]
			if s == nil {
				s = &symbol{whole: make([]byte, 2*symbolGap)}
				symbols[m[1]] = s
			}
			if s.size < at+size {
				s.size = at + size
				grown := make([]byte, 2*symbolGap+s.size)
				copy(grown, s.whole[:len(s.whole)-symbolGap])
				s.whole = grown
			}
			for i := range size {
				s.whole[symbolGap+at+i] = byte(v >> (8 * i))
			}
		case strings.HasPrefix(code, "GLOBL"):
			m := globl.FindStringSubmatch(code)
			if m == nil {
				return fail(errors.New("another form of GLOBL"))
			}
			if size, _ := strconv.Atoi(m[2]); symbols[m[1]] == nil || symbols[m[1]].size != size {
				return fail(errors.New("another size than its DATA"))
			}
		case label.MatchString(code):
			name := label.FindStringSubmatch(code)[1]
			if _, again := labels[name]; f == nil || again {
				return fail(errors.New("a second one, or outside of a function"))
			}
			labels[name] = len(f.Code)
		default:
			if f == nil {
				return fail(errors.New("outside of a function"))
			}
			in, err := ParseInstruction(code)
			if err != nil {
				return fail(err)
			}
			in.Line = number
			f.Code = append(f.Code, in)
		}
	}
	for _, s := range symbols {
		base := uintptr(unsafe.Pointer(&s.whole[0]))
		watch(region{base, base + uintptr(len(s.whole)), base + symbolGap, base + symbolGap + uintptr(s.size), &s.whole[0]})
	}
	return finish()
}

// ParseInstruction parses one instruction and finds what it does.
func ParseInstruction(code string) (*Instruction, error) {
	in := &Instruction{Text: code, maskAt: -1}
	if strings.HasPrefix(code, "BYTE") {
		return in, in.decode()
	}
	name, rest, _ := strings.Cut(code, " ")
	in.Name = name
	for _, part := range splitOperands(rest) {
		o, err := parseOperand(part)
		if err != nil {
			return nil, err
		}
		in.operands = append(in.operands, o)
	}
	return in, in.resolve()
}

// decode reads what Go's assembler does not know from its bytes: the VEX form of VPDPBUSD with registers only, and tile
// instructions.
func (in *Instruction) decode() error {
	b := bytesOf(in.Text)
	// C4, R X B mmmmm, W vvvv L pp, opcode, mod reg rm: map 2 (0F38), L = 256 bits, pp = 66.
	if len(b) != 5 || b[0] != 0xC4 || b[1]&31 != 2 || b[2]&0x87 != 5 || b[3] != 0x50 || b[4]>>6 != 3 {
		return in.decodeTile(b)
	}
	in.Name = "VPDPBUSD"
	reg := b[4]>>3&7 | (^b[1]>>7&1)<<3
	rm := b[4]&7 | (^b[1]>>5&1)<<3
	for _, r := range []byte{rm, ^b[2] >> 3 & 15, reg} {
		in.operands = append(in.operands, operand{kind: vector, reg: int(r), width: 32})
	}
	return in.resolve()
}

// splitOperands splits at the commas.
func splitOperands(s string) (parts []string) {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	for part := range strings.SplitSeq(s, ",") {
		parts = append(parts, strings.TrimSpace(part))
	}
	return parts
}

var generalNames = map[string]int{
	"AX": 0, "CX": 1, "DX": 2, "BX": 3, "BP": 5, "SI": 6, "DI": 7,
	"R8": 8, "R9": 9, "R10": 10, "R11": 11, "R12": 12, "R13": 13, "R15": 15, "R14": 14,
}

var (
	vectorName = regexp.MustCompile(`^([XYZ])(\d+)$`)
	maskName   = regexp.MustCompile(`^K([0-7])$`)
	memoryForm = regexp.MustCompile(`^(-?\w+)?\((\w+)\)(?:\((\w+)\*([1248])\))?$`)
	symbolForm = regexp.MustCompile(`^(\$?)(\w+)<>([+-]\d+)?\(SB\)(?:\((\w+)\*([1248])\))?$`)
	frameForm  = regexp.MustCompile(`^\w+([+-]\d+)\((FP|SP)\)$`)
)

func parseOperand(s string) (operand, error) {
	bad := fmt.Errorf("unknown operand %s", s)
	if r, ok := generalNames[s]; ok {
		return operand{kind: general, reg: r}, nil
	}
	if m := vectorName.FindStringSubmatch(s); m != nil {
		r, _ := strconv.Atoi(m[2])
		if r > 31 {
			return operand{}, bad
		}
		return operand{kind: vector, reg: r, width: map[string]int{"X": 16, "Y": 32, "Z": 64}[m[1]]}, nil
	}
	if m := maskName.FindStringSubmatch(s); m != nil {
		r, _ := strconv.Atoi(m[1])
		return operand{kind: mask, reg: r}, nil
	}
	if m := symbolForm.FindStringSubmatch(s); m != nil {
		o := operand{kind: memory, base: baseStatic, name: m[2], index: -1}
		if m[1] != "" {
			o.kind = address
		}
		if m[3] != "" {
			o.imm, _ = strconv.ParseInt(m[3], 10, 64)
		}
		if m[4] != "" {
			r, ok := generalNames[m[4]]
			if !ok {
				return operand{}, bad
			}
			o.index = r
			o.scale, _ = strconv.ParseInt(m[5], 10, 64)
		}
		return o, nil
	}
	if m := frameForm.FindStringSubmatch(s); m != nil {
		o := operand{kind: memory, base: baseFP, index: -1}
		if m[2] == "SP" {
			o.base = baseLocal
		}
		o.imm, _ = strconv.ParseInt(m[1], 10, 64)
		return o, nil
	}
	if v, ok := strings.CutPrefix(s, "$"); ok {
		n, err := parseNumber(v)
		return operand{kind: immediate, imm: n}, err
	}
	if m := memoryForm.FindStringSubmatch(s); m != nil {
		o := operand{kind: memory, index: -1}
		if m[1] != "" {
			n, err := parseNumber(m[1])
			if err != nil {
				return operand{}, bad
			}
			o.imm = n
		}
		base, ok := generalNames[m[2]]
		if m[2] == "SP" {
			base, ok = baseSP, true
		}
		if !ok {
			return operand{}, bad
		}
		o.base = base
		if m[3] != "" {
			if o.index, ok = generalNames[m[3]]; !ok {
				return operand{}, bad
			}
			o.scale, _ = strconv.ParseInt(m[4], 10, 64)
		}
		return o, nil
	}
	if regexp.MustCompile(`^[a-zA-Z_]\w*$`).MatchString(s) {
		return operand{kind: target, name: s}, nil
	}
	return operand{}, bad
}

// parseNumber reads an integer, or a product of two in parentheses.
func parseNumber(s string) (int64, error) {
	if inner, ok := strings.CutPrefix(s, "("); ok {
		a, b, ok := strings.Cut(strings.TrimSuffix(inner, ")"), "*")
		x, err := parseNumber(a)
		if err != nil || !ok {
			return 0, fmt.Errorf("unknown number %s", s)
		}
		y, err := parseNumber(b)
		return x * y, err
	}
	if n, err := strconv.ParseInt(s, 0, 64); err == nil {
		return n, nil
	}
	n, err := strconv.ParseUint(s, 0, 64)
	return int64(n), err
}
