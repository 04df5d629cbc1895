package engine

import "github.com/specgo/spec/tensor"

// LogProb is the logarithm of a token's probability under the raw logits: log-softmax. It is -Inf for
// an id that has no logit.
func LogProb(logits []float32, id int32) float32 {
	if id < 0 || int(id) >= len(logits) {
		return negInf
	}
	return logits[id] - tensor.LogSumExp(logits)
}

// Probability is a token's probability under the raw logits: softmax. It is 0 for an id that has no logit.
func Probability(logits []float32, id int32) float32 { return tensor.Exp(LogProb(logits, id)) }

// Streams of random numbers. Position and purpose make them independent of each other.
const purposeNoise = 0 // of Pick

// noiseKey is the stream of the Gumbel noise at a position.
func noiseKey(seed uint64, position int) uint64 {
	return tensor.Key(seed, uint64(position), purposeNoise)
}

// Uniform is a random number in [0, 1) that depends on its arguments only, for rules that draw: position
// in the text, and a stream (purpose, round, candidate, …) whose first part is not 0. It is independent of
// the noise of [Sampler.Pick].
func Uniform(seed uint64, position int, stream ...uint64) float64 {
	key := tensor.Key(seed, uint64(position))
	for _, part := range stream {
		key = tensor.Key(key, part)
	}
	return tensor.Uniform(key)
}
