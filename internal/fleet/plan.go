package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/specgo/spec/internal/units"
)

// Bounds are what 95 of 100 requests have to stay within, in seconds; 0: no bound.
type Bounds struct {
	First  float64 `json:"first_token_p95_seconds,omitempty"` // after the request's arrival
	Answer float64 `json:"answer_p95_seconds,omitempty"`      // likewise: until its last token
}

// Question is what [Plan] answers.
type Question struct {
	Costs  Costs
	Load   Load    // Rate is that of the whole fleet; 0: only one machine is of interest
	Bounds Bounds  // one at least where there is a Rate
	Places int     // answers at once of a machine; 0: whatever needs the fewest machines
	Cores  int     // of a machine
	Price  float64 // of a core's hour; 0: not known
	Seed   uint64  // of the arrivals
}

// Use is a machine under a load.
type Use struct {
	Rate        float64 `json:"requests_per_second"`
	Share       float64 `json:"share_of_capacity"`
	FirstMedian float64 `json:"first_token_median_seconds"`
	First       float64 `json:"first_token_p95_seconds"`
	Median      float64 `json:"answer_median_seconds"`
	Answer      float64 `json:"answer_p95_seconds"`
}

// Prediction is what a fleet does and costs.
type Prediction struct {
	Prompt   float64 `json:"prompt_tokens"` // the mean, as those of the simulated requests are
	Reply    float64 `json:"answer_tokens"` // likewise
	Spread   float64 `json:"spread"`
	Places   int     `json:"parallel"`
	Cores    int     `json:"cores_per_machine"`
	Capacity float64 `json:"capacity_requests_per_second"` // of a machine that always has requests waiting
	PerCore  float64 `json:"capacity_requests_per_second_per_core"`
	Uses     []Use   `json:"uses" csv:"-"` // of one machine
	Bounds   Bounds  `json:"bounds"`

	Load     float64 `json:"load_requests_per_second,omitempty"`
	Machines int     `json:"n_machines,omitempty"`   // for the load within the bounds
	Each     *Use    `json:"each,omitempty" csv:"-"` // one of them

	Price float64 `json:"core_hour_price,omitempty"`
	// Cost of a million tokens: of the machines for the load, or without one of a machine at its capacity.
	PerAnswers float64 `json:"price_per_million_answer_tokens,omitempty"`
	PerTokens  float64 `json:"price_per_million_tokens,omitempty"` // those of prompts count too
}

// shares are the shares of a machine's capacity that are told.
var shares = []float64{0.25, 0.5, 0.7, 0.8, 0.9}

const (
	mostRequests  = 10_000  // of a simulation
	leastRequests = 2_000   // likewise, however long prompts are
	promptTokens  = 1 << 23 // of a simulation, about: each chunk of a prompt is a pass
	warm          = 0.1     // of the requests at its beginning, which meet fewer others, do not count
	idle          = 1e-4    // of the capacity: requests meet no others
	mostMachines  = 1 << 20
)

// ErrBounds is wrapped by the error about bounds that no number of machines meets.
var ErrBounds = errors.New("no number of machines is enough")

// Plan predicts. The load is spread over the machines at random, so that each has arrivals by a Poisson process; a
// balancer that looks at queues does better.
func Plan(ctx context.Context, q Question) (p Prediction, err error) {
	all := q.Load
	if all.Rate == 0 {
		all.Rate = math.Inf(1)
	}
	switch err := all.check(); {
	case err != nil:
		return p, err
	case q.Load.Rate > 0 && q.Bounds == Bounds{}:
		return p, errors.New("a load without a bound of the time to the first token or to the last")
	case q.Cores < 1:
		return p, fmt.Errorf("%d cores", q.Cores)
	}
	places := []int{q.Places}
	if q.Places == 0 {
		places = places[:0]
		for _, x := range q.Costs.Rows {
			places = append(places, x.N)
		}
	}
	var failed error
	for _, n := range places {
		one, err := q.plan(ctx, n)
		switch {
		case errors.Is(err, ErrBounds):
			failed = err
		case err != nil:
			return p, err
		case p.Places == 0 || q.better(one, p):
			p = one
		}
	}
	if p.Places == 0 {
		return p, failed
	}
	return p, nil
}

// better reports whether a needs fewer machines than b, or does more with one where no load is given.
func (q *Question) better(a, b Prediction) bool {
	if q.Load.Rate > 0 {
		return a.Machines < b.Machines
	}
	return a.Capacity > b.Capacity
}

// plan is Plan of machines with so many places.
func (q *Question) plan(ctx context.Context, places int) (Prediction, error) {
	m := Machine{Costs: q.Costs, Places: places}
	s := simulation{m, q.Load, q.Seed, requests(q.Load.Prompt.Mean)}
	p := Prediction{Spread: q.Load.Answer.Spread, Places: places, Cores: q.Cores, Bounds: q.Bounds,
		Load: q.Load.Rate, Price: q.Price}
	var err error
	if p.Capacity, err = s.capacity(ctx); err != nil {
		return p, err
	}
	p.PerCore = p.Capacity / float64(q.Cores)
	for _, r := range (Load{1, q.Load.Prompt, q.Load.Answer}).Requests(s.n, s.seed) {
		p.Prompt += float64(r.Prompt)
		p.Reply += float64(r.Answer)
	}
	p.Prompt, p.Reply = p.Prompt/float64(s.n), p.Reply/float64(s.n)
	for _, share := range shares {
		u, err := s.use(ctx, share*p.Capacity, p.Capacity)
		if err != nil {
			return p, err
		}
		p.Uses = append(p.Uses, u)
	}
	rate, machines := p.Capacity, 1.0
	if q.Load.Rate > 0 {
		if err := q.machines(ctx, s, &p); err != nil {
			return p, err
		}
		rate, machines = q.Load.Rate, float64(p.Machines)
	}
	each := machines * float64(q.Cores) * q.Price / 3600 / rate // of a request
	const million = 1e6
	p.PerAnswers, p.PerTokens = million*each/p.Reply, million*each/(p.Prompt+p.Reply)
	return p, nil
}

// requests is how many are simulated.
func requests(prompt float64) int {
	return int(max(leastRequests, min(mostRequests, promptTokens/prompt)))
}

// machines finds the fewest machines for the load within the bounds.
func (q *Question) machines(ctx context.Context, s simulation, p *Prediction) error {
	within := func(u Use) bool {
		b := q.Bounds
		return u.Share < 1 && (b.First == 0 || u.First <= b.First) && (b.Answer == 0 || u.Answer <= b.Answer)
	}
	alone, err := s.use(ctx, idle*p.Capacity, p.Capacity)
	if err != nil {
		return err
	}
	if !within(alone) {
		return fmt.Errorf("%w: of requests that a machine has for itself, 5 in 100 take more than %s s to the first "+
			"token, and more than %s s to the last", ErrBounds, units.Number(alone.First, 3), units.Number(alone.Answer, 3))
	}
	enough := func(n int) (bool, error) {
		u, err := s.use(ctx, q.Load.Rate/float64(n), p.Capacity)
		if err == nil && within(u) {
			p.Machines, p.Each = n, &u
			return true, nil
		}
		return false, err
	}
	least := q.Load.Rate / p.Capacity // more are needed
	if !(least < mostMachines) {
		return fmt.Errorf("%s requests per second: more than %d machines, each of at most %s",
			units.Number(q.Load.Rate, 3), mostMachines, units.Number(p.Capacity, 3))
	}
	few := int(least) // not enough
	for step := 1; ; step *= 2 {
		many := few + step
		ok, err := enough(many)
		if err != nil {
			return err
		}
		if !ok && many < mostMachines {
			few = many
			continue
		}
		if !ok {
			return fmt.Errorf("%w: more than %d machines", ErrBounds, mostMachines)
		}
		for few+1 < many {
			middle := few + (many-few)/2
			if ok, err = enough(middle); err != nil {
				return err
			} else if ok {
				many = middle
			} else {
				few = middle
			}
		}
		return nil
	}
}

// simulation is a machine and what it is asked.
type simulation struct {
	m    Machine
	load Load
	seed uint64
	n    int // requests
}

// capacity is the requests per second of a machine that always has others waiting.
func (s *simulation) capacity(ctx context.Context) (float64, error) {
	s.load.Rate = math.Inf(1)
	all := s.load.Requests(s.n, s.seed)
	out, err := s.m.Run(ctx, all)
	if err != nil {
		return 0, err
	}
	if out.Answered == 0 { // as many places as requests
		return float64(s.n) / out.Seconds, nil
	}
	return float64(out.Answered) / out.Queued, nil
}

// use is a machine that is asked at a rate.
func (s simulation) use(ctx context.Context, rate, capacity float64) (u Use, err error) {
	s.load.Rate = rate
	out, err := s.m.Run(ctx, s.load.Requests(s.n, s.seed))
	if err != nil {
		return u, err
	}
	first, last := out.Sorted(int(warm * float64(s.n)))
	return Use{Rate: rate, Share: rate / capacity, FirstMedian: Quantile(first, 0.5), First: Quantile(first, 0.95),
		Median: Quantile(last, 0.5), Answer: Quantile(last, 0.95)}, nil
}

// Sorted are the seconds to the first tokens and to the last ones, ascending, without the first requests.
func (o *Outcome) Sorted(without int) (first, last []float64) {
	for _, t := range o.Times[without:] {
		first, last = append(first, t.First), append(last, t.Answer)
	}
	slices.Sort(first)
	slices.Sort(last)
	return first, last
}

// Quantile is the least of the sorted numbers that at least a share of them does not exceed.
func Quantile(sorted []float64, share float64) float64 {
	i := int(math.Ceil(float64(share*float64(len(sorted))))) - 1
	return sorted[max(0, min(i, len(sorted)-1))]
}
