package serve

import (
	"encoding/json"

	"github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/speculative"
)

// responsesForm writes answers of /v1/responses. An answer is a list of items: reasoning, a message, calls.
type responsesForm struct {
	*reading
	id       string
	created  int64
	sequence int // number of the next event
	items    []responseItem
	open     bool // the last item is under way
}

// responseItem is an item of an answer.
type responseItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Status    string          `json:"status,omitempty"`
	Role      string          `json:"role,omitempty"`
	Content   *[]responsePart `json:"content,omitempty"`
	Summary   *[]any          `json:"summary,omitempty"`
	CallID    string          `json:"call_id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments *string         `json:"arguments,omitempty"`
}

type responsePart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations *[]any `json:"annotations,omitempty"`
	Logprobs    *[]any `json:"logprobs,omitempty"`
}

// Types of items and parts.
const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemOutput    = "function_call_output" // of a request
	partText      = "output_text"
	partReasoning = "reasoning_text"

	statusDone       = "completed"
	statusIncomplete = "incomplete"
	statusRunning    = "in_progress"
)

type responsesUsage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

// responseObject is the answer, under way or complete.
type responseObject struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Created      int64             `json:"created_at"`
	Status       string            `json:"status"`
	Background   bool              `json:"background"`
	Error        any               `json:"error"`
	Incomplete   any               `json:"incomplete_details"`
	Instructions *string           `json:"instructions"`
	MaxOutput    *int              `json:"max_output_tokens"`
	Model        string            `json:"model"`
	Output       []responseItem    `json:"output"`
	Parallel     bool              `json:"parallel_tool_calls"`
	Previous     any               `json:"previous_response_id"`
	Store        bool              `json:"store"`
	Temperature  float32           `json:"temperature"`
	TopP         float32           `json:"top_p"`
	ToolChoice   any               `json:"tool_choice"`
	Tools        []json.RawMessage `json:"tools"`
	Truncation   string            `json:"truncation"`
	Usage        *responsesUsage   `json:"usage"`
	Metadata     json.RawMessage   `json:"metadata"`
	Timings      *timings          `json:"timings,omitempty"`
}

func newResponsesForm(r *reading) form {
	s := r.server()
	return &responsesForm{reading: r, id: s.newID("resp_"), created: s.now().Unix()}
}

// object is the response with what it holds so far.
func (f *responsesForm) object(status string) *responseObject {
	o := &responseObject{ID: f.id, Object: "response", Created: f.created, Status: status, Model: f.m.name,
		Output: f.items, Parallel: !f.single,
		Temperature: f.sampling.Temperature, TopP: f.sampling.TopP, ToolChoice: f.choiceWire(), Tools: []json.RawMessage{},
		Truncation: "disabled", Metadata: f.metadata}
	if o.TopP == 0 && !f.greedy {
		o.TopP = 1
	}
	if o.Output == nil {
		o.Output = []responseItem{}
	}
	if o.Metadata == nil {
		o.Metadata = json.RawMessage("{}")
	}
	if f.whenFull == spec.FullDrop {
		o.Truncation = "auto"
	}
	if f.instructions != "" {
		o.Instructions = &f.instructions
	}
	if f.maxTokens > 0 {
		o.MaxOutput = &f.maxTokens
	}
	for _, t := range f.tools {
		o.Tools = append(o.Tools, t.given)
	}
	if a := &f.answers[0]; a.Finish != "" && status != statusRunning {
		total := f.totals()
		o.Usage, o.Timings = f.responsesUsage(), f.timings(&total)
		if a.Finish == "length" {
			o.Status, o.Incomplete = statusIncomplete, map[string]string{"reason": "max_output_tokens"}
		}
	}
	return o
}

func (f *responsesForm) choiceWire() any {
	switch {
	case f.allowed.given != nil:
		return f.allowed.given
	case f.choice.Name != "":
		return map[string]string{"type": "function", "name": f.choice.Name}
	case f.choice.Mode != spec.CallAuto:
		return f.choice.Mode
	}
	return "auto"
}

func (f *responsesForm) responsesUsage() *responsesUsage {
	u := f.usage()
	var out responsesUsage
	out.Input, out.Output, out.Total = u.Prompt, u.Completion, u.Total
	out.InputDetails.Cached, out.OutputDetails.Reasoning = u.PromptDetails.Cached, u.CompletionDetails.Reasoning
	return &out
}

func (f *responsesForm) newItem(kind string) *responseItem {
	s := f.server()
	i := responseItem{Type: kind, Status: statusRunning}
	switch kind {
	case itemMessage:
		i.ID, i.Role, i.Content = s.newID("msg_"), "assistant", &[]responsePart{}
	case itemReasoning:
		i.ID, i.Summary, i.Content = s.newID("rs_"), &[]any{}, &[]responsePart{}
	case itemCall:
		i.ID, i.Arguments = s.newID("fc_"), new(string)
	}
	f.items = append(f.items, i)
	return &f.items[len(f.items)-1]
}

func newPart(kind string) responsePart {
	p := responsePart{Type: kind}
	if kind == partText {
		p.Annotations, p.Logprobs = &[]any{}, &[]any{}
	}
	return p
}

func (f *responsesForm) whole() any {
	a := &f.answers[0]
	text := func(kind, part, text string) {
		p := newPart(part)
		p.Text = text
		*f.newItem(kind).Content = []responsePart{p}
	}
	if a.Reasoning != "" {
		text(itemReasoning, partReasoning, a.Reasoning)
	}
	if a.Text != "" || len(a.Calls) == 0 {
		text(itemMessage, partText, a.Text)
	}
	for _, c := range a.Calls {
		i := f.newItem(itemCall)
		i.CallID, i.Name, *i.Arguments = c.ID, c.Name, c.Arguments
	}
	for i := range f.items {
		f.items[i].Status = f.itemStatus(&f.items[i], i == len(f.items)-1)
	}
	return f.object(statusDone)
}

// itemStatus is that of an item of a complete answer: the last one of an answer that was cut off is not complete, but
// for a call whose arguments are whole, behind which the answer was cut off.
func (f *responsesForm) itemStatus(i *responseItem, last bool) string {
	called := i.Type == itemCall && json.Valid([]byte(*i.Arguments))
	if last && f.answers[0].Finish == spec.FinishLength && !called {
		return statusIncomplete
	}
	return statusDone
}

// emit writes an event with its type and number, which come first.
func (f *responsesForm) emit(to sink, kind string, fields ...any) {
	v := orderedObject{"type", kind, "sequence_number", f.sequence}
	f.sequence++
	to.event(kind, append(v, fields...))
}

// orderedObject is an object of names and values in turn, in this order.
type orderedObject []any

func (o orderedObject) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i := 0; i+1 < len(o); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, encode(o[i])...), ':'), encode(o[i+1])...)
	}
	return append(b, '}'), nil
}

func (f *responsesForm) begin(to sink) {
	f.emit(to, "response.created", "response", f.object(statusRunning))
	f.emit(to, "response.in_progress", "response", f.object(statusRunning))
	for _, d := range f.reading.begin(0) {
		f.delta(to, &d)
	}
}

// item makes an item of a kind the one under way.
func (f *responsesForm) item(to sink, kind, part string) *responseItem {
	at := len(f.items) - 1
	if f.open && f.items[at].Type == kind && kind != itemCall {
		return &f.items[at]
	}
	f.close(to)
	i := f.newItem(kind)
	f.open = true
	if part != "" {
		f.emit(to, "response.output_item.added", "output_index", len(f.items)-1, "item", *i)
		*i.Content = []responsePart{newPart(part)}
		f.emit(to, "response.content_part.added", "item_id", i.ID, "output_index", len(f.items)-1, "content_index", 0,
			"part", newPart(part))
	}
	return i
}

// close ends the item under way.
func (f *responsesForm) close(to sink) {
	if !f.open {
		return
	}
	f.open = false
	at := len(f.items) - 1
	i := &f.items[at]
	i.Status = f.itemStatus(i, f.answers[0].Finish != "")
	switch i.Type {
	case itemCall:
		f.emit(to, "response.function_call_arguments.done", "item_id", i.ID, "output_index", at, "arguments", *i.Arguments)
	default:
		p := (*i.Content)[0]
		if i.Type == itemMessage {
			f.emit(to, "response.output_text.done", "item_id", i.ID, "output_index", at, "content_index", 0, "text", p.Text,
				"logprobs", []any{})
		} else {
			f.emit(to, "response.reasoning_text.done", "item_id", i.ID, "output_index", at, "content_index", 0, "text", p.Text)
		}
		f.emit(to, "response.content_part.done", "item_id", i.ID, "output_index", at, "content_index", 0, "part", p)
	}
	f.emit(to, "response.output_item.done", "output_index", at, "item", *i)
}

// timed adds the figures so far to an event's fields, where they are asked for.
func (f *responsesForm) timed(stats *speculative.Stats, fields ...any) []any {
	if f.wantTimings && stats != nil {
		fields = append(fields, "timings", f.timings(stats))
	}
	return fields
}

func (f *responsesForm) delta(to sink, d *delta) {
	if d.Progress != nil {
		f.emit(to, "response.in_progress", "response", f.object(statusRunning), "prompt_progress", f.progressOf(d))
	}
	if d.Reasoning != "" {
		i := f.item(to, itemReasoning, partReasoning)
		(*i.Content)[0].Text += d.Reasoning
		f.emit(to, "response.reasoning_text.delta", "item_id", i.ID, "output_index", len(f.items)-1, "content_index", 0,
			"delta", d.Reasoning)
	}
	if d.Text != "" {
		i := f.item(to, itemMessage, partText)
		(*i.Content)[0].Text += d.Text
		f.emit(to, "response.output_text.delta", f.timed(d.Stats, "item_id", i.ID, "output_index", len(f.items)-1,
			"content_index", 0, "delta", d.Text, "logprobs", []any{})...)
	}
	for _, c := range d.Calls {
		if c.ID != "" {
			i := f.item(to, itemCall, "")
			i.CallID, i.Name = c.ID, c.Name
			f.emit(to, "response.output_item.added", "output_index", len(f.items)-1, "item", *i)
		}
		if at := len(f.items) - 1; c.Arguments != "" && at >= 0 && f.items[at].Type == itemCall {
			i := &f.items[at]
			*i.Arguments += c.Arguments
			f.emit(to, "response.function_call_arguments.delta", "item_id", i.ID, "output_index", at, "delta", c.Arguments)
		}
	}
}

func (f *responsesForm) end(to sink) {
	if len(f.items) == 0 {
		f.item(to, itemMessage, partText)
	}
	f.close(to)
	o := f.object(statusDone)
	f.emit(to, "response."+o.Status, f.timed(&f.answers[0].Stats, "response", o)...)
}

func (f *responsesForm) fail(to sink, e *Error) {
	f.emit(to, "error", "code", e.Code, "message", e.Message, "param", e.Param)
}

// needInput is the check of /v1/responses: something to answer, with its instructions in front.
func needInput(_ *Server, r *request) *Error {
	if r.messages == nil {
		return badField("input", "missing")
	}
	r.instruct()
	return nil
}

// instruct puts the system message that stands beside the conversation in front of it.
func (r *conversation) instruct() {
	if r.instructions != "" {
		r.messages = append([]chat.Message{{Role: "system", Content: r.instructions}}, r.messages...)
	}
}
