package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/speculative"
)

// A Pair is a target model with its drafters, opened with one type of weights.
type Pair struct {
	Target    speculative.Sequence
	Tokenizer *bpe.Tokenizer
	Drafter   func(name string) (speculative.Drafter, error) // a fresh one; they may share sequences
	Close     func()
}

// Lab is what a plan runs on.
type Lab struct {
	Open     func(ctx context.Context, weights string) (*Pair, error)
	Progress func(done, total int, now string) // may be nil
}

// plainEvery is how many settings are run between two runs of plain decoding, with whose mean they
// are compared: few, so that a machine that slows down slows down both.
const plainEvery = 2

// run is one text.
type run struct {
	repeat   int
	seconds  float64 // of decoding: prefill left out
	plain    float64 // of the plain runs around it, per token
	ids      []int32
	text     string
	rejected int // rounds in which a token was rejected
	stats    speculative.Stats
	lengths  []int // tokens drafted, by round
}

// perToken is the run's time for a token, in seconds.
func (r *run) perToken() float64 { return r.seconds / float64(max(1, len(r.ids))) }

// cell holds the runs of one setting on one prompt.
type cell struct{ runs []run }

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
func (x *experiment) cycle(ctx context.Context, pair *Pair, weights string, t float32, settings []Setting, repeat int) error {
	base := Setting{Weights: weights, Temperature: t, Drafter: Plain}
	plain, err := newSubject(pair, base, x.plan)
	if err != nil {
		return err
	}
	subjects := map[Setting]*subject{}
	for _, s := range settings {
		if subjects[s], err = newSubject(pair, s, x.plan); err != nil {
			return err
		}
	}
	for i, set := range x.plan.Sets {
		for j, prompt := range set.Prompts {
			if repeat < 0 && (i > 0 || j > 0) {
				return nil
			}
			ids := pair.Tokenizer.Encode(prompt.Text, bpe.EncodeOptions{AddSpecial: true})
			if err := x.round(ctx, subjects, settings, plain, ids, key{base, i, j}, repeat); err != nil {
				return fmt.Errorf("prompt %s, %w", prompt.ID, err)
			}
		}
	}
	return nil
}

// round runs all settings on one prompt: plain, two of them, plain, two more, and so on to plain.
func (x *experiment) round(ctx context.Context, subjects map[Setting]*subject, settings []Setting, plain *subject, ids []int32, at key, repeat int) error {
	base := func() (*run, error) {
		r, err := plain.run(ctx, ids, nil)
		if err != nil {
			return nil, fmt.Errorf("plain: %w", err)
		}
		r.plain = r.perToken()
		x.record(at, repeat, r)
		return r, nil
	}
	before, err := base()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(settings, plainEvery) {
		runs := map[Setting]*run{}
		for _, s := range group {
			if repeat >= x.repeats(s) {
				continue
			}
			if x.lab.Progress != nil {
				x.lab.Progress(x.done, x.total, fmt.Sprintf("%s, %s", x.plan.Sets[at.set].Prompts[at.prompt].ID, s))
			}
			if runs[s], err = subjects[s].run(ctx, ids, before.ids); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		if len(runs) == 0 {
			continue
		}
		after, err := base()
		if err != nil {
			return err
		}
		for s, r := range runs {
			r.plain = (before.plain + after.plain) / 2
			x.record(key{s, at.set, at.prompt}, repeat, r)
		}
		before = after
	}
	return nil
}

func (x *experiment) record(k key, repeat int, r *run) {
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

// subject is a decoder with one setting.
type subject struct {
	setting Setting
	plan    Plan
	pair    *Pair
	drafter speculative.Drafter
	decoder *speculative.Decoder
	now     *run
}

func newSubject(pair *Pair, s Setting, plan Plan) (*subject, error) {
	x := &subject{setting: s, plan: plan, pair: pair}
	if s.Drafter == Plain {
		x.decoder = speculative.New(pair.Target, nil, x.options(nil, nil))
		return x, nil
	}
	var err error
	if x.drafter, err = pair.Drafter(s.Drafter); err != nil {
		return nil, err
	}
	if s.Schedule == oracle {
		return x, nil // made anew for each text
	}
	return x, x.start(nil)
}

func (x *subject) start(text []int32) error {
	schedule, err := x.setting.schedule(text)
	if err != nil {
		return err
	}
	verify, err := x.setting.verifier()
	if err != nil {
		return err
	}
	x.decoder = speculative.New(x.pair.Target, x.drafter, x.options(schedule, verify))
	return nil
}

func (x *subject) options(schedule speculative.Schedule, verify speculative.Verifier) speculative.Options {
	longest := max(DraftLongest, x.setting.DraftMax)
	if x.setting.Schedule == oracle {
		longest = max(longest, x.plan.Tokens)
	}
	return speculative.Options{
		Schedule: schedule, Verifier: verify, DraftMax: longest, MaxTokens: x.plan.Tokens, Tokenizer: x.pair.Tokenizer,
		Trace: func(r *speculative.Round) {
			x.now.lengths = append(x.now.lengths, r.Drafted())
			if r.Accepted() < r.Drafted() {
				x.now.rejected++
			}
		},
	}
}

// run generates one text; plain is plain decoding's, for the oracle.
func (x *subject) run(ctx context.Context, prompt, plain []int32) (*run, error) {
	if x.setting.Schedule == oracle {
		if err := x.start(slices.Concat(prompt, plain)); err != nil {
			return nil, err
		}
	}
	sampling := x.plan.Sampling
	sampling.Temperature = x.setting.Temperature
	x.now = &run{ids: make([]int32, 0, x.plan.Tokens), lengths: make([]int, 0, x.plan.Tokens)}
	var text strings.Builder
	for token, err := range x.decoder.Generate(ctx, prompt, sampling) {
		if err != nil {
			return nil, err
		}
		x.now.ids = append(x.now.ids, token.ID)
		text.WriteString(token.Text)
	}
	x.now.text = text.String()
	x.now.stats = x.decoder.Stats()
	x.now.seconds = x.now.stats.Total - x.now.stats.Prefill
	return x.now, nil
}
