package speculative

import (
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// repeating is a target with what drafts for it, as a server has them.
type repeating struct {
	target, draft *engine.Model // draft nil: none
	drafter       func(target *engine.Model, draft Sequence) (Drafter, error)
	schedulers    [2]*shared.Scheduler
}

// repeatContext is what the models of repeats hold.
const repeatContext = 5000

// openRepeating lists the drafters, each with its models.
func openRepeating(t *testing.T, rt *engine.Runtime) map[string]*repeating {
	t.Helper()
	llama := func(seed uint64) []byte {
		shape := randommodel.Llama()
		shape.Context, shape.Seed = repeatContext, seed
		return shape.File(t)
	}
	target, small := openRandom(t, rt, llama(1), engine.Options{}), openRandom(t, rt, llama(2), engine.Options{})
	long := map[string]gguf.Value{"context_length": uint32(repeatContext)}
	head := openRandom(t, rt, randommodel.Eagle{Keys: long}.File(t), engine.Options{Target: target})
	recipe := randommodel.Recipes()["qwen35"]
	recipe.MTP, recipe.Keys["context_length"] = 1, uint32(repeatContext)
	hybrid := openRandom(t, rt, recipe.File(t), engine.Options{})
	block := openRandom(t, rt, recipe.File(t), engine.Options{Target: hybrid, MTP: true})
	treeOf := func(s Sequence) Drafter { return Tree(s, TreeOptions{}) }
	spliceOf := func(s Sequence) Drafter { return Splice(s, TreeOptions{}) }
	form := formOf(t, target)
	of := func(f func(Sequence) Drafter) func(*engine.Model, Sequence) (Drafter, error) {
		return func(_ *engine.Model, s Sequence) (Drafter, error) { return f(s), nil }
	}
	return map[string]*repeating{
		"none":       {target: target, drafter: of(func(Sequence) Drafter { return nil })},
		"ngram":      {target: target, drafter: of(func(Sequence) Drafter { return NGram(NGramOptions{}) })},
		"suffix":     {target: target, drafter: of(func(Sequence) Drafter { return Suffix(SuffixOptions{}) })},
		"model":      {target: target, draft: small, drafter: of(Model)},
		"tree":       {target: target, draft: small, drafter: of(treeOf)},
		"splice":     {target: target, draft: small, drafter: of(spliceOf)},
		"eagle":      {target: target, draft: head, drafter: of(Model)},
		"eagle-tree": {target: target, draft: head, drafter: of(treeOf)},
		"mtp":        {target: hybrid, draft: block, drafter: of(Model)},
		"early-exit": {target: target, drafter: func(m *engine.Model, _ Sequence) (Drafter, error) {
			return EarlyExit(m, engine.SessionOptions{Layers: 1})
		}},
		"self": {target: target, drafter: func(m *engine.Model, _ Sequence) (Drafter, error) {
			return Self(m, form, engine.SessionOptions{})
		}},
	}
}

// begin makes schedulers with budgets: of target and draft, kept and in all; 0 is no bound.
func (r *repeating) begin(kept, all [2]int64) {
	for i, m := range []*engine.Model{r.target, r.draft} {
		if m != nil {
			o := shared.Options{KVBytes: all[i], CacheBytes: kept[i]}
			if o.CacheBytes == 0 && o.KVBytes == 0 {
				o.CacheBytes = 1 << 40
			}
			r.schedulers[i] = shared.New(m, o)
		}
	}
}

func (r *repeating) end() {
	for i, c := range r.schedulers {
		c.Close()
		r.schedulers[i] = nil
	}
}

// held is what target and draft keep.
func (r *repeating) held() (bytes [2]int64) {
	for i, c := range r.schedulers {
		if c != nil {
			bytes[i] = c.Stats().CacheBytes
		}
	}
	return bytes
}

// computed is how many tokens of prompts target and draft have computed.
func (r *repeating) computed() (n int64) {
	for _, c := range r.schedulers {
		if c != nil {
			n += c.Stats().PromptTokens
		}
	}
	return n
}

// more adds memory for so many pages to budgets of target and draft.
func (r *repeating) more(t *testing.T, bytes *[2]int64, pages int64) {
	for i, m := range []*engine.Model{r.target, r.draft} {
		if m != nil {
			s := session(t, m, 0)
			bytes[i] += pages * (s.Bytes() + s.Need(engine.KVPage, 1))
			s.Close()
		}
	}
}

// write answers a prompt.
func (r *repeating) write(t *testing.T, prompt []int32, tokens int, seed uint64) (text []int32) {
	ctx := t.Context()
	s, err := r.schedulers[0].NewSession(ctx, shared.SessionOptions{})
	if err != nil {
		t.Error(err)
		return nil
	}
	defer s.Close()
	var draft Sequence
	if c := r.schedulers[1]; c != nil {
		d, err := c.NewSession(ctx, shared.SessionOptions{})
		if err != nil {
			t.Error(err)
			return nil
		}
		defer d.Close()
		draft = d
	}
	drafter, err := r.drafter(r.target, draft)
	if err != nil {
		t.Error(err)
		return nil
	}
	d := New(s, drafter, Options{MaxTokens: tokens, Schedule: Constant(ConstantOptions{Length: 3})})
	for tok, err := range d.Generate(ctx, prompt, engine.Sampling{Temperature: 1, Seed: seed}) {
		if err != nil {
			t.Error(err)
		}
		text = append(text, tok.ID)
	}
	return text
}

// TestRepeatsAfterOthers: two long prompts that come again after many short ones, and after requests for several
// answers, cost what they cost without these, though the budget of what is kept has room for a part of these only.
// A short prompt fills three quarters of a page: what fills less than half takes less memory.
func TestRepeatsAfterOthers(t *testing.T) {
	repeatsAfterOthers(t, []int{300, 600}, 8, 2, 8)
}

// TestLongRepeatsAfterOthers: prompts of 650 and 4,000 tokens, 50 short prompts and 10 requests for four answers.
func TestLongRepeatsAfterOthers(t *testing.T) {
	testkit.Long(t)
	repeatsAfterOthers(t, []int{650, 4000}, 50, 10, 32)
}

func repeatsAfterOthers(t *testing.T, lengths []int, short, several int, spare int64) {
	for name, r := range openRepeating(t, newRuntime(t, engine.RuntimeOptions{Threads: 1})) {
		prompts := [][]int32{random32(1, lengths[0], 70), random32(2, lengths[1], 70)}
		costs := func(between func()) (all []int64) {
			for _, p := range prompts {
				r.write(t, p, 8, 1)
			}
			between()
			for _, p := range prompts {
				before := r.computed()
				r.write(t, p, 1, 1)
				all = append(all, r.computed()-before)
			}
			return all
		}
		r.begin([2]int64{}, [2]int64{})
		var room [2]int64
		undisturbed := costs(func() { room = r.held() })
		r.end()
		r.more(t, &room, spare)
		r.begin(room, [2]int64{})
		disturbed := costs(func() {
			for i := range short {
				r.write(t, random32(uint64(100+i), engine.KVPage*3/4, 70), 8, 1)
			}
			for i := range several {
				var wait sync.WaitGroup
				for n := range 4 {
					wait.Go(func() { r.write(t, random32(uint64(500+i), engine.KVPage*3/4, 70), 8, uint64(n)) })
				}
				wait.Wait()
			}
		})
		if evicted := r.schedulers[0].Stats().Evicted; evicted == 0 {
			t.Errorf("%s: nothing was evicted", name)
		}
		r.end()
		for i := range prompts {
			if n := undisturbed[i]; float64(disturbed[i]) > 1.2*float64(n) || n > int64(len(prompts[i])/10) {
				t.Errorf("%s: the first token again of %d tokens computes %d, undisturbed %d", name, len(prompts[i]),
					disturbed[i], n)
			}
		}
	}
}

// TestTwoChatsInTurn: in a budget that holds two chats and a page, each turn of either computes its new tokens alone.
func TestTwoChatsInTurn(t *testing.T) {
	const turns, asks, answers = 4, 100, 12
	for name, r := range openRepeating(t, newRuntime(t, engine.RuntimeOptions{Threads: 1})) {
		talk := func() (computed []int64) {
			var chats [2][]int32
			for turn := range turns {
				for i := range chats {
					chats[i] = append(chats[i], random32(uint64(10*turn+i), asks, 70)...)
					before := r.computed()
					chats[i] = append(chats[i], r.write(t, chats[i], answers, 1)...)
					computed = append(computed, r.computed()-before)
				}
			}
			return computed
		}
		r.begin([2]int64{}, [2]int64{})
		free := talk()
		room := r.held()
		r.end()
		r.more(t, &room, 1)
		r.begin([2]int64{}, room)
		bounded := talk()
		r.end()
		const more = 16 // of a draft: how much it reads at once depends on times
		same := slices.EqualFunc(free, bounded, func(a, b int64) bool { return b <= a+more })
		if slices.Max(free) > 2*(asks+answers) || !same {
			t.Errorf("%s: tokens computed in turns without a budget %v, with one for two chats %v", name, free, bounded)
		}
	}
}
