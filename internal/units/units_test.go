package units

import (
	"math"
	"testing"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 1_636_384: "1.6 MB",
		999_950_000: "1.00 GB", 1_050_000_000: "1.05 GB", 639_446_688: "639.4 MB", -2_000_000: "-2.0 MB",
		1_500_000_000_000: "1.50 TB", math.MaxInt64: "9223.37 PB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 5_800_000: "5.8 M", 999_999_999: "1.00 billion", 1_235_814_432: "1.24 billion",
		70_000_000_000: "70.00 billion", 12_345: "12.3 k",
	} {
		if got := Count(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.00001234: "0.0000123", 0.0123: "0.0123", 0.99951: "1", 4.5: "4.5", 4.567: "4.57", 9.996: "10", 99.96: "100",
		999.6: "1000", 1050: "1050", 12345.6: "12346", 1e12: "1000000000000", -2345: "-2345", math.Inf(1): "+Inf",
	} {
		if got := Number(x, 3); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
	if got := Number(1234.5, 4) + " " + Number(0.12345, 4); got != "1234 0.1235" && got != "1234 0.1234" {
		t.Error(got)
	}
}
