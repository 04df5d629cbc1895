package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// assist computes a draft head of Gemma 4 in float64, with naive loops: after the n tokens that target computed last,
// token id with the hidden state h. It returns the logits and the next hidden state.
func (r *reference) assist(target *reference, n int, id int32, h []float64) (logits, next []float64) {
	width, heads := len(h), r.integer("attention.head_count", 0)
	both := slices.Clone(target.t["token_embd.weight"][int(id)*width:][:width])
	for i := range both {
		both[i] *= math.Sqrt(float64(width))
	}
	x := r.linear("nextn.pre_projection", append(both, h...))
	pattern, _ := r.f.Value("gemma4-assistant" + ".attention.sliding_window_pattern")
	layers := target.integer("block_count", 0)
	gelu := func(v float64) float64 { return v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))) }
	for i, window := range pattern.([]bool) {
		b := fmt.Sprintf("blk.%d.", i)
		dim, base, rotated, factors, lender, first := r.integer("attention.key_length", 0), r.number("rope.freq_base", 0), 0,
			r.t["rope_freqs.weight"], layers-1, 0
		rotated = dim
		if window {
			dim, base, factors, lender = r.integer("attention.key_length_swa", 0),
				r.number("rope.freq_base_swa", 10000), nil, layers-2
			rotated = r.integer("rope.dimension_count_swa", 0)
			first = max(0, n-r.integer("attention.sliding_window", 0)+1)
		}
		_, kvHeads, source := target.gemma4Layer(lender, layers)
		q := r.linear(b+"attn_q", r.norm(b+"attn_norm", x))
		a := make([]float64, len(q))
		for head := range heads {
			qh := r.norm(b+"attn_q_norm", q[head*dim:(head+1)*dim])
			for j := range rotated / 2 {
				angle := float64(n) * math.Pow(base, -2*float64(j)/float64(rotated))
				if factors != nil {
					angle /= factors[j]
				}
				sin, cos := math.Sincos(angle)
				u, v := qh[j], qh[j+rotated/2]
				qh[j], qh[j+rotated/2] = u*cos-v*sin, u*sin+v*cos
			}
			at := head / (heads / kvHeads) * dim
			var p []float64
			for j := first; j < n; j++ {
				s := 0.0
				for d, v := range qh {
					s += v * target.keys[source][j][at+d]
				}
				p = append(p, s)
			}
			for j, weight := range softmax(p) {
				for d := range dim {
					a[head*dim+d] += weight * target.values[source][first+j][at+d]
				}
			}
		}
		addTo(x, r.norm(b+"post_attention_norm", r.linear(b+"attn_output", a)))
		in := r.norm(b+"ffn_norm", x)
		gate, up := r.linear(b+"ffn_gate", in), r.linear(b+"ffn_up", in)
		for j, g := range gate {
			up[j] *= gelu(g)
		}
		addTo(x, r.norm(b+"post_ffw_norm", r.linear(b+"ffn_down", up)))
		for j := range x {
			x[j] *= r.t[b+"layer_output_scale.weight"][0]
		}
	}
	y := r.norm("output_norm", x)
	return r.matrix(r.t["token_embd.weight"], nil, y), r.linear("nextn.post_projection", y)
}

// chainOf drafts steps tokens after the target's, greedily, and returns logits and states of every step, one after
// the other.
func chainOf(tb testing.TB, s *Session, token int32, h []float32, steps int) (
	logits, states [][]float32, tokens []int32) {
	tb.Helper()
	for i := range steps {
		r, err := s.EvalSegment(context.Background(),
			Segment{Tokens: []int32{token}, States: h, FromTarget: i == 0, Logits: Last, Hidden: Last, Layers: []int{FinalNorm}})
		if err != nil {
			tb.Fatal(err)
		}
		logits, states, tokens = append(logits, slices.Clone(r.Logits.Row(0))),
			append(states, slices.Clone(r.Hidden.Row(0))), append(tokens, token)
		token, h = greatest(logits[i]), states[i]
	}
	return logits, states, tokens
}

// checkAssistant compares the draft head's chains of five tokens after every length of a text with the reference's.
func checkAssistant(t *testing.T, target *Model, targetFile []byte, head *Model, headFile []byte,
	ids []int32, lengths ...int) {
	t.Helper()
	tr, hr := newReference(t, targetFile), newReference(t, headFile)
	tr.logits(ids[:slices.Max(lengths)])
	for _, n := range lengths {
		s := newSession(t, target, SessionOptions{KV: "f32"})
		r, err := s.EvalSegment(context.Background(), Segment{Tokens: ids[:n], Hidden: Last, Layers: head.TargetLayers()})
		if err != nil {
			t.Fatal(err)
		}
		logits, states, tokens := chainOf(t, newSession(t, head, SessionOptions{Target: s}), ids[n],
			slices.Clone(r.Hidden.Row(0)), 5)
		h := tr.states[n-1]
		for i := range logits {
			want, next := hr.assist(tr, n, tokens[i], h)
			if d := difference(t, logits[i], want); !(d < 1e-4) {
				t.Errorf("after %d tokens, step %d: the logits are off by %.2g of their root mean square", n, i, d)
			}
			if d := difference(t, states[i], next); !(d < 1e-4) {
				t.Errorf("after %d tokens, step %d: the next state is off by %.2g of its root mean square", n, i, d)
			}
			h = nil // the next step begins with the same numbers, so that errors do not add up
			for _, x := range states[i] {
				h = append(h, float64(x))
			}
		}
	}
}

// TestAssistantReference: every step of chains of a draft head of Gemma 4 against the reference, for targets whose
// last layers share keys and values and for one with experts; options of the head, each of which moves the logits.
func TestAssistantReference(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	ids := randomTokens(60, randommodel.Vocab, 6)
	for _, name := range []string{"gemma4", "gemma4 experts"} {
		file := assistantTarget(t, name)
		target, head := openPair(t, rt, file, randommodel.Assistant{}, "")
		checkAssistant(t, target, file, head, randommodel.Assistant{}.File(t), ids, 1, 2, 8, 9, 10, 31, 59)
	}
	file := assistantTarget(t, "gemma4")
	seen := map[string]string{}
	for name, a := range map[string]randommodel.Assistant{
		"plain":             {},
		"base":              {Keys: map[string]gguf.Value{"rope.freq_base": float32(50)}},
		"base of windows":   {Keys: map[string]gguf.Value{"rope.freq_base_swa": float32(50)}},
		"factors":           {RopeFactors: 5},
		"part of a head":    {Keys: map[string]gguf.Value{"rope.dimension_count_swa": uint32(8)}},
		"a shorter window":  {Keys: map[string]gguf.Value{"attention.sliding_window": uint32(4)}},
		"a window of two":   {Keys: map[string]gguf.Value{"attention.sliding_window": uint32(2)}},
		"epsilon":           {Keys: map[string]gguf.Value{"attention.layer_norm_rms_epsilon": float32(0.1)}},
		"default base":      {Keys: map[string]gguf.Value{"rope.freq_base_swa": nil, "attention.shared_kv_layers": nil}},
		"no vocabulary key": {Keys: map[string]gguf.Value{"vocab_size": nil}},
	} {
		target, head := openPair(t, rt, file, a, "")
		checkAssistant(t, target, file, head, a.File(t), ids, 30)
		s := newSession(t, target, SessionOptions{})
		r := forward(t, target, Batch{{Session: s, Tokens: ids[:30], Hidden: Last, Layers: []int{FinalNorm}}})
		logits, _, _ := chainOf(t, newSession(t, head, SessionOptions{Target: s}), ids[30],
			slices.Clone(r[0].Hidden.Row(0)), 1)
		if key := fmt.Sprint(logits); name != "default base" && name != "no vocabulary key" && name != "plain" {
			if seen[key] != "" {
				t.Errorf("%s and %s give the same logits", name, seen[key])
			}
			seen[key] = name
		}
	}
}

// TestAssistantFamily: the same with the gemma4 model of ../shared as the target, whose own logits an independent
// engine computed.
func TestAssistantFamily(t *testing.T) {
	path := testkit.Shared(t, "families/models/gemma4.gguf")
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	target, err := openBytes(t, rt, file, "target.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, net := target.config, target.lends()
	full, windowed := gemma4Keys(net.blocks[c.Layers-1].mixer), gemma4Keys(net.blocks[c.Layers-2].mixer)
	if full.headDim != 2*windowed.headDim {
		t.Fatalf("heads of %d and %d", full.headDim, windowed.headDim)
	}
	kv := []uint32{uint32(windowed.kvHeads), uint32(full.kvHeads), uint32(windowed.kvHeads)}
	a := randommodel.Assistant{Width: c.HiddenSize, Vocab: c.Vocab, Heads: kv, Dim: windowed.headDim,
		Keys: map[string]gguf.Value{"attention.sliding_window": uint32(windowed.scores.Window)}}
	head, err := openBytes(t, rt, a.File(t), "assistant.gguf", Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	n := min(60, c.Context-1)
	checkAssistant(t, target, file, head, a.File(t), randomTokens(n+1, c.Vocab, 8), 1, windowed.scores.Window, n)
}

// TestAssistantOneAnswer: promise P1: what a draft head computes does not depend on kernels and threads, on how the
// target's prompt was cut, on what else shares the pass, nor on what the target had been fed and given up before.
func TestAssistantOneAnswer(t *testing.T) {
	const n = 800 // tokens: those that the windows do not reach are given up
	file := assistantTarget(t, "gemma4")
	ids := randomTokens(n+40, randommodel.Vocab, 4)
	for _, weights := range []string{"f32", "q8_0"} {
		var want, wantStates []float32
		for i, simd := range slices.Backward(asm.Available()) { // the best kernels first
			slow := simd == "scalar" && len(asm.Available()) > 1
			if slow && weights == "f32" && !testkit.IsLong(t) {
				continue
			}
			rt := newRuntime(t, RuntimeOptions{Threads: 1 + i%2, SIMD: simd})
			target, head := openPair(t, rt, file, randommodel.Assistant{}, weights)
			fed := func(chunk int) (*Session, []float32) {
				s := newSession(t, target, SessionOptions{})
				var h []float32
				for from, to := 0, min(n, max(chunk, n-250)); from < n; from, to = to, min(n, to+chunk) {
					r := forward(t, target, Batch{{Session: s, Tokens: ids[from:to], Hidden: Last,
						Layers: head.TargetLayers()}})
					h = slices.Clone(r[0].Hidden.Row(0))
				}
				return s, h
			}
			s, h := fed(n)
			check := func(what string, s *Session) {
				t.Helper()
				logits, states, _ := chainOf(t, newSession(t, head, SessionOptions{Target: s}), ids[n], h, 5)
				what = fmt.Sprint(weights, " ", simd, ", ", what)
				if want == nil {
					want, wantStates = slices.Concat(logits...), slices.Concat(states...)
				}
				sameBits(t, what, slices.Concat(logits...), want)
				sameBits(t, what+", states", slices.Concat(states...), wantStates)
			}
			check("in one piece", s)
			if kv := s.kv[gemma4Keys(target.lends().blocks[0].mixer).cache]; kv.First() == 0 {
				t.Fatal("the cache of layers with a window keeps everything")
			}
			if slow { // its passes are, and the others have the rest
				continue
			}
			for _, chunk := range []int{1, 77} {
				if chunk == 1 && i < len(asm.Available())-1 { // the best kernels alone: 250 passes
					continue
				}
				other, state := fed(chunk)
				sameBits(t, "the target's state", state, h)
				check(fmt.Sprint("chunks of ", chunk), other)
				fork, err := other.Fork()
				if err != nil {
					t.Fatal(err)
				}
				forward(t, target, Batch{{Session: other, Tokens: ids[:9]}})
				check("a fork", fork)
				fork.Close()
				if err := other.Truncate(n); err != nil {
					t.Fatal(err)
				}
				check("cut back", other)
				// A tree that waits, and one of which a path was taken and dropped.
				forward(t, target, Batch{{Session: other, Tokens: []int32{1, 2, 3}, Parents: []int32{-1, -1, 0}}})
				check("with a tree", other)
				if err := errors.Join(other.Commit([]int32{0, 2}), other.Truncate(n)); err != nil {
					t.Fatal(err)
				}
				check("after a tree", other)
			}
			// All steps as rows of one pass, between those of another text.
			short := newSession(t, target, SessionOptions{})
			forward(t, target, Batch{{Session: short, Tokens: ids[:3]}})
			var tokens []int32
			states := slices.Clone(h)
			token := ids[n]
			for j := range 5 {
				tokens = append(tokens, token)
				token = greatest(want[j*randommodel.Vocab : (j+1)*randommodel.Vocab])
				states = append(states, wantStates[j*randommodel.Width:(j+1)*randommodel.Width]...)
			}
			states = states[:5*randommodel.Width]
			one := []int{FinalNorm}
			out := forward(t, head, Batch{
				{Session: newSession(t, head, SessionOptions{Target: short}), Tokens: ids[:30],
					States: make([]float32, 30*randommodel.Width), Logits: Last},
				{Session: newSession(t, head, SessionOptions{Target: s}), Tokens: tokens, States: states, Logits: All,
					Hidden: All, Layers: one},
				{Session: newSession(t, head, SessionOptions{Target: s}), Tokens: tokens[2:], States: states[2*randommodel.Width:],
					Logits: 2, Hidden: Last, Layers: one},
			})
			sameBits(t, "rows of one pass", out[1].Logits.Data, want)
			sameBits(t, "states of one pass", out[1].Hidden.Data, wantStates)
			sameBits(t, "the last two rows", out[2].Logits.Data, want[3*randommodel.Vocab:])
			sameBits(t, "the last state", out[2].Hidden.Data, wantStates[4*randommodel.Width:])
		}
	}
}

// TestLongAssistantOneAnswer: every kernel set with both types of weights.
func TestLongAssistantOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestAssistantOneAnswer(t)
}

// TestAssistantSessions: sessions of a draft head keep nothing, and what cannot be computed is refused.
func TestAssistantSessions(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	file := assistantTarget(t, "gemma4")
	target, head := openPair(t, rt, file, randommodel.Assistant{}, "")
	another, err := openBytes(t, rt, file, "another.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if h := head.Head(); h == nil || !h.SharesCache || h.FirstToken || h.Output != FinalNorm ||
		!slices.Equal(h.TargetLayers, []int{FinalNorm}) || h.TargetStates() != randommodel.Width || head.Caches(0) != nil {
		t.Fatalf("%+v", head.Head())
	}
	s := newSession(t, target, SessionOptions{Context: 1000})
	for what, c := range map[string]struct {
		m    *Model
		o    SessionOptions
		says string
	}{
		"no target":       {head, SessionOptions{}, "assistant.gguf"},
		"another model's": {head, SessionOptions{Target: newSession(t, another, SessionOptions{})}, "another model"},
		"no cache": {head, SessionOptions{
			Target: newSession(t, target, SessionOptions{NoCache: true})}, "keeps none"},
		"some layers":         {head, SessionOptions{Target: newSession(t, target, SessionOptions{Layers: 5})}, "all layers"},
		"a model, no head":    {target, SessionOptions{Target: s}, "target.gguf"},
		"a head of NoCache":   {head, SessionOptions{Target: s, NoCache: true}, "without a cache"},
		"a context of 9 more": {head, SessionOptions{Target: s, Context: 2009}, "context"},
	} {
		if _, err := c.m.NewSession(c.o); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	d := newSession(t, head, SessionOptions{Target: s, Context: 900})
	state := make([]float32, randommodel.Width)
	good := Segment{Tokens: []int32{1}, States: state, Logits: Last, Hidden: Last, Layers: []int{FinalNorm}}
	refused := func(what string, g Segment, want error) {
		t.Helper()
		if _, err := d.EvalSegment(context.Background(), g); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("an empty target", good, ErrUsage)
	forward(t, target, Batch{{Session: s, Tokens: randomTokens(899, randommodel.Vocab, 2)}})
	with := func(change func(*Segment)) Segment {
		g := good
		change(&g)
		return g
	}
	refused("a tree", with(func(g *Segment) { g.Parents = []int32{-1} }), ErrUsage)
	refused("no states", with(func(g *Segment) { g.States = nil }), ErrUsage)
	refused("states of the head's width", with(
		func(g *Segment) { g.States = state[:randommodel.AssistantWidth] }), ErrUsage)
	refused("another layer", with(func(g *Segment) { g.Layers = []int{0} }), ErrUsage)
	refused("a token too many", with(func(g *Segment) { g.Tokens = []int32{randommodel.Vocab} }), ErrVocabulary)
	nan := slices.Clone(state)
	nan[5] = float32(math.NaN())
	refused("a state that is no number", with(func(g *Segment) { g.States = nan }), ErrNotFinite)
	if _, err := d.EvalSegment(context.Background(), good); err != nil || d.Len() != 0 || d.Bytes() != 0 {
		t.Errorf("%v, %d tokens, %d bytes", err, d.Len(), d.Bytes())
	}
	// Another row of the same pass is not touched by one that fails.
	two := newSession(t, head, SessionOptions{Target: s})
	out, err := head.Forward(context.Background(),
		Batch{{Session: d, Tokens: []int32{1}, States: nan, Logits: Last},
			{Session: two, Tokens: []int32{1}, States: state, Logits: Last, Hidden: Last, Layers: []int{FinalNorm}}})
	if err != nil || !errors.Is(out[0].Err, ErrNotFinite) || out[1].Err != nil {
		t.Errorf("%v, %+v", err, out)
	}
	allocs := testkit.Allocs(10, func() {
		if _, err := d.EvalSegment(context.Background(), good); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a step", allocs)
	}
	forward(t, target, Batch{{Session: s, Tokens: []int32{1}}})
	refused("a full context", good, ErrContextFull)
	if err := s.Truncate(100); err != nil { // farther back than the caches of layers with a window reach
		t.Fatal(err)
	}
	refused("a target that was cut back", good, ErrUsage)
	forward(t, target, Batch{{Session: s, Tokens: []int32{1}}})
	if _, err := d.EvalSegment(context.Background(), good); err != nil {
		t.Errorf("after the target's next pass: %v", err)
	}
	s.Close()
	refused("a closed target", good, ErrClosed)
}
