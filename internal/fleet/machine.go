package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/specgo/spec/engine"
)

// Machine answers requests.
type Machine struct {
	Costs
	Places int     // answers at once, at most
	Delay  float64 // how much longer a pass may take for prompts; 0: DefaultDelay
}

// DefaultDelay is that of a [shared.Scheduler]. leastChunk is the fewest tokens of a prompt that it computes in a pass.
//
// [shared.Scheduler]: https://pkg.go.dev/github.com/specgo/spec/engine/shared#Scheduler
const (
	DefaultDelay = 2
	leastChunk   = 16
)

// Times are when a request had its first token and its last, in seconds after its arrival.
type Times struct{ First, Answer float64 }

// Outcome is what became of requests.
type Outcome struct {
	Times   []Times // of each request
	Seconds float64 // until the last was answered
	Busy    float64 // seconds of passes
	// Queued is when the last request got its place, and Answered how many were answered by then.
	Queued   float64
	Answered int
}

// answer is one that a machine computes.
type answer struct {
	index, prompt, left int     // of the request; tokens of its prompt and its answer that are left
	each                float64 // seconds of a token of its prompt
	positions           int     // tokens that were computed
	whole               bool    // its prompt is so short that it joins a pass as rows
	decodes             bool    // passes have had rows of it: it is delayed by prompts
}

// run is a simulation.
type run struct {
	m        *Machine
	requests []Request
	next     int // the first that has no place
	now      float64
	active   []*answer // the oldest first
	rest     []*answer // in the pass, those that get a token
	out      Outcome
}

// cancelEvery is the number of passes between looks at a context.
const cancelEvery = 1 << 12

// Run answers requests, which are sorted by their arrival.
func (m *Machine) Run(ctx context.Context, requests []Request) (Outcome, error) {
	if m.Places < 1 || m.Places > m.Most() {
		return Outcome{}, fmt.Errorf("%d answers at once: passes of up to %d sequences were measured", m.Places, m.Most())
	}
	if len(requests) == 0 {
		return Outcome{}, errors.New("no requests")
	}
	r := run{m: m, requests: requests, out: Outcome{Times: make([]Times, len(requests))}}
	for i := 0; ; i++ {
		if i%cancelEvery == 0 && ctx.Err() != nil {
			return Outcome{}, ctx.Err()
		}
		r.admit()
		if len(r.active) == 0 {
			if r.next == len(requests) {
				break
			}
			r.now = requests[r.next].At
			continue
		}
		if !r.stretch() {
			r.pass()
		}
	}
	r.out.Seconds = r.now
	return r.out, nil
}

// admit gives places to those that have arrived: they are in the next pass.
func (r *run) admit() {
	for r.next < len(r.requests) && len(r.active) < r.m.Places && r.requests[r.next].At <= r.now {
		q := r.requests[r.next]
		r.active = append(r.active, &answer{ // the last token of a prompt begins the answer
			index: r.next, prompt: q.Prompt - 1, left: q.Answer, each: r.m.Prompt(q.Prompt),
			whole: q.Prompt-1 <= engine.ShortRows})
		if r.next++; r.next == len(r.requests) {
			r.out.Queued = r.now
		}
	}
}

// pass is one pass: a token of each answer, and parts of prompts.
func (r *run) pass() {
	rows, positions, prompts, generating := 0, 0, 0, false
	var slowest float64
	for _, a := range r.active {
		generating = generating || a.decodes
		switch {
		case a.prompt == 0:
			rows, positions = rows+1, positions+a.positions
		case a.whole:
			rows += a.prompt
		default:
			prompts++
			slowest = max(slowest, a.each)
		}
	}
	seconds := r.m.Pass(rows, positions)
	room := engine.PassRows
	if generating && prompts > 0 {
		delay := r.m.Delay
		if delay == 0 {
			delay = DefaultDelay
		}
		room = int(min(delay*r.m.Pass(max(rows, 1), positions)/slowest, engine.PassRows))
		room = min(max(leastChunk, room), max(engine.PassRows-rows, leastChunk))
	}
	rest := r.rest[:0]
	for _, a := range r.active {
		switch {
		case a.prompt == 0:
			rest = append(rest, a)
		case a.whole:
			a.positions, a.prompt, a.decodes = a.positions+a.prompt, 0, true
		case room > 0:
			n := min(max(room/max(prompts, 1), leastChunk), a.prompt)
			seconds += float64(a.each * float64(n))
			room, prompts = room-n, prompts-1
			a.positions, a.prompt = a.positions+n, a.prompt-n
		}
	}
	r.rest = rest
	r.spend(seconds)
	for _, a := range rest {
		r.token(a, 1)
	}
	r.leave()
}

// stretch makes many passes at once where nothing but answers is computed until one ends or a request arrives. It
// reports false where there is no such stretch.
func (r *run) stretch() bool {
	n, positions := math.MaxInt, 0
	for _, a := range r.active {
		if t := &r.out.Times[a.index]; t.First == 0 {
			return false
		}
		n, positions = min(n, a.left), positions+a.positions
	}
	rows := len(r.active)
	first := r.m.Pass(rows, positions)
	// The seconds of k passes: each has as many positions more as there are answers.
	take := func(k int) float64 {
		more := float64(r.m.Position * float64(rows) * float64(k) * float64(k-1) / 2)
		return float64(first*float64(k)) + more
	}
	if rows < r.m.Places && r.next < len(r.requests) {
		until := r.requests[r.next].At
		n = min(n, 1+sort.Search(n, func(k int) bool { return r.now+take(k+1) >= until }))
	}
	r.spend(take(n))
	for _, a := range r.active {
		r.token(a, n)
	}
	r.leave()
	return true
}

func (r *run) spend(seconds float64) {
	r.now += seconds
	r.out.Busy += seconds
}

// token gives an answer its next n tokens.
func (r *run) token(a *answer, n int) {
	t := &r.out.Times[a.index]
	since := r.now - r.requests[a.index].At
	if a.decodes = true; t.First == 0 {
		t.First = since
	}
	a.positions += n
	if a.left -= n; a.left == 0 {
		t.Answer = since
		if r.next < len(r.requests) {
			r.out.Answered++
		}
	}
}

// leave frees the places of those that have ended.
func (r *run) leave() {
	r.active = slices.DeleteFunc(r.active, func(a *answer) bool { return a.left == 0 })
}
