package bpe

import (
	_ "embed"
	"strconv"
	"strings"
)

// decompositions.txt holds Unicode's canonical decompositions without marks of class Mn,
// a character a line: the character, and what is left of it.
//
//go:generate sh -c "cd _gen && go run . >../decompositions.txt"
//go:embed decompositions.txt
var decompositionsText string

// readDecompositions returns what is left of each character that stripping accents
// changes, Hangul syllables left out.
func readDecompositions() map[rune]string {
	m := make(map[rune]string, strings.Count(decompositionsText, "\n"))
	for line := range strings.Lines(decompositionsText) {
		if line[0] == '#' {
			continue
		}
		var char rune
		var left strings.Builder
		for i, field := range strings.Fields(line) {
			r, _ := strconv.ParseInt(field, 16, 32) // the file is a part of the program; a test reads all of it
			if i == 0 {
				char = rune(r)
			} else {
				left.WriteRune(rune(r))
			}
		}
		m[char] = left.String()
	}
	return m
}
