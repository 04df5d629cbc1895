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

// blockSegment is the segment of a block: a token, and masks up to n tokens.
func blockSegment(head *Model, last int32, n int) Segment {
	g := Segment{Logits: All}
	for i := range n {
		id := head.Head().Mask
		if i == 0 {
			id = last
		}
		g.Tokens, g.Parents = append(g.Tokens, id), append(g.Parents, int32(i-1))
	}
	return g
}

// blockHeads are a DFlash head and a DSpark head, without windows and with windows that are longer and shorter than a
// block.
var blockHeads = map[string]randommodel.DFlash{"DFlash": {}, "DSpark": {Rank: 32},
	"DFlash with a window": {Window: 9, Windows: []bool{true, false}},
	"DSpark with a window": {Rank: 32, Window: 3, Windows: []bool{false, true}}}

// openDFlash opens a small target and a DFlash head for it.
func openDFlash(t *testing.T, rt *Runtime, x randommodel.DFlash, o Options) (target, head *Model) {
	t.Helper()
	target = openDrawn(t, rt, randommodel.Llama(), o)
	o.Target = target
	head, err := openBytes(t, rt, x.File(t), "head.gguf", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(head.Close)
	return target, head
}

// TestDFlashReference: the logits of blocks of every length, after texts of several lengths, are those of a float64
// computation.
func TestDFlashReference(t *testing.T) {
	for name, x := range blockHeads {
		t.Run(name, func(t *testing.T) { testDFlashReference(t, x) })
	}
	for _, window := range []int{1, 8, 100, 271, 1000} {
		x := keyed("attention.sliding_window_pattern", uint32(1)) // of all layers
		x.Window = window
		t.Run(fmt.Sprint("a window of ", window), func(t *testing.T) { testDFlashReference(t, x) })
	}
}

func testDFlashReference(t *testing.T, x randommodel.DFlash) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target, head := openDFlash(t, rt, x, Options{})
	llama, dflash := newReference(t, randommodel.Llama().File(t)), newReference(t, x.File(t))
	ids := randomTokens(271, 70, 3)
	s := newSession(t, head, SessionOptions{KV: "f32"})
	states := statesFor(t, target, head, ids[:270])
	size := head.Head().TargetStates()
	var known [][]float64
	for _, n := range []int{1, 2, 40, 270} {
		from := s.Len()
		if _, err := s.EvalSegment(context.Background(), Segment{Tokens: ids[from:n], States: states[from*size : n*size],
			FromTarget: true}); err != nil {
			t.Fatal(err)
		}
		for p := from; p < n; p++ {
			var row []float64
			for _, x := range states[p*size : (p+1)*size] {
				row = append(row, float64(x))
			}
			known = append(known, row)
		}
		for k := 1; k <= randommodel.DFlashBlock; k++ {
			if n == 270 && k != 6 {
				continue
			}
			g := blockSegment(head, ids[n], k)
			r, err := s.EvalSegment(context.Background(), g)
			if err != nil {
				t.Fatal(err)
			}
			if s.Len() != n || s.Fed() != n {
				t.Errorf("a block has moved the sequence: %d tokens, %d fed, of %d", s.Len(), s.Fed(), n)
			}
			logits := dflash.block(llama, known, g.Tokens)
			if x.Rank > 0 {
				dflash.follow(logits, int(ids[n]))
			}
			for i, want := range logits {
				if worst := difference(t, r.Logits.Row(i), want); !(worst < 1e-4) {
					t.Errorf("%d tokens, a block of %d, row %d: off by %g", n, k, i, worst)
				}
			}
		}
	}
}

// TestDFlashGolden: what an independent engine computes of the same files: what goes in of the target's states, and the
// logits at the first and the last mask of blocks of 2, 5 and 7 tokens.
func TestDFlashGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/dflash.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		IDs    []int32
		Fed    []float64
		Blocks map[string][][]float64
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target, head := openDFlash(t, rt, randommodel.DFlash{}, Options{})
	n := len(g.IDs) - 1
	s := newSession(t, head, SessionOptions{KV: "f32"})
	states := evalHidden(t, newSession(t, target, SessionOptions{KV: "f32"}),
		Segment{Tokens: g.IDs[:n], Hidden: All, Layers: head.TargetLayers()})
	forward(t, head, Batch{{Session: s, Tokens: g.IDs[:n], States: states, FromTarget: true}})
	fed := rt.pass.x[len(rt.pass.x)-len(g.Fed):] // of the pass's last row
	if worst := difference(t, fed, g.Fed); !(worst < 1e-4) {
		t.Errorf("what goes in is off by %g", worst)
	}
	if len(g.Blocks) != 3 {
		t.Fatal("the golden is not what it should be")
	}
	for size, want := range g.Blocks {
		n, _ := strconv.Atoi(size)
		r, err := s.EvalSegment(context.Background(), blockSegment(head, g.IDs[len(g.IDs)-1], n))
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range []int{1, n - 1}[:len(want)] {
			if worst := difference(t, r.Logits.Row(row), want[i]); !(worst < 1e-4) {
				t.Errorf("a block of %d, row %d: off by %g", n, row, worst)
			}
		}
	}
}

// TestDSparkGolden: what the same engine computes of a DSpark head: the logits at the first two tokens and the last one
// of blocks of 2, 5 and 7.
func TestDSparkGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/dspark.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		IDs    []int32
		Blocks map[string][][]float64
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	target, head := openDFlash(t, newRuntime(t, RuntimeOptions{Threads: 1}), blockHeads["DSpark"], Options{})
	if n := head.Head().Longest; n != randommodel.DFlashBlock {
		t.Errorf("at most %d tokens of a block of %d", n, randommodel.DFlashBlock)
	}
	last := len(g.IDs) - 1
	s := newSession(t, head, SessionOptions{KV: "f32"})
	states := evalHidden(t, newSession(t, target, SessionOptions{KV: "f32"}),
		Segment{Tokens: g.IDs[:last], Hidden: All, Layers: head.TargetLayers()})
	forward(t, head, Batch{{Session: s, Tokens: g.IDs[:last], States: states, FromTarget: true}})
	for size, want := range g.Blocks {
		n, _ := strconv.Atoi(size)
		r, err := s.EvalSegment(context.Background(), head.Head().Drafts(g.IDs[last], n))
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range []int{0, 1, n - 1}[:len(want)] {
			if worst := difference(t, r.Logits.Row(row), want[i]); !(worst < 1e-4) {
				t.Errorf("a block of %d, row %d: off by %g", n, row, worst)
			}
		}
	}
}

// TestBlockWindowGolden: likewise of heads with windows in one layer or in all, shorter than the text or than a block.
func TestBlockWindowGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/dflashwindow.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		IDs   []int32
		Heads map[string]map[string][][]float64
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Heads) != 3 {
		t.Fatal("the golden is not what it should be")
	}
	last := len(g.IDs) - 1
	for name, blocks := range g.Heads {
		x, ok := blockHeads[name]
		if !ok { // "a number for all layers"
			x = keyed("attention.sliding_window_pattern", uint32(2))
			x.Window = 7
		}
		target, head := openDFlash(t, newRuntime(t, RuntimeOptions{Threads: 1}), x, Options{})
		s := newSession(t, head, SessionOptions{KV: "f32"})
		states := evalHidden(t, newSession(t, target, SessionOptions{KV: "f32"}),
			Segment{Tokens: g.IDs[:last], Hidden: All, Layers: head.TargetLayers()})
		forward(t, head, Batch{{Session: s, Tokens: g.IDs[:last], States: states, FromTarget: true}})
		for size, want := range blocks {
			n, _ := strconv.Atoi(size)
			r, err := s.EvalSegment(context.Background(), blockSegment(head, g.IDs[last], n))
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range []int{0, 1, n - 1}[:len(want)] {
				if worst := difference(t, r.Logits.Row(row), want[i]); !(worst < 1e-4) {
					t.Errorf("%s, a block of %d, row %d: off by %g", name, n, row, worst)
				}
			}
		}
	}
}

// TestBlockWindowCache: what a head whose layers all have windows keeps does not grow with the text and is no more than
// is planned, blocks leave it as it is, and what is kept suffices: blocks are those of a float64 computation, and of
// sessions that were cut, forked or saved.
func TestBlockWindowCache(t *testing.T) {
	const window, n = 256, 1279 // a block of 7 goes on to the next page, 512+window positions behind the first one
	x := randommodel.DFlash{Window: window, Windows: []bool{true, true}}
	rt, shape := newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.Llama()
	shape.Context = 2000
	target := openDrawn(t, rt, shape, Options{})
	head, err := openBytes(t, rt, x.File(t), "head.gguf", Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	llama, dflash := newReference(t, shape.File(t)), newReference(t, x.File(t))
	ids, size, ctx := randomTokens(n+2, 70, 3), head.Head().TargetStates(), context.Background()
	states := statesFor(t, target, head, ids[:n+1])
	s := newSession(t, head, SessionOptions{KV: "f32"})
	block := func(s *Session) []float32 {
		t.Helper()
		r, err := s.EvalSegment(ctx, blockSegment(head, ids[s.Len()], randommodel.DFlashBlock))
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(r.Logits.Data)
	}
	feed := func(s *Session, to int) {
		t.Helper()
		from := s.Len()
		forward(t, head, Batch{{Session: s, Tokens: ids[from:to], States: states[from*size : to*size], FromTarget: true}})
	}
	feed(s, 500)
	early := block(s)
	feed(s, n)
	want := block(s)
	plan, first := Sessions{Count: 1, KV: "f32"}.Bytes(head.Describe()), s.kv[0].First()
	if got := s.Bytes(); got > plan || first != 256 {
		t.Errorf("%d bytes from position %d on, at most %d are planned", got, first, plan)
	}
	var known [][]float64
	for p := range n {
		var row []float64
		for _, x := range states[p*size : (p+1)*size] {
			row = append(row, float64(x))
		}
		known = append(known, row)
	}
	for i, row := range dflash.block(llama, known, blockSegment(head, ids[n], randommodel.DFlashBlock).Tokens) {
		if worst := difference(t, want[i*70:(i+1)*70], row); !(worst < 1e-4) {
			t.Errorf("row %d: off by %g", i, worst)
		}
	}
	if at := s.Restorable(n - windowSlack); at != n-windowSlack {
		t.Errorf("after a block %d tokens are restorable, want %d", at, n-windowSlack)
	}
	fork, err := s.ForkAt(n - windowSlack)
	if err != nil {
		t.Fatal(err)
	}
	defer fork.Close()
	feed(fork, n)
	sameBits(t, "a fork that was cut", block(fork), want)
	from := s.SavedCaches()[0].From(n)
	saved := newSession(t, head, SessionOptions{KV: "f32"})
	if err := saved.Restore(Restored{Tokens: ids[:n], Fed: n, Step: KVPage,
		KV: func(i, from, to int) ([]byte, error) { return s.SaveKV(nil, i, from, to) }}); err != nil {
		t.Fatal(err)
	}
	if first := saved.kv[0].First(); first != from || from != 1024 {
		t.Errorf("what is restored begins at %d, and %d", first, from)
	}
	sameBits(t, "restored", block(saved), want)
	if err := s.Truncate(500); err != nil || s.Len() != 0 { // what its last positions see is gone
		t.Errorf("%d tokens are left: %v", s.Len(), err)
	}
	feed(s, 500)
	sameBits(t, "read again", block(s), early)
}

// TestDFlashOneAnswer: promise P1: a block's logits are the same bits in all kernels, threads and companies of a pass,
// however the target's states were cut, after forks and after other blocks.
func TestDFlashOneAnswer(t *testing.T) {
	for name, x := range blockHeads {
		t.Run(name, func(t *testing.T) { testDFlashOneAnswer(t, x) })
	}
}

// TestLongDFlashOneAnswer: both sizes of chunks with every kernel set.
func TestLongDFlashOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestDFlashOneAnswer(t)
}

func testDFlashOneAnswer(t *testing.T, x randommodel.DFlash) {
	for _, weights := range []string{"f32", "q8_0"} {
		var states, want []float32
		for i, simd := range slices.Backward(asm.Available()) { // the best kernels first
			rt := newRuntime(t, RuntimeOptions{Threads: 1 + i%2, SIMD: simd})
			target, head := openDFlash(t, rt, x, Options{Weights: weights})
			const n = 290
			ids := randomTokens(n+1, 70, 3)
			if states == nil {
				states = statesFor(t, target, head, ids[:n])
			}
			size := head.Head().TargetStates()
			fed := func(s *Session, from, to int) Segment {
				return Segment{Session: s, Tokens: ids[from:to], States: states[from*size : to*size], FromTarget: true}
			}
			block := func(s *Session, n int) Segment {
				g := blockSegment(head, ids[s.Len()], n)
				g.Session, g.Hidden, g.Layers = s, All, []int{0, 1, 2, FinalNorm}
				return g
			}
			got := func(r Result) []float32 { return append(slices.Clone(r.Logits.Data), r.Hidden.Data...) }
			for _, size := range []int{n, 37} {
				if size == n && i < len(asm.Available())-1 && !testkit.IsLong(t) { // both with the best kernels
					continue
				}
				s, other := newSession(t, head, SessionOptions{}), newSession(t, head, SessionOptions{})
				for from := 0; from < n; from += size {
					to := min(n, from+size)
					b := Batch{fed(s, from, to), block(other, 3)}
					if from%2 == 1 { // a block before states
						b[0], b[1] = b[1], b[0]
					}
					forward(t, head, b)
				}
				forward(t, head, Batch{block(s, 7)}) // leaves nothing
				all := got(forward(t, head, Batch{block(s, 4)})[0])
				if want == nil {
					want = all
				}
				sameBits(t, fmt.Sprint(weights, " ", simd, ", chunks of ", size), all, want)
				fork, err := s.ForkAt(n)
				if err != nil {
					t.Fatal(err)
				}
				forward(t, head, Batch{fed(other, 0, 1)})
				out := forward(t, head, Batch{block(other, 7), block(fork, 4), block(s, 2)})
				sameBits(t, fmt.Sprint(weights, " ", simd, ", of a fork"), got(out[1]), want)
				if err := s.Truncate(n - 30); err != nil {
					t.Fatal(err)
				}
				forward(t, head, Batch{block(s, 7)})
				forward(t, head, Batch{fed(s, n-30, n), block(other, 2)})
				all = got(forward(t, head, Batch{block(s, 4)})[0])
				sameBits(t, fmt.Sprint(weights, " ", simd, ", after a cut"), all, want)
				if size != n {
					continue
				}
				for _, other := range []*Session{s, fork} {
					other.Close()
				}
			}
		}
	}
}

// keyed is a head with another value of a key.
func keyed(k string, v gguf.Value) randommodel.DFlash {
	return randommodel.DFlash{Keys: map[string]gguf.Value{k: v}}
}

// TestDFlashOptions: every key moves the logits, and so does every token of the block, the last one on the first row.
func TestDFlashOptions(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target := openDrawn(t, rt, randommodel.Llama(), Options{})
	ids := randomTokens(20, 70, 1)
	seen := map[string]string{}
	for name, c := range map[string]struct {
		x    randommodel.DFlash
		n    int
		last int32
	}{
		"plain": {randommodel.DFlash{}, 4, 9}, "shorter": {randommodel.DFlash{}, 3, 9},
		"another token": {randommodel.DFlash{}, 4, 8},
		"another mask":  {randommodel.DFlash{Mask: 3}, 4, 9},
		"other layers":  {randommodel.DFlash{Layers: []int32{0, 1}}, 4, 9},
		"own":           {randommodel.DFlash{Own: true}, 4, 9},
		"DSpark":        {randommodel.DFlash{Rank: 32}, 4, 9},
		"a window":      {randommodel.DFlash{Window: 8, Windows: []bool{true, false}}, 4, 9},
		"a longer one":  {randommodel.DFlash{Window: 9, Windows: []bool{true, false}}, 4, 9},
		"another layer": {randommodel.DFlash{Window: 8, Windows: []bool{false, true}}, 4, 9},
		"both layers":   {randommodel.DFlash{Window: 8, Windows: []bool{true, true}}, 4, 9},
		"base":          {keyed("rope.freq_base", float32(100)), 4, 9},
		"epsilon":       {keyed("attention.layer_norm_rms_epsilon", float32(0.1)), 4, 9},
	} {
		m, err := openBytes(t, rt, c.x.File(t), "head.gguf", Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		s := newSession(t, m, SessionOptions{})
		forward(t, m, Batch{{Session: s, Tokens: ids, States: statesFor(t, target, m, ids), FromTarget: true}})
		r, err := s.EvalSegment(context.Background(), blockSegment(m, c.last, c.n))
		if err != nil {
			t.Fatal(err)
		}
		others := 0
		for _, x := range r.Logits.Row(0) {
			if x == unlisted {
				others++
			}
		}
		if others != 0 != c.x.Own || c.x.Own && others != 30 {
			t.Errorf("%s: %d tokens without logits", name, others)
		}
		key := fmt.Sprint(r.Logits.Row(0))
		if seen[key] != "" {
			t.Errorf("%s and %s give the same logits", name, seen[key])
		}
		seen[key] = name
	}
}

// TestDFlashRefused: what a head cannot read or compute is refused by name, and moves nothing.
func TestDFlashRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target := openDrawn(t, rt, randommodel.Llama(), Options{})
	wide := randommodel.Llama()
	wide.Width = 96
	lacks := func(name string) randommodel.DFlash { return randommodel.DFlash{Without: name} }
	more := func(name string) randommodel.DFlash { return randommodel.DFlash{More: name} }
	const window, windows = "attention.sliding_window", "attention.sliding_window_pattern"
	pattern := func(w, p gguf.Value) randommodel.DFlash {
		return randommodel.DFlash{Keys: map[string]gguf.Value{window: w, windows: p}}
	}
	both := func(k string, v gguf.Value) randommodel.DFlash {
		x := pattern(uint32(9), []bool{true, true})
		x.Keys[k] = v
		return x
	}
	broad, gpt := openDrawn(t, rt, wide, Options{}), openDrawn(t, rt, randommodel.GPT2(), Options{})
	for name, c := range map[string]struct {
		x      randommodel.DFlash
		target *Model
		want   error
		says   string
	}{
		"no target":       {randommodel.DFlash{}, nil, ErrUnsupported, "beside its target"},
		"another width":   {randommodel.DFlash{}, broad, ErrValue, "embedding_length"},
		"positions":       {randommodel.DFlash{}, gpt, ErrUnsupported, "token_embd.weight"},
		"no layers":       {keyed("target_layers", nil), target, ErrValue, "target_layers"},
		"empty layers":    {keyed("target_layers", []int32{}), target, ErrValue, "target_layers"},
		"after the last":  {randommodel.DFlash{Layers: []int32{1, 2}}, target, ErrValue, "target_layers"},
		"no block":        {keyed("block_size", uint32(1)), target, ErrValue, "block_size"},
		"a large block":   {keyed("block_size", uint32(1000)), target, ErrValue, "block_size"},
		"no mask":         {keyed(".tokenizer.ggml.mask_token_id", nil), target, gguf.ErrMissing, "mask_token_id"},
		"a mask beyond":   {randommodel.DFlash{Mask: 70}, target, ErrValue, "mask_token_id"},
		"a window alone":  {keyed(window, uint32(9)), target, gguf.ErrMissing, windows},
		"a vast window":   {pattern(uint32(math.MaxUint32), []bool{true, true}), target, ErrValue, window},
		"no window":       {keyed(windows, []bool{true, true}), target, ErrUnsupported, windows},
		"a pattern short": {pattern(uint32(9), []bool{true}), target, ErrValue, windows},
		"a pattern long":  {pattern(uint32(9), []bool{true, true, true}), target, ErrValue, windows},
		"a bool for all":  {pattern(uint32(9), true), target, gguf.ErrType, windows},
		"floats":          {pattern(uint32(9), []float32{1, 1}), target, ErrValue, windows},
		"another base":    {both("rope.freq_base_swa", float32(9)), target, ErrUnsupported, "rope.freq_base_swa"},
		"another size":    {both("attention.key_length_swa", uint32(8)), target, ErrUnsupported, "key_length_swa"},
		"unknown key":     {keyed("attention.logit_softcapping", float32(9)), target, ErrUnsupported, "softcapping"},
		"unknown tensor":  {more("blk.0.attn_sinks.weight"), target, ErrUnsupported, "attn_sinks"},
		"half of its own": {randommodel.DFlash{Own: true, Without: "output.weight"}, target, ErrMissing, "output.weight"},
		"no fc":           {lacks("fc.weight"), target, ErrMissing, "fc.weight"},
		"no norm":         {lacks("enc.output_norm.weight"), target, ErrMissing, "enc.output_norm.weight"},
		"no key norm":     {lacks("blk.1.attn_k_norm.weight"), target, ErrMissing, "blk.1.attn_k_norm.weight"},
		"half of DSpark":  {more("markov_w1.weight"), target, ErrShape, "markov_w1.weight"},
		"no markov_w2":    {randommodel.DFlash{Rank: 32, Without: "markov_w2.weight"}, target, ErrMissing, "markov_w2"},
		"only markov_w2":  {more("markov_w2.weight"), target, ErrUnsupported, "markov_w2.weight"},
		"DeepSeek V4":     {more("hc_head_fn.weight"), target, ErrUnsupported, "DSpark"},
		"DFlash 2":        {more("selector_predecessor.weight"), target, ErrUnsupported, "DFlash 2"},
		"DFlash 2 too":    {more("blk.0.attn_conv_base"), target, ErrUnsupported, "DFlash 2"},
	} {
		_, err := openBytes(t, rt, c.x.File(t), "head.gguf", Options{Target: c.target})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "head.gguf") {
			t.Errorf("%s: %v, expected %v that names %s", name, err, c.want, c.says)
		}
	}
	_, head := openDFlash(t, rt, randommodel.DFlash{}, Options{})
	if _, err := head.NewSession(SessionOptions{NoCache: true}); !errors.Is(err, ErrUsage) {
		t.Errorf("no cache: %v", err)
	}
	s, size := newSession(t, head, SessionOptions{Context: 9}), head.Head().TargetStates()
	fed := Segment{Tokens: []int32{1, 2, 3}, States: make([]float32, 3*size), FromTarget: true}
	forward(t, head, Batch{{Session: s, Tokens: fed.Tokens, States: fed.States, FromTarget: true}})
	block := func(n int) Segment { return blockSegment(head, 5, n) }
	change := func(g Segment, f func(*Segment)) Segment { f(&g); return g }
	for name, c := range map[string]struct {
		g    Segment
		want error
	}{
		"logits of states":    {change(fed, func(g *Segment) { g.Logits = Last }), ErrUsage},
		"states of states":    {change(fed, func(g *Segment) { g.Hidden, g.Layers = Last, []int{1} }), ErrUsage},
		"a tree of states":    {change(fed, func(g *Segment) { g.Parents = []int32{-1, 0, 1} }), ErrUsage},
		"too few states":      {change(fed, func(g *Segment) { g.States = g.States[1:] }), ErrUsage},
		"a block with states": {change(block(3), func(g *Segment) { g.States = fed.States }), ErrUsage},
		"a chain":             {change(block(3), func(g *Segment) { g.Parents = nil }), ErrUsage},
		"a tree":              {change(block(3), func(g *Segment) { g.Parents = []int32{-1, 0, 0} }), ErrUsage},
		"an empty block":      {block(0), ErrUsage},
		"a full context":      {block(7), ErrContextFull},
	} {
		if _, err := s.EvalSegment(context.Background(), c.g); !errors.Is(err, c.want) || s.Len() != 3 {
			t.Errorf("%s: %v, %d tokens", name, err, s.Len())
		}
	}
	if _, err := s.EvalSegment(context.Background(), block(6)); err != nil {
		t.Error(err)
	}
	_, err := newSession(t, head, SessionOptions{}).EvalSegment(context.Background(), block(8))
	if !errors.Is(err, ErrUsage) {
		t.Errorf("a block beyond its size: %v", err)
	}
	_, dspark := openDFlash(t, rt, blockHeads["DSpark"], Options{})
	chained := block(3)
	chained.Logits = 2
	_, err = newSession(t, dspark, SessionOptions{}).EvalSegment(context.Background(), chained)
	if !errors.Is(err, ErrUsage) {
		t.Errorf("some of a chained block's logits: %v", err)
	}
	if err := s.Commit([]int32{0, 1}); !errors.Is(err, ErrUsage) || s.Len() != 3 {
		t.Errorf("a block committed: %v, %d tokens", err, s.Len())
	}
	// States that are not finite fail their segment alone.
	bad := make([]float32, size)
	bad[5] = float32(math.Inf(1))
	good := newSession(t, head, SessionOptions{})
	out, err := head.Forward(context.Background(), Batch{
		{Session: good, Tokens: fed.Tokens, States: fed.States, FromTarget: true},
		{Session: s, Tokens: []int32{1}, States: bad, FromTarget: true},
	})
	if err != nil || out[0].Err != nil || !errors.Is(out[1].Err, ErrNotFinite) || s.Len() != 3 || good.Len() != 3 {
		t.Errorf("states that are not finite: %v, %+v", err, out)
	}
}
