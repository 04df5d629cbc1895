package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

func TestNotFinite(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{})
	for tensor, scale := range map[string]float32{
		"blk.0.ffn_norm.weight": 1e30, "blk.1.attn_norm.weight": 1e30, "output_norm.weight": 2e38} {
		for _, weights := range []string{"f32", "q8_0"} {
			v := randommodel.Llama()
			v.Scale = map[string]float32{tensor: scale}
			m := openDrawn(t, rt, v, Options{Weights: weights})
			s := newSession(t, m, SessionOptions{})
			if _, err := s.Eval(context.Background(),
				randomTokens(30, m.config.Vocab, 1), nil, All); !errors.Is(err, ErrNotFinite) {
				t.Errorf("%s, %s: %v", tensor, weights, err)
			}
			if s.Len() != 0 {
				t.Errorf("%s: the session moved", tensor)
			}
		}
	}
}

// TestNotFiniteRow: a segment whose activations are not finite fails; those that share the pass with it do not
// notice, whatever its shape and wherever its rows lie.
func TestNotFiniteRow(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	for _, weights := range []string{"f32", "q8_0"} {
		for _, v := range []randommodel.Shape{randommodel.Llama(), randommodel.GPT2()} {
			// Token 69 alone has all of its embedding in element 3. Normalized that is 8, and 8 * 6e37 is too great. The
			// matrices that follow do not look at it.
			if weights == "q8_0" {
				v.Weights = gguf.Q8_0
			}
			blind := func(x []float32) {
				for i := 3; i < len(x); i += v.Width {
					x[i] = 0
				}
			}
			v.Edit = map[string]func(x []float32){
				"token_embd.weight":      func(x []float32) { clear(x[69*v.Width:]); x[69*v.Width+3] = 100 },
				"blk.0.attn_norm.weight": func(x []float32) { x[3] = 6e37 },
				"blk.0.attn_q.weight":    blind, "blk.0.attn_k.weight": blind, "blk.0.attn_v.weight": blind,
				"blk.0.attn_qkv.weight": blind,
			}
			v.Untied = true // with token 69 in the head, all its logits would be great
			m := openDrawn(t, rt, v, Options{})
			ids := randomTokens(290, 69, 3)
			good := func(n int) *Session {
				s := newSession(t, m, SessionOptions{})
				eval(t, s, ids[:n], nil, None)
				return s
			}
			bad := append(slices.Clone(ids[:280]), 69, 5)
			parents := []int32{-1, 0, 0}
			build := func() Batch {
				return Batch{
					{Session: good(0), Tokens: ids[:20], Logits: All},
					{Session: good(3), Tokens: []int32{1, 69, 2}, Parents: parents, Logits: All},
					{Session: good(5), Tokens: []int32{1, 60, 2}, Parents: parents, Logits: All},
					{Session: good(2), Tokens: bad, Logits: All},
					{Session: good(4), Tokens: bad, Logits: None},
					{Session: good(9), Tokens: ids[9:], Logits: Last},
				}
			}
			b := build()
			var before []int
			for _, g := range b {
				before = append(before, g.Session.Len())
			}
			out, err := m.Forward(context.Background(), b)
			if err != nil {
				t.Fatal(err)
			}
			for i, g := range build() {
				moved := b[i].Session.Len() - before[i]
				if slices.Contains(g.Tokens, 69) {
					if !errors.Is(out[i].Err, ErrNotFinite) || moved != 0 {
						t.Errorf("%s %s, segment %d: %v, moved by %d tokens", v.Arch, weights, i, out[i].Err, moved)
					}
					continue
				}
				if out[i].Err != nil || g.Parents == nil && moved != len(g.Tokens) {
					t.Fatalf("%s %s, segment %d: %v, moved by %d tokens", v.Arch, weights, i, out[i].Err, moved)
				}
				sameBits(t, fmt.Sprint(v.Arch, " ", weights, ", segment ", i), out[i].Logits.Data,
					eval(t, g.Session, g.Tokens, g.Parents, g.Logits))
			}
			// The session goes on.
			sameBits(t, "after the failure", eval(t, b[3].Session, []int32{7}, nil, Last),
				eval(t, good(2), []int32{7}, nil, Last))
		}
	}
}

// TestNotFiniteHead: likewise where only the final norm or the logits of some sessions are not finite.
func TestNotFiniteHead(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	norm, head := randommodel.Llama(), randommodel.Llama()
	norm.Untied, head.Untied = true, true
	// times a number of -8 to 8
	norm.Edit = map[string]func(x []float32){"output_norm.weight": func(x []float32) { x[3] = 3e38 }}
	norm.Scale = map[string]float32{"output.weight": 1e-38}
	head.Edit = map[string]func(x []float32){"output.weight": func(x []float32) {
		for i := range 64 {
			x[5*64+i] = 3e37 // times the sum of 64 numbers of about -1 to 1
		}
	}}
	for name, v := range map[string]randommodel.Shape{"norm": norm, "head": head} {
		m := openDrawn(t, rt, v, Options{})
		var b Batch
		var want [][]float32
		failed := 0
		for i := range 30 {
			s, alone := newSession(t, m, SessionOptions{}), newSession(t, m, SessionOptions{})
			ids := randomTokens(3, 70, uint64(i))
			b = append(b, Segment{Session: s, Tokens: ids, Logits: Last})
			out, err := alone.Eval(context.Background(), ids, nil, Last)
			if err != nil {
				failed++
			}
			want = append(want, slices.Clone(out.Data))
		}
		if failed < 2 || failed > 28 {
			t.Fatalf("%s: %d of 30 sessions fail alone: this shows little", name, failed)
		}
		out, err := m.Forward(context.Background(), b)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range out {
			if (r.Err == nil) != (want[i] != nil) || r.Err != nil && !errors.Is(r.Err, ErrNotFinite) {
				t.Fatalf("%s: session %d: %v", name, i, r.Err)
			}
			sameBits(t, fmt.Sprint(name, " session ", i), r.Logits.Data, want[i])
		}
	}
}

// hook is a context that calls a function when it is first asked, and then lets other goroutines go on.
type hook struct {
	context.Context
	once func()
}

func (h *hook) Err() error {
	if h.once != nil {
		h.once()
		h.once = nil
	}
	for range 1000 {
		runtime.Gosched()
	}
	return nil
}

// TestClose: what is closed gives errors, and closing waits for a pass.
func TestClose(t *testing.T) {
	ids := randomTokens(200, 70, 1)
	open := func() (*Runtime, *Model, *Session) {
		rt, err := NewRuntime(RuntimeOptions{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		m := openDrawn(t, rt, randommodel.Llama(), Options{})
		return rt, m, newSession(t, m, SessionOptions{})
	}
	for name, close := range map[string]func(*Runtime, *Model, *Session){
		"model":   func(_ *Runtime, m *Model, _ *Session) { m.Close(); m.Close() },
		"runtime": func(rt *Runtime, _ *Model, _ *Session) { rt.Close(); rt.Close() },
		"session": func(_ *Runtime, _ *Model, s *Session) { s.Close(); s.Close() },
	} {
		rt, m, s := open()
		close(rt, m, s)
		if _, err := s.Eval(context.Background(), ids, nil, Last); !errors.Is(err, ErrClosed) {
			t.Errorf("%s closed: %v", name, err)
		}
		rt.Close()
	}
	for _, closing := range []func(*Runtime, *Model){
		func(_ *Runtime, m *Model) { m.Close() }, func(rt *Runtime, _ *Model) { rt.Close() }} {
		rt, m, s := open()
		var wait sync.WaitGroup
		ctx := &hook{Context: context.Background(), once: func() { wait.Go(func() { closing(rt, m) }) }}
		if _, err := s.Eval(ctx, ids, nil, Last); err != nil {
			t.Errorf("closed while a pass was under way: %v", err)
		}
		wait.Wait()
		if _, err := s.Eval(context.Background(), ids[:1], nil, Last); !errors.Is(err, ErrClosed) {
			t.Errorf("closed after the pass: %v", err)
		}
		rt.Close()
	}
	var m *Model
	var s *Session
	var rt *Runtime
	m.Close()
	s.Close()
	rt.Close()
	if _, err := m.NewSession(SessionOptions{}); !errors.Is(err, ErrUsage) {
		t.Errorf("no model: %v", err)
	}
	if _, err := m.Forward(context.Background(), Batch{{}}); !errors.Is(err, ErrUsage) {
		t.Errorf("no model: %v", err)
	}
	if _, err := s.Eval(context.Background(), ids, nil, Last); !errors.Is(err, ErrUsage) {
		t.Errorf("no session: %v", err)
	}
	file := randommodel.Llama().File(t)
	if _, err := New(context.Background(), nil,
		bytes.NewReader(file), int64(len(file)), Options{}); !errors.Is(err, ErrUsage) {
		t.Errorf("no runtime: %v", err)
	}
}
