package spec_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// A room is divided among weights, sequences, logits and what is kept, to the byte; a limit that is a byte too low is
// an error that says so.
func TestRoomIsDivided(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	target, err := engine.New(t.Context(), rt, testdata.Target(), testdata.Target().Size(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	draft, err := engine.New(t.Context(), rt, testdata.Draft(), testdata.Draft().Size(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := engine.Sessions{Count: 3, Tokens: 300, Rows: 30}
	kv, draftKV := s.Bytes(target.Describe()), s.Bytes(draft.Describe())
	all := target.Bytes() + draft.Bytes() + kv + draftKV + s.Logits(target.Describe()) +
		engine.Sessions{Count: 3, Rows: 1}.Logits(draft.Describe())
	form := target.PlanDraftForm().Bytes // which requests may ask for where nothing is kept less for it
	row := int64(s.Count) * int64(target.Config().Vocab) * 4
	own := s.DraftLogits(target.Describe()) // of drafts by the form
	const gib = 1 << 30
	for name, c := range map[string]struct {
		room spec.Room
		want spec.Memory
	}{
		"no limit":            {spec.Room{Machine: 64 * gib}, spec.Memory{Cache: 8 * gib, DraftForm: form}},
		"a small machine":     {spec.Room{Machine: 8 * gib}, spec.Memory{Cache: gib, DraftForm: form}},
		"a machine too small": {spec.Room{Machine: all}, spec.Memory{Cache: -1}},
		"unknown machine":     {spec.Room{}, spec.Memory{Cache: 8 * gib, DraftForm: form}},
		"none is kept":        {spec.Room{Limit: all, Kept: -1}, spec.Memory{KV: kv, DraftKV: draftKV, Cache: -1, Rows: 30}},
		"no bound": {spec.Room{Limit: all + kv + draftKV, Kept: math.MaxInt64},
			spec.Memory{KV: 2 * kv, DraftKV: 2 * draftKV, Cache: kv + draftKV, Rows: 30}},
		"what is asked": {spec.Room{Limit: all + 1000, Kept: 1000}, spec.Memory{KV: kv + draftKV + 1000, Cache: 1000,
			Rows: 30}},
		"more rows": {spec.Room{Limit: all + 7*row + 1000, Kept: 1000}, spec.Memory{KV: kv + draftKV + 1000, Cache: 1000,
			Rows: 37}},
		"less than a row": {spec.Room{Limit: all + 7*row - 1, Kept: -1}, spec.Memory{KV: kv, DraftKV: draftKV, Cache: -1,
			Rows: 36}},
		"a form beside": {spec.Room{Limit: all + form + own + 7*row, Kept: -1}, spec.Memory{KV: kv, DraftKV: draftKV,
			Cache: -1, DraftForm: form, Rows: 37}},
		"a form without its logits": {spec.Room{Limit: all + form + own - 1, Kept: -1, Machine: 1}, spec.Memory{KV: kv,
			DraftKV: draftKV, Cache: -1, Rows: 30 + int((form+own-1)/row)}},
		"a form": {spec.Room{Limit: all + form + own, Kept: -1, DraftForm: true}, spec.Memory{KV: kv, DraftKV: draftKV,
			Cache: -1, DraftForm: form, Rows: 30}},
		"not even a form": {spec.Room{Limit: all + form + own - 1, Kept: -1, DraftForm: true}, spec.Memory{}},
		"a byte":          {spec.Room{Limit: all + 1000, Kept: 1001}, spec.Memory{}},
		"not even":        {spec.Room{Limit: all - 1, Kept: -1}, spec.Memory{}},
	} {
		c.room.Sessions = s
		got, err := c.room.Divide(target, draft)
		var low *spec.MemoryError
		if errors.As(err, &low) != (c.want == spec.Memory{}) || low != nil && low.Need != low.Limit+1 ||
			low != nil && !errors.Is(err, spec.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
		if c.room.Kept == 1000 && err == nil { // the parts are rounded
			if part := got.DraftKV - draftKV; part <= 0 || part >= 1000 {
				t.Errorf("%s: the draft has %d of it", name, part)
			}
			got.KV, got.DraftKV = got.KV+got.DraftKV, 0
		}
		if err == nil && got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for name, room := range map[string]spec.Room{
		"nearly all numbers kept": {Limit: gib, Kept: math.MaxInt64 - 1, Sessions: s},
		"nearly all for keys":     {Limit: gib, Kept: -1, Sessions: engine.Sessions{Count: 1, KVBytes: math.MaxInt64 - 1}},
	} {
		var low *spec.MemoryError
		if _, err := room.Divide(target, draft); !errors.As(err, &low) || low.Need <= low.Limit {
			t.Errorf("%s: %v", name, err)
		}
	}
	bounded := s
	bounded.KVBytes = 5 << 20
	if m, err := (spec.Room{Limit: gib, Sessions: bounded, Kept: 7 << 20}).Divide(target, draft); err != nil ||
		m.KV != 5<<20 || m.DraftKV != 5<<20 || m.Cache != 7<<20 {
		t.Errorf("sequences with a bound: %+v, %v", m, err)
	}
}

// Of a model that texts go through whole, a limit leaves room for a text as long as a sequence; one that needs more is
// refused, not computed beyond the limit.
func TestTextsKeepToTheMemory(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	file := testdata.Target()
	target, err := engine.New(t.Context(), rt, file, file.Size(), engine.Options{Name: "m",
		Override: []gguf.KV{{Key: "llama.pooling_type", Value: int64(engine.PoolMean)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	const tokens = 400
	d, room := target.Describe(), spec.Room{Limit: 1, Kept: -1, Sessions: engine.Sessions{Count: 1, Tokens: tokens}}
	text := d.TextBytes(tokens)
	var low *spec.MemoryError
	_, err = room.Divide(target, nil)
	if want := target.Bytes() + room.Sessions.Bytes(d) + text; !errors.As(err, &low) || low.Need != want || text == 0 {
		t.Fatalf("%v, want %d with %d for a text", err, want, text)
	}
	room.Limit = low.Need
	memory, err := room.Divide(target, nil)
	if err != nil || memory.Text != text {
		t.Fatalf("%+v, %v", memory, err)
	}
	m, err := spec.New(spec.Parts{Target: target}, spec.Options{Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for n, fits := range map[int]bool{1: true, tokens: true, tokens + 1: false} {
		_, err := m.EmbedTokens(t.Context(), []spec.Prompt{{IDs: slices.Repeat([]int32{5}, n)}})
		var wrong *spec.RequestError
		if fits != (err == nil) || !fits && (!errors.As(err, &wrong) || wrong.Code != spec.CodeContext ||
			wrong.Context != tokens || !strings.Contains(wrong.Reason, "--memory")) {
			t.Errorf("%d tokens: %v", n, err)
		}
	}
}
