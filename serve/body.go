package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects of a body may nest: schemas nest, but not by hundreds.
const maxDepth = 128

// maxNames is the most fields of one object that this package reads by name.
const maxNames = 512

// member is a field of a JSON object, in the order of the text.
type member struct {
	name string
	raw  json.RawMessage
}

// checkJSON refuses what is not JSON text in UTF-8 of bounded depth.
func checkJSON(body []byte) *Error {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return badRequest("the body is empty; it must be a JSON object")
	}
	depth, text, escaped := 0, false, false
	for i, c := range body {
		switch {
		case escaped:
			escaped = false
		case text:
			escaped, text = c == '\\', c != '"'
		case c == '"':
			text = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return atOffset(body, i, "nested more than %d deep", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	if i := invalidUTF8(body); i >= 0 {
		return atOffset(body, i, "the body is not UTF-8 (byte %d)", i)
	}
	return nil
}

// invalidUTF8 is the offset of the first byte that is part of no character, -1 if there is none.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// atOffset is an error at a place of the body. It names the field of the outermost object there.
func atOffset(body []byte, at int, format string, a ...any) *Error {
	message := fmt.Sprintf(format, a...)
	d := json.NewDecoder(bytes.NewReader(body[:at]))
	name := ""
	if t, err := d.Token(); err == nil && t == json.Delim('{') {
		for {
			t, err := d.Token()
			key, ok := t.(string)
			if err != nil || !ok {
				break
			}
			name = key
			var skip json.RawMessage
			if d.Decode(&skip) != nil {
				break
			}
		}
	}
	if name = clip(name); name == "" {
		return badRequest("%s", message)
	}
	return badField(name, "%s", message)
}

// clip shortens a name from a request for a message.
func clip(name string) string {
	const longest = 64
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, name)
}

// split reads a JSON object. path is the object's place in the body, "" for the body itself. A name that comes twice
// is refused: readers differ in which one they take.
func split(path string, raw []byte) ([]member, *Error) {
	what := path
	if what == "" {
		what = "the body"
	}
	wrong := func(format string, a ...any) *Error {
		e := badRequest("%s: "+format, append([]any{what}, a...)...)
		e.Param = path
		return e
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		if err != nil {
			return nil, wrong("not JSON: %v", syntaxText(err))
		}
		return nil, wrong("not a JSON object")
	}
	var list []member
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, wrong("not JSON: %v", syntaxText(err))
		}
		name, ok := t.(string)
		if !ok {
			return nil, wrong("not a JSON object")
		}
		full := join(path, name)
		if seen[name] {
			return nil, badField(full, "given twice")
		}
		if seen[name] = true; len(seen) > maxNames {
			return nil, wrong("more than %d fields", maxNames)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, badField(full, "not JSON: %v", syntaxText(err))
		}
		list = append(list, member{name, v})
	}
	if _, err := d.Token(); err != nil {
		return nil, wrong("not JSON: %v", syntaxText(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, wrong("something follows the JSON object")
	}
	return list, nil
}

// syntaxText is a message of the JSON decoder, which may end early.
func syntaxText(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends early"
	}
	return clip(err.Error())
}

// join is the path of a field of an object.
func join(path, name string) string {
	if name = clip(name); path == "" {
		return name
	}
	return path + "." + name
}

// bodyTypes are the content types that a body may be called; it is JSON all the same.
var bodyTypes = []string{"application/json", "text/plain", "application/x-www-form-urlencoded"}

// readBody reads a request's body within the server's limits. Its bytes count for the visit, as they come.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, visit *visit) ([]byte, error) {
	t, limits, ctx := strings.ToLower(r.Header.Get("Content-Type")), &s.o.Limits, r.Context()
	if t != "" && !slices.ContainsFunc(bodyTypes, func(known string) bool { return strings.HasPrefix(t, known) }) {
		return nil, &Error{
			Status: http.StatusUnsupportedMediaType, Type: typeInvalid, Param: "Content-Type",
			Message: "Content-Type: the body must be application/json",
		}
	}
	if c := r.Header.Get("Content-Encoding"); c != "" && !strings.EqualFold(c, "identity") {
		return nil, &Error{
			Status: http.StatusUnsupportedMediaType, Type: typeInvalid, Param: "Content-Encoding",
			Message: "Content-Encoding: the body must not be compressed",
		}
	}
	long := &Error{Status: http.StatusRequestEntityTooLarge, Type: typeInvalid, Code: "body_too_large",
		Message: fmt.Sprintf("the body is longer than %d bytes", limits.BodyBytes)}
	if r.ContentLength > limits.BodyBytes {
		return nil, long
	}
	control := http.NewResponseController(w)
	// not every writer can; then the program's http.Server has limits of its own
	_ = control.SetReadDeadline(s.now().Add(limits.BodyTime))
	stop := context.AfterFunc(ctx, func() { _ = control.SetReadDeadline(s.now()) })
	body, err := readAll(r.Body, limits.BodyBytes, visit)
	stop()
	var full *Error
	var most *http.MaxBytesError // of the program around the server
	late := errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case errors.As(err, &full):
		return nil, full
	case int64(len(body)) > limits.BodyBytes:
		return nil, long
	case errors.As(err, &most):
		long.Message = fmt.Sprintf("the body is longer than %d bytes", most.Limit)
		return nil, long
	// net/http ends ctx when a read is late
	case err != nil && (ctx.Err() == context.DeadlineExceeded || s.base.Err() != nil || ctx.Err() != nil && !late):
		return nil, ctx.Err()
	case err != nil && !cutOff(err):
		return nil, badRequest("the body is not framed as HTTP has it: %s", clip(err.Error()))
	case err != nil:
		return nil, &Error{
			Status: http.StatusRequestTimeout, Type: typeInvalid, Code: "body_incomplete",
			Message: "the body did not arrive whole and in time",
		}
	}
	recordOf(ctx).pending = false
	_ = control.SetReadDeadline(zeroTime)
	return body, nil
}

// cutOff reports whether a body's error is that of its connection, which is late or has ended, rather than of what came
// on it.
func cutOff(err error) bool {
	var lost net.Error
	return errors.As(err, &lost) || errors.Is(err, io.ErrUnexpectedEOF)
}

// readAll reads at most one byte more than most, into memory that grows with what has come.
func readAll(r io.Reader, most int64, visit *visit) ([]byte, error) {
	const first = 4 << 10
	var body []byte
	for {
		if len(body) == cap(body) {
			more := max(first, cap(body))
			if err := visit.hold(int64(more)); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, cap(body)+more), body...)
		}
		n, err := r.Read(body[len(body):int(min(int64(cap(body)), most+1))])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF || int64(len(body)) > most:
			return body, nil
		case err != nil:
			return body, err
		}
	}
}
