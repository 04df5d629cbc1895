// Command _gen prints decompositions.txt: what a character becomes when accents are stripped from it, for
// all characters that change by it except Hangul syllables, which package bpe computes. A line holds the
// character and what is left of its canonical decomposition (NFD) without marks of class Mn, in hexadecimal.
//
//	go run . >../decompositions.txt
package main

import (
	"bufio"
	"fmt"
	"os"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func main() {
	if norm.Version != unicode.Version {
		fmt.Fprintf(os.Stderr, "decompositions of Unicode %s, classes of %s\n", norm.Version, unicode.Version)
		os.Exit(1)
	}
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(out, "# Canonical decompositions of Unicode %s without marks of class Mn; made by bpe/_gen.\n",
		norm.Version)
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) || r >= 0xac00 && r <= 0xd7a3 {
			continue
		}
		whole := norm.NFD.String(string(r))
		if whole == string(r) {
			continue
		}
		fmt.Fprintf(out, "%04X", r)
		for _, d := range whole {
			if !unicode.Is(unicode.Mn, d) {
				fmt.Fprintf(out, " %04X", d)
			}
		}
		fmt.Fprintln(out)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
