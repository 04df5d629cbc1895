package sampling

import (
	"math"
	"slices"
)

// DRY lowers the logits of tokens that would continue a repetition (do not repeat yourself). Where the last n tokens
// stood before, n at least AllowedLength, the token that followed them loses Multiplier * Base^(n-AllowedLength); the
// longest repetition counts for each token.
type DRY struct {
	Multiplier    float32 `json:"multiplier"`               // 0 is off
	Base          float32 `json:"base,omitempty"`           // at least 1; 0 is 1.75
	AllowedLength int     `json:"allowed_length,omitempty"` // 0 is 2
	LastN         int     `json:"last_n,omitempty"`         // how many tokens are searched; 0 and -1 are the whole sequence

	// Breakers are sequences of tokens that no repetition reaches over. Of several that begin at one token the longest
	// counts. A breaker of one token is never lowered itself.
	Breakers [][]int32 `json:"breakers,omitempty"`
}

// SetLastN sets how many tokens are searched, as llama.cpp's --dry-penalty-last-n counts them: 0 are none, and -1 is
// the whole sequence.
func (d *DRY) SetLastN(n int) {
	if d.LastN = n; n == 0 {
		d.LastN = 1 // in which nothing repeats
	}
}

// Shrinks reports whether longer repetitions would lose less, for which DRY is not.
func (d *DRY) Shrinks() bool { return d.Multiplier > 0 && d.Base > 0 && d.Base < 1 }

// llama.cpp's defaults.
const (
	defaultDRYBase    = 1.75
	defaultDRYAllowed = 2
)

// repetitions searches the history for DRY. It keeps scratch between calls.
type repetitions struct {
	breakers map[int32][][]int32 // by their first token: the rest of them
	z        []int32             // [tokens searched] length of the repetition that ends before each
	longest  map[int32]int32     // by token: length of the longest repetition that it would continue
	ids      []int32             // the keys of longest, in the order of their places
}

func newRepetitions(o *DRY) repetitions {
	if o.Multiplier == 0 {
		return repetitions{} // never asked
	}
	r := repetitions{longest: map[int32]int32{}}
	if len(o.Breakers) > 0 {
		r.breakers = map[int32][][]int32{}
	}
	for _, seq := range o.Breakers {
		r.breakers[seq[0]] = append(r.breakers[seq[0]], seq[1:])
	}
	return r
}

// penalties calls lower with each token that would continue a repetition, and what its logit is to lose. The options
// are normalized.
func (r *repetitions) penalties(o *DRY, history []int32, lower func(id int32, by float32)) {
	allowed := o.AllowedLength
	recent := history
	if o.LastN > 0 {
		recent = history[max(0, len(history)-o.LastN):]
	}
	most := r.unbroken(recent)
	if most < allowed {
		return
	}
	r.search(recent, most)
	r.ids = r.ids[:0]
	clear(r.longest)
	for i, n := range r.z[:max(0, len(recent)-1)] {
		if id := recent[i+1]; int(n) >= allowed && !slices.ContainsFunc(r.breakers[id], isEmpty) {
			if r.longest[id] == 0 {
				r.ids = append(r.ids, id)
			}
			r.longest[id] = max(r.longest[id], n)
		}
	}
	for _, id := range r.ids {
		by := o.Multiplier
		for range int(r.longest[id]) - allowed {
			if by *= o.Base; by > math.MaxFloat32/2 || by < math.SmallestNonzeroFloat32 {
				break
			}
		}
		lower(id, min(by, mostChange))
	}
}

func isEmpty(rest []int32) bool { return len(rest) == 0 }

// unbroken is how many of the last tokens follow the last breaker.
func (r *repetitions) unbroken(recent []int32) int {
	for n := range recent {
		at := len(recent) - 1 - n // a breaker that begins here
		longest := -1
		for _, rest := range r.breakers[recent[at]] {
			if len(rest) > longest && len(rest) <= n && slices.Equal(recent[at+1:at+1+len(rest)], rest) {
				longest = len(rest)
			}
		}
		if longest >= 0 {
			return n - longest
		}
	}
	return len(recent)
}

// search fills r.z: z[i] is the greatest n up to most such that the n tokens that end with token i are the last n
// tokens of all; of the last token itself it has no meaning. This is the Z function of the reversed tokens (Gusfield
// 1997, section 1.4): linear time.
func (r *repetitions) search(recent []int32, most int) {
	n := len(recent)
	r.z = slices.Grow(r.z[:0], n)[:n]
	back := func(i int) int32 { return recent[n-1-i] } // the reversed tokens
	left, right := 0, 0                                // the reversed match that reaches furthest: [left, right)
	for i := 1; i < n; i++ {
		z := 0
		if i < right {
			z = min(right-i, int(r.z[n-1-(i-left)]))
		}
		for i+z < n && back(z) == back(i+z) {
			z++
		}
		if i+z > right {
			left, right = i, i+z
		}
		r.z[n-1-i] = int32(z)
	}
	for i := range r.z {
		r.z[i] = min(r.z[i], int32(most))
	}
}
