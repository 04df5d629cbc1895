package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// TestMTPGolden: the MTP block of a model's file step by step against an independent engine: the target's states that
// go in, the logits at the positions of a prompt, and a chain of five drafted tokens. The states come whole or in
// pieces, with other kernels.
func TestMTPGolden(t *testing.T) {
	for _, name := range []string{"", "-deepseek2", "-hy-v3", "-mimo2", "-qwen35moe", "-qwen3next", "-step35"} {
		t.Run("mtp"+name, func(t *testing.T) {
			g := readDraftGolden(t, "draft-mtp"+name+".json")
			draftsLike(t, testkit.Shared(t, "families/models/"+g.Target), g)
		})
	}
}

// TestMTPGoldenOfLing3: the same for Ling 3, whose MTP block has the final norm in another tensor.
func TestMTPGoldenOfLing3(t *testing.T) {
	const name = "bailingmoe3"
	draftsLike(t, written(t, askedModels()[name].file(t, name)), readDraftGoldenAt(t, "testdata/mtpling3.json"))
}

// draftsLike compares the MTP block of a model's file with a golden.
func draftsLike(t *testing.T, file string, g draftGolden) {
	t.Helper()
	if len(g.Fed) != 4 || len(g.Logits) != 4 || len(g.Chain) != 5 {
		t.Fatal("the golden is not what it should be")
	}
	ctx := context.Background()
	var first []float32
	for _, simd := range []string{"", "scalar"} {
		rt := newRuntime(t, RuntimeOptions{SIMD: simd})
		open := func(o Options) *Model {
			m, err := Open(ctx, rt, file, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Close)
			return m
		}
		target := open(Options{})
		head := open(Options{MTP: true, Target: target})
		h := head.Head()
		if !target.HasMTP() || head.HasMTP() || target.Head() != nil || h == nil || len(h.TargetLayers) != 1 ||
			!h.FirstToken || head.Config().Layers != 1 {
			t.Fatalf("%+v, %+v", h, head.Config())
		}
		out, err := newSession(t, target, SessionOptions{KV: "f32"}).EvalSegment(
			ctx, Segment{Tokens: g.IDs, Logits: Last, Hidden: All, Layers: h.TargetLayers})
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range g.Fed {
			i, _ := strconv.Atoi(key)
			if worst := difference(t, out.Hidden.Row(i), want); !(worst < 1e-4) {
				t.Errorf("position %s: the fed state is off by %g", key, worst)
			}
		}
		if next := greatest(out.Logits.Row(0)); next != g.Next {
			t.Fatalf("the target goes on with %d, expected %d", next, g.Next)
		}
		d := h.TargetStates()
		tokens := append(slices.Clone(g.IDs), g.Next)
		states := append(make([]float32, d), out.Hidden.Data...)
		whole := newSession(t, head, SessionOptions{KV: "f32"})
		steps, err := whole.EvalSegment(ctx, Segment{
			Tokens: tokens, States: states, FromTarget: true, Logits: All, Hidden: Last, Layers: []int{h.Output}})
		if err != nil {
			t.Fatal(err)
		}
		all := slices.Clone(steps.Logits.Data)
		for key, want := range g.Logits {
			i, _ := strconv.Atoi(key)
			if worst := difference(t, steps.Logits.Row(i), want); !(worst < 1e-4) {
				t.Errorf("position %s: the logits are off by %g", key, worst)
			}
		}
		row, y := slices.Clone(steps.Logits.Row(len(g.IDs))), slices.Clone(steps.Hidden.Row(0))
		for i, step := range g.Chain {
			if worst := difference(t, row, step.Logits); !(worst < 1e-4) {
				t.Errorf("step %d: the logits are off by %g", i, worst)
			}
			id := greatest(row)
			if id != step.ID {
				t.Fatalf("step %d drafts %d, expected %d", i, id, step.ID)
			}
			next, err := whole.EvalSegment(ctx, Segment{
				Tokens: []int32{id}, States: y, Logits: Last, Hidden: Last, Layers: []int{h.Output}})
			if err != nil {
				t.Fatal(err)
			}
			row, y = slices.Clone(next.Logits.Row(0)), slices.Clone(next.Hidden.Row(0))
			all = append(all, row...)
		}
		if first == nil {
			first = all
		}
		sameBits(t, "kernels "+simd, all, first)
		for _, size := range []int{1, 6, 13} {
			s, v := newSession(t, head, SessionOptions{KV: "f32"}), head.Config().Vocab
			var got []float32
			for from := 0; from < len(tokens); from += size {
				to := min(len(tokens), from+size)
				r, err := s.EvalSegment(ctx, Segment{Tokens: tokens[from:to], States: states[from*d : to*d],
					Logits: All})
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, r.Logits.Data...)
			}
			sameBits(t, fmt.Sprint("chunks of ", size), got, all[:len(tokens)*v])
		}
	}
}

// TestMTPRefused: MTP blocks of a model that has none, and without the model.
func TestMTPRefused(t *testing.T) {
	ctx := context.Background()
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range []string{"llama-tied", "qwen3"} {
		if _, err := Open(ctx, rt, testkit.Shared(
			t, "families/models/"+name+".gguf"), Options{MTP: true}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(ctx, rt, testkit.Shared(
		t, "families/models/qwen35.gguf"), Options{MTP: true}); !errors.Is(err, ErrMissing) {
		t.Errorf("no target: %v", err)
	}
}
