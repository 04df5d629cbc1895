package serve

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// slotTable is a model's slots, as llama.cpp's server has them: one for each answer that is computed at once. Answers
// have no fixed place here, and share what they have in common; a slot is where an answer is shown, and the text that
// its sequence held last.
type slotTable struct {
	mu      sync.Mutex
	list    []answerSlot
	tasks   int           // answers so far
	changed chan struct{} // closed and replaced when an answer has ended
}

// answerSlot is one of them.
type answerSlot struct {
	shown   *slotAnswer // that is computed; nil: none is
	last    *slotAnswer // that has left its text here; nil: none has
	writers int         // answers under way that will
	held    spec.Held
	used    int // the last answer that was given the slot
}

// slotAnswer is what a slot shows of an answer.
type slotAnswer struct {
	task   int
	client string // its id
	prompt []int32
	params *slotParams

	decoded atomic.Int64
	newLine atomic.Bool

	usage *promptUsage // guarded by the table; nil: not known yet
}

// promptUsage is what became of a prompt.
type promptUsage struct{ computed, cached int }

// slotParams are the settings of an answer, without texts, under llama.cpp's names.
type slotParams struct {
	samplingSettings
	MaxTokens    int           `json:"max_tokens"`
	Keep         int           `json:"n_keep"`
	Discard      int           `json:"n_discard"` // 0: nothing is discarded while a text is written
	MinKeep      int           `json:"min_keep"`  // 0: filters may leave one candidate
	Stream       bool          `json:"stream"`
	Samplers     []string      `json:"samplers"`
	Speculative  string        `json:"speculative.types"`
	WantTimings  bool          `json:"timings_per_token"`
	PostSampling bool          `json:"post_sampling_probs"`
	Lora         []adapterSlot `json:"lora"`
	MinTokens    int           `json:"min_tokens"`
}

// adapterSlot is the scale of an adapter.
type adapterSlot struct {
	ID    int     `json:"id"`
	Scale float32 `json:"scale"`
}

func newSlotTable(n int) *slotTable {
	return &slotTable{list: make([]answerSlot, n), changed: make(chan struct{})}
}

// free reports whether no answer is shown in the slot, or will leave its text there.
func (x *answerSlot) free() bool { return x.shown == nil && x.writers == 0 }

// at is the slot of an id. Ids beyond the last one begin anew, as in llama.cpp's server.
func (t *slotTable) at(id int) *answerSlot { return &t.list[id%len(t.list)] }

// leastLike is the tokens that a prompt has in common with a text at least to go on with it: what vocabularies and
// templates begin all texts with is less.
const leastLike = 8

// choose is the slot for an answer that asks for none: a free one whose text has more than a tenth of the prompt, the
// most, or that was used longest ago; -1: none is free. The lock is held.
func (t *slotTable) choose(prompt []int32, salt string) int {
	best, most, oldest := -1, max(len(prompt)/10, leastLike), -1
	for i := range t.list {
		x := &t.list[i]
		if !x.free() {
			continue
		}
		if n := engine.Common(x.held.Tokens, prompt); x.held.Salt == salt && n > most {
			best, most = i, n
		}
		if oldest < 0 || x.used < t.list[oldest].used {
			oldest = i
		}
	}
	if best >= 0 {
		return best
	}
	return oldest
}

// inSlot is the slots of an answer under way.
type inSlot struct {
	*slotAnswer
	shown, left int // where it is shown, -1: nowhere, and where it leaves its text
}

// begin gives an answer its slots: where it asks for one, it leaves its text there, and is shown elsewhere while that
// one is in use.
func (t *slotTable) begin(a *slotAnswer, wanted int, salt string) inSlot {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tasks++
	a.task = t.tasks
	in := inSlot{a, -1, -1}
	if wanted >= 0 {
		in.left = wanted % len(t.list)
	}
	if in.left < 0 || t.list[in.left].shown != nil {
		in.shown = t.choose(a.prompt, salt)
	} else {
		in.shown = in.left
	}
	if in.left < 0 {
		in.left = max(in.shown, 0)
	}
	for _, i := range []int{in.shown, in.left} {
		if i >= 0 {
			t.list[i].used = a.task
		}
	}
	if in.shown >= 0 {
		t.list[in.shown].shown = a
	}
	t.list[in.left].writers++
	return in
}

// end takes an answer out of its slots, and leaves its text.
func (t *slotTable) end(in inSlot, held spec.Held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if in.shown >= 0 {
		t.list[in.shown].shown = nil
	}
	x := &t.list[in.left]
	x.writers--
	x.last = in.slotAnswer
	if len(held.Tokens) > 0 {
		x.held = held
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// whenIdle waits until nothing is computed for a slot, and calls f with it and with the lock held.
func (t *slotTable) whenIdle(ctx context.Context, id int, f func(x *answerSlot)) error {
	for {
		t.mu.Lock()
		x, changed := t.at(id), t.changed
		free := x.free()
		if free {
			f(x)
		}
		t.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// idle waits until nothing is computed for a slot, and returns the text that it holds.
func (t *slotTable) idle(ctx context.Context, id int) (held spec.Held, err error) {
	err = t.whenIdle(ctx, id, func(x *answerSlot) { held = x.held })
	return held, err
}

// take is idle of a text with a salt, which the slot holds no longer then: what an answer leaves there afterwards
// stays. shared is how many of its tokens another slot has too, with what was computed of them.
func (t *slotTable) take(ctx context.Context, id int, salt string) (held spec.Held, shared int, err error) {
	err = t.whenIdle(ctx, id, func(x *answerSlot) {
		if x.held.Salt != salt {
			return
		}
		held, x.held = x.held, spec.Held{}
		for i := range t.list {
			if o := &t.list[i].held; o.Alike(&held) {
				shared = max(shared, engine.Common(o.Tokens, held.Tokens))
			}
		}
	})
	return held, shared, err
}

// put has a slot hold a text.
func (t *slotTable) put(id int, held spec.Held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at(id).held = held
}

// began puts an answer into its slots.
func (r *reading) began(i int) {
	how := r.task.Sampling(i)
	a := &slotAnswer{client: r.client.id, prompt: r.task.Prompt(i), params: r.slotParams(newSampling(&how))}
	steps := how.Normalized().Order
	if steps == nil {
		steps = sampling.DefaultOrder()
	}
	for _, step := range steps {
		a.params.Samplers = append(a.params.Samplers, string(step))
	}
	wanted := -1
	if i == 0 {
		wanted = r.slot
	}
	in := r.m.slots.begin(a, wanted, r.salt(r.server()))
	r.slotOf[i].Store(&in)
}

// ended takes an answer out of them.
func (r *reading) ended(i int, held spec.Held) {
	if in := r.slotOf[i].Load(); in != nil {
		r.m.slots.end(*in, held)
	}
}

// slotID is the slot that an answer leaves its text in; -1: it has not begun.
func (r *reading) slotID(i int) int {
	if in := r.slotOf[i].Load(); in != nil {
		return in.left
	}
	return -1
}

// count tells an answer's slot of an event.
func (r *reading) count(e *spec.Event) {
	in := r.slotOf[e.Answer].Load()
	if in == nil {
		return
	}
	if e.Token.ID >= 0 && !e.Ends {
		in.decoded.Add(1)
	}
	if strings.Contains(e.Token.Text, "\n") {
		in.newLine.Store(true)
	}
	if e.Finish != "" {
		in.decoded.Store(int64(e.Stats.Generated))
		r.m.slots.mu.Lock()
		defer r.m.slots.mu.Unlock()
		in.usage = &promptUsage{e.Stats.Prompt - e.Stats.Reused, e.Stats.Reused}
	}
}

// slotParams are the settings of a request's answer.
func (r *reading) slotParams(s samplingSettings) *slotParams {
	p := &slotParams{samplingSettings: s, Keep: r.keep, Stream: r.stream, Samplers: []string{},
		Speculative: r.task.Speculation().Drafter, WantTimings: r.wantTimings, PostSampling: r.chosen, Lora: []adapterSlot{},
		MinTokens: r.minTokens}
	r.bound(&p.samplingSettings)
	p.MaxTokens = p.Predict
	for _, x := range r.lora {
		p.Lora = append(p.Lora, adapterSlot{x.ID, x.Scale})
	}
	return p
}

// slotObject is a slot under llama.cpp's names.
type slotObject struct {
	ID          int         `json:"id"`
	Context     int         `json:"n_ctx"`
	Speculative bool        `json:"speculative"`
	Processing  bool        `json:"is_processing"`
	Task        int         `json:"id_task,omitempty"` // and what follows: once there was an answer
	Prompt      int         `json:"n_prompt_tokens,omitempty"`
	Computed    *int        `json:"n_prompt_tokens_processed,omitempty"` // once it is known
	Cached      *int        `json:"n_prompt_tokens_cache,omitempty"`
	Params      *slotParams `json:"params,omitempty"`
	Next        []nextToken `json:"next_token,omitempty"`
	Text        *string     `json:"prompt,omitempty"` // for the key that has sent it
}

// nextToken says how far an answer is.
type nextToken struct {
	HasNext bool  `json:"has_next_token"`
	NewLine bool  `json:"has_new_line"`
	Remain  int64 `json:"n_remain"` // -1: no bound but the context
	Decoded int64 `json:"n_decoded"`
}

// slots answers GET /slots: what is computed, of one model. The text of a prompt is told to the key alone that has
// sent it.
func (s *Server) slots(w http.ResponseWriter, r *http.Request) {
	if s.o.NoSlots {
		s.fail(w, recordOf(r.Context()), openAIError, &Error{Status: http.StatusNotImplemented, Type: typeNotSupported,
			Message: "this server shows no slots (--no-slots)"})
		return
	}
	query := r.URL.Query()
	if busy, _ := s.queue.load(); query.Get("fail_on_no_slot") != "" && busy >= s.o.Parallel {
		s.fail(w, recordOf(r.Context()), openAIError, unavailable("no slot available"))
		return
	}
	name := query.Get("model")
	e := s.models.entry(name)
	if e == nil {
		s.fail(w, recordOf(r.Context()), openAIError, noModel(name))
		return
	}
	list := make([]slotObject, s.o.Parallel)
	for i := range list {
		list[i].ID = i
	}
	resident := s.models.resident()
	at := slices.IndexFunc(resident, func(m *loaded) bool { return m.name == e.Name })
	if at < 0 && name == "" && len(resident) > 0 {
		at = 0
	}
	if at >= 0 {
		resident[at].showSlots(list, func(client string) bool {
			return len(*s.clients.Load()) > 0 && recordOf(r.Context()).client.id == client
		})
	}
	writeJSON(w, http.StatusOK, list)
}

// showSlots fills in what a model's slots show. owns says whether a prompt is the reader's own.
func (m *loaded) showSlots(list []slotObject, owns func(client string) bool) {
	def, err := m.Choose(m.Speculation(), 0)
	drafts := err == nil && def.Drafter != "none"
	type text struct {
		at  int
		ids []int32
	}
	var texts []text
	t := m.slots
	t.mu.Lock()
	for i := range t.list {
		x, o := &t.list[i], &list[i]
		o.Context, o.Speculative, o.Processing = m.Context(), drafts, x.shown != nil
		a := x.shown
		if a == nil {
			a = x.last
		}
		if a == nil {
			continue
		}
		o.Task, o.Prompt, o.Params = a.task, len(a.prompt), a.params
		n := nextToken{HasNext: o.Processing, NewLine: a.newLine.Load(), Remain: -1, Decoded: a.decoded.Load()}
		if most := int64(a.params.Predict); most >= 0 {
			n.Remain = max(0, most-n.Decoded)
		}
		if o.Next = []nextToken{n}; a.usage != nil {
			u := *a.usage
			o.Computed, o.Cached = &u.computed, &u.cached
		}
		if owns(a.client) {
			texts = append(texts, text{i, a.prompt})
		}
	}
	t.mu.Unlock()
	for _, x := range texts {
		prompt := tokensText(m.Tokenizer(), x.ids)
		list[x.at].Text = &prompt
	}
}
