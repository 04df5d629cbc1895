package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/specgo/spec"
)

// The API of Ollama: JSON lines, streams unless told otherwise, errors {"error": "…"}.

// ollamaName is a model's name in lists: with Options.Ollama one without a tag has the tag latest, as in Ollama's.
// Requests may name it either way.
func (s *Server) ollamaName(name string) string {
	if !s.o.Ollama || strings.Contains(name, ":") {
		return name
	}
	return name + latestTag
}

const latestTag = ":latest"

func ollamaError(e *Error) any {
	return struct {
		Error string `json:"error"`
	}{e.Message}
}

func needOllamaPrompt(_ *Server, r *request) *Error {
	if r.raw && r.system != "" {
		return badField("system", "there is none where the prompt is not put into the chat template (raw)")
	}
	r.wrap = !r.raw
	return nil
}

// loads reports whether a request asks for nothing but that the model is loaded.
func loads(r *request) bool {
	return len(r.messages) == 0 && (len(r.prompts) == 0 || len(r.prompts) == 1 && !r.prompts[0].Given &&
		r.prompts[0].Parts == nil && r.prompts[0].Text == "")
}

// ollamaLoad answers such a request.
func (s *Server) ollamaLoad(ctx context.Context, r *request, chat bool) (any, error) {
	m, release, err := s.models.acquire(ctx, r.model)
	if err != nil {
		return nil, err
	}
	defer release()
	f := ollamaForm{reading: &reading{request: r, m: m}, chat: chat}
	line := f.line("", "")
	line.Done, line.Reason = true, "load"
	return line, nil
}

// ollamaEmbed computes the vectors of a request, which has none where it loads the model alone.
func (s *Server) ollamaEmbed(ctx context.Context, r *request, log *record) (*embedded, error) {
	if !loads(r) {
		return s.embed(ctx, r, true, log)
	}
	m, release, err := s.models.acquire(ctx, r.model)
	if err != nil {
		return nil, err
	}
	defer release()
	log.model = m.name
	return &embedded{model: m.name}, nil
}

// ollamaAnswer is a line of /api/chat or /api/generate.
type ollamaAnswer struct {
	Model    string         `json:"model"`
	Created  string         `json:"created_at"`
	Message  *ollamaMessage `json:"message,omitempty"`
	Response *string        `json:"response,omitempty"`
	Thinking string         `json:"thinking,omitempty"`
	Done     bool           `json:"done"`
	Reason   spec.Finish    `json:"done_reason,omitempty"`
	Logprobs []chatToken    `json:"logprobs,omitempty"`

	// In nanoseconds.
	Total      int64 `json:"total_duration,omitempty"`
	Load       int64 `json:"load_duration,omitempty"`
	Prompt     int   `json:"prompt_eval_count,omitempty"`
	PromptTime int64 `json:"prompt_eval_duration,omitempty"`
	Eval       int   `json:"eval_count,omitempty"`
	EvalTime   int64 `json:"eval_duration,omitempty"`

	Timings     *timings     `json:"timings,omitempty"`
	Speculation *speculation `json:"speculation,omitempty"`
}

type ollamaMessage struct {
	Role     string       `json:"role"`
	Content  string       `json:"content"`
	Thinking string       `json:"thinking,omitempty"`
	Calls    []ollamaCall `json:"tool_calls,omitempty"`
}

type ollamaCall struct {
	ID       string         `json:"id,omitempty"`
	Function ollamaFunction `json:"function"`
}

type ollamaFunction struct {
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// ollamaForm writes answers of both endpoints.
type ollamaForm struct {
	*reading
	chat bool
}

func newOllamaChatForm(r *reading) form     { return &ollamaForm{r, true} }
func newOllamaGenerateForm(r *reading) form { return &ollamaForm{r, false} }

func (f *ollamaForm) line(content, thinking string) *ollamaAnswer {
	name := f.m.name
	if f.server().o.Ollama && f.model != "" {
		name = f.model // as it was asked for
	}
	a := &ollamaAnswer{Model: name, Created: f.server().now().UTC().Format(time.RFC3339Nano)}
	if f.thinkGiven && !f.think {
		thinking = ""
	}
	if f.chat {
		a.Message = &ollamaMessage{Role: "assistant", Content: content, Thinking: thinking}
	} else {
		a.Response, a.Thinking = &content, thinking
	}
	return a
}

// finish makes a line the last one.
func (f *ollamaForm) finish(a *ollamaAnswer) *ollamaAnswer {
	s := f.totals()
	a.Done, a.Reason = true, f.answers[0].Finish
	if a.Reason == "tool_calls" {
		a.Reason = "stop"
	}
	ns := func(seconds float64) int64 { return int64(seconds * float64(time.Second)) }
	a.Total, a.Prompt, a.PromptTime, a.Eval, a.EvalTime = ns(s.Total), s.Prompt, ns(s.Prefill), s.Generated,
		ns(s.Total-s.Prefill)
	a.Timings = f.timings(&s)
	return a
}

func (f *ollamaForm) calls() (list []ollamaCall) {
	for i, c := range f.answers[0].Calls {
		list = append(list, ollamaCall{c.ID, ollamaFunction{i, c.Name, callObject(c.Arguments)}})
	}
	return list
}

func (f *ollamaForm) whole() any {
	a := &f.answers[0]
	line := f.line(a.Text, a.Reasoning)
	if f.chat {
		line.Message.Calls = f.calls()
	}
	for i := range a.logprobs {
		line.Logprobs = append(line.Logprobs, f.chatToken(&a.logprobs[i]))
	}
	return f.finish(line)
}

func (f *ollamaForm) begin(to sink) {
	for _, d := range f.reading.begin(0) {
		f.delta(to, &d)
	}
}

func (f *ollamaForm) delta(to sink, d *delta) {
	if d.Text != "" || d.Reasoning != "" || d.tokens != nil || d.logprob != nil {
		line := f.line(d.Text, d.Reasoning)
		line.Speculation = d.speculation()
		if d.logprob != nil {
			line.Logprobs = []chatToken{f.chatToken(d.logprob)}
		}
		to.event("", line)
	}
	if d.Finish != "" && f.chat && len(f.answers[0].Calls) > 0 { // calls come whole
		line := f.line("", "")
		line.Message.Calls = f.calls()
		to.event("", line)
	}
}

func (f *ollamaForm) end(to sink) { to.event("", f.finish(f.line("", ""))) }

func (f *ollamaForm) fail(to sink, e *Error) { to.event("", ollamaError(e)) }

// ollamaRoutes are the endpoints that generate no text; the others are among endpoints.
func (s *Server) ollamaRoutes(mux *http.ServeMux) {
	post := func(path string, f func(http.ResponseWriter, *http.Request, []byte, *record) (any, error)) {
		mux.HandleFunc("POST "+path, s.withBody(
			ollamaError, func(w http.ResponseWriter, r *http.Request, body []byte, log *record) error {
				v, err := f(w, r, body, log)
				if err == nil {
					writeJSON(w, http.StatusOK, v)
				}
				return err
			}))
	}
	embed := func(form forms, one bool) func(http.ResponseWriter, *http.Request, []byte, *record) (any, error) {
		return func(_ http.ResponseWriter, r *http.Request, body []byte, log *record) (any, error) {
			q, e := s.parse(r.Context(), form, log.client, body, true)
			if e != nil {
				return nil, e
			}
			begun := s.now()
			out, err := s.ollamaEmbed(r.Context(), q, log)
			if err != nil {
				return nil, err
			}
			if one {
				return map[string]any{"embedding": append([]float32{}, slices.Concat(out.vectors...)...)}, nil
			}
			return objectText("model", out.model, "embeddings", out.list(), "total_duration", s.now().Sub(begun).Nanoseconds(),
				"load_duration", 0, "prompt_eval_count", out.tokens), nil
		}
	}
	post("/api/embed", embed(formOllamaEmbed, false))
	post("/api/embeddings", embed(formOllamaEmbeddings, true))
	post("/api/show", s.ollamaShow)
	s.manageRoutes(mux)
	mux.HandleFunc("GET /api/tags", func(w http.ResponseWriter, r *http.Request) { s.ollamaList(w, false) })
	mux.HandleFunc("GET /api/ps", func(w http.ResponseWriter, r *http.Request) { s.ollamaList(w, true) })
	mux.HandleFunc("GET /api/version", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"version": ollamaVersion})
	})
}

// ollamaVersion is the one of Ollama whose API this is: clients compare it with what they need, GitHub Copilot
// with 0.6.4. think came with it.
const ollamaVersion = "0.9.0"

// ollamaDetails describe a model; of one that is not loaded only the format is known.
type ollamaDetails struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
}

func details(m *loaded) ollamaDetails {
	d := ollamaDetails{Format: "gguf", Families: []string{}}
	if m != nil {
		d.Family = m.Target().Config().Architecture
		d.Families, d.Parameters, d.Quantization = []string{d.Family}, parameterSize(m.Target().Parameters()),
			m.Target().WeightTypes()
	}
	return d
}

// parameterSize is a number of parameters as people write it: 7.2B.
func parameterSize(n int64) string {
	for _, u := range []struct {
		unit float64
		name string
	}{{1e9, "B"}, {1e6, "M"}, {1e3, "K"}} {
		if float64(n) >= u.unit {
			return number(float64(int64(float64(n)/u.unit*10))/10) + u.name
		}
	}
	return number(float64(n))
}

// digest is another one where a model's files or settings are: of what is told of them, since hashing the files
// themselves would read them.
func (e *Entry) digest() string {
	told := fmt.Appendf(nil, "%q %d %d %q %q", e.Path, e.Bytes, e.Modified.UnixNano(), e.System, e.Parameters)
	sum := sha256.Sum256(told)
	return hex.EncodeToString(sum[:])
}

// ollamaList answers /api/tags, all models, and /api/ps, those in memory.
func (s *Server) ollamaList(w http.ResponseWriter, resident bool) {
	type entry struct {
		Name     string        `json:"name"`
		Model    string        `json:"model"`
		Modified string        `json:"modified_at,omitempty"`
		Size     int64         `json:"size"`
		Digest   string        `json:"digest"`
		Details  ollamaDetails `json:"details"`
		Expires  string        `json:"expires_at,omitempty"`
		VRAM     *int64        `json:"size_vram,omitempty"`
	}
	loaded := map[string]*loaded{}
	for _, m := range s.models.resident() {
		loaded[m.name] = m
	}
	list := []entry{}
	s.refreshed()
	for _, e := range s.models.entries() {
		m := loaded[e.Name]
		name := s.ollamaName(e.Name)
		one := entry{Name: name, Model: name, Size: e.Bytes, Digest: e.digest(), Details: details(m)}
		if resident {
			if m == nil {
				continue
			}
			one.VRAM, one.Expires = new(int64), m.since.AddDate(1, 0, 0).UTC().Format(time.RFC3339) // no model expires
		} else {
			one.Modified = s.created(&e).UTC().Format(time.RFC3339)
		}
		list = append(list, one)
	}
	writeJSON(w, http.StatusOK, map[string][]entry{"models": list})
}

// ollamaShow answers /api/show.
func (s *Server) ollamaShow(_ http.ResponseWriter, r *http.Request, body []byte, log *record) (any, error) {
	q, e := s.parse(r.Context(), formOllamaShow, log.client, body, true)
	if e != nil {
		return nil, e
	}
	m, release, err := s.models.acquire(r.Context(), q.model)
	if err != nil {
		return nil, err
	}
	defer release()
	log.model = m.name
	c, told := m.Target().Config(), m.entry.Load()
	a := c.Architecture
	out := struct {
		Modelfile    string         `json:"modelfile"`
		Parameters   string         `json:"parameters"`
		Template     string         `json:"template"`
		System       string         `json:"system,omitempty"`
		Details      ollamaDetails  `json:"details"`
		Info         map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
		Modified     string         `json:"modified_at"`
	}{
		Parameters: parametersText(told.Parameters), System: told.System, Details: details(m),
		Capabilities: m.capabilities(), Modified: m.since.UTC().Format(time.RFC3339),
	}
	out.Info = map[string]any{
		"general.architecture": a, "general.parameter_count": m.Target().Parameters(), a + ".context_length": m.Context(),
		a + ".block_count":      c.Layers,
		a + ".embedding_length": c.HiddenSize, a + ".attention.head_count": c.Heads,
		a + ".attention.head_count_kv": c.KVHeads,
	}
	if t, err := m.Template(); err == nil {
		out.Template = t.Source()
	}
	return out, nil
}

// capabilities are what Ollama's clients ask of a model before they use it.
func (m *loaded) capabilities() []string {
	list := []string{}
	t, err := m.Template()
	for _, c := range []struct {
		name string
		has  bool
	}{
		{"completion", m.Target().Config().Layers > 0}, // an encoder alone has none
		{"embedding", m.Embeds()},
		{"insert", m.Infills()},
		{"tools", err == nil && t.Tools()},
		{"thinking", err == nil && t.Format().Thinks()},
	} {
		if c.has {
			list = append(list, c.name)
		}
	}
	return list
}
