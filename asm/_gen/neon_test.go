package main

import (
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
)

// macro is a definition in neon_arm64.h with the comment above it.
type macro struct {
	name   string
	params []string
	word   ast.Expr
	text   string
}

var definition = regexp.MustCompile(`(?m)^// (.*)\n#define (\w+)\((.*?)\) WORD \$\((.*)\)$`)

func macros(t *testing.T) []macro {
	header, err := os.ReadFile("../neon_arm64.h")
	if err != nil {
		t.Fatal(err)
	}
	var all []macro
	for _, m := range definition.FindAllStringSubmatch(string(header), -1) {
		e, err := parser.ParseExpr(m[4])
		if err != nil {
			t.Fatal(m[2], err)
		}
		all = append(all, macro{m[2], strings.Split(m[3], ","), e, m[1]})
	}
	if n := strings.Count(string(header), "WORD"); n != len(all)+1 && n != len(all) {
		t.Fatalf("%d words, %d definitions with a comment", n, len(all))
	}
	return all
}

func eval(e ast.Expr, vars map[string]int) uint32 {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseUint(e.Value, 0, 32)
		if err != nil {
			panic(err)
		}
		return uint32(n)
	case *ast.Ident:
		return uint32(vars[e.Name])
	case *ast.ParenExpr:
		return eval(e.X, vars)
	case *ast.BinaryExpr:
		x, y := eval(e.X, vars), eval(e.Y, vars)
		switch e.Op {
		case token.OR:
			return x | y
		case token.AND:
			return x & y
		case token.SHL:
			return x << y
		case token.SHR:
			return x >> y
		case token.SUB:
			return x - y
		}
	}
	panic("an expression of another kind")
}

// The parameters of the texts: registers, lanes, shifts.
var operand = regexp.MustCompile(`\b([vs])([dnm])\b|\[(i)\]|#(s)\b`)

func (m macro) instruction(vars map[string]int) string {
	return operand.ReplaceAllStringFunc(m.text, func(s string) string {
		switch s {
		case "[i]":
			return fmt.Sprintf("[%d]", vars["i"])
		case "#s":
			return fmt.Sprintf("#%d", vars["s"])
		}
		return s[:1] + strconv.Itoa(vars[s[1:]])
	})
}

// plain makes the spellings of disassemblers alike.
func plain(s string) string {
	s = strings.Join(strings.Fields(strings.ToLower(s)), " ")
	s = regexp.MustCompile(`#0x[0-9a-f]+`).ReplaceAllStringFunc(s, func(h string) string {
		n, _ := strconv.ParseUint(h[1:], 0, 64)
		return fmt.Sprintf("#%d", n)
	})
	// A widening move is a shift by 0.
	return regexp.MustCompile(`^sxtl(2?) (.*)$`).ReplaceAllString(s, "sshll$1 $2, #0")
}

// TestWords decodes every macro with independent disassemblers, for several registers, lanes and shifts.
func TestWords(t *testing.T) {
	llvm := ""
	for _, name := range []string{"llvm-mc-22", "llvm-mc-21", "llvm-mc-20", "llvm-mc-19", "llvm-mc"} {
		if path, err := exec.LookPath(name); err == nil {
			llvm = path
			break
		}
	}
	for _, m := range macros(t) {
		t.Run(m.name, func(t *testing.T) {
			var words, want []string
			decoded := false // by package arm64asm, which knows the instructions of ARMv8.0 and not all of those
			for i := range 32 {
				vars := map[string]int{"d": i, "n": (i*7 + 3) % 32, "m": (i*11 + 5) % 32, "i": i % 4, "s": i%31 + 1}
				word := eval(m.word, vars)
				text := m.instruction(vars)
				var raw [4]byte
				binary.LittleEndian.PutUint32(raw[:], word)
				if ins, err := arm64asm.Decode(raw[:]); err == nil {
					decoded = true
					if got := plain(arm64asm.GNUSyntax(ins)); got != text {
						t.Errorf("%#08x is %q, not %q", word, got, text)
					}
				}
				words = append(words, fmt.Sprintf("0x%02x 0x%02x 0x%02x 0x%02x", raw[0], raw[1], raw[2], raw[3]))
				want = append(want, text)
			}
			if llvm == "" {
				if !decoded {
					t.Skip("golang.org/x/arch does not know it and there is no llvm-mc")
				}
				return
			}
			c := exec.Command(llvm, "--disassemble", "-triple=aarch64", "-mattr=+dotprod,+i8mm", "--output-asm-variant=0")
			c.Stdin = strings.NewReader(strings.Join(words, "\n"))
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var got []string
			for l := range strings.Lines(string(out)) {
				if s := plain(l); s != "" && !strings.HasPrefix(s, ".") {
					got = append(got, s)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("llvm-mc says %s", out)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("%s is %q, not %q", words[i], got[i], want[i])
				}
			}
		})
	}
}
