package speculative

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// fake is a Sequence whose logits are a function of the tokens before them. It refuses what a
// session would refuse, counts its passes, and spoils the logits it gave before.
type fake struct {
	t              testing.TB
	vocab, context int
	model          func(text []int32, row []float32)
	onEval         func(pass int) error // before each pass; an error fails it
	spend          func(tokens int)     // after each pass: time it takes

	text    []int32
	pending []int32
	parents []int32
	data    []float32
	path    []int32
	passes  int  // that gave logits
	fed     int  // tokens
	widest  int  // most tokens of a pass
	rows    int  // most of them with logits
	wanted  bool // the pass gives logits
}

// fakeTree is the most tokens of a tree, as in a session.
const fakeTree = 256

func newFake(t testing.TB, vocab, context int, model func([]int32, []float32)) *fake {
	return &fake{
		t: t, vocab: vocab, context: context, model: model,
		text: make([]int32, 0, context), path: make([]int32, 0, context), data: make([]float32, 0, 64*vocab),
	}
}

func (f *fake) Len() int     { return len(f.text) }
func (f *fake) Context() int { return f.context }
func (f *fake) Vocab() int   { return f.vocab }
func (f *fake) MaxTree() int { return fakeTree }

func (f *fake) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	if err := ctx.Err(); err != nil {
		return engine.Logits{}, err
	}
	if f.onEval != nil {
		if err := f.onEval(f.passes); err != nil {
			return engine.Logits{}, err
		}
	}
	if len(f.pending) > 0 {
		f.t.Error("Eval while a tree is pending")
	}
	if len(tokens) == 0 {
		f.t.Error("empty pass")
	}
	deepest := len(tokens)
	if parents != nil {
		if len(parents) != len(tokens) || len(tokens) > fakeTree {
			f.t.Errorf("a tree of %d tokens and %d parents, at most %d", len(tokens), len(parents), fakeTree)
			return engine.Logits{}, engine.ErrUsage
		}
		deepest = 0
		for i, p := range parents {
			if p < -1 || int(p) >= i {
				f.t.Errorf("parent %d of token %d", p, i)
				return engine.Logits{}, engine.ErrUsage
			}
			depth := 1
			for ; p >= 0; p = parents[p] {
				depth++
			}
			deepest = max(deepest, depth)
		}
	}
	if len(f.text)+deepest > f.context {
		f.t.Errorf("fed %d tokens after %d: context is %d", deepest, len(f.text), f.context)
		return engine.Logits{}, engine.ErrContextFull
	}
	if int(want) > len(tokens) || want < 0 && want != engine.All {
		f.t.Errorf("logits of %d positions wanted, %d tokens", want, len(tokens))
		return engine.Logits{}, engine.ErrUsage
	}
	for _, id := range tokens {
		if id < 0 || int(id) >= f.vocab {
			f.t.Errorf("fed token %d of %d", id, f.vocab)
			return engine.Logits{}, engine.ErrVocabulary
		}
	}
	f.wanted = want != engine.None
	if f.spend != nil {
		f.spend(len(tokens))
	}
	f.fed += len(tokens)
	f.widest = max(f.widest, len(tokens))
	first := len(tokens) - int(want)
	if want == engine.All {
		first = 0
	}
	f.rows = max(f.rows, len(tokens)-first)
	for i := range f.data {
		f.data[i] = float32(math.NaN())
	}
	f.data = f.data[:0]
	if want != engine.None {
		f.passes++
	}
	f.path = append(f.path[:0], f.text...)
	for i := first; i < len(tokens); i++ {
		at := len(f.text)
		if f.path = f.path[:at]; parents == nil {
			f.path = append(f.path, tokens[:i+1]...)
		} else {
			for j := i; j >= 0; j = int(parents[j]) {
				f.path = slices.Insert(f.path, at, tokens[j])
			}
		}
		n := len(f.data)
		f.data = slices.Grow(f.data, f.vocab)[:n+f.vocab]
		f.model(f.path, f.data[n:])
	}
	if parents == nil {
		f.text = append(f.text, tokens...)
	} else {
		f.pending, f.parents = append(f.pending[:0], tokens...), append(f.parents[:0], parents...)
	}
	return engine.Logits{Vocab: f.vocab, Data: f.data}, nil
}

func (f *fake) Truncate(n int) error {
	if n < 0 || n > len(f.text) {
		f.t.Errorf("Truncate(%d) of %d", n, len(f.text))
		return errors.New("truncate")
	}
	f.text, f.pending = f.text[:n], f.pending[:0]
	return nil
}

func (f *fake) Commit(path []int32) error {
	at := int32(-1)
	for _, i := range path {
		if i < 0 || int(i) >= len(f.pending) || f.parents[i] != at {
			f.t.Errorf("Commit(%v) of parents %v", path, f.parents)
			return engine.ErrUsage
		}
		f.text = append(f.text, f.pending[i])
		at = i
	}
	f.pending = f.pending[:0]
	return nil
}

// mix64 is the finalizer of SplitMix64.
func mix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// random is a model that knows the whole text: logits from a hash of it. It keeps those of the last text's beginnings,
// with which the next one mostly begins too.
func random(seed uint64) func([]int32, []float32) {
	known, hashes := []int32(nil), []uint64{mix64(seed)}
	return func(text []int32, row []float32) {
		n := 0
		for n < min(len(known), len(text)) && known[n] == text[n] {
			n++
		}
		known, hashes = known[:n], hashes[:n+1]
		for _, id := range text[n:] {
			known, hashes = append(known, id), append(hashes, mix64(hashes[len(known)]^uint64(id)))
		}
		h := hashes[len(text)]
		for i := range row {
			row[i] = float32(mix64(h+uint64(i))>>40) / (1 << 21)
		}
	}
}

// noisy is model with some noise of its own: it agrees often, not always.
func noisy(model func([]int32, []float32), amount float32) func([]int32, []float32) {
	other := random(4711)
	var extra [1024]float32
	return func(text []int32, row []float32) {
		model(text, row)
		other(text, extra[:len(row)])
		for i := range row {
			row[i] += float32(amount * extra[i])
		}
	}
}

// loops is a model of a text that repeats itself: the next token depends on the last two only.
func loops(seed uint64) func([]int32, []float32) {
	model := random(seed)
	return func(text []int32, row []float32) { model(text[max(0, len(text)-2):], row) }
}

// script writes the given tokens after a prompt of n, then zeros.
func script(n int, tokens ...int32) func([]int32, []float32) {
	return func(text []int32, row []float32) {
		clear(row)
		if i := len(text) - n; i >= 0 && i < len(tokens) {
			row[tokens[i]] = 10
		}
	}
}

// plain writes n tokens without any of this package: the reference.
func plain(t testing.TB, vocab int, model func([]int32, []float32), prompt []int32, n int, s engine.Sampling) []int32 {
	t.Helper()
	sampler, err := sampling.New(vocab, s)
	if err != nil {
		t.Fatal(err)
	}
	text, row := slices.Clone(prompt), make([]float32, vocab)
	for range n {
		model(text, row)
		text = append(text, sampler.Pick(row, text))
	}
	return text[len(prompt):]
}

// collect runs Generate to its end.
func collect(t testing.TB, d *Decoder, prompt []int32, s engine.Sampling) (ids []int32, text string) {
	t.Helper()
	for tok, err := range d.Generate(context.Background(), prompt, s) {
		if err != nil {
			t.Fatal(err)
		}
		if tok.Position != len(prompt)+len(ids) {
			t.Fatalf("token at position %d, expected %d", tok.Position, len(prompt)+len(ids))
		}
		ids, text = append(ids, tok.ID), text+tok.Text
	}
	st := d.Stats()
	if x, ok := d.verifier.(*stairs); ok && !x.o.Batch { // several passes a round
		if st.TargetPasses < st.Rounds {
			t.Errorf("%d passes in %d rounds", st.TargetPasses, st.Rounds)
		}
		st.TargetPasses = st.Rounds
	}
	checkStats(t, st, len(ids))
	return ids, text
}

// checkStats tests what always holds.
func checkStats(t testing.TB, s Stats, n int) {
	t.Helper()
	sum := func(n []int) (sum int) {
		for _, x := range n {
			sum += x
		}
		return sum
	}
	if s.Generated != n || s.Rounds != s.TargetPasses || s.Accepted > s.Drafted || s.End == "" ||
		s.Generated < s.Accepted+s.ForcedAccepted || s.Generated > s.Accepted+s.ForcedAccepted+s.Rounds ||
		s.ForcedAccepted > s.Forced || sum(s.AcceptedAt) != s.Accepted || len(s.AcceptedAt) != len(s.DraftedAt) {
		t.Errorf("%d tokens, but %+v", n, s)
	}
}

// fan is a drafter of trees: at each depth the target's token or a wrong one, amid other wrong ones.
type fan struct {
	model func([]int32, []float32)
	wide  int
	row   []float32
}

func (f *fan) Start(_ context.Context, s Setup) error { f.row = make([]float32, s.Vocab); return nil }
func (f *fan) Observe(*Round)                         {}
func (f *fan) Draft(_ context.Context, text []int32, d *Draft) error {
	text = slices.Clone(text)
	for at := -1; d.More() && d.Room() >= f.wide; {
		f.model(text, f.row)
		best := int32(0)
		for i := range f.row {
			if f.row[i] > f.row[best] {
				best = int32(i)
			}
		}
		good := -1
		for i := range f.wide {
			id := (best + int32(i) + int32(len(text)%2)) % int32(d.Vocab())
			if d.AddChild(at, id, 1, nil) && id == best {
				good = d.Len() - 1
			}
		}
		if good < 0 {
			break
		}
		at, text = good, append(text, best)
	}
	return nil
}

// newAuto is Auto with its defaults.
func newAuto() Schedule { return Auto(AutoOptions{}) }

// scripted drafts fixed tokens by position, whether or not they are wanted.
type scripted struct {
	prompt int
	tokens []int32
	starts int
}

func (s *scripted) Start(_ context.Context, u Setup) error {
	s.prompt = len(u.Prompt)
	s.starts++
	return nil
}
func (s *scripted) Observe(*Round) {}
func (s *scripted) Draft(_ context.Context, text []int32, d *Draft) error {
	for i := len(text) - s.prompt; i < len(s.tokens); i++ {
		d.Add(s.tokens[i], 1, nil)
	}
	return nil
}
