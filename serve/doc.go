// Package serve answers the APIs of OpenAI, Anthropic (messages) and Ollama, and a part of llama.cpp's server's, with
// models that speculate: an [http.Handler] that any Go program can mount.
//
//	s, err := serve.New(serve.Options{Models: []serve.Entry{{Name: "coder", Load: load}}})
//	http.ListenAndServe("127.0.0.1:8080", s)
//
// The package knows no flags: a model comes from a function ([Entry].Load). It opens no listener ([Server.Serve] takes
// one) and handles no signals; [Server.Drain], [Server.Shutdown] and [Server.Close] are for the program that does.
//
// # How a request is answered
//
// Three steps that know nothing of each other. A body is read by the table of fields (fields.go) into a request; a
// field that is not in the table is refused by name. The request is bound to a model, which gives a [spec.Task]
// (task.go). Its answers run in goroutines of their own and write their events to a bounded buffer, never to a socket
// ([spec.Run].Buffer); a client that reads too slowly overflows the buffer, and its request is cancelled. The forms of
// answers (openai_*.go, anthropic.go, llama_completion.go, ollama.go) make JSON of what the buffer brings, whole or
// streamed.
//
// Every answer is the one that the same request gets when it is alone: its tokens depend on nothing that shares a pass,
// and drafts change only the speed, unless the request names a verifier that keeps the distribution alone.
package serve
