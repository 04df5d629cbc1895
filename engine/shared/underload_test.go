package shared_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
)

// avx512 is what was measured with a model of 1 B and kernels of AVX-512, in ms by rows of a pass.
var avx512 = passTimes{{1, 18}, {8, 20.2}, {9, 23.1}, {12, 26.2}, {16, 31.2}, {24, 46.3}, {32, 61.1}, {512, 900}}

// loaded is decoders with scripted texts and drafts that share passes in virtual time. What a decoder does between
// passes happens at an instant of its own, so that the order of events does not depend on how goroutines run.
type loaded struct {
	target, draft *engine.Model
	cost, step    passTimes // of a pass of the target, and of the draft model, by rows
	accepted      float64   // probability that a drafted token is right
	decoders      int
	schedule      func() speculative.Schedule // nil: no drafts
	length        time.Duration

	prompt int     // tokens of a decoder's prompt, which the target has read when the time begins; 0: 3, which it has not
	tree   bool    // the drafter is Tree, not Model
	noise  float64 // share by which a pass may take more or less time
	slow   bool    // the machine has half its speed for 0.4 of every 1.3 seconds
	breaks bool    // two passes of every 20 take half as long again
}

// took is the time of a pass that takes so long on a quiet machine: the n-th of its model, at a time.
func (l loaded) took(quiet time.Duration, n uint64, at time.Duration) time.Duration {
	t := float64(quiet) * (1 + float64(l.noise*(float64(mixed(n)>>11)/(1<<52)-1)))
	if at %= 1300 * time.Millisecond; l.slow && at >= 500*time.Millisecond && at < 900*time.Millisecond {
		t *= 2
	}
	if l.breaks && n%20 >= 18 {
		t *= 1.5
	}
	return time.Duration(t)
}

// told is what came of it.
type told struct {
	all, late      float64 // tokens per second: in the whole time, and without its first quarter
	rows, segments float64 // of a pass
	share          float64 // of the draft model's passes in the time
}

// written is the token of a decoder's text at a position.
func written(decoder, at int) int32 { return int32(mixed(uint64(decoder)<<32|uint64(at)) % 70) }

func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// scripted is a decoder's sequence of the target.
type scripted struct {
	*shared.Session
	decoder int
}

func (s scripted) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	l, err := s.Session.Eval(ctx, tokens, parents, want)
	time.Sleep(time.Duration(s.decoder + 1))
	return l, err
}

// guess is a decoder's sequence of the draft model: it predicts the decoder's text as often as it is to, and knows
// how often.
type guess struct {
	scripted
	accepted float64
	row      []float32
}

func (s *guess) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	l, err := s.scripted.Eval(ctx, tokens, parents, want)
	if err != nil || want == engine.None {
		return l, err
	}
	at := s.Len()
	id := written(s.decoder, at)
	if float64(mixed(uint64(s.decoder+1)<<40|uint64(at))>>11)/(1<<53) >= s.accepted {
		id = (id + 1) % int32(l.Vocab)
	}
	q := max(s.accepted*s.accepted, 0.03)
	if s.row == nil {
		s.row = make([]float32, l.Vocab)
	}
	for i := range s.row {
		s.row[i] = float32(math.Log((1 - q) / float64(l.Vocab-1)))
	}
	s.row[id] = float32(math.Log(q))
	return engine.Logits{Vocab: l.Vocab, Data: s.row}, nil
}

// known verifies against a decoder's text.
type known int

func (known) Start(speculative.Setup) error { return nil }
func (known) NeedsProbs() bool              { return false }
func (k known) Verify(v *speculative.Verification) {
	for node, at := -1, len(v.Sequence); ; at++ {
		v.Next = written(int(k), at)
		if node = v.Draft.Child(node, v.Next); node < 0 {
			return
		}
		v.Path = append(v.Path, int32(node))
	}
}

func (l loaded) run(t *testing.T) (r told) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cpu := make(chan bool, 1) // passes of both models run one after the other
		begin := time.Now()
		share := func(m *engine.Model, p passTimes, n uint64) *shared.Scheduler {
			m.Costs(1).Set(nil, true) // another machine
			s := shared.New(m, shared.Options{CacheBytes: -1})
			s.SetPrepare(func(b engine.Batch) time.Duration {
				rows := 0
				for i := range b {
					rows += len(b[i].Tokens)
				}
				n++
				cpu <- true
				took := l.took(p.of(rows), n, time.Since(begin))
				time.Sleep(took)
				<-cpu
				return took
			})
			return s
		}
		targets, drafts := share(l.target, l.cost, 0), share(l.draft, l.step, 1<<32)
		defer targets.Close()
		defer drafts.Close()
		var ready, wait sync.WaitGroup
		ready.Add(l.decoders)
		start, ctx := make(chan bool), context.Background()
		var lock sync.Mutex
		var all, late int
		var experience speculative.Experience
		for i := range l.decoders {
			wait.Go(func() {
				time.Sleep(time.Duration(i + 1))
				a, err1 := targets.NewSession(context.Background(),
					shared.SessionOptions{SessionOptions: engine.SessionOptions{Layers: 1}})
				b, err2 := drafts.NewSession(context.Background(),
					shared.SessionOptions{SessionOptions: engine.SessionOptions{Layers: 1}})
				if err1 != nil || err2 != nil {
					t.Error(err1, err2)
					ready.Done()
					return
				}
				defer a.Close()
				defer b.Close()
				o := speculative.Options{Verifier: known(i), Experience: &experience}
				var d speculative.Drafter
				if l.schedule != nil {
					g := &guess{scripted: scripted{b, i}, accepted: l.accepted}
					if d, o.Schedule = speculative.Model(g), l.schedule(); l.tree {
						d = speculative.Tree(g, speculative.TreeOptions{Sources: []speculative.CandidateSource{}})
					}
				}
				prompt := make([]int32, max(l.prompt, 3))
				for at := range prompt {
					prompt[at] = written(i, at)
				}
				if l.prompt > 0 {
					for range speculative.New(scripted{a, i}, nil, speculative.Options{Verifier: known(i), MaxTokens: 1}).Generate(ctx,
						prompt, engine.Sampling{}) {
					}
				}
				ready.Done()
				<-start
				time.Sleep(time.Duration(i + 1))
				at := len(prompt)
				for tok, err := range speculative.New(scripted{a, i}, d, o).Generate(ctx, prompt, engine.Sampling{}) {
					if err != nil {
						break // the time is over
					}
					if tok.ID != written(i, at) {
						t.Errorf("token %d of decoder %d is %d", at, i, tok.ID)
					}
					at++
					lock.Lock()
					if all++; time.Since(begin) > l.length/4 {
						late++
					}
					lock.Unlock()
				}
			})
		}
		ready.Wait()
		begin = time.Now()
		before := targets.Stats()
		ctx, cancel := context.WithDeadline(ctx, begin.Add(l.length))
		defer cancel()
		close(start)
		wait.Wait()
		st := targets.Stats()
		st.Passes, st.Tokens, st.PromptTokens, st.Segments = st.Passes-before.Passes, st.Tokens-before.Tokens,
			st.PromptTokens-before.PromptTokens, st.Segments-before.Segments
		r = told{float64(all) / l.length.Seconds(), float64(late) / (l.length * 3 / 4).Seconds(),
			float64(st.Tokens-st.PromptTokens) / float64(st.Passes), float64(st.Segments) / float64(st.Passes),
			drafts.Stats().PassTime.Seconds() / l.length.Seconds()}
	})
	return r
}

// Auto under load, in virtual time: at every load, with cheap and expensive drafts, passes whose time rises with each
// row, in steps or hardly, and drafts that are seldom right or nearly always, all decoders together have 0.97 of the
// tokens per second that they have without drafts, from the first round on. At low load, where drafts are worth the
// most, they have nearly those of the best constant length, which was chosen with hindsight.
func TestAutoUnderScriptedLoad(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1}) // without workers, which do not belong to the bubble
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	l := loaded{draft: shared.SmallModel(t, rt, 2)}
	large, double := shared.SmallModel(t, rt, 100), shared.SmallModel(t, rt, 4)
	steps, flat, linear := avx512, passTimes{{1, 18}, {512, 36}}, passTimes{{1, 10}, {256, 2000}}
	cheap, expensive := passTimes{{1, 0.4}, {8, 0.5}, {256, 5}}, passTimes{{1, 9}, {8, 10}, {256, 200}}
	loads, chances, lengths := []int{1, 2, 4, 8, 16, 32}, []float64{0.1, 0.3, 0.5, 0.8, 0.95},
		[]int{-1, 1, 2, 3, 4, 5, 7, 11, 15, 23, 31}
	if !testkit.IsLong(t) {
		loads, chances, lengths = []int{1, 8}, []float64{0.1, 0.5, 0.95}, []int{-1, 2, 5, 11}
	}
	rounds := time.Duration(400)
	if !testkit.IsLong(t) {
		rounds = 160
	}
	for _, c := range []struct {
		name       string
		cost, step passTimes
		// least share of the best constant length's tokens per second, of 1 and 2 decoders, in the mean over acceptances
		best [2]float64
	}{
		{"steps, cheap drafts", steps, cheap, [2]float64{0.98, 0.97}},
		{"flat, cheap drafts", flat, cheap, [2]float64{0.98, 0.97}},
		{"linear, cheap drafts", linear, cheap, [2]float64{0.98, 0.98}},
		{"steps, expensive drafts", steps, expensive, [2]float64{0.98, 0.96}},
		{"flat, expensive drafts", flat, expensive, [2]float64{0.98, 0.96}},
		{"linear, expensive drafts", linear, passTimes{{1, 5}, {256, 1000}}, [2]float64{0.98, 0.98}},
	} {
		if strings.Contains(c.name, "expensive") && !strings.HasPrefix(c.name, "steps") && !testkit.IsLong(t) {
			continue // what drafts and what rows cost have each had their extremes
		}
		if l.target = large; strings.Contains(c.name, "expensive") {
			l.target = double
		}
		for _, l.decoders = range loads {
			l.cost, l.step, l.length = c.cost, c.step, rounds*c.cost.of(l.decoders)
			l.schedule = nil
			plain := l.run(t)
			var line strings.Builder
			sum := 0.0
			for _, l.accepted = range chances {
				l.schedule = func() speculative.Schedule { return speculative.Auto(speculative.AutoOptions{}) }
				r := l.run(t)
				fmt.Fprintf(&line, "  %.2f: %.3f", l.accepted, r.all/plain.all)
				if r.all < 0.97*plain.all || r.late < 0.97*plain.late {
					t.Errorf("%s, %d decoders, acceptance %.2f: %.3f of the tokens per second without drafts, %.3f after the first "+
						"quarter (%+v)", c.name, l.decoders, l.accepted, r.all/plain.all, r.late/plain.late, r)
				}
				if l.decoders > 2 {
					continue
				}
				best, at := 0.0, 0
				for _, k := range lengths {
					l.schedule = func() speculative.Schedule {
						return speculative.Constant(speculative.ConstantOptions{Length: k})
					}
					c := l.run(t)
					if c.all > best {
						best, at = c.all, max(k, 0)
					} else if 1.1*c.all < best && !testkit.IsLong(t) {
						break // longer ones are slower still
					}
				}
				sum += r.all / best / float64(len(chances))
				fmt.Fprintf(&line, " (%.3f of length %d)", r.all/best, at)
			}
			t.Logf("%-24s %2d decoders, times plain by acceptance:%s", c.name, l.decoders, &line)
			if l.decoders <= 2 && sum < c.best[l.decoders-1] {
				t.Errorf("%s, %d decoders: %.3f of the best constant lengths' tokens per second", c.name, l.decoders, sum)
			}
		}
	}
}

// Where a pass with drafts of 8 decoders takes 1.57 times a plain one and brings 1.5 times its tokens, estimates of
// noisy passes may err by more than that: what a plain pass takes is measured again, so that drafts end.
func TestAutoDoubtsSmallGains(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	l := loaded{target: shared.SmallModel(t, rt, 100), draft: shared.SmallModel(t, rt, 2), decoders: 8, accepted: 0.5,
		prompt: 60, noise: 0.1, step: passTimes{{1, 0.4}, {8, 0.5}, {256, 5}}, cost: avx512}
	l.length = 256 * l.cost.of(l.decoders)
	plain := l.run(t)
	l.schedule = func() speculative.Schedule { return speculative.Auto(speculative.AutoOptions{}) }
	if gain := l.run(t).all / plain.all; gain < 0.97 {
		t.Errorf("%.3f of the tokens without drafts", gain)
	}
}

// TestLongAutoUnderScriptedLoad: at six loads, five acceptances, against ten lengths, with two more pairs of costs.
func TestLongAutoUnderScriptedLoad(t *testing.T) {
	testkit.Long(t)
	TestAutoUnderScriptedLoad(t)
}

// Where a pass of twice as many rows is cheap, though its time rises in a step with the first row more, eight decoders
// gain at least a tenth where drafts are accepted, and lose next to nothing where they are not.
func TestAutoFillsCheapRows(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1}) // without workers, which do not belong to the bubble
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	l := loaded{draft: shared.SmallModel(t, rt, 2), target: shared.SmallModel(t, rt, 100), decoders: 8,
		cost: passTimes{{1, 18}, {8, 20.2}, {9, 23.1}, {12, 25}, {16, 28}, {24, 42}, {32, 55}, {512, 820}},
		step: passTimes{{1, 0.4}, {8, 0.5}, {256, 5}}}
	l.length = 200 * l.cost.of(l.decoders)
	plain := l.run(t)
	l.schedule = func() speculative.Schedule { return speculative.Auto(speculative.AutoOptions{}) }
	for _, x := range [][2]float64{{0.3, 0.98}, {0.6, 1.1}, {0.8, 1.23}} {
		l.accepted = x[0]
		if r := l.run(t); r.all < x[1]*plain.all {
			t.Errorf("acceptance %.1f: %.3f of the tokens per second without drafts, want %.2f (%+v)", l.accepted,
				r.all/plain.all, x[1], r)
		}
	}
}
