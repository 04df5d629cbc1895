package bench

import (
	"context"

	"github.com/specgo/spec/engine"
)

// Set is a kernel set: a model whose Runtime has it, and what drafts for that, with the same weights.
type Set struct {
	Kernels string
	Model   *engine.Model
	Draft   *engine.Model // nil: none
}

// Turns is a row of each kernel set, measured in turn: what else happens on the machine hits all of them alike.
type Turns struct {
	Row               // of the last round
	Seconds []float64 // a pass of each round, the median of its passes
	Kernels string
}

// InTurn measures the rows on every kernel set, in o.Repeats rounds of one repeat each; every round begins with the
// next set. It returns the rows in order, those of the same pass one after the other in the order of the sets, and the
// memory's bandwidth, the median of the rounds. say is told of each row of a round.
func InTurn(ctx context.Context, sets []Set, o Options, say func(kernels string, row Row)) (
	list []Turns, bandwidth float64, err error) {
	rounds := max(o.Repeats, 1)
	o.Repeats = 1
	var memory []float64
	for round := range rounds {
		for i := range sets {
			at := (round + i) % len(sets)
			s := sets[at]
			o.Draft = s.Draft
			rows, speed, err := Run(ctx, s.Model, o, func(r Row) { say(s.Kernels, r) })
			if err != nil {
				return nil, 0, err
			}
			if speed > 0 {
				memory = append(memory, speed)
			}
			if list == nil {
				list = make([]Turns, len(rows)*len(sets))
			}
			for j, row := range rows {
				t := &list[j*len(sets)+at]
				t.Row, t.Kernels, t.Seconds = row, s.Kernels, append(t.Seconds, row.PassSeconds)
			}
		}
	}
	if len(memory) > 0 {
		bandwidth = median(memory)
	}
	return list, bandwidth, nil
}
