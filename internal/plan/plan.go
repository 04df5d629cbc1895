// Package plan predicts the speedup that a draft model gives: a few seconds of measuring how long its
// steps and the target's passes take, and how often the two agree, and then arithmetic.
package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/speculative"
)

// Lengths are the draft lengths that are measured; those between are interpolated.
var Lengths = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16}

// Longest is the longest draft that is predicted, but where longer passes take little more.
const Longest = 16

// Farthest is the longest draft that is predicted where a pass takes as long whatever its tokens are, as of weights
// that are read from disk.
const Farthest = 255

const (
	// flatCurve is the time of a pass that verifies Longest drafted tokens, in plain passes, up to which longer ones are
	// measured.
	flatCurve = 1.5
	// steepCurve is the time of a pass from which still longer ones are not measured.
	steepCurve = 3
)

// farLengths are the draft lengths that are measured then. A plan with a draft head ends at Longest: so far its
// drafts are followed.
var farLengths = []int{32, 64, 128, Farthest}

// Config says what is measured.
type Config struct {
	Target, Draft *engine.Model
	Form          *engine.DraftForm // Draft is Target, in this form; nil: Draft is another model, or a head
	Prompts       [][]int32
	Sampling      engine.Sampling
	Tokens        int // generated after each, at most, and asked about
	Context       int // of the sessions; 0: the model's
	KV            string
	Adapters      engine.AdapterSet // of the target's sessions
	Seconds       float64           // of measuring, about

	Progress func(share float64) // told after each round how much of the measuring is done, 0 to 1; may be nil
}

// Prediction is the outcome.
type Prediction struct {
	Schema     int      `json:"schema"`
	SizeRatio  float64  `json:"size_ratio"` // the target's bytes over the draft model's
	Tokens     int      `json:"n_tokens"`   // that acceptance was measured on
	Acceptance float64  `json:"acceptance"` // share of tokens that the draft model predicts, given those before
	Plain      float64  `json:"plain_seconds"`
	Step       float64  `json:"draft_step_seconds"`
	Lengths    []Length `json:"lengths" csv:"-"`
	Auto       float64  `json:"auto_speedup"` // of the schedule that ends drafts by confidence
	Best       int      `json:"best_length"`  // the constant length of the greatest speedup; 0: none has one
	BestGain   float64  `json:"best_speedup"`
	Advice     string   `json:"advice"`
	Warning    string   `json:"warning,omitempty"`
	Head       bool     `json:"draft_head"` // the draft model is a draft head
	Self       bool     `json:"self"`       // it is the target in fewer bits
	Seconds    float64  `json:"total_seconds"`

	autoMax int // longest draft of auto
}

// Length is what drafts of one length cost and gain.
type Length struct {
	Length  int     `json:"length"`
	Draft   float64 `json:"draft_seconds"`   // of drafting all its tokens
	Verify  float64 `json:"verify_seconds"`  // of the pass that verifies them
	Formula float64 `json:"formula_speedup"` // [Speedup] at the acceptance measured
	Speedup float64 `json:"speedup"`         // over the measured texts, where acceptances come in clusters
}

// Speedup is the expected speedup of drafting k tokens, each accepted with probability a independently:
// (1-a^(k+1)) / (1-a) tokens in the time of a draft and a pass, against one in a plain pass
// (Leviathan et al. 2023, theorem 3.8, with the measured cost of verifying k tokens in the place of 1).
func Speedup(a float64, k int, plain, draft, verify float64) float64 {
	tokens := float64(k + 1)
	if a < 1 {
		tokens = (1 - math.Pow(a, tokens)) / (1 - a)
	}
	return float64(tokens*plain) / (draft + verify)
}

// cycle is a schedule that drafts each length in turn.
type cycle struct{ next int }

func (c *cycle) Length(int) int {
	k := Lengths[c.next%len(Lengths)]
	c.next++
	return k
}

func (c *cycle) Stop(*speculative.Draft) bool { return false }
func (c *cycle) NeedsConfidence() bool        { return false }
func (c *cycle) Observe(*speculative.Round)   {}

// sample is one text and what was drafted for its tokens.
type sample struct {
	agrees     []bool    // the draft model chose the same token
	confidence []float32 // in its choice

	// Of a draft head, whose later tokens follow from its own states and not from the target's: the drafts from each
	// token on, up to the first that is not the text's. Instead of the above.
	chains [][]step
}

// step is a drafted token.
type step struct {
	agrees     bool
	confidence float32
}

// tokens is the number of the text's tokens.
func (s *sample) tokens() int {
	if s.chains != nil {
		return len(s.chains)
	}
	return len(s.agrees)
}

// at is the n-th token, from 0, of a draft that begins at token i. What a head drafts after a wrong token is wrong as
// well, with the same confidence.
func (s *sample) at(i, n int) step {
	if s.chains == nil {
		return step{s.agrees[i+n], s.confidence[i+n]}
	}
	chain := s.chains[i]
	if len(chain) == 0 {
		return step{}
	}
	x := chain[min(n, len(chain)-1)]
	x.agrees = x.agrees && n < len(chain)
	return x
}

// Run measures and predicts.
func Run(ctx context.Context, c Config) (Prediction, error) {
	begin := time.Now()
	p := Prediction{Schema: 1, SizeRatio: float64(c.Target.Memory().Weights) / float64(c.Draft.Memory().Weights),
		Head: c.Draft.Head() != nil, Self: c.Form != nil}
	if p.Self {
		p.SizeRatio = 1 / c.Target.PlanDraftForm().Reads
	}
	var draft, verify [Farthest + 1][]float64
	var samples []sample
	over := func() bool { return time.Since(begin).Seconds() >= c.Seconds }
	enough := func() bool { return over() && min(len(verify[0]), len(verify[1]), len(verify[c.longest()])) > 1 }
	for turn := 0; turn == 0 || !over() || !enough() && turn < len(Lengths); turn++ { // times vary more than texts do
		for i, prompt := range c.Prompts {
			until := float64(c.Seconds*float64(i+1)) / float64(len(c.Prompts))
			s, err := c.measure(ctx, prompt, turn, func(r *speculative.Round) bool {
				c.progress(time.Since(begin).Seconds())
				k := r.Drafted()
				draft[k] = append(draft[k], r.Drafting.Seconds())
				verify[k] = append(verify[k], r.Verifying.Seconds())
				if turn == 0 {
					return time.Since(begin).Seconds() < until || i == len(c.Prompts)-1 && !enough()
				}
				return !enough()
			})
			if err != nil {
				return p, err
			}
			if turn == 0 {
				samples = append(samples, s)
			}
		}
	}
	if len(verify[0]) == 0 || len(verify[1]) == 0 {
		return p, errors.New("the text ended before anything could be measured: give another prompt, or a longer context")
	}
	if len(verify[Longest]) > 0 && median(verify[Longest]) <= flatCurve*median(verify[0]) && !p.Head {
		if err := c.farther(ctx, &verify, over); err != nil {
			return p, err
		}
	}
	costs := newCosts(draft, verify)
	costs.longest = c.longest()
	p.predict(costs, samples)
	p.advise()
	p.Seconds = time.Since(begin).Seconds()
	return p, nil
}

// longest is the most tokens of a draft up to Longest: heads of several blocks draft one token with each.
func (c *Config) longest() int {
	if h := c.Draft.Head(); h != nil && h.Longest > 0 {
		return min(Longest, h.Longest)
	}
	return Longest
}

// learning is the share of a schedule's speedup that is left when it has to find its lengths as it goes,
// and not, as here, with the text at hand: measured on texts of 128 tokens, where the full speedup
// predicted 5 to 9 % more than was then measured.
const learning = 0.95

// progress tells how much of the time is spent.
func (c *Config) progress(spent float64) {
	if c.Progress != nil && c.Seconds > 0 {
		c.Progress(min(1, spent/c.Seconds))
	}
}

// farther measures passes that verify more than Longest tokens, as long as they take little more than a plain one.
// Its tokens differ: with equal ones a mixture of experts would read fewer experts than a text does.
func (c Config) farther(ctx context.Context, verify *[Farthest + 1][]float64, over func() bool) error {
	target, err := c.Target.NewSession(engine.SessionOptions{Context: c.Context, KV: c.KV, Adapters: c.Adapters})
	if err != nil {
		return err
	}
	defer target.Close()
	prompt := c.Prompts[0]
	if _, err := target.Eval(ctx, prompt, nil, engine.None); err != nil {
		return fmt.Errorf("measuring long passes: %w", err)
	}
	const (
		repeats = 3    // where there is time
		step    = 7919 // a prime
	)
	for _, k := range farLengths {
		if len(prompt)+k+1 > target.Context() {
			return nil
		}
		tokens := make([]int32, k+1)
		for i := range tokens {
			tokens[i] = int32((i + 1) * step % target.Vocab())
		}
		for i := 0; i == 0 || i < repeats && !over(); i++ {
			begin := time.Now()
			if _, err := target.Eval(ctx, tokens, nil, engine.All); err != nil {
				return fmt.Errorf("measuring long passes: %w", err)
			}
			verify[k] = append(verify[k], time.Since(begin).Seconds())
			if err := target.Truncate(len(prompt)); err != nil {
				return fmt.Errorf("measuring long passes: %w", err)
			}
		}
		if median(verify[k]) > steepCurve*median(verify[0]) {
			return nil
		}
	}
	return nil
}

// measure generates a text, with drafts of all lengths in turn, as long as more says so, and the first
// time asks the draft model about each token of it.
func (c Config) measure(ctx context.Context, prompt []int32, turn int, more func(*speculative.Round) bool) (
	sample, error) {
	var s sample
	target, err := c.Target.NewSession(engine.SessionOptions{Context: c.Context, KV: c.KV, Adapters: c.Adapters})
	if err != nil {
		return s, err
	}
	defer target.Close()
	draft, err := c.Draft.NewSession(engine.SessionOptions{KV: c.KV, Form: c.Form})
	if err != nil {
		return s, err
	}
	defer draft.Close()
	drafter := speculative.Model(draft)
	if c.Form != nil {
		form := func() *engine.DraftForm { return c.Form }
		if drafter, err = speculative.Self(c.Target, form, engine.SessionOptions{}); err != nil {
			return s, err
		}
	}

	going, rounds := true, 0
	o := speculative.Options{MaxTokens: c.Tokens, Schedule: &cycle{turn * 5}, Trace: func(r *speculative.Round) {
		if rounds++; rounds > 1 { // the first one meets cold memory
			going = more(r)
		}
	}}
	text := slices.Clone(prompt)
	for token, err := range speculative.New(target, drafter, o).Generate(ctx, prompt, c.Sampling) {
		if err != nil {
			return s, fmt.Errorf("measuring: %w", err)
		}
		text = append(text, token.ID)
		if !going || c.Target.Tokenizer() != nil && c.Target.Tokenizer().IsEOG(token.ID) {
			break
		}
	}
	if turn > 0 {
		return s, nil
	}
	text = text[:min(len(text), draft.Context())]
	if c.Draft.Head() != nil {
		s.chains, err = c.chains(ctx, target, draft, text, len(prompt))
		return s, err
	}
	if err := draft.Truncate(0); err != nil {
		return s, err
	}
	sampler, err := sampling.New(c.Target.Config().Vocab, c.Sampling)
	if err != nil {
		return s, err
	}
	vocab := min(c.Target.Config().Vocab, draft.Vocab())
	for at := 0; at < len(text)-1; {
		const chunk = 32 // rows of logits at a time: they are large
		n := min(chunk, len(text)-1-at)
		logits, err := draft.Eval(ctx, text[at:at+n], nil, engine.All)
		if err != nil {
			return s, fmt.Errorf("measuring the draft model: %w", err)
		}
		for i := range n {
			if j := at + i; j >= len(prompt)-1 {
				row := logits.Row(i)[:vocab]
				id := sampler.Pick(row, text[:j+1])
				s.agrees = append(s.agrees, id == text[j+1])
				s.confidence = append(s.confidence, float32(math.Exp(float64(sampling.LogProb(row, id)))))
			}
		}
		at += n
	}
	return s, nil
}

// costs are seconds by draft length.
type costs struct {
	draft, verify [Farthest + 1]float64
	farthest      int // length that is known; less than Longest means Longest
	longest       int // draft up to Longest
}

// lengths are those that are predicted.
func (c *costs) lengths() (list []int) {
	for k := 1; k <= c.longest; k++ {
		list = append(list, k)
	}
	for _, k := range farLengths {
		if k <= c.farthest {
			list = append(list, k)
		}
	}
	return list
}

// newCosts takes medians, puts a straight line through those of drafting and interpolates those of
// verifying.
func newCosts(draft, verify [Farthest + 1][]float64) (c costs) {
	c.longest = Longest
	var n, x, y, xx, xy float64
	for k := 1; k <= Longest; k++ {
		if len(draft[k]) > 0 {
			t := median(draft[k])
			n, x, y, xx, xy = n+1, x+float64(k), y+t, xx+float64(k*k), xy+float64(float64(k)*t)
		}
	}
	slope := y / x
	if d := float64(n*xx) - float64(x*x); d > 0 {
		slope = (float64(n*xy) - float64(x*y)) / d
	}
	first := max(0, (y-float64(slope*x))/n)
	last := 0
	for k := range Farthest + 1 {
		if k > 0 {
			c.draft[k] = first + float64(slope*float64(k))
		}
		if len(verify[k]) == 0 {
			continue
		}
		c.verify[k] = median(verify[k])
		for i := last + 1; i < k; i++ {
			c.verify[i] = c.verify[last] + float64((c.verify[k]-c.verify[last])*float64(i-last))/float64(k-last)
		}
		last = k
	}
	c.farthest = last
	for i := last + 1; i <= Longest; i++ {
		c.verify[i] = c.verify[last] + float64((c.verify[last]-c.verify[0])*float64(i-last))/float64(max(1, last))
	}
	return c
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// predict fills in what follows from costs and samples.
func (p *Prediction) predict(c costs, samples []sample) {
	agreed := 0
	for _, s := range samples {
		for _, chain := range s.chains {
			p.Tokens += len(chain)
			for _, x := range chain {
				if x.agrees {
					agreed++
				}
			}
		}
		p.Tokens += len(s.agrees)
		for _, ok := range s.agrees {
			if ok {
				agreed++
			}
		}
	}
	p.Acceptance = float64(agreed) / float64(max(1, p.Tokens))
	p.Plain, p.Step, p.BestGain = c.verify[0], c.draft[c.longest]/float64(c.longest), 1
	for _, k := range c.lengths() {
		l := Length{
			Length: k, Draft: c.draft[k], Verify: c.verify[k],
			Formula: Speedup(p.Acceptance, k, c.verify[0], c.draft[k], c.verify[k]),
			Speedup: replay(c, samples, k, 0),
		}
		p.Lengths = append(p.Lengths, l)
		if l.Speedup > p.BestGain {
			p.Best, p.BestGain = k, l.Speedup
		}
	}
	for _, k := range c.lengths() {
		for threshold := float32(0); threshold < 0.95; threshold += 0.1 {
			if x := replay(c, samples, k, threshold); x > p.Auto {
				p.Auto, p.autoMax = x, k
			}
		}
	}
	p.Auto = max(1, float64(p.Auto*learning))
}

// replay goes through the texts as the decoder would, with drafts of at most k tokens that end
// after one of less confidence than threshold.
func replay(c costs, samples []sample, k int, threshold float32) float64 {
	spent, tokens := 0.0, 0
	for _, s := range samples {
		for i := 0; i < s.tokens(); {
			n := 0
			for n < k && i+n+1 < s.tokens() { // the target adds one to every draft
				n++
				if s.at(i, n-1).confidence < threshold {
					break
				}
			}
			accepted := 0
			for accepted < n && s.at(i, accepted).agrees {
				accepted++
			}
			spent += c.draft[n] + c.verify[n]
			tokens += accepted + 1
			i += accepted + 1
		}
	}
	if spent == 0 {
		return 1
	}
	return float64(float64(tokens)*c.verify[0]) / spent
}

// Worth is the speedup from which a draft model is recommended: less is within what machines vary.
const Worth = 1.05

func (p *Prediction) advise() {
	gain := max(p.BestGain, p.Auto)
	switch {
	case gain >= Worth:
		most := ""
		if p.autoMax > speculative.DefaultDraftMax {
			most = fmt.Sprintf(" --draft-max %d", p.autoMax)
		}
		use := "use it"
		if p.Self {
			use += " (--drafter self)"
		}
		constant := "; no constant length is faster than plain decoding"
		if p.Best > 0 {
			constant = fmt.Sprintf(", %.2fx with --schedule constant --draft-max %d", p.BestGain, p.Best)
		}
		p.Advice = fmt.Sprintf("%s: predicted speedup %.2fx with --schedule auto%s%s", use, max(p.Auto, 1), most, constant)
	default:
		p.Advice = "do not use it: no speedup is predicted on such texts (--schedule auto turns drafting off by itself)"
	}
	if p.SizeRatio < 10 && !p.Head && !p.Self {
		p.Warning = fmt.Sprintf("the draft model is only %.1f times smaller than the target; less than ten times is "+
			"seldom faster", p.SizeRatio)
	}
}
