package tensor

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// Blocks that the types hold exactly, so that it is plain what must come out.
func TestEncodeKByHand(t *testing.T) {
	// d = dmin = 1; x = scale*q - minimum, q = 0 … 15 twice, scale 63, 56, … 14 and minimum 0, 9, … 63.
	x := make([]float32, 256)
	for i := range x {
		sub := i / 32
		x[i] = float32((63-7*sub)*(i%16) - 9*sub)
	}
	ramp := "00112233445566778899aabbccddeeff"
	checkBlock(t, Q4_K, x, "003c"+"003c"+ // 1, 1
		"bf"+"78"+"71"+"2a"+ // 63 | 35>>4<<6, 56 | 28>>4<<6, 49 | 21>>4<<6, 42 | 14>>4<<6
		"80"+"89"+"d2"+"db"+ // 0 | 36>>4<<6, 9 | 45>>4<<6, 18 | 54>>4<<6, 27 | 63>>4<<6
		"43"+"dc"+"65"+"fe"+ // low nibbles of 35, 36; 28, 45; 21, 54; 14, 63
		strings.Repeat(ramp, 8))

	// d = 1; x = scale*q, q = -32, -28, … 28, stored plus 32; every fourth scale is zero.
	scales := []int{-128, 127, 0, 1, -1, 64, 0, -65, 33, -2, 0, 100, 3, 31, 0, -127}
	for i := range x {
		x[i] = float32(scales[i/16] * (4*(i%16) - 32))
	}
	low, high := make([]byte, 128), make([]byte, 64)
	for sub, scale := range scales {
		for i := range 16 {
			u := byte(4 * i)
			if scale == 0 {
				u = 32
			}
			low[sub/8*64+sub/2%2*32+sub%2*16+i] |= u & 15 << (sub / 4 % 2 * 4)
			high[sub/8*32+sub%2*16+i] |= u >> 4 << (sub / 2 % 4 * 2)
		}
	}
	checkBlock(t, Q6_K, x, hex.EncodeToString(low)+hex.EncodeToString(
		high)+"807f0001"+"ff4000bf"+"21fe0064"+"031f0081"+"003c")

	clear(x)
	checkBlock(t, Q4_K, x, strings.Repeat("00", 144))
	checkBlock(t, Q6_K, x, strings.Repeat("00", 128)+strings.Repeat("aa", 64)+strings.Repeat("00", 18))
}

func checkBlock(t *testing.T, f Type, x []float32, want string) {
	t.Helper()
	got := make([]byte, f.BlockBytes())
	ok(t, Encode(f, got, x))
	if hex.EncodeToString(got) != want {
		t.Errorf("%v:\n%x, want\n%s", f, got, want)
	}
	back := make([]float32, 256)
	ok(t, Decode(f, back, got))
	for i := range x {
		if back[i] != x[i] {
			t.Errorf("%v: number %d is %v, was %v", f, i, back[i], x[i])
		}
	}
}

// encodeError is the root of the mean square of what Encode loses, over that of x.
func encodeError(t *testing.T, f Type, x []float32) float64 {
	t.Helper()
	raw, back := make([]byte, f.RowBytes(len(x))), make([]float32, len(x))
	ok(t, Encode(f, raw, x))
	ok(t, Decode(f, back, raw))
	var e, all float64
	for i := range x {
		e += math.Pow(float64(back[i]-x[i]), 2)
		all += math.Pow(float64(x[i]), 2)
	}
	return math.Sqrt(e / all)
}

func TestEncodeError(t *testing.T) {
	shifted := normal(8, 1<<14)
	for i := range shifted {
		shifted[i] += 2
	}
	spikes := normal(9, 1<<14)
	for i := 0; i < len(spikes); i += 100 {
		spikes[i] *= 20
	}
	constant := make([]float32, 256)
	for i := range constant {
		constant[i] = -0.3
	}
	positive := make([]float32, 256)
	for i := range positive {
		positive[i] = 7e6
	}
	for _, c := range []struct {
		name   string
		x      []float32
		q4, q6 float64
	}{
		{"normal", normal(7, 1<<14), 0.071, 0.017},
		{"shifted", shifted, 0.0335, 0.0135},
		{"spikes", spikes, 0.1, 0.032},
		{"one negative number", constant, 0.0006, 0.0006},
		{"one positive number, of the greatest", positive, 0.001, 0.001},
	} {
		for f, limit := range map[Type]float64{Q4_K: c.q4, Q6_K: c.q6} {
			if got := encodeError(t, f, c.x); !(got <= limit) {
				t.Errorf("%s in %v: error %.5f, at most %v", c.name, f, got, limit)
			} else {
				t.Logf("%s in %v: error %.5f", c.name, f, got)
			}
		}
	}
}

// TestEncodeNormal: the error of each type for normally distributed numbers, which it stays within.
func TestEncodeNormal(t *testing.T) {
	limits := map[Type]float64{F32: 0, F16: 0.00022, BF16: 0.0017, Q8_0: 0.0054, Q6_K: 0.017, Q5_1: 0.0335,
		Q5_K: 0.0346, Q5_0: 0.0404,
		Q4_1: 0.0707, Q4_K: 0.0707, IQ4_NL: 0.074, IQ4_XS: 0.075, Q4_0: 0.0865,
		Q3_K: 0.145, IQ3_S: 0.132, IQ3_XXS: 0.182, Q2_K: 0.269, IQ2_S: 0.242, IQ2_XS: 0.291, IQ2_XXS: 0.337, TQ2_0: 0.4325,
		TQ1_0: 0.4325}
	x := normal(7, 1<<14)
	for _, f := range Encodable() {
		if got := encodeError(t, f, x); !(got <= limits[f]) {
			t.Errorf("%v: error %.5f, at most %v", f, got, limits[f])
		}
	}
}

// TestEncodeImportant: the weighted error of normally distributed numbers whose importance is spread widely, which is
// below that of ggml's quantizers for the same numbers.
func TestEncodeImportant(t *testing.T) {
	limits := map[Type]float64{Q6_K: 0.0139, Q5_K: 0.0278, Q5_1: 0.0258, Q5_0: 0.0341, Q4_K: 0.0558, Q4_1: 0.055,
		IQ4_NL: 0.0604, IQ4_XS: 0.0614, Q4_0: 0.0702, Q3_K: 0.1197, Q2_K: 0.1972}
	x, importance := normal(7, 1<<14), normal(8, 1<<14)
	for i, v := range importance {
		importance[i] = float32(math.Exp(1.5 * float64(v)))
	}
	for f, limit := range limits {
		raw, back := make([]byte, f.RowBytes(len(x))), make([]float32, len(x))
		ok(t, EncodeWeighted(f, raw, x, importance))
		ok(t, Decode(f, back, raw))
		var e, all float64
		for i, w := range importance {
			e += float64(w) * math.Pow(float64(back[i]-x[i]), 2)
			all += float64(w) * math.Pow(float64(x[i]), 2)
		}
		if got := math.Sqrt(e / all); !(got <= limit) {
			t.Errorf("%v: error %.5f, at most %v", f, got, limit)
		}
	}
}

// TestEncodeMinimum: numbers far from zero are as exact in the types with a minimum as they are around zero, and a
// minimum that exceeds binary16 is refused.
func TestEncodeMinimum(t *testing.T) {
	around, above := normal(14, 1<<14), make([]float32, 1<<14)
	for i, v := range around {
		above[i] = v + 8
	}
	for _, f := range []Type{Q4_1, Q5_1} {
		lost := func(x []float32) (sum float64) {
			raw, back := make([]byte, f.RowBytes(len(x))), make([]float32, len(x))
			ok(t, Encode(f, raw, x))
			ok(t, Decode(f, back, raw))
			for i := range x {
				sum += math.Pow(float64(back[i]-x[i]), 2)
			}
			return sum
		}
		if a, b := lost(around), lost(above); !(b < 1.03*a) {
			t.Errorf("%v: squared errors add up to %.4f around zero and %.4f above", f, a, b)
		}
		x := make([]float32, 32)
		for i := range x {
			x[i] = 70000
		}
		if err := Encode(f, make([]byte, f.RowBytes(32)), x); !errors.Is(err, ErrNotFinite) {
			t.Errorf("%v of 70000: %v", f, err)
		}
	}
}

// TestEncodeEverywhere: the same bytes on every machine, from numbers that are exact there.
func TestEncodeEverywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 1<<13)
	for i := range x {
		x[i] = float32(int32(r.Uint32())) * 0x1p-34 * float32(1+i/512)
	}
	hashes := map[Type]string{
		F32:     "d91816d882f42be9d34ee0e8808cab05bf47fecc0ed06a4ba46e0e848246dead",
		F16:     "6e07d9211d577c1ee013b8745af575c6ed4d5c03865670f519887a42f679e8dc",
		BF16:    "531459a3d3fc3f068de57d45baa03f3a041e28c6b6bff7a0dfc19b2142038da6",
		Q8_0:    "51a27dc8aadd80965c6eff5a0b028589727d4a2890709967c8631d70c6013549",
		Q5_1:    "15b33e6d3e732427fbc3d4d7adda87aba71ad659c84ef597daa7ff5297579d9a",
		Q5_K:    "0241fcecd882fde02f92db0694d77df4b8db2215c4599d8f1c4149bad65df6a8",
		Q5_0:    "0588c87cd4100b4db8717b0de73cb6a4fe04033c0f57527e73eccaeba259ea87",
		Q4_1:    "53a843aa9a49c0a23ec2bda35b06633d7e45c9f43c67216f12e332fe9b7512e2",
		IQ4_XS:  "8e8fde63a819fd42470ec0f82299b6fbc9f31695dda066e812f161d54db3fd83",
		IQ4_NL:  "eeedd751474f8cbdf6b8237dbbd0b419c88e61cd97cc13b8384ba6a31a26c59e",
		Q4_0:    "df246075d13305e105df687422dc7f62486694b1b6b9a010bc2c768287af0041",
		Q4_K:    "6872a00d99ef8c991dd746542d2ce0b4ccf49311308dba765ffa79b5854ccb8a",
		Q6_K:    "bc336bd66db8e99e8754af14d2d688875c0b7496549823fd28bf9fbaf45d75a1",
		Q3_K:    "af4392fb9dcddb28cfa953136628df1271257ccf948c5b869de51202c41e4673",
		IQ3_S:   "17ef7e4d2e4c7fb682f3e1c9dedc7edd817be14aa7429503a5dc74ee9900d646",
		IQ3_XXS: "af73003b13207f7398cf5e45c4db8f82156888171473780a2798e3308e6d46ec",
		Q2_K:    "942e721bb2a2d96d560db73e8f3872a5f558c4b9f3157cbe79b2bdda673ebacd",
		IQ2_S:   "e292eebcddbc10c4dcc0461a67dd9a7fcbcd982c520467a70366ebbb6ed9ca54",
		IQ2_XS:  "eda0a07b966467540ab8c461a822e6be0ec273a1ea2b4df52941b63e063a11ce",
		IQ2_XXS: "ced8bf1f9f54c6261550b239c7f3e06ba16c36f6521b350179b86169091091f7",
		TQ2_0:   "e09548f9e8bf223df69a78891e0eaa32428ef69210556e5d424f7eded7d537b5",
		TQ1_0:   "bc4920561f006cbc4da5f93b061c8dd7c78c731a58815f34d36a3e4bc8d9efb1",
	}
	for _, f := range Encodable() {
		raw := make([]byte, f.RowBytes(len(x)))
		ok(t, Encode(f, raw, x))
		if got := fmt.Sprintf("%x", sha256.Sum256(raw)); got != hashes[f] {
			t.Errorf("%v: %s, want %s", f, got, hashes[f])
		}
	}
}

// TestEncodePacked: encoded, packed and read from the panel is encoded and decoded.
func TestEncodePacked(t *testing.T) {
	const rows, cols = 19, 768
	rt, x := runtimeOf(t, 2), normal(10, rows*cols)
	for _, f := range Encodable() {
		raw, want, got := make([]byte, f.RowBytes(cols)), make([]float32, cols), make([]float32, cols)
		m, err := FromFloats(rt, f, rows, cols, x)
		ok(t, err)
		for i := range rows {
			ok(t, Encode(f, raw, x[i*cols:][:cols]))
			ok(t, Decode(f, want, raw))
			ok(t, m.Row(i, got))
			sameBits(t, fmt.Sprint(f, " row ", i), got, want)
		}
	}
}

// TestEncodeReference: rows are no further off than as the reference quantizes them.
func TestEncodeReference(t *testing.T) {
	dir := testkit.Shared(t, "families", "quants")
	input, err := os.ReadFile(filepath.Join(dir, "input.f32"))
	ok(t, err)
	x := make([]float32, len(input)/4)
	ok(t, Decode(F32, x, input))
	for _, f := range Encodable() {
		if f == F32 {
			continue
		}
		values, err := os.ReadFile(filepath.Join(dir, f.String()+".f32"))
		ok(t, err)
		reference, got, raw := make([]float32, len(x)), make([]float32, len(x)), make([]byte, f.RowBytes(len(x)))
		ok(t, Decode(F32, reference, values))
		ok(t, Encode(f, raw, x))
		ok(t, Decode(f, got, raw))
		var ours, theirs float64
		for row := range 32 { // each of its own size
			var a, b, all float64
			for i := row * 512; i < row*512+512; i++ {
				a += math.Pow(float64(got[i])-float64(x[i]), 2)
				b += math.Pow(float64(reference[i])-float64(x[i]), 2)
				all += math.Pow(float64(x[i]), 2)
			}
			if all > 0 {
				ours, theirs = ours+a/all, theirs+b/all
			}
		}
		t.Logf("%v: error %.5f, the reference's %.5f", f, math.Sqrt(ours/31), math.Sqrt(theirs/31))
		if !(ours <= 1.001*theirs) {
			t.Errorf("%v: error %.5f, the reference's %.5f", f, math.Sqrt(ours/31), math.Sqrt(theirs/31))
		}
	}
}

func TestFitting(t *testing.T) {
	for _, c := range []struct {
		t    Type
		cols int
		want Type
		ok   bool
	}{
		{Q4_K, 512, Q4_K, true}, {Q6_K, 512, Q6_K, true}, {Q4_K, 96, Q5_0, true}, {Q5_K, 96, Q5_1, true},
		{Q6_K, 96, Q8_0, true},
		{IQ4_XS, 96, IQ4_NL, true}, {Q4_K, 20, Q5_0, false}, {Q8_0, 20, Q8_0, false}, {F16, 20, F16, true},
	} {
		if got, ok := Fitting(c.t, c.cols); got != c.want || ok != c.ok {
			t.Errorf("%d columns of %v: %v, %v", c.cols, c.t, got, ok)
		}
	}
}

// FuzzEncode: whatever the numbers, there is an error or a block of finite numbers that are no further off than zeros.
func FuzzEncode(f *testing.F) {
	f.Add(uint64(0), []byte{0, 0, 0x80, 0x3f})
	f.Add(uint64(1), []byte{1, 0, 0, 0, 1, 0, 0, 0x80, 0xff, 0xff, 0x7f, 0})    // subnormal
	f.Add(uint64(2), []byte{0xff, 0xff, 0x7f, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0x80}) // the greatest; zeros
	f.Add(uint64(3), []byte{0, 0, 0x80, 0x33, 0, 0, 0x80, 0xb3})                // 2^-24
	f.Add(uint64(4), []byte{0, 0, 0x80, 0x4c, 0, 0, 0x40, 0xcc, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		r := rand.New(rand.NewPCG(seed, 3))
		x, back := make([]float32, 256), make([]float32, 256)
		for i := range x {
			if 4*i+4 <= len(data) {
				x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			} else if i > 0 {
				x[i] = x[r.IntN(i)] * float32(r.Float32())
			}
		}
		for _, f := range Encodable() {
			if f.BlockWeights() == 1 {
				continue
			}
			raw := make([]byte, f.RowBytes(len(x)))
			if err := Encode(f, raw, x); err != nil {
				if !errors.Is(err, ErrNotFinite) || greatest(x) < maxF16 {
					t.Fatalf("%v: %v", f, err)
				}
				continue
			}
			ok(t, Decode(f, back, raw))
			if i := firstNotFinite(back); i >= 0 {
				t.Fatalf("%v: number %d is %v, was %v", f, i, back[i], x[i])
			}
			if amax := greatest(x); amax > 0x1p-10 {
				if e := encodeError(t, f, x); !(e < 1) {
					t.Fatalf("%v: error %v", f, e)
				}
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	x := normal(11, 1<<12)
	for _, f := range Encodable() {
		b.Run(f.String(), func(b *testing.B) {
			raw := make([]byte, f.RowBytes(len(x)))
			b.SetBytes(int64(len(x))) // one byte per weight
			for b.Loop() {
				ok(b, Encode(f, raw, x))
			}
		})
	}
}

// TestEncodeWeighted: what matters more is kept more exactly, the weighted error is less than without the importance,
// and what cannot be is refused.
func TestEncodeWeighted(t *testing.T) {
	x, importance := normal(11, 1<<11), make([]float32, 1<<11)
	for i := range importance {
		importance[i] = 0.1
		if i%5 == 0 {
			importance[i] = 10
		}
	}
	for _, f := range Encodable() {
		lost := func(importance, by []float32) (sum float64) {
			raw, back := make([]byte, f.RowBytes(len(x))), make([]float32, len(x))
			ok(t, EncodeWeighted(f, raw, x, importance))
			ok(t, Decode(f, back, raw))
			for i := range x {
				sum += float64(by[i]) * math.Pow(float64(back[i]-x[i]), 2)
			}
			return sum
		}
		with, without := lost(importance, importance), lost(nil, importance)
		if most := 0.97 * without; with > most && f.BlockWeights() > 1 && f != Q8_0 {
			t.Errorf("%v: the weighted error is %.3g, without the importance %.3g", f, with, without)
		}
		if lost(make([]float32, len(x)), importance) != without {
			t.Errorf("%v: an importance of nothing has an effect", f)
		}
	}
	raw := make([]byte, Q4_K.RowBytes(256))
	for _, bad := range [][]float32{make([]float32, 255), {-1}, {float32(math.NaN())}, {float32(math.Inf(1))}} {
		if len(bad) == 1 {
			bad = append(bad, make([]float32, 255)...)
		}
		if err := EncodeWeighted(Q4_K, raw, x[:256], bad); err == nil {
			t.Errorf("an importance of %d numbers, the first %v", len(bad), bad[0])
		}
	}
}
