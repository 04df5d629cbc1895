package serve

import (
	"cmp"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/specgo/spec"
)

// metrics are counted since the server was made.
type metrics struct {
	panics atomic.Int64

	mu       sync.Mutex
	requests map[requestLabel]int64

	prompt, cached, predicted, drafted, accepted, forced, passes int64
	promptSeconds, predictedSeconds                              float64
	answers                                                      int64 // that have begun
	timed                                                        int64 // of them, those with figures
	answerSeconds                                                float64

	longest int // tokens of a prompt with its answer

	models map[string]*modelMetrics // by name
}

type requestLabel struct {
	path   string
	status int
}

// Bounds of the histograms in seconds.
var (
	firstTokenBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	phaseBounds      = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	perTokenBounds   = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}
)

// histogram counts observations, as Prometheus has it.
type histogram struct {
	counts []int64 // one for each bound, and those beyond
	sum    float64
	n      int64
}

func (h *histogram) observe(bounds []float64, x float64) {
	if h.counts == nil {
		h.counts = make([]int64, len(bounds)+1)
	}
	at, _ := slices.BinarySearch(bounds, x)
	h.counts[at]++
	h.sum += x
	h.n++
}

// otherPath is the label of requests that no pattern is for: a label must not have as many values as clients can think
// of.
const otherPath = "other"

// labelOf is the label of the requests of a pattern: its path.
func labelOf(pattern string) string {
	if pattern == "" {
		return otherPath
	}
	path := pattern[strings.Index(pattern, " ")+1:] // behind the method, if it has one
	return strings.TrimSuffix(path, "{$}")
}

// request counts one by its label; see [Server.route].
func (m *metrics) request(path string, status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.requests == nil {
		m.requests = map[requestLabel]int64{}
	}
	m.requests[requestLabel{path, status}]++
}

// answered counts a request's answers, complete or not. One that has not begun when its client leaves is none, and one
// whose prompt was not read to its end has no figures.
func (m *metrics) answered(r *reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.of(r.m.name)
	for i := range r.answers {
		s := r.figures(i)
		if r.slotOf[i].Load() != nil {
			m.answers++
		}
		if s.TargetPasses == 0 {
			continue
		}
		m.prompt += int64(s.Prompt - s.Reused)
		m.cached += int64(s.Reused)
		m.predicted += int64(s.Generated)
		m.longest = max(m.longest, s.Prompt+s.Generated)
		m.drafted += int64(s.Drafted)
		m.accepted += int64(s.Accepted)
		m.forced += int64(s.ForcedAccepted)
		m.passes += int64(s.TargetPasses)
		m.promptSeconds += s.Prefill
		m.predictedSeconds += s.Total - s.Prefill
		m.timed++
		m.answerSeconds += s.Total
		x.add(s)
	}
	if !r.first.IsZero() && !r.asked.IsZero() {
		x.firstToken.observe(firstTokenBounds, r.first.Sub(r.asked).Seconds())
	}
	if !r.asked.IsZero() {
		x.whole.observe(phaseBounds, r.server().now().Sub(r.asked).Seconds())
	}
}

// embedded counts the tokens of texts that were embedded, which are prompts.
func (m *metrics) embedded(model string, tokens int, seconds float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(model).prompt += int64(tokens)
	m.prompt += int64(tokens)
	m.promptSeconds += seconds
}

// meanAnswer is the mean time of an answer in seconds.
func (m *metrics) meanAnswer() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timed == 0 {
		return 0
	}
	return m.answerSeconds / float64(m.timed)
}

// writeMetrics answers /metrics.
func (s *Server) writeMetrics(w http.ResponseWriter, _ *http.Request) {
	var b exposition
	s.writeTotals(&b)
	s.writeCounts(&b)
	s.writeSocketMetrics(&b)
	s.writeModelMetrics(&b)
	s.writeProcess(&b)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	io.WriteString(w, b.String())
}

// writeTotals writes what is counted over all models, with the names of llama.cpp's server where it has them.
func (s *Server) writeTotals(b *exposition) {
	busy, waiting := s.queue.load()
	preparing, deferred := s.preparing.load()
	m := &s.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	one := b.one
	rate := func(n int64, seconds float64) float64 {
		if seconds == 0 {
			return 0
		}
		return float64(n) / seconds
	}
	one("llamacpp:prompt_tokens_total", "counter", "Prompt tokens that were computed.", float64(m.prompt))
	one("llamacpp:prompt_seconds_total", "counter", "Time of computing prompts.", m.promptSeconds)
	one("llamacpp:tokens_predicted_total", "counter", "Generated tokens.", float64(m.predicted))
	one("llamacpp:tokens_predicted_seconds_total", "counter", "Time of generating, summed over answers.",
		m.predictedSeconds)
	one("spec_answer_passes_total", "counter",
		"Passes of the target, summed over answers: those that share one count it each.", float64(m.passes))
	one("llamacpp:prompt_tokens_seconds", "gauge", "Prompt tokens per second, of each answer by itself.",
		rate(m.prompt, m.promptSeconds))
	one("llamacpp:predicted_tokens_seconds", "gauge", "Generated tokens per second, of each answer by itself.",
		rate(m.predicted, m.predictedSeconds))
	one("llamacpp:n_tokens_max", "gauge", "Tokens of the longest prompt with its answer.", float64(m.longest))
	one("llamacpp:requests_processing", "gauge", "Answers that are computed.", float64(busy))
	one("llamacpp:requests_deferred", "gauge", "Answers that wait for a place.", float64(waiting))
	one("spec_requests_preparing", "gauge",
		"Requests whose grammar is compiled, whose large body is read or made tokens of, or that wait for it.",
		float64(preparing+deferred))
	one("spec_prompt_tokens_cached_total", "counter", "Prompt tokens that were in a cache.", float64(m.cached))
	one("spec_tokens_drafted_total", "counter", "Drafted tokens.", float64(m.drafted))
	one("spec_tokens_accepted_total", "counter", "Drafted tokens that became part of an answer.", float64(m.accepted))
	one("spec_tokens_forced_total", "counter", "Tokens that a grammar left no choice about, verified as drafts.",
		float64(m.forced))
	one("spec_answers_total", "counter", "Answers that have begun, complete or not.", float64(m.answers))
	one("spec_places", "gauge", "Answers that may be computed at once.", float64(s.o.Parallel))
	one("spec_queue_capacity", "gauge", "Answers that may wait.", float64(s.o.Queue))
	one("spec_panics_total", "counter", "Requests that ended by a panic.", float64(m.panics.Load()))
	b.family("spec_requests_total", "counter", "Requests by path and status.")
	for _, k := range slices.SortedFunc(maps.Keys(m.requests), func(a, b requestLabel) int {
		return cmp.Or(strings.Compare(a.path, b.path), a.status-b.status)
	}) {
		b.sample("spec_requests_total", float64(m.requests[k]), "path", k.path, "status", strconv.Itoa(k.status))
	}
}

// writeSocketMetrics writes what is known of the connections of Serve. Requests that were refused by their head are in
// spec_requests_total.
func (s *Server) writeSocketMetrics(b *exposition) {
	open, unkeyed, closed := s.sockets.load()
	b.family("spec_connections", "gauge", "Open connections, by whether they have shown what is needed.")
	b.sample("spec_connections", float64(open-unkeyed), "keyed", "true")
	b.sample("spec_connections", float64(unkeyed), "keyed", "false")
	b.family("spec_connections_closed_total", "counter", "Connections that a limit closed.")
	for why, n := range closed {
		b.sample("spec_connections_closed_total", float64(n), "reason", closing(why).String())
	}
}

// modelGauges are what is known of a model in memory: of its target's scheduler.
var modelGauges = []struct {
	name, kind, help string
	value            func(m *loaded, s spec.Stats) float64
}{
	{"llamacpp:n_decode_total", "counter", "Passes over the target's weights.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Target.Passes) }},
	{"llamacpp:n_busy_slots_per_decode", "gauge", "Sequences that share a pass, on average.",
		func(_ *loaded, s spec.Stats) float64 {
			return float64(s.Target.Segments) / float64(max(s.Target.Passes, 1))
		}},
	{kvUsage, "gauge", "Memory of keys and values, of what there may be; 0 without a bound.",
		func(_ *loaded, s spec.Stats) float64 {
			return float64(s.Target.KVBytes) / float64(max(s.Target.KVBudget, 1)) * min(float64(s.Target.KVBudget), 1)
		}},
	{"spec_kv_bytes", "gauge", "Memory of the target's keys and values.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Target.KVBytes) }},
	{"spec_preemptions_total", "counter", "Sequences that gave up their memory and were computed again.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Target.Preemptions) }},
	{"spec_prefix_bytes", "gauge", "Memory of finished sequences that are kept, what several share once.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Target.CacheBytes) }},
	{"spec_prefix_sequences", "gauge", "Finished sequences that are kept.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Target.Prefixes) }},
	{"spec_prefix_tokens_total", "counter", "Tokens that were not computed, since another sequence began alike.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Target.PrefixTokens) }},
	{"spec_prefix_evictions_total", "counter", "Kept sequences that were dropped for memory.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Target.Evictions) }},
	{"spec_prefix_evicted_tokens_total", "counter", "Tokens of kept sequences that were dropped for memory.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Target.Evicted) }},
	{"spec_draft_model_tokens_total", "counter", "Tokens that the draft model computed, prompts included.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Draft.Tokens) }},
	{"spec_draft_prefix_tokens_total", "counter",
		"Tokens that the draft model did not compute, since another sequence began alike.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Draft.PrefixTokens) }},
	{"spec_draft_prefix_bytes", "gauge", "Memory of the draft model's finished sequences that are kept.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Draft.CacheBytes) }},
	{"spec_draft_prefix_evicted_tokens_total", "counter",
		"Tokens of the draft model's kept sequences that were dropped for memory.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.Draft.Evicted) }},
	{"spec_grammar_bytes", "gauge", "Memory of compiled grammars, their states and masks.",
		func(_ *loaded, s spec.Stats) float64 { return float64(s.GrammarBytes) }},
	{"spec_model_bytes", "gauge", "Memory of the weights, with those of the draft.",
		func(m *loaded, _ spec.Stats) float64 { return float64(m.Bytes()) }},
}

// writeModelMetrics writes what is known of the models in memory.
func (s *Server) writeModelMetrics(b *exposition) {
	models := s.models.resident()
	stats := make([]spec.Stats, len(models)) // of one moment
	for i, m := range models {
		stats[i] = m.Stats()
	}
	for _, g := range modelGauges {
		b.family(g.name, g.kind, g.help)
		for i, m := range models {
			b.sample(g.name, g.value(m, stats[i]), "model", m.name)
		}
		if g.name != kvUsage || s.o.MetricsNames != NamesVLLM {
			continue
		}
		b.family("vllm:kv_cache_usage_perc", g.kind, g.help) // it is a ratio there too
		for i, m := range models {
			b.sample("vllm:kv_cache_usage_perc", g.value(m, stats[i]), "model_name", m.name)
		}
	}
}

// kvUsage is the metric that llm-d reads under vLLM's name.
const kvUsage = "llamacpp:kv_cache_usage_ratio"
