package serve

import (
	"context"
	"math"
	"net/http"

	"github.com/specgo/spec"
)

// readLora reads the scales of adapters: [{"id": 0, "scale": 0.5}].
func readLora(r *request, v value) (e *Error) {
	r.lora, e = v.scales()
	return e
}

// scales reads [{"id": 0, "scale": 0.5}]. An empty list is no adapters, not nil.
func (v value) scales() ([]spec.AdapterScale, *Error) {
	list, err := v.list()
	if err != nil {
		return nil, err
	}
	scales := []spec.AdapterScale{}
	for _, item := range list {
		s, has := spec.AdapterScale{}, 0
		err := item.object(map[string]func(value) *Error{
			"id": func(v value) *Error {
				n, err := v.whole(0, math.MaxInt32)
				s.ID, has = int(n), has|1
				return err
			},
			"scale": func(v value) (err *Error) {
				s.Scale, err = v.number(-math.MaxFloat32, math.MaxFloat32)
				has |= 2
				return err
			},
		})
		switch {
		case err != nil:
			return nil, err
		case has != 3:
			return nil, item.bad("has not both id and scale")
		}
		scales = append(scales, s)
	}
	return scales, nil
}

// adapterObject is an adapter as llama.cpp's server lists it.
type adapterObject struct {
	ID     int     `json:"id"`
	Path   string  `json:"path"`
	Scale  float32 `json:"scale"` // where a request does not say otherwise
	Task   string  `json:"task_name"`
	Prefix string  `json:"prompt_prefix"`
}

// listAdapters answers GET /lora-adapters.
func (s *Server) listAdapters(w http.ResponseWriter, r *http.Request) {
	m, release, err := s.models.acquire(r.Context(), r.URL.Query().Get("model"))
	if err != nil {
		s.fail(w, recordOf(r.Context()), openAIError, err)
		return
	}
	defer release()
	list := []adapterObject{}
	for i, a := range m.Adapters() {
		info := a.Adapter.Info()
		list = append(list, adapterObject{i, info.File, a.Scale, info.Task, info.PromptPrefix})
	}
	writeJSON(w, http.StatusOK, list)
}

// setAdapters answers POST /lora-adapters: the scales of requests that do not say otherwise; those that are not named
// get 0. They hold also when the model has been unloaded and is loaded again.
func (s *Server) setAdapters(ctx context.Context, model string, body []byte) (any, error) {
	if e := checkJSON(body); e != nil {
		return nil, e
	}
	scales, e := value{raw: body, path: "lora"}.scales()
	if e != nil {
		return nil, e
	}
	m, release, err := s.models.acquire(ctx, model)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := m.SetAdapters(scales); err != nil {
		return nil, err
	}
	s.models.setScales(m, scales)
	return struct {
		Success bool `json:"success"`
	}{true}, nil
}
