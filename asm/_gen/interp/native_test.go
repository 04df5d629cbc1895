package interp

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	_ "embed"
)

// Every form of an instruction that a kernel uses is executed with the same inputs by this package and by this
// machine's processor, as far as it has the instruction; and what a processor with AVX-512 answered is committed, as a
// hash per form.

var record = flag.Bool("record", false,
	"write testdata/instructions.txt from this machine, which needs AVX-512 and AVX-VNNI")

const (
	recorded = "testdata/instructions.txt"
	header   = "# What a processor answers for rounds of inputs that native_test.go makes: form, kernel set, hash. " +
		"Written by go test -record.\n"
	rounds = 64
)

// state is what an instruction reads and writes. The native code knows the offsets.
type state struct {
	v     [5]vec
	k     [2]uint64 // K1, K2
	g     [4]uint64 // AX CX DX BX
	flags uint64
	_     uint64
	mem   [192]byte // an operand begins at its middle third
}

const operandAt = 64

// Bits of the flags register.
const (
	carryBit, zeroBit, signBit, overflowBit = 1, 1 << 6, 1 << 7, 1 << 11
	allFlags                                = carryBit | zeroBit | signBit | overflowBit
)

// flagsOf are the flags that an instruction defines or leaves alone.
func (f form) flagsOf() uint64 {
	switch {
	case strings.HasPrefix(f.text, "IMUL") || strings.HasPrefix(f.text, "BSF"):
		return 0
	case strings.HasPrefix(f.text, "SH") || strings.HasPrefix(f.text, "SA"):
		return zeroBit | signBit
	}
	return allFlags
}

// inputs makes a form's states.
func (f form) inputs() []state {
	h := fnv.New64a()
	h.Write([]byte(f.text))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	lane := func() uint32 {
		switch r.IntN(6) {
		case 0:
			return r.Uint32()
		case 1:
			return math.Float32bits(float32(r.NormFloat64()))
		case 2:
			return math.Float32bits(float32(r.NormFloat64() * math.Ldexp(1, r.IntN(280)-150)))
		case 3:
			special := []uint32{0, 1 << 31, 1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000,
				0xff800000, 0x7fc00001,
				0xffffffff, 0x7f800001, 0x3f800000, 0xbf800000, 0x4b000001, 0x47800000, 0x477ff000, 0x33000000, 0x4f000000,
				0xcf000000, 0x80808080, 0x7f7f7f7f}
			return special[r.IntN(len(special))]
		case 4:
			return uint32(int32(r.IntN(512) - 256))
		}
		return math.Float32bits(float32(r.IntN(64))/2 - 16)
	}
	fill := func(b []byte) {
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], lane())
		}
	}
	all := make([]state, rounds)
	for i := range all {
		s := &all[i]
		for j := range s.v {
			fill(s.v[j][:])
		}
		fill(s.mem[:])
		if i%4 == 1 { // operands alike but for signs
			l := lanes[uint32](&s.v[1], 64)
			for j := range l {
				if j%3 == 0 {
					l[j] = 0
				}
				binary.LittleEndian.PutUint32(s.v[2][4*j:], l[j]^r.Uint32()&(1<<31))
				binary.LittleEndian.PutUint32(s.mem[operandAt+4*j:], l[j]^r.Uint32()&(1<<31))
			}
		}
		s.k = [2]uint64{r.Uint64(), r.Uint64()}
		s.g = [4]uint64{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}
		switch i % 4 {
		case 1:
			s.g[1] = s.g[0]
		case 2:
			s.g = [4]uint64{uint64(r.IntN(9) - 4), uint64(r.IntN(9) - 4), uint64(r.IntN(9) - 4), 37}
		case 3:
			s.g[0] = 37
		}
		if strings.HasPrefix(f.text, "BSF") {
			s.g[0] |= 1 << 31
		}
		s.flags = uint64(r.Uint32()) & allFlags
	}
	return all
}

// run executes the form on a state.
func (f form) run(s *state) (err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("%v", e)
		}
	}()
	m := &machine{fn: &Function{}}
	copy(m.v[:], s.v[:])
	copy(m.k[1:], s.k[:])
	for i, r := range []int{0, 1, 2, 3} {
		m.g[r] = s.g[i]
	}
	m.g[6] = uint64(uintptr(unsafe.Pointer(&s.mem[operandAt])))
	m.flags.carry, m.flags.zero = s.flags&carryBit != 0, s.flags&zeroBit != 0
	m.flags.sign, m.flags.overflow = s.flags&signBit != 0, s.flags&overflowBit != 0
	if name, ok := strings.CutSuffix(f.text, " taken"); ok {
		s.g[0] = 0
		if condition(name[1:])(m) {
			s.g[0] = 1
		}
		return nil
	}
	f.in.op(m, f.in)
	copy(s.v[:], m.v[:])
	copy(s.k[:], m.k[1:])
	for i, r := range []int{0, 1, 2, 3} {
		s.g[i] = m.g[r]
	}
	s.flags = 0
	for bit, set := range map[uint64]bool{carryBit: m.flags.carry, zeroBit: m.flags.zero, signBit: m.flags.sign,
		overflowBit: m.flags.overflow} {
		if set {
			s.flags |= bit
		}
	}
	return nil
}

// plain takes out of a state what is not specified: flags, and the payloads of new NaN.
func (f form) plain(s *state) {
	s.flags &= f.flagsOf()
	if f.in == nil || !f.in.float() {
		return
	}
	for i := range s.v {
		l := lanes[uint32](&s.v[i], 64)
		for j, b := range l {
			if b&0x7fffffff > 0x7f800000 {
				l[j] = 0x7fc00000
			}
		}
	}
}

// float says that results are numbers.
func (in *Instruction) float() bool {
	base, _, _ := strings.Cut(in.Name, ".")
	return table[base].float || scalars[base] != nil
}

func digest(states []state) string {
	h := fnv.New64a()
	h.Write(unsafe.Slice((*byte)(unsafe.Pointer(&states[0])), len(states)*int(unsafe.Sizeof(states[0]))))
	return fmt.Sprintf("%016x", h.Sum64())
}

// difference says where two states differ, of registers the first width bytes.
func difference(a, b *state, width int) string {
	for i := range a.v {
		if !bytes.Equal(a.v[i][:width], b.v[i][:width]) {
			return fmt.Sprintf("register %d\n% x, not\n% x", i, a.v[i][:width], b.v[i][:width])
		}
	}
	switch {
	case a.mem != b.mem:
		return fmt.Sprintf("memory\n% x, not\n% x", a.mem, b.mem)
	case width == 64 && a.k != b.k:
		return fmt.Sprintf("masks %x, not %x", a.k, b.k)
	case a.g != b.g:
		return fmt.Sprintf("registers %x, not %x", a.g, b.g)
	case a.flags != b.flags:
		return fmt.Sprintf("flags %x, not %x", a.flags, b.flags)
	}
	return ""
}

func TestInstructions(t *testing.T) {
	p, err := ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := forms(p)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string][]state{} // by form
	for _, f := range all {
		s := f.inputs()
		for i := range s {
			if err := f.run(&s[i]); err != nil {
				t.Fatal(f.text, err)
			}
			f.plain(&s[i])
		}
		answers[f.text] = s
	}
	compared := natively(t, all, answers)
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if c := strings.Split(strings.TrimSpace(line), "\t"); len(c) == 3 {
			known[c[0]] = c[2]
		}
	}
	if *record {
		var b strings.Builder
		b.WriteString(header)
		for _, f := range all {
			got := digest(answers[f.text])
			if t.Failed() || !compared[f.text] && known[f.text] != got {
				t.Fatalf("%s: not compared with a processor, or not equal", f.text)
			}
			known[f.text] = got
			fmt.Fprintf(&b, "%s\t%s\t%s\n", f.text, f.set, got)
		}
		if err := os.WriteFile(recorded, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range all {
		switch got := digest(answers[f.text]); known[f.text] {
		case got:
		case "":
			t.Errorf("%s: nothing recorded: run go test ./interp -record in asm/_gen on a machine with %s", f.text, f.set)
		default:
			t.Errorf("%s: digest %s, recorded %s", f.text, got, known[f.text])
		}
	}
	t.Logf("%d forms of instructions, %d compared with this processor, all with recorded answers", len(all), len(compared))
}

//go:embed testdata/native.go.txt
var nativeMain []byte

// natively compares answers with the processor's and says for which forms, by their text. It builds a program with a
// function per form.
func natively(t *testing.T, all []form, answers map[string][]state) map[string]bool {
	compared := map[string]bool{}
	if runtime.GOARCH != "amd64" {
		return compared
	}
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mod, err := os.ReadFile("../../../go.mod") // for golang.org/x/sys/cpu and its version
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("../../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	put("go.mod", strings.Replace(string(mod), "module github.com/specgo/spec", "module native", 1))
	put("go.sum", string(sum))
	put("main.go", string(nativeMain))
	program := func(arg string) *exec.Cmd {
		c := exec.Command(filepath.Join(dir, "native"), arg)
		c.Stderr = os.Stderr
		return c
	}
	build := func(have []form, wide bool) {
		var code, list strings.Builder
		code.WriteString("#include \"textflag.h\"\n")
		list.WriteString("package main\n\nvar functions = []func(s *state){\n")
		for i := range have {
			fmt.Fprintf(&list, "f%d,\n", i)
		}
		list.WriteString("}\n")
		for i, f := range have {
			fmt.Fprintf(&list, "func f%d(s *state)\n", i)
			code.WriteString(f.native(i, wide))
		}
		put("forms_amd64.s", code.String())
		put("forms.go", list.String())
		c := exec.Command("go", "build", "-o", "native", ".")
		c.Dir = dir
		c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	build(nil, false)
	out, err := program("sets").Output()
	if err != nil {
		t.Fatal(err)
	}
	sets := strings.Fields(string(out))
	wide := slices.Contains(sets, "avx512")
	var have []form
	for _, f := range all {
		if slices.Contains(sets, f.set) {
			have = append(have, f)
		}
	}
	if len(have) == 0 {
		return compared
	}
	build(have, wide)
	var in bytes.Buffer
	for _, f := range have {
		s := f.inputs()
		in.Write(unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0]))))
	}
	c := program("run")
	c.Stdin = &in
	if out, err = c.Output(); err != nil {
		t.Fatal(err)
	}
	size := int(unsafe.Sizeof(state{}))
	if len(out) != len(have)*rounds*size {
		t.Fatalf("%d bytes of answers for %d forms", len(out), len(have))
	}
	width := 32
	if wide {
		width = 64
	}
	for i, f := range have {
		compared[f.text] = true
		for r := range rounds {
			var s state
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&s)), size), out[(i*rounds+r)*size:])
			f.plain(&s)
			if d := difference(&answers[f.text][r], &s, width); d != "" {
				in := f.inputs()[r]
				t.Errorf("%s, round %d: %s\nv1 % x\nv2 % x\nv3 % x\nmemory % x", f.text, r, d, in.v[1], in.v[2], in.v[3],
					in.mem[operandAt:][:64])
				break
			}
		}
	}
	return compared
}

// native is a function that loads a state, executes the form and stores the state.
func (f form) native(i int, wide bool) string {
	var b strings.Builder
	w := func(format string, a ...any) { fmt.Fprintf(&b, "\t"+format+"\n", a...) }
	var s state
	k, g, flags := unsafe.Offsetof(s.k), unsafe.Offsetof(s.g), unsafe.Offsetof(s.flags)
	fmt.Fprintf(&b, "TEXT ·f%d(SB), NOSPLIT, $16-8\n", i)
	w("MOVQ s+0(FP), R8")
	for r := range s.v {
		if wide {
			w("VMOVDQU64 %d(R8), Z%d", 64*r, r)
		} else {
			w("VMOVDQU %d(R8), Y%d", 64*r, r)
		}
	}
	if wide {
		w("KMOVQ %d(R8), K1", k)
		w("KMOVQ %d(R8), K2", k+8)
	}
	w("LEAQ %d(R8), SI", unsafe.Offsetof(s.mem)+operandAt)
	w("PUSHQ %d(R8)", flags)
	w("POPFQ")
	for j, r := range []string{"AX", "CX", "DX", "BX"} {
		w("MOVQ %d(R8), %s", g+uintptr(8*j), r)
	}
	if name, ok := strings.CutSuffix(f.text, " taken"); ok {
		w("%s yes", name)
		w("MOVQ $0, AX")
		w("JMP end")
		fmt.Fprintln(&b, "yes:")
		w("MOVQ $1, AX")
		fmt.Fprintln(&b, "end:")
	} else if strings.HasPrefix(f.text, vex) {
		o := f.in.operands
		w("BYTE $0xC4; BYTE $0x%02X; BYTE $0x%02X; BYTE $0x50; BYTE $0x%02X", 0xE2, ^o[1].reg&15<<3|5,
			0xC0|o[2].reg<<3|o[0].reg)
	} else {
		w("%s", f.text)
	}
	for j, r := range []string{"AX", "CX", "DX", "BX"} {
		w("MOVQ %s, %d(R8)", r, g+uintptr(8*j))
	}
	w("PUSHFQ")
	w("POPQ %d(R8)", flags)
	for r := range s.v {
		if wide {
			w("VMOVDQU64 Z%d, %d(R8)", r, 64*r)
		} else {
			w("VMOVDQU Y%d, %d(R8)", r, 64*r)
		}
	}
	if wide {
		w("KMOVQ K1, %d(R8)", k)
		w("KMOVQ K2, %d(R8)", k+8)
	}
	w("VZEROUPPER")
	w("RET")
	return b.String()
}
