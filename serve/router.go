package serve

import "context"

// Endpoints of llama.cpp's server in its router mode. Its clients post to /models/load, which answers at once, and ask
// for the list of models until that says loaded or failed.

// modelStatus is what a list says of a model's place in memory.
type modelStatus struct {
	Value  string `json:"value"`            // unloaded, loading or loaded
	Failed bool   `json:"failed,omitempty"` // the last load ended with an error, which the log has
}

// modelMeta is what a list says of a model: the context as far as it is known, the rest of one in memory.
type modelMeta struct {
	Context    int   `json:"n_ctx,omitempty"`       // tokens
	Trained    int   `json:"n_ctx_train,omitempty"` // tokens, as the file says
	Vocab      int   `json:"n_vocab,omitempty"`     // tokens
	HiddenSize int   `json:"n_embd,omitempty"`      // numbers of a token
	Parameters int64 `json:"n_params,omitempty"`
	Bytes      int64 `json:"size,omitempty"` // of the weights
}

// metaOf is a model's meta; m is nil if it is not in memory.
func metaOf(m *loaded, context int) *modelMeta {
	if m == nil && context == 0 {
		return nil
	}
	meta := &modelMeta{Context: context}
	if m != nil {
		c := m.Target().Config()
		meta.Trained, meta.Vocab, meta.HiddenSize = c.Context, c.Vocab, c.HiddenSize
		meta.Parameters, meta.Bytes = m.Target().Parameters(), m.Target().Bytes()
	}
	return meta
}

// routed answers /models/load and /models/unload.
type routed struct {
	Success bool `json:"success"`
}

// beginLoad answers /models/load.
func (s *Server) beginLoad(_ context.Context, r *request) (any, error) {
	if r.model == "" {
		return nil, errNoName
	}
	if e := s.models.begin(r.model); e != nil {
		return nil, e
	}
	return routed{true}, nil
}

// endLoad answers /models/unload. A model in use goes when its last request is done, one that is being loaded when it
// is there and no request has waited for it.
func (s *Server) endLoad(_ context.Context, r *request) (any, error) {
	if e := s.mayManage(r.client); e != nil {
		return nil, e
	}
	if r.model == "" {
		return nil, errNoName
	}
	if e := s.models.unloadNamed(r.model); e != nil {
		return nil, e
	}
	return routed{true}, nil
}

// errNoName refuses a request that has to name a model.
var errNoName = badRequest("the name of a model is missing")

// begin loads a model as a request would that nobody waits for: for memory it waits its turn. What comes of it is the
// model's status. One that is to be unloaded stays.
func (p *pool) begin(name string) *Error {
	p.look(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	s, e := p.find(name)
	if e != nil {
		return e
	}
	if s.leaving = false; s.model != nil || s.loading || s.begun != nil {
		return nil
	}
	ctx, cancel := p.server.joined(context.Background(), p.server.o.RequestTime)
	s.begun = &cancel
	p.server.work.Go(func() {
		defer cancel()
		_, release, err := p.acquire(ctx, s.Name)
		if err == nil {
			release()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.begun == &cancel { // else it was unloaded meanwhile
			s.begun, s.failed = nil, err != nil
		}
	})
	return nil
}

// statusOf is a model's status, and the model if it is in memory.
func (p *pool) statusOf(name string) (m *loaded, status modelStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.named(name)
	switch {
	case s == nil:
		return nil, modelStatus{Value: "unloaded"} // it has gone meanwhile
	case s.model != nil:
		return s.model, modelStatus{Value: "loaded"}
	case s.loading || s.begun != nil:
		return nil, modelStatus{Value: "loading"}
	}
	return nil, modelStatus{"unloaded", s.failed}
}
