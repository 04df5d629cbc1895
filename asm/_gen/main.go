// Command _gen writes the assembly of package asm, and the Go files that declare it and put it into kernel sets. A
// product kernel has code for each number of tokens in a tile, 1 to 8; loop nests and the parts of a weight type are
// written separately and composed here.
//
//	go run .          # in asm/_gen: writes ../*_amd64.s, ../*_arm64.s, and their declarations ../stubs_*.go
//	go run . -check   # exits 1 if one of them is not what this program would write
//	go run ./interpret # runs package asm's tests with the amd64 assembly interpreted
//
// The parts:
//
//   - emit.go, vector.go (amd64) and neon.go, neonvector.go (arm64): instructions, registers, constants; loops over
//     slices.
//   - doc.go: the Go loops that become the comments of the declarations.
//   - weights.go and type_<type>.go: what a weight type is to the loop nests, how its weights are unpacked and its sums
//     scaled. Start with type_q8_0.go.
//   - nest512.go (AVX-512), matmulpair512.go (two panels), nest256.go (AVX2, AVX-VNNI), expand256.go (AVX2, several
//     tiles): the loop nests of products with integer weights. tileamx.go (AMX, many tokens). matmulfloat.go: with
//     float weights; matmulfloatside.go: several panels of them at once.
//   - attention.go, transpose.go, norm.go, quantize.go, noise.go, scan.go, stream.go, rates.go, bench.go: the other
//     kernels for amd64.
//   - neonnest.go, neonplan.go, neonsums.go, neonscale.go, neonunpack.go, neontypes.go, neonq8.go: the loop nest for
//     NEON and SDOT; neoni8mm*.go: for SMMLA; the other neon*.go files are named as those for amd64.
//
// A kernel's comment begins with its register assignment.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
)

type output struct {
	name  string
	write func(*file)
}

// outputs lists the assembly files for amd64 and the functions that write them; outputsARM64 those for arm64.
var outputs = []output{
	{"matmul_avx512_amd64.s", matmul512},
	{"matmultiles_amx_amd64.s", matmulAMX},
	{"matmul_avxvnni_amd64.s", func(f *file) { matmul256(f, true) }},
	{"matmul_avx2_amd64.s", func(f *file) { matmul256(f, false) }},
	{"matmulexpanded_avx2_amd64.s", matmulExpanded},
	{"inflate_avx2_amd64.s", inflateKernels},
	{"direct_avx2_amd64.s", directKernels},
	{"inflate_avx512_amd64.s", func(f *file) { f.inflateNVFP4(avx512) }},
	{"inflate_avx512vbmi_amd64.s", inflateKernels512},
	{"matmulfloat_avx512_amd64.s", func(f *file) { matmulFloat(f, avx512); matmulFloatSide(f, avx512) }},
	{"matmulfloat_avx2_amd64.s", func(f *file) { matmulFloat(f, avx2); matmulFloatSide(f, avx2) }},
	{"scores_avx512_amd64.s", func(f *file) { scoresKernel(f, avx512) }},
	{"scores_avx2_amd64.s", func(f *file) { scoresKernel(f, avx2); scoresKept(f) }},
	{"values_avx512_amd64.s", func(f *file) { valuesKernel(f, avx512) }},
	{"values_avx2_amd64.s", func(f *file) { valuesKernel(f, avx2); valuesKept(f) }},
	{"exp_avx512_amd64.s", func(f *file) { exponentials(f, avx512) }},
	{"exp_avx2_amd64.s", func(f *file) { exponentials(f, avx2) }},
	{"norm_avx2_amd64.s", func(f *file) { norms(f, avx2) }},
	{"transpose_avx2_amd64.s", func(f *file) { transpose(f); turns(f) }},
	{"quantize_avx2_amd64.s", quantize},
	{"gumbel_avx2_amd64.s", gumbel},
	{"scan_avx512_amd64.s", func(f *file) { scans(f, avx512) }},
	{"scan_avx2_amd64.s", func(f *file) { scans(f, avx2) }},
	{"stream_avx512_amd64.s", func(f *file) { stream(f, avx512) }},
	{"stream_avx2_amd64.s", func(f *file) { stream(f, avx2) }},
	{"rates_avx512_amd64.s", ratesAVX512},
	{"rates_amx_amd64.s", ratesAMX},
	{"rates_avxvnni_amd64.s", ratesAVXVNNI},
	{"rates_avx2_amd64.s", ratesAVX2},
	{"cycles_amd64.s", cycles},
}

func main() {
	check := flag.Bool("check", false, "compare instead of writing")
	flag.Parse()
	if err := run("..", *check); err != nil {
		fmt.Fprintln(os.Stderr, "_gen:", err)
		os.Exit(1)
	}
}

func run(dir string, check bool) error {
	if err := put(filepath.Join(dir, "neon_arm64.h"), neonHeader(), check); err != nil {
		return err
	}
	if err := put(filepath.Join(dir, "integer_arm64.go"), neonSetters(), check); err != nil {
		return err
	}
	if err := writeAll(dir, "stubs_arm64.go", outputsARM64, check); err != nil {
		return err
	}
	if err := writeAll(dir, "stubs_amd64.go", outputs, check); err != nil {
		return err
	}
	return putGo(filepath.Join(dir, "integer_amd64.go"), setters(), check)
}

// writeAll writes assembly files and the Go declarations of their functions.
func writeAll(dir, stubsName string, outputs []output, check bool) error {
	var stubs bytes.Buffer
	stubs.WriteString(header + "package asm\n")
	for _, o := range outputs {
		f := newFile(&stubs)
		o.write(f)
		if err := put(filepath.Join(dir, o.name), f.assembly(), check); err != nil {
			return err
		}
	}
	return putGo(filepath.Join(dir, stubsName), stubs.Bytes(), check)
}

// putGo formats a Go file and writes or compares it.
func putGo(name string, text []byte, check bool) error {
	src, err := format.Source(text)
	if err != nil {
		return err
	}
	return put(name, src, check)
}

// put writes a file, or with check compares it.
func put(name string, text []byte, check bool) error {
	if !check {
		return os.WriteFile(name, text, 0o644)
	}
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(old, text) {
		return fmt.Errorf("%s is stale: run go generate ./asm", name)
	}
	return nil
}
