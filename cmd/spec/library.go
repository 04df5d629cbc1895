package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

// writing is a model that writes the texts of generate and chat, and what the flags ask of each.
type writing struct {
	*library.Model
	request library.Request // but for what the text is of
	prefill *watched
	learned *learned
	prompts *promptFile // of --prompt-cache; nil: none
}

// logitRows are the most rows of logits of a pass: those of drafts, and of tokens that a grammar forces. A conversation
// has at least those of a usual draft, for /draft may change what drafts.
func (g *generate) logitRows(conversation bool) int {
	forced := 0
	if len(g.grammarFlags.given()) > 0 {
		forced = speculative.ForcedMost
	}
	rows := g.verifyRows(g.model, forced)
	if conversation {
		rows = max(rows, 1+speculative.DefaultDraftMax)
	}
	return rows
}

// open loads the models of the flags. template is where the chat template comes from; nil: none is needed.
func (g *generate) open(ctx context.Context, p *program, rt *engine.Runtime,
	template func(*engine.Model) (source string, stops []string, err error)) (w *writing, err error) {
	kv, _ := g.cache.kvType() // checked
	g.beside = g.drafts
	g.sessions = engine.Sessions{Tokens: g.context, KV: kv, StateBytes: g.stateBytes, Rows: g.logitRows(template != nil),
		Heads: true, Own: g.choice.Needs()&speculative.NeedsTarget != 0, Alone: true,
		DraftVocab: g.vocab.tokens, DraftText: speculative.DraftText}
	if err := g.promptCache.findPrints(p, &g.modelFlags); err != nil {
		return nil, err
	}
	target, err := g.target(ctx, p, rt)
	if err != nil {
		return nil, err
	}
	parts := library.Parts{Target: target, Close: target.Close}
	defer func() {
		if err != nil {
			parts.Close()
		}
	}()
	if _, err := tokenizerOf(target, g.name()); err != nil {
		return nil, err
	}
	if parts.Adapters, err = g.adapters.open(ctx, target); err != nil {
		return nil, err
	}
	o, err := g.options(target)
	if err != nil {
		return nil, err
	}
	w = &writing{prefill: &watched{bar: terminal.NewBar(p.stderr, "prompt")}, learned: &learned{name: g.learned}}
	o.Experience, o.Around = &w.learned.all, w.prefill.around
	if template != nil {
		if o.Template, o.Stops, err = template(target); err != nil {
			return nil, err
		}
	}
	if w.request, err = g.request(); err != nil {
		return nil, err
	}
	if w.request.Previous, err = g.earlierAnswer(ctx); err != nil {
		return nil, err
	}
	files, choice := g.drafts, g.chosen(g.model)
	without := choice.Drafter != "" && !choice.Needs().Draft() ||
		choice.Drafter == "" && g.noCache && len(files) == 0 // a draft head needs its cache
	if !without {
		if err = g.openDrafts(ctx, p, rt, &parts, files, choice.Needs()); err != nil {
			return nil, err
		}
	}
	if err = g.openTexts(ctx, p, &parts, &o); err != nil {
		return nil, err
	}
	if w.prompts, err = g.promptCache.open(&parts, &o); err != nil {
		return nil, err
	}
	if o.Memory.DraftForm = g.draftFormRoom(target); g.memory > 0 {
		o.Memory.Rows = g.sessions.Rows
	}
	if w.Model, err = library.New(parts, o); err != nil {
		w.prompts.abort()
		return nil, err
	}
	return w, g.learn(ctx, w)
}

// options are the flags' of the model.
func (g *generate) options(target *engine.Model) (o library.Options, err error) {
	o = library.Options{Name: g.name(), StateBytes: g.stateBytes, Parallel: 1, NoCache: g.noCache}
	if o.KV, err = g.cache.kvType(); err != nil {
		return o, err
	}
	o.Context, err = contextSize(g.context, target, g.name())
	return o, err
}

// request is what the flags ask of a text. Without a seed one is drawn.
func (g *generate) request() (r library.Request, err error) {
	r = library.Request{
		MaxTokens: max(g.predict, 0), IgnoreEOS: g.ignoreEOS, Sampling: g.sampling, Speculation: g.chosen(g.model),
		LogProbs: g.logprobs,
	}
	if g.predict == 0 {
		r.MaxTokens = 1 // where the prompt is computed all the same, see write
	}
	for _, text := range g.stop {
		if !g.prompt.verbatim {
			text = unescape(text)
		}
		r.Stop = append(r.Stop, text)
	}
	s := &r.Sampling
	if r.Breakers = g.breakers; g.breakers == nil {
		r.Breakers = library.DefaultBreakers()
	}
	s.Seed = seedOf(g.seed)
	s.SetLastN(s.PenaltyLastN)
	r.Constraint, err = g.constraint()
	return r, err
}

// seedOf is the seed that -s gives: of -1 another each time.
func seedOf(n int64) uint64 {
	if n < 0 {
		return uint64(rand.Uint32())
	}
	return uint64(n)
}

// earlierAnswer reads the file of --draft-from.
func (s *speculation) earlierAnswer(ctx context.Context) (a library.Prompt, err error) {
	if s.earlier == "" {
		return a, nil
	}
	file, err := openInput(ctx, s.earlier)
	if err != nil {
		return a, err
	}
	text, err := readInput(ctx, file, textLimit)
	switch {
	case errors.Is(err, errTooLong):
		return a, fmt.Errorf("--draft-from %s: more than %s", s.earlier, size(textLimit))
	case err == nil && len(text) == 0:
		return a, fmt.Errorf("--draft-from %s: an empty file", s.earlier)
	}
	return library.Prompt{Text: string(text)}, err
}

// openDrafts loads what drafts for a target: draft models of files, or what is in the target's own file, or beside the
// embedded one.
func (m *modelFlags) openDrafts(ctx context.Context, p *program, rt *engine.Runtime, to *library.Parts, files []string,
	needs speculative.Needs) error {
	add := func(draft *engine.Model, err error) error {
		if err != nil {
			return err
		}
		if to.Draft == nil {
			to.Draft = draft
		} else {
			to.Drafts = append(to.Drafts, draft)
		}
		before := to.Close
		to.Close = func() { before(); draft.Close() }
		return nil
	}
	switch {
	case len(files) > 0:
	case m.model == "":
		files = []string{""} // the embedded one
	case to.Target.HasMTP():
		return add(m.openMTP(ctx, p, rt, to.Target))
	}
	for _, file := range files {
		if err := add(m.openNamedDraft(ctx, p, rt, to.Target, file, needs)); err != nil {
			return err
		}
	}
	return nil
}

// requestFlags are the flags of fields of requests, and words for others.
var requestFlags = map[string]string{"logit_bias": "-l", "prompt": "the prompt", "messages": "the conversation",
	"previous": "--draft-from", "thinking_budget": "--reasoning-budget"}

// requestError names the flags of an error about a request.
func requestError(err error) error {
	e := (*library.RequestError)(nil)
	if !errors.As(err, &e) {
		return err
	}
	if c := (*speculative.ChoiceError)(nil); errors.As(err, &c) {
		return flagError(c)
	}
	if e.Code == library.CodeContext {
		return fmt.Errorf("%s has %d tokens, the context holds %d (-c), with the answer",
			requestFlags[e.Field], e.Tokens, e.Context)
	}
	return fmt.Errorf("%s: %s", cmp.Or(requestFlags[e.Field], e.Field), e.Reason)
}

// watchedPrompt is the length in tokens from which a prompt's prefill is shown on a terminal.
const watchedPrompt = 256

// watched is a session whose prefill moves a bar, if the prompt is long.
type watched struct {
	*engine.Session
	bar    *terminal.Bar // nil: there is no terminal
	prompt int           // tokens
}

// shown is the bar, nil if nothing is shown.
func (w *watched) shown() *terminal.Bar {
	if w.prompt < watchedPrompt {
		return nil
	}
	return w.bar
}

// around watches a session.
func (w *watched) around(s library.Sequence) library.Sequence {
	session, ok := s.(*engine.Session)
	if w.shown() == nil || !ok {
		return s
	}
	w.Session = session
	return w
}

func (w *watched) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	out, err := w.Session.Eval(ctx, tokens, parents, want)
	if n := w.Len(); n < w.prompt-1 {
		w.bar.Set(int64(n), int64(w.prompt), "")
	} else {
		w.bar.Clear()
	}
	return out, err
}
