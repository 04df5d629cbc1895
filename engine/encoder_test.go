package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// TestEncoderOneAnswer is promise P1 of the encoder: the states of an input are the same bits with all kernels and
// numbers of threads, and those of a short input are the same whatever was encoded before it.
func TestEncoderOneAnswer(t *testing.T) {
	for name, v := range map[string]randommodel.T5{"small": randommodel.SmallT5(), "flan": randommodel.FlanT5()} {
		var want [2][]float32
		for _, simd := range asm.Available() {
			for _, threads := range []int{1, 3} {
				if threads > 1 && simd == "scalar" && len(asm.Available()) > 1 { // slow, and the others have it
					continue
				}
				m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: threads, SIMD: simd}), v, Options{})
				for i, n := range []int{300, 20} {
					got := encoderStates(t, m, randomTokens(n, v.Vocab, 1))
					if want[i] == nil {
						want[i] = got
					}
					sameBits(t, fmt.Sprintf("%s, %d tokens, %s, %d threads", name, n, simd, threads), got, want[i])
				}
				m.Close()
			}
		}
	}
}

// TestEncodedBatch: sequences of different inputs share a pass, and each gets what it gets alone.
func TestEncodedBatch(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.SmallT5(), Options{})
	var b Batch
	var want [][]float32
	for i, n := range []int{1, 300, 40, 257} {
		input, ids := randomTokens(n, m.config.Vocab, uint64(i)), randomTokens(3+20*i, m.config.Vocab, 9)
		want = append(want, t5Eval(t, m, SessionOptions{}, input, ids))
		s := newSession(t, m, SessionOptions{})
		encode(t, s, input)
		b = append(b, Segment{Session: s, Tokens: ids, Logits: All})
	}
	for i, r := range forward(t, m, b) {
		sameBits(t, fmt.Sprint("input ", i), r.Logits.Data, want[i])
	}
	// One without an input fails by itself.
	b[1].Session = newSession(t, m, SessionOptions{})
	for i := range b {
		if i != 1 {
			if err := b[i].Session.Truncate(0); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, err := m.Forward(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range out {
		if i == 1 {
			if !errors.Is(r.Err, ErrInput) || b[1].Session.Len() != 0 {
				t.Errorf("without an input: %v, %d tokens", r.Err, b[1].Session.Len())
			}
		} else {
			sameBits(t, fmt.Sprint("beside a failure, input ", i), r.Logits.Data, want[i])
		}
	}
}

// TestEncodeAgain: another input begins another sequence; forks keep the input that they were made with, and it lives
// as long as any of them.
func TestEncodeAgain(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.FlanT5(), Options{})
	first, second := randomTokens(280, m.config.Vocab, 1), randomTokens(30, m.config.Vocab, 2)
	ids := randomTokens(20, m.config.Vocab, 3)
	one, two := t5Eval(t, m, SessionOptions{}, first, ids), t5Eval(t, m, SessionOptions{}, second, ids)
	if one[len(one)-1] == two[len(two)-1] {
		t.Fatal("the input changes nothing")
	}
	s := newSession(t, m, SessionOptions{})
	var used, kept atomic.Int64
	s.Meter(&used)
	keeps, meanwhile := s.EncodeNeed(len(first))
	encode(t, s, first)
	empty := s.Bytes()
	if used.Load() != empty || keeps != empty || meanwhile <= 0 {
		t.Errorf("an input counts %d bytes, was to take %d and %d meanwhile, and takes %d", used.Load(), keeps, meanwhile,
			empty)
	}
	if kv, err := m.Describe().Input.Bytes("f16"); err != nil || empty != 512*kv {
		t.Errorf("an input of 280 tokens takes %d bytes, expected two pages of 256 x %d (%v)", empty, kv, err)
	}
	half := eval(t, s, ids[:10], nil, All)
	f, err := s.Fork()
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Bytes() - empty; used.Load() != empty+2*n { // the fork's tokens are copies of less than a page
		t.Errorf("with a fork %d bytes, expected those of one input, %d, and twice %d", used.Load(), empty, n)
	}
	s.Keep(&kept)
	f.Keep(&kept)
	if kept.Load() != used.Load() {
		t.Errorf("%d bytes are kept of %d", kept.Load(), used.Load())
	}
	s.Keep(nil)
	if kept.Load() != f.Bytes() || f.Held(0) != f.Bytes() || f.Held(1) != f.Bytes()-empty {
		t.Errorf("%d bytes are kept of %d, %d and %d from tokens 0 and 1 on", kept.Load(), f.Bytes(), f.Held(0), f.Held(1))
	}
	encode(t, s, second)
	if s.Len() != 0 || len(s.Input()) != 30 || len(f.Input()) != 280 {
		t.Errorf("%d tokens after inputs of %d and %d", s.Len(), len(s.Input()), len(f.Input()))
	}
	sameBits(t, "the second input", eval(t, s, ids, nil, All), two)
	sameBits(t, "the fork", append(half, eval(t, f, ids[10:], nil, All)...), one)
	g, err := f.Fork()
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	f.Close()
	encode(t, s, first)
	s.Close()
	if err := g.Truncate(0); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "the fork's fork", eval(t, g, ids, nil, All), one)
	g.Close()
	if used.Load() != 0 || kept.Load() != 0 {
		t.Errorf("%d bytes are left, %d kept", used.Load(), kept.Load())
	}
}

// TestEncodeErrors: what is not allowed says so and leaves the session as it was.
func TestEncodeErrors(t *testing.T) {
	ctx := context.Background()
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m, llama := openDrawn(t, rt, randommodel.SmallT5(), Options{}), openDrawn(t, rt, randommodel.Llama(), Options{})
	s := newSession(t, m, SessionOptions{})
	if _, err := s.Eval(ctx, []int32{1}, nil, Last); !errors.Is(err, ErrInput) {
		t.Errorf("a pass without an input: %v", err)
	}
	if err := newSession(t, llama, SessionOptions{}).Encode(ctx, []int32{1}); !errors.Is(err, ErrInput) ||
		!strings.Contains(err.Error(), "llama") {
		t.Errorf("an input for a decoder-only model: %v", err)
	}
	if _, err := llama.EncoderStates(ctx, []int32{1}); !errors.Is(err, ErrInput) {
		t.Errorf("states of a decoder-only model: %v", err)
	}
	if m.DecoderStart() != 0 || llama.DecoderStart() != -1 || !m.Encodes() || llama.Encodes() {
		t.Error("the models are mixed up")
	}
	input, ids := []int32{3, 2, 1}, []int32{0, 5}
	encode(t, s, input)
	want := eval(t, s, ids, nil, Last)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	closed := newSession(t, m, SessionOptions{})
	closed.Close()
	for name, c := range map[string]struct {
		err, want error
	}{
		"empty":     {s.Encode(ctx, nil), ErrInput},
		"too long":  {s.Encode(ctx, make([]int32, MaxInput+1)), ErrInput},
		"id":        {s.Encode(ctx, []int32{1, 70}), ErrVocabulary},
		"below":     {s.Encode(ctx, []int32{-1}), ErrVocabulary},
		"cancelled": {s.Encode(cancelled, []int32{1}), context.Canceled},
		"closed":    {closed.Encode(ctx, []int32{1}), ErrClosed},
		"none":      {(*Session)(nil).Encode(ctx, []int32{1}), ErrUsage},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, expected %v", name, c.err, c.want)
		}
	}
	if err := s.Truncate(1); err != nil || s.Len() != 1 {
		t.Fatalf("a failed Encode moved the session: %d tokens, %v", s.Len(), err)
	}
	sameBits(t, "after failures", eval(t, s, ids[1:], nil, Last), want)

	big := randommodel.SmallT5()
	big.Edit = func(name string, x []float32) {
		if strings.HasSuffix(name, "enc.blk.1.ffn_down.weight") {
			for i := range x {
				x[i] = 3e38
			}
		}
	}
	s = newSession(t, openDrawn(t, rt, big, Options{}), SessionOptions{})
	if err := s.Encode(ctx, input); !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "encoder") {
		t.Errorf("states that are not finite: %v", err)
	}
}

// TestT5AllocatesNothing: a token of the decoder costs no memory.
func TestT5AllocatesNothing(t *testing.T) {
	v := randommodel.SmallT5()
	v.Weights = gguf.Q8_0
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 2}), v, Options{})
	s := newSession(t, m, SessionOptions{})
	encode(t, s, randomTokens(300, m.config.Vocab, 1))
	ids, parents := []int32{1, 2, 3, 4, 5, 6}, []int32{-1, -1, 0, 1, 3, 2}
	step := func() {
		for _, p := range [][]int32{nil, parents} {
			if _, err := s.Eval(context.Background(), ids, p, All); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Truncate(0); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		step()
	}
	if n := testkit.Allocs(10, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
