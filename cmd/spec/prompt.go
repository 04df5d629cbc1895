package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/internal/terminal"
)

// promptFlags are where a command's text comes from.
type promptFlags struct {
	text     string
	given    bool // -p was given; its text may be empty
	file     string
	verbatim bool // --no-escape
}

func (f *promptFlags) check() error {
	if f.given && f.file != "" {
		return usagef("-p and -f exclude each other")
	}
	return nil
}

// literal is the text that -p gives.
func (f *promptFlags) literal() string {
	if f.verbatim {
		return f.text
	}
	return unescape(f.text)
}

// title is what a file of results calls the text.
func (f *promptFlags) title() string {
	switch {
	case f.given:
		return "-p"
	case f.file != "" && f.file != "-":
		return filepath.Base(f.file)
	}
	return standardInput
}

// A source is a text that is still to be read.
type source struct {
	text string
	from io.ReadCloser // nil: text is all of it
	name string
}

// open finds the text, so that a missing file is noticed before a model is loaded. Opening a named pipe
// waits for its writer, or until ctx is cancelled.
func (f *promptFlags) open(ctx context.Context, p *program) (*source, error) {
	switch {
	case f.given:
		return &source{text: f.literal()}, nil
	case f.file != "" && f.file != "-":
		file, err := openInput(ctx, f.file)
		if err != nil {
			return nil, err
		}
		return &source{from: file, name: f.file}, nil
	case terminal.Is(p.stdin) && f.file == "":
		return nil, usagef("no text: give -p, -f or standard input")
	}
	return &source{from: io.NopCloser(p.stdin), name: "standard input"}, nil
}

// close is for a text that nobody read.
func (s *source) close() {
	if s.from != nil {
		s.from.Close()
	}
}

// errTooLong is a text beyond what its reader can use.
var errTooLong = errors.New("text too long")

// read returns the text, and errTooLong where it has more than limit bytes. A file that is larger is not read.
func (s *source) read(ctx context.Context, limit int64) (string, error) {
	if s.from == nil {
		if int64(len(s.text)) > limit {
			return "", errTooLong
		}
		return s.text, nil
	}
	if file, ok := s.from.(*os.File); ok { // nothing of it has been read
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > limit {
			s.close()
			s.from = nil
			return "", errTooLong
		}
	}
	text, err := readInput(ctx, s.from, limit)
	s.from = nil
	if err != nil && !errors.Is(err, errTooLong) && !isInterrupt(err) {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	return string(text), err
}

// textLimit bounds the texts of commands that have no context to fill.
const textLimit = 64 << 20

// longestPrompt is the most bytes that n tokens of a vocabulary can stand for. The rest is room for what
// an encoder leaves out, as white space at the ends.
func longestPrompt(tok *bpe.Tokenizer, n int) int64 {
	const spare = 4096
	longest := 1
	for id := range int32(tok.Size()) {
		longest = max(longest, len(tok.Token(id)))
	}
	return min(int64(longest)*int64(n)+spare, textLimit)
}

// openInput opens a file, and gives up when ctx is cancelled: opening a named pipe waits for its writer.
func openInput(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		file, err := os.Open(path)
		done <- opened{file, err}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readInput reads r to its end and closes it, but no more than limit bytes, and gives up when ctx is
// cancelled: a pipe or terminal may never end, and a read of one cannot be interrupted.
func readInput(ctx context.Context, r io.ReadCloser, limit int64) ([]byte, error) {
	type text struct {
		bytes []byte
		err   error
	}
	done := make(chan text, 1)
	go func() {
		defer r.Close()
		var b bytes.Buffer
		n, err := b.ReadFrom(io.LimitReader(r, limit+1))
		if err == nil && n > limit {
			done <- text{nil, errTooLong}
			return
		}
		done <- text{b.Bytes(), err}
	}()
	select {
	case t := <-done:
		return t.bytes, t.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// unescape reads the escapes that llama.cpp reads: \n, \r, \t, \", \', \\ and \xHH. Other backslashes
// stand for themselves.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case '"', '\'', '\\':
			b.WriteByte(c)
		case 'x':
			if i+2 < len(s) {
				if x, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
					b.WriteByte(byte(x))
					i += 2
					continue
				}
			}
			b.WriteString(`\x`)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}
