package tensor

import (
	"errors"
	"testing"
)

func TestReadBandwidth(t *testing.T) {
	rt, err := NewRuntime(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	gbps, err := rt.ReadBandwidth(16 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if gbps < 0.01 || gbps > 100_000 {
		t.Errorf("%v GB/s", gbps)
	}
	if _, err := rt.ReadBandwidth(1000); !errors.Is(err, ErrShape) {
		t.Errorf("1000 bytes: %v", err)
	}
}
