package plan

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Leviathan et al. 2023, table 1 gives the tokens of a round, and theorem 3.8 the gain.
func TestSpeedup(t *testing.T) {
	near(t, "no draft", Speedup(0.8, 0, 2, 0, 2), 1)
	near(t, "never accepted", Speedup(0, 5, 1, 0.5, 1), 1/1.5)
	near(t, "always accepted", Speedup(1, 5, 1, 0, 1), 6)
	near(t, "0.8, 5 tokens", Speedup(0.8, 5, 1, 5*0.02, 1), (1-math.Pow(0.8, 6))/(0.2*1.1))
}

// A text by hand: yes yes no yes. Drafts of two bring three tokens, then there is no room for a
// draft; drafts that end at the first doubt, and drafts of one, bring 2, 1 and 1.
func TestReplay(t *testing.T) {
	var c costs
	c.verify = [Farthest + 1]float64{10, 10, 10}
	c.draft = [Farthest + 1]float64{0, 1, 2}
	s := []sample{{agrees: []bool{true, true, false, true}, confidence: []float32{0.4, 0.9, 0.9, 0.9}}}
	near(t, "drafts of two", replay(c, s, 2, 0), 4*10/(12+10.0))
	near(t, "by confidence", replay(c, s, 2, 0.5), 4*10/(11+11+10.0))
	near(t, "drafts of one", replay(c, s, 1, 0), 4*10/(11+11+10.0))
	near(t, "nobody agrees", replay(c, []sample{
		{agrees: []bool{false, false}, confidence: []float32{1, 1}}}, 1, 0), 2*10/(11+10.0))
	near(t, "nothing", replay(c, nil, 1, 0), 1)
	// A head's draft from the first token has two right, one from the second none. After a wrong token nothing is right.
	yes, no := step{true, 0.9}, step{false, 0.4}
	heads := []sample{{chains: [][]step{{yes, yes, no}, {no}, {yes, no}, {no}, {yes}}}}
	near(t, "a head's drafts of two", replay(c, heads, 2, 0), 5*10/(12+11+10.0))
	near(t, "a head's drafts by confidence", replay(c, heads, 2, 0.5), 5*10/(12+11+10.0))
	near(t, "a head's drafts of one", replay(c, heads, 1, 0), 5*10/(11+11+10.0))
	near(t, "unknown", replay(c, []sample{{chains: [][]step{nil, nil}}}, 1, 0), 2*10/(11+10.0))
}

// The rounds that are predicted of a text with a draft head are those that decoding it takes.
func TestHead(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	target := open(t, rt, true)
	head, err := engine.New(context.Background(), rt, testdata.Head(), testdata.Head().Size(),
		engine.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	prompt := target.Tokenizer().Encode("func main() {\n", bpe.EncodeOptions{AddSpecial: true})
	ctx := context.Background()
	const tokens = 60
	for _, sampling := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 2}} {
		c := Config{Target: target, Draft: head, Prompts: [][]int32{prompt}, Tokens: tokens, Sampling: sampling, Seconds: 0.2}
		for _, k := range []int{1, 4} {
			s, err := target.NewSession(engine.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			h, err := head.NewSession(engine.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			text := slices.Clone(prompt)
			d := speculative.New(s, speculative.Model(h),
				speculative.Options{Schedule: speculative.Constant(speculative.ConstantOptions{Length: k}), MaxTokens: tokens})
			for token, err := range d.Generate(ctx, prompt, sampling) {
				if err != nil {
					t.Fatal(err)
				}
				text = append(text, token.ID)
			}
			chains, err := c.chains(ctx, s, h, text, len(prompt))
			if err != nil {
				t.Fatal(err)
			}
			var one costs // every pass costs one, and drafts nothing
			for i := range one.verify {
				one.verify[i] = 1
			}
			near(t, "tokens per pass", replay(one, []sample{{chains: chains}}, k, 0),
				float64(tokens)/float64(d.Stats().TargetPasses))
			if st := d.Stats(); st.Accepted < tokens/4 {
				t.Errorf("%d tokens accepted: this shows little", st.Accepted)
			}
		}
		p, err := Run(ctx, c)
		if err != nil || p.Acceptance < 0.4 || p.Acceptance > 0.95 || !p.Head || p.Warning != "" || p.Tokens < 16 ||
			len(p.Lengths) != Longest {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

func TestCosts(t *testing.T) {
	var draft, verify [Farthest + 1][]float64
	verify[0], verify[1], verify[4] = []float64{1, 9, 1}, []float64{2, 1.5, 1.4}, []float64{3}
	draft[1], draft[3] = []float64{0.3}, []float64{0.7}
	c := newCosts(draft, verify)
	near(t, "verify 0", c.verify[0], 1)
	near(t, "verify 1", c.verify[1], 1.5)
	near(t, "verify 2", c.verify[2], 2)
	near(t, "verify 8", c.verify[8], 5)
	near(t, "draft 0", c.draft[0], 0)
	near(t, "draft 2", c.draft[2], 0.5)
	near(t, "draft 5", c.draft[5], 1.1)
}

// TestFlat: where a pass takes as long whatever it verifies, long drafts are predicted, and no others where it does
// not or was not measured.
func TestFlat(t *testing.T) {
	var draft, verify [Farthest + 1][]float64
	for _, k := range append(slices.Clone(Lengths), farLengths[:2]...) {
		verify[k] = []float64{1}
		if k > 0 && k <= Longest {
			draft[k] = []float64{0.001 * float64(k)}
		}
	}
	right := sample{agrees: slices.Repeat([]bool{true}, 130), confidence: slices.Repeat([]float32{0.9}, 130)}
	var p Prediction
	p.SizeRatio = 30
	p.predict(newCosts(draft, verify), []sample{right})
	// 130 tokens: two drafts of 64 and one that has no room.
	if n := len(p.Lengths); n != Longest+2 || p.Lengths[n-1].Length != 64 || p.Best != 64 {
		t.Fatalf("%d lengths, the best is %d", n, p.Best)
	}
	near(t, "drafts of 64", p.BestGain, 130/(2*1.064))
	if p.advise(); !strings.Contains(p.Advice, "auto --draft-max 64,") ||
		!strings.Contains(p.Advice, "constant --draft-max 64") {
		t.Error(p.Advice)
	}
	verify[32], verify[64] = nil, nil
	p = Prediction{SizeRatio: 30}
	if p.predict(newCosts(draft, verify), []sample{right}); len(p.Lengths) != Longest || p.Best > Longest {
		t.Errorf("%d lengths, the best is %d", len(p.Lengths), p.Best)
	}
	if p.advise(); strings.Contains(p.Advice, "auto --draft-max") {
		t.Error(p.Advice)
	}
}

// TestFarther: the passes that are measured, and where measuring ends.
func TestFarther(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	target := open(t, rt, true)
	over := func() bool { return true }
	for _, c := range []struct {
		context int
		plain   float64 // seconds: far more than a pass takes, or far less
		want    []int
	}{{0, 1e6, farLengths}, {100, 1e6, farLengths[:2]}, {20, 1e6, nil}, {0, 1e-9, farLengths[:1]}} {
		var verify [Farthest + 1][]float64
		verify[0] = []float64{c.plain}
		if err := (Config{Target: target, Context: c.context, Prompts: [][]int32{{1, 2, 3}}}).farther(
			context.Background(), &verify, over); err != nil {
			t.Fatal(err)
		}
		for k := 1; k <= Farthest; k++ {
			if got := len(verify[k]) == 1 && verify[k][0] > 0; got != slices.Contains(c.want, k) {
				t.Errorf("context %d, plain %v: measured %d: %v", c.context, c.plain, k, got)
			}
		}
	}
}

func open(t *testing.T, rt *engine.Runtime, target bool) *engine.Model {
	t.Helper()
	r := testdata.Draft()
	if target {
		r = testdata.Target()
	}
	m, err := engine.New(context.Background(), rt, r, r.Size(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRun(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	target, draft := open(t, rt, true), open(t, rt, false)
	ids := target.Tokenizer().Encode("func main() {\n", bpe.EncodeOptions{AddSpecial: true})
	c := Config{Target: target, Draft: draft, Prompts: [][]int32{ids, ids[:3]}, Tokens: 64, Seconds: 0.2}
	p, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if p.Tokens < 16 || p.Tokens > 128 || p.Acceptance <= 0 || p.Acceptance >= 1 || p.Plain <= 0 || p.Step <= 0 ||
		len(p.Lengths) < Longest {
		t.Errorf("%+v", p)
	}
	for _, l := range p.Lengths {
		if l.Draft <= 0 || l.Verify <= 0 || l.Formula <= 0 || l.Speedup <= 0 || l.Speedup > p.BestGain {
			t.Errorf("%+v", l)
		}
	}
	if !strings.Contains(p.Warning, "times smaller") { // 5.8 M weights to 1.05 M
		t.Errorf("no warning: %q", p.Warning)
	}
	// A model drafting for itself agrees with itself, and never gains more than passes cost less together.
	c.Draft = target
	if p, err = Run(context.Background(), c); err != nil || p.Acceptance != 1 || p.Warning == "" {
		t.Errorf("acceptance of itself %v, %v", p.Acceptance, err)
	}
	// At a temperature it shares the noise.
	c.Draft, c.Sampling, c.Seconds = draft, engine.Sampling{Temperature: 0.8, Seed: 3}, 0.1
	if p, err = Run(context.Background(), c); err != nil || p.Acceptance < 0.2 {
		t.Errorf("%v of %d accepted, %v", p.Acceptance, p.Tokens, err)
	}
	// However little time there is, texts as short as these are written until plain passes were measured, too.
	brace := target.Tokenizer().Encode("}\n", bpe.EncodeOptions{AddSpecial: true})
	c = Config{Target: target, Draft: draft, Prompts: [][]int32{brace, brace}, Tokens: 64,
		Sampling: engine.Sampling{Temperature: 1.5, Seed: 6}}
	if p, err = Run(context.Background(), c); err != nil || p.Plain <= 0 {
		t.Errorf("no time: plain passes of %v s, %v", p.Plain, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, c); err == nil {
		t.Error("a cancelled context is no error")
	}
}

func TestAdvice(t *testing.T) {
	p := Prediction{SizeRatio: 30, BestGain: 1.8, Best: 4, Auto: 2}
	p.advise()
	if !strings.HasPrefix(p.Advice, "use it") || p.Warning != "" {
		t.Errorf("%q, %q", p.Advice, p.Warning)
	}
	// Where only drafts that end early gain, no constant length is advised.
	p = Prediction{SizeRatio: 30, BestGain: 1, Auto: 1.2}
	if p.advise(); !strings.Contains(p.Advice, "1.20x with --schedule auto;") ||
		strings.Contains(p.Advice, "--draft-max") {
		t.Error(p.Advice)
	}
	p = Prediction{SizeRatio: 3, BestGain: 1, Auto: 1.01}
	p.advise()
	if !strings.HasPrefix(p.Advice, "do not") || p.Warning == "" {
		t.Errorf("%q, %q", p.Advice, p.Warning)
	}
}
