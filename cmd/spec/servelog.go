package main

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
)

// log is where a server's lines go, from the level on; nil: nowhere.
func (s *serving) log(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: s.level}
	switch s.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, o))
	case "json":
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return nil
}

// logTo makes what the program writes on standard error lines of the log, where each has to be JSON.
func (s *serving) logTo(p *program) {
	if _, done := p.stderr.(*lineLog); s.logFormat == "json" && !done {
		p.stderr = &lineLog{w: p.stderr, log: s.log(p.stderr)}
	}
}

// lineLog writes each line as a record of a log.
type lineLog struct {
	w   io.Writer // of the log
	log *slog.Logger

	mu   sync.Mutex
	part []byte // of a line that has no end yet
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, b...)
	for {
		line, rest, found := bytes.Cut(l.part, []byte("\n"))
		if !found {
			return len(b), nil
		}
		l.log.Warn(string(line)) // it is meant to be seen
		l.part = rest
	}
}
