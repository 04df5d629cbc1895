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
	Open     func(ctx context.Context, weights, kernels string) (*Pair, error)
	Progress func(done, total int, now string) // may be nil
}

// cell holds the runs of one setting on one prompt.
type cell struct{ runs []Timed }

// Run carries the plan out. When it is interrupted or fails, it returns the error with a report of
// what was measured by then, which is nil when nothing was.
func Run(ctx context.Context, lab Lab, plan Plan) (*Report, error) {
	x := &experiment{lab: lab, plan: plan, cells: map[key]*cell{}, texts: map[[2]int][]int32{}}
	err := x.run(ctx)
	if len(x.cells) == 0 {
		return nil, err
	}
	return x.report(), err
}

type key struct {
	setting     Setting
	set, prompt int
	seed        int // counted from 0
}

type experiment struct {
	lab         Lab
	plan        Plan
	cells       map[key]*cell
	texts       map[[2]int][]int32 // FixedText, by set and prompt
	turns       int                // rounds begun
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
				x.total += prompts * x.repeats(s) * x.plan.seeds(t)
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

// settings lists what is run at a temperature on all kernels, without plain decoding. An oracle for each drafter,
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
			for list[after-1].Drafter != s.Drafter || list[after-1].Kernels != s.Kernels {
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

// kernels of the plan, in order.
func (x *experiment) kernels() (list []string) {
	for _, s := range x.plan.Settings {
		if !slices.Contains(list, s.Kernels) {
			list = append(list, s.Kernels)
		}
	}
	return list
}

// seeds is how many seeds a prompt is continued with: without noise one gives what all give.
func (p *Plan) seeds(temperature float32) int {
	if temperature == 0 {
		return 1
	}
	return max(1, p.Seeds)
}

// weights runs all settings of some weights, with the models open for every kernel set at once.
func (x *experiment) weights(ctx context.Context, weights string) error {
	var pairs []*Pair
	kernels := x.kernels()
	for _, k := range kernels {
		pair, err := x.lab.Open(ctx, weights, k)
		if err != nil {
			return err
		}
		defer pair.Close()
		pairs = append(pairs, pair)
	}
	for _, t := range x.temperatures(weights) {
		for i := range x.plan.Warmup + x.plan.Repeats {
			benches := make([]*Bench, len(pairs))
			for j, k := range kernels {
				settings := slices.DeleteFunc(x.settings(weights, t), func(s Setting) bool { return s.Kernels != k })
				var err error
				if benches[j], err = NewBench(pairs[j], settings, x.plan); err != nil {
					return err
				}
			}
			if err := x.cycle(ctx, benches, i-x.plan.Warmup); err != nil {
				return err
			}
		}
	}
	return nil
}

// cycle runs every setting once on every prompt with every seed, one after the other, the kernel sets in turn. A
// setting's decoder lives as long as that: its schedule keeps what it measured from one prompt to the next, as in use.
// A negative repeat is a warm-up on the first prompt.
func (x *experiment) cycle(ctx context.Context, benches []*Bench, repeat int) error {
	base := benches[0].base
	for i, set := range x.plan.Sets {
		for j, prompt := range set.Prompts {
			for seed := range x.plan.seeds(base.Temperature) {
				if repeat < 0 && (i > 0 || j > 0 || seed > 0) {
					return nil
				}
				if err := x.round(ctx, benches, repeat, key{base, i, j, seed}); err != nil {
					return fmt.Errorf("prompt %s, %w", prompt.ID, err)
				}
			}
		}
	}
	return nil
}

// round runs every setting once on a prompt.
func (x *experiment) round(ctx context.Context, benches []*Bench, repeat int, at key) (err error) {
	prompt := x.plan.Sets[at.set].Prompts[at.prompt]
	r := round{prompt: prompt.Text, first: x.turns,
		wanted: func(s Setting) bool {
			if repeat >= x.repeats(s) {
				return false
			}
			if x.lab.Progress != nil {
				x.lab.Progress(x.done, x.total, fmt.Sprintf("%s, %s", prompt.ID, s))
			}
			return true
		},
		record: func(s Setting, r *Timed) { x.record(key{s, at.set, at.prompt, at.seed}, repeat, r) },
	}
	x.turns++
	for _, b := range benches {
		b.SetSeed(x.plan.Sampling.Seed + uint64(at.seed))
	}
	if x.plan.Mode == FixedText {
		place := [2]int{at.set, at.prompt}
		if x.texts[place] == nil {
			base := benches[0].base
			if x.texts[place], err = benches[0].pair.continuation(ctx, prompt, base, x.plan); err != nil {
				return err
			}
		}
		r.then = x.texts[place]
	}
	return rounds(ctx, benches, r)
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
