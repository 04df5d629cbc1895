package interp

import (
	"errors"
	"strings"
	"testing"
	"unsafe"
)

// program parses one function.
func program(t *testing.T, params, code string) *Program {
	t.Helper()
	p := &Program{Functions: map[string]*Function{}}
	if err := p.Parse("test.s", "TEXT ·f(SB), NOSPLIT, $"+params+"\n"+code); err != nil {
		t.Fatal(err)
	}
	return p
}

// Addresses: base, index, scale and displacement, symbols, parameters and local memory.
func TestAddresses(t *testing.T) {
	p := program(t, "16-40", `
	MOVQ p+0(FP), R9
	MOVQ i+8(FP), R14
	LEAQ -8(R9)(R14*4), R15
	MOVQ (R15), AX
	MOVQ AX, a-8(SP)
	MOVQ 8(SP), BX
	ADDQ table<>+8(SB), BX
	MOVQ BX, r+16(FP)
	MOVQ $0, CX
loop:
	ADDQ $1, CX
	CMPQ CX, R14
	JLT loop
	MOVQ CX, n+24(FP)
	LEAQ table<>+8(SB), DX
	MOVQ (DX), DX
	MOVQ DX, s+32(FP)
	RET
DATA table<>+0(SB)/8, $5
DATA table<>+8(SB)/8, $0x0000000100000000
GLOBL table<>(SB), RODATA|NOPTR, $16
`)
	numbers := []uint64{10, 11, 12, 13}
	frame := struct {
		p       *uint64
		i       int
		r, n, s uint64
	}{p: &numbers[0], i: 6}
	p.Call("f", unsafe.Pointer(&frame), unsafe.Sizeof(frame))
	if frame.r != 12+1<<32 || frame.n != 6 || frame.s != 1<<32 {
		t.Errorf("got %+v", frame)
	}
}

// panics returns what a call panics with.
func panics(p *Program, frame unsafe.Pointer, size uintptr) (text string) {
	defer func() { text, _ = recover().(string) }()
	p.Call("f", frame, size)
	return ""
}

// A byte outside of a watched slice, of a table or of local memory is an error that names the instruction; prefetching
// is none.
func TestBounds(t *testing.T) {
	mem := make([]byte, 256)
	base := uintptr(unsafe.Pointer(&mem[0]))
	defer Watch(base, base+256, base+64, base+128)()
	for _, c := range []struct {
		code string
		bad  bool
	}{
		{"VMOVUPS (AX), Y0", false}, {"VMOVUPS 32(AX), Y0", false}, {"VMOVUPS 33(AX), Y0", true},
		{"VMOVUPS -1(AX), X0", true},
		{"VMOVUPS Y0, 33(AX)", true}, {"VPBROADCASTD 60(AX), Z1", false}, {"VPBROADCASTD 61(AX), Z1", true},
		{"VPMOVSXBD 56(AX), Y1", false}, {"VPMOVSXBD 57(AX), Y1", true}, {"VPADDD.BCST 60(AX), Z1, Z2", false},
		{"VPADDD.BCST 64(AX), Z1, Z2", true},
		{"PREFETCHT0 1000(AX)", false}, {"MOVL 61(AX), BX", true}, {"ADDQ BX, 57(AX)", true}, {"LEAQ 1000(AX), BX", false},
		{"VPADDD table<>(SB), Y1, Y2", false}, {"VPADDD table<>+1(SB), Y1, Y2", true}, {"MOVQ 0(SP), BX", false},
		{"MOVQ 1(SP), BX", true}, {"MOVQ x-9(SP), BX", true},
	} {
		p := program(t, "8-8", "\tMOVQ p+0(FP), AX\n\t"+c.code+"\n\tRET\n"+
			"DATA table<>+0(SB)/8, $1\nDATA table<>+8(SB)/8, $1\nDATA table<>+16(SB)/8, $1\nDATA table<>+24(SB)/8, $1\nGLOBL "+
			"table<>(SB), RODATA|NOPTR, $32\n")
		frame := struct{ p *byte }{&mem[64]}
		text := panics(p, unsafe.Pointer(&frame), unsafe.Sizeof(frame))
		if (text != "") != c.bad {
			t.Errorf("%s: %q", c.code, text)
		}
		if c.bad && !strings.HasPrefix(text, "test.s:3: f: "+c.code) {
			t.Errorf("%s: the error %q does not say where", c.code, text)
		}
	}
}

// A masked load or store touches only what its mask names.
func TestMaskedBounds(t *testing.T) {
	mem := make([]byte, 256)
	base := uintptr(unsafe.Pointer(&mem[0]))
	defer Watch(base, base+256, base+64, base+84)()
	p := program(t, "0-8", `	MOVQ p+0(FP), AX
	VPCMPEQD Y1, Y1, Y1
	VPSRLDQ $12, X1, X1
	VMASKMOVPS 16(AX), Y1, Y2
	VMASKMOVPS Y2, Y1, 16(AX)
	RET
`)
	frame := struct{ p *byte }{&mem[64]}
	if text := panics(p, unsafe.Pointer(&frame), unsafe.Sizeof(frame)); text != "" {
		t.Error(text)
	}
	mem[80] = 7
	p.Call("f", unsafe.Pointer(&frame), unsafe.Sizeof(frame))
	if mem[80] != 7 {
		t.Error("a masked copy onto itself changed memory")
	}
}

// What cannot be interpreted is refused when it is read, and a flag that an instruction leaves undefined when it is
// asked.
func TestRefused(t *testing.T) {
	for _, code := range []string{"VPFOO Y1, Y2, Y3", "MOVQ (AX), (BX)", "VPADDD Y1, Y2", "VPADDD Y1, (AX), Y2",
		"JLT nowhere", "ADDQ Y1, AX", "BYTE $0xC4; BYTE $0xE2",
		"VMOVUPS Y0, Q1", "VPADDD Y32, Y1, Y1", "SHLQ AX, BX", "MOVQ foo(SB), AX", "VSHUFPS $1, Y1, Y2, Y3"} {
		p := &Program{Functions: map[string]*Function{}}
		err := p.Parse("test.s", "TEXT ·f(SB), NOSPLIT, $0-8\n\t"+code+"\n\tRET\n")
		if !errors.Is(err, ErrParse) || !strings.Contains(err.Error(), "test.s") {
			t.Errorf("%s: %v", code, err)
		}
	}
	for _, code := range []string{"IMUL3Q $2, AX, AX\n\tJEQ end", "SHLQ $2, AX\n\tJCS end", "SHLQ $2, AX\n\tJLT end"} {
		p := program(t, "0-8", "\tMOVQ p+0(FP), AX\n\t"+code+"\nend:\n\tRET\n")
		frame := struct{ p uint64 }{3}
		if text := panics(p, unsafe.Pointer(&frame), 8); !strings.Contains(text, "undefined") {
			t.Errorf("%s: %q", code, text)
		}
	}
}

// tileCode are tile instructions as LLVM writes them.
var tileCode = map[string]string{
	"ldtilecfg (%r8)":                "C4 C2 78 49 84 20 00 00 00 00",
	"tilerelease":                    "C4 E2 78 49 C0",
	"tilezero %tmm2":                 "C4 E2 7B 49 D0",
	"tileloadd 64(%rax,%rcx), %tmm0": "C4 E2 7B 4B 84 08 40 00 00 00",
	"tileloadd 96(%rax,%rcx), %tmm7": "C4 E2 7B 4B BC 08 60 00 00 00",
	"tilestored %tmm2, (%rbx,%rcx)":  "C4 E2 7A 4B 94 0B 00 00 00 00",
	"tdpbssd %tmm7, %tmm0, %tmm2":    "C4 E2 43 5E D0",
	"tdpbsud %tmm7, %tmm0, %tmm2":    "C4 E2 42 5E D0",
	"tdpbusd %tmm7, %tmm0, %tmm2":    "C4 E2 41 5E D0",
	"tdpbuud %tmm7, %tmm0, %tmm2":    "C4 E2 40 5E D0",
	"tdpbssd %tmm7, %tmm0, %tmm0":    "C4 E2 43 5E C0",
	"tilezero %tmm5":                 "C4 E2 7B 49 E8",
}

// tileProgram is a function of those instructions; the pointers are a configuration, operands and results.
func tileProgram(t *testing.T, instructions ...string) *Program {
	code := "\tMOVQ c+0(FP), R8\n\tMOVQ in+8(FP), AX\n\tMOVQ out+16(FP), BX\n\tMOVQ $16, CX\n"
	for _, in := range instructions {
		if tileCode[in] == "" {
			t.Fatal(in)
		}
		code += "\tBYTE $0x" + strings.ReplaceAll(tileCode[in], " ", "; BYTE $0x") + "\n"
	}
	return program(t, "0-24", code+"\tRET\n")
}

// A configuration of tiles 0 and 7 as factors and 2 as the sum: 3 x 8 bytes by 2 x 12 gives 3 x 12.
func tileConfiguration() *[64]byte {
	c := &[64]byte{0: 1}
	c[16], c[16+4], c[16+14] = 8, 12, 12
	c[48], c[48+2], c[48+7] = 3, 3, 2
	return c
}

// Products of tiles: each sign, rows by a stride, and what tiles begin with.
func TestTiles(t *testing.T) {
	in, out := make([]byte, 160), make([]int32, 12)
	for i := range in {
		in[i] = byte(37*i + 11)
	}
	number := func(b byte, signed bool) int32 {
		if signed {
			return int32(int8(b))
		}
		return int32(b)
	}
	type call struct {
		c       *[64]byte
		in, out *byte
	}
	frame := call{tileConfiguration(), &in[0], (*byte)(unsafe.Pointer(&out[0]))}
	for name, signed := range map[string][2]bool{"ss": {true, true}, "su": {true, false}, "us": {false, true}, "uu": {}} {
		p := tileProgram(t, "ldtilecfg (%r8)", "tileloadd 64(%rax,%rcx), %tmm0", "tileloadd 96(%rax,%rcx), %tmm7",
			"tilezero %tmm2",
			"tdpb"+name+"d %tmm7, %tmm0, %tmm2", "tilestored %tmm2, (%rbx,%rcx)", "tilerelease")
		clear(out)
		p.Call("f", unsafe.Pointer(&frame), unsafe.Sizeof(frame))
		for r := range 3 {
			for n := range 4 {
				var want int32
				for k := range 8 {
					want += number(in[64+16*r+k], signed[0]) * number(in[96+16*(k/4)+4*n+k%4], signed[1])
				}
				if n == 3 {
					want = 0 // beyond the tile
				}
				if out[4*r+n] != want {
					t.Errorf("%s: row %d, column %d: %d, want %d", name, r, n, out[4*r+n], want)
				}
			}
		}
	}
	load, zero := "tileloadd 64(%rax,%rcx), %tmm0", "tilezero %tmm2"
	for _, c := range []struct {
		want         string
		instructions []string
	}{
		{"not configured", []string{load}},
		{"not configured", []string{"ldtilecfg (%r8)", "tilerelease", zero}},
		{"not released", []string{"ldtilecfg (%r8)", load}},
		{"has no rows", []string{"ldtilecfg (%r8)", "tilezero %tmm5", "tilerelease"}},
		{"tiles 0, 0 and 7", []string{"ldtilecfg (%r8)", load, "tdpbssd %tmm7, %tmm0, %tmm0", "tilerelease"}},
	} {
		if text := panics(tileProgram(t, c.instructions...), unsafe.Pointer(&frame),
			unsafe.Sizeof(frame)); !strings.Contains(text, c.want) {
			t.Errorf("%v: %q, want %s", c.instructions, text, c.want)
		}
	}
	for name, change := range map[string]func(c *[64]byte){
		"palette":  func(c *[64]byte) { c[0] = 2 },
		"17 rows":  func(c *[64]byte) { c[48] = 17 },
		"80 bytes": func(c *[64]byte) { c[16] = 80 },
		"3 x 8":    func(c *[64]byte) { c[48+7] = 3 }, // the factors do not fit together
	} {
		frame := frame
		frame.c = tileConfiguration()
		change(frame.c)
		p := tileProgram(t, "ldtilecfg (%r8)", "tdpbssd %tmm7, %tmm0, %tmm2", "tilerelease")
		if text := panics(p, unsafe.Pointer(&frame), unsafe.Sizeof(frame)); text == "" {
			t.Errorf("%s: nothing is said", name)
		}
	}
	// memory is watched by rows
	base := uintptr(unsafe.Pointer(&in[0]))
	defer Watch(base, base+160, base+64, base+64+32+7)()
	p := tileProgram(t, "ldtilecfg (%r8)", load, "tilerelease")
	if text := panics(p, unsafe.Pointer(&frame), unsafe.Sizeof(frame)); !strings.Contains(text, "touches 8 bytes at 32") {
		t.Errorf("%q", text)
	}
}

// Tile instructions in forms that kernels do not use are refused.
func TestTileForms(t *testing.T) {
	for _, b := range []string{"C4 E2 7B 4B 44 08 40", "C4 E2 79 4B 84 08 40 00 00 00", "C4 E2 FB 49 D0",
		"C4 E2 7B 4B 84 20 40 00 00 00", "C4 62 7B 49 D0",
		"C4 E2 78 49 C8", "C4 E2 7B 5E 84 08 40 00 00 00", "C4 E2 03 5E D0"} {
		if in, err := ParseInstruction("BYTE $0x" + strings.ReplaceAll(b, " ", "; BYTE $0x")); err == nil {
			t.Errorf("%s is %s", b, in.Name)
		}
	}
}
