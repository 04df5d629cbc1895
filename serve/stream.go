package serve

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// sink is where an answer's stream goes: a connection, or a test's buffer.
type sink interface {
	event(name string, v any) // one JSON value; name is of the event, "" for none
	raw(text string)          // a line that is no JSON
	flush() error             // to the client
	started() bool            // something was sent; nothing is from now on but what is flushed
}

// lines writes a stream to a connection: server-sent events, or JSON lines (NDJSON, of Ollama).
type lines struct {
	server  *Server
	w       http.ResponseWriter
	control *http.ResponseController
	sse     bool
	stop    func() // the pings

	mu    sync.Mutex // of what follows
	buf   []byte
	begun bool
	quiet bool // nothing was sent since the last look
}

func (s *Server) newLines(w http.ResponseWriter, sse bool) *lines {
	return &lines{server: s, w: w, control: http.NewResponseController(w), sse: sse, stop: func() {}}
}

// ping sends a comment, which clients skip, when nothing was sent for so long: proxies end connections on which nothing
// comes, and a long prompt takes minutes. l.stop ends that. JSON lines have no comments.
func (l *lines) ping(every time.Duration) {
	if !l.sse || every <= 0 {
		return
	}
	done, ended := make(chan struct{}), make(chan struct{})
	l.stop = sync.OnceFunc(func() { close(done); <-ended })
	go func() {
		defer close(ended)
		look := time.NewTicker(every)
		defer look.Stop()
		for {
			select {
			case <-done:
				return
			case <-look.C:
			}
			l.mu.Lock()
			var err error
			if l.quiet {
				l.buf = append(l.buf, ":\n\n"...)
				err = l.send()
			}
			l.quiet = true
			l.mu.Unlock()
			if err != nil { // the next flush finds out
				return
			}
		}
	}()
}

func (l *lines) started() bool {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

func (l *lines) event(name string, v any) {
	l.mu.Lock()
	defer l.mu.Unlock()
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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(append(append(l.buf, "data: "...), text...), "\n\n"...)
}

// flush sends what was written, within the time that a client may take.
func (l *lines) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.send()
}

// send is flush; the caller has the lock.
func (l *lines) send() error {
	l.quiet = false
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
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	l.buf = l.buf[:0]
	if err := l.control.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	return nil
}
