package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/speculative"
)

// plainEvery is how many settings are run between two runs of plain decoding, with whose mean they
// are compared: few, so that a machine that slows down slows down both.
const plainEvery = 2

// Timed is one text that a setting generated.
type Timed struct {
	Seconds  float64 // of decoding: prefill left out
	Before   float64 // seconds per token of the runs of plain decoding before it and
	After    float64 // after it
	IDs      []int32
	Text     string
	Rejected int // rounds in which a token was rejected
	Stats    speculative.Stats
	Lengths  []int // tokens drafted, by round

	repeat int
}

// PerToken is the run's time for a token, in seconds.
func (r *Timed) PerToken() float64 { return r.Seconds / float64(max(1, len(r.IDs))) }

// Plain is the time for a token of plain decoding around it, in seconds.
func (r *Timed) Plain() float64 { return (r.Before + r.After) / 2 }

// Bench holds a decoder for each of some settings that share weights and temperature, and runs them in turn with
// plain decoding. A decoder lives as long as the Bench: its schedule keeps what it measured from one prompt to the
// next.
type Bench struct {
	pair     *Pair
	settings []Setting
	base     Setting
	plain    *subject
	subjects map[Setting]*subject
}

// NewBench makes the decoders. Of the plan Sampling and Tokens count.
func NewBench(pair *Pair, settings []Setting, plan Plan) (b *Bench, err error) {
	b = &Bench{pair: pair, settings: settings, subjects: map[Setting]*subject{}}
	if len(settings) > 0 {
		b.base = settings[0].plain()
	} else {
		b.base = Setting{Drafter: Plain}
	}
	if b.plain, err = newSubject(pair, b.base, plan); err != nil {
		return nil, err
	}
	for _, s := range settings {
		if s.plain() != b.base {
			return nil, fmt.Errorf("%s: other weights or another temperature than %s", s, settings[0])
		}
		if b.subjects[s], err = newSubject(pair, s, plan); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Round runs all wanted settings on one prompt: plain, two of them, plain, two more, and so on to plain. A nil wanted
// is all. Every run is handed to record, plain decoding's first and after each group.
func (b *Bench) Round(ctx context.Context, prompt string, wanted func(Setting) bool,
	record func(Setting, *Timed)) error {
	ids, input := b.pair.Tokenizer.Encode(prompt, bpe.EncodeOptions{AddSpecial: true}), []int32(nil)
	if b.pair.Start != nil {
		ids, input = b.pair.Start, ids
	}
	base := func() (*Timed, error) {
		r, err := b.plain.run(ctx, input, ids, nil)
		if err != nil {
			return nil, fmt.Errorf("plain: %w", err)
		}
		r.Before = r.PerToken()
		r.After = r.Before
		record(b.base, r)
		return r, nil
	}
	before, err := base()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(b.settings, plainEvery) {
		runs := map[Setting]*Timed{}
		for _, s := range group {
			if wanted != nil && !wanted(s) {
				continue
			}
			if runs[s], err = b.subjects[s].run(ctx, input, ids, before.IDs); err != nil {
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
		for _, s := range group {
			if r := runs[s]; r != nil {
				r.Before, r.After = before.PerToken(), after.PerToken()
				record(s, r)
			}
		}
		before = after
	}
	return nil
}

// subject is a decoder with one setting.
type subject struct {
	setting Setting
	plan    Plan
	pair    *Pair
	drafter speculative.Drafter
	decoder *speculative.Decoder
	now     *Timed
	each    func(text string) // called with each token; nil: nobody is told
}

func newSubject(pair *Pair, s Setting, plan Plan) (*subject, error) {
	x := &subject{setting: s, plan: plan, pair: pair}
	if s.Drafter == Plain {
		x.decoder = speculative.New(pair.Target, nil, x.traced(speculative.Options{}))
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
	o, err := x.setting.options(text)
	if err != nil {
		return err
	}
	o.DraftMax = max(DraftLongest, x.setting.DraftMax)
	if x.setting.Schedule == oracle {
		o.DraftMax = max(o.DraftMax, x.plan.Tokens)
	}
	x.decoder = speculative.New(x.pair.Target, x.drafter, x.traced(o))
	return nil
}

// traced completes a decoder's options.
func (x *subject) traced(o speculative.Options) speculative.Options {
	o.MaxTokens, o.Tokenizer = x.plan.Tokens, x.pair.Tokenizer
	o.Trace = func(r *speculative.Round) {
		x.now.Lengths = append(x.now.Lengths, r.Drafted())
		if r.Accepted() < r.Drafted() {
			x.now.Rejected++
		}
	}
	return o
}

// run generates one text; input is the encoder's, nil without one; plain is plain decoding's, for the oracle.
func (x *subject) run(ctx context.Context, input, prompt, plain []int32) (*Timed, error) {
	if x.setting.Schedule == oracle {
		if err := x.start(slices.Concat(prompt, plain)); err != nil {
			return nil, err
		}
	}
	if input != nil {
		x.decoder.Encode(input)
	}
	sampling := x.plan.Sampling
	sampling.Temperature = x.setting.Temperature
	x.now = &Timed{IDs: make([]int32, 0, x.plan.Tokens), Lengths: make([]int, 0, x.plan.Tokens)}
	var text strings.Builder
	for token, err := range x.decoder.Generate(ctx, prompt, sampling) {
		if err != nil {
			return nil, err
		}
		x.now.IDs = append(x.now.IDs, token.ID)
		if x.each != nil {
			x.each(token.Text)
		}
		text.WriteString(token.Text)
	}
	x.now.Text = text.String()
	x.now.Stats = x.decoder.Stats()
	x.now.Seconds = x.now.Stats.Total - x.now.Stats.Prefill
	return x.now, nil
}
