package tensor

import (
	"errors"
	"testing"
)

// The rates of a Runtime are those of its kernels' instructions, and of caches numbers of a plausible size.
func TestRates(t *testing.T) {
	rt, err := NewRuntime(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	r := rt.Rates()
	if rt.SIMD() != "scalar" && (r.Integer < 1e7 || r.Float < 1e7 || r.IntegerBy == "" || r.FloatBy == "") {
		t.Errorf("%+v", r)
	}
	for _, bytes := range []int{4096, 300 << 10} {
		if gbps, err := rt.CacheBandwidth(bytes); err != nil || gbps < 0.01 || gbps > 100_000 {
			t.Errorf("%d bytes: %v GB/s, %v", bytes, gbps, err)
		}
	}
	if _, err := rt.CacheBandwidth(4095); !errors.Is(err, ErrShape) {
		t.Errorf("4095 bytes: %v", err)
	}
	scalar, err := NewRuntime(Options{Threads: 1, SIMD: "scalar"})
	if err != nil {
		t.Fatal(err)
	}
	defer scalar.Close()
	if r := scalar.Rates(); r != (Rates{}) {
		t.Errorf("plain Go: %+v", r)
	}
}
