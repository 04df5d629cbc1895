package serve

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/specgo/spec/speculative"
)

// piece is what a decoder tells about one token, or about its end.
type piece struct {
	index int // of the answer
	token speculative.Token
	text  string             // the token's, with the spelling of marks
	round *round             // that the token is the first of
	stats *speculative.Stats // so far, if asked for
	last  bool
	end   speculative.End
	err   error
}

// round is what a chunk tells about a round of speculation.
type round struct {
	Drafted  int     `json:"n_draft"`
	Accepted int     `json:"n_accept"`
	Seconds  float64 `json:"seconds"`
}

// run computes the plan's answers, at most places at a time, and calls take with what the decoders bring, on this
// goroutine. An error of take ends the decoders. run returns when all of them have ended.
func (p *plan) run(ctx context.Context, places int, take func([]piece) error) error {
	ctx, cancel := context.WithCancel(ctx)
	b := newBuffer(p.m.server.o.StreamBuffer, len(p.tasks))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	next := make(chan int, len(p.tasks))
	for i := range p.tasks {
		next <- i
	}
	close(next)
	for range min(places, len(p.tasks)) {
		running.Go(func() {
			for i := range next {
				b.close(p.answer(ctx, i, b))
			}
		})
	}
	var pieces []piece
	for {
		var more bool
		var err error
		if pieces, more, err = b.take(ctx, pieces); err != nil || !more {
			return err
		}
		if err := take(pieces); err != nil {
			return err
		}
	}
}

// answer computes one answer and returns its last piece. A panic ends this answer alone.
func (p *plan) answer(ctx context.Context, index int, b *buffer) (last piece) {
	last = piece{index: index, last: true}
	defer func() {
		if x := recover(); x != nil {
			p.m.server.panicked(x, debug.Stack())
			last = piece{index: index, last: true, err: fmt.Errorf("panic: %v", x)}
		}
	}()
	t := &p.tasks[index]
	g := &generation{plan: p, task: t, index: index}
	if err := g.open(ctx); err != nil {
		last.err = err
		return last
	}
	defer g.close()
	overflow := false
	for token, err := range g.decoder.Generate(ctx, t.prompt, t.sampling) {
		if err != nil {
			if last.err = p.bannedError(kvError(err)); token.Text != "" {
				b.put(piece{index: index, token: token, text: token.Text})
			}
			break
		}
		if overflow = !b.put(g.piece(token)); overflow {
			break
		}
	}
	stats := g.stats()
	last.stats, last.end = &stats, stats.End
	if overflow {
		last.err = errSlowReader
	}
	return last
}

// generation is a task under way.
type generation struct {
	*plan
	task    *task
	index   int
	target  sequence
	decoder *speculative.Decoder
	closers []func()

	round *round // waits for its first token
}

// open makes the decoder: sequences, drafter, and what was learned from earlier texts.
func (g *generation) open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	m, t := g.m, g.task
	target, err := m.target.open(ctx, g.salt(m.server))
	if err != nil {
		return err
	}
	g.target = target
	g.closers = append(g.closers, target.Close)
	drafter, done, err := m.newDrafter(ctx, g.spec, target)
	if err != nil {
		return err
	}
	g.closers = append(g.closers, done)
	o := g.decoderOptions(t)
	if g.trace {
		o.Trace = func(r *speculative.Round) {
			g.round = &round{r.Drafted(), r.Accepted(), (r.Drafting + r.Verifying).Seconds()}
		}
	}
	o.Experience = m.experience.Of(g.spec)
	g.decoder = speculative.New(target, drafter, o)
	return nil
}

// close gives the sequences back.
func (g *generation) close() {
	for _, f := range g.closers {
		f()
	}
	g.closers = nil
}

// stats are the text's figures so far.
func (g *generation) stats() speculative.Stats {
	s := g.decoder.Stats()
	s.Reused = min(s.Reused+g.target.Reused(), s.Prompt)
	return s
}

// piece tells about a token.
func (g *generation) piece(t speculative.Token) piece {
	p := piece{index: g.index, token: t, text: t.Text}
	if g.format != nil && g.m.tok.IsControl(t.ID) { // decoders leave control tokens out, and the parser needs the marks
		p.text += g.format.Spell(g.m.tok, t.ID)
	}
	if g.trace {
		p.round, g.round = g.round, nil
	}
	if g.wantTimings {
		s := g.stats()
		p.stats = &s
	}
	return p
}

// seconds is a duration in milliseconds, as timings have it.
func milliseconds(seconds float64) float64 { return seconds * float64(time.Second/time.Millisecond) }
