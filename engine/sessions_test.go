package engine

import (
	"bytes"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
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
		{Sessions{Count: 2, KV: "f32", Rows: 1}, 2 * slot * (2*4*KVPage + window), 160},
		{Sessions{Count: 3, Tokens: 1, KV: "f32", Rows: 50}, 3 * slot * (2*KVPage + 2*KVPage), 40 * (150 + headRows)},
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

// A plan counts the logits of what drafts: a row of each sequence, of a head that drafts blocks those of a block, as
// far as a pass of the target verifies so many; and the target's states that a head keeps.
func TestPlanCountsTheLogitsOfDrafts(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target, head := openDFlash(t, rt, randommodel.DFlash{}, Options{})
	mtp := mtpRecipe("qwen35", 2, true).File(t)
	own, ownHead := openMTP(t, rt, mtp, Options{})
	file, err := gguf.Open(bytes.NewReader(mtp), int64(len(mtp)), "mtp")
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := Describe(file)
	if err != nil {
		t.Fatal(err)
	}
	s := Sessions{Count: 3, Tokens: 300, Rows: 33}
	few, heads, itself := s, s, s
	few.Rows, heads.Heads, itself.Own = 2, true, true
	planned := func(data []byte, o Options, s Sessions) int64 {
		f, err := gguf.Open(bytes.NewReader(data), int64(len(data)), "m")
		if err != nil {
			t.Fatal(err)
		}
		plan, err := PlanMemory(f, o, s)
		if err != nil {
			t.Fatal(err)
		}
		return plan.Sessions
	}
	rows := func(m *Model, n int) int64 { return Sessions{Count: 3, Rows: n}.Logits(m.Describe()) }
	states := func(head *Model) int64 { return 3 * 4 * PassRows * int64(head.Head().TargetStates()) * 4 }
	d, of := target.Describe(), Options{Target: target}
	llama, dflash := randommodel.Llama().File(t), randommodel.DFlash{}.File(t)
	for name, c := range map[string]struct{ got, want int64 }{
		"a draft model": {planned(llama, of, s), 2*s.Bytes(d) + s.Logits(d) + rows(target, 1)},
		"a block": {planned(dflash, of, s), s.Bytes(d) + s.Bytes(head.Describe()) + s.Logits(d) +
			rows(head, randommodel.DFlashBlock) + states(head)},
		"a part of a block": {planned(dflash, of, few), s.Bytes(d) + s.Bytes(head.Describe()) + few.Logits(d) +
			rows(head, 2) + states(head)},
		"blocks of its own file": {planned(mtp, Options{}, heads), heads.Bytes(blocks) + heads.Logits(own.Describe()) +
			rows(own, 1) + states(ownHead)},
		"its file beforehand": {s.DraftBytes(d, d), s.Bytes(d) + rows(target, 1)},
		"a head's file beforehand": {s.DraftBytes(d, nil), s.Bytes(d)/int64(d.Config.Layers) + rows(target, 1) +
			3*4*PassRows*5*int64(d.Config.HiddenSize)*4},
		"the model itself": {planned(llama, Options{}, itself) - planned(llama, Options{}, s), rows(target, 1)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, c.got, c.want)
		}
	}
}

// A plan counts what a text takes that goes through an embedding model whole, beyond the tokens of other passes: no
// less than its activations, and not many times as much. Other models take nothing of the kind.
func TestPlanCountsTextsThatGoThroughWhole(t *testing.T) {
	s := randommodel.Llama()
	plain, sessions := s.File(t), Sessions{Count: 3, Tokens: 400}
	s.KVs = []gguf.KV{{Key: "llama.pooling_type", Value: uint32(PoolMean)}}
	embedding := s.File(t)
	planned := func(data []byte) int64 {
		f, err := gguf.Open(bytes.NewReader(data), int64(len(data)), "m")
		if err != nil {
			t.Fatal(err)
		}
		plan, err := PlanMemory(f, Options{}, sessions)
		if err != nil {
			t.Fatal(err)
		}
		return plan.Sessions
	}
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m := openDrawn(t, rt, s, Options{})
	row := m.Describe().TextRow
	if got, want := planned(embedding)-planned(plain), (400-passRows)*row; got != want || want == 0 {
		t.Errorf("%d bytes for a text of 400 tokens, want %d", got, want)
	}
	if sessions.Count = 0; planned(embedding) != 0 {
		t.Error("a text is counted where there is none")
	}
	if other := openDrawn(t, rt, randommodel.Llama(), Options{}); other.Describe().TextRow != 0 {
		t.Error("texts go whole through a model that writes")
	}
	embed(t, m, EmbedOptions{Pooling: PoolMean}, randomTokens(passRows, m.config.Vocab, 1))
	rt.t.Lock() // until the pass is over
	defer rt.t.Unlock()
	a := &rt.pass.activations
	took := int64(0)
	for _, x := range [][]float32{a.x, a.h, a.y, a.q, a.k, a.v, a.a, a.gate, a.up, a.wide, a.other, a.inputs, a.factors} {
		took += 4 * int64(cap(x)) / passRows
	}
	took += 4 * int64(max(m.config.HiddenSize, m.config.FeedForward)) // the input of a product
	if took > row || row > 3*took {
		t.Errorf("%d bytes of a token are counted, it takes %d", row, took)
	}
}

// The logits of a pass are in no more memory than is planned for them, however many rows its sequences have.
func TestLogitsTakeWhatIsPlanned(t *testing.T) {
	for _, s := range []Sessions{{Count: 1, Rows: 70}, {Count: 2, Rows: 1}, {Count: 3, Rows: 7}, {Count: 20, Rows: 5},
		{Count: 3, Rows: 33}} {
		rt := newRuntime(t, RuntimeOptions{Threads: 1})
		m, err := New(t.Context(), rt, testdata.Target(), testdata.Target().Size(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var batch Batch
		tokens := make([]int32, s.Rows)
		for range s.Count {
			one, err := m.NewSession(SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			batch = append(batch, Segment{Session: one, Tokens: tokens, Logits: All})
		}
		if _, err := m.Forward(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		took := int64(cap(rt.pass.logits))
		for _, g := range batch {
			took += int64(cap(g.Session.logits))
		}
		if took *= 4; took > s.Logits(m.Describe()) || took < s.Logits(m.Describe())/2 {
			t.Errorf("%+v: %d bytes, planned %d", s, took, s.Logits(m.Describe()))
		}
	}
}
