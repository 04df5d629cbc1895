package sampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// pieces are the texts of tokens by id.
type pieces []string

func (p pieces) Piece(id int32) string { return p[id] }

// What the step infill leaves, worked out by hand. Token 0 ends the text.
func TestInfillByHand(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces pieces
		p      []float32
		o      Options
		want   []Prob
	}{
		// 3 * 3 * 0.12 is more than 0.88
		{"the end is probable", pieces{"", "a", "b"}, []float32{0.12, 0.5, 0.38}, Options{}, []Prob{{0, 1}}},
		// 3 * 3 * 0.08 is less than 0.92; 0.5 and 0.42 are more than a third
		{"it is not", pieces{"", "a", "b"}, []float32{0.08, 0.5, 0.42}, Options{}, []Prob{{0, .08}, {1, .5}, {2, .42}}},
		{"less than 0.2", pieces{"", "a", "b", "c"}, []float32{0.01, 0.6, 0.2, 0.19}, Options{},
			[]Prob{{0, 0.01 / 0.61}, {1, 0.6 / 0.61}}}, // of 0.81 a third is 0.27
		{"less than its share", pieces{"", "a", "b", "c"}, []float32{0.01, 0.39, 0.36, 0.24}, Options{},
			[]Prob{{0, 0.01 / 0.76}, {1, 0.39 / 0.76}, {2, 0.36 / 0.76}}}, // a quarter is 0.25
		// 0.15 and 0.15 are one token of 0.3, whose logit stays that of 0.15
		{"joined", pieces{"", "re", "return", "x"}, []float32{0.001, 0.2, 0.15, 0.649}, Options{},
			[]Prob{{0, 0.001 / 0.85}, {1, 0.2 / 0.85}, {3, 0.649 / 0.85}}},
		{"joined to the longer one", pieces{"", "re", "return", "x"}, []float32{0.001, 0.15, 0.2, 0.649}, Options{},
			[]Prob{{0, 0.001 / 0.85}, {2, 0.2 / 0.85}, {3, 0.649 / 0.85}}},
		{"no text begins another", pieces{"", "re", "er", "x"}, []float32{0.001, 0.2, 0.15, 0.649}, Options{},
			[]Prob{{0, 0.001 / 0.65}, {3, 0.649 / 0.65}}},
		{"nothing is sure", pieces{"", "a", "b", "c", "d", "e", "f"}, []float32{0.001, 0.17, 0.17, 0.17, 0.17, 0.17, 0.149},
			Options{}, []Prob{{0, 1}}},
		{"the end was filtered out", pieces{"", "a", "b", "c", "d", "e", "f"},
			[]float32{0.001, 0.17, 0.17, 0.17, 0.17, 0.17, 0.149},
			Options{TopK: 6, Order: []Step{StepTopK, StepInfill}}, []Prob{{0, 1}}},
		{"and may not be chosen", pieces{"", "a", "b", "c", "d", "e", "f"},
			[]float32{0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, Options{Banned: []int32{0}},
			[]Prob{{1, 1. / 6}, {2, 1. / 6}, {3, 1. / 6}, {4, 1. / 6}, {5, 1. / 6}, {6, 1. / 6}}},
		{"joins no token without text", pieces{"", "", "a", "b"}, []float32{0.001, 0.4, 0.35, 0.249}, Options{},
			[]Prob{{0, 0.001 / 0.751}, {1, 0.4 / 0.751}, {2, 0.35 / 0.751}}},
		{"penalties behind it see what is left", pieces{"", "a", "b"}, []float32{0.08, 0.5, 0.42},
			Options{PresencePenalty: 1, Order: []Step{StepInfill, StepPenalties}},
			[]Prob{{0, 0.08 / (0.08 + 0.5/math.E + 0.42)}, {1, 0.5 / math.E / (0.08 + 0.5/math.E + 0.42)},
				{2, 0.42 / (0.08 + 0.5/math.E + 0.42)}}},
	} {
		c.o.Temperature, c.o.Infill = 1, Infill{Pieces: c.pieces, Ends: []int32{0}}
		if c.o.Order == nil {
			c.o.Order = []Step{StepInfill}
		}
		history := []int32{1}
		if got := newSampler(t, len(c.p), c.o).Distribution(logs(c.p...), history); !close6(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
		c.o.Temperature = 0
		best := slices.MaxFunc(c.want, func(a, b Prob) int {
			if a.P < b.P || a.P == b.P && a.ID > b.ID {
				return -1
			}
			return 1
		})
		if got := newSampler(t, len(c.p), c.o).Pick(logs(c.p...), history); got != best.ID {
			t.Errorf("%s, greedy: %d, expected %d", c.name, got, best.ID)
		}
	}
	o := Options{TopK: 6, Order: []Step{StepTopK, StepInfill}, Infill: Infill{pieces{"", "a", "ab", "b"}, []int32{0}}}
	s, x := newSampler(t, 4, o), logs(0.1, 0.4, 0.3, 0.2)
	if n := testing.AllocsPerRun(10, func() { s.Pick(x, nil) }); n > 0 {
		t.Errorf("%v allocations for each token", n)
	}
	off := Options{Temperature: 1, Infill: Infill{Pieces: pieces{"", "a"}, Ends: []int32{0}}}
	if got := newSampler(t, 2, off).Distribution(logs(0.5, 0.5), nil); !close6(got, []Prob{{0, .5}, {1, .5}}) {
		t.Errorf("not listed: %v", got)
	}
}

// The step against its definition in float64, over random logits and texts that begin with each other.
func TestInfillAgainstItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	letters := []string{"a", "b", "ab", ""}
	counts := map[int]int{}
	for trial := range 500 {
		vocab := 3 + r.IntN(60)
		text, x := make(pieces, vocab), make([]float32, vocab)
		for i := range x {
			x[i] = float32(r.NormFloat64() * 2)
			for range r.IntN(4) {
				text[i] += letters[r.IntN(len(letters))]
			}
		}
		ends := []int32{int32(r.IntN(vocab)), int32(r.IntN(vocab))}
		for _, id := range ends {
			x[id] -= float32(r.IntN(9))
		}
		o := Options{Temperature: 1, TopK: 1 + r.IntN(vocab), Order: []Step{StepTopK, StepInfill},
			Infill: Infill{text, ends}}
		got, want := newSampler(t, vocab, o).Distribution(x, nil), definedInfill(x, &o)
		ids := make([]int32, len(got))
		for i := range got {
			ids[i] = got[i].ID
		}
		if !slices.Equal(ids, want) {
			t.Fatalf("trial %d: %v, expected %v", trial, ids, want)
		}
		counts[len(want)]++
	}
	if len(counts) < 4 {
		t.Errorf("how many tokens were left, how often: %v", counts)
	}
}

// definedInfill is what top-k and the step leave, by id.
func definedInfill(x []float32, o *Options) (ids []int32) {
	list := defined(x, &Options{TopK: o.TopK, Temperature: 1}, 0)
	slices.SortFunc(list, func(a, b entry) int { return int(math.Copysign(1, b.x-a.x)) })
	isEnd := func(e entry) bool { return slices.Contains(o.Infill.Ends, e.id) }
	var ending, text float64
	for _, e := range list {
		if isEnd(e) {
			ending += e.p
		} else {
			text += e.p
		}
	}
	onlyEnds := 3*ending*float64(len(list)) > text
	dead := make([]bool, len(list))
	for i := range list {
		for j := range list {
			a, b := o.Infill.Pieces.Piece(list[i].id), o.Infill.Pieces.Piece(list[j].id)
			if dead[i] || dead[j] || i == j || a == "" || !strings.HasPrefix(b, a) || isEnd(list[i]) || isEnd(list[j]) {
				continue
			}
			to, from := i, j
			if list[j].p > list[i].p {
				to, from = j, i
			}
			list[to].p += list[from].p
			list[from].p, dead[from] = 0, true
		}
	}
	sum, sure := 0.0, 0
	for _, e := range list {
		if isEnd(e) {
			sum += e.p
		} else if e.p >= 0.2 {
			sum += e.p
			sure++
		}
	}
	for _, e := range list {
		if isEnd(e) || !onlyEnds && e.p >= 0.2 && e.p/sum >= 1/float64(sure+1) {
			ids = append(ids, e.id)
		}
	}
	if !onlyEnds && sure == 0 {
		ids = o.Infill.Ends[:1]
	}
	slices.Sort(ids)
	return ids
}
