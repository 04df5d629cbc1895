package tensor

import (
	"math"
	"os"
	"testing"
)

// TestNVFP4Golden: the values of bytes of the quantizer and of random bytes, bit for bit, by decoding and by a matrix's
// rows.
func TestNVFP4Golden(t *testing.T) {
	rt := runtimeOf(t, 1)
	for _, name := range []string{"nvfp4", "nvfp4.rand"} {
		raw, err := os.ReadFile("../../shared/families/quants/" + name + ".bin")
		if os.IsNotExist(err) {
			t.Skip("shared/ is not here")
		}
		values, err2 := os.ReadFile("../../shared/families/quants/" + name + ".f32")
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		want := make([]float32, len(values)/4)
		for i := range want {
			want[i] = math.Float32frombits(le.Uint32(values[4*i:]))
		}
		got := make([]float32, len(want))
		ok(t, Decode(NVFP4, got, raw))
		sameBits(t, name, got, want)
		const cols = 512
		m, err := Pack(rt, NVFP4, len(want)/cols, cols, raw)
		ok(t, err)
		for r := range len(want) / cols {
			ok(t, m.Row(r, got[:cols]))
			sameBits(t, name, got[:cols], want[r*cols:][:cols])
		}
	}
}
