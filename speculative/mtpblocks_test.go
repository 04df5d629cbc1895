package speculative

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// mtpBlocks is the small qwen35 model of ../shared with several MTP blocks: its own and others of the same numbers,
// each matrix and vector turned by some rows.
func mtpBlocks(t testing.TB, rt *engine.Runtime, blocks int) (target, head *engine.Model) {
	t.Helper()
	const last = 4
	file := testkit.Shared(t, "families/models/qwen35.gguf")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(raw), int64(len(raw)), file)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []gguf.TensorSource
	add := func(name string, x gguf.Tensor, turn int) {
		rows := int64(x.Dims[len(x.Dims)-1])
		data := raw[x.Offset : x.Offset+x.Size]
		at := int64(turn) % rows * (x.Size / rows)
		tensors = append(tensors, gguf.TensorSource{Name: name, Type: x.Type, Dims: x.Dims, Write: func(w io.Writer) error {
			_, err := w.Write(slices.Concat(data[at:], data[:at]))
			return err
		}})
	}
	for _, x := range f.Tensors {
		add(x.Name, x, 0)
	}
	for i := 1; i < blocks; i++ {
		for _, x := range f.Tensors {
			if rest, ok := strings.CutPrefix(x.Name, fmt.Sprintf("blk.%d.", last)); ok {
				add(fmt.Sprintf("blk.%d.%s", last+i, rest), x, 5*i)
			}
		}
	}
	kvs := slices.DeleteFunc(slices.Clone(f.KVs), func(kv gguf.KV) bool {
		return kv.Key == "qwen35.block_count" || kv.Key == "qwen35.nextn_predict_layers"
	})
	kvs = append(kvs, gguf.KV{Key: "qwen35.block_count", Value: uint32(last + blocks)},
		gguf.KV{Key: "qwen35.nextn_predict_layers", Value: uint32(blocks)})
	open := func(o engine.Options) *engine.Model {
		o.Name = "blocks.gguf"
		return openTensors(t, rt, kvs, tensors, o)
	}
	target = open(engine.Options{})
	return target, open(engine.Options{MTP: true, Target: target})
}

// TestMTPBlocksStates: whatever is accepted, the drafts of several MTP blocks are those that they make of the whole
// text at once, and so are, bit for bit, all logits that they give for chains and trees.
func TestMTPBlocksStates(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	for _, blocks := range []int{2, 3} {
		if blocks < 3 && !testkit.IsLong(t) { // of three, one is neither the first nor the last
			continue
		}
		target, head := mtpBlocks(t, rt, blocks)
		testHeadStates(t, target, head, greedyAndSampled...)

		reference := anew{compute: headRows}
		want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 20}), matrixPrompt, engine.Sampling{})
		for name, drafter := range map[string]func(Sequence) Drafter{
			"chain": func(s Sequence) Drafter { return headed(s, headOptions{}) },
			"tree":  func(s Sequence) Drafter { return headed(s, headOptions{Tree: true}) },
			"with a record that is wrong now and then": func(s Sequence) Drafter {
				return Merge(headed(s, headOptions{Tree: true}), Replay(ReplayOptions{Tokens: want, ErrorEvery: 3}))
			},
		} {
			h := &headRecorder{Session: session(t, head, 0), rows: map[string]headLogits{}}
			d := New(session(t, target, 0), drafter(h), Options{Schedule: Constant(ConstantOptions{Length: 16}), MaxTokens: 20})
			if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) {
				t.Errorf("%d blocks, %s: got %v, want %v", blocks, name, got, want)
			}
			var last int // logits of the last block
			for _, x := range h.rows {
				if !slices.Equal(x.row, reference.row(t, target, head, x.text, x.branch)) {
					t.Errorf("%d blocks, %s: the logits after %d and %d are others than those computed anew", blocks,
						name, x.text, x.branch)
				}
				if len(x.branch) == blocks-1 {
					last++
				}
			}
			if len(h.rows) < 20 || last < 10 {
				t.Errorf("%d blocks, %s: %d rows of logits were looked at, %d of them the last block's", blocks,
					name, len(h.rows), last)
			}
		}
	}
}

// TestLongMTPBlocksStates: of two blocks too.
func TestLongMTPBlocksStates(t *testing.T) {
	testkit.Long(t)
	TestMTPBlocksStates(t)
}

// headRecorder is a head's session that keeps the logits that it gives.
type headRecorder struct {
	*engine.Session
	fed  int // tokens with the target's states
	rows map[string]headLogits
}

// headLogits are the logits after a text and drafted tokens.
type headLogits struct {
	text, branch []int32
	row          []float32
}

func (h *headRecorder) Truncate(n int) error {
	h.fed = min(h.fed, n)
	return h.Session.Truncate(n)
}

func (h *headRecorder) EvalSegment(ctx context.Context, g engine.Segment) (engine.Result, error) {
	r, err := h.Session.EvalSegment(ctx, g)
	if err != nil {
		return r, err
	}
	if g.FromTarget {
		h.fed = h.Len()
	}
	if g.Logits == engine.Last {
		text, branch := slices.Clone(h.Tokens()[:h.fed]), slices.Clone(h.Tokens()[h.fed:])
		h.rows[fmt.Sprint(text, branch)] = headLogits{text, branch, slices.Clone(r.Logits.Row(0))}
	}
	return r, err
}

// TestMTPBlocksIdentity: promise P2 with several MTP blocks, by themselves and beside lookups, which go on after the
// last block; alone and in passes that several texts share.
func TestMTPBlocksIdentity(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	const blocks = 3
	target, head := mtpBlocks(t, rt, blocks)
	ctx := context.Background()
	for turn, s := range []engine.Sampling{{}, {Temperature: 0.8, TopP: 0.95, Seed: 1}} {
		prompt := slices.Repeat(matrixPrompt, 2)
		want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 40}), prompt, s)
		for i, drafter := range []named[Drafter]{
			{"merged", func() Drafter {
				return Merge(headed(session(t, head, 0), headOptions{}),
					Replay(ReplayOptions{Tokens: want, ErrorEvery: 5}))
			}},
			{"chain", func() Drafter { return headed(session(t, head, 0), headOptions{}) }},
			{"tree", func() Drafter { return Tree(session(t, head, 0), TreeOptions{}) }},
			{"splice", func() Drafter { return Splice(session(t, head, 0), TreeOptions{}) }},
			{"short", func() Drafter { return headed(session(t, head, 32), headOptions{}) }},
		} {
			for k, schedule := range matrixSchedules(6) {
				if (i+k+turn)%2 > 0 && !testkit.IsLong(t) {
					continue // each drafter has each schedule, greedily or sampled
				}
				name, deepest := drafter.name, 0
				o := Options{Schedule: schedule.make(), MaxTokens: 40, Trace: func(r *Round) {
					for i := range r.Draft.Len() {
						deepest = max(deepest, r.Draft.Depth(i))
					}
				}}
				d := New(session(t, target, 0), drafter.make(), o)
				for range 2 {
					if got, _ := collect(t, d, prompt, s); !slices.Equal(got, want) {
						t.Errorf("%+v, %s, %s:\n got %v\nwant %v", s, name, schedule.name, got, want)
					}
				}
				if n := d.Stats().Drafted; n == 0 && schedule.name != "auto" {
					t.Errorf("%s, %s: nothing was drafted", name, schedule.name)
				}
				if (name == "chain" || name == "short") && deepest > blocks {
					t.Errorf("%s, %s: a draft of %d tokens", name, schedule.name, deepest)
				}
				if name == "merged" && schedule.name == "constant" && deepest <= blocks {
					t.Errorf("%s, %s: drafts end at %d tokens with the last block", name, schedule.name, deepest)
				}
			}
		}
		targets, heads := shared.New(target, shared.Options{}), shared.New(head, shared.Options{})
		var all sync.WaitGroup
		for i := range 3 {
			ts, err := targets.NewSession(ctx, shared.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			hs, err := heads.NewSession(ctx, shared.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				defer ts.Close()
				defer hs.Close()
				d := New(ts, headed(hs, headOptions{Tree: i == 2}),
					Options{Schedule: Constant(ConstantOptions{Length: 2 + i}), MaxTokens: 40})
				var got []int32
				for token, err := range d.Generate(ctx, prompt, s) {
					if err != nil {
						t.Error(err)
						return
					}
					got = append(got, token.ID)
				}
				if !slices.Equal(got, want) || d.Stats().Drafted == 0 {
					t.Errorf("%+v, shared: got %v, want %v; %d drafted", s, got, want, d.Stats().Drafted)
				}
			})
		}
		all.Wait()
		targets.Close()
		heads.Close()
	}
}

// TestLongMTPBlocksIdentity: every drafter and schedule greedily and sampled.
func TestLongMTPBlocksIdentity(t *testing.T) {
	testkit.Long(t)
	TestMTPBlocksIdentity(t)
}

// Rounds with several MTP blocks allocate nothing.
func TestMTPBlocksAllocateNothing(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, head := mtpBlocks(t, rt, 3)
	d := New(session(t, target, 0), headed(session(t, head, 0), headOptions{}),
		Options{Schedule: Constant(ConstantOptions{Length: 3})})
	roundsAllocateNothing(t, "a chain", d, engine.Sampling{})
}

// TestHeadReadsAgainBehindItsWindow: a head whose layers have windows drafts for a text that has the beginning of a
// long one in common with it as for one that it reads first.
func TestHeadReadsAgainBehindItsWindow(t *testing.T) {
	const n, beginning = 1000, 60
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	o := engine.Options{Override: []gguf.KV{{Key: "mimo2.context_length", Value: int64(2048)}}}
	open := func() *engine.Model {
		m, err := engine.Open(context.Background(), rt, testkit.Shared(t, "families/models/mimo2.gguf"), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	target := open()
	o.MTP, o.Target = true, target
	head := open()
	var long []int32
	for i := range int32(n) {
		long = append(long, 3+i*i%61)
	}
	short := append(slices.Clone(long[:beginning]), 5, 6, 7)
	drafts := func(prompts ...[]int32) map[string]headLogits {
		h := &headRecorder{Session: session(t, head, 0)}
		d := New(session(t, target, 0), headed(h, headOptions{}), Options{Schedule: Constant(ConstantOptions{Length: 2}),
			MaxTokens: 4})
		for _, prompt := range prompts {
			h.rows = map[string]headLogits{}
			collect(t, d, prompt, engine.Sampling{})
		}
		return h.rows
	}
	want, got := drafts(short), drafts(long, short)
	if len(want) == 0 || len(got) != len(want) {
		t.Fatalf("%d rows of logits, expected %d", len(got), len(want))
	}
	for key, x := range want {
		if !slices.Equal(got[key].row, x.row) {
			t.Errorf("the logits after %d tokens and %d drafted are others than of a new head", len(x.text), len(x.branch))
		}
	}

	// What a kept sequence gives of a text ends where the windows of what is kept just reach: a token less is none.
	heads := shared.New(head, shared.Options{KVBytes: 1 << 30})
	defer heads.Close()
	for _, prompt := range [][]int32{long, long[:engine.KVPage+head.Caches(0)[0].Window-1]} {
		s, err := heads.NewSession(context.Background(), shared.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d := New(session(t, target, 0), headed(s, headOptions{}), Options{Schedule: Constant(ConstantOptions{Length: 2}),
			MaxTokens: 4})
		if ids, _ := collect(t, d, prompt, engine.Sampling{}); len(ids) != 4 {
			t.Errorf("%d tokens", len(ids))
		}
		s.Close()
	}
	if n := heads.Stats().PrefixHits; n != 1 {
		t.Errorf("%d sequences went on from a kept one, expected 1", n)
	}
}
