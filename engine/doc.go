// Package engine runs language models from GGUF files on CPUs: decoder-only ones, and T5's encoder-decoder models.
//
//	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
//	m, err := engine.Open(ctx, rt, "model.gguf", engine.Options{})
//	s, err := m.NewSession(engine.SessionOptions{Context: 4096})
//	logits, err := s.Eval(ctx, tokens, nil, engine.Last)
//
// A [Runtime] owns the worker threads and is shared by every model of a program. A [Model] is the
// immutable weights of one file; it is safe for concurrent use. A [Session] is one sequence of tokens with its
// KV cache; it belongs to one goroutine. [Model.Forward] feeds tokens to any number of sessions in
// one pass over the weights and returns logits; [Session.Eval] is the same for one session. A sampler (package
// sampling) chooses the next token from logits.
//
// The logits at a position depend on the tokens up to it (and on the encoder's input, where there is one) and on
// nothing else: not on how the sequence was cut into passes, on what else shared a pass, on the number of threads, or
// on the kernels chosen. They are equal bit for bit. That is what makes speculative decoding exact.
//
// # Architectures
//
// Almost every decoder-only model is one block with other parts left out (decoder.go). With x the residual stream of
// a token:
//
//	h = norm(x)                       attn_norm; none: h = x
//	q, k, v = Wq h, Wk h, Wv h        biases, limits; q and k normalized over a head or all heads, before or after
//	q, k = rotate(q), rotate(k)       pairs or halves, part of a head or none; one table for layers with a window, one
//	                                  for the others
//	s = q·k * scale                   soft cap, ALiBi, window; one sink per head
//	y = norm(Wo softmax(s) v)         post norm
//	x = x + y * scale
//	h = norm(x)                       ffn_norm; a parallel block reads the x from before attention
//	y = Wdown act(Wgate h) ∘ (Wup h)  or without a gate; or the sum of the experts that a router chooses, and a
//	                                  shared one
//	x = x + norm(y) * scale           post norm
//
// Before the blocks: the embedding, scaled or normalized, and learned positions. After them: a norm, the output
// matrix, a scale and a soft cap of logits. An architecture is a function that says which of these parts its models
// have and where a file keeps them (type family). A new one of known parts is a file with such a function and a line
// in the table of architectures.go:
//
//	// glm4 is GLM-4 9B: norms before and after the sublayers (glm4.go also reads one key).
//	func glm4(*loader, *Config) family {
//		return family{
//			norms: normParts{kind: rmsNorm{}, at: atBoth},
//			rope:  ropeParts{pairing: pairs},
//			feed:  feedParts{gate: gateInUp},
//		}
//	}
//
// A part that nobody else has is in the same file: a normKind (olmo.go), a mixer (qwen35.go), a sublayer or the end
// of a block (gemma4.go), what comes before the blocks (bloom.go). Its model belongs among those of families_test.go.
//
// What a function asks the loader for counts as known: it need not list what it does not have. A model whose block is
// another one implements the interface network by itself, from the same parts: attention, feedForward, experts and
// norm are values with a forward of their own. gemma3n.go and streams.go have several residual streams; in the second
// the states between layers are all of them ([Config].StateSize).
//
// # Encoders
//
// An encoder-decoder model (t5.go: T5, Flan-T5, mT5, UMT5) reads an input with its encoder, and its decoder writes
// the output. A session of one is given the input first, and begins with the token that [Model.DecoderStart] names:
//
//	err := s.Encode(ctx, tok.Encode("translate English to German: My dog is cute.", bpe.EncodeOptions{AddSpecial: true}))
//	out, err := s.Eval(ctx, []int32{m.DecoderStart()}, nil, engine.Last)
//
// Every position of the input sees all others, so that each layer of the encoder takes the whole input, in rounds of
// rows, before the next one begins. Of its states, every layer of the decoder keeps the keys and values of
// cross-attention; they are computed once, and forks share them. Passes of such sessions are batches, trees and
// chains as all others are, also those of a Scheduler (package shared). [Model.EncoderStates] returns the states, also
// those of an encoder alone (architecture t5encoder), which has no sessions.
//
// # State
//
// Layers that keep keys and values of the same shape share a cache (cache.go). One of layers with a window keeps the
// window and 512 positions more. A layer may have another mixer than attention: short convolutions, Mamba, Mamba-2,
// gated delta nets and RWKV-7 are recurrences (internal/recurrent): a state of a fixed size, and a scan that takes it
// on by some tokens, one after the other. A step cannot be undone. So a session keeps copies of the states at a few
// points and a journal of the latest tokens' inputs, and goes back by taking the steps again from the nearest point;
// [Session.Restorable] says how far back that reaches. What is further back is recomputed by the next pass.
//
// # Refused files
//
// A file whose architecture, weight types or options are not implemented is refused by an error that names the key or
// tensor. That includes every tensor that the architecture does not use, and every key that would change the
// arithmetic.
package engine
