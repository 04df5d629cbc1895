package selftest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// From tables: the chance that a chi-squared variable of so many degrees of freedom exceeds x.
func TestUpperGamma(t *testing.T) {
	for _, x := range []struct {
		freedom int
		x, p    float64
	}{
		{1, 3.841458820694124, 0.05}, {1, 6.634896601021213, 0.01}, {1, 0.45493642311957283, 0.5},
		{2, 4.605170185988092, 0.1}, {5, 11.070497693516351, 0.05}, {10, 18.307038053275146, 0.05},
		{10, 3.9402991361190605, 0.95}, {30, 59.70306430442993, 0.001}, {63, 63, 0.4763}, {100, 124.34211340400408, 0.05},
	} {
		if got := upperGamma(float64(x.freedom)/2, x.x/2); math.Abs(got-x.p) > 1e-4*x.p {
			t.Errorf("%d degrees of freedom, %v: %v, want %v", x.freedom, x.x, got, x.p)
		}
	}
	for _, x := range []float64{0.1, 1, 3, 20, 700} { // Q(1, x) = exp(-x), Q(1/2, x) = erfc(sqrt(x))
		if got, want := upperGamma(1, x), math.Exp(-x); math.Abs(got-want) > 1e-12*want+1e-16 {
			t.Errorf("Q(1, %v) = %v, want %v", x, got, want)
		}
		if got, want := upperGamma(0.5, x), math.Erfc(math.Sqrt(x)); math.Abs(got-want) > 1e-12*want+1e-15 {
			t.Errorf("Q(1/2, %v) = %v, want %v", x, got, want)
		}
	}
}

func TestChiSquared(t *testing.T) {
	x, p, ok := ChiSquared([]int{30, 20, 50}, []float64{0.25, 0.25, 0.5}, 100)
	if !ok || math.Abs(x-2) > 1e-12 || math.Abs(p-math.Exp(-1)) > 1e-12 {
		t.Errorf("%v, %v, %v", x, p, ok)
	}
	if _, p, _ := ChiSquared([]int{99, 1}, []float64{1, 0}, 100); p != 0 {
		t.Errorf("the impossible has the p-value %v", p)
	}
	if _, _, ok := ChiSquared([]int{100, 0}, []float64{0.999, 0.001}, 100); ok {
		t.Error("one cell was compared")
	}
	if x, _, ok := ChiSquared([]int{90, 4, 3, 3}, []float64{0.9, 0.04, 0.03, 0.03}, 100); !ok || x != 0 {
		t.Errorf("rare cells were not taken together: %v, %v", x, ok)
	}
}

func config(t *testing.T) Config {
	return Config{
		Runtime: func(simd string, threads int) (*engine.Runtime, error) {
			return engine.NewRuntime(engine.RuntimeOptions{SIMD: simd, Threads: max(threads, 1)})
		},
		Target: func(ctx context.Context, rt *engine.Runtime) (*engine.Model, error) {
			return engine.New(ctx, rt, testdata.Target(), testdata.Target().Size(), engine.Options{Name: "target"})
		},
		Draft: func(ctx context.Context, rt *engine.Runtime, _ *engine.Model) (*engine.Model, error) {
			return engine.New(ctx, rt, testdata.Draft(), testdata.Draft().Size(), engine.Options{Name: "draft"})
		},
		Drafters: named("model", "suffix"),
		Schedules: map[string]func() speculative.Schedule{
			"auto": func() speculative.Schedule { return speculative.Auto(speculative.AutoOptions{}) }},
		Verifiers: map[string]func() speculative.Verifier{
			"match": speculative.Match, "rejection": speculative.Rejection, "block": speculative.Block,
		},
		Tokens: 16, Draws: 3000, Quick: true,
	}
}

// ownKernels leaves out kernel sets beside the default one, which TestEverythingHolds compares.
func ownKernels(c *Config) {
	open, own := c.Runtime, ""
	c.Runtime = func(simd string, threads int) (*engine.Runtime, error) {
		if simd != "" && simd != own {
			return nil, errors.New("left out")
		}
		rt, err := open(simd, threads)
		if err == nil {
			own = rt.SIMD()
		}
		return rt, err
	}
}

// named are the drafters of these names.
func named(names ...string) []speculative.Named[speculative.Drafter] {
	return slices.DeleteFunc(speculative.Drafters(), func(n speculative.Named[speculative.Drafter]) bool {
		return !slices.Contains(names, n.Name)
	})
}

func TestEverythingHolds(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"pair":       func(c *Config) {},
		"one model":  func(c *Config) { c.Draft = nil },
		"its prompt": func(c *Config) { c.Prompts = []string{"func main() {\n"} },
	} {
		if name != "one model" && !testkit.IsLong(t) { // the command's own test has the pair
			continue
		}
		c := config(t)
		if !testkit.IsLong(t) { // the smaller model by itself
			open := c.Draft
			c.Target = func(ctx context.Context, rt *engine.Runtime) (*engine.Model, error) { return open(ctx, rt, nil) }
		}
		change(&c)
		r, err := Run(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, x := range r.Checks {
			seen[x.Promise]++
			if !x.Passed {
				t.Errorf("%s: %s, %s: %s", name, x.Promise, x.What, x.Detail)
			}
		}
		if r.Failed != 0 || seen[oneAnswer] < 9 || seen[confirmation] != 1 || seen[sameText] < 6 || seen[distribution] < 7 {
			t.Errorf("%s: %v, %d failed", name, seen, r.Failed)
		}
	}
}

// TestLongEverythingHolds: with the draft model, and with a prompt that is given.
func TestLongEverythingHolds(t *testing.T) {
	testkit.Long(t)
	TestEverythingHolds(t)
}

// A draft head's drafts are checked for the same text and for the distribution, beside the draft model's and without
// one.
func TestHeadHolds(t *testing.T) {
	for _, alone := range []bool{true, false} {
		if alone && !testkit.IsLong(t) {
			continue
		}
		c := config(t)
		ownKernels(&c)
		c.Tokens, c.Draws, c.Verifiers = 12, 1000, map[string]func() speculative.Verifier{
			"rejection": speculative.Rejection, "match": speculative.Match}
		// how much auto drafts depends on the clock
		c.Schedules = map[string]func() speculative.Schedule{"constant": func() speculative.Schedule {
			return speculative.Constant(speculative.ConstantOptions{Length: 2})
		}}
		open := func(ctx context.Context, rt *engine.Runtime, target *engine.Model) (*engine.Model, error) {
			return engine.New(ctx, rt, testdata.Head(), testdata.Head().Size(), engine.Options{Name: "head", Target: target})
		}
		if c.Head = open; alone { // as -md gives it
			c.Draft, c.Head = open, nil
		}
		c.Drafters = named("model", "suffix", "eagle")
		r, err := Run(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		accepted := map[string]float64{}
		for _, x := range r.Checks {
			if !x.Passed {
				t.Errorf("%s, %s: %s", x.Promise, x.What, x.Detail)
			}
			var n, of int
			if at := strings.LastIndex(x.Detail, ", "); at >= 0 {
				fmt.Sscanf(x.Detail[at:], ", %d of %d drafted accepted", &n, &of)
			}
			accepted[x.What] = float64(n) / float64(max(1, of))
		}
		for _, what := range []string{"greedy, eagle", "greedy, head, model", "sampled, eagle",
			"rejection, head", "match, head"} {
			if accepted[what] < 0.25 {
				t.Errorf("%s: %.2f of what was drafted is accepted", what, accepted[what])
			}
			t.Logf("%s: %.2f", what, accepted[what])
		}
		if !alone && accepted["rejection, head"] < accepted["rejection, model"] {
			t.Errorf("rejection accepts %.2f of the head's tokens, %.2f of the draft model's", accepted["rejection, head"],
				accepted["rejection, model"])
		}
	}
}

// TestLongHeadHolds: also with the head alone, as -md gives it.
func TestLongHeadHolds(t *testing.T) {
	testkit.Long(t)
	TestHeadHolds(t)
}

// acceptsAll keeps every drafted token, and says that it weighs p against q.
type acceptsAll struct{ speculative.Verifier }

func (b acceptsAll) Verify(v *speculative.Verification) {
	b.Verifier.Verify(v)
	if len(v.Path) == 0 && v.Draft.Len() > 0 {
		v.Path, v.Next = append(v.Path, 0), int32(v.Draft.Len()%v.Logits.Vocab)
	}
}

// redrawsFromP is rejection sampling that draws anew from p, not from what q left of it, at a rejection.
type redrawsFromP struct {
	speculative.Verifier
	sampling engine.Sampling
	vocab    int
}

func (f *redrawsFromP) Start(s speculative.Setup) error {
	f.sampling, f.vocab = s.Sampling, s.Vocab
	return f.Verifier.Start(s)
}

func (f *redrawsFromP) Verify(v *speculative.Verification) {
	f.Verifier.Verify(v)
	text := slices.Clone(v.Sequence)
	for _, i := range v.Path {
		text = append(text, v.Draft.Tokens[i])
	}
	sampler, err := sampling.New(f.vocab, f.sampling)
	if err == nil {
		v.Next = sampler.Pick(v.Logits.Row(len(v.Path)), text)
	}
}

// Broken rules are found out, each in the right place, and sound ones beside them are not blamed.
func TestBrokenRulesAreCaught(t *testing.T) {
	c := config(t)
	ownKernels(&c)
	c.Verifiers = map[string]func() speculative.Verifier{
		"block":        speculative.Block,
		"acceptsAll":   func() speculative.Verifier { return acceptsAll{speculative.Match()} },
		"redrawsFromP": func() speculative.Verifier { return &redrawsFromP{Verifier: speculative.Rejection()} },
	}
	c.Schedules = map[string]func() speculative.Schedule{}
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	caught := map[string]bool{}
	for _, x := range r.Checks {
		if x.Passed {
			continue
		}
		i := slices.IndexFunc(slices.Collect(maps.Keys(c.Verifiers)),
			func(name string) bool { return strings.Contains(x.What, name) })
		if i < 0 || strings.Contains(x.What, "block") {
			t.Errorf("%s, %s: %s", x.Promise, x.What, x.Detail)
		}
		caught[x.Promise+" "+x.What] = true
	}
	for _, want := range []string{"same text greedy, verifier acceptsAll", "same text sampled, verifier acceptsAll",
		"distribution acceptsAll, model", "distribution redrawsFromP, model"} {
		if !caught[want] {
			t.Errorf("not caught: %s", want)
		}
	}
	if r.Failed != len(caught) {
		t.Errorf("%d failed, %d were", r.Failed, len(caught))
	}
}
