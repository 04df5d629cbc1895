package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Lengths is a distribution of numbers of tokens: log-normal, of at least one token and at most Most.
type Lengths struct {
	Mean   float64 // before they are bounded
	Spread float64 // standard deviation over Mean; 0: all are as long
	Most   int
}

func (l Lengths) check(what string) error {
	if !(l.Mean >= 1) || !(l.Mean <= float64(l.Most)) || !(l.Spread >= 0) || math.IsInf(l.Spread, 1) {
		return fmt.Errorf("%s of %v tokens with a spread of %v, at most %d", what, l.Mean, l.Spread, l.Most)
	}
	return nil
}

// draw is a length for a standard normal number.
func (l Lengths) draw(normal float64) int {
	variance := math.Log1p(l.Spread * l.Spread)
	x := float64(l.Mean * math.Exp(float64(math.Sqrt(variance)*normal)-variance/2))
	return int(max(1, min(math.Round(x), float64(l.Most))))
}

// Load is what is asked of a machine: requests that arrive by a Poisson process.
type Load struct {
	Rate           float64 // requests per second; +Inf: all at once
	Prompt, Answer Lengths
}

func (l *Load) check() error {
	if !(l.Rate > 0) {
		return fmt.Errorf("%v requests per second", l.Rate)
	}
	if err := l.Prompt.check("prompts"); err != nil {
		return err
	}
	return l.Answer.check("answers")
}

// Request is one of them.
type Request struct {
	At             float64 // seconds
	Prompt, Answer int     // tokens
}

// Requests are the first n of a seed. The lengths are those of any rate.
func (l Load) Requests(n int, seed uint64) []Request {
	r := rand.New(rand.NewPCG(seed, 0))
	all, at := make([]Request, n), 0.0
	for i := range all {
		at += r.ExpFloat64() / l.Rate
		all[i] = Request{at, l.Prompt.draw(r.NormFloat64()), l.Answer.draw(r.NormFloat64())}
	}
	return all
}
