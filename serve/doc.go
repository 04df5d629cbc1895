// Package serve answers the OpenAI API, and the API of Ollama, with models that speculate: an [http.Handler] that any
// Go program can mount.
//
//	s, err := serve.New(serve.Options{Models: []serve.Entry{{Name: "coder", Load: load}}})
//	http.ListenAndServe("127.0.0.1:8080", s)
//
// The package knows neither flags nor files: a model comes from a function ([Entry].Load). It starts no listener and
// handles no signals; [Server.Drain] and [Server.Close] are for the program that does.
//
// # How a request is answered
//
// Three steps that know nothing of each other. A body is read by the table of fields (fields.go) into a request; a
// field that is not in the table is refused by name. The request is bound to a model, which gives tasks: token ids
// in, token ids out (task.go). A task runs in a goroutine of its own and writes to a bounded buffer, never to a
// socket (generate.go); a client that reads too slowly overflows the buffer, and its request is cancelled. The forms
// of answers (openai_*.go, ollama_*.go) make JSON of what the buffer brings, whole or streamed.
//
// Every answer is the one that the same request gets when it is alone: by P1 of the engine the text depends on nothing
// that shares a pass, and by P2 speculation changes only the speed.
package serve
