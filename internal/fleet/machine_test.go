package fleet

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/internal/bench"
)

// made up: 10 ms for one sequence, 2 ms for each further one, prompts ten times as fast
var costs = Costs{Rows: []Point{{1, 0.010}, {2, 0.012}, {16, 0.040}}, Prompts: []Point{{128, 0.001}}}

func fixed(prompt, answer float64) Load {
	return Load{1, Lengths{prompt, 0, 1 << 20}, Lengths{answer, 0, 1 << 20}}
}

func answered(t *testing.T, m Machine, all []Request) Outcome {
	t.Helper()
	o, err := m.Run(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s: %v, want %v within %v of it", what, got, want, tolerance)
	}
}

// A machine of one place with requests of one length is a queue M/D/1: waiting times by Pollaczek and Khinchine (the
// mean) and by Crommelin (the distribution). 150,000 requests estimate them within 3 % at these loads.
func TestOnePlaceIsTheQueueMD1(t *testing.T) {
	c := costs
	c.Position = 1e-6
	const prompt, answer = 301, 20
	service := 300 * 0.001
	for i := range answer {
		service += 0.010 + 1e-6*float64(300+i)
	}
	for _, use := range []float64{0.3, 0.7} {
		load := fixed(prompt, answer)
		load.Rate = use / service
		o := answered(t, Machine{Costs: c, Places: 1}, load.Requests(150_000, 7))
		_, last := o.Sorted(0)
		sum := 0.0
		for _, x := range last {
			sum += x - service
		}
		near(t, "mean wait", sum/float64(len(last)), use*service/(2*(1-use)), 0.03)
		near(t, "share of the time in passes", o.Busy/o.Seconds, use, 0.01)
		wait := func(at float64) (share float64) { // the share that waits no longer
			term := 1.0
			for j := 0; float64(j)*service <= at; j++ {
				x := load.Rate * (float64(j)*service - at)
				if term = 1; j > 0 {
					lg, _ := math.Lgamma(float64(j + 1))
					term = math.Pow(math.Abs(x), float64(j)) / math.Exp(lg)
					if j%2 == 1 && x < 0 {
						term = -term
					}
				}
				share += (1 - use) * term * math.Exp(-x)
			}
			return share
		}
		for _, share := range []float64{0.9, 0.95, 0.99} {
			near(t, "share that waits no longer", wait(Quantile(last, share)-service), share, 0.004)
		}
	}
}

// Without others a request takes its prompt's time and its passes'; all places taken, each answer has a pass's time for
// each token and the prompts' time is everyone's.
func TestCapacityByHand(t *testing.T) {
	o := answered(t, Machine{Costs: costs, Places: 16}, fixed(101, 50).Requests(1, 1))
	near(t, "first token", o.Times[0].First, 100*0.001+0.010, 1e-9)
	near(t, "answer", o.Times[0].Answer, 100*0.001+50*0.010, 1e-9)
	s := simulation{Machine{Costs: costs, Places: 16}, fixed(101, 50), 1, 4000}
	s.load.Answer.Spread = 1 // so that they do not end together
	got, err := s.capacity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mean := 0.0
	for _, r := range s.load.Requests(s.n, s.seed) {
		mean += float64(r.Answer) / float64(s.n)
	}
	// 5 %: a place has no row while its prompt is computed.
	near(t, "capacity", got, 1/(100*0.001+mean*0.040/16), 0.05)
}

// Passes that are made at once take what each of them takes, and begin and end with the same requests.
func TestStretchesAreItsPasses(t *testing.T) {
	load := Load{6, Lengths{40, 1, 500}, Lengths{30, 1, 500}}
	c := costs
	c.Position = 2e-6
	all := load.Requests(3000, 3)
	m := Machine{Costs: c, Places: 8}
	whole := answered(t, m, all)
	step := singly(&m, all)
	for i := range all {
		if math.Abs(whole.Times[i].First-step[i].First) > 1e-6 || math.Abs(whole.Times[i].Answer-step[i].Answer) > 1e-6 {
			t.Fatalf("request %d: %+v, by single passes %+v", i, whole.Times[i], step[i])
		}
	}
}

// singly is Run without stretches.
func singly(m *Machine, all []Request) []Times {
	r := run{m: m, requests: all, out: Outcome{Times: make([]Times, len(all))}}
	for r.next < len(all) || len(r.active) > 0 {
		if r.admit(); len(r.active) == 0 {
			r.now = all[r.next].At
			continue
		}
		r.pass()
	}
	return r.out.Times
}

// The fewest machines: one less breaks a bound. Bounds that a request alone breaks are refused, and what cannot be.
func TestPlanIsTheFewestMachines(t *testing.T) {
	own := costs
	own.Rows = []Point{{1, 0.010}, {16, 0.040}}
	q := Question{Costs: own, Load: Load{40, Lengths{200, 0.5, 4096}, Lengths{60, 1, 4096}},
		Bounds: Bounds{First: 1, Answer: 6}, Cores: 4, Price: 0.05, Seed: 5}
	p, err := Plan(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	s := simulation{Machine{Costs: own, Places: p.Places}, q.Load, q.Seed, requests(200)}
	for n, want := range map[int]bool{p.Machines: true, p.Machines - 1: false} {
		u, err := s.use(t.Context(), 40/float64(n), p.Capacity)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.First <= 1 && u.Answer <= 6 && u.Share < 1; got != want {
			t.Errorf("%d machines: %+v", n, u)
		}
	}
	near(t, "price", p.PerAnswers, 1e6*float64(p.Machines)*4*0.05/3600/40/p.Reply, 1e-9)
	near(t, "price of all tokens", p.PerTokens, p.PerAnswers*p.Reply/(p.Prompt+p.Reply), 1e-9)
	near(t, "mean prompt", p.Prompt, 200, 0.02)
	near(t, "mean answer", p.Reply, 60, 0.03)
	if p.Places != 16 { // those with fewer need more
		t.Errorf("%d places", p.Places)
	}
	loose := q
	loose.Places, loose.Bounds = 16, Bounds{Answer: 1e6} // as many as keep up
	if x, err := Plan(t.Context(), loose); err != nil || x.Machines != int(40/x.Capacity)+1 {
		t.Errorf("%d machines of %v each keep up, %v", x.Machines, x.Capacity, err)
	}
	tight := q
	tight.Places = 2
	tight.Bounds.Answer = 0.3
	if _, err := Plan(t.Context(), tight); !errors.Is(err, ErrBounds) {
		t.Errorf("a bound that requests alone break: %v", err)
	}
	for name, x := range map[string]func(*Question){
		"no bound": func(q *Question) { q.Bounds = Bounds{} }, "places": func(q *Question) { q.Places = 17 },
		"prompt": func(q *Question) { q.Load.Prompt.Mean = 0 }, "answer": func(q *Question) { q.Load.Answer.Mean = 5000 },
		"rate": func(q *Question) { q.Load.Rate = -1 }, "spread": func(q *Question) { q.Load.Answer.Spread = math.NaN() },
		"cores": func(q *Question) { q.Cores = 0 }, "machines": func(q *Question) { q.Load.Rate = 1e9 },
	} {
		bad := q
		bad.Places = 1
		if x(&bad); func() error { _, err := Plan(t.Context(), bad); return err }() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Plan(ctx, q); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Figures are read whatever their order is, and interpolated; rows that cannot be and files without the rows are
// refused.
func TestRead(t *testing.T) {
	rows := []bench.Row{
		{Kind: "batch", Tokens: 16, Context: 8, PassSeconds: 0.04}, {Kind: "decode", Tokens: 1, PassSeconds: 0.01},
		{Kind: "decode", Tokens: 1, Context: 1000, PassSeconds: 0.012}, {Kind: "prefill", Tokens: 512, PassSeconds: 0.5},
		{Kind: "batch", Tokens: 1, Context: 8, PassSeconds: 0.01}, {Kind: "prefill", Tokens: 128, PassSeconds: 0.256},
		{Kind: "batch", Tokens: 8, Context: 8, PassSeconds: 0.05}, {Kind: "verify", Tokens: 4, PassSeconds: 0.02},
	}
	c, err := Read(rows)
	if err != nil {
		t.Fatal(err)
	}
	if c.Most() != 16 || !slices.Equal(c.Rows, []Point{{1, 0.01}, {8, 0.05}, {16, 0.05}}) {
		t.Errorf("%+v", c.Rows)
	}
	for got, want := range map[float64]float64{
		c.Pass(0, 0): 0, c.Pass(1, 0): 0.01, c.Pass(2, 500): 0.01 + 0.04/7 + 0.001, c.Pass(99, 0): 0.05,
		c.Prompt(1): 0.002, c.Prompt(320): 0.002 - 0.5*(0.002-0.5/512), c.Prompt(9999): 0.5 / 512,
	} {
		near(t, "seconds", got, want, 1e-9)
	}
	for _, bad := range [][]bench.Row{nil, rows[:1], rows[3:4],
		append(slices.Clone(rows), bench.Row{Kind: "batch", Tokens: 2, PassSeconds: math.NaN()}),
		append(slices.Clone(rows), bench.Row{Kind: "batch", Tokens: 0, PassSeconds: 1})} {
		if _, err := Read(bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// Requests of a seed are the same at any rate but for their times, and have the asked means and spread.
func TestRequests(t *testing.T) {
	load := Load{2, Lengths{100, 0, 1000}, Lengths{80, 0.8, 1 << 20}}
	a := load.Requests(50_000, 9)
	load.Rate = 4
	b := load.Requests(50_000, 9)
	sum, squares := 0.0, 0.0
	for i := range a {
		if math.Abs(a[i].At-2*b[i].At) > 1e-9*a[i].At || a[i].Prompt != 100 || a[i].Answer != b[i].Answer {
			t.Fatalf("%+v and %+v", a[i], b[i])
		}
		sum += float64(a[i].Answer)
		squares += float64(a[i].Answer) * float64(a[i].Answer)
	}
	n := float64(len(a))
	near(t, "mean", sum/n, 80, 0.02)
	near(t, "spread", math.Sqrt(squares/n-sum*sum/n/n)/(sum/n), 0.8, 0.03)
	near(t, "rate", n/a[len(a)-1].At, 2, 0.02)
}
