package engine

import (
	"bytes"
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
)

// newDraftText is the form of m with a draft vocabulary, some tokens of each text and no other difference.
func newDraftText(t testing.TB, m *Model, text int, tokens ...int32) *DraftForm {
	t.Helper()
	f, err := m.NewDraftVocab(context.Background(), tokens, text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	if need := m.DraftVocabBytes(len(tokens), text); f.Bytes() != need || need <= m.DraftVocabBytes(len(tokens), 0) {
		t.Errorf("%s: %d bytes of a draft vocabulary with those of a text, %d expected", m.name, f.Bytes(), need)
	}
	return f
}

// ofText are the tokens that have logits after a text: those of a list, and the first ones that are not there.
func ofText(text, list []int32, most int) []int32 {
	all := slices.Clone(list)
	for _, id := range text {
		if !slices.Contains(all, id) && len(all) < len(list)+most {
			all = append(all, id)
		}
	}
	return all
}

// textsOf is logits of all tokens, of rows that each have a text up to them, with -Inf for those that have none.
func textsOf(logits []float32, vocab int, list []int32, most int, text func(row int) []int32) (all []float32) {
	for i := range len(logits) / vocab {
		all = append(all, listed(logits[i*vocab:(i+1)*vocab], vocab, ofText(text(i), list, most))...)
	}
	return all
}

// The tokens of a text up to a row have logits beside those of a draft vocabulary, bit for bit those of all tokens, and
// which they are depends on nothing else: not on how the text was fed, in which company and through which forks, on
// tokens that were cut off, or on what is in the form's room for rows. Of tied and separate output matrices, with
// biases, factors and soft caps, and of every type of weights.
func TestDraftTextIsPartOfTheOutput(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	models := map[string]*Model{}
	for _, name := range []string{"phi2", "granite", "gemma2", "qwen35moe"} {
		models[name] = openRecipe(t, rt, name)
	}
	for _, weights := range WeightNames() {
		models[weights] = openDrawn(t, rt, randommodel.Llama(), Options{Weights: weights})
	}
	for name, m := range models {
		v := m.config.Vocab
		ids, other := randomTokens(24, v, 5), randomTokens(24, v, 6)
		all := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
		others := eval(t, newSession(t, m, SessionOptions{}), other, nil, All)
		for _, most := range []int{5, 1, 20} {
			if most != 5 && name != "phi2" && name != "q8_0" {
				break
			}
			list := []int32{ids[2], 7, ids[9]}
			f, what := newDraftText(t, m, most, list...), fmt.Sprint(name, ", ", most, " tokens")
			text := func(i int) []int32 { return ids[:i+1] }
			want := textsOf(all, v, list, most, text)
			sameBits(t, what, eval(t, newSession(t, m, SessionOptions{Form: f}), ids, nil, All), want)

			s := newSession(t, m, SessionOptions{Form: f})
			for i := range ids {
				sameBits(t, what+", one by one", eval(t, s, ids[i:i+1], nil, All), want[i*v:(i+1)*v])
			}
			if err := s.Truncate(11); err != nil { // and goes on otherwise
				t.Fatal(err)
			}
			eval(t, s, other[:7], nil, Last)
			if err := s.Truncate(11); err != nil {
				t.Fatal(err)
			}
			fork, err := s.ForkAt(9)
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, what+", after others", eval(t, s, ids[11:], nil, All), want[11*v:])
			sameBits(t, what+", of a fork", eval(t, fork, ids[9:], nil, All), want[9*v:])
			fork.Close()

			otherText := func(i int) []int32 { return other[:i+1] }
			b := Batch{{Session: newSession(t, m, SessionOptions{Form: f}), Tokens: ids, Logits: All},
				{Session: newSession(t, m, SessionOptions{Form: f}), Tokens: other, Logits: All},
				{Session: newSession(t, m, SessionOptions{}), Tokens: ids, Logits: All},
				{Session: newSession(t, m, SessionOptions{Form: f}), Tokens: ids, Logits: Last}}
			r := forward(t, m, b)
			sameBits(t, what+" in company", r[0].Logits.Data, want)
			sameBits(t, what+", the other", r[1].Logits.Data, textsOf(others, v, list, most, otherText))
			sameBits(t, what+", beside it", r[2].Logits.Data, all)
			sameBits(t, what+", again", r[3].Logits.Data, want[len(want)-v:])
			var few Batch // of rows that are multiplied together
			for i := range 6 {
				few = append(few, Segment{Session: newSession(t, m, SessionOptions{Form: f}), Tokens: ids[:12+i], Logits: Last})
				if i%2 == 1 {
					few[i].Tokens = other[:12+i]
				}
			}
			for i, r := range forward(t, m, few) {
				row, all, text := 11+i, all, text
				if i%2 == 1 {
					all, text = others, otherText
				}
				sameBits(t, fmt.Sprint(what, ", few rows ", i), r.Logits.Data, textsOf(all[row*v:(row+1)*v], v, list, most,
					func(int) []int32 { return text(row) }))
			}
			f.Close()
		}
	}
}

// A node of a tree has the tokens on its own path.
func TestDraftTextOfTrees(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m := openDrawn(t, rt, randommodel.Llama(), Options{})
	v, ids := m.config.Vocab, []int32{5, 9, 5, 30, 31}
	nodes, parents := []int32{40, 41, 42, 43, 41, 9, 40}, []int32{-1, -1, 0, 2, 2, 1, 3}
	paths := [][]int32{{40}, {41}, {40, 42}, {40, 42, 43}, {40, 42, 41}, {41, 9}, {40, 42, 43, 40}}
	whole := newSession(t, m, SessionOptions{})
	eval(t, whole, ids, nil, None)
	all := eval(t, whole, nodes, parents, All)
	for most := 1; most < 8; most++ {
		list := []int32{30, 43}
		f := newDraftText(t, m, most, list...)
		s := newSession(t, m, SessionOptions{Form: f})
		eval(t, s, ids, nil, None)
		text := func(i int) []int32 { return slices.Concat(ids, paths[i]) }
		sameBits(t, fmt.Sprint(most, " tokens"), eval(t, s, nodes, parents, All), textsOf(all, v, list, most, text))
		eval(t, s, []int32{60}, nil, Last)
		eval(t, s, []int32{61}, nil, Last) // which reads the one before; both are cut off
		if err := s.Truncate(len(ids)); err != nil {
			t.Fatal(err)
		}
		sameBits(t, fmt.Sprint(most, " tokens, again"), eval(t, s, nodes, parents, All), textsOf(all, v, list, most, text))
		if err := s.Commit([]int32{0, 2}); err != nil {
			t.Fatal(err)
		}
		path := append(slices.Clone(ids), 40, 42, 50)
		after := eval(t, newSession(t, m, SessionOptions{}), path, nil, Last)
		sameBits(t, fmt.Sprint(most, " tokens, committed"), eval(t, s, []int32{50}, nil, Last), textsOf(after, v, list, most,
			func(int) []int32 { return path }))
	}
}

// A form in fewer bits has the tokens of its texts in these bits; its sessions begin as forks of the model's.
func TestDraftTextInFewerBits(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, untied := range []bool{false, true} {
		s := randommodel.Llama()
		s.Untied = untied
		m, ids, list := openDrawn(t, rt, s, Options{}), randomTokens(30, s.Vocab, 5), []int32{3, 4}
		whole := newDraftForm(t, m)
		const most = 9
		f, err := m.NewDraftForm(context.Background(), DraftFormOptions{Tokens: list, Text: most})
		if err != nil {
			t.Fatal(err)
		}
		target := newSession(t, m, SessionOptions{})
		for i, n := range []int{6, 20, 9} {
			what := fmt.Sprint("untied ", untied, ", draft ", i)
			if err := target.Truncate(min(n, target.Len())); err != nil {
				t.Fatal(err)
			}
			if target.Len() < n {
				eval(t, target, ids[target.Len():n], nil, Last)
			}
			var rows [2][]float32
			for j, f := range []*DraftForm{whole, f} {
				d, err := target.DraftAt(n-2, f, nil)
				if err != nil {
					t.Fatal(err)
				}
				rows[j] = eval(t, d, ids[n-2:n+3], nil, All)
				d.Close()
			}
			sameBits(t, what, rows[1], textsOf(rows[0], s.Vocab, list, most, func(i int) []int32 { return ids[:n-1+i] }))
		}
		f.Close()
	}
}

// Adapters change the logits of a text's tokens as they change all.
func TestDraftTextWithAdapters(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	s := randommodel.Llama()
	s.Untied = true
	m, one, both := adapted(t, rt, s.File(t))
	ids, list := randomTokens(9, s.Vocab, 5), []int32{1, 2, 3}
	f := newDraftText(t, m, 8, list...)
	var b Batch
	for _, set := range []AdapterSet{one, {}, both, one} {
		b = append(b, Segment{Session: newSession(t, m, SessionOptions{Adapters: set, Form: f}), Tokens: ids, Logits: All})
	}
	for i, r := range forward(t, m, b) {
		o := SessionOptions{Adapters: b[i].Session.adapters}
		all := eval(t, newSession(t, m, o), ids, nil, All)
		sameBits(t, fmt.Sprint("set ", i), r.Logits.Data, textsOf(all, s.Vocab, list, 8, func(i int) []int32 {
			return ids[:i+1]
		}))
	}
}

// Draft heads have the tokens of their texts, also where each MTP block has an output matrix of its own. Those that
// look at their target's cache have none.
func TestDraftTextOfHeads(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, blocks := range []int{1, 3} {
		_, head := openMTP(t, rt, mtpRecipe("qwen35", blocks, true).File(t), Options{})
		text, v := newMTPText(12, 4), head.config.Vocab
		list := []int32{1, 2}
		f := newDraftText(t, head, 6, list...)
		var rows [2][]float32
		for j, f := range []*DraftForm{nil, f} {
			s := newSession(t, head, SessionOptions{Form: f})
			g := text.segment(0, 12)
			g.Session = s
			r := forward(t, head, Batch{g})[0]
			rows[j] = slices.Clone(r.Logits.Data)
			if blocks == 1 {
				continue
			}
			next := Segment{Session: s, Tokens: []int32{3}, States: slices.Clone(text.states[:len(text.states)/12]),
				Logits: Last}
			rows[j] = append(rows[j], forward(t, head, Batch{next})[0].Logits.Data...)
		}
		n := len(rows[0]) / v
		sameBits(t, fmt.Sprint(blocks, " blocks"), rows[1], textsOf(rows[0], v, list, 6, func(i int) []int32 {
			if blocks > 1 && i == n-1 {
				return append(slices.Clone(text.ids), 3)
			}
			return text.ids[:12-(n-1-i)+min(blocks-1, 1)]
		}))
	}
	target, head := openPair(t, rt, assistantTarget(t, "gemma4"), randommodel.Assistant{}, "")
	f, err := head.NewDraftVocab(context.Background(), []int32{1, 2}, 6)
	if err != nil || f.Bytes() != head.DraftVocabBytes(2, 0) || f.Bytes() != head.DraftVocabBytes(2, 6) {
		t.Errorf("a head of %s without a text of its own: %v", target.name, err)
	}
	f.Close()
}

// Of a model whose output matrix is read from disk only the list has logits. A logit of a text's token that is not
// finite fails its segment and no other.
func TestDraftTextRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	s := randommodel.Llama()
	s.Untied, s.Weights = true, gguf.Q8_0
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, s.File(t), 0o600); err != nil {
		t.Fatal(err)
	}
	m := openModel(t, rt, path, Options{Memory: planOf(t, path, Options{}).Least, Cache: t.TempDir()})
	ids, list := randomTokens(9, s.Vocab, 5), []int32{1, 2}
	f, err := m.NewDraftVocab(context.Background(), list, 6)
	if err != nil {
		t.Fatal(err)
	}
	all := eval(t, newSession(t, openModel(t, rt, path, Options{}), SessionOptions{}), ids, nil, All)
	sameBits(t, "from disk", eval(t, newSession(t, m, SessionOptions{Form: f}), ids, nil, All), listed(all, s.Vocab, list))
	f.Close()

	s = randommodel.Llama()
	s.Untied = true
	s.Edit = map[string]func([]float32){"output.weight": func(x []float32) {
		for i := range 64 {
			x[5*64+i] = math.MaxFloat32 / 2
		}
	}}
	data := s.File(t)
	bad, err := openBytes(t, rt, bytes.Clone(data), "bad", Options{})
	if err != nil {
		t.Fatal(err)
	}
	f = newDraftText(t, bad, 6, list...)
	b := Batch{{Session: newSession(t, bad, SessionOptions{Form: f}), Tokens: []int32{7, 9}, Logits: Last},
		{Session: newSession(t, bad, SessionOptions{Form: f}), Tokens: []int32{7, 5}, Logits: Last}}
	r, err := bad.Forward(context.Background(), b)
	if err != nil || r[0].Err != nil || !errors.Is(r[1].Err, ErrNotFinite) {
		t.Errorf("%v, %v, %v", err, r[0].Err, r[1].Err)
	}
}
