package serve

// form makes the JSON of a plan's answers, whole or streamed. It reads the answers that reading has collected.
type form interface {
	whole() any
	begin(to sink)           // of a stream
	delta(to sink, d *delta) // what one token adds
	end(to sink)
	fail(to sink, e *Error) // an error in the middle of a stream
}
