// Package tensor multiplies quantized matrices and attends over paged key-value caches on ordinary CPUs, in pure Go.
//
// It has the operations of a transformer's forward pass, and knows neither files nor model architectures. A [Matrix]
// is weights, packed once for the kernels of the machine; an [Input] is the activations of one or more tokens;
// [Runtime.MatMul] multiplies them on a pool of workers.
//
//	rt, err := tensor.NewRuntime(tensor.Options{})
//	w, err := tensor.FromFloats(rt, tensor.Q8_0, rows, cols, weights)
//	var in tensor.Input
//	err = in.Set(rt, x, tokens, cols)
//	err = rt.MatMul(&in, tensor.Product{W: w, Out: out})
//
// # Reproducible results
//
// The result for a token depends on that token's numbers alone, bit for bit: not on how many tokens, products or
// sequences share a call, not on the number of threads, and not on the kernels of the machine. The order of
// operations is fixed:
//
//   - A product with integer weights takes activations quantized per block of 32 ([Runtime.Quantize]); one with float
//     weights takes them as they are. Sums run over blocks, or columns, ascending; biases are added last.
//   - Sums along a vector (norms, softmax) use 16 lanes: element i in lane i mod 16, then lanes 8, 4, 2, 1 apart.
//   - Attention splits the keys into chunks of 256 absolute positions and combines the chunks ascending.
//   - A value that is the first numbers of its key ([KVShape].ValuesInKeys) is what the cache has of the key: rounded
//     once, to the key's type, with the scale of the key's group of 32.
//
// # Errors
//
// Wrong shapes, short buffers and numbers that are NaN or infinite give errors (see [ErrShape] and the variables
// beside it), never panics.
//
// # Caveats
//
// A Runtime's operations may be called from several goroutines; they run one after the other, since each uses all
// workers. Matrices and KV pages, except very small ones, are allocated outside Go's heap on Linux: they count as
// memory of the process but not in runtime.MemStats, and they are freed when their owner is closed or collected.
//
// # Reading the code
//
// Package asm has the kernels: the arithmetic of one panel, page or row. This package checks shapes, cuts an
// operation into units of work, and runs the kernels on its workers. Start with runtime.go, then vector.go, the
// simplest operations, then matmul.go.
//
//   - runtime.go, pool.go, cores_*.go: the Runtime, its workers, and how many there are.
//   - types.go, matrix.go, view.go, load.go, memory*.go: weights, how they are read and packed, and where they are
//     stored.
//   - codec.go and codec_<type>.go: a GGUF row to numbers and back; scales.go: how the encoders choose scales. Start
//     with codec_q8_0.go.
//   - input.go, matmul.go, prefetch.go: products: activations, the division of the work, and which weights a kernel
//     prefetches.
//   - kv.go, segment.go, attention.go, attention_options.go, rope.go: the key-value cache, tokens in chains and trees,
//     attention, position embeddings.
//   - vector.go, elementwise.go, recurrent.go, distribution.go: norms and activation functions, recurrent layers,
//     sampling's softmax and noise. bandwidth.go measures memory.
//
// The kernel set is chosen once, in [NewRuntime], by Options.SIMD. The tests compare products, attention and
// recurrent layers with plain loops over the numeric rules, with every kernel set of the machine, and one division of
// the work with another, bit for bit.
package tensor
