package tensor

import "math/big"

// T5's positions (Raffel et al. 2020, arXiv:1910.10683, section 2.1): a bias for every head and bucket of distances
// is added to the scores of attention. Small distances have a bucket each, greater ones share them, in a geometric
// progression up to farthest.

const (
	farthest           = 128      // from this distance on there is one bucket; no key of files says another
	MinRelativeBuckets = 4        // with fewer, a direction has no bucket for an exact distance
	MaxRelativeBuckets = farthest // with more, distances in the decoder would be exact beyond farthest
)

// relativeBucket is the bucket, of n, of the distance r = key position - query position. In the encoder, where both
// sides are seen, the second half of the buckets is for keys to the right. It counts in whole numbers, so that it is
// the same everywhere: the published formula is e + floor((m-e) * ln(a/e) / ln(farthest/e)), at most m-1, from
// distance e on.
func relativeBucket(r, n int, both bool) int {
	base := 0
	m, a := n, max(0, -r) // buckets of a direction, and the distance
	if both {
		if m, a = n/2, max(r, -r); r > 0 {
			base = m
		}
	}
	e := m / 2
	if a < e {
		return base + a
	}
	// The least k with a < e * (farthest/e)^((k+1)/(m-e)), both sides to the power of m-e.
	k := 0
	for k < m-e-1 && power(a, m-e, e, k+1).Cmp(power(e, m-e, farthest, k+1)) >= 0 {
		k++
	}
	return base + e + k
}

// power is a^n * b^k.
func power(a, n, b, k int) *big.Int {
	x := new(big.Int).Exp(big.NewInt(int64(a)), big.NewInt(int64(n)), nil)
	return x.Mul(x, new(big.Int).Exp(big.NewInt(int64(b)), big.NewInt(int64(k)), nil))
}

// RelativeBias is a table [heads][2*farthest+1] of biases by distance, as [AttentionOptions] takes it, of those by
// bucket w [buckets][heads].
func RelativeBias(w []float32, heads, buckets int, both bool) []float32 {
	const width = 2*farthest + 1
	table := make([]float32, heads*width)
	for i := range width {
		bucket := relativeBucket(i-farthest, buckets, both)
		for h := range heads {
			table[h*width+i] = w[bucket*heads+h]
		}
	}
	return table
}
