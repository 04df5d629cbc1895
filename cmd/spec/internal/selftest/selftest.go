// Package selftest checks the promises of speculation on the model and the machine at hand: that
// the logits depend on the sequence and on nothing else, bit for bit; that drafts do not change a text;
// and that verifiers keep the target's distribution, by a chi-squared test of each.
package selftest

import (
	"context"
	"fmt"
	"time"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// Config says what is tested.
type Config struct {
	Runtime func(simd string, threads int) (*engine.Runtime, error)
	Target  func(context.Context, *engine.Runtime) (*engine.Model, error)

	// Draft opens the draft model of a target, or a draft head for it; Head a draft head beside that one. nil: there is
	// none.
	Draft, Head func(ctx context.Context, rt *engine.Runtime, target *engine.Model) (*engine.Model, error)

	Drafters  []speculative.Named[speculative.Drafter] // but for those of another vocabulary and of the target itself
	Schedules map[string]func() speculative.Schedule
	Verifiers map[string]func() speculative.Verifier

	Prompts []string // nil: a few built in
	Tokens  int      // generated after each
	Draws   int      // texts in each chi-squared test
	Quick   bool     // fewer prompts, tokens and draws

	Report func(Check) // called after each check; may be nil
}

// Check is the outcome of one check.
type Check struct {
	Promise string   `json:"promise"`
	What    string   `json:"what"`
	Passed  bool     `json:"passed"`
	PValue  *float64 `json:"p_value,omitempty"`
	Detail  string   `json:"detail"`
	Seconds float64  `json:"seconds"`
}

// Result is the outcome of all checks.
type Result struct {
	Schema  int      `json:"schema"`
	Model   string   `json:"model"`
	Kernels []string `json:"kernels"` // the default set, with which the others are compared, comes first
	Threads int      `json:"n_threads"`
	Checks  []Check  `json:"checks"`
	Failed  int      `json:"n_failed"`
	Seconds float64  `json:"total_seconds"`
}

// The promises, as the report names them.
const (
	oneAnswer    = "one answer"
	confirmation = "confirmation"
	sameText     = "same text"
	distribution = "distribution"
)

var builtIn = []string{
	"// Reverse returns s with its bytes in reverse order.\nfunc Reverse(s string) string {\n",
	"The history of the lighthouse begins with",
	"func (r *Ring) Push(x int) {\n\tif r.n == len(r.buf) {\n",
	"one two three four one two three four one two three",
	"package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() {\n",
	"To bake bread, take",
}

// test is the state of a run.
type test struct {
	Config
	target, draft, head *engine.Model
	rt                  *engine.Runtime
	prompts             [][]int32
	result              Result
}

// Texts are the prompts: those that are given, or built-in ones.
func (c *Config) Texts() []string {
	switch {
	case len(c.Prompts) > 0:
		return c.Prompts
	case c.Quick:
		return builtIn[:2]
	}
	return builtIn
}

// mostPrompt is the most tokens of a prompt that count.
const mostPrompt = 256

// tokens are generated after each prompt.
func (c *Config) tokens() int {
	switch {
	case c.Tokens > 0:
		return c.Tokens
	case c.Quick:
		return 24
	}
	return 48
}

// Needs is the most tokens of a text, and the most rows of logits that are there at once: confirmation has those of a
// whole text, and a copy of them.
func (c *Config) Needs() (tokens, rows int) {
	for _, text := range c.Texts() {
		tokens = max(tokens, min(len(text)+2, mostPrompt)) // a token has a byte at least, but for those around a text
	}
	tokens += c.tokens()
	return tokens, 2 * tokens
}

// kernels are all names of kernel sets; those that the machine lacks are skipped.
var kernels = asm.Names()

// Run makes all checks. A check that fails is not an error: it is in the result.
func Run(ctx context.Context, c Config) (Result, error) {
	begin := time.Now()
	t := &test{Config: c, result: Result{Schema: 1, Checks: []Check{}}}
	t.Tokens = c.tokens()
	if t.Draws <= 0 {
		t.Draws = map[bool]int{false: 20000, true: 4000}[c.Quick]
	}
	err := t.run(ctx)
	t.result.Seconds = time.Since(begin).Seconds()
	return t.result, err
}

func (t *test) run(ctx context.Context) error {
	var best reference
	err := t.with(ctx, "", 0, func() error {
		t.result.Model = t.target.Config().Name
		t.result.Kernels, t.result.Threads = []string{t.rt.SIMD()}, t.rt.Threads()
		if err := t.read(); err != nil {
			return err
		}
		for _, open := range []func(context.Context, *engine.Runtime, *engine.Model) (*engine.Model, error){t.Draft, t.Head} {
			if open == nil {
				continue
			}
			draft, err := open(ctx, t.rt, t.target)
			if err != nil {
				return err
			}
			if draft == nil {
				continue
			}
			defer draft.Close()
			if draft.Head() != nil {
				t.head = draft
			} else {
				t.draft = draft
			}
		}
		var err error
		if best, err = t.refer(ctx); err != nil {
			return err
		}
		for _, part := range []func(context.Context, reference) error{
			t.passes, t.confirm, t.greedy, t.match, t.distributions} {
			if err := part(ctx, best); err != nil {
				return err
			}
		}
		t.draft, t.head = nil, nil
		return nil
	})
	if err != nil {
		return err
	}
	return t.kernelSets(ctx, best)
}

// with opens the target in a runtime of its own for as long as f runs.
func (t *test) with(ctx context.Context, simd string, threads int, f func() error) error {
	rt, err := t.Runtime(simd, threads)
	if err != nil {
		return err
	}
	defer rt.Close()
	target, err := t.Target(ctx, rt)
	if err != nil {
		return err
	}
	defer target.Close()
	t.rt, t.target = rt, target
	return f()
}

// read encodes the prompts; a model without a tokenizer gets arbitrary ids.
func (t *test) read() error {
	texts, tok := t.Texts(), t.target.Tokenizer()
	room := t.target.Config().Context - t.Tokens - 1
	if room < 8 {
		return fmt.Errorf("a context of %d tokens leaves no room for a prompt and %d more", t.target.Config().Context,
			t.Tokens)
	}
	for i, text := range texts {
		var ids []int32
		if tok != nil {
			ids = tok.Encode(text, bpe.EncodeOptions{AddSpecial: true})
		} else {
			for j := range 16 {
				ids = append(ids, int32((j*j*31+j*17+i*101+7)%t.target.Config().Vocab))
			}
		}
		if len(ids) == 0 {
			return fmt.Errorf("prompt %d is empty", i+1)
		}
		t.prompts = append(t.prompts, ids[:min(len(ids), room, mostPrompt)])
	}
	return nil
}

// check makes one check: f fills in the detail, and returns what was wrong, if anything.
func (t *test) check(ctx context.Context, promise, what string, f func(c *Check) (wrong string, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	begin := time.Now()
	c := Check{Promise: promise, What: what}
	wrong, err := f(&c)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", promise, what, err)
	}
	if c.Passed = wrong == ""; !c.Passed {
		c.Detail = wrong
		t.result.Failed++
	}
	c.Seconds = time.Since(begin).Seconds()
	t.result.Checks = append(t.result.Checks, c)
	if t.Report != nil {
		t.Report(c)
	}
	return nil
}

// drafter makes a drafter, a new one for every text.
type drafter struct {
	name string
	make func(target []int32) (d speculative.Drafter, release func(), err error)
}

// drafters lists all drafters, and two that know the target's text: one repeats it with every third
// token wrong, one drafts trees around it, so that whatever the model something is accepted and
// something is rolled back.
func (t *test) drafters() (list []drafter) {
	nothing := func() {}
	list = append(list, drafter{"replay", func(record []int32) (speculative.Drafter, func(), error) {
		return speculative.Replay(speculative.ReplayOptions{Tokens: record, ErrorEvery: 3}), nothing, nil
	}})
	list = append(list, drafter{"branches", func(record []int32) (speculative.Drafter, func(), error) {
		return &branches{record: record}, nothing, nil
	}})
	for _, n := range t.Drafters {
		if n.Needs == 0 && n.Name != "none" {
			list = append(list, drafter{n.Name, func([]int32) (speculative.Drafter, func(), error) {
				d, err := n.New(speculative.Parts{})
				return d, nothing, err
			}})
		}
	}
	of := func(m *engine.Model, prefix string, needs speculative.Needs) {
		for _, n := range t.Drafters {
			if m == nil || n.Needs&needs == 0 || (speculative.Choice{Drafter: n.Name}).Fits(nil, m, nil) != nil {
				continue
			}
			list = append(list, drafter{prefix + n.Name, func([]int32) (speculative.Drafter, func(), error) {
				s, err := m.NewSession(engine.SessionOptions{})
				if err != nil {
					return nil, nil, err
				}
				d, err := n.New(speculative.Parts{Draft: s})
				return d, s.Close, err
			}})
		}
	}
	of(t.draft, "", speculative.NeedsDraft)
	of(t.head, "head, ", speculative.NeedsDraft)
	of(t.head, "", speculative.NeedsHead|speculative.NeedsMTP|speculative.NeedsBlock)
	return list
}
