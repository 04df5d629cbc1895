package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/specgo/spec/chat"
)

// Models that come and go while a server runs: Ollama's /api/pull, /api/delete, /api/copy and /api/create.

// Store changes which models there are. Names are as clients write them. Its errors are told to clients with their
// text; those of type *[Error] with their status.
type Store interface {
	// List is the models that there are.
	List() ([]Entry, error)
	// Pull downloads a model. progress is called on its goroutine.
	Pull(ctx context.Context, name string, progress func(file string, done, total int64)) (Entry, error)
	Delete(name string) error
	Copy(from, to string) (Entry, error)
	// Create makes a model of another one. What made leaves empty is as the other has it.
	Create(name, from string, made Made) (Entry, error)
}

// Made is what a model that was created has beside the weights of another one.
type Made struct {
	System, Template string          // the template is Jinja
	Parameters       json.RawMessage // an object of Ollama's options, nil: none
}

// mayManage refuses who may not change which models there are.
func (s *Server) mayManage(who *client) *Error {
	if s.o.AllowManage || who != nil && who.admin {
		return nil
	}
	return &Error{Status: http.StatusForbidden, Type: typeForbidden, Code: "manage",
		Message: "pulling, deleting, copying, creating and unloading models needs an admin key (--api-key-file, " +
			"KEY admin) or the flag --allow-manage"}
}

// manageRoutes are the endpoints that change which models there are.
func (s *Server) manageRoutes(mux *http.ServeMux) {
	handle := func(method, path string, form forms, f func(context.Context, *request, *statusLines) error) {
		most := s.o.RequestTime
		if form == formOllamaPull {
			most = 0 // a download ends by itself where no more comes
		}
		mux.HandleFunc(method+" "+path, s.withBodyFor(most, ollamaError, func(
			w http.ResponseWriter, r *http.Request, body []byte, log *record,
		) error {
			if e := s.mayManage(log.client); e != nil {
				return e
			}
			if s.o.Store == nil {
				return &Error{Status: http.StatusNotImplemented, Type: typeNotSupported, Code: "not_supported",
					Message: path + " is not supported: there is no folder of models; --models-dir names one"}
			}
			q := s.newRequest()
			q.client, q.stream = log.client, true
			if e := s.read(r.Context(), form, q, body, true); e != nil {
				return e
			}
			if q.model == "" || form&(formOllamaCopy|formOllamaCreate) != 0 && q.from == "" {
				return errNoName
			}
			log.model = q.model
			to := &statusLines{lines: s.newLines(w, false), log: log,
				wanted: q.stream && form&(formOllamaPull|formOllamaCreate) != 0}
			return to.end(f(r.Context(), q, to), form)
		}))
	}
	handle("POST", "/api/pull", formOllamaPull, s.pullModel)
	handle("DELETE", "/api/delete", formOllamaDelete, s.deleteModel)
	handle("POST", "/api/copy", formOllamaCopy, s.copyModel)
	handle("POST", "/api/create", formOllamaCreate, s.createModel)
}

// status is a line of the progress of a change.
type status struct {
	Status string `json:"status"`
	Total  int64  `json:"total,omitempty"`
	Done   int64  `json:"completed,omitempty"`
}

// statusLines writes the progress of a change, where it is wanted.
type statusLines struct {
	*lines
	log    *record
	wanted bool
}

// line writes one line. An error is that of a client that is gone.
func (l *statusLines) line(v any) error {
	if !l.wanted {
		return nil
	}
	l.event("", v)
	return l.flush()
}

// end answers with what has come of a change. An error behind the first line is a line.
func (l *statusLines) end(err error, form forms) error {
	if err != nil {
		var e *Error
		if !errors.As(err, &e) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			err = &Error{Status: http.StatusInternalServerError, Type: typeServer, Message: err.Error(), Cause: err}
		}
		if !l.begun {
			return err
		}
		err = l.server.told(err)
		l.log.failed(err)
		_ = l.line(ollamaError(asError(err))) // the client may be gone
		return nil
	}
	switch {
	case l.wanted:
		_ = l.line(status{Status: "success"}) // what was asked for is done either way
	case form&(formOllamaPull|formOllamaCreate) != 0:
		writeJSON(l.w, http.StatusOK, status{Status: "success"})
	default:
		l.w.WriteHeader(http.StatusOK)
	}
	return nil
}

// progressTime is how long lies between two lines of a download's progress at least.
const progressTime = 200 * time.Millisecond

func (s *Server) pullModel(ctx context.Context, q *request, to *statusLines) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun, last, now := false, time.Time{}, ""
	entry, err := s.o.Store.Pull(ctx, q.model, func(file string, done, total int64) {
		if at := s.now(); !begun || file != now || done == total || at.Sub(last) >= progressTime {
			begun, last, now = true, at, file
			if to.line(status{"pulling " + file, total, done}) != nil {
				cancel() // nobody reads it; the download goes on where it was when it is asked for again
			}
		}
	})
	if err != nil {
		return err
	}
	return s.offer(entry)
}

func (s *Server) deleteModel(_ context.Context, q *request, _ *statusLines) error {
	if e := s.stored(q.model); e != nil {
		return e
	}
	if err := s.o.Store.Delete(q.model); err != nil {
		return err
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.models.take(q.model)
	return nil
}

func (s *Server) copyModel(_ context.Context, q *request, _ *statusLines) error {
	if e := s.stored(q.from); e != nil {
		return e
	}
	entry, err := s.o.Store.Copy(q.from, q.model)
	if err != nil {
		return err
	}
	return s.offer(entry)
}

func (s *Server) createModel(_ context.Context, q *request, _ *statusLines) error {
	if q.ownTemplate != "" {
		if _, err := chat.New(q.ownTemplate, chat.Options{}); err != nil {
			return badField("template", "%v", err)
		}
	}
	entry, err := s.o.Store.Create(q.model, q.from,
		Made{System: q.system, Template: q.ownTemplate, Parameters: q.parameters})
	if err != nil {
		return err
	}
	return s.offer(entry)
}

// stored refuses to change a model that is none of the store's.
func (s *Server) stored(name string) *Error {
	s.models.look(name)
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	if slot := s.models.named(name); slot == nil {
		return noModel(name)
	} else if !slot.Stored {
		return badField("model", "%s is not a model of the models' folder", clip(name))
	}
	return nil
}

// offer makes a model of the store one of the server's.
func (s *Server) offer(e Entry) error {
	s.models.mu.Lock()
	old := s.models.named(e.Name)
	s.models.mu.Unlock()
	if old != nil && !old.Stored {
		return &Error{Status: http.StatusConflict, Type: typeInvalid, Code: "model_exists",
			Message: fmt.Sprintf("%s is there; this server has another model of that name", e.Name)}
	}
	e.Stored = true
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.models.put(e)
	return nil
}

// ollamaUnload answers a request that asks for nothing but that a model is unloaded.
func (s *Server) ollamaUnload(w http.ResponseWriter, r *request, chat bool) error {
	if e := s.mayManage(r.client); e != nil {
		return e
	}
	if e := s.models.unloadNamed(r.model); e != nil {
		return e
	}
	line := ollamaAnswer{Model: r.model, Created: s.now().UTC().Format(time.RFC3339Nano), Done: true, Reason: "unload"}
	if empty := ""; chat {
		line.Message = &ollamaMessage{Role: "assistant"}
	} else {
		line.Response = &empty
	}
	writeJSON(w, http.StatusOK, line)
	return nil
}

// readKeepAlive reads how long a model stays: seconds, or a text as in "5m". Negative is for ever.
func readKeepAlive(r *request, v value) *Error {
	text, err := v.text()
	if err != nil {
		seconds, err := v.float()
		if err != nil {
			return v.bad(`must be a number of seconds or a text as in "5m"`)
		}
		r.unload = seconds == 0
		return nil
	}
	if text == "-1" {
		return nil
	}
	d, wrong := time.ParseDuration(text)
	if wrong != nil {
		return v.bad(`must be a number of seconds or a text as in "5m"`)
	}
	r.unload = d == 0
	return nil
}

// readParameters checks options that are to hold for a model's requests, and keeps them.
func readParameters(r *request, v value) *Error {
	scratch := *r
	if err := readOllamaOptions(&scratch, v); err != nil {
		return err
	}
	r.parameters = v.raw
	return nil
}

// readNow reads a body by the table of a form, behind the parameters of the model that it names.
func (s *Server) readNow(form forms, r *request, body []byte) *Error {
	if err := checkJSON(body); err != nil {
		return err
	}
	if form&(formText|formResponses|formMessages|formOllama) != 0 && s.models.parameters() {
		if err := s.readDefaults(r, body); err != nil {
			return err
		}
	}
	return s.tables.read(form, r, value{raw: body})
}

// parameters reports whether a model has any.
func (p *pool) parameters() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.slots {
		if s.Parameters != nil {
			return true
		}
	}
	return false
}

// readDefaults reads the parameters of the model that a body names.
func (s *Server) readDefaults(r *request, body []byte) *Error {
	var asked struct {
		Model string `json:"model"`
	}
	if json.Unmarshal(body, &asked) != nil {
		return nil // the table says what is wrong
	}
	s.models.look(asked.Model)
	e := s.models.entry(asked.Model)
	if e == nil || e.Parameters == nil {
		return nil
	}
	if err := s.tables.read(formOllamaOptions, r, value{"parameters of " + e.Name, e.Parameters}); err != nil {
		return err
	}
	r.maxField = "" // what the request says does not contradict them
	return nil
}

// parametersText is parameters as Ollama's /api/show has them: a line each, of a list a line for each item.
func parametersText(parameters json.RawMessage) string {
	if parameters == nil {
		return ""
	}
	members, err := split("", parameters)
	if err != nil {
		return "" // they were read before
	}
	var lines []string
	for _, m := range members {
		items := []json.RawMessage{m.raw}
		if bytes.HasPrefix(m.raw, []byte("[")) {
			_ = json.Unmarshal(m.raw, &items) // it is an array
		}
		for _, item := range items {
			lines = append(lines, fmt.Sprintf("%-30s %s", m.name, item))
		}
	}
	return strings.Join(lines, "\n")
}
