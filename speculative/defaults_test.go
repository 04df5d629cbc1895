package speculative

import (
	"math"
	"testing"
)

// The zero options of the schedules are Transformers' defaults: the draft's length, and the confidence below which it ends.
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
