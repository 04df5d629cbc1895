package compare

import (
	"math"
	"slices"
	"testing"
)

// The case is worked by hand. Text "the cat sat on the mat" against "the cat is on the mat":
// 1-grams 5 of 6 ("the" twice, cat, on, mat), 2-grams 3 of 5 (the cat, on the, the mat),
// 3-grams 1 of 4 (on the mat), 4-grams 0 of 3: no score. With "a" before both, 4-grams stay without
// a hit; with "now ." after both, "the mat now ." and "on the mat now" are hits:
// 7/8, 5/7, 3/6, 2/5, and the lengths are equal: (7/8 · 5/7 · 3/6 · 2/5)^(1/4) = 0.125^(1/4).
func TestBLEUByHand(t *testing.T) {
	for _, c := range []struct {
		text, reference string
		want            float64
	}{
		{"the cat sat on the mat", "the cat is on the mat", 0},
		{"the cat sat on the mat now .", "the cat is on the mat now .", 100 * math.Pow(0.125, 0.25)},
		// A beginning of six words of eight: all n-grams hit, brevity exp(1 - 8/6).
		{"a b c d e f", "a b c d e f g h", 100 * math.Exp(1-8.0/6)},
		// Repetition is clipped: "a" counts once of 4, and there is no common pair.
		{"a a a a", "a b c d", 0},
		{"same", "same", 100},
		{"", "", 100},
		{"", "something", 0},
	} {
		var b bleu
		b.add(c.text, c.reference)
		if got := b.score(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("BLEU of %q against %q is %v, want %v", c.text, c.reference, got, c.want)
		}
	}
}

// Counts are summed over the corpus before they are divided.
func TestBLEUOfCorpus(t *testing.T) {
	var b bleu
	b.add("the cat sat on the mat", "the cat is on the mat")             // 5/6 3/5 1/4 0/3
	b.add("the cat sat on the mat now .", "the cat is on the mat now .") // 7/8 5/7 3/6 2/5
	want := 100 * math.Pow(12.0/14*8/12*4/10*2/8, 0.25)
	if got := b.score(); math.Abs(got-want) > 1e-9 {
		t.Errorf("BLEU %v, want %v", got, want)
	}
}

func TestWords(t *testing.T) {
	got := words("if x_1 == nil {\n\treturn ärger2()\n}")
	want := []string{"if", "x_1", "=", "=", "nil", "{", "return", "ärger2", "(", ")", "}"}
	if !slices.Equal(got, want) {
		t.Errorf("words %q, want %q", got, want)
	}
}

func TestQuartiles(t *testing.T) {
	for _, c := range []struct {
		list           []float64
		low, mid, high float64
	}{
		{nil, 0, 0, 0},
		{[]float64{3}, 3, 3, 3},
		{[]float64{4, 1, 3, 2, 5}, 2, 3, 4},
		{[]float64{1, 2, 3, 4}, 1.75, 2.5, 3.25},
	} {
		if low, mid, high := quartiles(c.list); low != c.low || mid != c.mid || high != c.high {
			t.Errorf("quartiles of %v are %v %v %v", c.list, low, mid, high)
		}
	}
}
