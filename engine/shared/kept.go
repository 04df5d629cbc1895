package shared

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// Kept bounds what several schedulers keep of finished sequences together, as those of all models of a server. What is
// worth least among all of it goes first; see [Options].Work. A nil Kept bounds nothing.
type Kept struct {
	budget  int64
	floor   floor
	mu      sync.Mutex // guards members; taken before a scheduler's own, never after it
	members []*Scheduler
}

// NewKept is a bound of so many bytes.
func NewKept(bytes int64) *Kept { return &Kept{budget: bytes} }

func (k *Kept) join(c *Scheduler) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.members = append(k.members, c)
}

func (k *Kept) leave(c *Scheduler) {
	if k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.members = slices.DeleteFunc(k.members, func(o *Scheduler) bool { return o == c })
	}
}

// settle gives up what is worth least until all is within the budget. The caller has no scheduler's lock.
func (k *Kept) settle() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.bytes() > k.budget {
		least, from := math.Inf(1), (*Scheduler)(nil)
		for _, c := range k.members {
			if w := c.leastKept(); w < least {
				least, from = w, c
			}
		}
		if from == nil {
			return
		}
		from.mu.Lock()
		from.prefixes.evict(nil)
		from.mu.Unlock()
	}
}

func (k *Kept) bytes() (n int64) {
	for _, c := range k.members {
		n += c.prefixes.bytes.Load()
	}
	return n
}

// leastKept is what the sequence that goes next is worth; infinite: none is kept.
func (c *Scheduler) leastKept() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.prefixes.next()
}

// floor is the worth of what went last, which never falls.
type floor struct{ bits atomic.Uint64 }

func (f *floor) worth() float64 { return math.Float64frombits(f.bits.Load()) }

func (f *floor) raise(w float64) {
	for {
		had := f.bits.Load()
		if math.Float64frombits(had) >= w || f.bits.CompareAndSwap(had, math.Float64bits(w)) {
			return
		}
	}
}
