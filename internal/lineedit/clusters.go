package lineedit

import (
	"strings"
	"unicode/utf8"

	"github.com/specgo/spec/internal/cellwidth"
	"github.com/specgo/spec/internal/terminal"
)

// anchor returns a place before at, which is above 0, at which a cluster begins whatever stands before it.
func anchor(text []byte, at int) int {
	for at > 0 {
		r, n := utf8.DecodeLastRune(text[:at])
		if at -= n; cellwidth.Begins(r) {
			break
		}
	}
	return at
}

// clusters returns where clusters begin before at, from the anchor on.
func clusters(text []byte, at int) (list []int) {
	for from := anchor(text, at); from < at; from += cellwidth.Cluster(text[from:]) {
		list = append(list, from)
	}
	return list
}

// before returns the beginning of the cluster that ends at or holds the byte before at, which is above 0.
func before(text []byte, at int) int {
	from := anchor(text, at)
	for {
		n := cellwidth.Cluster(text[from:])
		if from+n >= at {
			return from
		}
		from += n
	}
}

// boundary returns at, or the end of the cluster that at is inside of.
func boundary(text []byte, at int) int {
	if at <= 0 || at >= len(text) {
		return max(0, min(at, len(text)))
	}
	if r, _ := utf8.DecodeRune(text[at:]); utf8.RuneStart(text[at]) && cellwidth.Begins(r) {
		return at
	}
	from := before(text, at)
	return from + cellwidth.Cluster(text[from:])
}

// shown returns how a cluster is drawn at a column, and its cells: a tab as spaces, what controls a terminal as text.
func shown(c []byte, column int) (string, int) {
	if c[0] >= ' ' && c[0] < 0x7f && len(c) == 1 {
		return string(c), 1
	}
	if c[0] == '\t' {
		n := 8 - column%8
		return strings.Repeat(" ", n), n
	}
	text := terminal.Line(string(c), 0)
	if text != string(c) {
		return text, len(text)
	}
	if first, _ := utf8.DecodeRune(c); cellwidth.Extends(first) { // no mark on what is drawn before it
		c = append([]byte("\u00a0"), c...)
		return string(c), cellwidth.OfCluster(c)
	}
	return text, cellwidth.OfCluster(c)
}
