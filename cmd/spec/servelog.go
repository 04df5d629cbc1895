package main

import (
	"bytes"
	"context"
	"fmt"
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

// logTo makes what the program writes on standard error lines of the log, where each has to be JSON. --log-level holds
// for what it says in both forms.
func (s *serving) logTo(p *program) {
	p.least = s.level
	if _, done := p.stderr.(*lineLog); s.logFormat == "json" && !done {
		p.stderr = &lineLog{w: p.stderr, log: s.log(p.stderr)}
	}
}

// say writes a line on standard error: what goes on is slog.LevelInfo, what somebody should look at slog.LevelWarn, and
// what ends the program slog.LevelError.
func (p *program) say(level slog.Level, format string, a ...any) {
	if p.least != nil && level < p.least.Level() {
		return
	}
	line := fmt.Sprintf(format, a...)
	if l, ok := p.stderr.(*lineLog); ok {
		l.log.Log(context.Background(), level, line)
		return
	}
	fmt.Fprintln(p.stderr, line) // whoever reads it may be gone
}

// lineLog writes each line as a record of a log, of slog.LevelInfo: what is more than that is said by say.
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
		l.log.Info(string(line))
		l.part = rest
	}
}
