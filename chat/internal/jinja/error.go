package jinja

import (
	"errors"
	"fmt"
)

// What an [Error] wraps.
var (
	ErrSyntax      = errors.New("malformed template")
	ErrUnsupported = errors.New("not supported in a template")
	ErrLimit       = errors.New("the template exceeds a limit")
	ErrRaised      = errors.New("the template refused the conversation") // by raise_exception
	ErrRuntime     = errors.New("the template failed")
)

// Error is why a template was not parsed or not rendered.
type Error struct {
	Line int    // of the template, from 1; 0 if unknown
	Text string // what is wrong, with the construct
	Kind error  // one of the package's sentinel errors
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%v: %s", e.Kind, e.Text)
	}
	return fmt.Sprintf("%v: line %d: %s", e.Kind, e.Line, e.Text)
}

func (e *Error) Unwrap() error { return e.Kind }

// catch turns the panic by which the parser and the evaluator stop at an
// error into an error value.
func catch(err *error) {
	switch e := recover().(type) {
	case nil:
	case *Error:
		*err = e
	default:
		panic(e)
	}
}
