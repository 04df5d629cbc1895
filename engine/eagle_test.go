package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// draftGolden is what an independent engine computes with a draft head.
type draftGolden struct {
	Draft, Target string
	IDs           []int32
	Next          int32
	Fed, Logits   map[string][]float64
	Chain         []struct {
		ID     int32
		Logits []float64
	}
}

func readDraftGolden(t *testing.T, name string) draftGolden {
	t.Helper()
	return readDraftGoldenAt(t, testkit.Shared(t, "families/models/golden/"+name))
}

func readDraftGoldenAt(t *testing.T, path string) (g draftGolden) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestEagleGolden: an EAGLE-3 head step by step against an independent engine: what fc makes of the target's states,
// the logits at the positions of a prompt, and a chain of five drafted tokens.
func TestEagleGolden(t *testing.T) {
	g := readDraftGolden(t, "draft-eagle3.json")
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	open := func(name string, o Options) *Model {
		m, err := Open(context.Background(), rt, testkit.Shared(t, "families/models/"+name), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	target := open(g.Target, Options{})
	head := open(g.Draft, Options{Target: target})
	if layers := head.TargetLayers(); !slices.Equal(layers, []int{0, 1, 2}) || target.TargetLayers() != nil {
		t.Fatalf("target layers %d", layers)
	}
	out, err := newSession(t, target, SessionOptions{KV: "f32"}).EvalSegment(
		context.Background(), Segment{Tokens: g.IDs, Logits: Last, Hidden: All, Layers: head.TargetLayers()})
	if err != nil {
		t.Fatal(err)
	}
	if next := greatest(out.Logits.Row(0)); next != g.Next {
		t.Fatalf("the target goes on with %d, expected %d", next, g.Next)
	}
	s := newSession(t, head, SessionOptions{KV: "f32"})
	tokens := append(slices.Clone(g.IDs[1:]), g.Next)
	steps, err := s.EvalSegment(context.Background(),
		Segment{Tokens: tokens, States: out.Hidden.Data, FromTarget: true, Logits: All, Hidden: All, Layers: []int{0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	known := head.net.(*eagle).ids
	compare := func(what string, row []float32, want []float64) {
		t.Helper()
		inDraftIDs := []float32(nil)
		for _, id := range known {
			inDraftIDs = append(inDraftIDs, row[id])
		}
		if worst := difference(t, inDraftIDs, want); !(worst < 1e-4) {
			t.Errorf("%s: the logits are off by %g", what, worst)
		}
		others := 0
		for _, x := range row {
			if x == unlisted {
				others++
			}
		}
		if others != len(row)-len(known) {
			t.Errorf("%s: %d of %d logits are -Inf, the head knows %d tokens", what, others, len(row), len(known))
		}
	}
	if len(g.Fed) != 4 || len(g.Logits) != 4 || len(g.Chain) != 5 {
		t.Fatal("the golden is not what it should be")
	}
	for key, want := range g.Fed {
		i, _ := strconv.Atoi(key)
		if worst := difference(t, steps.Hidden.At(i, 0), want); !(worst < 1e-4) {
			t.Errorf("position %s: the fed state is off by %g", key, worst)
		}
	}
	for key, want := range g.Logits {
		i, _ := strconv.Atoi(key)
		compare("position "+key, steps.Logits.Row(i), want)
	}
	row, y := slices.Clone(steps.Logits.Row(39)), slices.Clone(steps.Hidden.At(39, 1))
	for i, step := range g.Chain {
		compare(fmt.Sprint("step ", i), row, step.Logits)
		id := greatest(row)
		if id != step.ID {
			t.Fatalf("step %d drafts %d, expected %d", i, id, step.ID)
		}
		next, err := s.EvalSegment(context.Background(),
			Segment{Tokens: []int32{id}, States: y, Logits: Last, Hidden: Last, Layers: []int{1}})
		if err != nil {
			t.Fatal(err)
		}
		row, y = slices.Clone(next.Logits.Row(0)), slices.Clone(next.Hidden.Row(0))
	}
}

// statesFor is the target's hidden states for a head, for ids.
func statesFor(tb testing.TB, target, head *Model, ids []int32) []float32 {
	tb.Helper()
	return evalHidden(tb, newSession(tb, target, SessionOptions{}),
		Segment{Tokens: ids, Hidden: All, Layers: head.TargetLayers()})
}

// TestEagleOneAnswer: promise P1 for heads, with and without norms, a vocabulary and weights of their own: states of
// the target and of the head's own in chunks, batches of both and trees, on all kernels and threads.
func TestEagleOneAnswer(t *testing.T) {
	for name, e := range map[string]randommodel.Eagle{"plain": {}, "own": {Own: true, Norms: true},
		"each": {Each: true, Keys: map[string]gguf.Value{"norm_output": true}}} {
		if name == "each" && !testkit.IsLong(t) {
			continue
		}
		for _, weights := range []string{"f32", "q8_0"} {
			var states, want, own []float32
			for i, simd := range slices.Backward(asm.Available()) { // the best kernels first
				rt := newRuntime(t, RuntimeOptions{Threads: 1 + i%2, SIMD: simd})
				target := openDrawn(t, rt, randommodel.Llama(), Options{Weights: weights})
				head, err := openBytes(t, rt, e.File(t), "head.gguf", Options{Target: target, Weights: weights})
				if err != nil {
					t.Fatal(err)
				}
				const n, d, v = 290, 64, 70
				ids := randomTokens(n+1, v, 3)
				if states == nil {
					states = statesFor(t, target, head, ids[:n])
				}
				layers := []int{0, 1}
				row := func(r Result, i int) []float32 { return append(slices.Clone(r.Logits.Row(i)), r.Hidden.Row(i)...) }
				rows := func(r Result) (all []float32) {
					for i := range r.Logits.Rows() {
						all = append(all, row(r, i)...)
					}
					return all
				}
				segment := func(s *Session, from, to int) Segment {
					return Segment{Session: s, Tokens: ids[from+1 : to+1], States: states[from*3*d : to*3*d], FromTarget: true,
						Logits: All, Hidden: All, Layers: layers}
				}
				if want == nil {
					s := newSession(t, head, SessionOptions{})
					want = rows(forward(t, head, Batch{segment(s, 0, n)})[0])
					// Then a chain on its own states, one token at a time.
					y := want[len(want)-d:]
					for j := range int32(5) {
						out := forward(t, head, Batch{{Session: s, Tokens: []int32{j}, States: y, Logits: All,
							Hidden: All, Layers: layers}})
						own = append(own, rows(out[0])...)
						y = own[len(own)-d:]
					}
				}
				width := v + 2*d
				for _, size := range []int{1, 13, 290} {
					if size != 13 && i < len(asm.Available())-1 && !testkit.IsLong(t) { // every size with the best kernels
						continue
					}
					s, other := newSession(t, head, SessionOptions{}), newSession(t, head, SessionOptions{})
					var got []float32
					for from := 0; from < n; from += size {
						to := min(n, from+size)
						b := Batch{segment(other, 0, 1), segment(s, from, to)}
						if from%2 == 1 { // states of both kinds in one pass
							b[0].States, b[0].FromTarget = want[len(want)-d:], false
						}
						got = append(got, rows(forward(t, head, b)[1])...)
						if err := other.Truncate(0); err != nil {
							t.Fatal(err)
						}
					}
					sameBits(t, fmt.Sprint(name, " ", weights, " ", simd, ", chunks of ", size), got, want)
				}
				// The chain as the last path of a tree, level by level: each token after a wrong sibling that has the same parent.
				s := newSession(t, head, SessionOptions{})
				forward(t, head, Batch{segment(s, 0, n)})
				var tokens, parents, path []int32
				var fed []float32
				parent, y := int32(-1), want[len(want)-d:]
				for j := range int32(5) {
					tokens, parents = append(tokens, j+9, j), append(parents, parent, parent)
					fed = append(append(fed, y...), y...)
					parent = int32(len(tokens) - 1)
					path = append(path, parent)
					out := forward(t, head, Batch{{Session: s, Tokens: tokens, Parents: parents, States: fed, Logits: All,
						Hidden: All, Layers: layers}})[0]
					at := int(j) * width
					sameBits(t, fmt.Sprint(name, " ", weights, " ", simd, ", tree, depth ", j),
						row(out, int(parent)), own[at:at+width])
					y = own[at+width-d : at+width]
				}
				if err := s.Commit(path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestLongEagleOneAnswer: every kind of head, every size of chunks with every kernel set.
func TestLongEagleOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestEagleOneAnswer(t)
}

// TestEagleOptions: every option moves the logits, and a head with the target's matrices copied into it is the head
// that shares them.
func TestEagleOptions(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target := openDrawn(t, rt, randommodel.Llama(), Options{})
	ids := randomTokens(20, 70, 1)
	logits := func(e randommodel.Eagle) []float32 {
		m, err := openBytes(t, rt, e.File(t), "head.gguf", Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		out, err := newSession(t, m, SessionOptions{}).EvalSegment(
			context.Background(), Segment{Tokens: ids, States: statesFor(t, target, m, ids), FromTarget: true, Logits: Last})
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(out.Logits.Data)
	}
	seen := map[string]string{}
	for name, e := range map[string]randommodel.Eagle{
		"plain": {}, "own": {Own: true}, "both norms": {Norms: true}, "a norm for each": {Each: true},
		"norm before residual": {Keys: map[string]gguf.Value{"norm_before_residual": true}},
		"other layers":         {Keys: map[string]gguf.Value{"target_layers": []uint32{0, 1, 2}}},
		"base":                 {Keys: map[string]gguf.Value{"rope.freq_base": float32(100)}},
		"epsilon":              {Keys: map[string]gguf.Value{"attention.layer_norm_rms_epsilon": float32(0.1)}},
	} {
		key := fmt.Sprint(logits(e))
		if seen[key] != "" {
			t.Errorf("%s and %s give the same logits", name, seen[key])
		}
		seen[key] = name
	}
}

// TestEagleNorms: EAGLE-3.1's two norms. A head with a norm for each of the target's states is one without that is fed
// the normalized states; one that gives what its output norm makes goes on from that.
func TestEagleNorms(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target := openDrawn(t, rt, randommodel.Llama(), Options{})
	ids := randomTokens(9, 70, 1)
	open := func(e randommodel.Eagle) (*Model, *reference) {
		file := e.File(t)
		m, err := openBytes(t, rt, file, "head.gguf", Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		return m, newReference(t, file)
	}
	// normed are rows that are normalized with the weights of tensors, one after the other.
	normed := func(r *reference, x []float32, names ...string) (y []float32) {
		for i := 0; i < len(x); i += 64 {
			var row []float64
			for _, v := range x[i : i+64] {
				row = append(row, float64(v))
			}
			for _, v := range r.normalize(row, r.t[names[i/64%len(names)]], nil) {
				y = append(y, float32(v))
			}
		}
		return y
	}
	text := func(m *Model, states []float32) (*Session, Result) {
		s := newSession(t, m, SessionOptions{KV: "f32"})
		g := Segment{Session: s, Tokens: ids, States: states, FromTarget: true, Logits: Last, Hidden: Last, Layers: []int{1}}
		return s, forward(t, m, Batch{g})[0]
	}
	wide := func(x []float32) (y []float64) {
		for _, v := range x {
			y = append(y, float64(v))
		}
		return y
	}
	plain, _ := open(randommodel.Eagle{})
	each, r := open(randommodel.Eagle{Each: true, Keys: map[string]gguf.Value{"norm_output": true}})
	if plain.Head().Output != 1 || each.Head().Output != FinalNorm {
		t.Errorf("the states of layers %d and %d go in with the next tokens", plain.Head().Output, each.Head().Output)
	}
	states := statesFor(t, target, plain, ids)
	for i := range states {
		states[i] *= 3 // far from normalized
	}
	s, got := text(each, states)
	same, want := text(plain, normed(r, states, "fc_norm.0.weight", "fc_norm.1.weight", "fc_norm.2.weight"))
	if worst := difference(t, got.Logits.Data, wide(want.Logits.Data)); !(worst < 1e-4) {
		t.Errorf("a norm for each state: off by %g", worst)
	}
	y := normed(r, want.Hidden.Data, "output_norm.weight")
	step := func(m *Model, s *Session, y []float32) Result {
		g := Segment{Session: s, Tokens: []int32{5}, States: y, Logits: Last, Hidden: Last, Layers: []int{m.Head().Output}}
		return forward(t, m, Batch{g})[0]
	}
	ahead := step(each, s, y)
	next := step(plain, same, y)
	if worst := difference(t, ahead.Logits.Data, wide(next.Logits.Data)); !(worst < 1e-4) {
		t.Errorf("a step: off by %g", worst)
	}
	y = normed(r, next.Hidden.Data, "output_norm.weight")
	if worst := difference(t, ahead.Hidden.Data, wide(y)); !(worst < 1e-4) {
		t.Errorf("what a step gives the next one: off by %g", worst)
	}
}

func TestEagleRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target := openDrawn(t, rt, randommodel.Llama(), Options{})
	wide := randommodel.Llama()
	wide.Width = 96
	other := openDrawn(t, rt, wide, Options{})
	gpt := openDrawn(t, rt, randommodel.GPT2(), Options{})
	key := func(k string, v gguf.Value) randommodel.Eagle {
		return randommodel.Eagle{Keys: map[string]gguf.Value{k: v}}
	}
	for name, c := range map[string]struct {
		e      randommodel.Eagle
		target *Model
		want   error
		says   string
	}{
		"no target":      {randommodel.Eagle{}, nil, ErrMissing, "token_embd.weight"},
		"another width":  {randommodel.Eagle{}, other, ErrValue, "target_hidden_size"},
		"positions":      {randommodel.Eagle{}, gpt, ErrUnsupported, "token_embd.weight"},
		"no layers":      {key("target_layers", nil), target, ErrValue, "target_layers"},
		"two layers":     {key("target_layers", []int32{0, 1}), target, ErrValue, "target_layers"},
		"layer beyond":   {key("target_layers", []int32{0, 1, 3}), target, ErrValue, "target_layers"},
		"negative layer": {key("target_layers", []int32{0, -1, 2}), target, ErrValue, "target_layers"},
		"two blocks":     {key("block_count", uint32(2)), target, ErrValue, "block_count"},
		"unknown key":    {key("attention.sliding_window", uint32(9)), target, ErrUnsupported, "sliding_window"},
		"no hidden size": {key("target_hidden_size", nil), target, gguf.ErrMissing, "target_hidden_size"},
		"unknown tensor": {randommodel.Eagle{More: "blk.0.attn_q_norm.weight"}, target, ErrUnsupported, "attn_q_norm"},
		"two norms": {randommodel.Eagle{Each: true, Keys: map[string]gguf.Value{"norm_before_fc": true}}, target, ErrValue,
			"norm_before_fc"},
		"a norm lacks":  {randommodel.Eagle{Each: true, Without: "fc_norm.2.weight"}, target, ErrMissing, "fc_norm.2"},
		"norm of a key": {key("norm_before_attention", true), target, ErrUnsupported, "norm_before_attention"},
		"another norm":  {randommodel.Eagle{More: "fc_norm.3.weight"}, target, ErrUnsupported, "fc_norm.3"},
		"no fc":         {randommodel.Eagle{Without: "fc.weight"}, target, ErrMissing, "fc.weight"},
		"d2t beyond":    {randommodel.Eagle{Own: true, D2T: append(make([]int64, 39), 70)}, target, ErrValue, "d2t"},
		"d2t twice":     {randommodel.Eagle{Own: true, D2T: make([]int64, 40)}, target, ErrValue, "d2t"},
		"d2t too short": {randommodel.Eagle{Own: true, D2T: make([]int64, 39)}, target, ErrShape, "d2t"},
		"d2t without output": {randommodel.Eagle{Own: true, Without: "output.weight"}, target,
			ErrMissing, "output.weight"},
		"own, without a target": {randommodel.Eagle{Own: true}, nil, nil, ""},
	} {
		_, err := openBytes(t, rt, c.e.File(t), "head.gguf", Options{Target: c.target})
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected %v that names %s", name, err, c.want, c.says)
		}
	}
	head, err := openBytes(t, rt, randommodel.Eagle{}.File(t), "head.gguf", Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := head.NewSession(SessionOptions{NoCache: true}); !errors.Is(err, ErrUsage) {
		t.Errorf("no cache: %v", err)
	}
	s, plain := newSession(t, head, SessionOptions{}), newSession(t, target, SessionOptions{})
	for _, g := range []Segment{
		{Tokens: []int32{1}}, {Tokens: []int32{1}, States: make([]float32, 63)},
		{Tokens: []int32{1, 2}, States: make([]float32, 64)},
		{Tokens: []int32{1}, States: make([]float32, 64), FromTarget: true},
		{Tokens: []int32{1}, States: make([]float32, 192)},
	} {
		if _, err := s.EvalSegment(context.Background(), g); !errors.Is(err, ErrUsage) {
			t.Errorf("%d states for %d tokens: %v", len(g.States), len(g.Tokens), err)
		}
	}
	if _, err := plain.EvalSegment(context.Background(),
		Segment{Tokens: []int32{1}, States: make([]float32, 64)}); !errors.Is(err, ErrUsage) {
		t.Errorf("states for a model that is no head: %v", err)
	}
	// States that are not finite fail their segment alone.
	bad := make([]float32, 192)
	bad[5] = float32(math.Inf(1))
	for _, fromTarget := range []bool{true, false} {
		n := 64
		if fromTarget {
			n = 192
		}
		good := newSession(t, head, SessionOptions{})
		out, err := head.Forward(context.Background(), Batch{
			{Session: good, Tokens: []int32{1, 2}, States: make([]float32, 128), Logits: Last},
			{Session: s, Tokens: []int32{1}, States: bad[:n], FromTarget: fromTarget, Logits: Last},
		})
		if err != nil || out[0].Err != nil || !errors.Is(out[1].Err, ErrNotFinite) || s.Len() != 0 {
			t.Errorf("states that are not finite: %v, %+v", err, out)
		}
	}
}
