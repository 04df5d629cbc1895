// Command mca estimates the speed of the arm64 kernels on processors one does not have: it disassembles their loops,
// writes one turn of the outermost loop out as a straight line (inner loops as often as they turn) and gives it to
// llvm-mca, and prints cycles per block of 16 rows x 32 weights.
//
//	go run ./mca -cpu neoverse-n1 -set Dotprod     # in asm/_gen
//
// It needs LLVM's tools in a recent version (suffix -llvm, 19 unless told). Older ones know cortex-a72 and cortex-a76
// only as a Cortex-A57; docs/ARM.md says which model stands for which core.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// kernels and how many blocks one turn of the outermost loop does.
var kernels = []struct {
	name   string
	blocks float64
}{
	{"q8", 1}, {"q6k", 8}, {"q51", 1}, {"q5k", 8}, {"q50", 1}, {"q41", 1}, {"q4k", 8}, {"iq4nl", 1}, {"q4", 1},
	{"iq4xs", 8}, {"mxfp4", 1}, {"q3k", 8}, {"q2k", 8},
	{"f32", 1. / 32}, {"f16", 1. / 32}, {"bf16", 1. / 32},
}

func main() {
	cpu := flag.String("cpu", "neoverse-n1", "LLVM's name of the processor")
	set := flag.String("set", "Dotprod", "kernel set: NEON, Dotprod or I8MM")
	llvm := flag.String("llvm", "19", "version of LLVM's tools")
	show := flag.String("show", "", "print llvm-mca's whole answer for this kernel instead, as in q8/4")
	flag.Parse()
	if err := run(*cpu, *set, *llvm, *show); err != nil {
		fmt.Fprintln(os.Stderr, "mca:", err)
		os.Exit(1)
	}
}

func run(cpu, set, llvm, show string) error {
	dir, err := os.MkdirTemp("", "mca")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "asm.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Dir = ".."
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	fmt.Printf("%s on %s: cycles per 16x32 block, for 1 token and more\n", set, cpu)
	for _, k := range kernels {
		loops, err := outerLoops(llvm, binary, "github.com/specgo/spec/asm."+k.name+set+".abi0")
		if err != nil {
			return err
		}
		if len(loops) == 0 {
			continue
		}
		fmt.Printf("%-5s", k.name)
		for i := len(loops) - 1; i >= 0; i-- { // code for the most tokens comes first
			tokens := len(loops) - i
			cycles, text, err := analyze(llvm, cpu, loops[i])
			if err != nil {
				return err
			}
			if show == fmt.Sprintf("%s/%d", k.name, tokens) {
				fmt.Println(text)
				return nil
			}
			fmt.Printf(" %6.1f", cycles/k.blocks)
		}
		fmt.Println()
	}
	return nil
}

var line = regexp.MustCompile(`^ *([0-9a-f]+): *\t(\S+)\t?(.*)$`)
var target = regexp.MustCompile(`0x([0-9a-f]+) <.*>`)

// loop is a backward branch and its target.
type loop struct{ from, to int }

var counter = regexp.MustCompile(`^cbnz\t(x\d+),`)

// outerLoops returns one turn of each outermost loop of a function.
func outerLoops(llvm, binary, symbol string) ([]string, error) {
	out, err := exec.Command("llvm-objdump-"+llvm, "-d", "--no-show-raw-insn", "--mattr=+dotprod,+i8mm",
		"--disassemble-symbols="+symbol, binary).Output()
	if err != nil {
		return nil, err
	}
	var text []string
	index := map[uint64]int{}
	var loops []loop // inner ones before those around them
	for l := range strings.Lines(string(out)) {
		m := line.FindStringSubmatch(strings.TrimRight(l, "\n"))
		if m == nil {
			continue
		}
		at, _ := strconv.ParseUint(m[1], 16, 64)
		index[at] = len(text)
		ins := m[2] + "\t" + m[3]
		if to := target.FindStringSubmatch(m[3]); to != nil {
			ins = m[2] + "\t" + target.ReplaceAllString(m[3], "#-4096") // any
			a, _ := strconv.ParseUint(to[1], 16, 64)
			if start, ok := index[a]; ok && m[2] != "b" {
				loops = append(loops, loop{start, len(text)})
			}
		}
		text = append(text, ins)
	}
	var outer []string
	for i, l := range loops {
		inside := false
		for _, o := range loops[i+1:] {
			inside = inside || o.from <= l.from && l.to < o.to
		}
		if !inside {
			var b strings.Builder
			if err := turn(&b, text, loops[:i], l); err != nil {
				return nil, fmt.Errorf("%s: %w", symbol, err)
			}
			outer = append(outer, b.String())
		}
	}
	return outer, nil
}

// turn writes one turn of a loop; loops are those that end before it.
func turn(b *strings.Builder, text []string, loops []loop, l loop) error {
	for i := l.from; i <= l.to; i++ {
		inner := loop{-1, -1} // the widest that begins here
		for _, o := range loops {
			if o.from == i && o.to < l.to && o.to > inner.to {
				inner = o
			}
		}
		if inner.to < 0 {
			b.WriteString(text[i] + "\n")
			continue
		}
		m := counter.FindStringSubmatch(text[inner.to])
		if m == nil {
			return fmt.Errorf("an inner loop ends with %s", text[inner.to])
		}
		set := regexp.MustCompile(`^(?:mov|orr)\t` + m[1] + `, (?:xzr, )?#(?:0x)?([0-9a-f]+)`)
		n := 0
		for j := i - 1; j >= 0 && n == 0; j-- {
			if s := set.FindStringSubmatch(text[j]); s != nil {
				n, _ = strconv.Atoi(s[1])
			}
		}
		if n < 1 || n > 8 {
			return fmt.Errorf("unknown number of turns of an inner loop: %s", text[inner.to])
		}
		for range n {
			if err := turn(b, text, loops, loop{inner.from, inner.to}); err != nil {
				return err
			}
		}
		i = inner.to
	}
	return nil
}

var total = regexp.MustCompile(`Total Cycles: +(\d+)`)

// analyze returns the cycles of one turn of a loop, out of many.
func analyze(llvm, cpu, loop string) (float64, string, error) {
	turns := max(10, 30000/strings.Count(loop, "\n"))
	c := exec.Command("llvm-mca-"+llvm, "-mtriple=aarch64", "-mcpu="+cpu, "-mattr=+dotprod,+i8mm",
		"-iterations="+strconv.Itoa(turns))
	c.Stdin = strings.NewReader(loop)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return 0, "", fmt.Errorf("%w: %s", err, errs.String())
	}
	m := total.FindSubmatch(out)
	if m == nil {
		return 0, "", fmt.Errorf("llvm-mca says %s", out)
	}
	n, err := strconv.Atoi(string(m[1]))
	return float64(n) / float64(turns), string(out), err
}
