package shared_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// passTimes is the time of a pass by its rows, in milliseconds, linear between the points.
type passTimes [][2]float64

func (p passTimes) of(rows int) time.Duration {
	i := 1
	for i < len(p)-1 && p[i][0] < float64(rows) {
		i++
	}
	a, b := p[i-1], p[i]
	return time.Duration(1e6 * (a[1] + (b[1]-a[1])*(float64(rows)-a[0])/(b[0]-a[0])))
}

// Auto under load, in virtual time, on real texts: decoders of the embedded pair share passes on machines whose
// passes of target and draft take what was measured with a target of 1 B, on one where every row costs as much as a
// pass, and with drafts that take half as long as the target. Drafts cost at most 3 % of the tokens per second
// without them at every load, and are worth much at low load. The first quarter of the time is not counted. Texts are
// the same.
func TestAutoUnderLoad(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1}) // without workers, which do not belong to the bubble
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	open := func(r *strings.Reader) *engine.Model {
		m, err := engine.New(context.Background(), rt, r, r.Size(), engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	target, draft := open(testdata.Target()), open(testdata.Draft())
	var prompts [][]int32
	for _, text := range []string{
		"package main\n\nimport (\n\t\"fmt\"\n",
		"// ReadAll reads from r until an error or EOF and returns the data it read.\nfunc ReadAll(",
		"func (s *Server) Close() error {\n",
		"type Reader struct {\n", "for i := 0; i < len(s); i++ {\n",
		"// A Time represents an instant in time with nanosecond precision.\n", "if err != nil {\n\treturn",
		"func TestParse(t *testing.T) {\n",
	} {
		prompts = append(prompts, target.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true}))
	}
	rounds, loads := 400, []int{1, 2, 4, 8}
	if !testkit.IsLong(t) {
		rounds = 160
	}
	cheap := passTimes{{1, 0.4}, {8, 0.5}, {256, 5}}
	for i, c := range []struct {
		name          string
		target, draft passTimes
		gain          float64 // at least, alone
		least         float64 // share of the tokens per second without drafts, at any load
	}{
		{"fast memory", avx512,
			cheap, 1.3, 0.97},
		{"slow memory", passTimes{{1, 26.2}, {8, 28.3}, {12, 28.5}, {16, 29.5}, {24, 42.4}, {32, 55.6}, {512, 900}}, cheap,
			1.5, 0.97},
		{"expensive rows", passTimes{{1, 10}, {256, 2000}}, cheap, 0.97, 0.97},
		{"expensive drafts", passTimes{{1, 18}, {8, 20.2}, {16, 31.2}, {32, 61.1}, {512, 900}},
			passTimes{{1, 9}, {8, 10}, {256, 200}}, 1.1, 0.97},
	} {
		var want [8][]int32
		run := func(n int, drafts bool) (rate, rows float64) {
			synctest.Test(t, func(t *testing.T) {
				cpu := make(chan bool, 1) // passes of both models run one after the other
				share := func(m *engine.Model, p passTimes) *shared.Scheduler {
					m.Costs(0).Set(nil, true) // another machine
					s := shared.New(m, shared.Options{CacheBytes: -1})
					s.SetPrepare(func(b engine.Batch) time.Duration {
						rows := 0
						for i := range b {
							rows += len(b[i].Tokens)
						}
						cpu <- true
						time.Sleep(p.of(rows))
						<-cpu
						return p.of(rows)
					})
					return s
				}
				a, b := share(target, c.target), share(draft, c.draft)
				defer a.Close()
				defer b.Close()
				begin, length := time.Now(), time.Duration(rounds)*c.target.of(n)
				ctx, cancel := context.WithDeadline(context.Background(), begin.Add(length))
				defer cancel()
				var wait sync.WaitGroup
				var counted atomic.Int64
				var experience speculative.Experience
				for i := range n {
					wait.Go(func() {
						one, err1 := a.NewSession(context.Background(), shared.SessionOptions{})
						two, err2 := b.NewSession(context.Background(), shared.SessionOptions{})
						if err1 != nil || err2 != nil {
							t.Error(err1, err2)
							return
						}
						var d speculative.Drafter
						if drafts {
							d = speculative.Model(two)
						}
						var got []int32
						for tok, err := range speculative.New(one, d, speculative.Options{Experience: &experience}).Generate(ctx,
							prompts[i], engine.Sampling{}) {
							if err != nil {
								break // the time is over
							}
							if got = append(got, tok.ID); time.Since(begin) > length/4 { // afterwards: costs are known
								counted.Add(1)
							}
						}
						k := min(len(got), len(want[i]))
						if !slices.Equal(got[:k], want[i][:k]) {
							t.Errorf("%s, %d decoders, drafts %v: another text", c.name, n, drafts)
						}
						if len(got) > k {
							want[i] = got
						}
					})
				}
				wait.Wait()
				st := a.Stats()
				rate = float64(counted.Load()) / (length * 3 / 4).Seconds()
				rows = float64(st.Tokens-st.PromptTokens) / float64(st.Passes)
			})
			return rate, rows
		}
		var line strings.Builder
		if !testkit.IsLong(t) {
			loads = [][]int{{1, 8}, {1, 2}, {1, 4}, {1, 2}}[i]
		}
		for _, n := range loads {
			plain, _ := run(n, false)
			auto, rows := run(n, true)
			gain := auto / plain
			fmt.Fprintf(&line, "  %d: %.2f (%.1f rows a pass)", n, gain, rows)
			if gain < c.least || n == 1 && gain < c.gain {
				t.Errorf("%s, %d decoders: %.3f of the tokens per second without drafts", c.name, n, gain)
			}
		}
		t.Logf("%-16s times plain by decoders:%s", c.name, &line)
	}
}

// TestLongAutoUnderLoad: for longer, each machine at four loads.
func TestLongAutoUnderLoad(t *testing.T) {
	testkit.Long(t)
	TestAutoUnderLoad(t)
}
