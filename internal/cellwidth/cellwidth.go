// Package cellwidth measures texts in the cells of a terminal: a wide character takes two, a mark none.
package cellwidth

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A cluster is what a reader sees as one character and the cursor steps over: a character with the marks on it, a flag,
// a family of emoji, a syllable of Hangul jamo. It is a simpler rule than Unicode's (UAX 29), of the parts that matter
// where people type: marks, joiners, skin tones, flags, jamo.

// Cluster returns the length in bytes of the cluster at the beginning of text, which is not empty.
func Cluster(text []byte) int {
	if len(text) == 1 || text[0] < utf8.RuneSelf && text[1] < utf8.RuneSelf {
		return 1
	}
	first, n := utf8.DecodeRune(text)
	if unicode.IsControl(first) || first == utf8.RuneError && n == 1 {
		return n
	}
	if isFlagHalf(first) {
		if second, size := utf8.DecodeRune(text[n:]); isFlagHalf(second) {
			n += size
		}
	}
	last := first
	for n < len(text) {
		r, size := utf8.DecodeRune(text[n:])
		joined := isPicture(first) && (isSkin(r) || last == joiner && isPicture(r))
		if !Extends(r) && !joined {
			break
		}
		last = r
		n += size
	}
	return n
}

const (
	joiner  = '\u200d'
	picture = '\ufe0f' // asks for a character's form as emoji
)

// Extends reports whether a character belongs to the one before it.
func Extends(r rune) bool {
	return r >= 0x300 && (unicode.In(r, unicode.M) || r == joiner || r == '\u200c' || isJamoTail(r))
}

func isFlagHalf(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }
func isSkin(r rune) bool     { return r >= 0x1f3fb && r <= 0x1f3ff }
func isJamoTail(r rune) bool { return r >= 0x1160 && r <= 0x11ff }

// isPicture reports whether joiners make one picture of a character and others.
func isPicture(r rune) bool { return r >= 0x1f000 || r >= 0x2190 && unicode.Is(unicode.So, r) }

// Begins reports whether a cluster begins at a character whatever stands before it.
func Begins(r rune) bool { return !Extends(r) && !isFlagHalf(r) && !isPicture(r) }

// Of returns how many cells of a terminal a text without control characters takes.
func Of(text string) (cells int) {
	for b := []byte(text); len(b) > 0; {
		n := Cluster(b)
		cells += OfCluster(b[:n])
		b = b[n:]
	}
	return cells
}

// Cut is the longest beginning of a text, in whole clusters, of at most so many cells.
func Cut(text string, most int) string {
	b, at := []byte(text), 0
	for at < len(b) {
		n := Cluster(b[at:])
		if most -= OfCluster(b[at : at+n]); most < 0 {
			break
		}
		at += n
	}
	return text[:at]
}

// CutFront is the longest end of a text, in whole clusters, of at most so many cells.
func CutFront(text string, most int) string {
	b, at := []byte(text), 0
	for cells := Of(text); cells > most && at < len(b); {
		n := Cluster(b[at:])
		cells -= OfCluster(b[at : at+n])
		at += n
	}
	return text[at:]
}

// OfCluster is the width of one cluster: that of its first character, and of marks that stand beside it.
func OfCluster(c []byte) int {
	first, n := utf8.DecodeRune(c)
	cells := runeWidth(first)
	if isFlagHalf(first) && n < len(c) {
		return 2
	}
	for n < len(c) {
		r, size := utf8.DecodeRune(c[n:])
		switch {
		case r == picture && (isPicture(first) || strings.ContainsRune("#*0123456789", first)):
			cells = 2
		case unicode.Is(unicode.Mc, r):
			cells++
		}
		n += size
	}
	return cells
}

// runeWidth is a character's width by Unicode's East Asian Width: 2 for W and F, 0 for marks and joiners, else 1.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me), r == joiner, r == '\u200c', isJamoTail(r):
		return 0
	}
	i := sort.Search(len(wide), func(i int) bool { return wide[i][1] >= r })
	if i < len(wide) && wide[i][0] <= r {
		return 2
	}
	return 1
}

// wide are the ranges of characters that take two cells: East Asian Width W and F of Unicode 14, with the unassigned
// characters between those that are so.
var wide = [...][2]rune{
	{0x1100, 0x115f}, {0x231a, 0x231b}, {0x2329, 0x232a}, {0x23e9, 0x23ec}, {0x23f0, 0x23f0}, {0x23f3, 0x23f3},
	{0x25fd, 0x25fe}, {0x2614, 0x2615}, {0x2648, 0x2653}, {0x267f, 0x267f}, {0x2693, 0x2693}, {0x26a1, 0x26a1},
	{0x26aa, 0x26ab}, {0x26bd, 0x26be}, {0x26c4, 0x26c5}, {0x26ce, 0x26ce}, {0x26d4, 0x26d4}, {0x26ea, 0x26ea},
	{0x26f2, 0x26f3}, {0x26f5, 0x26f5}, {0x26fa, 0x26fa}, {0x26fd, 0x26fd}, {0x2705, 0x2705}, {0x270a, 0x270b},
	{0x2728, 0x2728}, {0x274c, 0x274c}, {0x274e, 0x274e}, {0x2753, 0x2755}, {0x2757, 0x2757}, {0x2795, 0x2797},
	{0x27b0, 0x27b0}, {0x27bf, 0x27bf}, {0x2b1b, 0x2b1c}, {0x2b50, 0x2b50}, {0x2b55, 0x2b55}, {0x2e80, 0x303e},
	{0x3041, 0x3247}, {0x3250, 0x4dbf}, {0x4e00, 0xa4c6}, {0xa960, 0xa97c}, {0xac00, 0xd7a3}, {0xf900, 0xfad9},
	{0xfe10, 0xfe19}, {0xfe30, 0xfe6b}, {0xff01, 0xff60}, {0xffe0, 0xffe6}, {0x16fe0, 0x1b2fb}, {0x1f004, 0x1f004},
	{0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335},
	{0x1f337, 0x1f37c}, {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0},
	{0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d},
	{0x1f54b, 0x1f54e}, {0x1f550, 0x1f567}, {0x1f57a, 0x1f57a}, {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4},
	{0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5}, {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6df},
	{0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6fc}, {0x1f7e0, 0x1f7f0}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945},
	{0x1f947, 0x1f9ff}, {0x1fa70, 0x1faf6}, {0x20000, 0x3fffd}}
