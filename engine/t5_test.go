package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// encoderStates are the encoder's states of an input.
func encoderStates(t *testing.T, m *Model, ids []int32) []float32 {
	t.Helper()
	states, err := m.EncoderStates(context.Background(), ids)
	if err != nil {
		t.Fatal(err)
	}
	return states
}

func encode(t testing.TB, s *Session, ids []int32) {
	t.Helper()
	if err := s.Encode(context.Background(), ids); err != nil {
		t.Fatal(err)
	}
}

// t5Golden is what an independent engine computed.
type t5Golden struct {
	Cases []struct {
		EncoderIDs []int32              `json:"encoder_ids"`
		Encoder    map[string][]float64 `json:"encoder"`
		IDs        []int32              `json:"ids"`
		Logits     map[string][]float64 `json:"logits"`
		Greedy     []int32              `json:"greedy"`
		RMS        float64              `json:"rms"`
	} `json:"cases"`
	RMS float64 `json:"rms"`
}

// t5Models are the models of ../shared/families/papers/models.
var t5Models = []string{"t5-v10", "t5-v11"}

// TestT5: tiny models against an independent engine: the encoder's states, the logits, the greedy continuation, with
// F32 weights and cache. Leaving out a part moves them by 0.5 to 10 times their root mean square.
func TestT5(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range append([]string{"t5-encoder"}, t5Models...) {
		data, err := os.ReadFile(testkit.Shared(t, "families/papers/models/golden/"+name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var g t5Golden
		if err := json.Unmarshal(data, &g); err != nil {
			t.Fatal(err)
		}
		m, err := Open(context.Background(), rt, testkit.Shared(t, "families/papers/models/"+name+".gguf"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var s *Session
		if m.config.Layers > 0 {
			s = newSession(t, m, SessionOptions{KV: "f32"})
		} else if _, err := m.NewSession(SessionOptions{}); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: a session of an encoder alone: %v", name, err)
		}
		for _, c := range g.Cases {
			states := encoderStates(t, m, c.EncoderIDs)
			compareRows(t, name+": states", states, c.Encoder)
			if s == nil {
				continue
			}
			encode(t, s, c.EncoderIDs)
			if c.IDs[0] != m.DecoderStart() {
				t.Errorf("%s: the decoder starts with %d, expected %d", name, m.DecoderStart(), c.IDs[0])
			}
			got := eval(t, s, c.IDs, nil, All)
			compareRows(t, name+": logits", got, c.Logits)
			next, written := greatest(got[len(got)-m.config.Vocab:]), []int32(nil)
			for range c.Greedy {
				written = append(written, next)
				next = greatest(eval(t, s, []int32{next}, nil, Last))
			}
			if !slices.Equal(written, c.Greedy) {
				t.Errorf("%s: greedy continuation %d, expected %d", name, written, c.Greedy)
			}
		}
	}
}

// compareRows compares rows of got with those of a golden, by position.
func compareRows(t *testing.T, what string, got []float32, want map[string][]float64) {
	t.Helper()
	if len(want) == 0 {
		t.Fatal("no rows in the golden")
	}
	var ours []float32
	var theirs []float64
	for key, row := range want {
		position, err := strconv.Atoi(key)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs = append(ours, got[position*len(row):(position+1)*len(row)]...), append(theirs, row...)
	}
	d := difference(t, ours, theirs)
	t.Logf("%s: greatest difference %.2g of the root mean square", what, d)
	if !(d < 1e-4) {
		t.Errorf("%s: off by %.2g of the root mean square", what, d)
	}
}

// TestT5Reference: random models against float64 loops over the paper's formulas, with inputs of one and of several
// chunks. Every part moves the logits by far more than the bound: those that a shape leaves out are compared with
// those that have it.
func TestT5Reference(t *testing.T) {
	const bound = 1e-4
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	float := randommodel.FlanT5()
	float.Weights = gguf.F32
	ungated, plainHead, noCount, oneEach := float, float, randommodel.SmallT5(), randommodel.SmallT5()
	ungated.Gated, plainHead.Untied = false, false
	noCount.KVs = []gguf.KV{{Key: "t5.decoder_block_count"}}
	oneEach.Encoders, oneEach.Decoders, oneEach.Heads, oneEach.Buckets = 1, 1, 1, 64
	few := randommodel.SmallT5()
	few.Buckets = 8
	for name, v := range map[string]randommodel.T5{
		"small": randommodel.SmallT5(), "flan": float, "ungated": ungated, "tied": plainHead,
		"no decoder_block_count": noCount, "one each": oneEach, "8 buckets": few} {
		file := v.File(t)
		r := newT5Reference(t, file)
		m := openDrawn(t, rt, v, Options{})
		s := newSession(t, m, SessionOptions{KV: "f32"})
		for _, n := range [][2]int{{1, 1}, {7, 30}, {140, 140}, {270, 15}} {
			if !testkit.IsLong(t) && n[0] > 100 && name != map[int]string{140: "small", 270: "flan"}[n[0]] {
				continue
			}
			input, ids := randomTokens(n[0], v.Vocab, 1), randomTokens(n[1], v.Vocab, 2)
			var states []float64
			for _, row := range r.encode(input) {
				states = append(states, row...)
			}
			encode(t, s, input)
			if d := difference(t, encoderStates(t, m, input), states); !(d < bound) {
				t.Errorf("%s, %d: the encoder's states are off by %.2g of their root mean square", name, n, d)
			}
			if d := difference(t, eval(t, s, ids, nil, All), r.logits(input, ids)); !(d < bound) {
				t.Errorf("%s, %d: the logits are off by %.2g of their root mean square", name, n, d)
			}
		}
	}
}

// TestLongT5Reference: long inputs for every variant.
func TestLongT5Reference(t *testing.T) {
	testkit.Long(t)
	TestT5Reference(t)
}

// t5Eval is the logits of ids after an input.
func t5Eval(t *testing.T, m *Model, o SessionOptions, input, ids []int32) []float32 {
	t.Helper()
	s := newSession(t, m, o)
	encode(t, s, input)
	return eval(t, s, ids, nil, All)
}

// A new input begins a new text: none of the old one's tokens are those of its drafts' vocabulary.
func TestNewInputForgetsTheTextsTokens(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.SmallT5(), Options{})
	s := newSession(t, m, SessionOptions{})
	encode(t, s, []int32{5, 6})
	f := &DraftForm{listed: make([]uint64, m.config.Vocab/64+1), text: 8}
	for _, want := range [][]int32{{1, 2, 3}, {4}} {
		eval(t, s, want, nil, None)
		if s.text.follow(f, s.tokens); !slices.Equal(s.text.ids, want) {
			t.Errorf("tokens %d, want %d", s.text.ids, want)
		}
		encode(t, s, []int32{7})
	}
}

// TestT5OneAnswer is promise P1 of the decoder: the same bits however its tokens are cut, batched with sequences of
// other inputs, drafted as trees, taken back and forked, with all kernels and numbers of threads.
func TestT5OneAnswer(t *testing.T) {
	for name, v := range map[string]randommodel.T5{"small": randommodel.SmallT5(), "flan": randommodel.FlanT5()} {
		for _, kv := range []string{"f16", "f32", "q8_0", "q4_0"} {
			quants := map[string]string{"small": "q8_0", "flan": "q4_0"} // that the quick set has
			if !testkit.IsLong(t) && kv != "f16" && (kv != quants[name] || testing.Short()) {
				continue
			}
			o := SessionOptions{KV: kv}
			input, ids := randomTokens(270, v.Vocab, 1), randomTokens(270, v.Vocab, 4)
			if testing.Short() {
				input, ids = input[:50], ids[:50]
			}
			m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 2}), v, Options{})
			want := t5Eval(t, m, o, input, ids)
			for i, simd := range asm.Available() {
				for _, threads := range []int{1, 2, 5} {
					few := min(40, len(ids))
					if testkit.IsLong(t) {
						few = len(ids)
					} else if threads != 1+i%2 {
						continue
					}
					m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: threads, SIMD: simd}), v, Options{})
					sameBits(t, fmt.Sprintf("%s, KV %s, %s, %d threads", name, kv, simd, threads),
						t5Eval(t, m, o, input, ids[:few]), want[:few*v.Vocab])
					m.Close()
				}
			}
			testInputs.Store(m, input)
			defer testInputs.Delete(m)
			for i, way := range ways {
				if !testkit.IsLong(t) && i%3 != 0 && (kv != "f16" || name == "flan" && i%3 == 1) {
					continue
				}
				sameBits(t, fmt.Sprintf("%s, KV %s, %s", name, kv, way.name), way.feed(t, m, o, ids), want)
			}
		}
	}
}

// TestLongT5OneAnswer: every cache type and number of threads, every way with each.
func TestLongT5OneAnswer(t *testing.T) {
	testkit.Long(t)
	TestT5OneAnswer(t)
}
