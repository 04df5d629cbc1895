package serve

import (
	"net/http"
)

// sink is where an answer's stream goes: a connection, or a test's buffer.
type sink interface {
	event(name string, v any) // one JSON value; name is of the event, "" for none
	raw(text string)          // a line that is no JSON
	flush() error             // to the client
}

// lines writes a stream to a connection: server-sent events, or JSON lines (NDJSON, of Ollama).
type lines struct {
	server  *Server
	w       http.ResponseWriter
	control *http.ResponseController
	sse     bool
	buf     []byte
	begun   bool
}

func (s *Server) newLines(w http.ResponseWriter, sse bool) *lines {
	return &lines{server: s, w: w, control: http.NewResponseController(w), sse: sse}
}

func (l *lines) event(name string, v any) {
	if !l.sse {
		l.buf = append(append(l.buf, encode(v)...), '\n')
		return
	}
	if name != "" {
		l.buf = append(append(append(l.buf, "event: "...), name...), '\n')
	}
	l.buf = append(append(append(l.buf, "data: "...), encode(v)...), "\n\n"...)
}

func (l *lines) raw(text string) {
	l.buf = append(append(append(l.buf, "data: "...), text...), "\n\n"...)
}

// flush sends what was written, within the time that a client may take.
func (l *lines) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	if !l.begun {
		l.begun = true
		h := l.w.Header()
		h.Set("Content-Type", "application/x-ndjson")
		if l.sse {
			h.Set("Content-Type", "text/event-stream; charset=utf-8")
		}
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // nginx would hold pieces back
		l.w.WriteHeader(http.StatusOK)
	}
	l.control.SetWriteDeadline(l.server.now().Add(l.server.o.Limits.WriteTime))
	if _, err := l.w.Write(l.buf); err != nil {
		return err
	}
	l.buf = l.buf[:0]
	return l.control.Flush()
}
