package serve

import (
	"fmt"
	"net/http"
)

// refusedPaths are endpoints of llama.cpp's server and of APIs beside it that clients may ask for and this server
// does not have, with the reason.
var refusedPaths = []struct{ method, path, reason string }{
	{"POST", "/props", "the properties of a running server cannot be changed"},
	{"POST", "/v1/audio/transcriptions", "only text is supported"},
	{"POST", "/v1/audio/speech", "only text is supported"},
	{"POST", "/v1/images/generations", "only text is supported"},
	{"POST", "/v1/moderations", "there is no such model"},
	{"POST", "/v1/files", "nothing is stored; spec batch works through files"},
	{"POST", "/v1/batches", "nothing is stored; spec batch works through files"},
	{"GET", "/v1/responses/{id}", "nothing is stored"},
	{"POST", "/api/push", "models are not published from here"},
	{"POST", "/tools", "the server runs no tools; clients do"},
}

// refusedRoutes answer them: a 501 that says why.
func (s *Server) refusedRoutes(mux *http.ServeMux) {
	for _, x := range refusedPaths {
		mux.HandleFunc(x.method+" "+x.path, func(w http.ResponseWriter, r *http.Request) {
			s.fail(w, recordOf(r.Context()), shapeOf(r.URL.Path),
				&Error{Status: http.StatusNotImplemented, Type: typeNotSupported, Code: "not_supported",
					Message: fmt.Sprintf("%s %s is not supported: %s", r.Method, clip(r.URL.Path), x.reason)})
		})
	}
}
