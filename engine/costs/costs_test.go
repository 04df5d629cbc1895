package costs

import (
	"math"
	"reflect"
	"runtime"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// Passes are learned while others ask, by every method at once: the race detector sees a lock that is left out.
func TestCostsAreSafeForManyAtOnce(t *testing.T) {
	var c Costs
	asked := map[string]func(){
		"Each": func() { c.Each(2) }, "At": func() { c.At(3) }, "Fill": func() { c.Fill(make([]float64, 4)) },
		"Known": func() { c.Known() }, "Learn": func() { c.Learn(2, 1, 0.01) }, "Longest": func() { c.Longest() },
		"LearnReads": func() { c.LearnReads([]float64{1, 2}) }, "Reads": func() { c.Reads(2) },
		"MeanTime": func() { c.MeanTime() }, "Measured": func() { c.Measured(2) }, "Passes": func() { c.Passes(2) },
		"Prices": func() { c.Prices(1, 2, make([]float64, 4)) }, "Prompt": func() { c.Prompt() },
		"PromptTokens": func() { c.PromptTokens(1, 0.5) }, "Set": func() { c.Set([]Time{{3, 0.02, 0, 1}}, true) },
		"Since": func() { c.Since(2) },
		"Split": func() { c.Split(2) }, "Times": func() { c.Times() }, "Trusted": func() { c.Trusted() },
	}
	var calls []func()
	for i := range reflect.TypeFor[*Costs]().NumMethod() {
		name := reflect.TypeFor[*Costs]().Method(i).Name
		ask := asked[name]
		if ask == nil {
			t.Fatalf("%s is not asked", name)
		}
		calls = append(calls, func() {
			ask()
			runtime.Gosched()
		})
	}
	testkit.AtOnce(30, calls...)
}

// Since counts the passes behind the last one of exactly so many rows.
func TestPassesSinceARowCount(t *testing.T) {
	var c Costs
	for _, rows := range []int{8, 16, 9, 16} {
		c.Learn(rows, 0, 0.01)
	}
	for rows, want := range map[int]int{8: 3, 9: 1, 16: 0, 7: 4, 0: 4, MaxRows + 1: 4} {
		if got := c.Since(rows); got != want {
			t.Errorf("%d passes since one of %d rows, want %d", got, rows, want)
		}
	}
}

// A time that cannot be is left out, alone; one at the border of what can be is kept.
func TestTimesThatCannotBeAreLeftOut(t *testing.T) {
	for _, x := range []struct {
		Time
		kept bool
	}{
		{Time{1, 0.01, 0, 1}, true}, {Time{MaxRows, 0.01, 0, 1}, true}, {Time{2, math.SmallestNonzeroFloat64, 0.5, 1}, true},
		{Time{0, 0.01, 0, 1}, false}, {Time{-1, 0.01, 0, 1}, false}, {Time{MaxRows + 1, 0.01, 0, 1}, false},
		{Time{1, 0, 0, 1}, false}, {Time{1, -1, 0, 1}, false}, {Time{1, math.NaN(), 0, 1}, false},
		{Time{1, math.Inf(1), 0, 1}, false}, {Time{1, 0.01, 0, 0}, false},
	} {
		var c Costs
		c.Set([]Time{x.Time}, true)
		if got := c.Times(); len(got) > 0 != x.kept || c.Known() != x.kept {
			t.Errorf("%+v: %+v, known %v, want it kept: %v", x.Time, got, c.Known(), x.kept)
		}
		c.Set([]Time{x.Time, {7, 0.02, 0, 3}}, true)
		if n := len(c.Times()); n != 1 && !x.kept || n != 2 && x.kept {
			t.Errorf("%+v beside another: %d are known", x.Time, n)
		}
	}
}

// A prompt's token costs the whole of a pass that has prompts alone, and of one with rows what these do not take.
func TestPromptsPayForTheirPass(t *testing.T) {
	for _, x := range []struct {
		rows, prompts int
		want          float64
	}{{0, 10, 0.1}, {1, 10, 0.099}} {
		var c Costs
		c.Set([]Time{{1, 0.010, 0, 100}}, true)
		c.Learn(x.rows, x.prompts, 1)
		if got := c.Prompt(); math.Abs(got-x.want) > 1e-4 {
			t.Errorf("%d rows and %d tokens in a second: %.4f s for a token, want %.4f", x.rows, x.prompts, got, x.want)
		}
	}
}

// TestPassesOfAnyRows: numbers of rows that there are not count as the nearest that there are.
func TestPassesOfAnyRows(t *testing.T) {
	var c Costs
	c.Learn(1, 0, 1)
	c.Learn(2*MaxRows, 0, 3)
	for rows, want := range map[int]int{-1: 1, 0: 1, 1: 1, MaxRows: 1, MaxRows + 1: 1, 2 * MaxRows: 1, MaxRows - 1: 0} {
		if n := c.Passes(rows); n != want {
			t.Errorf("%d passes of %d rows, expected %d", n, rows, want)
		}
	}
}
