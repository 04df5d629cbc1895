package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// A plan is a request bound to a model: what is to be computed, and how its answers are read.
type plan struct {
	*request
	m     *loaded
	tasks []task // one for each answer, in the order of their indices

	format    *chat.Format // of a conversation's answers; nil: they are plain text
	offered   []chat.Tool  // what the answer may call
	reasoning bool         // the answer begins inside of reasoning
}

// task is one answer: token ids in, token ids out.
type task struct {
	prompt   []int32
	echo     string // text of the prompt that the answer begins with
	sampling engine.Sampling
	max      int // tokens; at least 1
}

// plan binds a request to a model.
func (m *loaded) plan(ctx context.Context, r *request) (*plan, error) {
	p := &plan{request: r, m: m}
	spec, e := m.speculation(r.spec, m.temperature(r))
	if e != nil {
		return nil, e
	}
	r.spec = spec
	s, e := m.sampling(r)
	if e != nil {
		return nil, e
	}
	prompts, err := p.prompts(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.checkConstraint(); err != nil {
		return nil, err
	}
	for _, prompt := range prompts {
		t, e := p.task(prompt, s)
		if e != nil {
			return nil, e
		}
		for i := range r.n {
			t.sampling.Seed = s.Seed + uint64(i)
			p.tasks = append(p.tasks, t)
		}
	}
	return p, nil
}

func (m *loaded) temperature(r *request) float32 {
	if r.greedy {
		return 0
	}
	return r.sampling.Temperature
}

// sampling are the request's, checked against the vocabulary. Without a seed one is drawn.
func (m *loaded) sampling(r *request) (engine.Sampling, *Error) {
	s := r.sampling
	s.Temperature = m.temperature(r)
	if r.greedy {
		s.TopP = 1
	}
	if r.window {
		s.RepeatPenalty, s.FrequencyPenalty, s.PresencePenalty, s.PenaltyLastN = 1, 0, 0, 0
	}
	if !r.seeded && s.Seed == 0 {
		s.Seed = uint64(rand.Uint32())
	}
	size := m.Target.Config().Vocab
	for id := range s.LogitBias {
		if int(id) >= size {
			return s, badField("logit_bias", "the vocabulary has the ids 0 to %d, not %d", size-1, id)
		}
	}
	for _, id := range r.bans {
		if int(id) >= size {
			return s, badField("logit_bias", "the vocabulary has the ids 0 to %d, not %d", size-1, id)
		}
	}
	s.Banned = append(slices.Clone(s.Banned), r.bans...)
	if r.ignoreEOS {
		s.Banned = append(s.Banned, m.ends...)
	}
	if r.topField != "" && !r.logprobs && r.top > 0 {
		return s, badField(r.topField, "needs logprobs: true")
	}
	return s, nil
}

// ready is a prompt in tokens.
type ready struct {
	ids   []int32
	echo  string
	field string
}

// prompts are the request's in token ids.
func (p *plan) prompts(ctx context.Context) ([]ready, error) {
	r, m := p.request, p.m
	if r.suffix != "" {
		if r.system != "" {
			return nil, badField("system", "there is none in fill-in-the-middle")
		}
		r.wrap = false
	}
	if r.wrap && m.template != nil {
		r.messages = []chat.Message{{Role: "user", Content: r.prompts[0].text}}
		if r.system != "" {
			r.messages = append([]chat.Message{{Role: "system", Content: r.system}}, r.messages...)
		}
	} else if r.wrap && r.system != "" {
		return nil, badField("system", "%s has no chat template", m.name)
	}
	if r.messages != nil {
		rendered, err := p.render(ctx)
		if err != nil {
			return nil, err
		}
		return []ready{{ids: rendered, field: "messages"}}, nil
	}
	if r.infill && len(r.prompts) == 0 {
		r.prompts = []prompt{{}}
	}
	if len(r.prompts) == 0 {
		return nil, badField("prompt", "missing")
	}
	var list []ready
	for i, q := range r.prompts {
		field := "prompt"
		if len(r.prompts) > 1 {
			field = fmt.Sprintf("prompt[%d]", i)
		}
		ids := q.ids
		switch {
		case q.given && r.suffix != "":
			return nil, badField("suffix", "needs a prompt that is a text")
		case r.infill || r.suffix != "":
			var e *Error
			if ids, e = p.infillIDs(q.text); e != nil {
				return nil, e
			}
		case !q.given:
			ids = m.tok.Encode(q.text, bpe.EncodeOptions{AddSpecial: true, ParseSpecial: true})
		}
		one := ready{ids: ids, field: field}
		for _, id := range ids {
			if int(id) >= m.Target.Config().Vocab {
				return nil, badField(field, "the vocabulary has the ids 0 to %d, not %d", m.Target.Config().Vocab-1, id)
			}
		}
		if r.echo {
			if one.echo = q.text; q.given {
				one.echo = m.tok.Decode(ids)
			}
		}
		list = append(list, one)
	}
	return list, nil
}

// render puts the conversation into the model's template.
func (p *plan) render(ctx context.Context) ([]int32, error) {
	prompt, err := p.m.render(ctx, p.request, true)
	if err != nil {
		return nil, err
	}
	ids := prompt.IDs(p.m.tok)
	p.format, p.reasoning = p.m.template.Format(), prompt.InReasoning()
	if p.choice.mode != "none" {
		p.offered = chatTools(p.tools)
	}
	return ids, nil
}

// developerRole is OpenAI's newer name of the role system.
const developerRole = "developer"

// render renders the request's conversation.
func (m *loaded) render(ctx context.Context, r *request, tail bool) (*chat.Prompt, error) {
	if m.template == nil {
		return nil, m.templateErr
	}
	c := chat.Conversation{Messages: r.messages, AddGenerationPrompt: tail, Extra: r.kwargs}
	if r.choice.mode != "none" {
		for i := range r.tools {
			r.tools[i].flatten()
			c.Tools = append(c.Tools, r.tools[i].raw)
		}
		if len(c.Tools) > 0 && !m.template.Tools() {
			return nil, badField("tools", "the chat template of %s does not know tools", m.name)
		}
	}
	if !strings.Contains(m.source, developerRole) { // most templates know no developers; to them they are the system
		c.Messages = slices.Clone(c.Messages)
		for i := range c.Messages {
			if c.Messages[i].Role == developerRole {
				c.Messages[i].Role = "system"
			}
		}
	}
	if !m.template.SystemRole() && slices.ContainsFunc(
		c.Messages, func(m chat.Message) bool { return m.Role == "system" }) {
		c.Messages = chat.MergeSystem(c.Messages)
	}
	prompt, err := m.template.Render(ctx, c)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, chat.ErrRefused), errors.Is(err, chat.ErrFailed), errors.Is(err, chat.ErrUnsupported),
		errors.Is(err, chat.ErrLimit):
		return nil, badField("messages", "the chat template refuses the conversation: %v", err)
	case err != nil:
		return nil, badField("messages", "%v", err)
	}
	return prompt, nil
}

// task checks a prompt's length and says how many tokens may follow.
func (p *plan) task(prompt ready, s engine.Sampling) (task, *Error) {
	r, m := p.request, p.m
	if len(prompt.ids) == 0 {
		return task{}, badField(prompt.field, "has no tokens")
	}
	if len(prompt.ids) >= m.context {
		return task{}, &Error{Status: http.StatusBadRequest, Type: typeInvalid, Param: prompt.field,
			Code: "context_length_exceeded", Tokens: len(prompt.ids), Context: m.context,
			Message: fmt.Sprintf("%s: %d tokens; the context holds %d, with the answer", prompt.field, len(prompt.ids),
				m.context)}
	}
	t := task{prompt: prompt.ids, echo: prompt.echo, sampling: s, max: r.maxTokens}
	if most := m.server.o.MaxTokens; most > 0 {
		if t.max > most {
			return task{}, badField(r.maxField, "this server answers with at most %d tokens", most)
		}
		if t.max == 0 {
			t.max = most
		}
	}
	if t.max == 0 || t.max > math.MaxInt32 {
		t.max = m.context
	}
	return t, nil
}

// decoderOptions are those of a task's decoder.
func (p *plan) decoderOptions(t *task) speculative.Options {
	o, _ := p.spec.Options(speculative.Parts{}) // checked
	o.MaxTokens, o.Tokenizer, o.Stop, o.LogProbs, o.EOG = t.max, p.m.tok, p.stop, p.logprobs, p.isEnd()
	if p.logprobs {
		o.Top = p.top
	}
	if p.format != nil {
		o.Stop = append(slices.Clone(o.Stop), p.m.Stops...)
	}
	return o
}

// isEnd tells the tokens that end an answer: the vocabulary's, and marks of the conversation's format.
func (p *plan) isEnd() func(int32) bool {
	if p.ignoreEOS {
		return func(int32) bool { return false }
	}
	if p.format == nil {
		return p.m.tok.IsEOG
	}
	ends := map[int32]bool{}
	for _, mark := range p.format.EndMarks() {
		if id, ok := p.m.tok.ID(mark); ok {
			ends[id] = true
		}
	}
	return func(id int32) bool { return ends[id] || p.m.tok.IsEOG(id) }
}
