package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/specgo/spec/internal/compare"
)

// The bounds of the modes, for all columns of a machine together.
var bounds = map[mode]time.Duration{quickMode: 10 * time.Minute, fullMode: 120 * time.Minute,
	sweepMode: 75 * time.Minute}

var modeNames = map[mode]string{quickMode: "-quick", fullMode: "-full", sweepMode: "-sweep"}

const opening = 6.0 // seconds to enlarge and open a pair and measure memory, for each pair and column of a mode

// usualSeconds is what a cell takes: measured on two cores of a Zen 5 server (AVX-512 and AVX2; memory at 50 to 80
// GB/s), for machines whose results do not have the experiment yet.
var usualSeconds = map[string]float64{
	costs: 23, rank: 0.3, sweep: 8.1, "length": 12, "drafters": 5.5, "schedules": 6.7, "heads": 4.8, "verifiers": 5.7,
	"assisted": 2.4,
	"stairs":   14.5, "stairs-short": 60, "stairs-times": 14.7, "stairs-paper": 4.8, "plan": 12.5, "receipt": 6,
	"counts": 0.4, "temperatures": 0.4, "redistribution": 0.5, "frequency": 1,
	"weights-f16": 3.9, "weights-q8_0": 2.4, "draft-5m": 2, "draft-14m": 2, "draft-50m": 2.6, "draft-91m": 2.6,
	"draft-246m": 3.3, "self-f16": 7, "self-q8_0": 4,
}

// planTime is what an experiment takes on a column.
type planTime struct {
	experiment, column string
	cells              [3]int  // of each mode
	seconds            float64 // for a cell
	measured           int     // cells that the time is the median of; 0: as usual
}

// planTimes lists what the modes run, with the time of each cell.
func planTimes(list []experiment, columns []column, measured []cell) (times []planTime) {
	for i, col := range columns {
		for _, x := range list {
			p := planTime{experiment: x.name, column: col.String(), seconds: usualSeconds[x.name]}
			for m := range p.cells {
				for _, k := range cells(list, col, i == 0, mode(m)) {
					if k.Experiment == x.name {
						p.cells[m]++
					}
				}
			}
			var took []float64
			for _, c := range measured {
				if c.Experiment == x.name && c.Column == p.column && c.Took > 0 {
					took = append(took, c.Took)
				}
			}
			if p.measured = len(took); p.measured > 0 {
				p.seconds = compare.Median(took)
			}
			if p.cells != [3]int{} {
				times = append(times, p)
			}
		}
	}
	return times
}

// total is a mode's time.
func total(list []experiment, columns []column, times []planTime, m mode) time.Duration {
	sum := 0.0
	for _, p := range times {
		sum += p.seconds * float64(p.cells[m])
	}
	for _, col := range columns {
		var pairs []pairKey
		for _, p := range times {
			pair := named(list, p.experiment).pair
			if p.column == col.String() && p.cells[m] > 0 && !slices.Contains(pairs, pair) {
				pairs = append(pairs, pair)
			}
		}
		sum += opening * float64(len(pairs))
	}
	return time.Duration(sum * float64(time.Second))
}

// printPlan writes what the modes run and how long it takes. The error says which mode takes longer than its bound.
func printPlan(w io.Writer, list []experiment, columns []column, measured []cell) error {
	times := planTimes(list, columns, measured)
	fmt.Fprintf(w, "%-18s %-10s %6s %6s %6s  %s\n", "experiment", "kernels", "quick", "full", "sweep", "seconds a cell")
	for _, p := range times {
		from := "as usual"
		if p.measured > 0 {
			from = fmt.Sprintf("median of %d", p.measured)
		}
		fmt.Fprintf(w, "%-18s %-10s %6d %6d %6d  %.1f (%s)\n", p.experiment, p.column, p.cells[0], p.cells[1], p.cells[2],
			p.seconds, from)
	}
	var late []string
	for _, m := range []mode{quickMode, fullMode, sweepMode} {
		t := total(list, columns, times, m)
		fmt.Fprintf(w, "%-7s %5.1f minutes of at most %.0f, cells that are disturbed and repeated not counted\n",
			modeNames[m], t.Minutes(), bounds[m].Minutes())
		if t > bounds[m] {
			late = append(late, modeNames[m])
		}
	}
	if len(late) > 0 {
		return fmt.Errorf("longer than allowed: %s", strings.Join(late, ", "))
	}
	return nil
}
