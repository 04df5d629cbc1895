package serve

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/speculative"
)

// delta is what one token, or the end, adds to an answer, with what the request asked for beside it.
type delta struct {
	spec.Event
	logprob *tokenLogprob
	ids     []int32 // of the token, if asked for
	tokens  []tracedToken
	rounds  []round
}

// round is what a chunk tells about a round of speculation.
type round struct {
	Drafted  int     `json:"n_draft"`
	Accepted int     `json:"n_accept"`
	Seconds  float64 `json:"seconds"`
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
	p     float32 // log; NaN: the first token of a prompt has none
	top   []sampling.Prob
	at    int // characters in front of its text in the answer
}

// answer is what has come of an answer so far.
type answer struct {
	spec.Result
	logprobs []tokenLogprob
	ids      []int32 // if asked for, or needed
	written  places  // of the text whose tokens' probabilities are known, with what is withheld
	scored   places  // likewise of the prompt's text
	prompt   []promptToken
}

// promptToken is what prompt_logprobs tells of a token: it and alternatives by their ids, as vLLM does. nil: the first
// of a prompt.
type promptToken map[int32]rankedToken

type rankedToken struct {
	LogProb jsonFloat `json:"logprob"`
	Rank    int       `json:"rank"` // how many tokens are at least as likely
	Text    string    `json:"decoded_token"`
}

// reading reads the events of a request's answers.
type reading struct {
	*request
	m       *loaded
	task    *spec.Task
	echoed  []string // texts of the prompts, see request.echoes
	answers []answer
	partial []atomic.Pointer[speculative.Stats] // figures of the answers, however they have ended
	slotOf  []atomic.Pointer[inSlot]            // of the answers
	asked   time.Time                           // when the request came
	first   time.Time                           // of the first token
}

func newReading(m *loaded, r *request, task *spec.Task) *reading {
	return &reading{request: r, m: m, task: task, echoed: r.echoes(task), answers: make([]answer, task.Answers()),
		partial: make([]atomic.Pointer[speculative.Stats], task.Answers()),
		slotOf:  make([]atomic.Pointer[inSlot], task.Answers())}
}

// begin are the deltas before any token: what the answer begins with by the request.
func (r *reading) begin(index int) (list []delta) {
	if r.echoed == nil || r.echoed[index/r.n] == "" {
		return nil
	}
	a, echo := &r.answers[index], r.echoed[index/r.n]
	a.Text = echo
	a.written.add(echo)
	d := delta{Event: spec.Event{Answer: index, Text: echo}}
	if r.logprobs {
		d.logprob = r.ofPrompt(a, index, &speculative.Token{ID: r.task.Prompt(index)[0], LogProb: float32(math.NaN())})
	}
	return []delta{d}
}

// ofPrompt adds a token of an answer's prompt to those whose probabilities are told.
func (r *reading) ofPrompt(a *answer, index int, token *speculative.Token) *tokenLogprob {
	tok, p := r.m.Tokenizer(), r.prompts[index/r.n]
	text := echoedText(tok, r.task.Prompt(index), token.Position, spelledByIDs(&p, r.task))
	t := r.logprob(token, min(a.scored.add(text), a.written.chars))
	a.logprobs = append(a.logprobs, *t)
	return t
}

func (r *reading) server() *Server { return r.m.server }

// read turns an event into a delta. It reports false where the event adds nothing that can be shown yet.
func (r *reading) read(e *spec.Event) (d delta, ok bool) {
	a := &r.answers[e.Answer]
	d = delta{Event: *e}
	r.count(e)
	if e.Progress != nil {
		return d, true
	}
	if e.Scored != nil {
		if r.promptTop > 0 {
			a.prompt = append(a.prompt, r.promptToken(e.Scored))
		}
		if !r.echo || !r.logprobs {
			return d, false
		}
		d.logprob = r.ofPrompt(a, e.Answer, e.Scored)
		return d, true
	}
	if r.none { // the one token that was computed is not shown
		e.Text, d.Text = "", ""
		if e.Finish != "" {
			e.Finish, d.Finish = spec.FinishLength, spec.FinishLength
			e.Stats.Generated, e.Stats.End = 0, speculative.EndLength
		}
	}
	a.Add(e)
	if e.Finish != "" || r.none {
		return d, e.Finish != ""
	}
	if r.first.IsZero() {
		r.first = r.server().now()
	}
	if e.Token.ID >= 0 && !e.Ends {
		if r.logprobs {
			d.logprob = r.logprob(&e.Token, a.written.addToken(r.m.Tokenizer(), e.Token.ID))
			a.logprobs = append(a.logprobs, *d.logprob)
		}
		if r.wantTokens || r.verbose { // which tells the text that ended the answer
			a.ids = append(a.ids, e.Token.ID)
		}
		if r.wantTokens {
			d.ids = []int32{e.Token.ID}
		}
	}
	if r.trace {
		d.tokens = []tracedToken{{e.Token.Text, e.Token.Source}}
		if e.Round != nil {
			d.rounds = []round{{e.Round.Drafted, e.Round.Accepted, e.Round.Seconds}}
		}
	}
	return d, e.Text != "" || e.Reasoning != "" || e.Calls != nil || d.logprob != nil || d.tokens != nil || d.ids != nil
}

// logprob describes a token.
func (r *reading) logprob(token *speculative.Token, at int) *tokenLogprob {
	t := &tokenLogprob{id: token.ID, p: token.LogProb, top: token.Top[:min(len(token.Top), r.top)], at: at}
	t.text, t.bytes = tokenText(r.m.Tokenizer(), t.id)
	return t
}

// promptToken describes a token of the prompt.
func (r *reading) promptToken(token *speculative.Token) promptToken {
	tok, out := r.m.Tokenizer(), promptToken{}
	for i, p := range token.Top[:min(len(token.Top), r.promptTop-1)] {
		text, _ := tokenText(tok, p.ID)
		out[p.ID] = rankedToken{jsonFloat(p.P), i + 1, text}
	}
	text, _ := tokenText(tok, token.ID)
	out[token.ID] = rankedToken{jsonFloat(token.LogProb), token.Rank, text}
	return out
}

// promptTokens are those of an answer's prompt, the first without a probability; nil where they were not asked for.
func (r *reading) promptTokens(answer int) []promptToken {
	if r.promptTop == 0 {
		return nil
	}
	return append([]promptToken{nil}, r.answers[answer].prompt...)
}

// tokenText is a token's text and bytes; a control token has its spelling.
func tokenText(tok *bpe.Tokenizer, id int32) (string, []byte) {
	b := tok.Bytes(id)
	if len(b) == 0 && tok.IsControl(id) {
		b = []byte(tok.Token(id))
	}
	return validText(b), b
}

// tokensText is the text of tokens, with the spelling of control tokens.
func tokensText(tok *bpe.Tokenizer, ids []int32) string {
	var all []byte
	for _, id := range ids {
		_, b := tokenText(tok, id)
		all = append(all, b...)
	}
	return validText(all)
}

// figured takes the figures of an answer that has ended, if its prompt was read to the end.
func (r *reading) figured(i int, s speculative.Stats) {
	if s.TargetPasses > 0 {
		r.partial[i].Store(&s)
	}
}

// figures are those of an answer: as its end told them, or of one that has no end, as its client has left, how far it
// came.
func (r *reading) figures(i int) *speculative.Stats {
	if s := r.partial[i].Load(); s != nil && r.answers[i].Finish == "" {
		return s
	}
	return &r.answers[i].Stats
}

// totals are the figures of all answers.
func (r *reading) totals() speculative.Stats {
	var all speculative.Stats
	for i := range r.answers {
		addStats(&all, r.figures(i))
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
	// something was dropped from the prompt, see when_full
	Truncated bool `json:"truncated,omitempty"`
}

// timings are those of the answers, with what became of their prompt.
func (r *reading) timings(s *speculative.Stats) *timings {
	t := newTimings(s)
	t.Truncated = r.task.Cut()
	return t
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

// milliseconds is a duration in seconds as timings have it.
func milliseconds(seconds float64) float64 { return seconds * float64(time.Second/time.Millisecond) }
