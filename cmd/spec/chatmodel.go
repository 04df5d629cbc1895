package main

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

// partner is what answers in a conversation: a model and its chat template.
type partner struct {
	*writing
	template *chat.Template
}

// answering opens the model of the flags for a conversation.
func (g *generate) answering(ctx context.Context, p *program, rt *engine.Runtime) (a partner, err error) {
	a.writing, err = g.open(ctx, p, rt, func(m *engine.Model) (string, []string, error) {
		return g.templateSource(m, g.name())
	})
	if err != nil {
		return a, err
	}
	if a.template, err = a.Template(); err != nil {
		a.Close()
		a.prompts.abort()
		return a, cmp.Or(errors.Unwrap(err), err)
	}
	a.request.Variables, a.request.ThinkingBudget = g.variables, g.budget
	if _, given := g.variables["enable_thinking"]; !given && (g.reasoning == "on" || g.reasoning == "off") {
		a.request.Variables = maps.Clone(g.variables)
		if a.request.Variables == nil {
			a.request.Variables = map[string]any{}
		}
		a.request.Variables["enable_thinking"] = g.reasoning == "on"
	}
	return a, nil
}

// another opens the model that a person names, with the flags of the first one but for what belongs to that one alone:
// its draft models, its adapters and what was learned of it.
func (g *generate) another(ctx context.Context, p *program, rt *engine.Runtime, name string) (a partner, err error) {
	path, err := modelByName(name, p.env("HF_ENDPOINT"))
	if err == nil {
		path, err = localPath(ctx, p, path)
	}
	if err != nil {
		return a, err
	}
	if err := g.conversable(path); err != nil {
		return a, err
	}
	o := *g
	o.model, o.drafts, o.adapters, o.learned, o.promptCache = path, nil, adapterFlags{}, "", promptCache{}
	o.conversing = true
	if needs := o.choice.Needs(); needs.Draft() && !ownDraft(needs, path) { // of the draft model that is left behind
		o.choice.Drafter = ""
	}
	return o.answering(ctx, p, rt)
}

// model says what answers, or has another model answer from now on. The messages stay, and so do the settings; what
// drafts is the flags' choice again. The old model answers on where the new one cannot be opened.
func (d *dialog) model(ctx context.Context, name string) error {
	if name != "" {
		opening, done := d.stop.answering(ctx) // a download, or reading weights, may take long
		next, err := d.another(opening, name)
		stopped := isInterrupt(err) && d.stop.stopped()
		done()
		if stopped {
			d.note("(stopped)")
			return nil
		}
		if err != nil {
			return err
		}
		next.request.Sampling = d.request.Sampling
		had := d.Target().Tokenizer()
		if s := &next.request.Sampling; len(s.LogitBias) > 0 && next.Target().Tokenizer().Compatible(had) != nil {
			s.LogitBias = nil
			d.note("-l, --logit-bias, is of tokens of %s: it holds no longer", terminal.Line(d.Name(), 0))
		}
		next.request.Trace = func(r *speculative.Round) { d.estimate.round(r) }
		if err := d.end(); err != nil {
			d.note("%v", err)
		}
		d.partner, d.estimate, d.last = next, estimate{}, turn{}
	}
	d.note("%s, %s, a context of %d tokens", terminal.Line(d.Name(), 0), size(d.Target().Bytes()), d.Context())
	return nil
}
