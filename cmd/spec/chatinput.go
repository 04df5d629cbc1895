package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// longestMessageText is the most bytes of one message.
const longestMessageText = 4 << 20

// lineReader reads lines without blocking who waits for other things too.
type lineReader struct {
	wanted chan struct{}
	lines  chan readLine
	asked  bool // a line is being read
}

type readLine struct {
	text string
	err  error
}

func newLineReader(r io.Reader) *lineReader {
	l := &lineReader{wanted: make(chan struct{}), lines: make(chan readLine, 1)}
	go func() {
		in := bufio.NewReader(r)
		var text string
		var err error // stays: behind the end there is nothing
		for range l.wanted {
			if err == nil {
				text, err = boundedLine(in)
			} else {
				text = ""
			}
			l.lines <- readLine{text, err}
		}
	}()
	return l
}

var errLongLine = fmt.Errorf("a line of more than %d bytes", longestMessageText)

// boundedLine reads a line without its end. The last one need not have any.
func boundedLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > longestMessageText:
			return "", errLongLine
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(line) > 0:
			return string(line), nil
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), err
	}
}

// A stopper says what Ctrl-C does: it stops the answer under way, or the model that is opened, or is told to who waits
// for a line.
type stopper struct {
	mu      sync.Mutex
	cancel  context.CancelFunc // of the answer, nil if there is none
	prompt  context.CancelFunc // of the editor that reads a message, nil if there is none
	hit     bool               // Ctrl-C came during the last answer
	waiting chan struct{}
}

// interrupt is called at Ctrl-C.
func (s *stopper) interrupt() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
		s.hit = true
		return true
	}
	if s.prompt != nil {
		s.prompt()
		return true
	}
	select {
	case s.waiting <- struct{}{}:
	default:
	}
	return true
}

// answering returns a context that Ctrl-C cancels until done is called.
func (s *stopper) answering(ctx context.Context) (answer context.Context, done func()) {
	answer, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.cancel, s.hit = cancel, false
	s.mu.Unlock()
	return answer, func() {
		s.mu.Lock()
		s.cancel = nil
		s.mu.Unlock()
		cancel()
	}
}

// errInterrupted is Ctrl-C at the prompt.
var errInterrupted = errors.New("interrupted")

// line reads one line behind a prompt, or with the editor a message.
func (d *dialog) line(ctx context.Context, prompt string) (string, error) {
	if d.editor != nil {
		return d.typedLine(ctx, prompt)
	}
	if d.typed && d.shown {
		if err := d.print(prompt, ""); err != nil {
			return "", err
		}
	}
	if !d.lines.asked {
		d.lines.wanted <- struct{}{}
		d.lines.asked = true
	}
	select {
	case l := <-d.lines.lines:
		d.lines.asked = false
		return l.text, l.err
	case <-d.stop.waiting:
		return "", errInterrupted
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// read reads a message: a line, lines that end in a backslash and the one behind them, or the lines
// between """ and """ at the end of a line. Ctrl-C drops what was typed; twice in a row it ends the program.
func (d *dialog) read(ctx context.Context) (string, error) {
	interrupts := 0
	for {
		text, err := d.compose(ctx)
		if !errors.Is(err, errInterrupted) {
			return text, err
		}
		if interrupts++; interrupts > 1 || !d.typed {
			return "", errInterrupted
		}
		if d.shown && d.editor == nil {
			d.print("\n", "")
		}
		d.note("(Ctrl-C once more, or Ctrl-D, ends)")
	}
}

const (
	quotes        = `"""`
	messagePrompt = "> "
)

func (d *dialog) compose(ctx context.Context) (string, error) {
	text, err := d.line(ctx, messagePrompt)
	if err != nil {
		return "", err
	}
	for {
		sofar, open := unfinished(text)
		if !open {
			break
		}
		next, err := d.more(ctx, text)
		quoted := strings.HasPrefix(text, quotes)
		switch {
		case errors.Is(err, io.EOF) && quoted:
			return "", fmt.Errorf(`a message that begins with %s and does not end`, quotes)
		case errors.Is(err, io.EOF):
			return sofar, nil
		case err != nil:
			return "", err
		}
		text = sofar + "\n" + next
	}
	if strings.HasPrefix(text, quotes) {
		text, _ = betweenQuotes(text)
		return text, nil
	}
	if strings.TrimSpace(text) == "" {
		return "", nil
	}
	return text, nil
}

// unfinished reports whether a message goes on in a further line, and what of it stands in front of that.
func unfinished(text string) (sofar string, open bool) {
	if strings.HasPrefix(text, quotes) {
		_, closed := betweenQuotes(text)
		return text, !closed
	}
	return strings.CutSuffix(text, `\`)
}

// betweenQuotes is the message of a text that begins with quotes. Those that close it end a line, so that nothing
// behind them is lost.
func betweenQuotes(text string) (message string, closed bool) {
	message = strings.TrimPrefix(strings.TrimPrefix(text, quotes), "\n")
	return strings.CutSuffix(strings.TrimRight(message, " \t"), quotes)
}

// more reads a further line of a message.
func (d *dialog) more(ctx context.Context, sofar string) (string, error) {
	if len(sofar) > longestMessageText {
		return "", fmt.Errorf("a message of more than %d bytes", longestMessageText)
	}
	return d.line(ctx, ". ")
}
