package asm

import "math"

// Noise returns the Gumbel(0,1) noise of one token id under a key (see [Key]): between about -3.1 and 22.9, never
// infinite.
//
//	h = mix32(mix32(id ^ uint32(key)) ^ uint32(key>>32))
//	u = (h + 1/2) / 2^32; result = -log(-log(u)), with relative precision at both ends:
//	if h < 2^31 { l = Log32((float(h)+0.5) * 2^-32) }
//	else { w = (float(2^32-1-h)+0.5) * 2^-32, which is 1-u;
//	    l = w < 1-sqrt(1/2) ? logReduced(-w, 0) : logReduced(1-(w+w), -1) }
//	result = -Log32(-l)
//
// In both branches the arguments are exact except for the rounding of float() and of its sum with 0.5.
func Noise(key uint64, id uint32) float32 {
	return noiseOf(hashOf(key, id))
}

// hashOf is the hash from which Noise computes a number: uniform over 32 bits.
func hashOf(key uint64, id uint32) uint32 {
	return mix32(mix32(id^uint32(key)) ^ uint32(key>>32))
}

// MostNoise is an upper bound of the noise of all hashes <= most; see ChoiceKernels.MaxHash. Noise grows with its
// hash, up to rounding; -log(1-u) is greater than -log(-log(u)), and close to it where it is large; 2^-10 is many
// times the rounding error.
func MostNoise(most uint32) float32 {
	return float32(32*math.Ln2-Log64(float64(^most)+0.5)) + 0x1p-10
}

// noiseOf is the noise of a hash.
func noiseOf(h uint32) float32 {
	flip := uint32(int32(h) >> 31) // all ones if h >= 2^31
	w := float32((float32(int32(h^flip)) + 0.5) * 0x1p-32)
	var l float32
	switch {
	case flip == 0:
		l = Log32(w)
	case w < 1-math.Sqrt2/2:
		l = logReduced(-w, 0)
	default:
		l = logReduced(1-(w+w), -1)
	}
	return -Log32(-l)
}

// mix32 is a bijection that spreads every bit over all: two rounds of xor-shift and multiply (constants by C. Wellons).
func mix32(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	x ^= x >> 16
	return x
}

// mix64 is a bijection of 64-bit numbers, as mix32 is of 32: splitmix64's finalizer (G. Steele et al.).
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return x
}

// Key hashes a seed and parts (position, purpose, round, candidate, …) to the key of an independent stream. Order
// and number of the parts matter.
func Key(seed uint64, parts ...uint64) uint64 {
	const golden = 0x9e3779b97f4a7c15
	h := mix64(seed + golden)
	for _, p := range parts {
		h = mix64(h+p) + golden
	}
	return mix64(h)
}

// Uniform returns the key's number in [0, 1), a multiple of 2^-53.
func Uniform(key uint64) float64 { return float64(mix64(key^0xd1342543de82ef95)>>11) * 0x1p-53 }

func gumbel(dst []float32, first uint32, key uint64) {
	for i := range dst {
		dst[i] = Noise(key, first+uint32(i))
	}
}

func maxHash(n int, first uint32, key uint64) (most uint32) {
	for i := range n {
		most = max(most, hashOf(key, first+uint32(i)))
	}
	return most
}
