package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/grammar"
)

// Error is a refused or failed request, in the terms of OpenAI's API.
type Error struct {
	Status int // of HTTP
	// invalid_request_error, exceed_context_size_error, authentication_error, not_found_error, rate_limit_error,
	// unavailable_error,
	// not_supported_error, server_error
	Type    string
	Param   string // the field that is wrong, as in "messages[2].content"; "" if it is none
	Code    string // for programs; "" if there is none
	Message string // for people; it names the field
	Tokens  int    // of a prompt that is too long, and
	Context int    // what the context holds
	Cause   error  // what the server's log tells and clients are not told; nil: nothing more
}

func (e *Error) Error() string { return e.Message }

// internal reports whether the error is the server's own, whose text is for its log alone.
func (e *Error) internal() bool {
	return e.Status >= http.StatusInternalServerError && e.Status != http.StatusServiceUnavailable
}

// Unwrap returns Cause.
func (e *Error) Unwrap() error { return e.Cause }

// Types of errors.
const (
	typeInvalid     = "invalid_request_error"
	typeAuth        = "authentication_error"
	typeForbidden   = "permission_error"
	typeNotFound    = "not_found_error"
	typeBusy        = "rate_limit_error"
	typeUnavailable = "unavailable_error"
	typeServer      = "server_error"

	typeNotSupported = "not_supported_error"
	typeContext      = "exceed_context_size_error" // as llama.cpp has it; OpenAI's clients look at the code
)

// statusGone is the status of a request whose client has left. Nobody reads it; logs and metrics do (nginx's number).
const (
	statusGone    = 499
	codeCancelled = "cancelled"
)

// errLeft is the error of a piece of an answer that its client did not take.
var errLeft = errors.New("the client has left")

// badField is a 400 that names a field.
func badField(param, format string, a ...any) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: typeInvalid, Param: param,
		Message: param + ": " + fmt.Sprintf(format, a...),
	}
}

// badRequest is a 400 about the body as a whole.
func badRequest(format string, a ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: typeInvalid, Message: fmt.Sprintf(format, a...)}
}

func unavailable(format string, a ...any) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Type: typeUnavailable, Message: fmt.Sprintf(format, a...)}
}

// asError is any error as the API tells it. Errors that are not the request's are told without their text, which may
// name files of the server.
func asError(err error) *Error {
	var e *Error
	var wrong *spec.RequestError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &wrong):
		return wrongRequest(wrong)
	case errors.Is(err, engine.ErrKVBudget):
		return &Error{
			Status: http.StatusServiceUnavailable, Type: typeUnavailable, Code: "kv_memory",
			Message: "this server has not enough memory for keys and values of so many tokens", Cause: err,
		}
	case errors.Is(err, grammar.ErrLimit):
		return &Error{Status: http.StatusBadRequest, Type: typeInvalid, Code: "grammar_limit", Message: err.Error()}
	case errors.Is(err, spec.ErrSlowReader):
		return &Error{
			Status: statusGone, Type: typeServer, Code: "slow_reader", Message: "the answer was not read fast enough",
		}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{
			Status: http.StatusGatewayTimeout, Type: typeServer, Code: "timeout",
			Message: "the request took longer than this server allows",
		}
	case errors.Is(err, context.Canceled), errors.Is(err, errLeft):
		return &Error{Status: statusGone, Type: typeServer, Code: codeCancelled, Message: "the request was cancelled"}
	}
	return &Error{
		Status: http.StatusInternalServerError, Type: typeServer,
		Message: "internal error; the server's log has the details",
	}
}

// wrongRequest is an error about a request's field.
func wrongRequest(err *spec.RequestError) *Error {
	e := badField(err.Field, "%s", err.Reason)
	e.Code, e.Tokens, e.Context = err.Code, err.Tokens, err.Context
	if err.Code == spec.CodeContext {
		e.Type = typeContext
	}
	if errors.Is(err, spec.ErrNoTemplate) {
		e.Message += "; the server's --chat-template chooses one"
	}
	return e
}

// wireError is an error in OpenAI's shape, with llama.cpp's numeric code where there is no other.
type wireError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    any     `json:"code"`
	Tokens  int     `json:"n_prompt_tokens,omitempty"` // as llama.cpp's server has it
	Context int     `json:"n_ctx,omitempty"`
}

func (e *Error) wire() any {
	w := wireError{Message: e.Message, Type: e.Type, Tokens: e.Tokens, Context: e.Context}
	if e.Param != "" {
		w.Param = &e.Param
	}
	if e.Code != "" {
		w.Code = e.Code
	}
	return struct {
		Error wireError `json:"error"`
	}{w}
}
