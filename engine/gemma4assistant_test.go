package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/gguf"
)

// assistantFile is a small random draft head for gemma4 targets of the recipes' shape: two blocks with a window and one without.
type assistantFile struct {
	keys        map[string]gguf.Value // replaced, added; nil values are left out
	without     string                // a tensor
	more        string                // a tensor [assistantWidth]
	width       int                   // of the target; 0: recipeWidth
	vocab       int                   // 0: recipeVocab
	heads       []uint32              // of the target's keys and values, for each block; nil: 2, 1, 2
	dim         int                   // of heads in blocks with a window; 0: recipeDim
	ropeFactors float64               // mean of rope_freqs
}

const assistantWidth, assistantInner, assistantBlocks = 48, 80, 3

func (a assistantFile) bytes(tb testing.TB) []byte {
	tb.Helper()
	t, v, dim, kv := recipeWidth, recipeVocab, recipeDim, a.heads
	if a.width != 0 {
		t = a.width
	}
	if a.vocab != 0 {
		v = a.vocab
	}
	if a.dim != 0 {
		dim = a.dim
	}
	if kv == nil {
		kv = []uint32{2, 1, 2}
	}
	keys := map[string]gguf.Value{
		"context_length": uint32(2000), "embedding_length": uint32(assistantWidth), "embedding_length_out": uint32(t), "block_count": uint32(assistantBlocks),
		"nextn_predict_layers": uint32(assistantBlocks), "feed_forward_length": uint32(assistantInner), "attention.head_count": uint32(recipeHeads), "attention.head_count_kv": kv,
		"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.key_length": uint32(2 * dim), "attention.value_length": uint32(2 * dim),
		"attention.key_length_swa": uint32(dim), "attention.value_length_swa": uint32(dim), "attention.sliding_window": uint32(9),
		"attention.sliding_window_pattern": []bool{true, false, true}, "attention.shared_kv_layers": uint32(assistantBlocks), "vocab_size": uint32(v),
		"rope.freq_base": float32(1e5), "rope.freq_base_swa": float32(10000), "rope.dimension_count": uint32(2 * dim), "rope.dimension_count_swa": uint32(dim),
		"embedding_length_per_layer_input": uint32(0),
	}
	maps.Copy(keys, a.keys)
	kvs := []gguf.KV{{Key: "general.architecture", Value: assistantArch}}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if keys[k] != nil {
			kvs = append(kvs, gguf.KV{Key: assistantArch + "." + k, Value: keys[k]})
		}
	}
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float64, dims ...int) { // columns first
		if name == a.without {
			return
		}
		hash := fnv.New64()
		hash.Write([]byte(name))
		rng := rand.New(rand.NewPCG(11, hash.Sum64()))
		n, all := 1, []uint64(nil)
		for _, k := range dims {
			n *= k
			all = append(all, uint64(k))
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(mean + spread*rng.NormFloat64())
		}
		tensors = append(tensors, gguf.TensorSource{Name: name, Type: gguf.F32, Dims: all, Write: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, x) }})
	}
	matrix := func(name string, rows, cols int) { add(name+".weight", 0, 1.3/math.Sqrt(float64(cols)), cols, rows) }
	norm := func(name string, n int) { add(name+".weight", 1, 0.3, n) }
	add("token_embd.weight", 0, 0.7, assistantWidth, v)
	matrix("nextn.pre_projection", assistantWidth, 2*t)
	matrix("nextn.post_projection", t, assistantWidth)
	norm("output_norm", assistantWidth)
	factors := a.ropeFactors
	if factors == 0 {
		factors = 2
	}
	add("rope_freqs.weight", factors, 0.4, dim)
	for i := range assistantBlocks {
		b, d := fmt.Sprintf("blk.%d.", i), dim
		if i == 1 {
			d = 2 * dim
		}
		for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
			norm(b+name, assistantWidth)
		}
		norm(b+"attn_q_norm", d)
		matrix(b+"attn_q", recipeHeads*d, assistantWidth)
		matrix(b+"attn_output", assistantWidth, recipeHeads*d)
		matrix(b+"ffn_gate", assistantInner, assistantWidth)
		matrix(b+"ffn_up", assistantInner, assistantWidth)
		matrix(b+"ffn_down", assistantWidth, assistantInner)
		add(b+"layer_output_scale.weight", 0.8, 0.1, 1)
	}
	if a.more != "" {
		add(a.more, 0, 1, assistantWidth)
	}
	var b bytes.Buffer
	if err := gguf.Write(&b, kvs, tensors); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func (a assistantFile) open(tb testing.TB, rt *Runtime, o Options) (*Model, error) {
	tb.Helper()
	return openBytes(tb, rt, a.bytes(tb), "assistant.gguf", o)
}

func openBytes(tb testing.TB, rt *Runtime, file []byte, name string, o Options) (*Model, error) {
	tb.Helper()
	o.Name = name
	m, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), o)
	if err == nil {
		tb.Cleanup(m.Close)
	}
	return m, err
}

// assistantTarget is the file of a small random gemma4 model with room for 2000 tokens.
func assistantTarget(tb testing.TB, name string) []byte {
	r := recipes()[name]
	r.keys = maps.Clone(r.keys)
	r.keys["context_length"] = uint32(2000)
	return r.file(tb)
}

// openPair opens a target and a draft head for it.
func openPair(tb testing.TB, rt *Runtime, target []byte, head assistantFile, weights string) (t, h *Model) {
	tb.Helper()
	t, err := openBytes(tb, rt, target, "target.gguf", Options{Weights: weights})
	if err != nil {
		tb.Fatal(err)
	}
	if h, err = head.open(tb, rt, Options{Weights: weights, Target: t}); err != nil {
		tb.Fatal(err)
	}
	return t, h
}

// assist computes a draft head of Gemma 4 in float64, with naive loops: after the n tokens that target computed last, token id with the
// hidden state h. It returns the logits and the next hidden state.
func (r *reference) assist(target *reference, n int, id int32, h []float64) (logits, next []float64) {
	width, heads := len(h), r.integer("attention.head_count", 0)
	both := slices.Clone(target.t["token_embd.weight"][int(id)*width:][:width])
	for i := range both {
		both[i] *= math.Sqrt(float64(width))
	}
	x := r.linear("nextn.pre_projection", append(both, h...))
	pattern, _ := r.f.Value(assistantArch + ".attention.sliding_window_pattern")
	layers := target.integer("block_count", 0)
	gelu := func(v float64) float64 { return v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))) }
	for i, window := range pattern.([]bool) {
		b := fmt.Sprintf("blk.%d.", i)
		dim, base, rotated, factors, lender, first := r.integer("attention.key_length", 0), r.number("rope.freq_base", 0), 0, r.t["rope_freqs.weight"], layers-1, 0
		rotated = dim
		if window {
			dim, base, factors, lender = r.integer("attention.key_length_swa", 0), r.number("rope.freq_base_swa", 10000), nil, layers-2
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

// chainOf drafts steps tokens after the target's, greedily, and returns logits and states of every step, one after the other.
func chainOf(tb testing.TB, s *Session, token int32, h []float32, steps int) (logits, states [][]float32, tokens []int32) {
	tb.Helper()
	for i := range steps {
		r, err := s.EvalSegment(context.Background(), Segment{Tokens: []int32{token}, States: h, FromTarget: i == 0, Logits: Last, Hidden: Last, Layers: []int{FinalNorm}})
		if err != nil {
			tb.Fatal(err)
		}
		logits, states, tokens = append(logits, slices.Clone(r.Logits.Row(0))), append(states, slices.Clone(r.Hidden.Row(0))), append(tokens, token)
		token, h = greatest(logits[i]), states[i]
	}
	return logits, states, tokens
}

// checkAssistant compares the draft head's chains of five tokens after every length of a text with the reference's.
func checkAssistant(t *testing.T, target *Model, targetFile []byte, head *Model, headFile []byte, ids []int32, lengths ...int) {
	t.Helper()
	tr, hr := newReference(t, targetFile), newReference(t, headFile)
	tr.logits(ids[:slices.Max(lengths)])
	for _, n := range lengths {
		s := newSession(t, target, SessionOptions{KV: "f32"})
		r, err := s.EvalSegment(context.Background(), Segment{Tokens: ids[:n], Hidden: Last, Layers: head.TargetLayers()})
		if err != nil {
			t.Fatal(err)
		}
		logits, states, tokens := chainOf(t, newSession(t, head, SessionOptions{Target: s}), ids[n], slices.Clone(r.Hidden.Row(0)), 5)
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

// TestAssistantReference: every step of chains of a draft head of Gemma 4 against the reference, for targets whose last layers share keys
// and values and for one with experts; options of the head, each of which moves the logits.
func TestAssistantReference(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	ids := randomTokens(60, recipeVocab, 6)
	for _, name := range []string{"gemma4", "gemma4 experts"} {
		file := assistantTarget(t, name)
		target, head := openPair(t, rt, file, assistantFile{}, "")
		checkAssistant(t, target, file, head, assistantFile{}.bytes(t), ids, 1, 2, 8, 9, 10, 31, 59)
	}
	file := assistantTarget(t, "gemma4")
	seen := map[string]string{}
	for name, a := range map[string]assistantFile{
		"plain":             {},
		"base":              {keys: map[string]gguf.Value{"rope.freq_base": float32(50)}},
		"base of windows":   {keys: map[string]gguf.Value{"rope.freq_base_swa": float32(50)}},
		"factors":           {ropeFactors: 5},
		"part of a head":    {keys: map[string]gguf.Value{"rope.dimension_count_swa": uint32(8)}},
		"a shorter window":  {keys: map[string]gguf.Value{"attention.sliding_window": uint32(4)}},
		"a window of two":   {keys: map[string]gguf.Value{"attention.sliding_window": uint32(2)}},
		"epsilon":           {keys: map[string]gguf.Value{"attention.layer_norm_rms_epsilon": float32(0.1)}},
		"default base":      {keys: map[string]gguf.Value{"rope.freq_base_swa": nil, "attention.shared_kv_layers": nil}},
		"no vocabulary key": {keys: map[string]gguf.Value{"vocab_size": nil}},
	} {
		target, head := openPair(t, rt, file, a, "")
		checkAssistant(t, target, file, head, a.bytes(t), ids, 30)
		s := newSession(t, target, SessionOptions{})
		r := forward(t, target, Batch{{Session: s, Tokens: ids[:30], Hidden: Last, Layers: []int{FinalNorm}}})
		logits, _, _ := chainOf(t, newSession(t, head, SessionOptions{Target: s}), ids[30], slices.Clone(r[0].Hidden.Row(0)), 1)
		if key := fmt.Sprint(logits); name != "default base" && name != "no vocabulary key" && name != "plain" {
			if seen[key] != "" {
				t.Errorf("%s and %s give the same logits", name, seen[key])
			}
			seen[key] = name
		}
	}
}

// TestAssistantFamily: the same with the gemma4 model of ../shared as the target, whose own logits an independent engine computed.
func TestAssistantFamily(t *testing.T) {
	path := shared(t, "families/models/gemma4.gguf")
	rt := newRuntime(t, RuntimeOptions{})
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	target, err := openBytes(t, rt, file, "target.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, net := target.config, target.net.(*decoder)
	full, windowed := net.blocks[c.Layers-1].mixer.(*attention), net.blocks[c.Layers-2].mixer.(*attention)
	if full.headDim != 2*windowed.headDim {
		t.Fatalf("heads of %d and %d", full.headDim, windowed.headDim)
	}
	kv := []uint32{uint32(windowed.kvHeads), uint32(full.kvHeads), uint32(windowed.kvHeads)}
	a := assistantFile{width: c.HiddenSize, vocab: c.Vocab, heads: kv, dim: windowed.headDim, keys: map[string]gguf.Value{"attention.sliding_window": uint32(windowed.scores.Window)}}
	head, err := a.open(t, rt, Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	n := min(60, c.Context-1)
	checkAssistant(t, target, file, head, a.bytes(t), randomTokens(n+1, c.Vocab, 8), 1, windowed.scores.Window, n)
}

// TestAssistantOneAnswer: promise P1: what a draft head computes does not depend on kernels and threads, on how the target's prompt was cut,
// on what else shares the pass, nor on what the target had been fed and given up before.
func TestAssistantOneAnswer(t *testing.T) {
	const n = 900 // tokens: those that the windows do not reach are given up
	file := assistantTarget(t, "gemma4")
	ids := randomTokens(n+40, recipeVocab, 4)
	for _, weights := range []string{"f32", "q8_0"} {
		var want, wantStates []float32
		for i, simd := range asm.Available() {
			rt := newRuntime(t, RuntimeOptions{Threads: 1 + i%2, SIMD: simd})
			target, head := openPair(t, rt, file, assistantFile{}, weights)
			fed := func(chunk int) (*Session, []float32) {
				s := newSession(t, target, SessionOptions{})
				var h []float32
				for from := 0; from < n; from += chunk {
					r := forward(t, target, Batch{{Session: s, Tokens: ids[from:min(n, from+chunk)], Hidden: Last, Layers: head.TargetLayers()}})
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
			if kv := s.kv[target.net.(*decoder).blocks[0].mixer.(*attention).cache]; kv.First() == 0 {
				t.Fatal("the cache of layers with a window keeps everything")
			}
			for _, chunk := range []int{1, 77} {
				if chunk == 1 && testing.Short() {
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
				token = greatest(want[j*recipeVocab : (j+1)*recipeVocab])
				states = append(states, wantStates[j*recipeWidth:(j+1)*recipeWidth]...)
			}
			states = states[:5*recipeWidth]
			one := []int{FinalNorm}
			out := forward(t, head, Batch{
				{Session: newSession(t, head, SessionOptions{Target: short}), Tokens: ids[:30], States: make([]float32, 30*recipeWidth), Logits: Last},
				{Session: newSession(t, head, SessionOptions{Target: s}), Tokens: tokens, States: states, Logits: All, Hidden: All, Layers: one},
				{Session: newSession(t, head, SessionOptions{Target: s}), Tokens: tokens[2:], States: states[2*recipeWidth:], Logits: 2, Hidden: Last, Layers: one},
			})
			sameBits(t, "rows of one pass", out[1].Logits.Data, want)
			sameBits(t, "states of one pass", out[1].Hidden.Data, wantStates)
			sameBits(t, "the last two rows", out[2].Logits.Data, want[3*recipeVocab:])
			sameBits(t, "the last state", out[2].Hidden.Data, wantStates[4*recipeWidth:])
		}
	}
}

// TestAssistantSessions: sessions of a draft head keep nothing, and what cannot be computed is refused.
func TestAssistantSessions(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	file := assistantTarget(t, "gemma4")
	target, head := openPair(t, rt, file, assistantFile{}, "")
	another, err := openBytes(t, rt, file, "another.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if h := head.Head(); h == nil || !h.SharesCache || h.FirstToken || h.Output != FinalNorm || !slices.Equal(h.TargetLayers, []int{FinalNorm}) || h.TargetStates() != recipeWidth || head.Caches(0) != nil {
		t.Fatalf("%+v", head.Head())
	}
	s := newSession(t, target, SessionOptions{Context: 1000})
	for what, c := range map[string]struct {
		m    *Model
		o    SessionOptions
		says string
	}{
		"no target":           {head, SessionOptions{}, "assistant.gguf"},
		"another model's":     {head, SessionOptions{Target: newSession(t, another, SessionOptions{})}, "another model"},
		"no cache":            {head, SessionOptions{Target: newSession(t, target, SessionOptions{NoCache: true})}, "keeps none"},
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
	state := make([]float32, recipeWidth)
	good := Segment{Tokens: []int32{1}, States: state, Logits: Last, Hidden: Last, Layers: []int{FinalNorm}}
	refused := func(what string, g Segment, want error) {
		t.Helper()
		if _, err := d.EvalSegment(context.Background(), g); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("an empty target", good, ErrUsage)
	forward(t, target, Batch{{Session: s, Tokens: randomTokens(899, recipeVocab, 2)}})
	with := func(change func(*Segment)) Segment {
		g := good
		change(&g)
		return g
	}
	refused("a tree", with(func(g *Segment) { g.Parents = []int32{-1} }), ErrUsage)
	refused("no states", with(func(g *Segment) { g.States = nil }), ErrUsage)
	refused("states of the head's width", with(func(g *Segment) { g.States = state[:assistantWidth] }), ErrUsage)
	refused("another layer", with(func(g *Segment) { g.Layers = []int{0} }), ErrUsage)
	refused("a token too many", with(func(g *Segment) { g.Tokens = []int32{recipeVocab} }), ErrVocabulary)
	nan := slices.Clone(state)
	nan[5] = float32(math.NaN())
	refused("a state that is no number", with(func(g *Segment) { g.States = nan }), ErrNotFinite)
	if _, err := d.EvalSegment(context.Background(), good); err != nil || d.Len() != 0 || d.Bytes() != 0 {
		t.Errorf("%v, %d tokens, %d bytes", err, d.Len(), d.Bytes())
	}
	// Another row of the same pass is not touched by one that fails.
	two := newSession(t, head, SessionOptions{Target: s})
	out, err := head.Forward(context.Background(), Batch{{Session: d, Tokens: []int32{1}, States: nan, Logits: Last}, {Session: two, Tokens: []int32{1}, States: state, Logits: Last, Hidden: Last, Layers: []int{FinalNorm}}})
	if err != nil || !errors.Is(out[0].Err, ErrNotFinite) || out[1].Err != nil {
		t.Errorf("%v, %+v", err, out)
	}
	allocs := testing.AllocsPerRun(10, func() {
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
	c := NewScheduler(head, SchedulerOptions{})
	defer c.Close()
	if _, err := c.NewSession(context.Background(), SessionOptions{Target: newSession(t, target, SessionOptions{})}); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "target's cache") {
		t.Errorf("shared passes: %v", err)
	}
}

// TestAssistantRefused: what a head's file lacks, has too much of, or contradicts its target in, is refused by name.
func TestAssistantRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	target, err := openBytes(t, rt, assistantTarget(t, "gemma4"), "target.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	order := recipes()["gemma4"] // its last layer has a window, which no head expects
	order.keys, order.layers = maps.Clone(order.keys), 5
	order.keys["attention.shared_kv_layers"] = uint32(1)
	ordered, err := openBytes(t, rt, order.file(t), "ordered.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	llama := smallLlama().open(t, rt, Options{})
	elsewhere, err := openBytes(t, newRuntime(t, RuntimeOptions{}), assistantTarget(t, "gemma4"), "elsewhere.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := func(k string, v gguf.Value) assistantFile { return assistantFile{keys: map[string]gguf.Value{k: v}} }
	type refusal struct {
		a      assistantFile
		target *Model
		want   error
		says   string
	}
	all := map[string]refusal{
		"no target":            {assistantFile{}, nil, ErrUnsupported, "beside its target"},
		"another target":       {assistantFile{}, llama, ErrShape, "the target is llama"},
		"another order":        {assistantFile{}, ordered, ErrUnsupported, "last layer"},
		"another runtime":      {assistantFile{}, elsewhere, ErrUsage, "one runtime"},
		"another width":        {assistantFile{width: 96}, target, ErrValue, "embedding_length_out"},
		"no width":             {key("embedding_length_out", nil), target, gguf.ErrMissing, "embedding_length_out"},
		"no NextN":             {key("nextn_predict_layers", nil), target, gguf.ErrMissing, "nextn_predict_layers"},
		"fewer NextN":          {key("nextn_predict_layers", uint32(2)), target, ErrValue, "nextn_predict_layers"},
		"a block too many":     {assistantFile{keys: map[string]gguf.Value{"block_count": uint32(4), "nextn_predict_layers": uint32(4)}}, target, ErrValue, "block_count"},
		"no pattern":           {key("attention.sliding_window_pattern", nil), target, ErrValue, "sliding_window_pattern"},
		"a short pattern":      {key("attention.sliding_window_pattern", []bool{true}), target, ErrValue, "sliding_window_pattern"},
		"another pattern":      {key("attention.sliding_window_pattern", []bool{true, true, true}), target, ErrValue, "attention.head_count_kv"},
		"no window":            {key("attention.sliding_window", nil), target, gguf.ErrMissing, "attention.sliding_window"},
		"a longer window":      {key("attention.sliding_window", uint32(10)), target, ErrValue, "attention.sliding_window"},
		"a window of one":      {key("attention.sliding_window", uint32(1)), target, ErrValue, "attention.sliding_window"},
		"other heads":          {assistantFile{heads: []uint32{2, 2, 2}}, target, ErrValue, "attention.head_count_kv"},
		"longer keys":          {assistantFile{dim: 32}, target, ErrValue, "attention.key_length_swa"},
		"values of their own":  {key("attention.value_length_swa", uint32(8)), target, ErrUnsupported, "attention.value_length_swa"},
		"part that shares":     {key("attention.shared_kv_layers", uint32(1)), target, ErrUnsupported, "attention.shared_kv_layers"},
		"layer inputs":         {key("embedding_length_per_layer_input", uint32(8)), target, ErrUnsupported, "embedding_length_per_layer_input"},
		"a cap":                {key("final_logit_softcapping", float32(30)), target, ErrUnsupported, "final_logit_softcapping"},
		"a scale of scores":    {key("attention.scale", float32(2)), target, ErrUnsupported, "attention.scale"},
		"another vocabulary":   {assistantFile{vocab: 71}, target, ErrShape, "token_embd.weight"},
		"an output matrix":     {assistantFile{more: "output.weight"}, target, ErrUnsupported, "output.weight"},
		"keys":                 {assistantFile{more: "blk.0.attn_k.weight"}, target, ErrUnsupported, "blk.0.attn_k.weight"},
		"a bias":               {assistantFile{more: "nextn.pre_projection.bias"}, target, ErrUnsupported, "nextn.pre_projection.bias"},
		"clusters":             {assistantFile{more: "masked_embd_centroids.weight"}, target, ErrUnsupported, "masked_embd_centroids.weight"},
		"an order of clusters": {assistantFile{more: "masked_embd_ordering"}, target, ErrUnsupported, "masked_embd_ordering"},
	}
	for _, name := range []string{"token_embd.weight", "output_norm.weight", "rope_freqs.weight", "nextn.pre_projection.weight", "nextn.post_projection.weight", "blk.0.attn_norm.weight",
		"blk.1.attn_q.weight", "blk.1.attn_q_norm.weight", "blk.2.attn_output.weight", "blk.0.post_attention_norm.weight", "blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
		"blk.0.ffn_down.weight", "blk.1.post_ffw_norm.weight", "blk.2.layer_output_scale.weight"} {
		all["no "+name] = refusal{assistantFile{without: name}, target, ErrMissing, name}
	}
	for what, c := range all {
		_, err := c.a.open(t, rt, Options{Target: c.target})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "assistant.gguf") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// MTP is of no importance: the file has nothing else.
	if m, err := (assistantFile{}).open(t, rt, Options{Target: target, MTP: true}); err != nil || m.Head() == nil {
		t.Errorf("with MTP: %v", err)
	}
	file := assistantFile{}.bytes(t)
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "assistant.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Describe(f); !errors.Is(err, ErrUnsupported) || !SharesCache(f) {
		t.Errorf("described: %v", err)
	}
	if p, err := PlanMemory(f, Options{Target: target}); err != nil || p.Weights == 0 {
		t.Errorf("its memory: %+v, %v", p, err)
	}
}

// TestAssistantStreamed: a draft head computes the same with weights that are read from disk, its own or its target's.
func TestAssistantStreamed(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	dir := t.TempDir()
	write := func(name string, file []byte) string {
		if err := os.WriteFile(dir+"/"+name, file, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	whole, streamed := both(t, rt, write("target.gguf", assistantTarget(t, "gemma4")), Options{})
	path := write("assistant.gguf", assistantFile{}.bytes(t))
	ids := randomTokens(30, recipeVocab, 3)
	var want []float32
	for i, target := range []*Model{whole, streamed} {
		heads := []*Model{openModel(t, rt, path, Options{Target: target})}
		if i == 1 {
			_, m := both(t, rt, path, Options{Target: target})
			heads = append(heads, m)
		}
		for j, head := range heads {
			s := newSession(t, target, SessionOptions{})
			r := forward(t, target, Batch{{Session: s, Tokens: ids, Hidden: Last, Layers: []int{FinalNorm}}})
			logits, states, _ := chainOf(t, newSession(t, head, SessionOptions{Target: s}), 7, slices.Clone(r[0].Hidden.Row(0)), 3)
			got := append(slices.Concat(logits...), slices.Concat(states...)...)
			if want == nil {
				want = got
			}
			sameBits(t, fmt.Sprint("target ", i, ", head ", j), got, want)
		}
	}
}

// TestDescribeFamilies: the header of a file says of every architecture what the model that is loaded from it says.
func TestDescribeFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	for name, r := range recipes() {
		file := r.file(t)
		f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := openBytes(t, rt, file, name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := Describe(f)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if want := m.Describe(); !reflect.DeepEqual(d, want) {
			t.Errorf("%s: %+v, loaded it is %+v", name, d, want)
		}
	}
}
