// Command mca foretells the speed of the arm64 kernels on processors one does not have: it disassembles the inner loops and gives
// them to llvm-mca, and prints cycles per block of 16 rows x 32 weights.
//
//	go run ./mca -cpu neoverse-n1 -set Dotprod     # in asm/_gen
//
// It wants LLVM's tools in a recent version (suffix -llvm, 19 unless told). Older ones know cortex-a72 and cortex-a76 only as a
// Cortex-A57; docs/ARM.md says which model stands for which core.
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

// kernels and how many blocks one turn of the innermost loop does.
var kernels = []struct {
	name   string
	blocks float64
}{
	{"q8", 1}, {"q4", 1}, {"q4k", 2}, {"q6k", 4}, {"f32", 1. / 32}, {"f16", 1. / 32}, {"bf16", 1. / 32},
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
		loops, err := innerLoops(llvm, binary, "github.com/specgo/spec/asm."+k.name+set+".abi0")
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

// innerLoops returns the innermost loops of a function: what lies between a backward branch and its target, and holds no other.
func innerLoops(llvm, binary, symbol string) ([]string, error) {
	out, err := exec.Command("llvm-objdump-"+llvm, "-d", "--no-show-raw-insn", "--mattr=+dotprod,+i8mm", "--disassemble-symbols="+symbol, binary).Output()
	if err != nil {
		return nil, err
	}
	var text []string
	index := map[uint64]int{}
	var loops []string
	last := -1 // where the last loop ended
	for l := range strings.Lines(string(out)) {
		m := line.FindStringSubmatch(strings.TrimRight(l, "\n"))
		if m == nil {
			continue
		}
		at, _ := strconv.ParseUint(m[1], 16, 64)
		index[at] = len(text)
		ins := m[2] + "\t" + m[3]
		if to := target.FindStringSubmatch(m[3]); to != nil {
			ins = m[2] + "\t" + target.ReplaceAllString(m[3], "#-4") // any
			a, _ := strconv.ParseUint(to[1], 16, 64)
			if start, ok := index[a]; ok && start > last && m[2] != "b" {
				loops = append(loops, strings.Join(append(text[start:len(text):len(text)], ins), "\n")+"\n")
				last = len(text)
			}
		}
		text = append(text, ins)
	}
	return loops, nil
}

var total = regexp.MustCompile(`Total Cycles: +(\d+)`)

// analyze returns the cycles of one turn of a loop, out of many.
func analyze(llvm, cpu, loop string) (float64, string, error) {
	const turns = 1000
	c := exec.Command("llvm-mca-"+llvm, "-mtriple=aarch64", "-mcpu="+cpu, "-mattr=+dotprod,+i8mm", "-iterations="+strconv.Itoa(turns))
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
	return float64(n) / turns, string(out), err
}
