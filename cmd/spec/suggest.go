package main

import "strings"

// suggest returns `, did you mean X?` for the known name that is nearest to the given one, "" if none is
// near: a name shares more than its length with it, or begins with it, and does not say the opposite (no-X and X).
func suggest(given string, known []string) string {
	bare := strings.ToLower(strings.TrimLeft(given, "-"))
	if len(bare) > longestKnown {
		return ""
	}
	best := ""
	least := len(bare) // of one letter and another nothing is alike
	near := max(1, len(bare)/3)
	for _, name := range known {
		other := strings.ToLower(strings.TrimLeft(name, "-"))
		if "no-"+bare == other || bare == "no-"+other {
			continue
		}
		d := distance(bare, other)
		if strings.HasPrefix(other, bare) {
			d = min(d, near)
		}
		if d < least {
			best, least = name, d
		}
	}
	if best == "" || least > near {
		return ""
	}
	return ", did you mean " + best + "?"
}

// longestKnown is more than the length of any flag or command.
const longestKnown = 64

// distance is the number of insertions, deletions, replacements and exchanges of neighbors that make b of
// a. Neither is longer than longestKnown.
func distance(a, b string) int {
	var rows [3][longestKnown + 1]int
	before, above, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		above[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			d := above[j]
			if a[i] != b[j] {
				d++
			}
			d = min(d, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
