package tensor

import (
	"time"
	"unsafe"
)

// How far ahead of their use weights are prefetched where a panel is read once, for up to 8 tokens. What is fastest
// depends on the processor, on the arithmetic of a byte (a type's and the number of tokens) and on what else uses the
// memory: on Zen 5 one token of Q4_K is multiplied 1.15 times as fast with 512 bytes as with 8 KiB, and 8 tokens of
// Q8_0 take 1.3 times as long; on Zen 3 one token of Q6_K takes 1.8 times as long with 512 bytes as with 8 KiB. So it
// is measured while the model computes, from the longest on, with which no processor lost much: now and then the
// products of whole passes take another distance, and the time of a byte decides. Results do not depend on it.

// distances are those to choose from, in bytes.
var distances = [...]int{512, 3 << 10, prefetchDistance}

const (
	leastTuned = 1 << 20 // bytes of a call's weights from which on it counts: smaller ones are in caches

	// Bytes of a trial: it ends when the matrix comes again with which it began, so that all trials have read the same
	// matrices, but not before the lower, and at the higher anyway.
	leastTrial, mostTrial = 64 << 20, 8 << 30

	// A round is a trial of the distance in use, one of another one, and the first again; then trials of the distance in
	// use, so that little is lost by trying: rounds are short until each other distance has had some.
	shortRound, longRound = 6, 24
	sureRounds            = 3
	clearGain             = 0.98 // of the time, by which another distance becomes the one in use
	muchGain              = 0.9  // in two rounds, one after the other: so soon
)

// ahead chooses distances. Its methods are called by one goroutine at a time.
type ahead struct{ of map[aheadKey]*tuning }

// aheadKey is what has a distance of its own.
type aheadKey struct {
	t      Type // of the weights
	tokens int  // 1, or 2, 4, 6 or 8: those, or one less
}

// tuning is the choice of one key.
type tuning struct {
	best  int // of distances: the one in use
	other int // the one that is tried
	trial int // of the round

	first uintptr // where the trial's first matrix is: no reference, which would keep its memory
	bytes int64   // that the trial has read
	took  time.Duration

	before, during float64 // seconds of a byte in a round's first two trials
	of             [len(distances)]struct {
		rounds int
		ratio  float64 // its time over that of best, a decaying mean
	}
}

// begin is the distance of a call of at most 8 tokens that reads w first, and what takes its time; nil where it does
// not count.
func (a *ahead) begin(w *Matrix, tokens, bytes int) (distance int, t *tuning) {
	key := aheadKey{w.t, tokens}
	if tokens > 1 {
		key.tokens += tokens % 2 // two numbers have one choice
	}
	if t = a.of[key]; t == nil {
		if a.of == nil {
			a.of = map[aheadKey]*tuning{}
		}
		t = &tuning{best: len(distances) - 1}
		t.another()
		a.of[key] = t
	}
	if bytes < leastTuned {
		return t.distance(), nil
	}
	at := uintptr(unsafe.Pointer(w))
	if t.bytes >= mostTrial || t.bytes >= leastTrial && at == t.first {
		t.next()
	}
	if t.bytes == 0 {
		t.first = at
	}
	t.bytes += int64(bytes)
	return t.distance(), t
}

// distance is that of the trial.
func (t *tuning) distance() int {
	if t.trial == 1 {
		return distances[t.other]
	}
	return distances[t.best]
}

// next ends a trial.
func (t *tuning) next() {
	rate := t.took.Seconds() / float64(t.bytes)
	t.bytes, t.took = 0, 0
	switch t.trial {
	case 0:
		t.before = rate
	case 1:
		t.during = rate
	case 2:
		t.judge(2 * t.during / max(t.before+rate, 1e-30))
	}
	t.trial++
	if t.trial >= longRound || t.trial >= shortRound && t.of[t.other].rounds < sureRounds {
		t.trial = 0
	}
}

// judge takes a round's result: the other distance's time over that of the one in use.
func (t *tuning) judge(ratio float64) {
	o := &t.of[t.other]
	ratio = min(max(ratio, 0.5), 2) // something else has happened beyond
	much := ratio < muchGain && (o.rounds == 0 || o.ratio < muchGain)
	chance := o.rounds == 1 && o.ratio < muchGain && !much // the first one
	if o.rounds++; o.rounds == 1 || chance {
		o.ratio = ratio
	} else {
		o.ratio += float64((ratio - o.ratio) / 4) // converted: no fused multiply-add
	}
	switch {
	case much && o.rounds > 1, o.rounds >= sureRounds && o.ratio < clearGain:
		t.best = t.other
		clear(t.of[:])
	case much: // the next round says whether it was chance
		return
	}
	t.another()
}

// another takes the next distance to try.
func (t *tuning) another() {
	if t.other = (t.other + 1) % len(distances); t.other == t.best {
		t.other = (t.other + 1) % len(distances)
	}
}
