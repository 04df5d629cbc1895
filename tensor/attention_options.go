package tensor

import "github.com/specgo/spec/asm"

// AttentionOptions say how the scores of a layer's attention are computed.
type AttentionOptions struct {
	Layer int     // of the cache
	Heads int     // query heads: a multiple of the cache's heads
	Scale float32 // s = dot * Scale

	// 0: a token sees all before it; w: its last w positions, itself included; -w: those from the last multiple of w on
	Window int
	Cap    float32 // c > 0: s = c * tanh(s/c) (Gemma 2)

	// Slopes, one per query head, are ALiBi's (Press et al. 2021, arXiv:2108.12409): s -= slope * (i-j) for query
	// position i and key position j. nil: none.
	Slopes []float32

	// Bias [Heads][2*n+1] is added to the scores by distance (Raffel et al. 2020, arXiv:1910.10683, section 2.1):
	// s += Bias[h][n+r], r = j-i limited to -n … n, for query position i and key position j. nil: none.
	Bias []float32

	// Sinks, one per query head, are scores of a further key whose value is zero (gpt-oss). nil: none.
	Sinks []float32

	// Only says which of the positions that it could see a token sees, as [Runtime.Choose] has filled it for the same
	// rows; without a window. nil: all.
	Only *Choice

	// Of [Runtime.AttendTexts] only: a token sees its whole text, or, where Reach is not 0, those up to so many positions
	// away on either side. ALiBi counts distances to both sides.
	Both  bool
	Reach int
}

// adjusts reports whether scores change after Scale.
func (o *AttentionOptions) adjusts() bool { return o.Cap > 0 || o.Slopes != nil || o.Bias != nil }

// adjust applies cap, slope and bias to the scores of query head h at position pos for consecutive key positions, the
// first of which is key.
func (o *AttentionOptions) adjust(scores []float32, h, pos, key int) {
	if o.Cap > 0 {
		softCap(scores, o.Cap)
	}
	if o.Slopes != nil {
		slope := o.Slopes[h]
		for i := range scores {
			scores[i] -= float32(slope * float32(max(pos-key-i, key+i-pos)))
		}
	}
	if o.Bias != nil {
		width := len(o.Bias) / o.Heads
		bias, n := o.Bias[h*width:(h+1)*width], width/2
		for i := range scores {
			scores[i] += bias[n+min(max(key+i-pos, -n), n)]
		}
	}
}

// sink adds the score of head h's sink to the rows of sum of n tokens.
func (j *attendJob) sink(sum attendParts, head, n int) {
	for r := range n * j.group {
		z := j.o.Sinks[head*j.group+r%j.group]
		m := max(sum.m[r], z)
		a, b := asm.Weight32(sum.m[r]-m), asm.Weight32(z-m)
		sum.m[r], sum.l[r] = m, asm.FMA(sum.l[r], a, b)
		for d := range sum.o[r*j.values:][:j.values] {
			sum.o[r*j.values+d] *= a
		}
	}
}

// ALiBiSlopes are the slopes of ALiBi for a number of heads: 2^(-most/P * (h+1)) for h < P, P the greatest power of
// two that is not above heads, and 2^(-most/(2P) * (2(h-P)+1)) for the others. The paper's most is 8.
func ALiBiSlopes(heads int, most float64) []float32 {
	p := 1
	for 2*p <= heads {
		p *= 2
	}
	slopes := make([]float32, heads)
	for h := range slopes {
		if h < p {
			slopes[h] = float32(asm.Pow(2, -(most/float64(p))*float64(h+1)))
		} else {
			slopes[h] = float32(asm.Pow(2, -(most/float64(2*p))*float64(2*(h-p)+1)))
		}
	}
	return slopes
}
