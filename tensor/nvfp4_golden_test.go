package tensor

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// TestNVFP4Golden: the values of bytes of the quantizer and of random bytes, bit for bit, by decoding and by a matrix's
// rows.
func TestNVFP4Golden(t *testing.T) {
	rt := runtimeOf(t, 1)
	dir := testkit.Shared(t, "families", "quants")
	for _, name := range []string{"nvfp4", "nvfp4.rand"} {
		raw, err := os.ReadFile(filepath.Join(dir, name+".bin"))
		values, err2 := os.ReadFile(filepath.Join(dir, name+".f32"))
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
