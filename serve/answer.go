package serve

import (
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/speculative"
)

// delta is what one token, or the end, adds to an answer. Deltas depend on the tokens only, not on how they were
// computed.
type delta struct {
	index     int
	content   string
	reasoning string
	calls     []callDelta
	logprob   *tokenLogprob
	finish    string // reason, at the end

	ids    []int32 // of the token, if asked for
	tokens []tracedToken
	rounds []round
	stats  *speculative.Stats // so far, or at the end
}

// callDelta is a part of a tool call: its beginning has a name and an id.
type callDelta struct {
	call      int
	id, name  string
	arguments string
}

// tracedToken is a token with who proposed it.
type tracedToken struct {
	Text   string             `json:"text"`
	Source speculative.Source `json:"source"`
}

// tokenLogprob is a token with its probability, and its alternatives.
type tokenLogprob struct {
	id    int32
	text  string
	bytes []byte
	p     float32 // log
	top   []sampling.Prob
	at    int // offset of its text in the answer
}

// answer is what has come of an answer so far.
type answer struct {
	index     int
	content   string
	reasoning string
	finish    string
	calls     []chat.ToolCall
	logprobs  []tokenLogprob
	ids       []int32 // if asked for
	reasoned  int     // tokens of reasoning
	err       error
	done      bool
	stats     speculative.Stats

	parser *chat.Parser
	length int  // of the text in bytes, with what is withheld
	broken bool // a call was cut off
}

// reading reads the pieces of a plan's answers.
type reading struct {
	*plan
	answers []answer
	asked   time.Time // when the request came
	first   time.Time // of the first token
	tokens  int
}

func (p *plan) newReading() *reading {
	r := &reading{plan: p, answers: make([]answer, len(p.tasks))}
	for i := range r.answers {
		a := &r.answers[i]
		a.index = i
		if p.format != nil {
			a.parser = chat.NewParser(*p.format, chat.ParserOptions{Tools: p.offered, Reasoning: p.reasoning})
		}
	}
	return r
}

// begin are the deltas before any token: what the answer begins with by the request.
func (r *reading) begin(index int) (list []delta) {
	a := &r.answers[index]
	if echo := r.tasks[index].echo; echo != "" {
		a.content, a.length = echo, len(echo)
		list = append(list, delta{index: index, content: echo})
	}
	return list
}

func (r *reading) server() *Server { return r.m.server }

// read turns a piece into a delta. It reports false where the piece adds nothing that can be shown yet.
func (r *reading) read(p piece) (d delta, ok bool) {
	a := &r.answers[p.index]
	d = delta{index: p.index, stats: p.stats}
	if p.last {
		return d, r.end(a, p, &d)
	}
	if r.tokens++; r.first.IsZero() {
		r.first = r.server().now()
	}
	if p.token.ID >= 0 && r.logprobs && !r.isEnd()(p.token.ID) {
		d.logprob = r.logprob(p, a.length)
		a.logprobs = append(a.logprobs, *d.logprob)
	}
	if r.wantTokens && p.token.ID >= 0 && !r.isEnd()(p.token.ID) {
		d.ids = []int32{p.token.ID}
		a.ids = append(a.ids, p.token.ID)
	}
	a.length += len(p.text)
	if r.trace {
		d.tokens = []tracedToken{{p.text, p.token.Source}}
		if p.round != nil {
			d.rounds = []round{*p.round}
		}
	}
	if a.parser == nil {
		a.content += p.text
		d.content = p.text
		return d, p.text != "" || d.logprob != nil || d.tokens != nil || d.ids != nil
	}
	before := len(a.reasoning)
	shown := a.read(a.parser.Push(p.text), &d, r.server())
	if len(a.reasoning) > before || r.reasoning && a.content == "" && len(a.calls) == 0 {
		a.reasoned++
	}
	return d, shown || d.logprob != nil || d.tokens != nil
}

// read adds a parser's events to the answer and to a delta.
func (a *answer) read(events []chat.Event, d *delta, s *Server) bool {
	for _, e := range events {
		switch e.Kind {
		case chat.ContentEvent:
			a.content += e.Text
			d.content += e.Text
		case chat.ReasoningEvent:
			a.reasoning += e.Text
			d.reasoning += e.Text
		case chat.ToolCallStart:
			id := e.ID
			if id == "" {
				id = s.newID("call_")
			}
			a.calls = append(a.calls, chat.ToolCall{ID: id, Name: e.Name})
			d.calls = append(d.calls, callDelta{call: e.Call, id: id, name: e.Name})
		case chat.ToolCallArgs:
			if e.Call < len(a.calls) {
				a.calls[e.Call].Arguments += e.Text
			}
			if n := len(d.calls) - 1; n >= 0 && d.calls[n].call == e.Call {
				d.calls[n].arguments += e.Text
			} else {
				d.calls = append(d.calls, callDelta{call: e.Call, arguments: e.Text})
			}
		case chat.ToolCallEnd:
			a.broken = a.broken || e.Err != nil
		}
	}
	return len(events) > 0 && (d.content != "" || d.reasoning != "" || d.calls != nil)
}

// end finishes an answer.
func (r *reading) end(a *answer, p piece, d *delta) bool {
	a.done, a.err = true, p.err
	if p.stats != nil {
		a.stats = *p.stats
	}
	if a.parser != nil {
		a.read(a.parser.Close(), d, r.server())
	}
	if p.err != nil {
		return false
	}
	switch p.end {
	case speculative.EndLength, speculative.EndContext:
		a.finish = "length"
	default:
		a.finish = "stop"
		if len(a.calls) > 0 {
			a.finish = "tool_calls"
		}
	}
	d.finish = a.finish
	return true
}

// logprob describes a token.
func (r *reading) logprob(p piece, at int) *tokenLogprob {
	t := &tokenLogprob{id: p.token.ID, p: p.token.LogProb, top: p.token.Top, at: at}
	t.text, t.bytes = tokenText(r.m.tok, t.id)
	return t
}

// tokenText is a token's text and bytes; a control token has its spelling.
func tokenText(tok *bpe.Tokenizer, id int32) (string, []byte) {
	b := tok.Bytes(id)
	if len(b) == 0 && tok.IsControl(id) {
		b = []byte(tok.Token(id))
	}
	return validText(b), b
}

// err is the first error of an answer.
func (r *reading) err() error {
	for i := range r.answers {
		if err := r.answers[i].err; err != nil {
			return err
		}
	}
	return nil
}

// totals are the figures of all answers.
func (r *reading) totals() speculative.Stats {
	var all speculative.Stats
	for i := range r.answers {
		addStats(&all, &r.answers[i].stats)
	}
	return all
}

// addStats adds an answer's figures. Prompts count once for each answer's own pass over them.
func addStats(all, s *speculative.Stats) {
	all.Prompt += s.Prompt
	all.Reused += s.Reused
	all.Generated += s.Generated
	all.Drafted += s.Drafted
	all.Accepted += s.Accepted
	all.Forced += s.Forced
	all.ForcedAccepted += s.ForcedAccepted
	all.TargetPasses += s.TargetPasses
	all.Prefill += s.Prefill
	all.Draft += s.Draft
	all.Verify += s.Verify
	all.Total += s.Total
}

// timings are an answer's figures under llama.cpp's names.
type timings struct {
	Cached             int     `json:"cache_n"`
	Prompt             int     `json:"prompt_n"`
	PromptMS           float64 `json:"prompt_ms"`
	PromptPerTokenMS   float64 `json:"prompt_per_token_ms"`
	PromptPerSecond    float64 `json:"prompt_per_second"`
	Predicted          int     `json:"predicted_n"`
	PredictedMS        float64 `json:"predicted_ms"`
	PredictedPerToken  float64 `json:"predicted_per_token_ms"`
	PredictedPerSecond float64 `json:"predicted_per_second"`
	Drafted            int     `json:"draft_n"`
	Accepted           int     `json:"draft_n_accepted"`
	// tokens that a grammar left no choice about; not counted as drafted
	Forced int `json:"forced_n,omitempty"`
}

func newTimings(s *speculative.Stats) *timings {
	t := &timings{Cached: s.Reused, Prompt: s.Prompt - s.Reused, PromptMS: milliseconds(s.Prefill), Predicted: s.Generated,
		PredictedMS: milliseconds(s.Total - s.Prefill), Drafted: s.Drafted, Accepted: s.Accepted, Forced: s.ForcedAccepted}
	rate := func(n int, ms float64, each, perSecond *float64) {
		if n > 0 && ms > 0 {
			*each, *perSecond = ms/float64(n), float64(n)/ms*1000
		}
	}
	rate(t.Prompt, t.PromptMS, &t.PromptPerTokenMS, &t.PromptPerSecond)
	rate(t.Predicted, t.PredictedMS, &t.PredictedPerToken, &t.PredictedPerSecond)
	return t
}
