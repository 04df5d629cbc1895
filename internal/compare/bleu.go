package compare

import (
	"math"
	"strings"
	"unicode"
)

// bleu is BLEU-4 of a corpus (Papineni et al. 2002), 0 to 100: the geometric mean of the clipped
// precisions of n-grams, n = 1 to 4, counted over all texts, times the brevity penalty. A corpus
// that equals its references has 100. Nothing is smoothed: without one common 4-gram it is 0.
type bleu struct {
	hits, grams         [4]int
	length, reference   int
	compared, identical int
}

// add counts one text against its reference.
func (b *bleu) add(text, reference string) {
	b.compared++
	if text == reference {
		b.identical++
	}
	got, want := words(text), words(reference)
	b.length += len(got)
	b.reference += len(want)
	for n := range b.hits {
		known := ngrams(want, n+1)
		for gram, count := range ngrams(got, n+1) {
			b.hits[n] += min(count, known[gram])
			b.grams[n] += count
		}
	}
}

func (b *bleu) score() float64 {
	if b.identical == b.compared {
		return 100
	}
	mean := 0.0
	for n := range b.hits {
		if b.hits[n] == 0 {
			return 0
		}
		mean += math.Log(float64(b.hits[n])/float64(b.grams[n])) / 4
	}
	if b.length < b.reference {
		mean += 1 - float64(b.reference)/float64(b.length)
	}
	return 100 * math.Exp(mean)
}

// ngrams counts the sequences of n words.
func ngrams(words []string, n int) map[string]int {
	counts := map[string]int{}
	for i := range len(words) - n + 1 {
		counts[strings.Join(words[i:i+n], "\x00")]++
	}
	return counts
}

// words cuts a text into runs of letters, digits and underscores, and single other marks; white
// space only separates.
func words(text string) (list []string) {
	start := -1
	for i, r := range text {
		inside := r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
		if start >= 0 && !inside {
			list = append(list, text[start:i])
			start = -1
		}
		switch {
		case inside && start < 0:
			start = i
		case !inside && !unicode.IsSpace(r):
			list = append(list, string(r))
		}
	}
	if start >= 0 {
		list = append(list, text[start:])
	}
	return list
}
