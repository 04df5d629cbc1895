package sampling

import (
	"math"
	"slices"

	"github.com/specgo/spec/tensor"
)

// Mirostat keeps tokens by their surprise, -log2 p after temperature and constraint, so that the surprise of the text
// stays near Tau (Basu et al. 2021, arXiv:2007.14966). A bound mu begins at 2 Tau with the first generated token; each
// token of the text moves it by Eta times what its surprise is below Tau. Version 2 keeps the tokens whose surprise is
// at most mu; version 1 estimates from the most probable tokens how many these are.
//
// It replaces top-n-sigma, top-k, typical-p, top-p, min-p and XTC, as in llama.cpp. Of an [Options].Order only the
// penalties count then, where it lists them; the temperature comes behind them in any case.
type Mirostat struct {
	Version int     `json:"version"`       // 0 is off; 1, 2
	Tau     float32 `json:"tau,omitempty"` // surprise to hold, in bits; 0 is 5
	Eta     float32 `json:"eta,omitempty"` // step; 0 is 0.1
}

// llama.cpp's defaults, and those of the paper.
const (
	defaultTau = 5
	defaultEta = 0.1
	estimated  = 100 // tokens from which version 1 estimates
)

// rememberedChoices is for how many positions of a text the sampler knows what could be chosen. It bounds how far a
// tree of drafts may go back.
const rememberedChoices = 64

// surprises follows mu along a history. Like constraintPath it keeps what it knows of the last one, so that a history
// that branches off it continues from there.
type surprises struct {
	tokens  []int32   // generated part of the last history
	mu      []float32 // before each of tokens, and after the last
	choices []choice  // of the last rememberedChoices positions; nil: none yet
}

// choice is what could be chosen as one generated token, after those of surprises.tokens that precede it.
type choice struct {
	index int         // of the generated token plus 1; 0: not known
	kept  []candidate // by id, with log p
}

// bound is mu at the end of a history whose generated part begins at from. A token at a position that was never asked
// for, as drafts have, does not move it.
func (p *surprises) bound(m Mirostat, history []int32, from int) float32 {
	generated := history[min(from, len(history)):]
	if len(p.mu) == 0 {
		p.mu, p.choices = append(p.mu, float32(2*m.Tau)), make([]choice, rememberedChoices)
	}
	n := 0
	for n < min(len(generated), len(p.tokens)) && generated[n] == p.tokens[n] {
		n++
	}
	if n < len(p.tokens) {
		p.tokens, p.mu = p.tokens[:n], p.mu[:n+1]
		for i := range p.choices {
			if p.choices[i].index-1 > n {
				p.choices[i].index = 0
			}
		}
	}
	for i, id := range generated[n:] {
		mu := p.mu[n+i]
		if c := &p.choices[(n+i)%rememberedChoices]; c.index == n+i+1 {
			at, ok := slices.BinarySearchFunc(c.kept, id, func(c candidate, id int32) int { return int(c.id) - int(id) })
			if ok {
				mu -= float32(m.Eta * (-c.kept[at].x/math.Ln2 - m.Tau))
			}
		}
		p.tokens, p.mu = append(p.tokens, id), append(p.mu, mu)
	}
	return p.mu[len(generated)]
}

// remember notes what can be chosen after the last history of bound: log p of what is kept, by id.
func (p *surprises) remember(kept []candidate, logSum float32) {
	at := len(p.tokens)
	c := &p.choices[at%rememberedChoices]
	c.index, c.kept = at+1, append(c.kept[:0], kept...)
	for i := range c.kept {
		c.kept[i].x -= logSum
	}
}

// mirostat leaves in s.kept what Mirostat leaves of it; logits are divided by the temperature already.
func (s *Sampler) mirostat(history []int32) {
	m := s.o.Mirostat
	mu := s.surprise.bound(m, history, s.o.ConstraintFrom)
	if len(s.kept) == 0 {
		return
	}
	if m.Version == 1 {
		s.order()
		s.kept = s.kept[:s.estimate(s.probabilities(), mu)]
	} else {
		top := s.most()
		least := min(top, s.logSum()-float32(mu*math.Ln2))
		s.kept = slices.DeleteFunc(s.kept, func(c candidate) bool { return c.x < least })
	}
	slices.SortFunc(s.kept, func(a, b candidate) int { return int(a.id) - int(b.id) })
	s.surprise.remember(s.kept, s.logSum())
}

// logSum is the logarithm of the sum of exp of s.kept's logits, in its order.
func (s *Sampler) logSum() float32 {
	s.p = s.p[:0]
	for _, c := range s.kept {
		s.p = append(s.p, c.x)
	}
	return tensor.LogSumExp(s.p)
}

// estimate is how many of the most probable tokens have the surprise mu, by version 1: p falls with the rank to the
// power of -e (Zipf's law), e by least squares over the first ones (equations 30 and 31 of the paper).
func (s *Sampler) estimate(p []float32, mu float32) int {
	var tb, tt float32
	for i := range min(estimated, len(p)) - 1 {
		if p[i+1] == 0 {
			break
		}
		t := tensor.Log(float32(i+2) / float32(i+1))
		tb += float32(t * tensor.Log(p[i]/p[i+1]))
		tt += float32(t * t)
	}
	if tt == 0 {
		return 1
	}
	e := tb / tt
	d := e - 1
	ratio := 1 / tensor.Log(float32(s.vocab)) // the limit where d is 0
	if d != 0 {
		ratio = d / (1 - tensor.Exp(-d*tensor.Log(float32(s.vocab))))
	}
	k := tensor.Exp((tensor.Log(ratio) + float32(mu*math.Ln2)) / e)
	if !(k < float32(len(p))) { // NaN too, where all are as probable
		return len(p)
	}
	return max(1, int(k))
}
