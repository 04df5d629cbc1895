package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What a server refuses with, and an answer that is none, are told as they are.
func TestErrorsOfServersAreTold(t *testing.T) {
	for want, answer := range map[string]func(http.ResponseWriter){
		`status 400: {"error":"too long"}`: func(w http.ResponseWriter) {
			w.WriteHeader(400)
			w.Write([]byte(`{"error":"too long"}` + "\n"))
		},
		"an answer that is not one: ": func(w http.ResponseWriter) { w.Write([]byte("{")) },
		"0 vectors of 1 texts":        func(w http.ResponseWriter) { w.Write([]byte("{}")) },
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		err := embedBy(t.Context(), s.Client(), s.URL, []string{"a"})
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%v, want %s", err, want)
		}
		s.Close()
	}
}
