package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/tensor"
)

// newDraftVocab is the form of m with a draft vocabulary and no other difference.
func newDraftVocab(t testing.TB, m *Model, tokens ...int32) *DraftForm {
	t.Helper()
	f, err := m.NewDraftForm(context.Background(), DraftFormOptions{Tokens: tokens, SameBits: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	if need := m.DraftVocabBytes(len(tokens), 0); f.Bytes() != need || need == 0 || !f.SameBits() {
		t.Errorf("%s: %d bytes of a draft vocabulary, %d expected", m.name, f.Bytes(), need)
	}
	return f
}

// listed is logits of all tokens with -Inf for those that are not listed.
func listed(logits []float32, vocab int, tokens []int32) []float32 {
	all := slices.Clone(logits)
	for i := range all {
		if !slices.Contains(tokens, int32(i%vocab)) {
			all[i] = float32(math.Inf(-1))
		}
	}
	return all
}

// draftVocabs are lists of fewer and more tokens than a panel has rows, in any order, of a vocabulary of 70 or more.
var draftVocabs = [][]int32{{3}, {69, 0, 7}, {5, 4, 3, 2, 1, 0, 64, 65, 66, 67, 16, 15, 17, 31, 32, 33, 48, 20, 21},
	seq(0, 32), seq(33, 66)}

// seq is from … to-1.
func seq(from, to int32) (list []int32) {
	for ; from < to; from++ {
		list = append(list, from)
	}
	return list
}

// Logits with a draft vocabulary are bit for bit those without, of its tokens, and -Inf for the others: of tied and
// separate output matrices, with biases, factors and soft caps, of every type of weights; and sessions of the model in
// the same pass have all.
func TestDraftVocabIsPartOfTheOutput(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	models := map[string]*Model{}
	for _, name := range []string{"gpt2", "qwen2", "phi2", "granite", "gemma2", "minicpm with keys", "opt", "qwen35moe",
		"falcon-h1"} {
		models[name] = openRecipe(t, rt, name)
	}
	for _, weights := range WeightNames() {
		models[weights] = openDrawn(t, rt, randommodel.Llama(), Options{Weights: weights})
	}
	factor := randommodel.Llama()
	factor.Untied = true
	file, n := withFactors(t, factor.File(t), func(name string) bool { return name == "output.weight" })
	if n != 1 {
		t.Fatal("no factor")
	}
	models["factor"], _ = openBytes(t, rt, file, "factor", Options{})
	for name, m := range models {
		v := m.config.Vocab
		ids := randomTokens(9, v, 5)
		all := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
		for _, tokens := range draftVocabs {
			f, what := newDraftVocab(t, m, tokens...), fmt.Sprint(name, ", ", len(tokens), " tokens")
			want := listed(all, v, tokens)
			sameBits(t, what, eval(t, newSession(t, m, SessionOptions{Form: f}), ids, nil, All), want)
			b := Batch{{Session: newSession(t, m, SessionOptions{Form: f}), Tokens: ids, Logits: All},
				{Session: newSession(t, m, SessionOptions{}), Tokens: ids, Logits: All},
				{Session: newSession(t, m, SessionOptions{Form: f}), Tokens: ids, Logits: Last}}
			r := forward(t, m, b)
			sameBits(t, what+" in company", r[0].Logits.Data, want)
			sameBits(t, what+", beside it", r[1].Logits.Data, all)
			sameBits(t, what+", again", r[2].Logits.Data, want[len(want)-v:])
			f.Close()
		}
	}
}

// What a session with a draft vocabulary keeps of a text is what the model's keeps.
func TestDraftVocabKeepsTheModelsStates(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m := openRecipe(t, rt, "qwen35moe")
	f, ids := newDraftVocab(t, m, 1, 2, 3), randomTokens(40, m.config.Vocab, 5)
	plain, with := newSession(t, m, SessionOptions{}), newSession(t, m, SessionOptions{Form: f})
	if plain.Costs() == with.Costs() {
		t.Error("passes with a draft vocabulary count as the model's")
	}
	for _, s := range []*Session{plain, with} {
		eval(t, s, ids, nil, Last)
	}
	for i := range plain.SavedCaches() {
		a, err := plain.SaveKV(nil, i, 0, len(ids))
		b, err2 := with.SaveKV(nil, i, 0, len(ids))
		if err != nil || err2 != nil || !slices.Equal(a, b) {
			t.Errorf("cache %d: other keys and values, %v, %v", i, err, err2)
		}
	}
	fork, err := with.ForkAt(len(ids) - 1)
	if err != nil {
		t.Fatal(err)
	}
	got := eval(t, fork, ids[len(ids)-1:], nil, Last)
	sameBits(t, "fork", got, eval(t, newSession(t, m, SessionOptions{Form: f}), ids, nil, Last))
}

// In fewer bits, too, a draft vocabulary is part of the form's logits, and makes it smaller.
func TestDraftVocabInFewerBits(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, untied := range []bool{false, true} {
		s := randommodel.Llama()
		s.Untied = untied
		s.Types = map[string]gguf.Type{"token_embd.weight": gguf.Q4_0}
		m, ids, tokens := openDrawn(t, rt, s, Options{}), randomTokens(20, s.Vocab, 5), seq(10, 30)
		whole := newDraftForm(t, m)
		for _, text := range []int{0, 16} { // it is what the limit must be, also of rows that have few bits already
			need := m.DraftFormBytes(len(tokens), text)
			f, err := m.NewDraftForm(context.Background(), DraftFormOptions{Tokens: tokens, Text: text, Most: need})
			if err != nil {
				t.Fatal(err)
			}
			if f.Bytes() != need {
				t.Errorf("untied %v, %d tokens of a text: %d bytes, counted %d", untied, text, f.Bytes(), need)
			}
			f.Close()
			if _, err := m.NewDraftForm(context.Background(), DraftFormOptions{Tokens: tokens, Text: text,
				Most: need - 1}); !errors.Is(err, tensor.ErrMemory) {
				t.Errorf("untied %v, %d tokens of a text, a byte too few: %v", untied, text, err)
			}
		}
		if got := m.DraftFormBytes(len(tokens), -1<<20); got != m.DraftFormBytes(len(tokens), 0) {
			t.Errorf("untied %v: %d bytes without a text's tokens", untied, got)
		}
		f, err := m.NewDraftForm(context.Background(), DraftFormOptions{Tokens: tokens})
		if err != nil {
			t.Fatal(err)
		}
		if f.SameBits() || untied && f.Bytes() >= whole.Bytes() {
			t.Errorf("%d bytes, %d with all tokens", f.Bytes(), whole.Bytes())
		}
		want := listed(eval(t, newSession(t, m, SessionOptions{Form: whole}), ids, nil, All), s.Vocab, tokens)
		sameBits(t, fmt.Sprint("untied ", untied), eval(t, newSession(t, m, SessionOptions{Form: f}), ids, nil, All), want)
		f.Close()
	}
}

// Adapters change the logits of a draft vocabulary as they change all.
func TestDraftVocabWithAdapters(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	s := randommodel.Llama()
	s.Untied = true
	m, one, both := adapted(t, rt, s.File(t))
	if out := m.sites["output.weight"].matrices[0]; one.list[0].Adapter.parts[out].b == nil {
		t.Fatal("the adapter does not change the output matrix")
	}
	ids := randomTokens(9, s.Vocab, 5)
	for _, tokens := range draftVocabs {
		f := newDraftVocab(t, m, tokens...)
		var b Batch
		for _, set := range []AdapterSet{one, {}, both, one} {
			b = append(b, Segment{Session: newSession(t, m, SessionOptions{Adapters: set, Form: f}), Tokens: ids, Logits: All})
		}
		for i, r := range forward(t, m, b) {
			o := SessionOptions{Adapters: b[i].Session.adapters}
			all := eval(t, newSession(t, m, o), ids, nil, All)
			sameBits(t, fmt.Sprint("set ", i), r.Logits.Data, listed(all, s.Vocab, tokens))
		}
	}
}

// Draft heads have draft vocabularies: of an output matrix of their own or their target's, one for all blocks or one
// each.
func TestDraftVocabOfHeads(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	check := func(what string, m *Model, o SessionOptions, g Segment, tokens []int32) {
		t.Helper()
		row := func(o SessionOptions) []float32 {
			s := newSession(t, m, o)
			if g.Session = s; g.FromTarget && len(g.Tokens) > 1 { // then a drafted token
				first := forward(t, m, Batch{g})[0]
				state := slices.Clone(first.Hidden.At(first.Hidden.Rows()-1, 0))
				next := Segment{Session: s, Tokens: []int32{3}, States: state, Logits: Last}
				return append(slices.Clone(first.Logits.Data), forward(t, m, Batch{next})[0].Logits.Data...)
			}
			return forward(t, m, Batch{g})[0].Logits.Data
		}
		all := row(o)
		o.Form = newDraftVocab(t, m, tokens...)
		sameBits(t, what, row(o), listed(all, m.config.Vocab, tokens))
	}
	for _, tokens := range draftVocabs {
		for _, c := range []struct {
			blocks int
			ends   bool
		}{{1, false}, {1, true}, {3, false}, {3, true}} {
			_, head := openMTP(t, rt, mtpRecipe("qwen35", c.blocks, c.ends).File(t), Options{})
			check(fmt.Sprint("mtp ", c), head, SessionOptions{}, newMTPText(12, 4).segment(0, 12), tokens)
		}
		target := openDrawn(t, rt, randommodel.Llama(), Options{})
		head, err := openBytes(t, rt, randommodel.Eagle{}.File(t), "head.gguf", Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		ids := randomTokens(9, target.config.Vocab, 3)
		check("eagle", head, SessionOptions{}, Segment{Tokens: ids[1:], States: statesFor(t, target, head, ids[:8]),
			FromTarget: true, Logits: All, Hidden: Last, Layers: []int{1}}, tokens)
		for name, x := range blockHeads { // the list has what rows of DSpark's block go on from
			_, head := openDFlash(t, rt, x, Options{})
			g, some := head.Head().Drafts(5, 6), slices.Clone(tokens)
			g.Session = newSession(t, head, SessionOptions{})
			r := forward(t, head, Batch{g})[0]
			for i := range r.Logits.Rows() {
				if id := greatest(r.Logits.Row(i)); !slices.Contains(some, id) {
					some = append(some, id)
				}
			}
			check(name, head, SessionOptions{}, g, some)
		}
		for what, lent := range map[string]randommodel.Assistant{"assistant": {}} {
			target, head := openPair(t, rt, assistantTarget(t, "gemma4"), lent, "")
			s := newSession(t, target, SessionOptions{})
			r, err := s.EvalSegment(context.Background(), Segment{Tokens: ids, Hidden: Last, Layers: head.TargetLayers()})
			if err != nil {
				t.Fatal(err)
			}
			check(what, head, SessionOptions{Target: s}, Segment{Tokens: []int32{3}, States: slices.Clone(r.Hidden.Row(0)),
				FromTarget: true, Logits: Last}, tokens)
		}
	}
}

// Of a model that reads its weights from disk a draft vocabulary is in memory.
func TestDraftVocabOfAModelOnDisk(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	s := randommodel.Llama()
	s.Untied, s.Weights = true, gguf.Q8_0
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, s.File(t), 0o600); err != nil {
		t.Fatal(err)
	}
	m := openModel(t, rt, path, Options{Memory: planOf(t, path, Options{}).Least, Cache: t.TempDir()})
	if !m.Memory().Streams() {
		t.Fatal("it is in memory")
	}
	ids, tokens := randomTokens(9, s.Vocab, 5), seq(7, 41)
	all := eval(t, newSession(t, openModel(t, rt, path, Options{}), SessionOptions{}), ids, nil, All)
	f := newDraftVocab(t, m, tokens...)
	session := newSession(t, m, SessionOptions{Form: f})
	sameBits(t, "from disk", eval(t, session, ids, nil, All), listed(all, s.Vocab, tokens))
	disk := func() int64 { // when nothing is read ahead any more
		m.store.Replace(m.store.Replace(nil))
		bytes, _ := m.Disk()
		return bytes
	}
	read := func(form *DraftForm) int64 {
		session := newSession(t, m, SessionOptions{Form: form})
		eval(t, session, ids[:1], nil, Last) // after it is known what follows what
		before := disk()
		eval(t, session, ids[1:2], nil, Last)
		return disk() - before
	}
	if with, without := read(f), read(nil); with >= without {
		t.Errorf("a pass reads %d bytes with the draft vocabulary, %d without", with, without)
	}
	if _, err := m.NewDraftForm(context.Background(), DraftFormOptions{Tokens: tokens}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("fewer bits of a model on disk: %v", err)
	}
}

func TestDraftVocabRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target := openDrawn(t, rt, randommodel.Llama(), Options{})
	head, err := openBytes(t, rt, randommodel.Eagle{Own: true}.File(t), "head.gguf", Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		m    *Model
		o    DraftFormOptions
		want error
	}{
		{"a head with a list of its own", head, DraftFormOptions{Tokens: seq(0, 9), SameBits: true}, ErrUnsupported},
		{"a head in fewer bits", head, DraftFormOptions{}, ErrUnsupported},
		{"no difference", target, DraftFormOptions{SameBits: true}, ErrUsage},
		{"all tokens", target, DraftFormOptions{Tokens: seq(0, 70), SameBits: true}, ErrUsage},
		{"a token too many", target, DraftFormOptions{Tokens: seq(60, 71), SameBits: true}, ErrVocabulary},
		{"a negative token", target, DraftFormOptions{Tokens: seq(-1, 7), SameBits: true}, ErrVocabulary},
		{"a token twice", target, DraftFormOptions{Tokens: []int32{4, 9, 4}, SameBits: true}, ErrVocabulary},
		{"an empty list", target, DraftFormOptions{Tokens: []int32{}, SameBits: true}, ErrVocabulary},
		{"too little memory", target, DraftFormOptions{Tokens: seq(0, 20), SameBits: true, Most: 2*16*64*4 - 1},
			tensor.ErrMemory},
	} {
		if _, err := c.m.NewDraftForm(context.Background(), c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	for _, c := range []struct {
		m      *Model
		tokens []int32
		want   []int32
	}{{target, nil, nil}, {target, seq(0, 70), nil}, {head, seq(0, 9), nil}, {target, seq(71, 80), nil},
		{target, []int32{80, 5, 3}, []int32{3, 5}}} {
		f, err := c.m.NewDraftVocab(context.Background(), c.tokens, 0)
		if err != nil || !slices.Equal(f.Tokens(), c.want) || (f == nil) != (c.want == nil) {
			t.Errorf("of %v: %v, %v, want %v", c.tokens, f.Tokens(), err, c.want)
		}
		f.Close()
	}
	if n := head.DraftVocabBytes(9, 0); n != 0 {
		t.Errorf("a head with a list of its own has %d bytes of another", n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := target.NewDraftForm(ctx, DraftFormOptions{Tokens: seq(0, 20), SameBits: true}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	f := newDraftVocab(t, target, 1, 2)
	s := newSession(t, target, SessionOptions{Form: f})
	f.Close()
	if _, err := s.Eval(context.Background(), []int32{1}, nil, Last); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed form: %v", err)
	}
}

// A logit that is not finite fails its segment, as without a draft vocabulary, and no other.
func TestDraftVocabFindsWhatIsNotFinite(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	s := randommodel.Llama()
	s.Untied = true
	s.Edit = map[string]func([]float32){"output.weight": func(x []float32) {
		for i := range 64 {
			x[5*64+i] = math.MaxFloat32 / 2
		}
	}}
	m := openDrawn(t, rt, s, Options{})
	for _, c := range []struct {
		tokens []int32
		fails  bool
	}{{seq(0, 5), false}, {seq(3, 9), true}} {
		session := newSession(t, m, SessionOptions{Form: newDraftVocab(t, m, c.tokens...)})
		_, err := session.Eval(context.Background(), randomTokens(3, s.Vocab, 5), nil, All)
		if c.fails != errors.Is(err, ErrNotFinite) {
			t.Errorf("%d tokens: %v", len(c.tokens), err)
		}
	}
}
