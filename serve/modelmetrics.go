package serve

import (
	"maps"
	"slices"
	"time"

	"github.com/specgo/spec/speculative"
)

// NamesVLLM is the value of Options.MetricsNames for vLLM's names, which llm-d and the inference gateway of Kubernetes
// read.
const NamesVLLM = "vllm"

// modelMetrics are counted for a model by its name, also while it is not in memory.
type modelMetrics struct {
	waiting, running                             int // places
	prompt, cached, predicted, drafted, accepted int64

	queue, firstToken, prefill, decode, perToken, whole histogram // seconds
}

// of is what is counted for a model. The lock is held.
func (m *metrics) of(model string) *modelMetrics {
	if m.models == nil {
		m.models = map[string]*modelMetrics{}
	}
	x := m.models[model]
	if x == nil {
		x = &modelMetrics{}
		m.models[model] = x
	}
	return x
}

// waits counts places that are waited for. begin counts that they have it, after so much time, or, where it is not
// ok, that they do not wait any more.
func (m *metrics) waits(model string, places int) (begin func(ok bool, waited time.Duration)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(model).waiting += places
	return func(ok bool, waited time.Duration) {
		m.mu.Lock()
		defer m.mu.Unlock()
		x := m.of(model)
		if x.waiting -= places; ok {
			x.running += places
			x.queue.observe(phaseBounds, waited.Seconds())
		}
	}
}

// ended counts that places were given back.
func (m *metrics) ended(model string, places int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(model).running -= places
}

// add counts an answer, complete or not.
func (x *modelMetrics) add(t *speculative.Stats) {
	x.prompt += int64(t.Prompt)
	x.cached += int64(t.Reused)
	x.predicted += int64(t.Generated)
	x.drafted += int64(t.Drafted)
	x.accepted += int64(t.Accepted)
	x.prefill.observe(phaseBounds, t.Prefill)
	if t.Generated > 0 {
		x.decode.observe(phaseBounds, t.Total-t.Prefill)
		x.perToken.observe(perTokenBounds, (t.Total-t.Prefill)/float64(t.Generated))
	}
}

// modelCounts are what is counted by model. The first names are ours, the second vLLM's; "" is none.
var modelCounts = []struct {
	name, vllm, kind, help string
	value                  func(x *modelMetrics) float64
}{
	{"spec_model_requests_running", "vllm:num_requests_running", "gauge",
		"Answers of the model, and texts to embed, that are computed at once.",
		func(x *modelMetrics) float64 { return float64(x.running) }},
	{"spec_model_requests_waiting", "vllm:num_requests_waiting", "gauge",
		"Answers of the model, and texts to embed, that wait for a place.",
		func(x *modelMetrics) float64 { return float64(x.waiting) }},
	{"spec_model_prompt_tokens_total", "vllm:prompt_tokens_total", "counter", "Tokens of prompts, cached ones too.",
		func(x *modelMetrics) float64 { return float64(x.prompt) }},
	{"spec_model_prompt_tokens_cached_total", "vllm:prefix_cache_hits_total", "counter",
		"Tokens of prompts that were in a cache.", func(x *modelMetrics) float64 { return float64(x.cached) }},
	{"", "vllm:prefix_cache_queries_total", "counter", "Tokens of prompts that were looked for in a cache.",
		func(x *modelMetrics) float64 { return float64(x.prompt) }},
	{"spec_model_generated_tokens_total", "vllm:generation_tokens_total", "counter", "Generated tokens.",
		func(x *modelMetrics) float64 { return float64(x.predicted) }},
	{"spec_model_drafted_tokens_total", "vllm:spec_decode_num_draft_tokens_total", "counter", "Drafted tokens.",
		func(x *modelMetrics) float64 { return float64(x.drafted) }},
	{"spec_model_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_total", "counter",
		"Drafted tokens that became part of an answer.", func(x *modelMetrics) float64 { return float64(x.accepted) }},
}

// modelHistograms are the phases of answers by model.
var modelHistograms = []struct {
	name, vllm, help string
	bounds           []float64
	value            func(x *modelMetrics) *histogram
}{
	{"spec_queue_seconds", "vllm:request_queue_time_seconds", "Time of a request in the queue.", phaseBounds,
		func(x *modelMetrics) *histogram { return &x.queue }},
	{"spec_time_to_first_token_seconds", "vllm:time_to_first_token_seconds",
		"Time from a request's arrival to its first token.", firstTokenBounds,
		func(x *modelMetrics) *histogram { return &x.firstToken }},
	{"spec_prompt_seconds", "vllm:request_prefill_time_seconds", "Time of an answer's prompt.", phaseBounds,
		func(x *modelMetrics) *histogram { return &x.prefill }},
	{"spec_generate_seconds", "vllm:request_decode_time_seconds", "Time of an answer without its prompt.", phaseBounds,
		func(x *modelMetrics) *histogram { return &x.decode }},
	{"spec_time_per_token_seconds", "vllm:inter_token_latency_seconds",
		"Time of an answer without its prompt, per token.", perTokenBounds,
		func(x *modelMetrics) *histogram { return &x.perToken }},
	{"spec_request_seconds", "vllm:e2e_request_latency_seconds", "Time of a request in all.", phaseBounds,
		func(x *modelMetrics) *histogram { return &x.whole }},
}

// writeCounts writes what is counted by model. The models are those that are offered: what is known of others is
// dropped, so that names that come and go take no memory.
func (s *Server) writeCounts(b *exposition) {
	offered := map[string]bool{}
	for _, e := range s.models.entries() {
		offered[e.Name] = true
	}
	m := &s.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.models, func(name string, x *modelMetrics) bool {
		return !offered[name] && x.waiting == 0 && x.running == 0
	})
	names := slices.Sorted(maps.Keys(m.models))
	vllm := s.o.MetricsNames == NamesVLLM
	for _, c := range modelCounts {
		for _, is := range []struct {
			metric, label string
			wanted        bool
		}{{c.name, "model", c.name != ""}, {c.vllm, "model_name", vllm}} {
			if !is.wanted {
				continue
			}
			b.family(is.metric, c.kind, c.help)
			for _, name := range names {
				b.sample(is.metric, c.value(m.models[name]), is.label, name)
			}
		}
	}
	for _, h := range modelHistograms {
		b.family(h.name, "histogram", h.help)
		for _, name := range names {
			b.histogram(h.value(m.models[name]), h.name, h.bounds, "model", name)
		}
		if !vllm {
			continue
		}
		b.family(h.vllm, "histogram", h.help)
		for _, name := range names {
			b.histogram(h.value(m.models[name]), h.vllm, h.bounds, "model_name", name)
		}
	}
}
