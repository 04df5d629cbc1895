// Package spec runs language models in GGUF files, and makes them faster by speculative decoding. It is the short way:
// five lines to an answer.
//
//	m, err := spec.Open(ctx, "model.gguf", spec.Options{})
//	...
//	for e, err := range m.Chat(ctx, []chat.Message{chat.User("Why is the sky blue?")}, spec.Request{}) {
//		fmt.Print(e.Text)
//	}
//
// A [Model] puts engine, speculative, chat and grammar together: a [Request] goes in (a conversation or prompts,
// sampling, stop texts, tools, a JSON Schema or grammar, how to speculate), and a stream of events comes out. It is
// safe for concurrent use: answers that are computed at once share passes over the weights, and what their prompts have
// in common is computed once. Neither changes an answer.
//
// The long way is package engine with package speculative: every part in the caller's hands. Both meet: [New] takes
// models that the caller has loaded, [Options].Around a sequence, [Request].Drafter a drafter, and
// [Request].Sampling.Constraint a constraint.
package spec
