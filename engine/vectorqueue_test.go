package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A pass takes the longest text of the call whose turn it is, then of all calls with the same options in turn what
// fits; the next pass begins with the next call.
func TestVectorPasses(t *testing.T) {
	var q vectorQueue
	texts := func(lengths ...int) (list [][]int32) {
		for _, n := range lengths {
			list = append(list, make([]int32, n))
		}
		return list
	}
	call := func(o EmbedOptions, lengths ...int) *vectorCall {
		c, _ := q.add(t.Context(), texts(lengths...), o, make([]Embedding, len(lengths)))
		return c
	}
	mean := EmbedOptions{Pooling: PoolMean}
	names := map[*vectorCall]string{
		call(mean, 3, 9, 2, 5): "a", call(EmbedOptions{Pooling: PoolCLS}, 1): "b", call(mean, 4, 1, 20): "c"}
	// Of 12 rows: a has the first turn, then b, which shares with nobody, then c, whose text is longer than a pass.
	for _, want := range []string{"a1 c1 a2", "b0", "c2", "a3 c0 a0", ""} {
		var got []string
		q.take(12, func(v vectorText) { got = append(got, fmt.Sprint(names[v.call], v.number)) })
		if s := strings.Join(got, " "); s != want {
			t.Errorf("a pass of %q, expected %q", s, want)
		}
	}
}

// A call whose texts are all refused ends, with an error for each that says why; one that is not is computed.
func TestCallsOfRefusedTextsEnd(t *testing.T) {
	m := openEncoder(t, newRuntime(t, RuntimeOptions{Threads: 1}), "bert", Options{})
	vocab, long := int32(m.Config().Vocab), make([]int32, m.Config().Context+1)
	bad := [][]int32{{}, {-1}, {1, vocab}, long}
	want := []error{ErrInput, ErrVocabulary, ErrVocabulary, ErrContextFull}
	for _, texts := range [][][]int32{bad, bad[:1], append(slices.Clone(bad), []int32{vocab - 1}, long[1:])} {
		out, err := m.Embed(t.Context(), texts, EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range out {
			if i < len(bad) && (!errors.Is(e.Err, want[i]) || !strings.Contains(e.Err.Error(), fmt.Sprintf("text %d", i))) {
				t.Errorf("text %d of %d: %v, want %v", i, len(texts), e.Err, want[i])
			}
			if i >= len(bad) && e.Err != nil {
				t.Errorf("text %d: %v", i, e.Err)
			}
		}
	}
}

// A row that fails fails the work, and not the work after it.
func TestFailedRowsFailTheirWork(t *testing.T) {
	w := &rowWork{}
	w.init(&pass{t: newRuntime(t, RuntimeOptions{Threads: 1}).t})
	for _, bad := range []int{0, 6, -1, 3, -1} {
		err := w.do(7, func(i int) {
			if i == bad {
				w.keep(ErrNotFinite)
			}
		})
		if (bad >= 0) != errors.Is(err, ErrNotFinite) || bad < 0 && err != nil {
			t.Errorf("row %d of 7 fails: %v", bad, err)
		}
	}
}

// The rounds of an encoder's input are all of it in order, in as few as there must be, none of them empty.
func TestRoundsAreAllOfTheInput(t *testing.T) {
	for _, n := range []int{0, 1, passRows - 1, passRows, passRows + 1, 2 * passRows, 2*passRows + 1} {
		ids, rounds := randomTokens(n, 50, 1), 0
		p := &pass{ctx: t.Context()}
		var got []int32
		for r := range p.rounds(ids) {
			if r.from != len(got) || r.to-r.from != len(p.tokens) || len(p.owner) != len(p.tokens) || r.all != n {
				t.Errorf("of %d: %+v with %d tokens", n, r, len(p.tokens))
			}
			got, rounds = append(got, p.tokens...), rounds+1
		}
		if !slices.Equal(got, ids) || rounds != (n+passRows-1)/passRows {
			t.Errorf("%d tokens in %d rounds of at most %d: %d came", n, rounds, passRows, len(got))
		}
	}
}

// Texts of calls at the same time share passes, and each vector has the bits that it has alone; a call that is
// cancelled, before or meanwhile, fails by itself.
func TestVectorsOfCallsAtOnce(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m := openEncoder(t, rt, "bert", Options{})
	o := EmbedOptions{Pooling: PoolMean, Normalize: true}
	const calls, each = 6, 5
	texts, want := make([][][]int32, calls), make([][][]float32, calls)
	for i := range texts {
		for j := range each {
			texts[i] = append(texts[i], randomTokens(1+(11*i+17*j)%m.Config().Context, m.Config().Vocab, uint64(10*i+j)))
		}
		want[i] = embed(t, m, o, texts[i]...)
	}
	rt.t.Lock() // nobody begins before all are there
	var running sync.WaitGroup
	errs, got := make([]error, calls+1), make([][]Embedding, calls)
	for i := range calls {
		running.Go(func() { got[i], errs[i] = m.Embed(t.Context(), slices.Clone(texts[i]), o) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { _, errs[calls] = m.Embed(ctx, texts[0], o) })
	cancel()
	rt.t.Unlock()
	running.Wait()
	for i, err := range errs[:calls] {
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		for j, e := range got[i] {
			sameBits(t, fmt.Sprintf("call %d, text %d, %v", i, j, e.Err), e.Data, want[i][j])
		}
	}
	if !errors.Is(errs[calls], context.Canceled) {
		t.Errorf("the cancelled call: %v", errs[calls])
	}
	if len(m.queue.calls) != 0 {
		t.Errorf("%d calls are left", len(m.queue.calls))
	}
}

// The end of one call's context does not end the pass that its texts share with others.
func TestVectorsBesideACancelledCall(t *testing.T) {
	m := openEncoder(t, newRuntime(t, RuntimeOptions{Threads: 1}), "bert", Options{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	var calls []*vectorCall
	for _, ctx := range []context.Context{cancelled, t.Context(), cancelled} {
		c, _ := m.queue.add(ctx, [][]int32{{1, 2}}, EmbedOptions{Pooling: PoolMean}, make([]Embedding, 1))
		calls = append(calls, c)
	}
	m.vectorPasses()
	if err := calls[1].err; err != nil || calls[1].out[0].Data == nil {
		t.Errorf("beside cancelled calls: %v", err)
	}
}

// A panic in a pass is an error of its calls, and the model goes on.
func TestVectorsAfterAPanic(t *testing.T) {
	m := openEncoder(t, newRuntime(t, RuntimeOptions{Threads: 1}), "bert", Options{})
	net, text := m.net, [][]int32{{1, 2}}
	m.net = panicking{net}
	for range 2 {
		if _, err := m.Embed(t.Context(), text, EmbedOptions{}); !errors.Is(err, ErrPanic) {
			t.Errorf("a panic: %v", err)
		}
	}
	m.net = net
	embed(t, m, EmbedOptions{}, text...)
}

// panicking is a network that fails in its pass.
type panicking struct{ network }

func (panicking) forward(*pass) { panic("a fault") }
