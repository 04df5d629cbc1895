// Package units writes numbers for people: never with an exponent, never as a thousand of a smaller unit.
package units

import (
	"fmt"
	"math"
	"strconv"
)

// Bytes is a number of bytes in units of a thousand: 512 bytes, 1.6 MB, 1.05 GB.
func Bytes(n int64) string {
	if n > -1000 && n < 1000 {
		return fmt.Sprintf("%d bytes", n)
	}
	return scaled(float64(n), []step{{1e3, 1, "kB"}, {1e6, 1, "MB"}, {1e9, 2, "GB"}, {1e12, 2, "TB"}, {1e15, 2, "PB"}})
}

// Count is a number of things: 512, 1.6 k, 135 M, 1.05 billion.
func Count(n int64) string {
	if n > -1000 && n < 1000 {
		return fmt.Sprint(n)
	}
	return scaled(float64(n), []step{{1e3, 1, "k"}, {1e6, 1, "M"}, {1e9, 2, "billion"}})
}

// Number is x with so many digits that count, from its first one that is not zero on, and all digits before the point:
// with three of them 0.0123, 4.56, 789, 12345.
func Number(x float64, digits int) string {
	if math.Abs(x) >= math.Pow10(digits-1) {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', digits-1, 64), 64) // its own form
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// A step is a unit from its size on, with digits behind the point.
type step struct {
	size   float64
	digits int
	name   string
}

// scaled writes x in the last unit of which it is at least one as it is written.
func scaled(x float64, steps []step) string {
	for i, s := range steps {
		last := i+1 == len(steps)
		text := fmt.Sprintf("%.*f", s.digits, x/s.size)
		var shown float64
		fmt.Sscan(text, &shown)
		if last || shown > -1000 && shown < 1000 {
			return text + " " + s.name
		}
	}
	return ""
}
