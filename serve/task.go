package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
)

// bind is what a request asks a model for. It refuses what no answer could be.
func (s *Server) bind(ctx context.Context, m *loaded, r *request) (*spec.Task, error) {
	q, e := s.translate(m, r)
	if e != nil {
		return nil, e
	}
	task, err := m.Prepare(ctx, q)
	wrong := (*spec.RequestError)(nil)
	if r.softBudget && errors.As(err, &wrong) && wrong.Field == "thinking_budget" {
		q.ThinkingBudget = 0
		task, err = m.Prepare(ctx, q)
	}
	if r.infill && errors.As(err, &wrong) && wrong.Field == "suffix" {
		return nil, badField("input_prefix", "%s", wrong.Reason)
	} else if errors.As(err, &wrong) && wrong.Field == "previous" {
		return nil, badField(r.predicts, "%s", wrong.Reason)
	}
	return task, err
}

// translate makes a model's request of a body's.
func (s *Server) translate(m *loaded, r *request) (q spec.Request, e *Error) {
	if r.suffix != "" {
		if r.system != "" {
			return q, badField("system", "there is none in fill-in-the-middle (suffix)")
		}
		r.wrap = false
	}
	if r.constraint.Kind == "" && !r.free && (r.choice.Mode == spec.CallNone || len(r.offered()) == 0) {
		r.constraint = s.o.Constraint
	}
	template, _ := m.Template() // where there is none, Prepare says why
	system := m.entry.Load().System
	if r.wrap && template != nil && r.system == "" {
		r.system = system
	}
	if r.wrap && template != nil {
		r.messages = []chat.Message{{Role: "user", Content: r.prompts[0].Text}}
		if r.system != "" {
			r.messages = append([]chat.Message{{Role: "system", Content: r.system}}, r.messages...)
		}
	} else if r.wrap && r.system != "" {
		return q, badField("system", "%s has no chat template", m.name)
	}
	if n := len(r.messages); n > 0 && !r.wrap && system != "" && !slices.ContainsFunc(r.messages,
		func(x chat.Message) bool { return x.Role == "system" || x.Role == "developer" }) {
		r.messages = append([]chat.Message{{Role: "system", Content: system}}, r.messages...)
	}
	if r.topField != "" && !r.logprobs && r.top > 0 {
		return q, badField(r.topField, "needs logprobs: true")
	}
	if r.repeatNone && r.sampling.DRY.Multiplier > 0 { // where it is off, clients send anything
		return q, badField("dry_allowed_length", "only numbers of at least 1 are supported")
	}
	q.MaxTokens, q.Lines, q.WhenFull, q.Keep = s.most(r), r.lines, r.whenFull, r.keep
	if s.o.Reasoning == "on" || s.o.Reasoning == "off" {
		if _, given := r.kwargs["enable_thinking"]; !given {
			r.setKwarg("enable_thinking", s.o.Reasoning == "on")
		}
	}
	for name, x := range s.o.Variables {
		if _, given := r.kwargs[name]; !given {
			r.setKwarg(name, x)
		}
	}
	q.Messages, q.Variables, q.Clock, q.Constraint = r.messages, r.kwargs, r.clock, r.constraint
	q.ThinkingBudget, q.Constraint.AnyOrder = r.budget, r.anyOrder
	q.ToolChoice, q.OneCall, q.CallID = r.choice, r.single, func() string { return s.newID("call_") }
	if e := r.checkNamed(); e != nil {
		return q, e
	}
	for _, t := range r.offered() {
		t.flatten()
		q.Tools = append(q.Tools, t.Tool)
	}
	if r.messages == nil {
		q.Prompts = r.prompts
		if r.infill && len(q.Prompts) == 0 {
			q.Prompts = []spec.Prompt{{}}
		}
	}
	if r.messages == nil && (r.infill || r.suffix != "") {
		q.Infill = &spec.Infill{Suffix: r.suffix, Extra: r.extra, Before: r.before, Behind: r.behind}
		q.Prompts = slices.Clone(q.Prompts)
		for i := range q.Prompts {
			q.Prompts[i].Text = r.inputPrefix + q.Prompts[i].Text
		}
	}
	q.ShowStop, q.Truncate = r.showStop, r.truncate
	q.N, q.Stop, q.IgnoreEOS, q.Sampling, q.Speculation = r.n, r.stop, r.ignoreEOS, r.settled(m.Tokenizer()), r.spec
	if q.Breakers = r.breakers; q.Breakers == nil {
		q.Breakers = spec.DefaultBreakers()
	}
	q.MinTokens, q.Ends, q.Continue = r.minTokens, r.ends, r.continues()
	q.LogProbs, q.Top, q.Chosen, q.Timings, q.Rounds = r.logprobs, r.top, r.chosen, r.wantTimings, r.trace
	q.Adapters = r.lora
	q.Scored = r.echo && r.logprobs && r.messages == nil
	q.Previous = r.previous
	if r.promptTop > 0 {
		if r.stream {
			return q, badField("prompt_logprobs", "not of streams")
		}
		q.Scored, q.LogProbs, q.Top = true, true, max(q.Top, r.promptTop-1)
	}
	q.Salt, q.Progress = r.salt(s), r.progress && r.stream
	return q, nil
}

// continues reports whether the answer goes on with the conversation's last message. Without a word about it that is so
// where the assistant has begun to speak, as in llama.cpp, Ollama and Anthropic's API, and nothing constrains a whole
// answer.
func (r *request) continues() bool {
	n := len(r.messages)
	if n == 0 || r.whole {
		return false
	}
	tools := r.offered()
	strict := slices.ContainsFunc(tools, func(t tool) bool { return t.Strict })
	calls := r.choice.Mode != spec.CallNone && (strict || r.single && tools != nil)
	free := r.constraint.Kind == "" && r.choice.Mode != spec.CallRequired && !calls
	last := &r.messages[n-1]
	return r.goOn || r.mayGoOn && free && last.Role == "assistant" && last.Content != "" && last.ToolCalls == nil
}

// most is the most tokens of an answer, within the server's bound.
func (s *Server) most(r *request) int {
	if bound := s.o.MaxTokens; bound > 0 {
		if r.maxTokens > bound || r.maxTokens == 0 {
			return bound
		}
	}
	return r.maxTokens
}

// settled is the request's sampling as its fields mean it together, in a vocabulary's tokens. Without a seed one is
// drawn.
func (r *tokenChoice) settled(tok *bpe.Tokenizer) engine.Sampling {
	x := r.sampling
	encode := func(text string) []int32 { return tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true}) }
	if len(r.textBias) > 0 {
		x.LogitBias = maps.Clone(x.LogitBias)
		if x.LogitBias == nil {
			x.LogitBias = map[int32]float32{}
		}
	}
	for _, b := range r.textBias {
		for _, id := range encode(b.text) {
			x.LogitBias[id] = b.bias
		}
	}
	for _, text := range r.textBans {
		r.bans = append(r.bans, encode(text)...)
	}
	if r.greedy {
		x.Temperature, x.TopP = 0, 1
	}
	if r.freeNewline {
		if ids := encode("\n"); len(ids) > 0 {
			x.Unpenalized = ids[len(ids)-1:]
		}
	}
	if !r.seeded && x.Seed == 0 {
		x.Seed = uint64(rand.Uint32())
	}
	x.Banned = append(slices.Clone(x.Banned), r.bans...)
	return x
}

// echoes are the texts of the prompts that the answers begin with; nil: they do not.
func (r *request) echoes(task *spec.Task) (list []string) {
	if !r.echo || r.messages != nil {
		return nil
	}
	for i, p := range r.prompts {
		if spelledByIDs(&p, task) {
			p.Text = task.Model().Tokenizer().Decode(task.Prompt(i * r.n))
		}
		list = append(list, p.Text)
	}
	return list
}

// spelledByIDs reports whether the text of a prompt is that of its token ids: it was given as them, or is cut.
func spelledByIDs(p *spec.Prompt, task *spec.Task) bool {
	return p.Given || p.Parts != nil || task.Cut()
}

// compile compiles the grammar that the answers must follow, if there is one that is not there yet, when its turn has
// come.
func (s *Server) compile(ctx context.Context, who *client, task *spec.Task, bounded bool) error {
	if task.Compiled(ctx) {
		return nil
	}
	return s.inTurn(ctx, who, bounded, func() error { return task.Compile(ctx) })
}

// salt is what a request's sequences, of the target and of the draft, have in common with those that they may go on
// from: the key that it shows, if it shows one and Options.SharePrefixes does not say otherwise, and its own
// cache_salt.
func (r *request) salt(s *Server) string {
	who := r.client.id
	if s.o.SharePrefixes || r.client == s.anyone {
		who = ""
	}
	if r.cacheSalt == "" {
		return who
	}
	own := sha256.Sum256([]byte(r.cacheSalt))
	return who + " " + hex.EncodeToString(own[:])
}
