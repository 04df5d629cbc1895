package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/speculative"
)

// Anthropic's API: /v1/messages, /v1/messages/count_tokens, and its form of /v1/models.

// fromAnthropic reports whether a request is of a client of Anthropic's API, where a path is also another's.
func fromAnthropic(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" }

// anthropicError is an error in its shape, with one of its types.
func anthropicError(e *Error) any {
	kind := e.Type
	switch {
	case e.Status == http.StatusServiceUnavailable:
		kind = "overloaded_error"
	case e.Status >= statusGone:
		kind = "api_error"
	case e.Status == http.StatusRequestEntityTooLarge:
		kind = "request_too_large"
	case e.Type == typeContext:
		kind = typeInvalid
	}
	type inner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	return struct {
		Type  string `json:"type"`
		Error inner  `json:"error"`
	}{"error", inner{kind, e.Message}}
}

// anthropicAnswer is a message, whole or as a stream begins with it.
type anthropicAnswer struct {
	ID       string           `json:"id"`
	Type     string           `json:"type"`
	Role     string           `json:"role"`
	Model    string           `json:"model"`
	Content  []anthropicBlock `json:"content"`
	Reason   *string          `json:"stop_reason"`
	Sequence *string          `json:"stop_sequence"`
	Usage    anthropicUsage   `json:"usage"`
	Edits    *anthropicEdits  `json:"context_management,omitempty"`
}

// anthropicEdits are the edits of context_management that were applied: none.
type anthropicEdits struct {
	Applied []any `json:"applied_edits"`
}

// anthropicBlock is a block of content: thinking, text or tool_use.
type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"` // always empty: nothing is signed
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

// Types of blocks.
const (
	blockText      = "text"
	blockThinking  = "thinking"
	blockCall      = "tool_use"
	blockReference = "tool_reference" // in the result of a client's search: a tool that it has found
)

type anthropicUsage struct {
	Input   int `json:"input_tokens"` // those that were computed
	Created int `json:"cache_creation_input_tokens"`
	Read    int `json:"cache_read_input_tokens"`
	Output  int `json:"output_tokens"`
}

// anthropicForm writes answers of /v1/messages.
type anthropicForm struct {
	*reading
	head  anthropicAnswer
	block int    // number of blocks so far
	open  string // type of the last one, "" where it has ended
}

func newAnthropicForm(r *reading) form {
	f := &anthropicForm{reading: r}
	f.head = anthropicAnswer{ID: r.server().newID("msg_"), Type: "message", Role: "assistant", Model: r.m.name,
		Content: []anthropicBlock{}}
	return f
}

func needAnthropic(s *Server, r *request) *Error {
	if r.wantTokens = true; r.maxField == "" { // the ids tell which text ended the answer
		return badField("max_tokens", "missing")
	}
	return needConversation(s, r)
}

// needConversation is the check of count_tokens.
func needConversation(s *Server, r *request) *Error {
	if e := needMessages(s, r); e != nil {
		return e
	}
	r.instruct()
	return nil
}

// used is the usage of the answer as far as it is known.
func (f *anthropicForm) used() anthropicUsage {
	a := &f.answers[0]
	u := anthropicUsage{Input: len(f.task.Prompt(0)) - a.Stats.Reused, Read: a.Stats.Reused, Output: a.Stats.Generated}
	return u
}

// applied are the edits that were applied, where some were asked for.
func (f *anthropicForm) applied() *anthropicEdits {
	if !f.edits {
		return nil
	}
	return &anthropicEdits{[]any{}}
}

// ended is why the answer ended, and which stop sequence did it.
func (f *anthropicForm) ended() (reason string, sequence *string) {
	a := &f.answers[0]
	switch {
	case a.Finish == spec.FinishLength:
		return "max_tokens", nil
	case a.Finish == spec.FinishCalls:
		return "tool_use", nil
	case a.Stats.End == speculative.EndStop:
		if word := f.stopWord(a); word != "" {
			return "stop_sequence", &word
		}
	}
	return "end_turn", nil
}

func (f *anthropicForm) whole() any {
	a, out := &f.answers[0], f.head
	if a.Reasoning != "" {
		b := anthropicBlock{Type: blockThinking, Thinking: &a.Reasoning, Signature: new(string)}
		out.Content = append(out.Content, b)
	}
	if a.Text != "" || len(a.Calls) == 0 {
		out.Content = append(out.Content, anthropicBlock{Type: blockText, Text: &a.Text})
	}
	for _, c := range a.Calls {
		b := anthropicBlock{Type: blockCall, ID: c.ID, Name: c.Name, Input: callObject(c.Arguments)}
		out.Content = append(out.Content, b)
	}
	reason, sequence := f.ended()
	out.Reason, out.Sequence, out.Usage, out.Edits = &reason, sequence, f.used(), f.applied()
	return out
}

// callObject is the arguments of a call as a JSON object, which is what clients read; those that a model did not
// finish, or that are none, are put into a string of one.
func callObject(arguments string) json.RawMessage {
	if raw := []byte(strings.TrimSpace(arguments)); (value{raw: raw}).isObject() && json.Valid(raw) {
		return raw
	}
	return encode(map[string]string{"arguments": arguments})
}

// anthropicEvent is an event of a stream.
type anthropicEvent struct {
	Type    string           `json:"type"`
	Message *anthropicAnswer `json:"message,omitempty"`
	Index   *int             `json:"index,omitempty"`
	Block   *anthropicBlock  `json:"content_block,omitempty"`
	Delta   any              `json:"delta,omitempty"`
	Usage   *anthropicUsage  `json:"usage,omitempty"`
	Edits   *anthropicEdits  `json:"context_management,omitempty"`
}

type anthropicDelta struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	Thinking *string `json:"thinking,omitempty"`
	JSON     *string `json:"partial_json,omitempty"`
}

func (f *anthropicForm) send(to sink, e anthropicEvent) { to.event(e.Type, e) }

func (f *anthropicForm) begin(to sink) {
	head := f.head
	head.Usage = anthropicUsage{Input: len(f.task.Prompt(0))}
	f.send(to, anthropicEvent{Type: "message_start", Message: &head})
}

// start begins a block, and ends the one before it.
func (f *anthropicForm) start(to sink, b anthropicBlock) {
	f.stop(to)
	f.block, f.open = f.block+1, b.Type
	index := f.block - 1
	f.send(to, anthropicEvent{Type: "content_block_start", Index: &index, Block: &b})
}

func (f *anthropicForm) stop(to sink) {
	if f.open == "" {
		return
	}
	index := f.block - 1
	f.open = ""
	f.send(to, anthropicEvent{Type: "content_block_stop", Index: &index})
}

func (f *anthropicForm) add(to sink, d anthropicDelta) {
	index := f.block - 1
	f.send(to, anthropicEvent{Type: "content_block_delta", Index: &index, Delta: d})
}

func (f *anthropicForm) delta(to sink, d *delta) {
	if d.Reasoning != "" {
		if f.open != blockThinking {
			f.start(to, anthropicBlock{Type: blockThinking, Thinking: new(string), Signature: new(string)})
		}
		f.add(to, anthropicDelta{Type: "thinking_delta", Thinking: &d.Reasoning})
	}
	if d.Text != "" {
		if f.open != blockText {
			f.start(to, anthropicBlock{Type: blockText, Text: new(string)})
		}
		f.add(to, anthropicDelta{Type: "text_delta", Text: &d.Text})
	}
	for _, p := range d.Calls {
		if p.Name != "" {
			f.start(to, anthropicBlock{Type: blockCall, ID: p.ID, Name: p.Name, Input: json.RawMessage("{}")})
		}
		if p.Arguments != "" {
			f.add(to, anthropicDelta{Type: "input_json_delta", JSON: &p.Arguments})
		}
	}
	if d.Finish == "" {
		return
	}
	if f.block == 0 { // a message has content
		f.start(to, anthropicBlock{Type: blockText, Text: new(string)})
	}
	f.stop(to)
	reason, sequence := f.ended()
	u := f.used()
	f.send(to, anthropicEvent{Type: "message_delta", Usage: &u, Edits: f.applied(), Delta: struct {
		Reason   string  `json:"stop_reason"`
		Sequence *string `json:"stop_sequence"`
	}{reason, sequence}})
}

func (f *anthropicForm) end(to sink) { f.send(to, anthropicEvent{Type: "message_stop"}) }

func (f *anthropicForm) fail(to sink, e *Error) { to.event("error", anthropicError(e)) }

// countTokens answers /v1/messages/count_tokens.
func (s *Server) countTokens(ctx context.Context, r *request) (any, error) {
	if e := needConversation(s, r); e != nil {
		return nil, e
	}
	n, err := s.promptTokens(ctx, r)
	return struct {
		Tokens int `json:"input_tokens"`
	}{n}, err
}

// anthropicModel is a model in Anthropic's lists.
type anthropicModel struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Name    string `json:"display_name"`
	Created string `json:"created_at"`
}

func (s *Server) anthropicModel(e Entry) anthropicModel {
	name := s.ollamaName(e.Name)
	return anthropicModel{"model", name, name, s.created(&e).UTC().Format(time.RFC3339)}
}

// Models of a page of Anthropic's list.
const (
	usualPage = 20
	mostPage  = 1000
)

// anthropicModels answers /v1/models in Anthropic's form: a page of so many models as limit says, the first ones, the
// first behind after_id, or the last in front of before_id.
func (s *Server) anthropicModels(w http.ResponseWriter, r *http.Request, entries []Entry) {
	query, limit := r.URL.Query(), int64(usualPage)
	list := make([]anthropicModel, len(entries))
	for i, e := range entries {
		list[i] = s.anthropicModel(e)
	}
	place := func(name string) (int, *Error) {
		id := query.Get(name)
		i := slices.IndexFunc(list, func(m anthropicModel) bool { return m.ID == id })
		if i < 0 {
			return 0, badField(name, "there is no model %q here", clip(id))
		}
		return i, nil
	}
	var wrong *Error
	from, to := 0, len(list)
	if query.Has("limit") {
		limit, wrong = value{"limit", []byte(query.Get("limit"))}.whole(1, mostPage)
	}
	if wrong == nil && query.Has("after_id") {
		from, wrong = place("after_id")
		from++
	}
	if wrong == nil && query.Has("before_id") {
		to, wrong = place("before_id")
	}
	if wrong != nil {
		s.fail(w, recordOf(r.Context()), anthropicError, wrong)
		return
	}
	list = list[from:max(from, to)]
	out := struct {
		Data  []anthropicModel `json:"data"`
		More  bool             `json:"has_more"`
		First *string          `json:"first_id"`
		Last  *string          `json:"last_id"`
	}{Data: list, More: len(list) > int(limit)}
	switch {
	case out.More && query.Has("before_id"):
		out.Data = list[len(list)-int(limit):]
	case out.More:
		out.Data = list[:limit]
	}
	if n := len(out.Data); n > 0 {
		out.First, out.Last = &out.Data[0].ID, &out.Data[n-1].ID
	}
	writeJSON(w, http.StatusOK, out)
}
