package speculative

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/internal/strictjson"
)

// ErrState is returned for a saved state that does not fit the decoder, or is none.
var ErrState = errors.New("saved state")

// pairs are rates as [hits, trials], one after the other.
type pairs [][2]float64

func (p *pairs) add(rates ...rate) {
	for _, r := range rates {
		*p = append(*p, [2]float64{r.hits, r.trials})
	}
}

// take sets rates from the pairs, in the order of add.
func (p *pairs) take(rates ...*rate) error {
	if len(*p) < len(rates) {
		return fmt.Errorf("%w: too few rates", ErrState)
	}
	for i, r := range rates {
		x := (*p)[i]
		if !(x[0] >= 0 && x[0] <= x[1]+1e-9 && x[1] <= 1/(1-rateKeep)+promiseWeight) {
			return fmt.Errorf("%w: %v of %v successes", ErrState, x[0], x[1])
		}
		*r = rate{x[0], x[1]}
	}
	*p = (*p)[len(rates):]
	return nil
}

// autoState is what auto learned.
type autoState struct {
	Lengths []lengthState `json:"lengths"`
	First   []float64     `json:"first_seconds"` // of draft steps, by lane
	Next    []float64     `json:"next_seconds"`
	Rates   pairs         `json:"rates"`
}

type lengthState struct {
	Drafted int     `json:"drafted"`
	Seconds float64 `json:"seconds"`
	Passes  int     `json:"passes"`
}

// rates lists all rates of the acceptance model.
func (l *laneAcceptance) rates() (all []*rate) {
	all = []*rate{&l.lead, &l.follow, &l.ratio, &l.all, &l.promised}
	for i := range l.bins {
		all = append(all, &l.bins[i])
	}
	for i := range l.deepBins {
		for j := range l.deepBins[i] {
			all = append(all, &l.deepBins[i][j])
		}
	}
	return all
}

func (a *auto) Save() ([]byte, error) {
	s := autoState{First: []float64{}, Next: []float64{}}
	for _, t := range a.costs.Times() {
		s.Lengths = append(s.Lengths, lengthState{t.Rows - 1, t.Seconds, min(t.Passes, savedPasses)})
	}
	for lane := range a.lanes {
		s.First, s.Next = append(s.First, a.steps.first(lane)), append(s.Next, a.steps.further(lane))
		for _, r := range a.acceptance.lanes[lane].rates() {
			s.Rates.add(*r)
		}
	}
	return json.Marshal(s)
}

// savedPasses is the most measurements that a saved length counts as: another process may find another speed.
const savedPasses = 8

func (a *auto) Restore(state []byte) error {
	var s autoState
	if err := strictjson.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if len(s.First) != len(s.Next) || len(s.First) == 0 || len(s.First) > maxLanes {
		return fmt.Errorf("%w: draft steps of %d and %d drafters", ErrState, len(s.First), len(s.Next))
	}
	b := Auto(AutoOptions{}).(*auto)
	var times []costs.Time
	for _, l := range s.Lengths {
		if l.Drafted < 0 || l.Drafted >= maxVerify || l.Passes <= 0 || !(l.Seconds > 0) || math.IsInf(l.Seconds, 1) {
			return fmt.Errorf("%w: a pass of %d drafted tokens in %v s", ErrState, l.Drafted, l.Seconds)
		}
		times = append(times, costs.Time{Rows: l.Drafted + 1, Seconds: l.Seconds, Passes: min(l.Passes, savedPasses)})
	}
	for lane := range s.First {
		if !(s.First[lane] >= 0 && s.Next[lane] >= 0) || math.IsInf(s.First[lane]+s.Next[lane], 1) {
			return fmt.Errorf("%w: draft steps of %v and %v s", ErrState, s.First[lane], s.Next[lane])
		}
		b.steps.lead[lane], b.steps.follow[lane] = timing{s.First[lane], stepMeasured}, timing{s.Next[lane], stepMeasured}
		if err := s.Rates.take(b.acceptance.lanes[lane].rates()...); err != nil {
			return err
		}
	}
	if len(s.Rates) > 0 {
		return fmt.Errorf("%w: %d rates too many", ErrState, len(s.Rates))
	}
	b.init(times, false) // the machine may be another
	b.lanes, b.now = len(s.First), a.now
	*a = *b
	return nil
}

// rates lists what a tree learned, except times.
func (t *tree) rates() (all []*rate) {
	all = []*rate{&t.first}
	for i := range t.right {
		for j := range t.right[i] {
			all = append(all, &t.right[i][j])
		}
	}
	for i := range t.sourceRight {
		all = append(all, &t.sourceRight[i])
	}
	for i := range t.mixWeight {
		all = append(all, &t.mixWeight[i])
	}
	for i := range t.accepted {
		for j := range t.accepted[i] {
			for k := range t.accepted[i][j] {
				all = append(all, &t.accepted[i][j][k])
			}
		}
	}
	return all
}

func (t *tree) Save() ([]byte, error)      { return saveRates(t.rates()) }
func (t *tree) Restore(state []byte) error { return restoreRates(t.rates(), state) }

// rates lists what a lookup learned.
func (m *matches) rates() (all []*rate) {
	for i := range m.right {
		all = append(all, &m.right[i])
	}
	return all
}

// Save and Restore are those of lookups.
func (m *matches) Save() ([]byte, error)      { return saveRates(m.rates()) }
func (m *matches) Restore(state []byte) error { return restoreRates(m.rates(), state) }

func saveRates(rates []*rate) ([]byte, error) {
	var p pairs
	for _, r := range rates {
		p.add(*r)
	}
	return json.Marshal(p)
}

// restoreRates sets rates if the state fits them.
func restoreRates(rates []*rate, state []byte) error {
	var p pairs
	if err := strictjson.Unmarshal(state, &p); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if len(p) != len(rates) {
		return fmt.Errorf("%w: %d rates of a drafter, want %d", ErrState, len(p), len(rates))
	}
	checked, list := make([]rate, len(rates)), make([]*rate, len(rates))
	for i := range checked {
		list[i] = &checked[i]
	}
	if err := p.take(list...); err != nil {
		return err
	}
	for i := range rates {
		*rates[i] = checked[i]
	}
	return nil
}

func (m *merge) Save() ([]byte, error) {
	all := make([]json.RawMessage, len(m.drafters))
	for i, d := range m.drafters {
		all[i] = json.RawMessage("null")
		if l, ok := d.(Learning); ok {
			state, err := l.Save()
			if err != nil {
				return nil, err
			}
			all[i] = state
		}
	}
	return json.Marshal(all)
}

func (m *merge) Restore(state []byte) error {
	var all []json.RawMessage
	if err := strictjson.Unmarshal(state, &all); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if len(all) != len(m.drafters) {
		return fmt.Errorf("%w: of %d merged drafters, here are %d", ErrState, len(all), len(m.drafters))
	}
	for i, d := range m.drafters {
		if l, ok := d.(Learning); ok && string(all[i]) != "null" {
			if err := l.Restore(all[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
