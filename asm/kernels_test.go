package asm

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// vectorSets are the names of this machine's sets but amx, which is avx512 with MatMulTiles: that has its own test.
func vectorSets() []string {
	return slices.DeleteFunc(Available(), func(name string) bool { return name == "amx" })
}

// eachSet runs f for every kernel set of this machine beside the scalar one, scalar itself included: that checks its
// bounds.
func eachSet(t *testing.T, f func(t *testing.T, k, scalar *Kernels)) {
	scalar := Scalar()
	for _, name := range vectorSets() {
		t.Run(name, func(t *testing.T) {
			k, err := Select(name)
			if err != nil {
				t.Fatal(err)
			}
			f(t, &k, &scalar)
		})
	}
}

// lengths are the lengths vector kernels are tried at: every one up to past four registers, and some long ones.
func lengths() []int {
	var n []int
	for i := range 71 {
		n = append(n, i)
	}
	return append(n, 127, 128, 129, 255, 256, 257, 1000)
}

func TestSelect(t *testing.T) {
	names := Available()
	if names[0] != "scalar" {
		t.Errorf("Available() = %v", names)
	}
	for _, name := range names {
		if k, err := Select(name); err != nil || k.Name != name {
			t.Errorf("Select(%q) = %q, %v", name, k.Name, err)
		}
	}
	if k, err := Select(""); err != nil || k.Name != names[len(names)-1] {
		t.Errorf("Select(\"\") = %q, %v", k.Name, err)
	}
	if _, err := Select("sse"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	missing := "neon"
	if slices.Contains(names, missing) {
		missing = "avx2"
	}
	if _, err := Select(missing); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

func TestCompleteSets(t *testing.T) {
	eachSet(t, func(t *testing.T, k, _ *Kernels) {
		for _, f := range Formats() {
			if k.Weights[f].MatMul == nil {
				t.Errorf("no MatMul for %v", f)
			}
		}
		for kv := range kvCount {
			if k.Scores[kv] == nil || k.Values[kv] == nil || k.ValuesOfKeys[kv] == nil {
				t.Errorf("no attention for %v", kv)
			}
		}
	})
}

// Nothing is allocated by the kernels that work per token.
func TestKernelsAllocateNothing(t *testing.T) {
	eachSet(t, func(t *testing.T, k, _ *Kernels) {
		var x Tile
		out, page, sums := make([]float32, Page*2), make([]byte, KPageBytes(KVF32, 64)), make([]float32, 4)
		other := make([]byte, len(page))
		for _, f := range Formats() {
			panel := make([]byte, f.ProductBytes(256))
			if n := testing.AllocsPerRun(2, func() {
				x.ResizeFloat(2, 256)
				x.ResizeQuantized(2, 256)
				k.Quantize(out[:256], &x, 1)
				k.Weights[f].MatMul(panel, &x, out, PanelRows, Prefetch{})
			}); n != 0 {
				t.Errorf("MatMul of %v allocates %v times", f, n)
			}
		}
		for kv := range kvCount {
			if n := testing.AllocsPerRun(2, func() {
				StoreK(kv, page, 3, out[:64])
				StoreV(kv, page, 3, out[:64])
				k.Scores[kv](out, out[:64], page, 64, 1, 9, 1, page)
				k.Values[kv](out[:64], out[Page:], page, 64, 1, 0, 9, page)
				k.ValuesOfKeys[kv](other, page, 64, 48, 9)
				k.Gumbel(out, 1, Key(1, 2, 3))
				k.ExpSum(out)
				k.ExpSums(out, Page, 9, sums[:2], sums[2:])
			}); n != 0 {
				t.Errorf("attention over %v allocates %v times", kv, n)
			}
		}
	})
}

func TestCPU(t *testing.T) {
	if c := CPU(); c.L1D < 0 || c.L2 < 0 || c.L3 < 0 || c.PhysicalCores < 0 {
		t.Errorf("%+v", c)
	}
}

func TestMatMulSets(t *testing.T) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		for _, f := range Formats() {
			t.Run(f.String(), func(t *testing.T) {
				r := newRand(10)
				for tokens := 1; tokens <= TileTokens; tokens++ {
					if k.Name == scalar.Name && tokens%3 != 1 { // beside itself: what it reads and writes
						continue
					}
					sizes := []int{1, 2, 3, 5, 9, 16, 17}
					if f.BlockWeights() > 32 {
						sizes = sizes[:4]
					}
					for _, n := range sizes {
						cols := n * f.BlockWeights()
						rows := 16 - r.IntN(3)
						raw := randomRows(r, f, rows, cols)
						mine, theirs := tail[byte](t, f.ProductBytes(cols)), make([]byte, f.ProductBytes(cols))
						packProduct(f, k.Offset, mine, raw, rows, cols)
						packProduct(f, false, theirs, raw, rows, cols)
						x, _ := newTile(t, k, r, tokens, cols)
						stride := PanelRows + r.IntN(3)
						got := tail[float32](t, (tokens-1)*stride+PanelRows)
						want := make([]float32, len(got))
						for i := range got { // what lies between is not to be touched
							got[i], want[i] = 7, 7
						}
						prefetch := anyPrefetch(r)
						dirtyStack()
						k.Weights[f].MatMul(mine, x, got, stride, prefetch)
						scalar.Weights[f].MatMul(theirs, x, want, stride, Prefetch{})
						wantSame(t, f.String(), got, want)
					}
				}
			})
		}
	})
}

func TestQuantizeSets(t *testing.T) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		r := newRand(11)
		for tokens := 1; tokens <= TileTokens; tokens++ {
			for _, blocks := range []int{1, 2, 3, 8} {
				cols := blocks * BlockSize
				got, v := newTile(t, k, r, tokens, cols)
				want, _ := newTile(t, scalar, r, tokens, cols)
				for i := range tokens {
					row := v[i*cols:][:cols]
					switch r.IntN(4) {
					case 0:
						normal(r, row, math.Ldexp(1, r.IntN(250)-149))
					case 1:
						for j := range row {
							row[j] = float32(r.IntN(255)-127) / 2 // halves: ties
						}
						row[0] = 127
					case 2:
						wild(r, row)
					}
					a, b := k.Quantize(row, got, i), scalar.Quantize(row, want, i)
					if a != b {
						t.Fatalf("says %v, scalar %v", a, b)
					}
					if !a { // undefined: make it defined
						clear(row)
						k.Quantize(row, got, i)
						scalar.Quantize(row, want, i)
					}
				}
				wantSame(t, "D", got.D, want.D)
				wantSame(t, "DSum", got.DSum, want.DSum)
				if !slices.Equal(got.Q, want.Q) || !slices.Equal(got.Bias, want.Bias) || !slices.Equal(got.Half, want.Half) {
					t.Fatalf("%d tokens, %d columns: Q, Bias or Half differ", tokens, cols)
				}
			}
		}
	})
}

// TestEncodeQ4_0Sets: every set writes the scalar set's row, and nothing behind it, and refuses the same rows.
func TestEncodeQ4_0Sets(t *testing.T) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		r := newRand(17)
		refused := 0
		for n := range 400 {
			blocks := n % 5
			x := tail[float32](t, blocks*BlockSize)
			switch n / 5 % 5 {
			case 0:
				normal(r, x, math.Ldexp(1, r.IntN(170)-149)) // up to scales that are too large
			case 1:
				for i := range x { // ties, of both signs: the first one counts
					x[i] = float32(r.IntN(5)-2) / 4
				}
			case 2:
				wild(r, x)
			case 3: // zeros of both signs, and one number
				for i := range x {
					x[i] = math.Float32frombits(r.Uint32() << 31)
				}
				if len(x) > 0 && r.IntN(2) == 0 {
					x[r.IntN(len(x))] = math.Float32frombits(r.Uint32() >> r.IntN(9) & 0x80ffffff)
				}
			case 4: // about the least number whose scale is too large
				normal(r, x, 1000)
				if len(x) > 0 {
					x[r.IntN(len(x))] = math.Float32frombits(math.Float32bits(tooLargeQ4_0) - uint32(r.IntN(2)) | r.Uint32()<<31)
				}
			}
			got, want := tail[byte](t, 18*blocks), make([]byte, 18*blocks)
			a, b := k.EncodeQ4_0(got, x), scalar.EncodeQ4_0(want, x)
			if a != b {
				t.Fatalf("case %d: says %v, scalar %v", n, a, b)
			}
			if a && !bytes.Equal(got, want) {
				t.Fatalf("case %d: %x, want %x, of %v", n, got, want, x)
			}
			if !a {
				refused++
			}
		}
		if refused == 0 || refused == 400 {
			t.Errorf("%d of 400 rows are refused", refused)
		}
	})
}

// vectorTest calls a kernel of both sets with equal inputs, each as long as the destination, at every length. In
// place, the destination is the first input.
func vectorTest(t *testing.T, inputs int, inPlace bool,
	call func(k *Kernels, dst []float32, in [][]float32) []float32) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		for _, n := range lengths() {
			for round, fill := range []func(r *rand.Rand, x []float32){
				func(r *rand.Rand, x []float32) { normal(r, x, 1) },
				func(r *rand.Rand, x []float32) { normal(r, x, 30) },
				wild,
			} {
				r := newRand(uint64(n*8 + round))
				var mine, theirs [][]float32
				for range inputs {
					a := tail[float32](t, n)
					fill(r, a)
					mine, theirs = append(mine, a), append(theirs, slices.Clone(a))
				}
				got, want := tail[float32](t, n), make([]float32, n)
				if inPlace {
					got, want = mine[0], theirs[0]
				}
				a, b := call(k, got, mine), call(scalar, want, theirs)
				wantSame(t, "result", a, b)
				wantSame(t, "destination", got, want)
			}
		}
	})
}

func TestVectorSets(t *testing.T) {
	for _, c := range []struct {
		name   string
		inputs int
		call   func(k *Kernels, dst []float32, in [][]float32) []float32
	}{
		{"SumSquares", 1, func(k *Kernels, _ []float32, in [][]float32) []float32 { return []float32{k.SumSquares(in[0])} }},
		{"RMSNorm", 2, func(k *Kernels, dst []float32, in [][]float32) []float32 {
			k.RMSNorm(dst, in[0], in[1], 1e-5)
			return nil
		}},
		{"LayerNorm", 3, func(k *Kernels, dst []float32, in [][]float32) []float32 {
			k.LayerNorm(dst, in[0], in[1], in[2], 1e-5)
			return nil
		}},
		{"SiLUMul", 2, func(k *Kernels, dst []float32,
			in [][]float32) []float32 {
			k.SiLUMul(dst, in[0], in[1])
			return nil
		}},
		{"GELU", 1, func(k *Kernels, dst []float32, in [][]float32) []float32 { k.GELU(dst, in[0]); return nil }},
		{"GELUErf", 1, func(k *Kernels, dst []float32, in [][]float32) []float32 { k.GELUErf(dst, in[0]); return nil }},
		{"Exp", 1, func(k *Kernels, dst []float32, in [][]float32) []float32 { k.Exp(dst, in[0]); return nil }},
	} {
		t.Run(c.name, func(t *testing.T) { vectorTest(t, c.inputs, false, c.call) })
		t.Run(c.name+" in place", func(t *testing.T) { vectorTest(t, c.inputs, true, c.call) })
	}
	t.Run("Add", func(t *testing.T) {
		vectorTest(t, 2, true, func(k *Kernels, dst []float32, in [][]float32) []float32 { k.Add(dst, in[1]); return nil })
	})
	t.Run("Blend", func(t *testing.T) {
		vectorTest(t, 2, true, func(k *Kernels, dst []float32, in [][]float32) []float32 {
			k.Blend(dst, in[1], 0.7, -1.3)
			return nil
		})
	})
	t.Run("SigmoidMul", func(t *testing.T) {
		vectorTest(t, 2, true, func(k *Kernels, dst []float32,
			in [][]float32) []float32 {
			k.SigmoidMul(dst, in[1])
			return nil
		})
	})
	t.Run("Divide", func(t *testing.T) {
		vectorTest(t, 1, true, func(k *Kernels, dst []float32, _ [][]float32) []float32 { k.Divide(dst, 0.37); return nil })
	})
	t.Run("ExpSum", func(t *testing.T) {
		vectorTest(t, 1, true, func(k *Kernels, dst []float32, _ [][]float32) []float32 {
			m, l := k.ExpSum(dst)
			return []float32{m, l}
		})
	})
	t.Run("ArgMax", func(t *testing.T) {
		vectorTest(t, 1, true, func(k *Kernels, dst []float32, _ [][]float32) []float32 {
			if len(dst) == 0 {
				return nil
			}
			return []float32{float32(k.ArgMax(dst))}
		})
	})
	t.Run("Finite", func(t *testing.T) {
		vectorTest(t, 1, true, func(k *Kernels, dst []float32, _ [][]float32) []float32 {
			least := len(dst) // of how many elements it is first false
			for i := range dst {
				if !k.Finite(dst[:i]) {
					least = min(least, i)
				}
			}
			return []float32{float32(least)}
		})
	})
	t.Run("MaxHash", func(t *testing.T) {
		vectorTest(t, 0, false, func(k *Kernels, dst []float32, _ [][]float32) (halves []float32) {
			for i := range uint32(20) { // the greatest in any place; token ids wrap around
				most := k.MaxHash(len(dst), 0xfffffff0+i, Key(9, uint64(len(dst))))
				halves = append(halves, float32(most>>16), float32(most&0xffff))
			}
			return halves
		})
	})
	t.Run("Gumbel", func(t *testing.T) {
		vectorTest(t, 0, false, func(k *Kernels, dst []float32, _ [][]float32) []float32 {
			k.Gumbel(dst, 0xfffffff0, Key(9, uint64(len(dst)))) // token ids wrap around
			return nil
		})
	})
	for name, rope := range map[string]func(k *Kernels) func(x, cos, sin []float32){
		"RopeInterleaved": func(k *Kernels) func(x, cos, sin []float32) { return k.RopeInterleaved },
		"RopeHalves":      func(k *Kernels) func(x, cos, sin []float32) { return k.RopeHalves },
	} {
		t.Run(name, func(t *testing.T) {
			eachSet(t, func(t *testing.T, k, scalar *Kernels) {
				r := newRand(12)
				for n := range 70 {
					x, cos, sin := tail[float32](t, 2*n), tail[float32](t, n), tail[float32](t, n)
					normal(r, x, 3)
					normal(r, cos, 1)
					normal(r, sin, 1)
					want := slices.Clone(x)
					rope(k)(x, cos, sin)
					rope(scalar)(want, cos, sin)
					wantSame(t, "head", x, want)
				}
			})
		})
	}
}

func TestArgMax(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		x    []float32
		want int
	}{
		{[]float32{1, 3, 3, 2}, 1}, {[]float32{nan, nan}, 0}, {[]float32{nan, -inf}, 1}, {[]float32{-inf, -inf}, 0},
		{[]float32{0, float32(math.Copysign(0, -1))}, 0}, {[]float32{nan, 2, nan, 5, nan}, 3}, {[]float32{inf, nan}, 0},
	} {
		eachSet(t, func(t *testing.T, k, _ *Kernels) {
			for shift := range 40 { // the same at any distance from the start
				x := slices.Repeat([]float32{nan}, shift)
				x = append(x, c.x...)
				want := shift + c.want
				if c.x[c.want] != c.x[c.want] {
					want = 0
				}
				if got := k.ArgMax(x); got != want {
					t.Errorf("%v after %d NaN: %d, want %d", c.x, shift, got, want)
				}
			}
		})
	}
}

func TestF16Sets(t *testing.T) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		r := newRand(13)
		for _, n := range lengths() {
			src := tail[float32](t, n)
			wild(r, src)
			for i := range src {
				if r.IntN(2) == 0 {
					src[i] = FromF16(uint16(r.Uint32())) * (1 + float32(r.IntN(3)-1)*0x1p-11)
				}
			}
			got, want := tail[uint16](t, n), make([]uint16, n)
			k.EncodeF16(got, src)
			scalar.EncodeF16(want, src)
			for i := range got {
				if got[i] != want[i] && src[i] == src[i] {
					t.Fatalf("element %d of %d: %g becomes %#04x, want %#04x", i, n, src[i], got[i], want[i])
				}
			}
			back, wantBack := tail[float32](t, n), make([]float32, n)
			k.DecodeF16(back, got)
			scalar.DecodeF16(wantBack, got)
			wantSame(t, "decoded", back, wantBack)
		}
		all := tail[uint16](t, 1<<16)
		for i := range all {
			all[i] = uint16(i)
		}
		got := tail[float32](t, 1<<16)
		k.DecodeF16(got, all)
		for i, h := range all {
			if !same(got[i], FromF16(h)) {
				t.Fatalf("%#04x decodes to %g, want %g", h, got[i], FromF16(h))
			}
		}
	})
}
