package interp

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// form is one instruction with the registers of the tests: V1 … V4, K1, K2, AX CX DX BX, and memory at SI.
type form struct {
	text string
	set  string // the least kernel set that uses it
	in   *Instruction
}

// order of the kernel sets, the most general first.
var order = []string{"avx2", "avxvnni", "avx512", "avx512vbmi"}

var fileSet = regexp.MustCompile(`_(avx\w*|amx)_amd64\.s$`)

// forms are all different instructions of the generated files, jumps last.
func forms(p *Program) (all []form, err error) {
	sets := map[string]string{}
	for _, f := range p.Functions {
		m := fileSet.FindStringSubmatch(f.File)
		if m == nil {
			continue
		}
		if m[1] == "amx" {
			m[1] = "avx512" // but for its tile instructions, which have no form here: TestTiles
		}
		for _, in := range f.Code {
			text := canonical(in)
			if text == "" {
				continue
			}
			if old, ok := sets[text]; !ok || slices.Index(order, m[1]) < slices.Index(order, old) {
				sets[text] = m[1]
			}
		}
	}
	for text, set := range sets {
		in, err := ParseInstruction(strings.TrimPrefix(text, vex))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		all = append(all, form{text, set, in})
	}
	slices.SortFunc(all, func(a, b form) int { return strings.Compare(a.text, b.text) })
	return all, nil
}

// vex marks what Go's assembler does not know.
const vex = "VEX "

// canonical is an instruction's form, or "" for what has no semantics to compare. Constants of integer arithmetic do
// not matter.
func canonical(in *Instruction) string {
	switch {
	case in.Name == "RET" || in.Name == "JMP" || strings.HasPrefix(in.Name, "PREFETCH") ||
		strings.HasPrefix(in.Name, "LEA"),
		strings.Contains(in.Name, "TILE"), strings.HasPrefix(in.Name, "TDP"):
		return "" // LEA is the address of a memory operand: TestAddresses
	case in.Name[0] == 'J':
		return in.Name + " taken"
	}
	vectors, masks, generals := map[int]int{}, map[int]int{}, map[int]int{}
	place := func(m map[int]int, r int) int {
		if _, ok := m[r]; !ok {
			m[r] = len(m)
		}
		return m[r]
	}
	var operands []string
	for _, o := range in.operands {
		switch o.kind {
		case immediate:
			v := o.imm
			if in.Name[0] != 'V' && !strings.HasPrefix(in.Name, "SH") && !strings.HasPrefix(in.Name, "SA") {
				v = 37
			}
			operands = append(operands, fmt.Sprintf("$%d", v))
		case vector:
			operands = append(operands,
				fmt.Sprintf("%s%d", map[int]string{16: "X", 32: "Y", 64: "Z"}[o.width], 1+place(vectors, o.reg)))
		case mask:
			operands = append(operands, fmt.Sprintf("K%d", 1+place(masks, o.reg)))
		case general:
			operands = append(operands, []string{"AX", "CX", "DX", "BX"}[place(generals, o.reg)])
		case memory:
			operands = append(operands, "(SI)")
		default:
			return ""
		}
	}
	text := in.Name
	if len(operands) > 0 {
		text += " " + strings.Join(operands, ", ")
	}
	if strings.HasPrefix(in.Text, "BYTE") {
		text = vex + text
	}
	return text
}
