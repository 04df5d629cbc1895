package cluster

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// counts are what a worker has done.
type counts struct {
	inFlight, returned, refused, redelivered, repeated, different, dead, failed atomic.Int64

	queue spent // by places that were free, on their next requests

	mu       sync.Mutex
	statuses map[int]int64 // of answers
}

// spent is time, and of how many parts.
type spent struct{ ns atomic.Int64 }

func (s *spent) add(d time.Duration) { s.ns.Add(int64(d)) }

func (c *counts) answered(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.statuses == nil {
		c.statuses = map[int]int64{}
	}
	c.statuses[status]++
}

// WriteMetrics writes the worker's metrics in Prometheus' text form.
func (w *Worker) WriteMetrics(to io.Writer) {
	c := &w.counts
	family := func(name, kind, help string) { fmt.Fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	family("spec_worker_answers_total", "counter", "Answers that were computed, by status.")
	c.mu.Lock()
	var statuses []int
	for s := range c.statuses {
		statuses = append(statuses, s)
	}
	slices.Sort(statuses)
	for _, s := range statuses {
		fmt.Fprintf(to, "spec_worker_answers_total{status=\"%d\"} %d\n", s, c.statuses[s])
	}
	c.mu.Unlock()
	for _, m := range []struct {
		name, kind, help string
		n                *atomic.Int64
	}{
		{"spec_worker_requests_in_flight", "gauge", "Requests that the worker has.", &c.inFlight},
		{"spec_worker_returned_total", "counter", "Requests that went back to the queue.", &c.returned},
		{"spec_worker_refused_total", "counter", "Requests for another identity, or with another key than their content's.",
			&c.refused},
		{"spec_worker_redelivered_total", "counter", "Requests that had been handed out before.", &c.redelivered},
		{"spec_worker_repeated_total", "counter", "Requests that were found answered, before or behind the work.",
			&c.repeated},
		{"spec_worker_different_total", "counter", "Answers that differ from a stored one. More than 0 is a fault.",
			&c.different},
		{"spec_worker_dead_total", "counter", "Requests that were given up.", &c.dead},
		{"spec_worker_queue_errors_total", "counter", "Operations of the queue that failed.", &c.failed},
	} {
		family(m.name, m.kind, m.help)
		fmt.Fprintf(to, "%s %d\n", m.name, m.n.Load())
	}
	family("spec_worker_queue_seconds_total", "counter", "Time that places were free "+
		"while their next requests were taken and looked up.")
	fmt.Fprintf(to, "spec_worker_queue_seconds_total %g\n", float64(c.queue.ns.Load())/1e9)
}
