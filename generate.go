package spec

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/speculative"
)

// Generate writes the answers of a request. An event comes for each token that became certain, and one for the end of
// each answer; those of several answers come in turn as they are written. The iteration ends with the answers, or with
// the first error, whose event has what was held back until then. Breaking out of the loop ends the answers.
func (m *Model) Generate(ctx context.Context, r Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		t, err := m.Prepare(ctx, r)
		if err == nil {
			defer t.Close()
			err = t.Compile(ctx)
		}
		if err != nil {
			yield(Event{Token: speculative.Token{ID: -1}}, err)
			return
		}
		t.Generate(ctx, Run{})(yield)
	}
}

// Run says how a task's answers are computed.
type Run struct {
	AtOnce int // answers; 0: all of them; a negative number is an error, as of Buffer
	// Buffer, if it is not 0, is the most events that wait for the loop: when it is slower, the answers end with
	// ErrSlowReader. 0 lets them wait for the loop.
	Buffer int

	// Ending, if it is set, is called when an answer has ended and its sequence has not been given back: passes that are
	// shared go on without it afterwards. Who is to have its place then is announced by [Task].Expect.
	Ending func(answer int)

	// Began and Ended, if they are set, are called when an answer is about to be computed and when its sequence has
	// been given back, on the goroutine of the answer: with what the sequence held, also where the answer failed. That
	// is prompt and answer, to the last of its tokens or to the one before, with those of a stop text that ended it. The
	// tokens are the caller's own.
	Began func(answer int)
	Ended func(answer int, held Held)

	// Figures, if it is set, is given the figures of each answer that was under way, however it has ended: also where
	// the loop was left, which gets no last event then. It is called before Ended, on the goroutine of the answer.
	Figures func(answer int, s speculative.Stats)
}

// aheadOfLoop is how many events may wait where answers wait for the loop.
const aheadOfLoop = 64

// Generate writes the answers, see [Model.Generate]. Compile has been called. A single answer without a Buffer is
// computed by the loop's goroutine, others each by one of their own: a panic there is the error of its answer.
func (t *Task) Generate(ctx context.Context, o Run) iter.Seq2[Event, error] {
	if o.AtOnce < 0 || o.Buffer < 0 {
		return func(yield func(Event, error) bool) {
			yield(Event{Token: speculative.Token{ID: -1}}, fmt.Errorf("spec: %w: Run.AtOnce %d, Run.Buffer %d: negative",
				engine.ErrUsage, o.AtOnce, o.Buffer))
		}
	}
	if t.Answers() == 1 && o.Buffer == 0 {
		return func(yield func(Event, error) bool) {
			g := &generation{Task: t, o: &o}
			e, err := g.run(ctx, func(e Event) bool { t.named(&e); return yield(e, nil) })
			if err != errLeft {
				t.named(&e)
				yield(e, err)
			}
		}
	}
	return func(yield func(Event, error) bool) { t.together(ctx, o, yield) }
}

// together computes several answers, so many at a time, and yields their events on this goroutine. It returns when all
// of them have ended.
func (t *Task) together(ctx context.Context, o Run, yield func(Event, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	all, most := t.Answers(), o.Buffer
	if most == 0 {
		most = aheadOfLoop
	}
	b := newBuffer(most, all, o.Buffer == 0)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	next := make(chan int, all)
	for i := range all {
		next <- i
	}
	close(next)
	places := all
	if o.AtOnce > 0 {
		places = min(places, o.AtOnce)
	}
	for range places {
		running.Go(func() {
			for i := range next {
				if err := ctx.Err(); err != nil { // it does not begin any more
					b.close(message{Event{Answer: i, Token: speculative.Token{ID: -1}}, err})
					continue
				}
				b.close(t.alone(ctx, i, b, &o))
			}
		})
	}
	var messages []message
	for {
		var more bool
		var err error
		messages, more, err = b.take(ctx, messages)
		if err != nil && err != ErrSlowReader { // ctx has ended: so do the answers, and say what they held back
			running.Wait()
			messages, _, _ = b.now(messages)
		}
		if err != nil && len(messages) == 0 {
			yield(Event{Token: speculative.Token{ID: -1}}, err)
			return
		}
		if err == nil && !more {
			return
		}
		for i := range messages {
			m := &messages[i]
			m.event.More = i+1 < len(messages)
			if t.named(&m.event); !yield(m.event, m.err) || m.err != nil {
				return
			}
		}
	}
}

// alone computes one answer and returns its last event. A panic ends this answer alone.
func (t *Task) alone(ctx context.Context, index int, b *buffer, o *Run) (last message) {
	defer func() {
		if x := recover(); x != nil {
			t.m.tellPanic(x, debug.Stack())
			last = message{Event{Answer: index, Token: speculative.Token{ID: -1}}, fmt.Errorf("%w: %v", engine.ErrPanic, x)}
		}
	}()
	g := &generation{Task: t, index: index, o: o}
	e, err := g.run(ctx, func(e Event) bool { return b.put(ctx, message{event: e}) })
	if err == errLeft {
		if err = ctx.Err(); err == nil {
			err = ErrSlowReader
		}
	}
	return message{e, err}
}

// generation is an answer under way.
type generation struct {
	*Task
	o       *Run
	index   int
	target  Sequence
	decoder *speculative.Decoder
	read    *reader
	closers []func()
	put     func(Event) bool // takes events but for the last; false: no more are wanted
	left    bool             // it has said so
}

// show gives an event to the reader; false: no more are wanted.
func (g *generation) show(e Event) bool {
	g.left = g.left || !g.put(e)
	return !g.left
}

// showProgress makes events of the prompt's progress. When nobody reads them, stop ends the answer. What a shared
// sequence had already is known behind its first pass.
func (g *generation) showProgress(o *speculative.Options, own Sequence, stop func()) {
	if !g.r.Progress {
		return
	}
	if g.start != nil {
		shown := false
		o.Prefilled = func(int) { // the encoder has read all of it
			if shown || g.left {
				return
			}
			shown = true
			n := len(g.Prompt(g.index))
			p := Progress{Total: n, Cached: min(reused(own), n), Done: n}
			if !g.show(Event{Answer: g.index, Token: speculative.Token{ID: -1}, Progress: &p}) {
				stop()
			}
		}
		return
	}
	total := len(g.Prompt(g.index))
	p, calls := Progress{Total: total, Done: -1}, 0
	show := func(n int) {
		if n <= p.Done {
			return
		}
		p.Done = n
		now := p
		if !g.left && !g.show(Event{Answer: g.index, Token: speculative.Token{ID: -1}, Progress: &now}) {
			stop()
		}
	}
	o.Prefilled = func(n int) {
		if calls++; calls == 1 {
			if p.Cached = n; n < total-1 {
				return
			}
		}
		if calls == 2 {
			p.Cached = min(p.Cached+reused(own), total-1)
		}
		show(p.Cached)
		if n == total-1 { // the last one is part of the first round
			n = total
		}
		show(n)
	}
}

// errLeft is the error of an answer whose events nobody takes any more.
var errLeft = fmt.Errorf("spec: left")

// run computes the answer. put takes its events but for the last, which is returned; it reports false if no more are
// wanted.
func (g *generation) run(ctx context.Context, put func(Event) bool) (last Event, err error) {
	last = Event{Answer: g.index, Token: speculative.Token{ID: -1}}
	defer g.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if g.put = put; g.o.Began != nil {
		g.o.Began(g.index)
	}
	if err := g.open(ctx, stop); err != nil {
		return last, err
	}
	ended := false // by its lines
	var written []int32
	for token, err := range g.decoder.Generate(ctx, g.begins(g.index), g.Sampling(g.index)) {
		if err != nil {
			if g.left {
				return g.read.end(errLeft, false), errLeft
			}
			if token.Text != "" { // what was held back
				if e, _ := g.read.token(token); !g.show(e) {
					return g.read.end(errLeft, false), errLeft
				}
			}
			err = g.bannedError(err)
			return g.read.end(err, false), err
		}
		g.m.form.writes.Store(true)
		if g.m.own != nil && token.ID >= 0 {
			written = append(written, token.ID)
		}
		var e Event
		if e, ended = g.read.token(token); g.left || !g.show(e) {
			return g.read.end(errLeft, false), errLeft
		}
		if ended {
			break
		}
	}
	if g.m.own != nil {
		g.m.own.Add(g.r.Salt, written)
	}
	if g.r.Written != nil {
		if err := g.r.Written(g.decoder); err != nil {
			return g.read.end(err, false), err
		}
	}
	return g.read.end(nil, ended), nil
}

// open makes the decoder: sequences, drafter, and what was learned from earlier texts.
func (g *generation) open(ctx context.Context, stop func()) error {
	if g.lacks() {
		return fmt.Errorf("spec: %w: Generate of a task that is not compiled, or is closed", engine.ErrUsage)
	}
	own, done, err := g.m.target.open(ctx, g.r.Salt, g.adapters)
	if err != nil {
		return err
	}
	g.closers = append(g.closers, done)
	g.m.form.writes.Store(false)
	if g.target, err = g.m.handed(own); err != nil {
		return err
	}
	drafter, err := g.newDrafter(ctx, own)
	if err != nil {
		return err
	}
	o := g.decoderOptions()
	if g.o.Ending != nil {
		o.Ending = func() { g.o.Ending(g.index) }
	}
	g.showProgress(&o, own, stop)
	if g.r.Scored {
		o.Scored = func(t speculative.Token) {
			if !g.left && !g.show(Event{Answer: g.index, Token: speculative.Token{ID: -1}, Scored: &t}) {
				stop()
			}
		}
	}
	g.read = g.newReader(g.index, func() speculative.Stats {
		s := g.decoder.Stats()
		if g.start != nil { // its one token is no part of the request
			s.Prompt, s.Reused = len(g.Prompt(g.index)), 0
		}
		s.Reused = min(s.Reused+reused(own), s.Prompt)
		return s
	})
	if g.r.Rounds || g.r.Trace != nil {
		o.Trace = func(r *speculative.Round) {
			g.read.round = &Round{r.Drafted(), r.Accepted(), (r.Drafting + r.Verifying).Seconds()}
			if g.r.Trace != nil {
				g.r.Trace(r)
			}
		}
	}
	g.decoder = speculative.New(g.target, drafter, o)
	if g.start != nil {
		g.decoder.Encode(g.Prompt(g.index))
	}
	return nil
}

// close gives the sequences back.
func (g *generation) close() {
	held := Held{Salt: g.r.Salt, set: g.adapters}
	if g.o.Figures != nil && g.decoder != nil {
		g.o.Figures(g.index, g.read.stats())
	}
	if g.o.Ended != nil && g.target != nil {
		held.Tokens = slices.Clone(g.target.Tokens())
	}
	for _, f := range g.closers {
		f()
	}
	g.closers = nil
	if g.o.Ended != nil {
		g.o.Ended(g.index, held)
	}
}

// newDrafter makes the drafter of the answer, and what must be closed after it.
func (g *generation) newDrafter(ctx context.Context, target Sequence) (speculative.Drafter, error) {
	d, err := g.chosenDrafter(ctx, target)
	if err == nil && len(g.previous) > 0 {
		d = speculative.Previous(speculative.PreviousOptions{Tokens: g.previous, Else: d})
	}
	return d, err
}

// chosenDrafter is the request's, without an earlier answer.
func (g *generation) chosenDrafter(ctx context.Context, target Sequence) (speculative.Drafter, error) {
	if g.r.Drafter != nil {
		return g.r.Drafter(target)
	}
	m := g.m
	if a := m.alone; a != nil && a.drafter != nil && slices.Equal(a.each, g.each) && a.salt == g.r.Salt &&
		a.set == g.adapters && a.target == target {
		return a.drafter, nil // it goes on with what its sequence holds
	}
	var all []speculative.Drafter
	for i, c := range g.each {
		p := speculative.Parts{Target: m.parts.Target, Session: engine.SessionOptions{
			Context: m.context, KV: m.session.KV, NoCache: m.session.NoCache,
			Adapters: g.adapters}, Form: m.form.later}
		for _, x := range m.texts {
			p.Sources = append(p.Sources, speculative.IndexSource(x))
		}
		if m.own != nil {
			p.Sources = append(p.Sources, speculative.RecentSource(m.own, g.r.Salt))
		}
		// What was asked for drafts from the first token on, so that drafts do not depend on time; the default does not
		// delay that token.
		if asked := g.drafts != "" || m.choice.Drafter != ""; asked && c.Needs()&speculative.NeedsForm != 0 {
			if err := m.form.make(ctx); err != nil {
				return nil, err
			}
		}
		if c.Needs().Draft() {
			seq, done, err := m.openDraft(ctx, m.drafts[i], target, g.r.Salt, &g.adapters)
			if err != nil {
				return nil, err
			}
			p.Draft, g.closers = seq, append(g.closers, done)
		}
		d, err := c.NewDrafter(p)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	d := all[0]
	if len(all) > 1 {
		d = speculative.Merge(all...)
	}
	if m.alone != nil {
		m.alone.each, m.alone.salt, m.alone.set, m.alone.drafter = g.each, g.r.Salt, g.adapters, d
		m.alone.target = target
	}
	return d, nil
}

// openDraft makes a sequence of a draft model, or of a draft head, for a text. The adapters of set are the target's.
func (m *Model) openDraft(ctx context.Context, d *draft, target Sequence, salt string, set *engine.AdapterSet) (
	s speculative.Sequence, done func(), err error) {
	if d.own != nil {
		if d.model.Head() != nil {
			salt = readSalt(salt, set)
		}
		return d.own.open(ctx, salt, engine.AdapterSet{})
	}
	o := engine.SessionOptions{Context: min(m.context, d.model.Config().Context), Form: d.form}
	if own, ok := target.(*engine.Session); ok {
		lent := m.alone.lent[d]
		if lent == nil {
			o.KV, o.Target = m.session.KV, own
			if lent, err = d.model.NewSession(o); err != nil {
				return nil, nil, err
			}
			m.alone.lent[d] = lent
		}
		if lent.Target() != own { // which was begun again, with other adapters
			err = lent.SetTarget(own)
		}
		return lent, func() {}, err
	}
	t, ok := target.(*shared.Session)
	if !ok {
		return nil, nil, fmt.Errorf("%s: %w: a draft head that looks at the cache of a sequence that has none to show",
			m.name, engine.ErrUnsupported)
	}
	lent, err := shared.NewLentSession(d.model, t, o)
	if err != nil {
		return nil, nil, err
	}
	return lent, lent.Close, nil
}
