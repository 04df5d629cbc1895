package lineedit

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/specgo/spec/internal/terminal"
)

// ErrInterrupted is ctrl-c at the prompt. What was typed is dropped.
var ErrInterrupted = errors.New("interrupted")

// ErrNoTerminal is the error of Open where there is no terminal that can be edited on.
var ErrNoTerminal = errors.New("no terminal to edit on")

// A Reader reads texts that somebody types on a terminal. Its terminal is in one of three modes: as it was found;
// reading, where each key is an event; and between two texts, where what is typed is kept for the next one and is not
// shown, and ctrl-c and ctrl-z are signals. Close brings back the first, whatever happened before.
type Reader struct {
	out  *os.File
	mode *mode // of the input
	e    *editor
	d    decoder
	p    painter

	mu      sync.Mutex
	state   state
	closed  bool
	resumed bool // the process was continued: draw anew
	events  []event
}

// A state says what the terminal is ready for.
type state int

const (
	asFound state = iota
	between
	reading
)

// Open makes a terminal ready. The program tells by Resumed and Resized what its signals tell.
func Open(in, out *os.File, o Options) (*Reader, error) {
	if !terminal.Is(in) || !terminal.Is(out) {
		return nil, ErrNoTerminal
	}
	m, err := openMode(in)
	if err != nil {
		return nil, err
	}
	r := &Reader{out: out, mode: m, e: newEditor(o)}
	r.d.most = r.e.Most
	return r, r.change(between)
}

// The terminal marks where a paste begins and ends.
const (
	pastesMarked = "\x1b[?2004h"
	pastesPlain  = "\x1b[?2004l"
)

// change brings the terminal into another state.
func (r *Reader) change(to state) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to == r.state || r.closed {
		return nil
	}
	was := r.state
	r.state = to
	return r.apply(was)
}

func (r *Reader) apply(was state) error {
	var err error
	switch {
	case r.state == asFound:
		_, err = io.WriteString(r.out, pastesPlain)
	case was == asFound:
		_, err = io.WriteString(r.out, pastesMarked)
	}
	return errors.Join(err, r.mode.set(r.state))
}

// Close restores the terminal for good. It may be called more than once, and from another goroutine.
func (r *Reader) Close() error {
	err := r.change(asFound)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return err
}

// Resumed says that the process was continued after a stop, where a shell may have changed the terminal. What is typed
// now is drawn anew.
func (r *Reader) Resumed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumed = true
	if r.state != asFound {
		r.apply(asFound) // an error would come again at the next change
	}
	r.mode.wake()
}

// Resized says that the terminal has another size.
func (r *Reader) Resized() { r.mode.wake() }

// Aside runs f with the terminal as it was found.
func (r *Reader) Aside(f func() error) error {
	if err := r.change(asFound); err != nil {
		return err
	}
	return errors.Join(f(), r.change(between))
}

// Stop stops the process, and what runs with it, with the terminal as it was found. It returns when the process is
// continued, and at once where nobody could do that.
func (r *Reader) Stop() {
	r.mu.Lock()
	was := r.state
	r.mu.Unlock()
	r.change(asFound)
	stopProcess()
	r.change(was)
	r.Resumed()
}

// Remember adds a text to the history.
func (r *Reader) Remember(text string) error {
	err := r.e.History.Add(text)
	r.e.recalled = len(r.e.History.entries)
	return err
}

// Read reads a text behind a prompt, which begins as draft. The error is io.EOF at ctrl-d, ErrInterrupted at ctrl-c,
// and that of the context.
func (r *Reader) Read(ctx context.Context, prompt, draft string) (string, error) {
	if err := r.change(reading); err != nil {
		return "", err
	}
	defer r.change(between)
	defer context.AfterFunc(ctx, r.mode.wake)()
	r.e.reset()
	r.e.set(draft)
	r.p.width = 0
	buf := make([]byte, 1<<16)
	for {
		for len(r.events) > 0 {
			v := r.events[0]
			r.events = r.events[1:]
			if text, done, err := r.press(v, prompt); done {
				return text, err
			}
		}
		if err := r.draw(prompt); err != nil {
			return "", err
		}
		n, err := r.mode.read(buf)
		switch {
		case ctx.Err() != nil:
			return "", r.end(ctx.Err(), prompt)
		case err != nil:
			return "", r.end(err, prompt)
		}
		r.events = r.d.feed(buf[:n])
	}
}

// press takes an event; done says that the reading has ended.
func (r *Reader) press(v event, prompt string) (text string, done bool, err error) {
	switch r.e.press(v) {
	case entered:
		err = r.end(nil, prompt)
		return r.e.take(), true, err
	case interrupted:
		empty := len(r.e.text) == 0
		err = r.end(ErrInterrupted, prompt)
		r.e.reset()
		if !empty { // the line is dropped, and nothing else
			err = r.draw(prompt)
			return "", err != nil, err
		}
		return "", true, err
	case ended:
		return "", true, r.end(io.EOF, prompt)
	case suspended:
		r.write(r.p.leave())
		r.Stop()
	case cleared:
		r.p.drawn = false
		err = r.write([]byte("\x1b[H\x1b[2J"))
		return "", err != nil, err
	}
	return "", false, nil
}

// end draws the text for the last time and leaves it behind.
func (r *Reader) end(err error, prompt string) error {
	r.e.note, r.e.choices, r.e.searching = "", nil, nil
	return errors.Join(err, r.draw(prompt), r.write(r.p.leave()))
}

// draw shows the text. After a stop the frame is drawn below what a shell may have written.
func (r *Reader) draw(prompt string) error {
	width, height := terminal.Size(r.out)
	if width <= 0 {
		width, height = terminal.DefaultWidth, 24
	}
	r.mu.Lock()
	resumed := r.resumed
	r.resumed = false
	r.mu.Unlock()
	out := r.p.resize(width)
	if resumed && len(out) == 0 {
		r.p.drawn = false
	}
	return r.write(append(out, r.p.paint(r.e.frame(prompt, width, height))...))
}

func (r *Reader) write(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	_, err := r.out.Write(out)
	return err
}
