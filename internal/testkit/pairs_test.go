package testkit

import (
	"slices"
	"testing"
)

// Every two values of two factors meet, in far fewer rows than the product has.
func TestPairsMeet(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		most  int
	}{{[]int{4, 6, 2, 4, 5}, 40}, {[]int{3, 3, 3, 3}, 12}, {[]int{50, 18}, 900}, {[]int{2, 1, 2}, 4}} {
		rows := Pairs(c.sizes...)
		if len(rows) > c.most {
			t.Errorf("%v: %d rows, more than %d", c.sizes, len(rows), c.most)
		}
		met := map[[4]int]bool{}
		for _, row := range rows {
			for f := range row {
				if row[f] < 0 || row[f] >= c.sizes[f] {
					t.Fatalf("%v: row %v", c.sizes, row)
				}
				for g := range f {
					met[[4]int{g, row[g], f, row[f]}] = true
				}
			}
		}
		want := 0
		for f := range c.sizes {
			for g := range f {
				want += c.sizes[f] * c.sizes[g]
			}
		}
		if len(met) != want {
			t.Errorf("%v: %d pairs of %d", c.sizes, len(met), want)
		}
	}
}

// A product has every combination once.
func TestProductIsWhole(t *testing.T) {
	want := [][]int{{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {1, 0, 0}, {1, 0, 1}, {1, 0, 2}}
	if got := product(2, 1, 3); !slices.EqualFunc(got, want, slices.Equal[[]int]) {
		t.Errorf("%v, want %v", got, want)
	}
}
