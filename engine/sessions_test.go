package engine

import (
	"bytes"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// What sessions take beside weights is pages of keys and values, states and rows of logits, counted by hand; a plan
// under a limit for all leaves it to them.
func TestSessionsBesideWeights(t *testing.T) {
	d := &Description{
		Config: Config{Context: 1000, Vocab: 10},
		Caches: []CacheShape{{Layers: 2, Heads: 3, HeadDim: 4}, {Layers: 1, Heads: 3, HeadDim: 4, Window: 8}},
		MTP:    []CacheShape{{Layers: 1, Heads: 3, HeadDim: 4}},
	}
	const slot = 2 * 3 * 4 * 4 // bytes of a position of a layer, in f32
	window := int64((8+windowSlack+KVPage-1)/KVPage*KVPage + KVPage)
	for _, c := range []struct {
		s            Sessions
		want, logits int64
	}{
		{Sessions{}, 0, 0},
		{Sessions{Count: 1, Tokens: 1, KV: "f32", Rows: 3}, slot * (2*KVPage + 2*KVPage), 120},
		{Sessions{Count: 2, KV: "f32", Rows: 1}, 2 * slot * (2*4*KVPage + window), 80},
		{Sessions{Count: 2, Tokens: 9999, KV: "f32", Heads: true}, 2 * slot * (3*4*KVPage + window), 0},
		{Sessions{Count: 2, KV: "f32", KVBytes: 77}, 77, 0}, {Sessions{Count: 2, KVBytes: 77, Heads: true}, 154, 0},
	} {
		if got := c.s.Bytes(d); got != c.want || c.s.Logits(d) != c.logits {
			t.Errorf("%+v: %d bytes and %d of logits, want %d and %d", c.s, got, c.s.Logits(d), c.want, c.logits)
		}
	}
	data := testdata.Target()
	all := make([]byte, data.Size())
	if _, err := data.ReadAt(all, 0); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(all), int64(len(all)), "target")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := PlanMemory(f, Options{}, Sessions{})
	if err != nil {
		t.Fatal(err)
	}
	s := Sessions{Count: 3, Tokens: 300, Rows: 33}
	limit := plain.Least + 1<<20
	alone, err := PlanMemory(f, Options{Memory: limit}, Sessions{})
	if err != nil {
		t.Fatal(err)
	}
	target, err := Describe(f)
	if err != nil {
		t.Fatal(err)
	}
	beside := s.Bytes(target) + s.Logits(target)
	with, err := PlanMemory(f, Options{Memory: limit + beside}, s)
	if err != nil || with.Resident != alone.Resident || with.Sessions != beside || with.Limit != limit+beside ||
		with.Least != plain.Least+beside {
		t.Errorf("%v: %+v, without sessions %+v", err, with, alone)
	}
	if _, err := PlanMemory(f, Options{Memory: with.Least - 1}, s); err == nil {
		t.Error("a limit that is a byte too low suffices")
	}
}

// A plan counts the rows of a draft vocabulary: of the MTP blocks of a target's own file, of a draft model, and none
// where drafts have all tokens or nothing drafts.
func TestPlanCountsTheDraftVocabulary(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	data := mtpRecipe("qwen35", 2, true).File(t) // two blocks, each with an output matrix of its own
	f, err := gguf.Open(bytes.NewReader(data), int64(len(data)), "mtp")
	if err != nil {
		t.Fatal(err)
	}
	target, head := openMTP(t, rt, data, Options{})
	beside := func(o Options, heads bool, tokens int) int64 {
		plan, err := PlanMemory(f, o, Sessions{Heads: heads, DraftVocab: tokens, DraftText: 16})
		if err != nil {
			t.Fatal(err)
		}
		return plan.Sessions
	}
	const tokens = 48
	rows := head.DraftVocabBytes(tokens, 16)
	if ofTarget, err := DraftVocabBytes(f, tokens, 16); err != nil || ofTarget == 0 || rows != 2*ofTarget {
		t.Fatalf("the blocks' rows have %d bytes, the target's %d: %v", rows, ofTarget, err)
	}
	vocab := target.Config().Vocab
	for _, c := range []struct {
		what   string
		o      Options
		heads  bool
		tokens int
		want   int64
	}{
		{"blocks of its own file", Options{}, true, tokens, rows},
		{"a draft", Options{MTP: true, Target: target}, false, tokens, rows},
		{"nothing drafts", Options{}, false, tokens, 0},
		{"all tokens", Options{}, true, vocab, 0},
	} {
		if got := beside(c.o, c.heads, c.tokens) - beside(c.o, c.heads, 0); got != c.want {
			t.Errorf("%s: %d bytes for the draft vocabulary, want %d", c.what, got, c.want)
		}
	}
}
