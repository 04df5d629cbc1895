package speculative

import (
	"context"
	"math/bits"
	"slices"
)

// Previous drafts along an earlier answer: to this prompt before it was edited, by another quantization or version of
// the model. The text so far is aligned with it; where they part, the place is found again by the longest common
// run of tokens before it, so after a replacement, an insertion or a deletion the draft goes on behind it. A token's
// confidence is how often tokens after a common run of that length were right.
//
// Else drafts where the earlier answer has nothing to say, and beside it where that is in doubt.
func Previous(o PreviousOptions) Drafter {
	p := &previous{earlier: o.Tokens}
	if o.Else == nil {
		return p
	}
	return &merge{drafters: []Drafter{p, o.Else}, suffices: certain}
}

// PreviousOptions configure [Previous].
type PreviousOptions struct {
	Tokens []int32 // the earlier answer, without its prompt
	Else   Drafter // nil: none
}

// PreviousDraftMax is a good Options.DraftMax for [Previous] under [Auto]: a pass of so many tokens takes little more
// time for each of them than prefill does.
const PreviousDraftMax = 64

// Parameters of the alignment.
const (
	startRun     = 8   // common tokens that the beginning of both texts counts as
	firmRun      = 3   // common tokens from which the texts go together again
	longestRun   = 64  // common tokens that are counted
	nearby       = 8   // tokens ahead in which a single common token counts
	lostAfter    = 4   // tokens after which a replacement is not believed in any more
	mostPlaces   = 256 // places that are compared to find the nearest of the longest runs
	certainFirst = 0.5 // confidence of a draft's first token from which nobody else is asked
)

// certain reports whether a draft does without other drafters.
func certain(d *Draft) bool { return d.Len() > d.prefix && d.Confidence[d.prefix] >= certainFirst }

type previous struct {
	earlier []int32
	places  map[int32][]int32 // of each token in it, ascending; nil: not yet made
	prompt  int               // tokens

	alignment
	matches
	text []int32 // what the alignment has read: the text without its prompt
	path []int32 // scratch: text and draft
}

// alignment is where a text stands in an earlier one.
type alignment struct {
	at       int // the earlier token that is expected next
	run      int // common tokens before it
	diagonal int // where it would be if every token since the texts parted replaced one
	parted   int // tokens since then; 0: they go together
}

func (p *previous) Start(_ context.Context, s Setup) error {
	p.prompt, p.text = len(s.Prompt), p.text[:0]
	p.alignment = alignment{run: startRun}
	if p.places == nil {
		p.places = make(map[int32][]int32)
		for i, id := range p.earlier {
			p.places[id] = append(p.places[id], int32(i))
		}
	}
	return nil
}

// step goes on by the last token of text.
func (p *previous) step(a *alignment, text []int32) {
	id := text[len(text)-1]
	a.diagonal++
	if a.at < len(p.earlier) && p.earlier[a.at] == id {
		a.at, a.run = a.at+1, a.run+1
		if a.parted++; a.parted == 1 || a.run >= firmRun { // they went together before, or do again
			a.diagonal, a.parted = a.at, 0
		}
		return
	}
	a.parted++
	at, run := p.find(text, a.diagonal)
	if run > 1 || run == 1 && at >= a.diagonal && at <= a.diagonal+nearby {
		a.at, a.run = at, run
		return
	}
	a.at, a.run = a.diagonal, 0
}

// find is the place in the earlier answer behind the longest run of tokens that the text ends with, and its length:
// of equally long ones the nearest to a place, those ahead of it first.
func (p *previous) find(text []int32, near int) (at, run int) {
	all := p.places[text[len(text)-1]]
	ahead, _ := slices.BinarySearch(all, int32(near))
	behind := ahead - 1
	for n := 0; n < mostPlaces && (ahead < len(all) || behind >= 0); n++ {
		i := behind
		if ahead < len(all) && (behind < 0 || int(all[ahead])-near <= 2*(near-int(all[behind]))) {
			i, ahead = ahead, ahead+1
		} else {
			behind--
		}
		if r := p.common(text, int(all[i])+1); r > run {
			at, run = int(all[i])+1, r
		}
	}
	return at, run
}

// common is the number of tokens at the end of text that stand before a place of the earlier answer.
func (p *previous) common(text []int32, at int) (n int) {
	for n < min(longestRun, at, len(text)) && p.earlier[at-1-n] == text[len(text)-1-n] {
		n++
	}
	return n
}

// chance is the probability that the token after a common run is right, if the tokens before it are.
func (p *previous) chance(run int) float32 {
	return float32(p.right[bits.Len(uint(run))].after(float64(run+1) / float64(run+2)))
}

func (p *previous) Draft(_ context.Context, sequence []int32, d *Draft) error {
	p.begin()
	for _, id := range sequence[p.prompt+len(p.text):] {
		p.text = append(p.text, id)
		p.step(&p.alignment, p.text)
	}
	a, read := p.alignment, 0 // behind the draft, of which so many tokens are read
	p.path = append(p.path[:0], p.text...)
	d.Source = SourcePrevious
	for {
		for _, id := range d.Tokens[read:] {
			p.path = append(p.path, id)
			p.step(&a, p.path)
		}
		if read = d.Len(); !d.More() || a.at >= len(p.earlier) || a.run == 0 && a.parted > lostAfter {
			return nil
		}
		id, run := p.earlier[a.at], min(a.run, longestRun)
		if !d.Add(id, p.chance(run), nil) {
			return nil
		}
		p.drafted(id, run, read)
		d.Extend(read)
	}
}

// Continues says that the earlier answer continues forced tokens.
func (p *previous) Continues() bool { return true }

func (p *previous) Observe(r *Round) { p.observe(r) }
