package serve

import (
	"encoding/json"
	"fmt"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// chatAnswer is the object of /v1/chat/completions, whole or a chunk.
type chatAnswer struct {
	ID          string        `json:"id"`
	Object      string        `json:"object"`
	Created     int64         `json:"created"`
	Model       string        `json:"model"`
	Fingerprint string        `json:"system_fingerprint"`
	Choices     []any         `json:"choices"`
	Prompt      []promptToken `json:"prompt_logprobs,omitempty"`
	Usage       any           `json:"usage,omitempty"` // *usage; see noUsage
	Timings     *timings      `json:"timings,omitempty"`
	Speculation *speculation  `json:"speculation,omitempty"`
	Verbose     any           `json:"__verbose,omitempty"` // the answer as /completion has it
	Progress    *progress     `json:"prompt_progress,omitempty"`
}

// speculation is what a chunk tells about who wrote it.
type speculation struct {
	Tokens []tracedToken `json:"tokens"`
	Rounds []round       `json:"rounds"`
}

// speculation is what a chunk tells of a delta; nil: nothing.
func (d *delta) speculation() *speculation {
	if d.tokens == nil {
		return nil
	}
	return &speculation{d.tokens, append([]round{}, d.rounds...)}
}

type chatChoice struct {
	Index    int          `json:"index"`
	Message  *chatMessage `json:"message"`
	Logprobs *chatLogprob `json:"logprobs"`
	Finish   spec.Finish  `json:"finish_reason"`
}

type chatMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []chatCall `json:"tool_calls,omitempty"`
}

type chatChunk struct {
	Index    int          `json:"index"`
	Delta    chatDelta    `json:"delta"`
	Logprobs *chatLogprob `json:"logprobs"`
	Finish   *spec.Finish `json:"finish_reason"`
}

type chatDelta struct {
	Role      string     `json:"role,omitempty"`
	Content   any        `json:"content,omitempty"` // *string; see noContent
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []chatCall `json:"tool_calls,omitempty"`
}

type chatCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type chatLogprob struct {
	Content []chatToken `json:"content"`
}

type chatToken struct {
	Token   string       `json:"token"`
	Logprob jsonFloat    `json:"logprob"`
	Bytes   []int        `json:"bytes"`
	Top     *[]chatToken `json:"top_logprobs,omitempty"`
}

// usage counts tokens. Accepted and rejected predictions are drafted tokens: of an earlier answer where the request has
// one, else all of them.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`

	PromptDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
		Accepted  int `json:"accepted_prediction_tokens"`
		Rejected  int `json:"rejected_prediction_tokens"`
	} `json:"completion_tokens_details"`
}

// noContent is the content of a stream's first chunk: null.
var noContent any = (*string)(nil)

// noUsage is the usage of chunks before the last one, where a client asks for usage: null, as in OpenAI's API.
var noUsage any = (*usage)(nil)

// fingerprint names the arithmetic: it does not depend on machine or load. It begins as llama.cpp's do, whose clients
// look for that.
var fingerprint = fmt.Sprintf("b%d-spec", engine.NumericRules)

func (r *reading) usage() *usage {
	var u usage
	for i := range r.answers {
		a := &r.answers[i]
		if i == 0 || !sameTokens(r.task.Prompt(i), r.task.Prompt(i-1)) {
			u.Prompt += len(r.task.Prompt(i)) // one prompt with several answers counts once
			u.PromptDetails.Cached += a.Stats.Reused
		}
		u.Completion += a.Stats.Generated
		u.CompletionDetails.Reasoning += min(a.ReasoningTokens, a.Stats.Generated)
		drafts := speculative.Drafts{Drafted: a.Stats.Drafted, Accepted: a.Stats.Accepted}
		if r.predicts != "" {
			drafts = a.Stats.Previous
		}
		u.CompletionDetails.Accepted += drafts.Accepted
		u.CompletionDetails.Rejected += drafts.Drafted - drafts.Accepted
	}
	u.Total = u.Prompt + u.Completion
	return &u
}

// sameTokens reports whether two prompts are one.
func sameTokens(a, b []int32) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// chatForm writes answers of /v1/chat/completions.
type chatForm struct {
	*reading
	head chatAnswer
	open int // answers that have not ended
}

func newChatForm(r *reading) form {
	s := r.server()
	f := &chatForm{reading: r, open: len(r.answers)}
	f.head = chatAnswer{ID: s.newID("chatcmpl-"), Object: "chat.completion", Created: s.now().Unix(), Model: r.m.name,
		Fingerprint: fingerprint}
	return f
}

func (f *chatForm) whole() any {
	out := f.head
	for i := range f.answers {
		a := &f.answers[i]
		m := &chatMessage{Role: "assistant", Reasoning: a.Reasoning}
		if a.Text != "" || len(a.Calls) == 0 {
			m.Content = &a.Text
		}
		for _, c := range a.Calls {
			m.Calls = append(m.Calls, chatCall{ID: c.ID, Type: "function", Function: chatFunction{c.Name, c.Arguments}})
		}
		c := chatChoice{Index: i, Message: m, Finish: a.Finish}
		if f.logprobs {
			c.Logprobs = &chatLogprob{[]chatToken{}}
			for j := range a.logprobs {
				c.Logprobs.Content = append(c.Logprobs.Content, f.chatToken(&a.logprobs[j]))
			}
		}
		out.Choices = append(out.Choices, c)
	}
	total := f.totals()
	out.Prompt, out.Usage, out.Timings = f.promptTokens(0), f.usage(), f.timings(&total)
	if f.verbose {
		out.Verbose = f.verboseAnswer(0)
	}
	return out
}

// verboseAnswer is what __verbose tells of an answer.
func (f *chatForm) verboseAnswer(i int) nativeAnswer {
	native := nativeForm{f.reading}
	out := native.last(i)
	out.Content = f.answers[i].Text
	return out
}

func (f *chatForm) begin(to sink) {
	f.head.Object = "chat.completion.chunk"
	if f.wantUsage {
		f.head.Usage = noUsage
	}
	for i := range f.answers {
		f.chunk(to, chatChunk{Index: i, Delta: chatDelta{Role: "assistant", Content: noContent}}, nil)
		for _, d := range f.reading.begin(i) {
			f.delta(to, &d)
		}
	}
}

func (f *chatForm) chunk(to sink, c chatChunk, change func(*chatAnswer)) {
	out := f.head
	out.Choices = []any{c}
	if change != nil {
		change(&out)
	}
	to.event("", out)
}

func (f *chatForm) delta(to sink, d *delta) {
	if d.Progress != nil {
		f.chunk(to, chatChunk{Index: d.Answer}, func(out *chatAnswer) { out.Progress = f.progressOf(d) })
		return
	}
	c := chatChunk{Index: d.Answer, Delta: chatDelta{Reasoning: d.Reasoning}}
	if d.Text != "" {
		c.Delta.Content = &d.Text
	}
	for _, p := range d.Calls {
		call := chatCall{Index: &p.Call, Function: chatFunction{p.Name, p.Arguments}}
		if p.ID != "" {
			call.ID, call.Type = p.ID, "function"
		}
		c.Delta.Calls = append(c.Delta.Calls, call)
	}
	if d.logprob != nil {
		c.Logprobs = &chatLogprob{[]chatToken{f.chatToken(d.logprob)}}
	}
	if d.Finish != "" { // text that the end released comes before the reason
		if c.Delta.Content != nil || c.Delta.Reasoning != "" || c.Delta.Calls != nil {
			f.chunk(to, c, nil)
		}
		f.open--
		f.chunk(to, chatChunk{Index: d.Answer, Finish: &d.Finish}, func(out *chatAnswer) {
			if f.open == 0 && !f.wantUsage {
				total := f.totals()
				out.Timings = f.timings(&total)
			}
			if f.verbose {
				out.Verbose = f.verboseAnswer(d.Answer)
			}
		})
		return
	}
	f.chunk(to, c, func(out *chatAnswer) {
		out.Speculation = d.speculation()
		if f.wantTimings && d.Stats != nil {
			out.Timings = f.timings(d.Stats)
		}
	})
}

func (f *chatForm) end(to sink) {
	if f.wantUsage {
		out, total := f.head, f.totals()
		out.Choices, out.Usage, out.Timings = []any{}, f.usage(), f.timings(&total)
		to.event("", out)
	}
	to.raw("[DONE]")
}

func (f *chatForm) fail(to sink, e *Error) { to.event("", e.wire()) }

func (r *reading) chatToken(t *tokenLogprob) chatToken {
	out := chatToken{Token: t.text, Logprob: jsonFloat(t.p), Bytes: ints(t.bytes), Top: &[]chatToken{}}
	for _, p := range t.top {
		text, b := tokenText(r.m.Tokenizer(), p.ID)
		*out.Top = append(*out.Top, chatToken{Token: text, Logprob: jsonFloat(p.P), Bytes: ints(b)})
	}
	return out
}

func ints(b []byte) []int {
	out := make([]int, len(b))
	for i, c := range b {
		out[i] = int(c)
	}
	return out
}

// jsonFloat is a number that JSON can hold: infinite ones become OpenAI's -9999.
type jsonFloat float32

func (x jsonFloat) MarshalJSON() ([]byte, error) {
	if x < -9999 {
		x = -9999
	}
	if x != x || x > 9999 {
		return []byte("null"), nil
	}
	return json.Marshal(float32(x))
}
