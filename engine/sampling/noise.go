package sampling

import (
	"slices"

	"github.com/specgo/spec/tensor"
)

const (
	pickChunk = 256 // tokens that are skipped or examined together
	mostNoise = 23  // above the greatest noise that there is
)

// rank keeps in s.kept the n tokens of x with the greatest x/T + noise, the greatest first, and that sum in place of
// their logits; no filter is on. Most chunks of tokens need no noise: their greatest logit would lose even with the
// greatest noise that there is, or with the greatest of the chunk, which follows from its hashes.
func (s *Sampler) rank(x []float32, key uint64, n int) {
	s.kept = s.kept[:0]
	if len(x) == 0 {
		return
	}
	top := tensor.ArgMax(x)
	s.maximum = x[top]
	least := negInf // a lower bound of the n-th greatest sum
	if n == 1 {
		least = tensor.Noise(key, uint32(top)) // 0/T + noise
	}
	s.p = slices.Grow(s.p[:0], pickChunk)
	for first := 0; first < len(x); first += pickChunk {
		chunk := x[first:min(first+pickChunk, len(x))]
		if len(s.kept) == n {
			least = max(least, s.kept[n-1].x)
		}
		most := (chunk[tensor.ArgMax(chunk)] - s.maximum) / s.o.Temperature
		if most+mostNoise < least || most+tensor.MostNoise(len(chunk), uint32(first), key) < least {
			continue
		}
		noise := s.p[:len(chunk)]
		tensor.Gumbel(noise, uint32(first), key)
		for i, v := range chunk {
			if x := (v-s.maximum)/s.o.Temperature + noise[i]; x > negInf && (len(s.kept) < n || x > s.kept[n-1].x) {
				s.keep(candidate{int32(first + i), x}, n)
			}
		}
	}
}

// Streams of random numbers. Position and purpose make them independent of each other.
const (
	purposeNoise = 0       // of Pick
	purposeXTC   = 1 << 32 // whether XTC leaves tokens out; verifiers count theirs from 1
)

// noiseKey is the stream of the Gumbel noise at a position.
func noiseKey(seed uint64, position int) uint64 {
	return tensor.Key(seed, uint64(position), purposeNoise)
}

// Uniform is a random number in [0, 1) that depends on its arguments only, for verifiers that draw: the position
// in the sequence, and a stream (purpose, round, candidate, …) whose first part is not 0. It is independent of
// the noise of [Sampler.Pick].
func Uniform(seed uint64, position int, stream ...uint64) float64 {
	key := tensor.Key(seed, uint64(position))
	for _, part := range stream {
		key = tensor.Key(key, part)
	}
	return tensor.Uniform(key)
}
