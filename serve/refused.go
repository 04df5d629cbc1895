package serve

import (
	"fmt"
	"net/http"
)

// refusedPaths are endpoints of llama.cpp's server and of APIs beside it that clients may ask for and this server
// does not have, with the reason. /props and /models alone have a method that is answered.
var refusedPaths = []struct{ path, reason string }{
	{"/props", "the properties of a running server cannot be changed"},
	{"/v1/audio/transcriptions", "only text is supported"},
	{"/v1/audio/speech", "only text is supported"},
	{"/v1/images/generations", "only text is supported"},
	{"/v1/moderations", "there is no such model"},
	{"/v1/files", "nothing is stored; spec batch works through files"},
	{"/v1/batches", "nothing is stored; spec batch works through files"},
	{"/v1/messages/batches", "nothing is stored; spec batch works through files"},
	{"/v1/responses/{id}", "nothing is stored"},
	{"/v1/responses/{id}/cancel", "nothing is stored; an answer ends when its client leaves"},
	{"/v1/responses/{id}/input_items", "nothing is stored"},
	{"/v1/responses/compact", "nothing is stored; truncation auto leaves the oldest turns out"},
	{"/v1/conversations", "nothing is stored; each request has its conversation"},
	{"/api/push", "models are not published from here"},
	{"/api/blobs/{digest}", "models are not uploaded; they come by /api/pull, or into the folder of --models-dir"},
	{"/v1/chat/completions/control", "an answer ends when its client leaves, and thinking_budget bounds its reasoning"},
	{"/models", "/api/pull downloads a model, and /api/delete deletes one"},
	{"/models/sse", "the list of models tells the status of each"},
	{"/tools", "the server runs no tools; clients do"},
}

// refusedRoutes answer them, whatever the method: a 501 that says why.
func (s *Server) refusedRoutes(mux *http.ServeMux) {
	for _, x := range refusedPaths {
		mux.HandleFunc(x.path, func(w http.ResponseWriter, r *http.Request) {
			s.fail(w, recordOf(r.Context()), shapeOf(r),
				&Error{Status: http.StatusNotImplemented, Type: typeNotSupported, Code: "not_supported",
					Message: fmt.Sprintf("%s %s is not supported: %s", r.Method, clip(r.URL.Path), x.reason)})
		})
	}
}
