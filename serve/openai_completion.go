package serve

import "github.com/specgo/spec"

// completionAnswer is the object of /v1/completions, whole or a chunk.
type completionAnswer struct {
	ID          string             `json:"id"`
	Object      string             `json:"object"`
	Created     int64              `json:"created"`
	Model       string             `json:"model"`
	Fingerprint string             `json:"system_fingerprint"`
	Choices     []completionChoice `json:"choices"`
	Usage       any                `json:"usage,omitempty"` // *usage; see noUsage
	Timings     *timings           `json:"timings,omitempty"`
	Speculation *speculation       `json:"speculation,omitempty"`
}

type completionChoice struct {
	Text     string             `json:"text"`
	Index    int                `json:"index"`
	Logprobs *completionLogprob `json:"logprobs"`
	Prompt   []promptToken      `json:"prompt_logprobs,omitempty"`
	Finish   *spec.Finish       `json:"finish_reason"`
}

// completionLogprob is the older form of log-probabilities.
type completionLogprob struct {
	Tokens  []string               `json:"tokens"`
	Each    []jsonFloat            `json:"token_logprobs"` // null: of a prompt's first token
	Top     []map[string]jsonFloat `json:"top_logprobs"`
	Offsets []int                  `json:"text_offset"`
}

func (l *completionLogprob) add(r *reading, t *tokenLogprob) {
	l.Tokens = append(l.Tokens, t.text)
	l.Each = append(l.Each, jsonFloat(t.p))
	l.Offsets = append(l.Offsets, t.at)
	if t.p != t.p { // NaN
		l.Top = append(l.Top, nil)
		return
	}
	top := map[string]jsonFloat{}
	for _, p := range t.top {
		text, _ := tokenText(r.m.Tokenizer(), p.ID)
		if _, ok := top[text]; !ok { // of tokens with one text the more likely
			top[text] = jsonFloat(p.P)
		}
	}
	if _, ok := top[t.text]; !ok && r.top > 0 { // the chosen token is always there, as in OpenAI's API
		top[t.text] = jsonFloat(t.p)
	}
	l.Top = append(l.Top, top)
}

// completionForm writes answers of /v1/completions.
type completionForm struct {
	*reading
	head completionAnswer
	open int
}

func newCompletionForm(r *reading) form {
	s := r.server()
	return &completionForm{reading: r, open: len(r.answers),
		head: completionAnswer{ID: s.newID("cmpl-"), Object: "text_completion", Created: s.now().Unix(), Model: r.m.name,
			Fingerprint: fingerprint}}
}

func (f *completionForm) whole() any {
	out := f.head
	for i := range f.answers {
		a := &f.answers[i]
		c := completionChoice{Text: a.Text, Index: i, Prompt: f.promptTokens(i), Finish: &a.Finish}
		if f.logprobs {
			c.Logprobs = &completionLogprob{Tokens: []string{}, Each: []jsonFloat{}, Top: []map[string]jsonFloat{},
				Offsets: []int{}}
			for j := range a.logprobs {
				c.Logprobs.add(f.reading, &a.logprobs[j])
			}
		}
		out.Choices = append(out.Choices, c)
	}
	total := f.totals()
	out.Usage, out.Timings = f.usage(), f.timings(&total)
	return out
}

func (f *completionForm) begin(to sink) {
	if f.wantUsage {
		f.head.Usage = noUsage
	}
	for i := range f.answers {
		for _, d := range f.reading.begin(i) {
			f.delta(to, &d)
		}
	}
}

func (f *completionForm) delta(to sink, d *delta) {
	out := f.head
	c := completionChoice{Text: d.Text, Index: d.Answer}
	if d.logprob != nil {
		c.Logprobs = &completionLogprob{}
		c.Logprobs.add(f.reading, d.logprob)
	}
	out.Speculation = d.speculation()
	if f.wantTimings && d.Stats != nil {
		out.Timings = f.timings(d.Stats)
	}
	if d.Finish != "" {
		c.Finish = &d.Finish
		if f.open--; f.open == 0 && !f.wantUsage {
			total := f.totals()
			out.Timings = f.timings(&total)
		}
	}
	out.Choices = []completionChoice{c}
	to.event("", out)
}

func (f *completionForm) end(to sink) {
	if f.wantUsage {
		out, total := f.head, f.totals()
		out.Choices, out.Usage, out.Timings = []completionChoice{}, f.usage(), f.timings(&total)
		to.event("", out)
	}
	to.raw("[DONE]")
}

func (f *completionForm) fail(to sink, e *Error) { to.event("", e.wire()) }
