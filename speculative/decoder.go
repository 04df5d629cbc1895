package speculative

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// DefaultDraftMax is the most tokens of a draft when Options.DraftMax is 0.
const DefaultDraftMax = 32

// Options configure a [Decoder]. The zero value is a good choice.
type Options struct {
	Schedule Schedule // how many tokens to draft; nil: Auto
	Verifier Verifier // which drafted tokens to keep; nil: Greedy at temperature 0, Match above

	Experience *Experience // what decoders like this one have learned, and learn; nil: its own

	DraftSampling DraftSampling // how drafts are sampled at a temperature above 0

	DraftMax int // most tokens on a path of a draft; 0: DefaultDraftMax, or DraftMin if that is more
	DraftMin int // the schedule may not end a draft before so many tokens
	// Rows is the most rows of logits of a pass of the target, each as large as its vocabulary: one for each token of a
	// draft, forced or proposed, and one before them. Longer drafts are cut, longer runs of forced tokens take several
	// passes, and prompts are scored in pieces of so many tokens. Like all that bounds drafts it changes no text, but
	// under verifiers that keep the distribution alone ([SameText]). Those keep distributions of drafted tokens too,
	// which count as rows of as many bytes: where no top-k bounds them, drafts have a seventh of the tokens. 0: no bound.
	Rows int

	MaxTokens int              // most tokens to generate; 0 or less: until the text or the context ends
	Tokenizer *bpe.Tokenizer   // for Token.Text and Stop; nil: token ids only
	Stop      []string         // strings that end the text; they are not part of it,
	ShownStop int              // but for so many of them, from the first
	EOG       func(int32) bool // end-of-text tokens; nil: the tokenizer's
	LogProbs  bool             // fill Token.LogProb
	Top       int              // fill Token.Top with so many
	Chosen    bool             // LogProb and Top are of what the token was drawn from: after penalties and filters
	Trace     func(*Round)     // called after each round; the Round is valid during the call
	Scored    func(Token)      // called with each token of the prompt behind the first, with LogProb and Top; nil: none
	Prefilled func(n int)      // called as tokens of the prompt are in the cache: those that were, then after each pass
	Ending    func()           // called when a text has ended, before shared passes stop waiting for its sequence
}

// Token is one generated token.
type Token struct {
	ID       int32   // -1: no token, the text that was held back when a constrained text turned out complete
	Position int     // in the sequence; the prompt's first token has position 0
	Text     string  // text that became certain with this token: may be empty, or belong to earlier tokens
	Held     int     // bytes of text behind Text that are held back: a stop string may begin with them
	Drafted  bool    // an accepted draft token; otherwise the target's own
	Source   Source  // who wrote it
	LogProb  float32 // log-softmax of the target's raw logits, if Options.LogProbs

	// Top are the most likely tokens in its place, Options.Top of them, with log-softmaxes of the target's raw logits as
	// P: the greatest first, the lower id of equals.
	Top []sampling.Prob
	// Rank is how many tokens are at least as likely, itself included. Only what Options.Scored is given has it.
	Rank int
}

// Decoder generates text with a target model and a drafter. It belongs to one goroutine. Between texts it keeps
// the caches and what the schedule and the drafter learned: the part of a prompt that the last text began with
// is not fed again.
type Decoder struct {
	target   cachedSequence
	chooser  *sampling.Sampler // of Options.Chosen; nil: not asked for
	drafter  Drafter
	schedule Schedule
	o        Options
	verifier Verifier // of this text
	sampling engine.Sampling

	input []int32 // of the encoder, as Encode set it; nil: what the target has
	textState
	roundState

	now   func() time.Duration
	clock Clock // what schedule and drafter see

	own       bool // the Experience is nobody else's
	recalled  bool // what it holds was taken over
	following bool // drafts are announced at the end of the target's passes
	shortage  shortage
	stats     Stats
	times
}

// textState is the text so far.
type textState struct {
	sequence   []int32 // prompt and output
	constraint constraintState
	print      printer
	branches   int // chains of a draft
	treeMax    int // most tokens of a draft that is a tree: the pass has the last token of the sequence too
}

// roundState is the round in progress.
type roundState struct {
	draft        Draft
	whole        Draft // before the schedule trimmed it
	kept         []int // nodes of whole that draft has
	trimmed      bool
	verification Verification
	fed          []int32 // tokens and parents of the target's pass
	parent       []int32
	path         []int32 // to commit
	out          []Token
	chances      []sampling.Prob // of all tokens, for Options.Chosen
	round        Round
}

// New makes a decoder. Without a drafter (nil) it decodes plainly, one token per pass.
func New(target Sequence, drafter Drafter, o Options) *Decoder {
	if o.DraftMax <= 0 {
		o.DraftMax = max(DefaultDraftMax, o.DraftMin)
	}
	if o.Schedule == nil {
		o.Schedule = Auto(AutoOptions{})
	}
	if o.EOG == nil && o.Tokenizer != nil {
		o.EOG = o.Tokenizer.IsEOG
	}
	own := o.Experience == nil
	if own {
		o.Experience = &Experience{}
	}
	return &Decoder{own: own, target: cachedSequence{Sequence: target}, drafter: drafter, schedule: o.Schedule, o: o,
		now: monotonic()}
}

// Encode sets the encoder's input of the texts to come, for an encoder-decoder model as target: ids, to which the
// text's end is the caller's to append. Target and draft models encode it, each for itself, when a text begins,
// unless they have it already. The prompt of Generate is then the beginning of what the decoder writes:
// [engine.Model.DecoderStart] at least. Lookups in the text ([NGram], [Suffix], sources that are [Reading]) look tokens
// up in the input too. Without a call the input is the one that the target was given ([engine.Session.Encode]).
func (d *Decoder) Encode(ids []int32) { d.input = slices.Clone(ids) }

// Limit sets the most tokens of the texts to come, as Options.MaxTokens did; 0 or less: until the text or the context
// ends.
func (d *Decoder) Limit(tokens int) { d.o.MaxTokens = tokens }

// Generate continues the prompt and yields each token when it is verified. An end-of-text token is yielded last,
// without text. The iteration ends where the text ends ([Stats].End is the reason), or with one error; its Token has
// ID -1 and the text that was still held back. The caller may break out of the loop, and may call Generate again.
//
// The text is what was yielded: where the caller leaves in the middle of a round, the round's other tokens are no part
// of it, nor of its [Stats] and its receipt.
//
// Generate allocates when it begins: samplers, and buffers for a draft and the whole sequence. A round allocates
// nothing of its own.
func (d *Decoder) Generate(ctx context.Context, prompt []int32, s engine.Sampling) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		d.stats, d.times, d.shortage = Stats{}, times{running: true, begun: d.now()}, shortage{}
		d.print, d.out = printer{}, d.out[:0]
		ended := false
		finish := func(end End) {
			ended = true
			d.finish(end)
		}
		defer func() {
			if !ended { // a panic, here or in the caller's loop: who shares passes or experience is not to wait for it
				finish(EndError)
			}
		}()
		err := d.start(ctx, prompt, s)
		for err == nil && d.stats.End == "" {
			err = d.step(ctx)
			for i, t := range d.out {
				if !yield(t, nil) {
					d.leave(i + 1)
					finish(EndCancel)
					return
				}
			}
		}
		if err != nil {
			end := EndError
			if ctx.Err() != nil {
				end = EndCancel
			}
			finish(end)
			yield(Token{ID: -1, Position: len(d.sequence), Text: d.print.rest()}, err)
			return
		}
		finish(d.stats.End)
	}
}

func (d *Decoder) finish(end End) {
	if d.stats.End == "" {
		d.stats.End = end
	}
	d.total, d.running = d.now()-d.begun, false
	if d.o.Ending != nil {
		d.o.Ending()
	}
	if s, ok := d.schedule.(Starting); ok {
		s.End()
	}
	release(d.drafter)
	d.tell()
	if s, ok := d.target.Sequence.(Shared); ok && !absent(s) {
		s.Announce(false)
	}
	if d.following {
		d.clock.Announce(false)
		d.follow(false)
	}
}

// follow has drafts announced at the end of the target's passes, or not any more.
func (d *Decoder) follow(drafts bool) {
	t, ok := d.target.Sequence.(Shared)
	if !ok || drafts == d.following || absent(t) {
		return
	}
	if d.following = drafts && len(d.clock.announced) > 0; d.following {
		t.Follow(&d.clock)
	} else {
		t.Follow(nil)
	}
}

// start checks prompt and options, makes buffers and feeds the prompt without its last token.
func (d *Decoder) start(ctx context.Context, prompt []int32, s engine.Sampling) (err error) {
	if absent(d.target.Sequence) {
		return fmt.Errorf("%w: no target sequence", ErrOptions)
	}
	room := d.target.Context()
	switch {
	case len(prompt) == 0:
		return ErrPrompt
	case len(prompt) > room:
		return fmt.Errorf("prompt of %d tokens: %w: it holds %d", len(prompt), engine.ErrContextFull, room)
	case len(d.o.Stop) > 0 && d.o.Tokenizer == nil:
		return fmt.Errorf("%w: stop strings need a tokenizer", ErrOptions)
	case slices.Contains(d.o.Stop, ""):
		return fmt.Errorf("%w: empty stop string", ErrOptions)
	}
	for i, id := range prompt { // the last one is looked at before the target is given it
		if id < 0 || int(id) >= d.target.Vocab() {
			return fmt.Errorf("prompt, token %d: %w: id %d of %d", i, engine.ErrVocabulary, id, d.target.Vocab())
		}
	}
	if d.verifier = d.o.Verifier; d.verifier == nil {
		if d.verifier = Match(); s.MaxTemperature() == 0 {
			d.verifier = Greedy()
		}
	}
	if d.o.Tokenizer != nil {
		d.print = printer{decoder: d.o.Tokenizer.NewDecoder(), stops: d.o.Stop, shown: d.o.ShownStop}
	}

	d.draft.draftRoom = d.o.room(d.verifier, &s, d.target.Vocab(), d.draft.probs)
	longest := min(d.o.DraftMax, room, d.draft.most())
	if d.drafter == nil {
		longest = 0
	}
	d.sampling = s
	mostForced := 0
	if s.Constraint != nil {
		mostForced = ForcedMost
	}
	d.branches = chains(d.drafter)
	d.treeMax = max(0, d.target.MaxTree()-1)
	nodes := nodes(longest, d.branches, d.treeMax) + mostForced
	final := room // length of the sequence; one more token may follow that is not fed
	if d.o.MaxTokens > 0 && d.o.MaxTokens < room-len(prompt) {
		final = len(prompt) + d.o.MaxTokens
	}
	d.sequence = append(slices.Grow(d.sequence[:0], final+nodes+2), prompt...)
	d.draft.alloc(nodes)
	d.draft.vocab, d.draft.isEnd, d.draft.schedule, d.draft.minTokens = d.target.Vocab(), d.o.EOG, d.schedule, d.o.DraftMin
	d.draft.rules = s.Constraint
	d.draft.reset(0, 0, 0)
	d.fed, d.parent = slices.Grow(d.fed[:0], nodes+1), slices.Grow(d.parent[:0], nodes+1)
	path := longest + mostForced + 1
	d.path, d.verification.Path = slices.Grow(d.path[:0], path), slices.Grow(d.verification.Path[:0], path)
	d.out = slices.Grow(d.out[:0], path)
	d.stats.Prompt = len(prompt)
	d.stats.DraftedAt, d.stats.AcceptedAt = make([]int, path), make([]int, path)

	s.ConstraintFrom = len(prompt)
	d.constraint.start(s)
	input, err := d.encoderInput()
	if err != nil {
		return err
	}
	if err := d.Recall(); err != nil {
		return err
	}
	setup := Setup{
		Experience: d.o.Experience,
		Target:     d.target.Sequence, Prompt: prompt, Input: input, Sampling: s, Vocab: d.target.Vocab(),
		Longest: longest, Most: max(0, d.o.MaxTokens),
		NeedsProbs: d.verifier.NeedsProbs(), NeedsConfidence: d.schedule.NeedsConfidence(),
	}
	d.clock = Clock{wall: d.now, announced: d.clock.announced[:0]}
	d.target.clock, setup.Clock = &d.clock, &d.clock
	for _, part := range []any{d.schedule, d.drafter} {
		if p, ok := part.(Clocked); ok {
			p.SetClock(d.clock.Now)
		}
	}
	_, setup.Evaluated = d.verifier.(Evaluator)
	if p, ok := d.schedule.(Starting); ok {
		p.Start(&setup, d.drafter)
	}
	drafting, err := d.o.DraftSampling.drafting(setup)
	if err != nil {
		return err
	}
	if err := d.verifier.Start(setup); err != nil {
		return err
	}
	if d.chooser = nil; d.o.Chosen && (d.o.LogProbs || d.o.Top > 0) {
		if d.chooser, err = sampling.New(setup.Vocab, s); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	begin := d.now()
	defer func() { d.prefill = d.now() - begin }()
	if err := d.target.encode(ctx, input); err != nil {
		return err
	}
	if err := d.target.open(); err != nil {
		return err
	}
	if err := d.target.rewind(prompt, 0); err != nil {
		return err
	}
	var listeners []Attentive
	if longest > 0 {
		listeners = attentive(d.drafter, d.target.Sequence)
	}
	if setup.Evaluated && len(listeners) > 0 {
		return fmt.Errorf("%w: a verifier that evaluates drafts by itself gives no hidden states, which the drafter needs",
			ErrOptions)
	}
	defer func() {
		if err != nil {
			d.clock.Announce(false)
		}
	}()
	if err := d.target.attend(ctx, listeners, prompt); err != nil {
		return err
	}
	d.target.reserve(final + path)
	if d.o.Scored != nil { // what the cache holds has no logits
		if err := d.target.cut(0); err != nil {
			return err
		}
	}
	d.stats.Reused = len(d.target.tokens)
	if d.target.prefilled = d.o.Prefilled; d.target.prefilled != nil {
		d.target.prefilled(d.stats.Reused)
	}
	passes, err := 0, error(nil)
	if d.o.Scored != nil {
		passes, err = d.score(ctx, prompt)
	}
	if err == nil {
		var more int
		more, err = d.target.prefill(ctx, prompt[:len(prompt)-1])
		passes += more
	}
	d.stats.PrefillPasses = passes
	if err == nil && d.drafter != nil {
		err = d.drafter.Start(ctx, drafting)
		d.clock.Announce(false)
		d.follow(true)
	}
	return err
}

// scoreChunk is how many tokens of a prompt are scored in a pass, at most: a row of logits each.
const scoreChunk = 32

// score feeds the prompt without its last token and describes each token behind the first by the model's own logits.
func (d *Decoder) score(ctx context.Context, prompt []int32) (passes int, err error) {
	most := scoreChunk
	if d.o.Rows > 0 {
		most = min(most, d.o.Rows)
	}
	for at := 0; at < len(prompt)-1; passes++ {
		chunk := prompt[at:min(at+most, len(prompt)-1)]
		logits, err := d.target.chain(ctx, chunk, engine.All)
		if err != nil {
			return passes, err
		}
		for i := range logits.Rows() {
			t := Token{ID: prompt[at+i+1], Position: at + i + 1, Source: SourceTarget}
			row := logits.Row(i)
			d.o.raw(&t, row)
			for _, x := range row {
				if x >= row[t.ID] {
					t.Rank++
				}
			}
			d.o.Scored(t)
		}
		if at += len(chunk); d.target.prefilled != nil {
			d.target.prefilled(at)
		}
	}
	return passes, nil
}

// raw fills in the probabilities of a token by the logits that predicted it.
func (o *Options) raw(t *Token, row []float32) {
	if o.LogProbs {
		t.LogProb = sampling.LogProb(row, t.ID)
	}
	if o.Top > 0 {
		t.Top = top(row, o.Top)
	}
}

// encoderInput is the encoder's input of the text, nil for a target without an encoder.
func (d *Decoder) encoderInput() ([]int32, error) {
	switch e := d.target.encoderOf(); {
	case e == nil && d.input != nil:
		return nil, fmt.Errorf("%w: an encoder's input, and a target without an encoder", ErrOptions)
	case e == nil:
		return nil, nil
	case d.input != nil:
		return d.input, nil
	case e.Input() == nil:
		return nil, fmt.Errorf("%w: the target is an encoder-decoder model: Encode sets its input", engine.ErrInput)
	default:
		return e.Input(), nil
	}
}

// Recall takes over what the decoder's [Experience] holds. The first text does this by itself; before it, a caller
// learns whether the state fits. One that does not is an error that wraps [ErrState].
func (d *Decoder) Recall() error {
	if d.recalled {
		return nil
	}
	s := d.o.Experience.now()
	if l, ok := d.schedule.(Learning); ok && s.Schedule != nil {
		if err := l.Restore(s.Schedule); err != nil {
			return fmt.Errorf("schedule: %w", err)
		}
	}
	if l, ok := d.drafter.(Learning); ok && s.Drafter != nil {
		if err := l.Restore(s.Drafter); err != nil {
			return fmt.Errorf("drafter: %w", err)
		}
	}
	d.recalled = true
	return nil
}

// tell adds what the decoder learned to its Experience, if others may ask for it.
func (d *Decoder) tell() {
	if d.own || !d.recalled || d.drafter == nil {
		return
	}
	var s learnedState
	for _, part := range []struct {
		who any
		to  *json.RawMessage
	}{{d.schedule, &s.Schedule}, {d.drafter, &s.Drafter}} {
		l, ok := part.who.(Learning)
		if !ok {
			continue
		}
		state, err := l.Save()
		if err != nil {
			return // what was known stays
		}
		*part.to = state
	}
	d.o.Experience.mu.Lock()
	defer d.o.Experience.mu.Unlock()
	d.o.Experience.learned = s
}

// Stats returns the figures of the current or last text.
func (d *Decoder) Stats() Stats {
	s := d.stats
	total := d.total
	if d.running { // also while the tokens of the last round are given out
		total = d.now() - d.begun
	}
	s.Prefill, s.Draft, s.Verify, s.Total = d.prefill.Seconds(), d.drafting.Seconds(), d.verifying.Seconds(),
		total.Seconds()
	s.Other = max(0, (total - d.prefill - d.drafting - d.verifying).Seconds())
	if s.TargetPasses > 0 {
		s.TokensPerPass = float64(s.Generated) / float64(s.TargetPasses)
	}
	s.DraftedAt = append([]int{}, trim(s.DraftedAt)...)
	s.AcceptedAt = append([]int{}, s.AcceptedAt[:len(trim(d.stats.DraftedAt))]...)
	return s
}
