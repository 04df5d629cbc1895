package speculative

import (
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
)

// arithmetic counts the passes that a record of n tokens takes with drafts of k whose every e-th
// token is wrong.
func arithmetic(n, k, e int) (passes int) {
	for at := 0; at < n; passes++ {
		draft := min(k, n-at-1)
		good := draft
		if e > 0 {
			good = min(draft, e-1-at%e) // right tokens before the next wrong one
		}
		at += good + 1
	}
	return passes
}

func TestReplayPasses(t *testing.T) {
	model := random(7)
	want := plain(t, matrixVocab, model, matrixPrompt, 120, engine.Sampling{})
	for k := 1; k <= 16; k++ {
		for _, every := range []int{0, 10, 1, 3} {
			target := newFake(t, matrixVocab, 200, model)
			d := New(target, Replay(ReplayOptions{Tokens: want, ErrorEvery: every}),
				Options{Schedule: Constant(ConstantOptions{Length: k}), MaxTokens: len(want)})
			got, _ := collect(t, d, matrixPrompt, engine.Sampling{})
			if !slices.Equal(got, want) {
				t.Fatalf("draft %d: other text", k)
			}
			if p := arithmetic(len(want), k, every); target.passes != p || d.Stats().TargetPasses != p {
				t.Errorf("drafts of %d, every %d. token wrong: %d passes, arithmetic says %d", k, every, target.passes, p)
			}
		}
	}
	// By hand: perfect drafts of 5 give 6 tokens a pass; with drafts of 9 and the 10th token wrong
	// each pass writes 10.
	if arithmetic(120, 5, 0) != 20 || arithmetic(120, 9, 10) != 12 || arithmetic(120, 3, 10) != 36 {
		t.Error("arithmetic")
	}
}

// The heuristic: 5, then two more after a round that was all accepted, one fewer after any other.
func TestHeuristicSteps(t *testing.T) {
	write := count(60)
	draft := slices.Clone(write)
	wrong := func(i int) { draft[i]++ }
	wrong(16) // rounds: 0-4+5, 6-12+13, 14-22 (9 asked, two right)
	wrong(17) // 17-24 (8 asked, none)
	wrong(18)
	var asked, accepted []int
	schedule := Heuristic(HeuristicOptions{Length: 5})
	o := Options{Schedule: schedule, MaxTokens: 43, Trace: func(r *Round) {
		asked, accepted = append(asked, r.Requested), append(accepted, r.Accepted())
	}}
	got, _, _ := run{write: write, draft: draft, o: o}.do(t)
	if !slices.Equal(got, write[:43]) {
		t.Fatalf("got %v", got)
	}
	if want := []int{5, 7, 9, 8, 7, 6, 8, 10}; !slices.Equal(asked, want) {
		t.Errorf("asked %v (accepted %v), want %v", asked, accepted, want)
	}
	if want := []int{5, 7, 2, 0, 0, 6, 8, 7}; !slices.Equal(accepted, want) {
		t.Errorf("accepted %v, want %v", accepted, want)
	}
	if n := schedule.Length(0); n != 9 { // kept for the next text; the budget cut the last round short
		t.Errorf("length afterwards %d", n)
	}
	low := Heuristic(HeuristicOptions{Length: 2})
	d := &Draft{Tokens: []int32{1}}
	for _, want := range []int{1, 1} {
		low.Observe(&Round{Draft: d})
		if low.Length(0) != want {
			t.Errorf("length %d, want %d", low.Length(0), want)
		}
	}
	low.Observe(&Round{Draft: &Draft{}})
	low.Observe(&Round{Draft: d, Path: []int32{0}})
	if low.Length(0) != 3 {
		t.Errorf("length %d, want 3", low.Length(0))
	}
}

func TestOracle(t *testing.T) {
	write := count(30)
	draft := slices.Clone(write)
	draft[4]++
	draft[11]++
	text := append([]int32{1}, write...)
	var drafted []int
	o := Options{Schedule: Oracle(text), MaxTokens: 30, Trace: func(r *Round) { drafted = append(drafted, r.Drafted()) }}
	target := newFake(t, 64, 100, script(1, write...))
	d := New(target, Replay(ReplayOptions{Tokens: draft}), o)
	if got, _ := collect(t, d, []int32{1}, engine.Sampling{}); !slices.Equal(got, write) {
		t.Errorf("got %v", got)
	}
	if want := []int{4, 6, 17}; !slices.Equal(drafted, want) {
		t.Errorf("drafted %v, want %v", drafted, want)
	}
}

// The confidence below which a draft ends is that of the raw softmax, and the token is still sent.
func TestThreshold(t *testing.T) {
	sure := func(text []int32, row []float32) {
		clear(row)
		row[5] = 10 // 0.9997 with 8 tokens
		if len(text)%3 == 0 {
			row[5] = 1 // 0.28
		}
	}
	var drafted []int
	o := Options{Schedule: Constant(ConstantOptions{Length: 9, MinConfidence: 0.5}), MaxTokens: 40,
		Trace: func(r *Round) { drafted = append(drafted, r.Drafted()) }}
	d := New(newFake(t, 8, 100, sure), Model(newFake(t, 8, 100, sure)), o)
	collect(t, d, []int32{1}, engine.Sampling{Temperature: 0.3})
	if !slices.Equal(drafted[:4], []int{3, 2, 2, 2}) { // up to the token that follows a text of 3, 6, 9, 12
		t.Errorf("drafted %v", drafted)
	}
	o.DraftMin = 6
	drafted = nil
	d = New(newFake(t, 8, 100, sure), Model(newFake(t, 8, 100, sure)), o)
	collect(t, d, []int32{1}, engine.Sampling{})
	if drafted[0] < 6 {
		t.Errorf("drafted %v, at least 6 wanted", drafted)
	}
}

// The zero options of the schedules are Transformers' defaults: the draft's length, and the confidence below which it
// ends.
func TestScheduleDefaults(t *testing.T) {
	for name, test := range map[string]struct {
		schedule Schedule
		length   int
		least    float32 // the confidence that just goes on; 0: any does
	}{
		"constant":            {Constant(ConstantOptions{}), 5, 0},
		"heuristic":           {Heuristic(HeuristicOptions{}), 5, 0},
		"dynamic":             {Dynamic(DynamicOptions{}), 20, 0.4},
		"dynamic that adapts": {Dynamic(DynamicOptions{Adapt: true}), 20, 0.4},
		"dynamic, never":      {Dynamic(DynamicOptions{MinConfidence: -1}), 20, 0},
	} {
		if got := test.schedule.Length(100); got != test.length {
			t.Errorf("%s: length %d, want %d", name, got, test.length)
		}
		stops := func(confidence float32) bool {
			return test.schedule.Stop(&Draft{Tokens: []int32{1}, Confidence: []float32{confidence}})
		}
		if stops(test.least) {
			t.Errorf("%s: stops at %v", name, test.least)
		}
		if under := math.Nextafter32(test.least, -1); test.least > 0 && !stops(under) {
			t.Errorf("%s: goes on at %v", name, under)
		}
	}
}
