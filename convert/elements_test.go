package convert

import (
	"math"
	"testing"
)

// TestE4M3: the least and the largest numbers of F8_E4M3, on both sides of the one from which they are normal, as the
// format's table has them (Micikevicius et al. 2022, arXiv:2209.05433, table 1).
func TestE4M3(t *testing.T) {
	raw := []byte{0x00, 0x80, 0x01, 0x07, 0x08, 0x38, 0xb8, 0x3c, 0x77, 0x78, 0x7e, 0xfe, 0x87}
	want := []float32{0, float32(math.Copysign(0, -1)), 1.0 / 512, 7.0 / 512, 1.0 / 64, 1, -1, 1.5, 240, 256, 448, -448,
		-7.0 / 512}
	got, err := decodeElements("F8_E4M3", raw)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) {
			t.Errorf("%#02x is %v, want %v", raw[i], got[i], w)
		}
	}
	for _, b := range []byte{0x7f, 0xff} {
		if x, err := decodeElements("F8_E4M3", []byte{b}); err != nil || !math.IsNaN(float64(x[0])) {
			t.Errorf("%#02x is %v, %v", b, x, err)
		}
	}
}
