// Package engine runs decoder-only language models from GGUF files on CPUs.
//
// A [Runtime] owns the worker threads and is shared by every model of a program. A [Model] is the
// immutable weights of one file; it is safe for concurrent use. A [Session] is one sequence of tokens with its
// KV cache; it belongs to one goroutine. [Model.Forward] feeds tokens to any number of sessions in
// one pass over the weights and returns logits; [Session.Eval] is the same for one session. A [Sampler] chooses
// the next token from logits.
//
// The logits at a position depend on the tokens up to it and on nothing else: not on how the sequence
// was cut into passes, on what else shared a pass, on the number of threads, or on the kernels
// chosen. They are equal bit for bit. That is what makes speculative decoding exact.
//
// # Refused files
//
// A file whose architecture, weight types or options are not implemented is refused by an error that names the key or
// tensor. That includes every tensor that the architecture does not use, and every key that would change the arithmetic.
package engine
