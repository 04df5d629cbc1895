package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/speculative"
)

// Endpoints of llama.cpp's server, and those that balancers ask.

// tokenize answers /tokenize. Of several texts the first alone has the tokens that begin and end one, where nothing is
// in front of it, as in llama.cpp's server.
func (s *Server) tokenize(ctx context.Context, r *request) (any, error) {
	m, release, err := s.models.acquire(ctx, r.model)
	if err != nil {
		return nil, err
	}
	defer release()
	ids := []int32{}
	if err := s.early(ctx, r, true, func() error {
		at := 0 // element of the array
		for _, p := range r.content {
			if p.Given {
				if err := checkIDs("content", at, p.IDs, m.Tokenizer()); err != nil {
					return err
				}
				ids, at = append(ids, p.IDs...), at+len(p.IDs)
				continue
			}
			o := bpe.EncodeOptions{AddSpecial: r.special && at == 0, ParseSpecial: r.parse}
			ids, at = append(ids, m.Tokenizer().Encode(p.Text, o)...), at+1
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if !r.pieces {
		return struct {
			Tokens []int32 `json:"tokens"`
		}{ids}, nil
	}
	type piece struct {
		ID    int32 `json:"id"`
		Piece any   `json:"piece"` // the text, or its bytes where it is no text by itself
	}
	list := make([]piece, len(ids))
	for i, id := range ids {
		text, b := tokenText(m.Tokenizer(), id)
		list[i] = piece{id, text}
		if !utf8.Valid(b) {
			list[i].Piece = ints(b)
		}
	}
	return struct {
		Tokens []piece `json:"tokens"`
	}{list}, nil
}

// detokenize answers /detokenize.
func (s *Server) detokenize(ctx context.Context, r *request) (any, error) {
	m, release, err := s.models.acquire(ctx, r.model)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := checkIDs("tokens", 0, r.tokens, m.Tokenizer()); err != nil {
		return nil, err
	}
	return struct {
		Content string `json:"content"`
	}{spelled(m.Tokenizer(), r.tokens)}, nil
}

// checkIDs refuses an id that a vocabulary does not have. They are elements of an array, from one on.
func checkIDs(field string, from int, ids []int32, tok *bpe.Tokenizer) error {
	for i, id := range ids {
		if int(id) >= tok.Size() {
			return badField(fmt.Sprintf("%s[%d]", field, from+i), "the vocabulary has the ids 0 to %d, not %d", tok.Size()-1, id)
		}
	}
	return nil
}

// spelled is the text of tokens with the spelling of control tokens, from which /tokenize makes the same tokens.
func spelled(tok *bpe.Tokenizer, ids []int32) string {
	var all strings.Builder
	from := 0
	for i, id := range ids {
		if tok.IsControl(id) {
			text, _ := tokenText(tok, id)
			all.WriteString(tok.Decode(ids[from:i]) + text)
			from = i + 1
		}
	}
	return all.String() + tok.Decode(ids[from:])
}

// inputTokens answers /v1/chat/completions/input_tokens and /v1/responses/input_tokens: the length of the prompt that
// a request would have.
func (s *Server) inputTokens(ctx context.Context, ep *endpoint, r *request) (any, error) {
	if e := ep.check(s, r); e != nil {
		return nil, e
	}
	n, err := s.promptTokens(ctx, r)
	return struct {
		Object string `json:"object"`
		Tokens int    `json:"input_tokens"`
	}{"response.input_tokens", n}, err
}

// promptTokens is the length of the prompt that a request would have.
func (s *Server) promptTokens(ctx context.Context, r *request) (n int, err error) {
	m, release, err := s.models.acquire(ctx, r.model)
	if err != nil {
		return 0, err
	}
	defer release()
	r.n = 1
	err = s.translated(ctx, m, r, func(q spec.Request) (err error) { n, err = m.Count(ctx, q); return err })
	return n, err
}

// translated does work on a model's request of a body's, in turn with its translation where the body is large.
func (s *Server) translated(ctx context.Context, m *loaded, r *request, work func(spec.Request) error) error {
	return s.early(ctx, r, true, func() error {
		q, e := s.translate(m, r)
		if e != nil {
			return e
		}
		return work(q)
	})
}

// applyTemplate answers /apply-template.
func (s *Server) applyTemplate(ctx context.Context, r *request) (any, error) {
	if e := needMessages(s, r); e != nil {
		return nil, e
	}
	m, release, err := s.models.acquire(ctx, r.model)
	if err != nil {
		return nil, err
	}
	defer release()
	var out struct {
		Prompt string `json:"prompt"`
	}
	err = s.translated(ctx, m, r, func(q spec.Request) error {
		p, err := m.Render(ctx, &q, r.genTail)
		if err == nil {
			out.Prompt = p.Text()
		}
		return err
	})
	return out, err
}

// live answers /livez: the process serves requests.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// ready answers /readyz: new requests are welcome. While Load loads a model and while the server shuts down they are
// not.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.draining.Load():
		s.fail(w, recordOf(r.Context()), openAIError, unavailable("the server is shutting down"))
		return
	case s.loading.Load() > 0:
		s.fail(w, recordOf(r.Context()), openAIError, unavailable("the model is being loaded"))
		return
	}
	s.live(w, r)
}

// health answers /health, llama.cpp's readyz.
func (s *Server) health(w http.ResponseWriter, r *http.Request) { s.ready(w, r) }

// props answers /props: what the page must know of a model.
func (s *Server) props(w http.ResponseWriter, r *http.Request) {
	m, release, err := s.models.acquire(r.Context(), r.URL.Query().Get("model"))
	if err != nil {
		s.fail(w, recordOf(r.Context()), openAIError, err)
		return
	}
	defer release()
	def, err := m.Choose(speculative.Choice{}, 0)
	if err != nil {
		s.fail(w, recordOf(r.Context()), openAIError, err)
		return
	}
	source, tok := "", m.Tokenizer()
	if t, err := m.Template(); err == nil {
		source = t.Source()
	}
	type choices struct {
		Drafters  []string          `json:"drafters"`
		Schedules []string          `json:"schedules"`
		Verifiers []string          `json:"verifiers"`
		Drafter   string            `json:"drafter"`
		Schedule  string            `json:"schedule"`
		Max       int               `json:"max"`
		About     map[string]string `json:"about"` // what each name is
	}
	about := map[string]string{}
	tell(about, speculative.Drafters())
	tell(about, speculative.Schedules())
	tell(about, speculative.Verifiers())
	out := struct {
		Model       string  `json:"model"`
		Alias       string  `json:"model_alias"` // llama.cpp's name of the same
		Inputs      inputs  `json:"modalities"`
		Path        string  `json:"model_path"`  // "" if there is no file
		Weights     string  `json:"model_ftype"` // their types
		Context     int     `json:"n_ctx"`
		Slots       int     `json:"total_slots"`
		HasTemplate bool    `json:"has_chat_template"`
		Template    string  `json:"chat_template"` // its source, "" if there is none that can be used
		BOS         string  `json:"bos_token"`
		EOS         string  `json:"eos_token"`
		Infill      bool    `json:"has_infill"`
		Build       string  `json:"build_info"`
		Settings    any     `json:"default_generation_settings"`
		Manage      bool    `json:"may_manage"` // this client may pull and unload models
		Store       bool    `json:"has_models_dir"`
		Speculation choices `json:"speculation"`
	}{m.name, m.name, inputs{}, m.path, m.Target().WeightTypes(), m.Context(), s.o.Parallel, source != "", source,
		tok.Token(tok.BOS()), tok.Token(tok.EOS()), m.Infills(), "spec " + s.o.Version, s.defaults(m),
		s.mayManage(recordOf(r.Context()).client) == nil, s.o.Store != nil,
		choices{
			m.drafters(), speculative.Names(speculative.Schedules(), false), speculative.Names(speculative.Verifiers(), false),
			def.Drafter, def.Schedule, max(def.Max, 0), about,
		}}
	writeJSON(w, http.StatusOK, out)
}

// inputs are what a model reads beside text: nothing.
type inputs struct {
	Vision bool `json:"vision"`
	Audio  bool `json:"audio"`
}

// tell adds to about what each name of a list is.
func tell[T any](about map[string]string, list []speculative.Named[T]) {
	for _, n := range list {
		if !n.Study {
			about[n.Name] = n.About
		}
	}
}

// defaults are the settings of a request that says nothing, in llama.cpp's form.
func (s *Server) defaults(m *loaded) any {
	type params struct {
		Temperature float32 `json:"temperature"`
		TopK        int     `json:"top_k"`
		TopP        float32 `json:"top_p"`
		MinP        float32 `json:"min_p"`
		Predict     int     `json:"n_predict"`
		Seed        int64   `json:"seed"` // -1: another for each request
	}
	most := s.o.MaxTokens
	if most == 0 {
		most = -1
	}
	o, seed := s.o.Sampling, int64(-1)
	if o.Seed != 0 || s.o.Seeded {
		seed = int64(o.Seed)
	}
	return struct {
		Context int    `json:"n_ctx"`
		Params  params `json:"params"`
	}{m.Context(), params{o.Temperature, o.TopK, o.TopP, o.MinP, most, seed}}
}

// drafters are the names that requests may use with a model.
func (m *loaded) drafters() (list []string) {
	for _, name := range speculative.Names(speculative.Drafters(), false) {
		if _, err := m.Choose(speculative.Choice{Drafter: name}, 0); err == nil {
			list = append(list, name)
		}
	}
	return list
}

// modelObject is a model in OpenAI's lists.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`

	Aliases []string `json:"aliases,omitempty"` // all names, as llama.cpp has them
	Tags    []string `json:"tags,omitempty"`

	Context int `json:"context_length,omitempty"` // in tokens, as far as it is known before the model is loaded
	Most    int `json:"max_model_len,omitempty"`  // the same, as vLLM calls it

	Status modelStatus `json:"status"`
	Meta   *modelMeta  `json:"meta,omitempty"`
}

func (s *Server) modelObject(e Entry) modelObject {
	o := modelObject{
		ID: s.ollamaName(e.Name), Object: "model", Created: s.created(&e).Unix(), Owner: "spec", Tags: e.Tags,
	}
	if e.Aliases != nil {
		o.Aliases = append([]string{e.Name}, e.Aliases...)
	}
	m, status := s.models.statusOf(e.Name)
	if m != nil {
		o.Context = m.Context()
	}
	if o.Context == 0 && e.Context != nil {
		o.Context = e.Context()
	}
	o.Most, o.Status, o.Meta = o.Context, status, metaOf(m, o.Context)
	return o
}

// created is the time of a model in lists.
func (s *Server) created(e *Entry) time.Time {
	if e.Modified.IsZero() {
		return s.started
	}
	return e.Modified
}

// listModels answers /v1/models, in Anthropic's form where its client asks.
func (s *Server) listModels(w http.ResponseWriter, r *http.Request) {
	s.refreshed()
	entries := s.models.entries()
	if fromAnthropic(r) {
		s.anthropicModels(w, r, entries)
		return
	}
	list := []modelObject{}
	for _, e := range entries {
		list = append(list, s.modelObject(e))
	}
	writeJSON(w, http.StatusOK, struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{"list", list})
}

// showModel answers /v1/models/NAME. A name here is one of the model's own, also when there is one model.
func (s *Server) showModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	s.models.look(name)
	e := s.models.entryNamed(name)
	switch {
	case e == nil:
		s.fail(w, recordOf(r.Context()), shapeOf(r), noModel(name))
	case fromAnthropic(r):
		writeJSON(w, http.StatusOK, s.anthropicModel(*e))
	default:
		writeJSON(w, http.StatusOK, s.modelObject(*e))
	}
}

func noModel(name string) *Error {
	return &Error{Status: http.StatusNotFound, Type: typeNotFound, Param: "model", Code: "model_not_found",
		Message: fmt.Sprintf("model: there is no model %q here; /v1/models lists them", clip(strings.TrimSpace(name)))}
}
