package speculative

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// openRandom loads a random model's file.
func openRandom(t testing.TB, rt *engine.Runtime, file []byte, o engine.Options) *engine.Model {
	t.Helper()
	m, err := engine.New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// openHeads are targets, each with a draft head: EAGLE-3, DFlash, DSpark, one MTP block or several, and Gemma 4's.
func openHeads(t *testing.T, rt *engine.Runtime) map[string][2]*engine.Model {
	t.Helper()
	recipe := func(name string, blocks int) []byte {
		r := randommodel.Recipes()[name]
		r.MTP, r.Keys["context_length"] = blocks, uint32(2000)
		return r.File(t)
	}
	all := map[string][2]*engine.Model{}
	for name, files := range map[string][2][]byte{
		"eagle": {randommodel.Llama().File(t), // EAGLE-3.1
			randommodel.Eagle{Each: true, Keys: map[string]gguf.Value{"norm_output": true}}.File(t)},
		"dflash": {randommodel.Llama().File(t), randommodel.DFlash{}.File(t)},
		"dspark": {randommodel.Llama().File(t),
			randommodel.DFlash{Rank: 32, Window: 9, Windows: []bool{true, false}}.File(t)},
		"mtp":         {recipe("qwen35", 1), nil},
		"mtp blocks":  {recipe("qwen35", 3), nil},
		"mtp ling3":   {randommodel.Ling3{Context: 2000}.File(t), nil},
		"mtp streams": {randommodel.Qwen4exp{MTP: true, Context: 2000}.File(t), nil},
		"gemma4":      {recipe("gemma4", 0), randommodel.Assistant{}.File(t)},
	} {
		target := openRandom(t, rt, files[0], engine.Options{})
		o := engine.Options{Target: target}
		if files[1] == nil {
			files[1], o.MTP = files[0], true
		}
		all[name] = [2]*engine.Model{target, openRandom(t, rt, files[1], o)}
	}
	return all
}

// A prompt that was asked before, and the next turn of a chat, compute the new tokens alone, also where the drafter
// reads the target's hidden states: with EAGLE-3, DFlash, one MTP block or several, and Gemma 4's heads. The text is
// the one that a target by itself writes.
func TestHeadsSharePrefixes(t *testing.T) {
	for name, pair := range openHeads(t, newRuntime(t, engine.RuntimeOptions{Threads: 1})) {
		target, head := pair[0], pair[1]
		targets := shared.New(target, shared.Options{CacheBytes: 1 << 30})
		heads := shared.New(head, shared.Options{CacheBytes: 1 << 30})
		// write answers a prompt, and says how many of its tokens were computed.
		write := func(prompt []int32, salt string, schedule Schedule) (text []int32, computed int) {
			t.Helper()
			ctx, options := context.Background(), shared.SessionOptions{Salt: salt}
			s, err := targets.NewSession(ctx, options)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var draft interface {
				Sequence
				Close()
			}
			if head.Head().SharesCache {
				draft, err = shared.NewLentSession(head, s, engine.SessionOptions{})
			} else {
				draft, err = heads.NewSession(ctx, options)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer draft.Close()
			d := New(s, headed(draft, headOptions{}), Options{Schedule: schedule, MaxTokens: 30})
			for tok, err := range d.Generate(ctx, prompt, engine.Sampling{}) {
				if err != nil {
					t.Fatal(name, err)
				}
				text = append(text, tok.ID)
			}
			st := d.Stats()
			if st.Drafted == 0 && schedule == nil {
				t.Errorf("%s: nothing was drafted", name)
			}
			return text, st.Prompt - st.Reused - s.Reused()
		}
		texts := map[string][]int32{}
		alone := func(prompt []int32) (text []int32) {
			t.Helper()
			key := fmt.Sprint(prompt)
			if texts[key] != nil {
				return texts[key]
			}
			defer func() { texts[key] = text }()
			s, err := target.NewSession(engine.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for tok, err := range New(s, nil, Options{MaxTokens: 30}).Generate(context.Background(), prompt, engine.Sampling{}) {
				if err != nil {
					t.Fatal(name, err)
				}
				text = append(text, tok.ID)
			}
			return text
		}
		prompt := make([]int32, 80)
		for i := range prompt {
			prompt[i] = int32((i*i + 7*i + 3) % 61)
		}
		for _, c := range []struct {
			what     string
			schedule Schedule
		}{{"drafts", Constant(ConstantOptions{Length: 3})}, {"auto", nil}} {
			schedule := c.schedule
			if schedule == nil {
				schedule = Auto(AutoOptions{})
			}
			first, n := write(prompt, c.what, schedule)
			want := alone(prompt)
			if n != len(prompt) || !slices.Equal(first, want) {
				t.Errorf("%s, %s: %d of %d tokens computed; the text %v, want %v", name, c.what, n, len(prompt), first, want)
			}
			if again, n := write(prompt, c.what, schedule); n > 2 || !slices.Equal(again, want) {
				t.Errorf("%s, %s, the same again: %d tokens computed; the text %v, want %v", name, c.what, n, again, want)
			}
			next := slices.Concat(prompt, first, []int32{5, 4, 3, 2, 1, 9})
			if text, n := write(next, c.what, schedule); n > 7 || !slices.Equal(text, alone(next)) {
				t.Errorf("%s, %s, the next turn: %d tokens computed, 7 are new; the text %v, want %v", name,
					c.what, n, text, alone(next))
			}
			other := slices.Clone(next)
			other[0]++
			if text, n := write(other, c.what, schedule); n != len(other) || !slices.Equal(text, alone(other)) {
				t.Errorf("%s, %s, another first token: %d of %d tokens computed; the text %v, want %v", name, c.what, n,
					len(other), text, alone(other))
			}
		}
		if _, n := write(prompt, "another salt", Constant(ConstantOptions{Length: 3})); n != len(prompt) {
			t.Errorf("%s: %d of %d tokens computed under another salt", name, n, len(prompt))
		}
		targets.Close()
		heads.Close()
	}
}

// TestTextsWithHeadsBeginTogether: of prompts that begin alike and come at once the beginning is computed once, by the
// target and by the head, and each text is plain decoding's.
func TestTextsWithHeadsBeginTogether(t *testing.T) {
	const texts, begins, own = 6, 300, 20
	ctx := t.Context()
	for name, pair := range openHeads(t, newRuntime(t, engine.RuntimeOptions{Threads: 1})) {
		target, head := pair[0], pair[1]
		targets := shared.New(target, shared.Options{CacheBytes: 1 << 30})
		heads := shared.New(head, shared.Options{CacheBytes: 1 << 30})
		o := Options{Schedule: Constant(ConstantOptions{Length: 3}), MaxTokens: 12}
		write := func(prompt []int32) (text []int32, reused int) {
			s, err := targets.NewSession(ctx, shared.SessionOptions{})
			if err != nil {
				t.Error(err)
				return nil, 0
			}
			defer s.Close()
			var draft Sequence
			if head.Head().SharesCache {
				draft, err = shared.NewLentSession(head, s, engine.SessionOptions{})
			} else {
				draft, err = heads.NewSession(ctx, shared.SessionOptions{})
			}
			if err != nil {
				t.Error(err)
				return nil, 0
			}
			defer draft.(interface{ Close() }).Close()
			for tok, err := range New(s, Model(draft), o).Generate(ctx, prompt, engine.Sampling{}) {
				if err != nil {
					t.Error(name, err)
				}
				text = append(text, tok.ID)
			}
			return text, s.Reused()
		}
		var wait sync.WaitGroup
		var got [texts][]int32
		var reused [texts]int
		for i := range got {
			wait.Go(func() {
				got[i], reused[i] = write(slices.Concat(random32(1, begins, 60), random32(uint64(2+i), own, 60)))
			})
		}
		wait.Wait()
		for i := range got {
			prompt := slices.Concat(random32(1, begins, 60), random32(uint64(2+i), own, 60))
			plain := New(session(t, target, 0), nil, Options{MaxTokens: 12})
			if want, _ := collect(t, plain, prompt, engine.Sampling{}); !slices.Equal(got[i], want) {
				t.Errorf("%s, text %d: %v, want %v", name, i, got[i], want)
			}
		}
		// The first one computes all; of the others a head lacks the last token in common, and the target its state.
		n, computed := 0, targets.Stats().PromptTokens
		for _, k := range reused {
			n += k
		}
		if n < (texts-1)*(begins-1) || computed > begins+texts*(own+1) {
			t.Errorf("%s: %d tokens were reused, %d of prompts computed", name, reused, computed)
		}
		if n := heads.Stats().PrefixTokens; !head.Head().SharesCache && n < (texts-1)*(begins-1) {
			t.Errorf("%s: the heads reused %d tokens", name, n)
		}
		targets.Close()
		heads.Close()
	}
}

// TestHeadWithoutMemory: where a head's cache finds no memory beside another user's, its text goes on without drafts;
// the next text drafts again.
func TestHeadWithoutMemory(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := randomModel(t, rt, 0)
	head := randomHead(t, rt, target)
	page := int64(0)
	for _, c := range head.Caches(0) {
		b, err := c.Bytes("f16")
		if err != nil {
			t.Fatal(err)
		}
		page += 256 * b
	}
	heads := shared.New(head, shared.Options{KVBytes: 3 * page})
	defer heads.Close()
	ctx := context.Background()
	const n = 60
	prompts := [2][]int32{random32(1, 220, 90), random32(2, 220, 90)}
	var sessions [2]*shared.Session
	for i := range sessions {
		var err error
		if sessions[i], err = heads.NewSession(ctx, shared.SessionOptions{}); err != nil {
			t.Fatal(err)
		}
		defer sessions[i].Close()
	}
	var wait sync.WaitGroup
	var drafted [2]int
	for i, prompt := range prompts {
		want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: n}), prompt, engine.Sampling{})
		d := New(session(t, target, 0), headed(sessions[i], headOptions{Tree: i == 1}),
			Options{Schedule: Constant(ConstantOptions{Length: 3}), MaxTokens: n})
		wait.Go(func() {
			var got []int32
			for token, err := range d.Generate(ctx, prompt, engine.Sampling{}) {
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, token.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("text %d: got %v, want %v", i, got, want)
			}
			drafted[i] = d.Stats().Drafted
		})
		wait.Wait() // the second one meets the memory that the first one holds
	}
	if drafted[0] < 2*n || drafted[1] == 0 || drafted[1] >= drafted[0] {
		t.Errorf("%d tokens were drafted", drafted)
	}
	sessions[0].Close()
	d := New(session(t, target, 0), headed(sessions[1], headOptions{}),
		Options{Schedule: Constant(ConstantOptions{Length: 3}), MaxTokens: n})
	if collect(t, d, prompts[0], engine.Sampling{}); d.Stats().Drafted < 2*n {
		t.Errorf("%d tokens were drafted with memory again", d.Stats().Drafted)
	}
}

// What a head keeps of its target's states, of a prompt and of drafts, chains or trees, is no more than a plan counts
// for it, with those that the target's pass gave.
func TestHeadsKeepAsManyStatesAsArePlanned(t *testing.T) {
	for name, pair := range openHeads(t, newRuntime(t, engine.RuntimeOptions{Threads: 1})) {
		target, model := pair[0], pair[1]
		if model.Head().SharesCache { // it keeps one position's, and those of a draft
			continue
		}
		planned := engine.Sessions{Count: 1}.DraftPass(model.Describe())
		for _, trees := range []bool{false, true} {
			s, drafter := session(t, target, 0), headed(session(t, model, 0), headOptions{Tree: trees})
			m, ok := drafter.(*modelDrafter)
			if !ok {
				m = &drafter.(*tree).model
			}
			prompt := randommodel.Tokens(480, target.Config().Vocab, 3)
			d := New(s, drafter, Options{MaxTokens: 24, Schedule: Constant(ConstantOptions{Length: 12})})
			collect(t, d, prompt, engine.Sampling{})
			h, ok := m.head.(*head)
			if !ok {
				h = m.head.(*blockHead).head
			}
			r, err := s.EvalSegment(t.Context(), engine.Segment{Tokens: []int32{1}, Hidden: engine.Last, Layers: []int{0}})
			if err != nil || d.Stats().Drafted == 0 {
				t.Fatalf("%s, tree %v: %d drafted: %v", name, trees, d.Stats().Drafted, err)
			}
			took := 4 * int64(cap(h.waiting)+cap(h.states)+cap(r.Hidden.Data))
			if took > planned || took < planned/4 {
				t.Errorf("%s, tree %v: %d bytes of states, planned %d", name, trees, took, planned)
			}
		}
	}
}
