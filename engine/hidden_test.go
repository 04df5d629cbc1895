package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// evalHidden feeds a segment and copies its hidden states.
func evalHidden(tb testing.TB, s *Session, g Segment) []float32 {
	tb.Helper()
	r, err := s.EvalSegment(context.Background(), g)
	if err != nil {
		tb.Fatal(err)
	}
	if r.Hidden.Rows()*r.Hidden.Size*len(g.Layers) != len(r.Hidden.Data) {
		tb.Fatalf("%d rows of %d states, %d numbers", r.Hidden.Rows(), len(g.Layers), len(r.Hidden.Data))
	}
	return slices.Clone(r.Hidden.Data)
}

// TestHiddenStates: the states are those of the layers asked for. The input of layer k is what a session that ends
// before it puts into the final norm, and its logits are the output matrix times that.
func TestHiddenStates(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, v := range []randommodel.Shape{randommodel.Llama(), randommodel.GPT2()} {
		v.Layers = 3
		file := v.File(t)
		m, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		r, d, n := newReference(t, file), v.Width, 9
		ids := randomTokens(n, v.Vocab, 1)
		layers := []int{3, 0, FinalNorm, 2, 1, 2}
		out, err := newSession(t, m, SessionOptions{KV: "f32"}).EvalSegment(
			context.Background(), Segment{Tokens: ids, Hidden: All, Layers: layers})
		if err != nil {
			t.Fatal(err)
		}
		h := out.Hidden
		if h.Rows() != n || h.Size != d || !slices.Equal(h.Layers, layers) || len(h.Data) != n*6*d {
			t.Fatalf("%d rows of %d numbers for %d, %d in all", h.Rows(), h.Size, h.Layers, len(h.Data))
		}
		all := slices.Clone(h.Data)
		for i, id := range ids {
			embedding := slices.Clone(r.t["token_embd.weight"][int(id)*d : (int(id)+1)*d])
			if v.Arch == "gpt2" {
				for j := range embedding {
					embedding[j] += r.t["position_embd.weight"][i*d+j]
				}
			}
			if worst := difference(t, h.At(i, 1), embedding); worst > 1e-6 {
				t.Errorf("%s: the embedding at position %d is off by %g", v.Arch, i, worst)
			}
			sameBits(t, "a layer that is asked for twice", h.At(i, 5), h.At(i, 3))
			sameBits(t, "a row", h.Row(i)[2*d:3*d], h.At(i, 2))
		}
		for j, k := range layers {
			if k < 1 {
				continue
			}
			s := newSession(t, m, SessionOptions{KV: "f32", Layers: k})
			out, err := s.EvalSegment(context.Background(),
				Segment{Tokens: ids, Logits: All, Hidden: All, Layers: []int{FinalNorm, k}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range ids {
				full := all[(i*6+j)*d : (i*6+j+1)*d]
				sameBits(t, fmt.Sprintf("%s, layer %d", v.Arch, k), out.Hidden.At(i, 1), full)
				var x []float64
				for _, f := range full {
					x = append(x, float64(f))
				}
				normed := r.norm("output_norm", x)
				if worst := difference(t, out.Hidden.At(i, 0), normed); worst > 1e-5 {
					t.Errorf("%s, layer %d: the normed state is off by %g", v.Arch, k, worst)
				}
				if k == 3 {
					sameBits(t, "the final norm", all[(i*6+2)*d:(i*6+3)*d], out.Hidden.At(i, 0))
				}
				if worst := difference(t, out.Logits.Row(i), r.matrix(r.t["token_embd.weight"], nil, normed)); worst > 1e-5 {
					t.Errorf("%s: the logits of %d layers are off by %g from those of the state", v.Arch, k, worst)
				}
			}
		}
		// Some of the rows.
		for _, rows := range []Rows{None, Last, 4} {
			s := newSession(t, m, SessionOptions{KV: "f32"})
			sameBits(t, fmt.Sprint(rows, " rows"), evalHidden(
				t, s, Segment{Tokens: ids, Logits: 2, Hidden: rows, Layers: layers}), all[(n-int(rows))*6*d:])
			if logits, want := eval(t, s, ids, nil, Last),
				eval(t, newSession(t, m, SessionOptions{KV: "f32"}), append(slices.Clone(ids), ids...), nil,
					Last); !slices.Equal(logits, want) {
				t.Error("the session does not go on as if nobody had asked for states")
			}
		}
		if out, err := newSession(t, m, SessionOptions{}).EvalSegment(
			context.Background(), Segment{Tokens: ids, Hidden: All}); err != nil || out.Hidden.Rows() != 0 {
			t.Errorf("no layers: %d rows, %v", out.Hidden.Rows(), err)
		}
	}
}

// TestHiddenOneAnswer: promise P1 for hidden states.
func TestHiddenOneAnswer(t *testing.T) {
	layers := []int{0, 1, 2, FinalNorm}
	for name, v := range variants() {
		var want []float32
		for i, simd := range slices.Backward(asm.Available()) { // the best kernels first
			rt := newRuntime(t, RuntimeOptions{Threads: 1 + i%2, SIMD: simd})
			m := openDrawn(t, rt, v, Options{})
			ids := randomTokens(300, m.config.Vocab, 4)
			n := len(layers) * m.config.HiddenSize
			if want == nil {
				want = evalHidden(t, newSession(t, m, SessionOptions{}), Segment{Tokens: ids, Hidden: All, Layers: layers})
			}
			if len(want) != 300*n {
				t.Fatalf("%d numbers", len(want))
			}
			for _, size := range []int{1, 7, 64, 300} {
				if size != 64 && i < len(asm.Available())-1 && !testkit.IsLong(t) { // every size with the best kernels
					continue
				}
				s, another := newSession(t, m, SessionOptions{}), newSession(t, m, SessionOptions{})
				var got []float32
				for rest := ids; len(rest) > 0; rest = rest[min(size, len(rest)):] {
					piece := rest[:min(size, len(rest))]
					wanted := min(len(piece), 1+len(got)/n%5) // sometimes only the last rows
					b := Batch{{Session: another, Tokens: piece[:1], Logits: Last, Hidden: Last, Layers: []int{1}},
						{Session: s, Tokens: piece, Hidden: Rows(wanted), Layers: layers}}
					states := forward(t, m, b)[1].Hidden.Data
					got = append(got, want[len(got):len(got)+(len(piece)-wanted)*n]...)
					got = append(got, states...)
				}
				sameBits(t, fmt.Sprintf("%s, %s, chunks of %d", name, simd, size), got, want)
			}
			// Trees with a wrong sibling in front of each token, and no cache.
			for _, noCache := range []bool{false, true} {
				if noCache && i < len(asm.Available())-1 && !testkit.IsLong(t) {
					continue
				}
				s, from := newSession(t, m, SessionOptions{NoCache: noCache}), 0
				switch {
				case noCache:
					from = 270
				case i < len(asm.Available())-1 && !testkit.IsLong(t): // over the end of a page
					from = 240
				}
				if from > 0 {
					eval(t, s, ids[:from], nil, None)
				}
				for at := from; at < 300; at += 30 {
					var tokens, parents, path []int32
					parent := int32(-1)
					for _, id := range ids[at : at+30] {
						tokens, parents = append(tokens, (id+1)%int32(m.config.Vocab), id), append(parents, parent, parent)
						parent = int32(len(tokens) - 1)
						path = append(path, parent)
					}
					got := evalHidden(t, s, Segment{Tokens: tokens, Parents: parents, Hidden: All, Layers: layers})
					for i, node := range path {
						sameBits(t, fmt.Sprintf("%s, %s, tree, position %d", name, simd, at+i), got[int(node)*n:(int(node)+1)*n],
							want[(at+i)*n:(at+i+1)*n])
					}
					if err := s.Commit(path); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// TestLongHiddenOneAnswer: every size of chunks and no cache with every kernel set.
func TestLongHiddenOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestHiddenOneAnswer(t)
}

func TestHiddenRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	v := randommodel.Llama()
	m := openDrawn(t, rt, v, Options{})
	exit := newSession(t, m, SessionOptions{Layers: 1})
	if _, err := exit.EvalSegment(context.Background(),
		Segment{Tokens: []int32{1}, Hidden: Last, Layers: []int{2}}); !errors.Is(err, ErrUsage) {
		t.Errorf("a layer after the exit: %v", err)
	}
	s := newSession(t, m, SessionOptions{})
	for _, g := range []Segment{
		{Hidden: All, Layers: []int{3}}, {Hidden: All, Layers: []int{0, -2}}, {Hidden: 3, Layers: []int{0}},
		{Hidden: -2, Layers: []int{0}}, {Hidden: math.MaxInt, Layers: []int{0}},
	} {
		g.Tokens = []int32{1, 2}
		if _, err := s.EvalSegment(context.Background(), g); !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: %v", g, err)
		}
	}
	if s.Len() != 0 {
		t.Errorf("the session moved to %d tokens", s.Len())
	}
	if _, err := (*Session)(nil).EvalSegment(context.Background(), Segment{}); !errors.Is(err, ErrUsage) {
		t.Errorf("no session: %v", err)
	}
	// The last block's output is not finite: without logits only who asks for it finds out. The other segment does not.
	v.Scale = map[string]float32{"blk.1.ffn_down.weight": 3e38}
	m = openDrawn(t, rt, v, Options{})
	other := newSession(t, m, SessionOptions{})
	for _, k := range []int{2, FinalNorm} {
		s = newSession(t, m, SessionOptions{})
		out, err := m.Forward(context.Background(),
			Batch{{Session: s, Tokens: []int32{1, 2}, Hidden: All, Layers: []int{0, k}},
				{Session: other, Tokens: []int32{1, 2}, Hidden: All, Layers: []int{0, 1}}})
		if err != nil || !errors.Is(out[0].Err, ErrNotFinite) || len(out[0].Hidden.Data) != 0 ||
			out[1].Err != nil || s.Len() != 0 {
			t.Errorf("layer %d, not finite: %v, %+v", k, err, out)
		}
	}
}

func TestHiddenAllocatesNothing(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 2}), randommodel.Llama(), Options{})
	s := newSession(t, m, SessionOptions{})
	g := Segment{Tokens: []int32{1, 2, 3}, Logits: Last, Hidden: All, Layers: []int{0, 2, FinalNorm}}
	step := func() {
		if _, err := s.EvalSegment(context.Background(), g); err != nil {
			t.Fatal(err)
		}
		if err := s.Truncate(0); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if n := testkit.Allocs(10, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestHiddenFamilies: likewise for other kinds of blocks, recurrent ones among them: states come whole, in chunks,
// and after a tree and a step back.
func TestHiddenFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range []string{"qwen35", "lfm2", "granitehybrid", "falcon-h1", "gemma3", "qwen3moe", "gpt-oss"} {
		m, err := Open(context.Background(), rt, testkit.Shared(t, "families/models/"+name+".gguf"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		layers := []int{0, 1, m.config.Layers, FinalNorm}
		n, ids := len(layers)*m.config.HiddenSize, randomTokens(40, m.config.Vocab, 2)
		want := evalHidden(t, newSession(t, m, SessionOptions{}), Segment{Tokens: ids, Hidden: All, Layers: layers})
		s := newSession(t, m, SessionOptions{})
		var got []float32
		for i, size := range []int{1, 12, 7, 20} {
			at := s.Len()
			got = append(got, evalHidden(t, s, Segment{Tokens: ids[at : at+size], Hidden: All, Layers: layers})...)
			if i == 1 { // wrong tokens are taken back
				eval(t, s, randomTokens(5, m.config.Vocab, 9), nil, Last)
				if err := s.Truncate(13); err != nil {
					t.Fatal(err)
				}
			}
		}
		sameBits(t, name, got, want)
		s = newSession(t, m, SessionOptions{})
		eval(t, s, ids[:30], nil, None)
		tree := evalHidden(t, s, Segment{Tokens: []int32{(ids[30] + 1) % 256, ids[30], ids[31]}, Parents: []int32{-1, -1, 1},
			Hidden: All, Layers: layers})
		sameBits(t, name+", tree", tree[n:3*n], want[30*n:32*n])
		if err := s.Commit([]int32{1, 2}); err != nil {
			t.Fatal(err)
		}
		sameBits(t, name+", after the tree", evalHidden(
			t, s, Segment{Tokens: ids[32:], Hidden: All, Layers: layers}), want[32*n:])
	}
}
