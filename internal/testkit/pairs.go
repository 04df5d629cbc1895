package testkit

import "testing"

// Combinations are the combinations of values that a test tries: the full product in tests that take long, else Pairs.
func Combinations(t testing.TB, sizes ...int) [][]int {
	if !IsLong(t) {
		return Pairs(sizes...)
	}
	return product(sizes...)
}

// product is every combination of values of several factors, each a number below its size.
func product(sizes ...int) [][]int {
	rows := [][]int{{}}
	for _, size := range sizes {
		var longer [][]int
		for _, row := range rows {
			for v := range size {
				longer = append(longer, append(row[:len(row):len(row)], v))
			}
		}
		rows = longer
	}
	return rows
}

// Pairs are combinations of values of several factors, each a number below its size, in which every two values of two
// factors meet at least once: a covering array instead of the full product, whose rows are many more. The same sizes
// give the same rows.
func Pairs(sizes ...int) [][]int {
	type pair struct{ f, v, g, w int }
	open := map[pair]bool{}
	var order []pair
	for f := range sizes {
		for g := f + 1; g < len(sizes); g++ {
			for v := range sizes[f] {
				for w := range sizes[g] {
					p := pair{f, v, g, w}
					open[p] = true
					order = append(order, p)
				}
			}
		}
	}
	var rows [][]int
	for _, first := range order {
		if !open[first] {
			continue
		}
		row := make([]int, len(sizes))
		set := make([]bool, len(sizes))
		row[first.f], row[first.g], set[first.f], set[first.g] = first.v, first.w, true, true
		for f := range sizes {
			if set[f] {
				continue
			}
			// The value that meets the most others for the first time. Of equals another one in each row.
			best, most := 0, -1
			for i := range sizes[f] {
				v, n := (i+len(rows))%sizes[f], 0
				for g := range sizes {
					if set[g] && open[pair{min(f, g), pick(f < g, v, row[g]), max(f, g), pick(f < g, row[g], v)}] {
						n++
					}
				}
				if n > most {
					best, most = v, n
				}
			}
			row[f], set[f] = best, true
		}
		for f := range sizes {
			for g := f + 1; g < len(sizes); g++ {
				delete(open, pair{f, row[f], g, row[g]})
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func pick(first bool, a, b int) int {
	if first {
		return a
	}
	return b
}
