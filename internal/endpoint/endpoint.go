// Package endpoint asks an OpenAI-compatible server for texts and times its streams.
package endpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Limits bound what a server can make a request cost.
type Limits struct {
	Time  time.Duration // of a request, from its beginning to the end of its stream; 0: 10 minutes
	Bytes int64         // of an answer; 0: 64 MiB
	Line  int           // of a line of a stream; 0: 1 MiB
}

// Options say how a server is asked.
type Options struct {
	Model  string                     // "": the first that /v1/models lists
	Key    string                     // sent as a bearer token; "": none
	Fields map[string]json.RawMessage // of each request's body, beside those that a Request sets
	Limits Limits
}

// Endpoint is a server's /v1/completions.
type Endpoint struct {
	url    string // of /v1/completions
	o      Options
	client *http.Client
	Model  string
	Server string // what the server calls itself in its answers' headers; "": nothing
}

// Request is a prompt to be continued.
type Request struct {
	Prompt      string
	Tokens      int // most of the answer
	Temperature float32
	Seed        uint64

	// filters of the choice of a token; 0: not sent, the server has its own
	TopK       int
	TopP, MinP float32
}

// Answer is a streamed answer. Times are in seconds from when the request was begun.
type Answer struct {
	Text    string
	Tokens  int     // as the server counts, or else the pieces of text in the stream
	Counted bool    // the server counted
	First   float64 // when the first piece of text was there
	Last    float64 // when the last piece was
	End     string  // finish_reason
}

// Rate is the tokens per second after the first one; 0 of fewer than two.
func (a *Answer) Rate() float64 {
	if a.Tokens < 2 || a.Last <= a.First {
		return 0
	}
	return float64(a.Tokens-1) / (a.Last - a.First)
}

// Open checks a URL and finds the model. The URL is a server's address ("http://127.0.0.1:8080"), its "…/v1", or its
// "…/v1/completions". A key goes over https, or to this machine; no redirection is followed, which would take it and
// the prompts elsewhere. Errors name the URL.
func Open(ctx context.Context, address string, o Options) (*Endpoint, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is not a URL", address)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("%s: not a URL of a server: http://HOST:PORT or https://HOST", address)
	case u.User != nil:
		return nil, fmt.Errorf("http://…@%s: a name or key in a URL is seen by everyone on this machine", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s: a query or fragment in the URL", address)
	case strings.HasSuffix(u.Path, "/chat/completions"):
		return nil, fmt.Errorf("%s: the prompts are texts to be continued: /v1/completions", address)
	case o.Key != "" && u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fmt.Errorf("%s: a key goes over https only, or to this machine", address)
	}
	base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/completions"), "/")
	if !strings.HasSuffix(base, "/v1") {
		base += "/v1"
	}
	u.Path = base + "/completions"
	o.Limits.Time = cmp.Or(o.Limits.Time, 10*time.Minute)
	o.Limits.Bytes = cmp.Or(o.Limits.Bytes, 64<<20)
	o.Limits.Line = cmp.Or(o.Limits.Line, 1<<20)
	e := &Endpoint{url: u.String(), o: o, Model: o.Model, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if e.Model != "" {
		return e, nil
	}
	u.Path = base + "/models"
	err = e.ask(ctx, http.MethodGet, u.String(), nil, func(r io.Reader) error {
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		text, err := io.ReadAll(r)
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		if err == nil && len(list.Data) == 0 {
			err = errors.New("it lists no model")
		}
		if err == nil {
			e.Model = list.Data[0].ID
		}
		return err
	})
	return e, err
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// URL is where requests go.
func (e *Endpoint) URL() string { return e.url }

// ask sends a request and has the answer read, which is cut at the limits.
func (e *Endpoint) ask(ctx context.Context, method, url string, body []byte, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.o.Limits.Time,
		fmt.Errorf("no whole answer in %v", e.o.Limits.Time))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if e.o.Key != "" {
		r.Header.Set("Authorization", "Bearer "+e.o.Key)
	}
	answer, err := e.client.Do(r)
	if err != nil {
		var inner interface{ Unwrap() error }
		if errors.As(err, &inner) {
			err = inner.Unwrap() // without the URL, which is named below
		}
		return fmt.Errorf("%s: %w", url, cause(ctx, err))
	}
	defer answer.Body.Close()
	limited := &io.LimitedReader{R: answer.Body, N: e.o.Limits.Bytes + 1}
	if answer.StatusCode != http.StatusOK {
		const shown = 300
		text, _ := io.ReadAll(io.LimitReader(limited, shown))
		return fmt.Errorf("%s: %s: %q", url, answer.Status, text)
	}
	e.Server = answer.Header.Get("Server")
	err = read(limited)
	if limited.N <= 0 {
		err = fmt.Errorf("an answer of more than %d bytes", e.o.Limits.Bytes)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", url, cause(ctx, err))
	}
	return nil
}

// cause is why ctx ended, where it did, else err.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

// Complete streams an answer.
func (e *Endpoint) Complete(ctx context.Context, r Request) (a Answer, err error) {
	fields := map[string]any{"model": e.Model, "prompt": r.Prompt, "max_tokens": r.Tokens, "temperature": r.Temperature,
		"seed": r.Seed, "stream": true, "stream_options": map[string]bool{"include_usage": true}}
	if r.TopK != 0 {
		fields["top_k"] = r.TopK
	}
	for name, value := range map[string]float32{"top_p": r.TopP, "min_p": r.MinP} {
		if value != 0 {
			fields[name] = value
		}
	}
	for name, value := range e.o.Fields {
		fields[name] = value
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return a, err
	}
	begin := time.Now()
	err = e.ask(ctx, http.MethodPost, e.url, body, func(stream io.Reader) error { return e.read(stream, begin, &a) })
	return a, err
}

// Fields are the names of the request's fields that Options adds, sorted.
func (e *Endpoint) Fields() []string { return slices.Sorted(maps.Keys(e.o.Fields)) }

// chunk is an event of the stream.
type chunk struct {
	Choices []struct {
		Text string  `json:"text"`
		End  *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Tokens int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// read takes the events of a stream of server-sent events to its "[DONE]".
func (e *Endpoint) read(stream io.Reader, begin time.Time, a *Answer) error {
	var text strings.Builder
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, min(64<<10, e.o.Limits.Line)), e.o.Limits.Line)
	pieces, done := 0, false
	for !done && lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // names of events, comments, empty lines
		}
		data = bytes.TrimSpace(data)
		if done = string(data) == "[DONE]"; done {
			break
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("an event of the stream: %w", err)
		}
		if len(c.Error) > 0 && string(c.Error) != "null" {
			const shown = 300
			return fmt.Errorf("an error in the stream: %.*s", shown, c.Error)
		}
		for _, choice := range c.Choices {
			if choice.Text != "" {
				a.Last = time.Since(begin).Seconds()
				if pieces == 0 {
					a.First = a.Last
				}
				pieces++
				text.WriteString(choice.Text)
			}
			if choice.End != nil {
				a.End = *choice.End
			}
		}
		if c.Usage != nil && c.Usage.Tokens > 0 {
			a.Tokens, a.Counted = c.Usage.Tokens, true
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("a line of the stream has more than %d bytes", e.o.Limits.Line)
	case err != nil:
		return err
	case !done:
		return errors.New("the stream ended before [DONE]")
	}
	if a.Text = text.String(); !a.Counted {
		a.Tokens = pieces
	}
	return nil
}
