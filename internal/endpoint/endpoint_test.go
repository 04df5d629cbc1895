package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// served answers every completion with a stream, and tells what it was asked.
func served(t *testing.T, stream func(http.ResponseWriter)) (url string, asked *http.Request, body map[string]any) {
	t.Helper()
	asked, body = &http.Request{}, map[string]any{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "peer/1")
		switch r.URL.Path {
		case "/v1/models":
			io.WriteString(w, `{"data":[{"id":"first"},{"id":"second"}]}`)
		case "/v1/completions":
			*asked = *r
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			stream(w)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, asked, body
}

func events(w http.ResponseWriter, list ...string) {
	for _, e := range list {
		fmt.Fprintf(w, "data: %s\n\n", e)
		w.(http.Flusher).Flush()
	}
}

func TestComplete(t *testing.T) {
	url, asked, body := served(t, func(w http.ResponseWriter) {
		io.WriteString(w, ": a comment\r\nevent: x\r\n")
		events(w, `{"choices":[{"text":"","finish_reason":null}]}`)
		time.Sleep(20 * time.Millisecond)
		events(w, `{"choices":[{"text":"aé"}]}`)
		time.Sleep(20 * time.Millisecond)
		events(w, `{"choices":[{"text":"b"}]}`, `{"choices":[{"text":"","finish_reason":"length"}]}`,
			`{"choices":[],"usage":{"completion_tokens":5}}`, "[DONE]", `{"choices":[{"text":"behind the end"}]}`)
	})
	e, err := Open(t.Context(), url, Options{Key: "secret", Fields: map[string]json.RawMessage{"top_k": []byte("3")}})
	if err != nil || e.Model != "first" || e.URL() != url+"/v1/completions" {
		t.Fatalf("%v, %+v", err, e)
	}
	a, err := e.Complete(t.Context(), Request{Prompt: "p", Tokens: 5, Temperature: 0.5, Seed: 7})
	if err != nil || a.Text != "aéb" || a.Tokens != 5 || !a.Counted || a.End != "length" || e.Server != "peer/1" {
		t.Fatalf("%v, %+v", err, a)
	}
	// A piece may be read late, but not before it is sent.
	if a.First < 0.02 || a.Last < 0.04 || a.Last <= a.First || a.Rate() != 4/(a.Last-a.First) {
		t.Errorf("times %+v, rate %v", a, a.Rate())
	}
	if asked.Header.Get("Authorization") != "Bearer secret" || body["max_tokens"] != 5.0 || body["seed"] != 7.0 ||
		body["temperature"] != 0.5 || body["top_k"] != 3.0 || body["model"] != "first" || body["stream"] != true {
		t.Errorf("asked %v with %v", body, asked.Header)
	}
	// A server that does not count: pieces of text are what there is.
	url, _, _ = served(t, func(w http.ResponseWriter) {
		events(w, `{"choices":[{"text":"a"}]}`, `{"choices":[{"text":"b"}]}`, `{"choices":[],"usage":null}`, "[DONE]")
	})
	if e, err = Open(t.Context(), url+"/v1/", Options{Model: "m"}); err != nil {
		t.Fatal(err)
	}
	if a, err := e.Complete(t.Context(), Request{}); err != nil || a.Tokens != 2 || a.Counted {
		t.Errorf("%v, %+v", err, a)
	}
}

// Whatever a server does costs no more than the limits, and the error names the server and what it did.
func TestLimits(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for name, c := range map[string]struct {
		stream func(http.ResponseWriter)
		limits Limits
		says   string
	}{
		"never ends": {func(w http.ResponseWriter) {
			events(w, `{"choices":[{"text":"a"}]}`)
			<-release
		}, Limits{Time: 50 * time.Millisecond}, "no whole answer in 50ms"},
		"never begins": {func(http.ResponseWriter) { <-release }, Limits{Time: 50 * time.Millisecond}, "no whole answer"},
		"too much": {func(w http.ResponseWriter) {
			for range 300 {
				events(w, `{"choices":[{"text":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]}`)
			}
		}, Limits{Bytes: 5000}, "more than 5000 bytes"},
		"a long line": {func(w http.ResponseWriter) { events(w, strings.Repeat("x", 3000)) }, Limits{Line: 2000},
			"more than 2000 bytes"},
		"breaks off": {func(w http.ResponseWriter) { events(w, `{"choices":[{"text":"a"}]}`) }, Limits{}, "before [DONE]"},
		"no stream":  {func(w http.ResponseWriter) { io.WriteString(w, `{"choices":[{"text":"a"}]}`) }, Limits{}, "[DONE]"},
		"no JSON":    {func(w http.ResponseWriter) { events(w, "{") }, Limits{}, "an event of the stream"},
		"an error":   {func(w http.ResponseWriter) { events(w, `{"error":{"message":"full"}}`) }, Limits{}, "full"},
		"a status":   {func(w http.ResponseWriter) { http.Error(w, "no such model", 404) }, Limits{}, "no such model"},
		"elsewhere": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(307)
		}, Limits{}, "307"},
	} {
		url, _, _ := served(t, c.stream)
		e, err := Open(t.Context(), url, Options{Model: "m", Limits: c.limits})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Complete(t.Context(), Request{Prompt: "p", Tokens: 3})
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), url) ||
			strings.Count(err.Error(), url) != 1 {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	url, _, _ := served(t, func(http.ResponseWriter) { cancel(); <-release })
	e, _ := Open(ctx, url, Options{Model: "m"})
	if _, err := e.Complete(ctx, Request{}); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("cancelled: %v", err)
	}
}

// What is no server's URL is refused before anything is sent, and so is what would show a key to others.
func TestOpenRefuses(t *testing.T) {
	for url, says := range map[string]string{
		"127.0.0.1:8080":                         "URL",
		"ftp://a":                                "not a URL of a server",
		"http://":                                "not a URL of a server",
		"http://me:secret@127.0.0.1":             "seen by everyone",
		"http://127.0.0.1?key=secret":            "query",
		"http://192.0.2.1:8080":                  "https only",
		"http://127.0.0.1:1/v1/chat/completions": "/v1/completions",
		"http://localhost.example.com/v1":        "https only",
		"http://127.0.0.1:1":                     "refused",
	} {
		_, err := Open(t.Context(), url, Options{Key: "k"})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") &&
			url != "http://127.0.0.1?key=secret" {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
	}
	for _, good := range []string{"http://127.0.0.1:1", "http://[::1]:1/", "http://localhost:1/v1",
		"https://a.example/v1/completions",
		"https://a.example/openai"} {
		e, err := Open(t.Context(), good, Options{Key: "k", Model: "m"})
		if err != nil || !strings.HasSuffix(e.URL(), "/v1/completions") || strings.Count(e.URL(), "/v1") != 1 {
			t.Errorf("%s: %v", good, err)
		}
	}
}
