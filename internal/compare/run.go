package compare

import (
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/speculative"
)

// A Pair is a target model with its drafters, opened with one type of weights.
type Pair struct {
	Target    speculative.Sequence
	Tokenizer *bpe.Tokenizer
	Drafter   func(name string) (speculative.Drafter, error) // a fresh one; they may share sequences
	Close     func()

	// of an encoder-decoder model: what the decoder begins with, and the prompts are the encoder's input; nil: none
	Start []int32
}

// Lab is what a plan runs on.
type Lab struct {
	Open     func(ctx context.Context, weights string) (*Pair, error)
	Progress func(done, total int, now string) // may be nil
}

// cell holds the runs of one setting on one prompt.
type cell struct{ runs []Timed }

// Run carries the plan out. When it is interrupted or fails, it returns the error with a report of
// what was measured by then, which is nil when nothing was.
func Run(ctx context.Context, lab Lab, plan Plan) (*Report, error) {
	x := &experiment{lab: lab, plan: plan, cells: map[key]*cell{}}
	err := x.run(ctx)
	if len(x.cells) == 0 {
		return nil, err
	}
	return x.report(), err
}

type key struct {
	setting     Setting
	set, prompt int
}

type experiment struct {
	lab         Lab
	plan        Plan
	cells       map[key]*cell
	done, total int
}

func (x *experiment) run(ctx context.Context) error {
	var weights []string
	for _, s := range x.plan.Settings {
		if !slices.Contains(weights, s.Weights) {
			weights = append(weights, s.Weights)
		}
	}
	prompts := 0
	for _, set := range x.plan.Sets {
		prompts += len(set.Prompts)
	}
	for _, w := range weights {
		for _, t := range x.temperatures(w) {
			for _, s := range x.settings(w, t) {
				x.total += prompts * x.repeats(s)
			}
		}
	}
	for _, w := range weights {
		if err := x.weights(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// temperatures of the settings with these weights.
func (x *experiment) temperatures(weights string) (list []float32) {
	for _, s := range x.plan.Settings {
		if s.Weights == weights && !slices.Contains(list, s.Temperature) {
			list = append(list, s.Temperature)
		}
	}
	return list
}

// settings lists what is run at a temperature, without plain decoding. An oracle for each drafter,
// whose passes are the lower bound, is added where the plan has none.
func (x *experiment) settings(weights string, temperature float32) (list []Setting) {
	for _, s := range x.plan.Settings {
		if s.Weights == weights && s.Temperature == temperature && s.Drafter != Plain {
			list = append(list, s)
		}
	}
	for _, s := range slices.Clone(list) {
		if o := s.oracle(); !slices.Contains(list, o) {
			after := len(list) // behind its drafter's others
			for list[after-1].Drafter != s.Drafter {
				after--
			}
			list = slices.Insert(list, after, o)
		}
	}
	return list
}

// repeats is how often a setting is run: an added oracle once, as its passes never change.
func (x *experiment) repeats(s Setting) int {
	if s.Schedule == oracle && !slices.Contains(x.plan.Settings, s) {
		return 1
	}
	return x.plan.Repeats
}

func (x *experiment) weights(ctx context.Context, weights string) error {
	pair, err := x.lab.Open(ctx, weights)
	if err != nil {
		return err
	}
	defer pair.Close()
	for _, t := range x.temperatures(weights) {
		settings := x.settings(weights, t)
		for i := range x.plan.Warmup + x.plan.Repeats {
			repeat := i - x.plan.Warmup
			if err := x.cycle(ctx, pair, weights, t, settings, repeat); err != nil {
				return err
			}
		}
	}
	return nil
}

// cycle runs every setting once on every prompt, one after the other. A setting's decoder lives as
// long as that: its schedule keeps what it measured from one prompt to the next, as in use. A
// negative repeat is a warm-up on the first prompt.
func (x *experiment) cycle(ctx context.Context, pair *Pair, weights string, t float32, settings []Setting,
	repeat int) error {
	bench, err := NewBench(pair, settings, x.plan)
	if err != nil {
		return err
	}
	for i, set := range x.plan.Sets {
		for j, prompt := range set.Prompts {
			if repeat < 0 && (i > 0 || j > 0) {
				return nil
			}
			wanted := func(s Setting) bool {
				if repeat >= x.repeats(s) {
					return false
				}
				if x.lab.Progress != nil {
					x.lab.Progress(x.done, x.total, fmt.Sprintf("%s, %s", prompt.ID, s))
				}
				return true
			}
			err := bench.Round(ctx, prompt.Text, wanted, func(s Setting, r *Timed) { x.record(key{s, i, j}, repeat, r) })
			if err != nil {
				return fmt.Errorf("prompt %s, %w", prompt.ID, err)
			}
		}
	}
	return nil
}

func (x *experiment) record(k key, repeat int, r *Timed) {
	if repeat < 0 {
		return
	}
	if k.setting.Drafter != Plain {
		x.done++
	}
	if x.cells[k] == nil {
		x.cells[k] = &cell{}
	}
	r.repeat = repeat
	x.cells[k].runs = append(x.cells[k].runs, *r)
}
