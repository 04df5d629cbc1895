package spec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/speculative"
)

// Task is a request bound to a model: what is to be computed, and how its answers are read. [Model.Generate] makes
// one, runs it and closes it; a program that counts or queues answers does these steps by itself: Prepare, Compile
// where Compiled says so, Generate, Close.
type Task struct {
	m       *Model
	r       Request
	prompts [][]int32
	start   []int32 // what the decoder continues where prompts are an encoder's inputs; nil: the prompts
	cut     bool    // something was dropped from a prompt
	max     int     // tokens of an answer; 0: as many as fit

	adapters engine.AdapterSet // of the target's sequences

	drafts   string  // the drafter that the request names
	previous []int32 // the earlier answer; empty: none

	each []speculative.Choice // how each draft model drafts, or one where none does

	format    *chat.Format // of a conversation's answers; nil: they are plain text
	offered   []chat.Tool  // what the answer may call
	reasoning bool         // the answer begins inside of reasoning

	constraint *grammar.Constraint // of the answers; nil: none yet
}

// Count is the number of tokens of a request's first prompt, which may be more than the context holds.
func (m *Model) Count(ctx context.Context, r Request) (int, error) {
	t := &Task{m: m, r: r}
	t.r.Prompts = r.Prompts[:min(len(r.Prompts), 1)]
	if err := t.setPrompts(ctx); err != nil {
		return 0, err
	}
	if err := t.truncate(); err != nil {
		return 0, err
	}
	return len(t.prompts[0]), nil
}

// mostAnswers bounds the answers of a [Request], N of each prompt: each that is under way has a goroutine.
const mostAnswers = 1 << 16

// Prepare binds a request to the model. What is wrong with the request is a *[RequestError].
func (m *Model) Prepare(ctx context.Context, r Request) (*Task, error) {
	t := &Task{m: m, r: r}
	if err := r.checkCounts(); err != nil {
		return nil, err
	}
	choice := r.Speculation
	t.drafts = choice.Drafter
	if r.Drafter != nil {
		choice.Drafter = "none"
	}
	choice, each, err := m.choose(choice, r.Sampling.MaxTemperature())
	if err != nil {
		return nil, err
	}
	if r.Drafter != nil {
		choice.Drafter = cmp.Or(r.Speculation.Drafter, "own")
	}
	t.r.Speculation, t.each, t.r.N = choice, each, max(r.N, 1)
	if prompts := max(len(r.Prompts), 1); prompts > mostAnswers/t.r.N { // N may be more than all of them
		return nil, bad("n", "%d answers of each prompt and %d of them (prompt): a request has at most %d answers", t.r.N,
			prompts, mostAnswers)
	}
	if slices.Contains(r.Stop, "") {
		return nil, bad("stop", "an empty text")
	}
	if r.Written != nil && r.Lines != (Lines{}) {
		return nil, bad("lines", "receipts of answers that end by their lines are not supported")
	}
	if t.adapters, err = m.adapterSet(r.Adapters); err != nil {
		return nil, err
	}
	if err := t.checkSampling(); err != nil {
		return nil, err
	}
	if err := t.setPrompts(ctx); err != nil {
		return nil, err
	}
	if err := t.setPrevious(); err != nil {
		return nil, err
	}
	if err := t.truncate(); err != nil {
		return nil, err
	}
	t.setEnds()
	if err := t.makeRoom(ctx); err != nil {
		return nil, err
	}
	if err := t.checkConstraint(); err != nil {
		return nil, err
	}
	if err := t.setBudget(); err != nil {
		return nil, err
	}
	how := t.Sampling(0)
	if err := how.Check(m.parts.Target.Config().Vocab); err != nil {
		return nil, &RequestError{Field: "sampling", Reason: err.Error(), Err: err}
	}
	for i, ids := range t.prompts {
		if err := t.checkLength(i, ids); err != nil {
			return nil, err
		}
	}
	if r.MaxTokens <= m.context { // no difference beyond it, and no sum that overflows
		t.max = max(r.MaxTokens, 0)
	}
	return t, nil
}

// checkCounts refuses negative numbers where nothing is said of them.
func (r *Request) checkCounts() error {
	for _, f := range []struct {
		field string
		n     int64
	}{
		{"n", int64(r.N)}, {"max_tokens", int64(r.MaxTokens)}, {"min_tokens", int64(r.MinTokens)},
		{"thinking_budget", int64(r.ThinkingBudget)}, {"top_logprobs", int64(r.Top)},
		{"lines.indent", int64(r.Lines.Indent)}, {"lines.within", int64(r.Lines.Within)},
	} {
		if f.n < 0 {
			return bad(f.field, "a negative number")
		}
	}
	return nil
}

// Choose is how a text speculates at a temperature, the greatest one (sampling.Options.MaxTemperature): what choice
// leaves open is the model's, then the default. One that the model cannot
// do is a *[RequestError]. Where several draft models draft together the drafter is "merge".
func (m *Model) Choose(choice speculative.Choice, temperature float32) (speculative.Choice, error) {
	choice, _, err := m.choose(choice, temperature)
	return choice, err
}

// choose is Choose, with the choice of each draft model: one where there is at most one, or none drafts.
func (m *Model) choose(choice speculative.Choice, temperature float32) (
	all speculative.Choice, each []speculative.Choice, err error) {
	drafts, open := m.drafts, choice.Or(m.choice)
	if len(drafts) == 0 || open.Drafter != "" && !open.Needs().Draft() {
		drafts = []*draft{{}}
		if len(m.drafts) > 0 {
			drafts = m.drafts[:1]
		}
	}
	for i, d := range drafts {
		one := open.Complete(d.model, d.foreign)
		if len(m.texts) > 0 || m.own != nil {
			one = open.WithTexts(one)
		}
		// For one sequence at a time: where several share passes, those of the form cost more than they save.
		if m.form.offers() && m.alone != nil && !m.session.NoCache {
			one = open.WithForm(one)
		}
		if i > 0 && (one.Drafter == "splice" || one.Drafter == "tree") {
			one.Drafter = "model" // one lookup is enough
		}
		if err = one.Check(temperature); err == nil {
			err = one.Fits(m.parts.Target, d.model, d.foreign)
		}
		if err == nil && one.Needs()&speculative.NeedsTexts != 0 && len(m.texts) == 0 && m.own == nil {
			err = &speculative.ChoiceError{Field: "drafter", Reason: "lookup needs other texts to look up in"}
		}
		if err == nil && one.Needs()&speculative.NeedsForm != 0 {
			if why := m.form.refuses(); why != "" {
				err = &speculative.ChoiceError{Field: "drafter", Reason: one.Drafter + " " + why}
			}
		}
		if e := (*speculative.ChoiceError)(nil); errors.As(err, &e) {
			return one, nil, &RequestError{Field: "speculation." + e.Field, Err: err,
				Reason: fmt.Sprintf("%s (model %s)", e.Reason, m.name)}
		}
		if err != nil {
			return one, nil, err
		}
		each = append(each, one)
	}
	if all = each[0]; len(each) > 1 {
		all.Drafter = "merge"
	}
	return all, each, nil
}

// Model is the one that the task is bound to.
func (t *Task) Model() *Model { return t.m }

// Answers is how many there are: N for each prompt, those of a prompt in a row.
func (t *Task) Answers() int { return len(t.prompts) * t.r.N }

// Expect says that an answer of the task begins now, in the place of one that ends: the first pass that its tokens can
// be in waits for them, for the bound of such waits at most.
func (t *Task) Expect() { t.m.target.expect() }

// Prompt is the prompt of an answer in token ids, which the caller must not change. Of an encoder-decoder model it is
// what the encoder reads.
func (t *Task) Prompt(answer int) []int32 { return t.prompts[answer/t.r.N] }

// begins is the tokens that an answer continues.
func (t *Task) begins(answer int) []int32 {
	if t.start != nil {
		return t.start
	}
	return t.Prompt(answer)
}

// Speculation is how the answers are drafted.
func (t *Task) Speculation() speculative.Choice { return t.r.Speculation }

// Sampling is how the tokens of an answer are chosen.
func (t *Task) Sampling(answer int) engine.Sampling {
	s := t.r.Sampling
	s.Seed += uint64(answer % t.r.N)
	if t.constraint != nil {
		s.Constraint = t.constraint
	}
	return s
}

// bad is an error about a field of a request.
func bad(field, format string, a ...any) error {
	return &RequestError{Field: field, Reason: fmt.Sprintf(format, a...)}
}

// checkSampling checks ids against the vocabulary.
func (t *Task) checkSampling() error {
	s := &t.r.Sampling
	if len(s.LogitBias) > 0 { // of the lowest id, and of the highest, whatever the order of the map
		low, high := int32(math.MaxInt32), int32(math.MinInt32)
		for id := range s.LogitBias {
			low, high = min(low, id), max(high, id)
		}
		if err := t.m.checkIDs("logit_bias", []int32{low, high}); err != nil {
			return err
		}
	}
	if err := t.m.checkIDs("logit_bias", s.Banned); err != nil {
		return err
	}
	if step := s.Twice(); step != "" {
		return bad("samplers", "the step %s twice", step)
	}
	if s.DRY.Shrinks() {
		return bad("dry_base", "%v: at least 1, so that longer repetitions lose more", s.DRY.Base)
	}
	return t.m.checkIDs("stop_token_ids", t.r.Ends)
}

// setEnds says in the sampling which tokens end answers, which of them are not chosen, and until when; and which others
// the model's file says are never chosen.
func (t *Task) setEnds() {
	s := &t.r.Sampling
	if more := t.m.tok.Suppressed(); len(more) > 0 {
		s.Banned = append(slices.Clone(s.Banned), more...)
	}
	if t.r.IgnoreEOS {
		s.Banned = append(slices.Clone(s.Banned), t.m.ends...)
	}
	if t.r.MinTokens > 0 {
		s.MinTokens, s.Ends = t.r.MinTokens, append(slices.Clone(t.m.ends), t.moreEnds()...)
	}
	if slices.Contains(s.Order, sampling.StepInfill) {
		s.Infill = sampling.Infill{Pieces: t.m.tok, Ends: append(slices.Clone(t.m.ends), t.moreEnds()...)}
	}
}

// setPrompts makes token ids of the request's prompts.
func (t *Task) setPrompts(ctx context.Context) error {
	r, m := &t.r, t.m
	switch {
	case r.Messages != nil && r.Prompts != nil:
		return bad("prompt", "there are messages too")
	case r.Messages != nil && r.Infill != nil:
		return bad("suffix", "needs a prompt that is a text, and there are messages")
	case r.Messages != nil:
		return t.setConversation(ctx)
	case len(r.Prompts) == 0:
		return bad("prompt", "missing")
	case r.Continue:
		return bad("messages", "there is none to continue")
	case len(r.Tools) > 0 && r.ToolChoice.Mode != CallNone:
		return bad("tools", "a conversation calls them, and there is a prompt instead of messages")
	case r.ThinkingBudget > 0:
		return bad("thinking_budget", "of a conversation, and there is a prompt instead of messages")
	}
	if err := t.setStart(); err != nil {
		return err
	}
	var filled func(prefix string) []int32
	if r.Infill != nil {
		var err error
		if filled, err = m.infill(r.Infill); err != nil {
			return err
		}
	}
	for i, q := range r.Prompts {
		ids := q.IDs
		switch {
		case q.Parts != nil && r.Infill != nil:
			return bad("suffix", "needs a prompt that is a text")
		case q.Parts != nil:
			ids = m.joined(flat(q.Parts))
		case q.given() && r.Infill != nil:
			return bad("suffix", "needs a prompt that is a text")
		case r.Infill != nil:
			ids = filled(q.Text)
		case !q.given():
			ids = m.tok.Encode(q.Text, bpe.EncodeOptions{AddSpecial: true, ParseSpecial: !q.Plain})
		}
		if err := m.checkIDs(t.promptField(i), ids); err != nil {
			return err
		}
		if r.Infill != nil && len(r.Prompts) > 1 { // the next ones have what is around the gap, too
			if err := t.checkLength(i, ids); err != nil {
				return err
			}
		}
		t.prompts = append(t.prompts, ids)
	}
	return nil
}

// setPrevious makes token ids of the earlier answer.
func (t *Task) setPrevious() error {
	p := t.r.Previous
	if !p.given() && p.Parts == nil {
		p.Parts = []Prompt{p}
	}
	for _, part := range flat(p.Parts) {
		if part.given() {
			t.previous = append(t.previous, part.IDs...)
		} else {
			t.previous = append(t.previous, t.m.tok.Encode(part.Text,
				bpe.EncodeOptions{ParseSpecial: !part.Plain, NoSpacePrefix: true})...)
		}
	}
	if p.Parts == nil {
		t.previous = p.IDs
	}
	if len(t.previous) > 0 && t.r.Drafter == nil && t.drafts == "none" {
		return bad("previous", "drafts, and the request asks for no drafts: drafter none")
	}
	err := t.m.checkIDs("previous", t.previous)
	t.previous = t.previous[:min(len(t.previous), t.m.context)] // no answer is longer; each keeps where the tokens are
	return err
}

// setStart makes the prompts of an encoder-decoder model its encoder's inputs: what the decoder continues is a token
// of its own.
func (t *Task) setStart() error {
	target := t.m.parts.Target
	switch {
	case !target.Encodes():
		return nil
	case target.DecoderStart() < 0:
		return bad(t.promptField(0), "%s: the file has neither a decoder_start_token_id nor a token that begins texts, so "+
			"nothing says what the decoder begins with", t.m.name)
	case t.r.Scored:
		return bad("echo", "the tokens of an encoder's text have no probabilities")
	}
	t.start = []int32{target.DecoderStart()}
	return nil
}

// flat is texts and ids in a row, those of parts in their place.
func flat(parts []Prompt) (list []Prompt) {
	for _, p := range parts {
		if p.Parts != nil {
			list = append(list, flat(p.Parts)...)
		} else {
			list = append(list, p)
		}
	}
	return list
}

// joined is the ids of texts and ids in a row; what the vocabulary puts in front of a text stands before the
// first part, and what it puts behind one behind the last.
func (m *Model) joined(parts []Prompt) (ids []int32) {
	_, back := m.tok.Marks()
	for i, p := range parts {
		if p.given() {
			ids = append(ids, p.IDs...)
			continue
		}
		ids = append(ids, m.tok.Encode(p.Text, bpe.EncodeOptions{AddSpecial: i == 0, ParseSpecial: !p.Plain})...)
		if i == 0 && back >= 0 {
			ids = ids[:len(ids)-1]
		}
		if i == len(parts)-1 && back >= 0 {
			ids = append(ids, back) // whatever the text ends with, as in Encode
		}
	}
	return ids
}

// ended is a conversation with the token that the vocabulary puts behind texts, unless its template has put it there.
func (m *Model) ended(ids []int32) []int32 {
	if _, back := m.tok.Marks(); back >= 0 && (len(ids) == 0 || ids[len(ids)-1] != back) {
		ids = append(ids, back)
	}
	return ids
}

func (p *Prompt) given() bool { return p.Given || p.IDs != nil }

// checkIDs refuses ids that the vocabulary does not have.
func (m *Model) checkIDs(field string, ids []int32) error {
	size := m.parts.Target.Config().Vocab
	for _, id := range ids {
		if int(id) >= size || id < 0 {
			return bad(field, "the vocabulary has the ids 0 to %d, not %d", size-1, id)
		}
	}
	return nil
}

// promptField is what errors call a prompt.
func (t *Task) promptField(i int) string {
	switch {
	case t.r.Messages != nil:
		return "messages"
	case len(t.r.Prompts) > 1:
		return fmt.Sprintf("prompt[%d]", i)
	}
	return "prompt"
}

// setConversation puts the conversation into the model's template.
func (t *Task) setConversation(ctx context.Context) error {
	prompt, err := t.m.Render(ctx, &t.r, true)
	if err != nil {
		return err
	}
	ids := prompt.IDs(t.m.tok)
	if t.m.parts.Target.Encodes() { // the text ends there, where others are continued
		ids = t.m.ended(ids)
	}
	t.prompts = [][]int32{ids}
	t.format, t.reasoning = t.r.template(t.m).Format(), prompt.InReasoning()
	if t.r.ToolChoice.Mode != CallNone {
		t.offered = chatTools(t.r.Tools)
	}
	return t.setStart()
}

// developerRole is OpenAI's newer name of the role system.
const developerRole = "developer"

// variables are the request's for a template: where it does not know enable_thinking, also under the other name that
// templates have for it (DeepSeek V3.1, Granite 3).
func (r *Request) variables(source string) map[string]any {
	on, asked := r.Variables["enable_thinking"].(bool)
	if _, given := r.Variables["thinking"]; !asked || given || strings.Contains(source, "enable_thinking") {
		return r.Variables
	}
	all := maps.Clone(r.Variables)
	all["thinking"] = on
	return all
}

// template is a model's template for the request's conversation.
func (r *Request) template(m *Model) *chat.Template {
	return m.template.For(len(r.Tools) > 0 && r.ToolChoice.Mode != CallNone)
}

// knowsDevelopers reports whether a template has the name of the role, and not just the word: those of Command R7B and
// Apertus speak of developers, and leave out a message of that role.
func knowsDevelopers(source string) bool {
	return strings.Contains(source, "'"+developerRole+"'") || strings.Contains(source, `"`+developerRole+`"`)
}

// Render renders a request's conversation; answer says whether the text ends where an answer begins.
func (m *Model) Render(ctx context.Context, r *Request, answer bool) (*chat.Prompt, error) {
	if m.template == nil {
		return nil, m.templateErr
	}
	c := chat.Conversation{Messages: r.Messages, AddGenerationPrompt: answer, Clock: r.Clock}
	if r.ToolChoice.Mode != CallNone {
		for i := range r.Tools {
			raw, err := r.Tools[i].toolJSON()
			if err != nil {
				return nil, bad("tools", "%s: %v", r.Tools[i].Name, err)
			}
			c.Tools = append(c.Tools, raw)
		}
		if err := m.template.ToolsError(); len(c.Tools) > 0 && err != nil {
			return nil, bad("tools", "%s: %v; --tool-fallback offers them in plain JSON", m.name, err)
		}
	}
	template := r.template(m)
	c.Extra = r.variables(template.Source())
	if !knowsDevelopers(template.Source()) { // to whom they are the system
		c.Messages = slices.Clone(c.Messages)
		for i := range c.Messages {
			if c.Messages[i].Role == developerRole {
				c.Messages[i].Role = "system"
			}
		}
	}
	if !template.SystemRole() && slices.ContainsFunc(
		c.Messages, func(m chat.Message) bool { return m.Role == "system" }) {
		c.Messages = chat.MergeSystem(c.Messages)
	}
	if r.Continue && answer {
		if m.parts.Target.Encodes() {
			return nil, bad("messages", "%s is an encoder-decoder model, which begins each of its answers anew: the last "+
				"message cannot be continued", m.name)
		}
		if err := continues(r.Messages); err != nil {
			return nil, err
		}
		if c.AddGenerationPrompt = onlyThought(r.Messages); c.AddGenerationPrompt {
			c.Messages = c.Messages[:len(c.Messages)-1]
		}
	}
	prompt, err := template.Render(ctx, c)
	if err == nil && r.Continue && answer {
		return continued(prompt, r.Messages)
	}
	if on, given := r.Variables["enable_thinking"].(bool); err == nil && answer && given && !on {
		return prompt.WithoutReasoning(), nil
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, chat.ErrRefused), errors.Is(err, chat.ErrFailed), errors.Is(err, chat.ErrUnsupported),
		errors.Is(err, chat.ErrLimit):
		return nil, &RequestError{Field: "messages", Err: err,
			Reason: fmt.Sprintf("the chat template refuses the conversation: %v", err)}
	case err != nil:
		return nil, &RequestError{Field: "messages", Err: err, Reason: err.Error()}
	}
	return prompt, nil
}

// continues refuses a conversation whose last message cannot be continued.
func continues(messages []chat.Message) error {
	n := len(messages)
	text := func(m *chat.Message) bool { return m.Role == "assistant" && m.ToolCalls == nil }
	switch {
	case n == 0:
		return bad("messages", "there is none to continue")
	case !text(&messages[n-1]):
		return bad("messages", "only a text of the assistant can be continued")
	case n > 1 && text(&messages[n-2]):
		return bad("messages", "two messages of the assistant at the end; the last is to be continued")
	}
	return nil
}

// onlyThought reports whether the last message is nothing but reasoning.
func onlyThought(messages []chat.Message) bool {
	last := &messages[len(messages)-1]
	return strings.TrimSpace(last.Content) == "" && strings.TrimSpace(last.Reasoning) != ""
}

// continued is a conversation that ends within its last message. One that is nothing but reasoning stands behind the
// prompt of the others, since templates leave out or end reasoning.
func continued(p *chat.Prompt, messages []chat.Message) (*chat.Prompt, error) {
	last := &messages[len(messages)-1]
	out, ok := p.Continued(last.Content)
	if onlyThought(messages) {
		out, ok = p.Thought(last.Reasoning)
	}
	if !ok {
		return nil, bad("messages", "the chat template does not write the text that is to be continued")
	}
	return out, nil
}

// checkLength refuses a prompt that leaves no room for an answer.
func (t *Task) checkLength(i int, ids []int32) error {
	field := t.promptField(i)
	if len(ids) == 0 {
		return bad(field, "has no tokens")
	}
	if t.start != nil {
		return t.checkInput(field, ids)
	}
	if len(ids) >= t.m.context {
		return &RequestError{Field: field, Code: CodeContext, Tokens: len(ids), Context: t.m.context,
			Reason: fmt.Sprintf("%d tokens: the prompt exceeds the available context size, %d with the answer", len(ids),
				t.m.context)}
	}
	return nil
}

// checkInput refuses an encoder's input that is too long.
func (t *Task) checkInput(field string, ids []int32) error {
	if len(ids) <= t.m.most.input {
		return nil
	}
	return &RequestError{Field: field, Code: CodeContext, Tokens: len(ids), Context: t.m.most.input,
		Reason: fmt.Sprintf("%d tokens: an encoder's text has %d at most here", len(ids), t.m.most.input)}
}

// decoderOptions are those of the answers' decoders.
func (t *Task) decoderOptions() speculative.Options {
	o, _ := t.r.Speculation.Options(speculative.Parts{Costs: t.r.Costs}) // checked
	o.MaxTokens, o.Tokenizer, o.Stop, o.LogProbs, o.EOG = t.max, t.m.tok, t.r.Stop, t.r.LogProbs, t.isEnd()
	if t.r.LogProbs {
		o.Top, o.Chosen = min(t.r.Top, t.m.parts.Target.Config().Vocab), t.r.Chosen
	}
	if t.r.ShowStop {
		o.ShownStop = len(o.Stop)
	}
	if t.format != nil {
		o.Stop = append(slices.Clone(o.Stop), t.m.stops...)
	}
	choice := t.r.Speculation
	if len(t.previous) > 0 {
		choice.Drafter = "previous, " + choice.Drafter
		if o.DraftMax == 0 && choice.Schedule == "auto" {
			o.DraftMax = max(speculative.PreviousDraftMax, o.DraftMin)
		}
	}
	o.Rows = t.m.most.rows
	o.Experience = t.m.experience.OfDraftVocab(choice, len(t.m.form.tokens))
	return o
}

// isEnd tells the tokens that end an answer: the request's, the vocabulary's, marks of the conversation's format, and
// of a filled gap those of another file.
// With IgnoreEOS the request's are left.
func (t *Task) isEnd() func(int32) bool {
	more := t.moreEnds()
	if t.r.IgnoreEOS {
		return func(id int32) bool { return slices.Contains(more, id) }
	}
	return func(id int32) bool { return t.m.tok.IsEOG(id) || slices.Contains(more, id) }
}

// moreEnds are the tokens that end an answer beside the vocabulary's.
func (t *Task) moreEnds() []int32 {
	var marks []string
	if t.format != nil {
		marks = t.format.EndMarks()
	}
	if t.r.Infill != nil {
		marks = slices.Concat(marks, infillEnds)
	}
	if len(marks) == 0 || t.r.IgnoreEOS {
		return t.r.Ends
	}
	ends := slices.Clone(t.r.Ends)
	for _, mark := range marks {
		if id, ok := t.m.tok.ID(mark); ok {
			ends = append(ends, id)
		}
	}
	if t.r.Infill != nil {
		for _, part := range []string{"sep", "rep", "pad"} {
			if id, ok := t.m.tok.InfillMark(part); ok {
				ends = append(ends, id)
			}
		}
	}
	return ends
}

// Close gives back what the task holds: its constraint.
func (t *Task) Close() {
	if t.constraint != nil {
		t.constraint.Close()
		t.constraint = nil
	}
}

// field is what errors call the request's constraint.
func (c *Constraint) field() string { return cmp.Or(c.Field, "constraint") }
