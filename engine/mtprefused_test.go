package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// TestMTPBlocksRefused: what several blocks cannot compute is refused, and moves nothing; so are files that lack a
// part of a block.
func TestMTPBlocksRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	recipe := mtpRecipe("qwen35", 3, false)
	file := recipe.File(t)
	target, head := openMTP(t, rt, file, Options{})
	ctx := context.Background()
	s, x := newSession(t, head, SessionOptions{}), newMTPText(30, 6)
	eval := func(g Segment) []float32 {
		t.Helper()
		r, err := s.EvalSegment(ctx, g)
		if err != nil {
			t.Fatal(err)
		}
		return append(slices.Clone(r.Hidden.Data), r.Logits.Data...)
	}
	y := eval(x.segment(0, 9))[:randommodel.Width]
	drafted := func(n int) Segment {
		return Segment{Tokens: x.ids[:n], States: slices.Repeat(y, n), Logits: Last, Hidden: Last, Layers: []int{FinalNorm}}
	}
	want := eval(drafted(1))
	tree := drafted(1)
	tree.Parents = []int32{-1}
	layer := drafted(1)
	layer.Layers = []int{1}
	input := drafted(1)
	input.Layers = []int{0}
	for what, c := range map[string]struct {
		g    Segment
		says string
	}{
		"too far":                 {drafted(2), "3 MTP blocks"},
		"a tree":                  {tree, "chains"},
		"the target's after them": {x.segment(10, 11), "cut off first"},
		"the input of a block":    {layer, "layer 1"},
		"the input":               {input, "layer 0"},
	} {
		if _, err := s.EvalSegment(ctx, c.g); !errors.Is(err, ErrUsage) ||
			!strings.Contains(err.Error(), c.says) || s.Len() != 10 {
			t.Errorf("%s: %v, %d tokens", what, err, s.Len())
		}
	}
	next := eval(drafted(1))
	if _, err := s.EvalSegment(ctx, drafted(1)); !errors.Is(err, ErrUsage) {
		t.Errorf("a fourth block: %v", err)
	}
	if err := s.Truncate(9); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "after refusals", eval(drafted(1)), want)
	sameBits(t, "after refusals, further", eval(drafted(1)), next)
	if _, err := head.NewSession(SessionOptions{Layers: 2}); !errors.Is(err, ErrUsage) {
		t.Errorf("a part of the blocks: %v", err)
	}

	// Of two sessions one gets states that are not finite: the other one's answer does not change.
	if err := s.Truncate(9); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		fromTarget, place := i%2 == 0, i/2
		bad := newSession(t, head, SessionOptions{})
		g := x.segment(0, 4)
		if g.Session, g.States = bad, slices.Clone(g.States); !fromTarget {
			g.Tokens, g.States, g.FromTarget = g.Tokens[:2], g.States[:2*randommodel.Width], false
		}
		g.States[randommodel.Width+5] = float32(math.Inf(1))
		good := drafted(1)
		good.Session = s
		b := Batch{good, good}
		b[place] = g
		out, err := head.Forward(ctx, b)
		if err != nil || !errors.Is(out[place].Err, ErrNotFinite) || out[1-place].Err != nil {
			t.Fatalf("%v, %v, %v", err, out[0].Err, out[1].Err)
		}
		sameBits(t, "beside states that are not finite",
			append(slices.Clone(out[1-place].Hidden.Data), out[1-place].Logits.Data...), want)
		if err := s.Truncate(9); err != nil {
			t.Fatal(err)
		}
	}

	// A draft right after a cut into the text is one of the first tokens that are left, in a fork too.
	fresh := newSession(t, head, SessionOptions{})
	forward(t, head, Batch{func() Segment { g := x.segment(0, 5); g.Session = fresh; return g }()})
	fork, err := s.ForkAt(5)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Truncate(5); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		var all [3][]float32
		for i, s := range []*Session{s, fork, fresh} {
			other := x.segment(n, n+3) // so that none finds what the one before it left
			other.Session = newSession(t, head, SessionOptions{})
			forward(t, head, Batch{other})
			g := drafted(1)
			g.Session = s
			out := forward(t, head, Batch{g})[0]
			all[i] = append(slices.Clone(out.Hidden.Data), out.Logits.Data...)
		}
		sameBits(t, fmt.Sprint("drafted token ", n, " in a fork"), all[1], all[2])
		sameBits(t, fmt.Sprint("drafted token ", n, " after a cut"), all[0], all[2])
	}

	without := func(name string, kvs ...gguf.KV) []byte {
		f := readHeader(t, file, "x")
		var tensors []gguf.TensorSource
		for _, x := range f.Tensors {
			if x.Name != name {
				tensors = append(tensors, fileTensor(x.Name, x, file))
			}
		}
		all := slices.DeleteFunc(slices.Clone(f.KVs), func(kv gguf.KV) bool {
			return slices.ContainsFunc(kvs, func(o gguf.KV) bool { return o.Key == kv.Key })
		})
		return randommodel.Bytes(t, append(all, kvs...), tensors)
	}
	for what, c := range map[string]struct {
		file []byte
		want error
		says string
	}{
		"no projection of the second block": {without("blk.5.nextn.eh_proj.weight"), ErrMissing,
			"blk.5.nextn.eh_proj.weight"},
		"no attention in the third block": {without("blk.6.attn_k.weight"), ErrMissing, "blk.6.attn_k.weight"},
		"all blocks": {without("", gguf.KV{Key: "qwen35.nextn_predict_layers", Value: uint32(7)}),
			ErrValue, "7 of 7 blocks"},
		"more than all blocks": {without(
			"", gguf.KV{Key: "qwen35.nextn_predict_layers", Value: uint32(1 << 23)}), ErrValue, "of 7 blocks"},
		"none": {without("", gguf.KV{Key: "qwen35.nextn_predict_layers", Value: uint32(0)}),
			ErrUnsupported, "no MTP block"},
		"a block that is none": {without("", gguf.KV{Key: "qwen35.nextn_predict_layers", Value: uint32(4)}),
			ErrMissing, "blk.3.nextn"},
	} {
		_, err := New(ctx, rt, bytes.NewReader(c.file), int64(len(c.file)),
			Options{Name: "mtp.gguf", MTP: true, Target: target})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "mtp.gguf") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
