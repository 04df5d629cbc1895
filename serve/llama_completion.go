package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/speculative"
)

// nativeAnswer is the object of /completion and /infill, whole or a piece of a stream, under llama.cpp's names.
type nativeAnswer struct {
	Index      int             `json:"index"`
	Content    string          `json:"content"`
	Tokens     []int32         `json:"tokens"`
	Slot       int             `json:"id_slot"` // that holds the text afterwards
	Stop       bool            `json:"stop"`
	Model      string          `json:"model,omitempty"`
	Predicted  int             `json:"tokens_predicted"`
	Evaluated  int             `json:"tokens_evaluated"`
	Settings   *nativeSettings `json:"generation_settings,omitempty"`
	Prompt     *string         `json:"prompt,omitempty"`
	NewLine    *bool           `json:"has_new_line,omitempty"`
	Truncated  *bool           `json:"truncated,omitempty"`
	StopType   string          `json:"stop_type,omitempty"`
	StopWord   *string         `json:"stopping_word,omitempty"`
	Cached     *int            `json:"tokens_cached,omitempty"`
	Probs      []nativeProb    `json:"completion_probabilities,omitempty"`
	Timings    *timings        `json:"timings,omitempty"`
	Speculated *speculation    `json:"speculation,omitempty"`
	Progress   *progress       `json:"prompt_progress,omitempty"`
}

// progress is how far a prompt is computed, under llama.cpp's names.
type progress struct {
	Total     int     `json:"total"`
	Cached    int     `json:"cache"`
	Processed int     `json:"processed"`
	TimeMS    float64 `json:"time_ms"`
}

func (r *reading) progressOf(d *delta) *progress {
	p := d.Event.Progress
	return &progress{p.Total, p.Cached, p.Done, milliseconds(r.server().now().Sub(r.asked).Seconds())}
}

// samplingSettings are how an answer's tokens are chosen, and its bounds, without texts.
type samplingSettings struct {
	Predict          int     `json:"n_predict"`
	Context          int     `json:"n_ctx"`
	Seed             uint64  `json:"seed"`
	Temperature      float32 `json:"temperature"`
	TopK             int     `json:"top_k"`
	TopP             float32 `json:"top_p"`
	MinP             float32 `json:"min_p"`
	RepeatPenalty    float32 `json:"repeat_penalty"`
	RepeatLastN      int     `json:"repeat_last_n"`
	PresencePenalty  float32 `json:"presence_penalty"`
	FrequencyPenalty float32 `json:"frequency_penalty"`
	IgnoreEOS        bool    `json:"ignore_eos"`
	Probs            int     `json:"n_probs"`
	filterSettings
}

// nativeSettings are the settings that an answer had.
type nativeSettings struct {
	samplingSettings
	Stop []string      `json:"stop"`
	Bias []biasSetting `json:"logit_bias"`
}

// filterSettings are those of filters that are seldom on.
type filterSettings struct {
	TypicalP     float32 `json:"typical_p"`
	TopNSigma    float32 `json:"top_n_sigma"`
	XTC          float32 `json:"xtc_probability"`
	XTCThreshold float32 `json:"xtc_threshold"`
	Dynatemp     float32 `json:"dynatemp_range"`
	DynatempExp  float32 `json:"dynatemp_exponent"`
	Mirostat     int     `json:"mirostat"`
	Tau          float32 `json:"mirostat_tau"`
	Eta          float32 `json:"mirostat_eta"`
	DRY          float32 `json:"dry_multiplier"`
	DRYBase      float32 `json:"dry_base"`
	DRYAllowed   int     `json:"dry_allowed_length"`
	DRYLastN     int     `json:"dry_penalty_last_n"`
}

// biasSetting is the bias of a token; one that is banned has null.
type biasSetting struct {
	Token int32    `json:"token"`
	Bias  *float32 `json:"bias"`
}

// newSampling tells what a text's tokens are chosen by.
func newSampling(s *engine.Sampling) samplingSettings {
	n := s.Normalized()
	if n.PenaltyLastN == sampling.NoTokens {
		n.PenaltyLastN = 0 // as requests have it
	}
	return samplingSettings{Seed: s.Seed, Temperature: s.Temperature, TopK: s.TopK, TopP: cmp.Or(s.TopP, 1), MinP: s.MinP,
		RepeatPenalty: cmp.Or(s.RepeatPenalty, 1), RepeatLastN: n.PenaltyLastN, PresencePenalty: s.PresencePenalty,
		FrequencyPenalty: s.FrequencyPenalty, filterSettings: filterSettings{
			TypicalP: cmp.Or(n.TypicalP, 1), TopNSigma: n.TopNSigma, XTC: n.XTC.Probability, XTCThreshold: n.XTC.Threshold,
			Dynatemp: n.Dynatemp.Range, DynatempExp: n.Dynatemp.Exponent, Mirostat: n.Mirostat.Version, Tau: n.Mirostat.Tau,
			Eta: n.Mirostat.Eta, DRY: n.DRY.Multiplier, DRYBase: n.DRY.Base, DRYAllowed: n.DRY.AllowedLength,
			DRYLastN: n.DRY.LastN}}
}

// newSettings is newSampling with the biases.
func newSettings(s *engine.Sampling) *nativeSettings {
	o := &nativeSettings{samplingSettings: newSampling(s), Bias: []biasSetting{}}
	for _, id := range slices.Sorted(maps.Keys(s.LogitBias)) {
		x := s.LogitBias[id]
		o.Bias = append(o.Bias, biasSetting{id, &x})
	}
	for _, id := range s.Banned {
		o.Bias = append(o.Bias, biasSetting{Token: id})
	}
	return o
}

// nativeProb is a token with its log-probability and alternatives.
type nativeProb struct {
	ID    int32        `json:"id"`
	Token string       `json:"token"`
	Bytes []int        `json:"bytes"`
	P     *jsonFloat   `json:"logprob,omitempty"`
	Top   []nativeProb `json:"top_logprobs,omitempty"`

	// with post_sampling_probs
	Chosen    *jsonFloat   `json:"prob,omitempty"`
	TopChosen []nativeProb `json:"top_probs,omitempty"`
}

func (r *reading) nativeProb(t *tokenLogprob) nativeProb {
	one := func(id int32, text string, b []byte, p float32) nativeProb {
		x := jsonFloat(p)
		if !r.chosen {
			return nativeProb{ID: id, Token: text, Bytes: ints(b), P: &x}
		}
		x = jsonFloat(math.Exp(float64(p)))
		return nativeProb{ID: id, Token: text, Bytes: ints(b), Chosen: &x}
	}
	p := one(t.id, t.text, t.bytes, t.p)
	to := &p.Top
	if r.chosen {
		to = &p.TopChosen
	}
	for _, x := range t.top {
		text, b := tokenText(r.m.Tokenizer(), x.ID)
		*to = append(*to, one(x.ID, text, b, x.P))
	}
	return p
}

// nativeForm writes answers of /completion and /infill: an object, or an array where there were several prompts. A
// stream has no [DONE].
type nativeForm struct{ *reading }

func newNativeForm(r *reading) form { return &nativeForm{r} }

func needNative(s *Server, r *request) *Error {
	r.wantTokens = true
	return needPrompt(s, r)
}

func needInfill(_ *Server, r *request) *Error {
	r.wantTokens, r.infill = true, true
	if len(r.prompts) > 1 || len(r.prompts) == 1 && (r.prompts[0].Given || r.prompts[0].Parts != nil) {
		return badField("prompt", "must be a text")
	}
	return nil
}

// last is the object that tells the end of an answer.
func (f *nativeForm) last(i int) nativeAnswer {
	a, prompt := &f.answers[i], tokensText(f.m.Tokenizer(), f.task.Prompt(i))
	out := nativeAnswer{Index: i, Tokens: []int32{}, Slot: f.slotID(i), Stop: true, Model: f.m.name,
		Predicted: a.Stats.Generated, Evaluated: a.Stats.Prompt, Timings: f.timings(&a.Stats)}
	newLine, truncated, word, cached := strings.Contains(a.Text, "\n"),
		a.Stats.End == speculative.EndContext || f.task.Cut(), "", a.Stats.Prompt+a.Stats.Generated
	out.Prompt, out.NewLine, out.Truncated, out.StopWord, out.Cached = &prompt, &newLine, &truncated, &word, &cached
	switch a.Stats.End {
	case speculative.EndStop:
		out.StopType, word = "word", f.stopWord(a)
	case speculative.EndLength, speculative.EndContext, speculative.EndCancel: // the last: by its lines
		out.StopType = "limit"
	default:
		out.StopType = "eos"
	}
	s := f.task.Sampling(i)
	out.Settings = newSettings(&s)
	f.bound(&out.Settings.samplingSettings)
	if out.Settings.Stop = f.stop; out.Settings.Stop == nil {
		out.Settings.Stop = []string{}
	}
	return out
}

// bound fills in the bounds of a request's answers.
func (r *reading) bound(s *samplingSettings) {
	s.Context, s.IgnoreEOS, s.Probs, s.Predict = r.m.Context(), r.ignoreEOS, r.top, r.server().most(r.request)
	switch {
	case r.none:
		s.Predict = 0
	case s.Predict == 0:
		s.Predict = -1
	}
}

// stopWord is the stop text that ended an answer, whose token ids were asked for: that which its last token completed
// first, and of those the longest, as the text is cut in front of it.
func (r *reading) stopWord(a *answer) string {
	var text strings.Builder
	decoder, before := r.m.Tokenizer().NewDecoder(), 0
	for _, id := range a.ids {
		before = text.Len()
		text.WriteString(decoder.Next(id))
	}
	best, first := "", text.Len()+1
	for _, s := range r.stop {
		from := min(max(0, before-len(s)+1), text.Len())
		if i := strings.Index(text.String()[from:], s); i >= 0 {
			if end := from + i + len(s); end < first || end == first && len(s) > len(best) {
				best, first = s, end
			}
		}
	}
	return best
}

func (f *nativeForm) whole() any {
	var list []nativeAnswer
	for i := range f.answers {
		a := &f.answers[i]
		out := f.last(i)
		out.Content = a.Text
		if f.returnTokens && a.ids != nil {
			out.Tokens = a.ids
		}
		for j := range a.logprobs {
			out.Probs = append(out.Probs, f.nativeProb(&a.logprobs[j]))
		}
		list = append(list, out)
	}
	if f.fields != nil {
		chosen := make([]any, len(list))
		for i := range list {
			chosen[i] = choose(&list[i], f.fields)
		}
		if len(chosen) == 1 {
			return chosen[0]
		}
		return chosen
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// choose is the fields of an answer that were asked for, under the paths that were given. Those that there are not are
// left out, as in llama.cpp.
func choose(a *nativeAnswer, paths []string) map[string]any {
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(encode(a)))
	d.UseNumber()
	if d.Decode(&all) != nil {
		return nil // the package's own types always decode
	}
	chosen := map[string]any{}
	for _, path := range paths {
		var at any = all
		for part := range strings.SplitSeq(path, "/") {
			m, _ := at.(map[string]any)
			at = m[part]
		}
		if at != nil {
			chosen[path] = at
		}
	}
	return chosen
}

func (f *nativeForm) begin(sink) {}

func (f *nativeForm) delta(to sink, d *delta) {
	a := &f.answers[d.Answer]
	if d.Finish != "" {
		out := f.last(d.Answer)
		if out.Content = d.Text; f.fields != nil {
			to.event("", choose(&out, f.fields))
			return
		}
		to.event("", out)
		return
	}
	out := nativeAnswer{Index: d.Answer, Content: d.Text, Tokens: d.ids, Slot: f.slotID(d.Answer), Predicted: len(a.ids),
		Evaluated: len(f.task.Prompt(d.Answer))}
	if out.Tokens == nil {
		out.Tokens = []int32{}
	}
	if d.Progress != nil {
		out.Progress = f.progressOf(d)
	}
	if d.logprob != nil {
		out.Probs = []nativeProb{f.nativeProb(d.logprob)}
	}
	if f.wantTimings && d.Stats != nil {
		out.Timings = f.timings(d.Stats)
	}
	out.Speculated = d.speculation()
	to.event("", out)
}

func (f *nativeForm) end(sink) {}

func (f *nativeForm) fail(to sink, e *Error) { to.event("", e.wire()) }
