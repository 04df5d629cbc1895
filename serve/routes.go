package serve

import (
	"context"
	"net/http"
	"time"
)

// routes are the endpoints. A request that has come this far is allowed to.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, ep := range endpoints {
		mux.HandleFunc("POST "+ep.path, s.withBody(ep.error, func(
			w http.ResponseWriter, r *http.Request, body []byte, log *record,
		) error {
			return s.generate(w, r, ep, body, log)
		}))
	}
	answer := func(path string, form forms, f func(context.Context, *request) (any, error)) {
		mux.HandleFunc("POST "+path, s.withBody(shapeOfPath(path), func(
			w http.ResponseWriter, r *http.Request, body []byte, log *record,
		) error {
			q, e := s.parse(r.Context(), form, log.client, body, true)
			if e != nil {
				return e
			}
			v, err := f(r.Context(), q)
			if err == nil {
				writeJSON(w, http.StatusOK, v)
			}
			return err
		}))
	}
	answer("/tokenize", formTokenize, s.tokenize)
	answer("/detokenize", formDetokenize, s.detokenize)
	answer("/apply-template", formTemplate, s.applyTemplate)
	answer("/v1/messages/count_tokens", formMessages, s.countTokens)
	answer("/models/load", formRoute, s.beginLoad)
	answer("/models/unload", formRoute, s.endLoad)
	for _, ep := range endpoints {
		if ep.form == formChat || ep.form == formResponses {
			answer(
				ep.path+"/input_tokens", ep.form,
				func(ctx context.Context, r *request) (any, error) { return s.inputTokens(ctx, ep, r) },
			)
		}
	}
	vectors := func(path string, f func(context.Context, []byte, *record) (any, error)) {
		mux.HandleFunc("POST "+path, s.withBody(openAIError, func(
			w http.ResponseWriter, r *http.Request, body []byte, log *record,
		) error {
			v, err := f(r.Context(), body, log)
			if err == nil {
				writeJSON(w, http.StatusOK, v)
			}
			return err
		}))
	}
	for _, path := range []string{"/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank"} {
		vectors(path, s.rerank)
	}
	vectors("/v1/embeddings", func(ctx context.Context, body []byte, log *record) (any, error) {
		return s.embeddings(ctx, formEmbeddings, body, true, log)
	})
	vectors("/embed", s.teiEmbeddings)
	vectors("/embedding", s.llamaEmbeddings)
	vectors("/embeddings", s.llamaEmbeddings)
	get := func(path string, f func(http.ResponseWriter, *http.Request)) { mux.HandleFunc("GET "+path, f) }
	get("/v1/models", s.listModels)
	get("/v1/models/{name...}", s.showModel)
	get("/health", s.health)
	get("/livez", s.live)
	get("/readyz", s.ready)
	get("/metrics", s.writeMetrics)
	get("/lora-adapters", s.listAdapters)
	mux.HandleFunc("POST /lora-adapters", s.withBody(openAIError, func(
		w http.ResponseWriter, r *http.Request, body []byte, _ *record,
	) error {
		v, err := s.setAdapters(r.Context(), r.URL.Query().Get("model"), body)
		if err == nil {
			writeJSON(w, http.StatusOK, v)
		}
		return err
	}))
	get("/slots", s.slots)
	mux.HandleFunc("POST /slots/{id}", s.withBody(openAIError, func(
		w http.ResponseWriter, r *http.Request, body []byte, log *record,
	) error {
		v, err := s.changeSlot(r, body, log)
		if err == nil {
			writeJSON(w, http.StatusOK, v)
		}
		return err
	}))
	get("/props", s.props)
	get("/models", s.listModels)
	get("/v1/health", s.health)
	s.refusedRoutes(mux)
	s.ollamaRoutes(mux)
	s.pageRoutes(mux)
	return mux
}

// withBody reads the body of a request and answers with the error of f. It bounds how many bodies are inside.
func (s *Server) withBody(
	shape func(*Error) any, f func(http.ResponseWriter, *http.Request, []byte, *record) error,
) http.HandlerFunc {
	return s.withBodyFor(s.o.RequestTime, shape, f)
}

// withBodyFor is withBody of a request that may take so long; 0: there is no bound.
func (s *Server) withBodyFor(
	most time.Duration, shape func(*Error) any, f func(http.ResponseWriter, *http.Request, []byte, *record) error,
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		log := recordOf(r.Context())
		visit, full := s.inside.enter(log.client, true)
		if full != nil {
			s.fail(w, log, shape, full)
			return
		}
		defer visit.end()
		log.visit = visit
		ctx, cancel := s.joined(r.Context(), most)
		defer cancel()
		r = r.WithContext(ctx)
		var err error
		func() {
			defer s.recovered(&err)
			var body []byte
			if body, err = s.readBody(w, r, visit); err == nil {
				err = f(w, r, body, log)
			}
		}()
		if err != nil {
			s.fail(w, log, shape, err)
		}
	}
}

// generate answers a request of an endpoint that generates text.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, ep *endpoint, body []byte, log *record) error {
	q := s.newRequest()
	q.client, q.stream, q.ping = log.client, ep.stream, s.o.Ping
	ctx := r.Context()
	if err := s.read(ctx, ep.form, q, body, true); err != nil {
		return err
	}
	if !ep.sse && loads(q) {
		if q.unload {
			return s.ollamaUnload(w, q, ep.form == formOllamaChat)
		}
		v, err := s.ollamaLoad(ctx, q, ep.form == formOllamaChat)
		if err == nil {
			writeJSON(w, http.StatusOK, v)
		}
		return err
	}
	j, err := s.prepare(ctx, ep, q, true, log)
	if err != nil {
		return err
	}
	defer func() {
		j.close()
		if q.unload && s.mayManage(q.client) == nil {
			_ = s.models.unloadNamed(q.model) // it may be gone by now
		}
	}()
	defer func() {
		s.metrics.answered(j.reading)
		log.answered(j.reading)
	}()
	if !q.stream {
		v, err := s.whole(ctx, ep, j)
		j.close() // a client that reads slowly holds no place
		if err == nil {
			writeJSON(w, http.StatusOK, v)
		}
		return err
	}
	to := s.newLines(w, ep.sse)
	to.ping(q.ping)
	defer to.stop()
	begun, err := s.stream(ctx, ep, j, to)
	if begun && err != nil {
		log.failed(err) // it was told in the stream, if anybody listened
		return nil
	}
	return err
}
