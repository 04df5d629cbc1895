package main

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// The forms of vectors hold the same numbers: rounded, as signs, after a header. Text is the default.
func TestVectorFormats(t *testing.T) {
	embed := func(args ...string) string {
		return done(t, "func main\nreturn nil\n", append([]string{"embed", "-t", "1"}, args...)...)
	}
	var want [][]float32
	for line := range strings.Lines(embed("--embd-output-format", "jsonl")) {
		want = append(want, decode[struct{ Embedding []float32 }](t, line).Embedding)
	}
	if len(want) != 2 || len(want[0]) != 256 || embed() != embed("--embd-output-format", "text") {
		t.Fatalf("%d lines", len(want))
	}
	all := slices.Concat(want...)
	raw := embed("--embd-output-format", "float32")
	for i, x := range all {
		if got := math.Float32frombits(binary.LittleEndian.Uint32([]byte(raw[4*i:]))); got != x {
			t.Fatalf("float32, number %d: %v, expected %v", i, got, x)
		}
	}
	// A header of NumPy is text that ends with a line's end at a multiple of 64 bytes; its length is at 8.
	npy := embed("--embd-output-format", "npy")
	n := 10 + int(binary.LittleEndian.Uint16([]byte(npy[8:10])))
	if npy[:8] != "\x93NUMPY\x01\x00" || n%64 != 0 || npy[n-1] != '\n' || npy[n:] != raw ||
		strings.TrimSpace(npy[10:n]) != "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 256), }" {
		t.Errorf("npy begins with %q", npy[:n])
	}
	half, small, signs := embed("--embd-output-format", "float16"), embed("--embd-output-format", "int8"),
		embed("--embd-output-format", "binary")
	if len(raw) != 4*len(all) || len(half) != 2*len(all) || len(small) != len(all) || len(signs) != len(all)/8 {
		t.Fatalf("%d, %d, %d and %d bytes", len(raw), len(half), len(small), len(signs))
	}
	for i, x := range all {
		row := want[i/256]
		most := max(slices.Max(row), -slices.Min(row))
		bits := binary.LittleEndian.Uint16([]byte(half[2*i:]))
		if e := math.Ldexp(1, int(bits>>10&31)-15-11); math.Abs(float64(x)) > 1e-4 && // half a unit in the last place
			math.Abs(math.Copysign(float64(1024+int(bits&1023))*math.Ldexp(1, int(bits>>10&31)-25),
				float64(int16(bits)))-float64(x)) > e {
			t.Errorf("float16, number %d: %04x for %v", i, bits, x)
		}
		if q := float64(int8(small[i])); math.Abs(q-float64(x)*127/float64(most)) > 0.5001 {
			t.Errorf("int8, number %d: %v for %v of %v", i, q, x, most)
		}
		if set := signs[i/8]>>(7-i%8)&1 == 1; set != (x > 0) {
			t.Errorf("binary, number %d: %v for %v", i, set, x)
		}
	}
	var short embeddingReport
	if err := json.Unmarshal([]byte(embed("--json", "--dimensions", "5", "--embd-normalize", "1")), &short); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, x := range short.Embeddings[1] {
		sum += math.Abs(float64(x))
	}
	if short.Size != 5 || math.Abs(sum-1) > 1e-5 {
		t.Errorf("%d numbers whose absolute values sum to %v", short.Size, sum)
	}
}

// Nothing of fewer numbers than a byte has is lost, and zeros stay zeros.
func TestVectorBytes(t *testing.T) {
	if got := appendBits(nil, []float32{1, -1, 0, 2, 1, 1, 1, 1, -3, 1}); !slices.Equal(got, []byte{0x9f, 0x40}) {
		t.Errorf("bits %x", got)
	}
	if got := appendInt8(nil, []float32{0, 0}); !slices.Equal(got, []byte{0, 0}) {
		t.Errorf("zeros %x", got)
	}
	if got := appendInt8(nil, []float32{-2, 1, 0.5}); !slices.Equal(got, []byte{0x81, 64, 32}) {
		t.Errorf("integers %x", got)
	}
}
