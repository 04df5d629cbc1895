package serve

import (
	"context"
	"fmt"
	"net/http"

	"github.com/specgo/spec"
)

// Translate is what a body asks for, for programs that answer it themselves: path is that of an endpoint of OpenAI's
// API that generates text. The model is the request's until release is called. Whether the answer is a stream is left
// open. Errors are those of [Server.Do].
func (s *Server) Translate(ctx context.Context, path string, body []byte) (
	m *spec.Model, q spec.Request, release func(), err error) {
	for _, ep := range endpoints {
		if ep.path != path || ep.form&formOpenAI == 0 {
			continue
		}
		r, err := s.parse(ctx, ep.form, s.anyone, body, false)
		if err != nil {
			return nil, q, nil, err
		}
		if err := ep.check(s, r); err != nil {
			return nil, q, nil, err
		}
		l, release, err := s.models.acquire(ctx, r.model)
		if err != nil {
			return nil, q, nil, err
		}
		q, e := s.translate(l, r)
		if e != nil {
			release()
			return nil, q, nil, e
		}
		return l.Model, q, release, nil
	}
	return nil, q, nil, &Error{
		Status: http.StatusNotFound, Type: typeNotFound, Message: fmt.Sprintf("no endpoint %s", clip(path)),
	}
}
