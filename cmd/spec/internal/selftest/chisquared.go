package selftest

import "math"

// ChiSquared is Pearson's test of counts against probabilities: the chance that counts drawn from
// them are off by as much as these or more. Cells that expect fewer than five counts are taken
// together. The counts' sum is n; ok is false where there are not two cells to compare.
func ChiSquared(counts []int, p []float64, n int) (statistic, pValue float64, ok bool) {
	const few = 5
	cells, rest, restCount := 0, 0.0, 0
	add := func(count int, expected float64) {
		off := float64(count) - expected
		statistic += float64(off*off) / expected
		cells++
	}
	for i, pi := range p {
		expected := float64(pi * float64(n))
		switch {
		case pi <= 0 && counts[i] > 0:
			return math.Inf(1), 0, true // an impossible outcome occurred
		case expected < few:
			rest += expected
			restCount += counts[i]
		default:
			add(counts[i], expected)
		}
	}
	if rest >= few {
		add(restCount, rest)
	}
	if cells < 2 {
		return 0, 1, false
	}
	return statistic, upperGamma(float64(cells-1)/2, statistic/2), true
}

// upperGamma is the regularized incomplete gamma function Q(a, x): by its series below a+1, by its
// continued fraction (Lentz's method) above.
func upperGamma(a, x float64) float64 {
	const steps, enough = 1000, 1e-15
	if x <= 0 {
		return 1
	}
	lg, _ := math.Lgamma(a)
	scale := math.Exp(float64(a*math.Log(x)) - x - lg)
	if x < a+1 {
		term := 1 / a
		sum := term
		for i := 1; i < steps && term > sum*enough; i++ {
			term *= x / (a + float64(i))
			sum += term
		}
		return 1 - float64(sum*scale)
	}
	const tiny = 1e-300
	b := x + 1 - a
	c, d := 1/tiny, 1/b
	h := d
	for i := 1.0; i < steps; i++ {
		an := -i * (i - a)
		b += 2
		if d = float64(an*d) + b; math.Abs(d) < tiny {
			d = tiny
		}
		if c = b + an/c; math.Abs(c) < tiny {
			c = tiny
		}
		d = 1 / d
		h *= float64(d * c)
		if math.Abs(float64(d*c)-1) < enough {
			break
		}
	}
	return float64(h * scale)
}
