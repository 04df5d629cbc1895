package compare

import (
	"context"
	"errors"
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

// SetSeed chooses the noise of the next texts.
func (b *Bench) SetSeed(seed uint64) {
	b.plain.plan.Sampling.Seed = seed
	for _, x := range b.subjects {
		x.plan.Sampling.Seed = seed
	}
}

// Round runs all wanted settings on one prompt: plain, two of them, plain, two more, and so on to plain. A nil wanted
// is all. Every run is handed to record, plain decoding's first and after each group.
func (b *Bench) Round(ctx context.Context, prompt string, wanted func(Setting) bool,
	record func(Setting, *Timed)) error {
	return rounds(ctx, []*Bench{b}, round{prompt: prompt, wanted: wanted, record: record})
}

// round is what several benches run.
type round struct {
	prompt string
	then   []int32 // FixedText: its tokens
	first  int     // which bench begins
	wanted func(Setting) bool
	record func(Setting, *Timed)
}

// rounds is a Round of several benches in turn: all do their plain decoding, then all their first two settings with
// plain decoding again, and so on, so that what else happens on the machine meets all alike. They have the same
// settings but for kernels. The bench after the one that began a part begins the next part.
func rounds(ctx context.Context, benches []*Bench, r round) error {
	turns, first := make([]*turn, len(benches)), r.first
	each := func(f func(*turn) error) error {
		for i := range turns {
			if err := f(turns[(i+first)%len(turns)]); err != nil {
				return err
			}
		}
		first++
		return nil
	}
	for i, b := range benches {
		turns[i] = &turn{round: r, b: b}
		turns[i].input, turns[i].ids = b.pair.encode(r.prompt)
		if b.plain.plan.Mode == FixedText {
			b.fix(turns[i].ids, r.then)
		}
	}
	if err := each(func(t *turn) error { return t.base(ctx) }); err != nil {
		return err
	}
	for at := 0; at < len(benches[0].settings); at += plainEvery {
		err := each(func(t *turn) error {
			return t.group(ctx, t.b.settings[at:min(at+plainEvery, len(t.b.settings))])
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// encode makes tokens of a prompt: the encoder's input, nil without one, and what the decoder begins with.
func (p *Pair) encode(prompt string) (input, ids []int32) {
	ids = p.Tokenizer.Encode(prompt, bpe.EncodeOptions{AddSpecial: true})
	if p.Start != nil {
		return ids, p.Start
	}
	return nil, ids
}

// turn is a bench's part of a round.
type turn struct {
	round
	b          *Bench
	input, ids []int32
	before     *Timed // the last run of plain decoding
}

// base runs plain decoding.
func (t *turn) base(ctx context.Context) error {
	r, err := t.b.plain.run(ctx, t.input, t.ids, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", t.b.base, err)
	}
	r.Before = r.PerToken()
	r.After = r.Before
	t.record(t.b.base, r)
	t.before = r
	return nil
}

// group runs some settings, and plain decoding after them if any was wanted.
func (t *turn) group(ctx context.Context, group []Setting) error {
	runs := map[Setting]*Timed{}
	for _, s := range group {
		if t.wanted != nil && !t.wanted(s) {
			continue
		}
		var err error
		if runs[s], err = t.b.subjects[s].run(ctx, t.input, t.ids, t.before.IDs); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	before := t.before
	if err := t.base(ctx); err != nil {
		return err
	}
	for _, s := range group {
		if r := runs[s]; r != nil {
			r.Before, r.After = before.PerToken(), t.before.PerToken()
			t.record(s, r)
		}
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
	fixed   []int32           // FixedText: prompt and text
}

func newSubject(pair *Pair, s Setting, plan Plan) (*subject, error) {
	x := &subject{setting: s, plan: plan, pair: pair}
	if plan.Mode == FixedLength {
		x.plan.Sampling.Banned = slices.Concat(plan.Sampling.Banned, pair.ends())
	}
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
	if o.DraftMax == 0 {
		o.DraftMax = DraftLongest
	}
	if x.setting.Schedule == oracle {
		o.DraftMax = max(o.DraftMax, x.plan.Tokens)
	}
	x.decoder = speculative.New(x.pair.Target, x.drafter, x.traced(o))
	return nil
}

// traced completes a decoder's options.
func (x *subject) traced(o speculative.Options) speculative.Options {
	o.MaxTokens, o.Tokenizer = x.plan.Tokens, x.pair.Tokenizer
	switch x.plan.Mode {
	case FixedLength:
		o.EOG = func(int32) bool { return false }
	case FixedText:
		o.EOG = func(int32) bool { return false }
		o.Verifier = (*fixedText)(x)
	}
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
	if x.fixed != nil { // drafts end where the text does, as they do at the most tokens of other texts
		x.decoder.Limit(len(x.fixed) - len(prompt))
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
	if x.plan.Mode == FixedLength && len(x.now.IDs) < x.plan.Tokens {
		return nil, fmt.Errorf("%w after %d of %d tokens: a fixed length needs more context", errShort, len(x.now.IDs),
			x.plan.Tokens)
	}
	x.now.Text = text.String()
	x.now.Stats = x.decoder.Stats()
	x.now.Seconds = x.now.Stats.Total - x.now.Stats.Prefill
	return x.now, nil
}

// errShort is a text that ends before its fixed length.
var errShort = errors.New("the context is full")
