package selftest

import (
	"context"
	"fmt"
	"math"

	"github.com/specgo/spec/engine"
)

// reference is a sequence and its logits at each position, fed as one chunk.
type reference struct {
	ids    []int32
	logits []float32
}

func (t *test) refer(ctx context.Context) (reference, error) {
	length := map[bool]int{false: 24, true: 12}[t.Quick]
	var ids []int32
	for _, p := range t.prompts {
		ids = append(ids, p...)
	}
	ids = ids[:min(len(ids), length)]
	logits, err := t.feed(ctx, ids, len(ids))
	return reference{ids, logits}, err
}

// feed returns the logits of every position of ids, fed in chunks to a new session.
func (t *test) feed(ctx context.Context, ids []int32, chunk int) ([]float32, error) {
	s, err := t.target.NewSession(engine.SessionOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return feed(ctx, s, ids, chunk, nil)
}

func feed(ctx context.Context, s *engine.Session, ids []int32, chunk int, out []float32) ([]float32, error) {
	for len(ids) > 0 {
		n := min(chunk, len(ids))
		logits, err := s.Eval(ctx, ids[:n], nil, engine.All)
		if err != nil {
			return nil, err
		}
		out = append(out, logits.Data...)
		ids = ids[n:]
	}
	return out, nil
}

// same describes where two arrays of logits first differ in a bit, "" if nowhere.
func same(got, want []float32, vocab int) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d logits instead of %d", len(got), len(want))
	}
	for i, x := range want {
		if math.Float32bits(got[i]) != math.Float32bits(x) && (x == x || got[i] == got[i]) {
			return fmt.Sprintf("position %d, token %d: %v instead of %v", i/vocab, i%vocab, got[i], x)
		}
	}
	return ""
}

// passes feeds the same sequence split into passes in every way.
func (t *test) passes(ctx context.Context, want reference) error {
	ids := want.ids
	bits := func(what string, f func() ([]float32, error)) error {
		return t.check(ctx, oneAnswer, what, func(c *Check) (string, error) {
			got, err := f()
			c.Detail = fmt.Sprintf("%d positions, every logit equal to the bit", len(ids))
			return same(got, want.logits, t.target.Config().Vocab), err
		})
	}
	for _, chunk := range []int{1, 3, 7} {
		if err := bits(fmt.Sprintf("chunks of %d", chunk),
			func() ([]float32, error) { return t.feed(ctx, ids, chunk) }); err != nil {
			return err
		}
	}
	if err := bits("in a batch with three others", func() ([]float32, error) { return t.batch(ctx, ids) }); err != nil {
		return err
	}
	if err := bits("as a path of a tree", func() ([]float32, error) { return t.tree(ctx, ids) }); err != nil {
		return err
	}
	if err := bits("after wrong tokens, truncated",
		func() ([]float32, error) { return t.truncated(ctx, ids) }); err != nil {
		return err
	}
	return bits("without a cache", func() ([]float32, error) {
		s, err := t.target.NewSession(engine.SessionOptions{NoCache: true})
		if err != nil {
			return nil, err
		}
		defer s.Close()
		return feed(ctx, s, ids, 8, nil)
	})
}

// other is a token that is not id.
func (t *test) other(id int32) int32 { return (id + 1) % int32(t.target.Config().Vocab) }

// batch shares the passes with three other sequences of other lengths.
func (t *test) batch(ctx context.Context, ids []int32) (out []float32, err error) {
	var s [4]*engine.Session
	for i := range s {
		if s[i], err = t.target.NewSession(engine.SessionOptions{}); err != nil {
			return nil, err
		}
		defer s[i].Close()
	}
	for i := 0; len(ids) > 0; i++ {
		n := min(len(ids), []int{5, 1, 9}[i%3])
		results, err := t.target.Forward(ctx, engine.Batch{
			{Session: s[1], Tokens: ids[:1], Logits: engine.Last},
			{Session: s[0], Tokens: ids[:n], Logits: engine.All},
			{Session: s[2], Tokens: []int32{t.other(ids[0]), ids[0]}, Logits: engine.All},
			{Session: s[3], Tokens: []int32{ids[n-1], ids[0], t.other(ids[n-1])}},
		})
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			if r.Err != nil {
				return nil, r.Err
			}
		}
		out = append(out, results[1].Logits.Data...)
		ids = ids[n:]
	}
	return out, nil
}

// tree puts a wrong sibling before every token, four levels at a time, and keeps the path.
func (t *test) tree(ctx context.Context, ids []int32) (out []float32, err error) {
	s, err := t.target.NewSession(engine.SessionOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for len(ids) > 0 {
		n := min(len(ids), 4)
		var tokens, parents, path []int32
		parent := int32(-1)
		for _, id := range ids[:n] {
			tokens, parents = append(tokens, t.other(id), id), append(parents, parent, parent)
			parent = int32(len(tokens) - 1)
			path = append(path, parent)
		}
		logits, err := s.Eval(ctx, tokens, parents, engine.All)
		if err != nil {
			return nil, err
		}
		for _, i := range path {
			out = append(out, logits.Row(int(i))...)
		}
		if err := s.Commit(path); err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	return out, nil
}

// truncated feeds wrong tokens after every chunk and truncates them.
func (t *test) truncated(ctx context.Context, ids []int32) (out []float32, err error) {
	s, err := t.target.NewSession(engine.SessionOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for len(ids) > 0 {
		n := min(len(ids), 5)
		if out, err = feed(ctx, s, ids[:n], n, out); err != nil {
			return nil, err
		}
		if _, err := s.Eval(ctx, []int32{t.other(ids[0]), ids[0], ids[n-1]}, nil, engine.Last); err != nil {
			return nil, err
		}
		if err := s.Truncate(s.Len() - 3); err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	return out, nil
}

// kernelSets opens the model again with other numbers of threads and with every set of kernels.
func (t *test) kernelSets(ctx context.Context, want reference) error {
	compare := func(what, simd string, threads int) error {
		return t.check(ctx, oneAnswer, what, func(c *Check) (wrong string, err error) {
			err = t.with(ctx, simd, threads, func() error {
				got, err := t.feed(ctx, want.ids, len(want.ids))
				wrong = same(got, want.logits, t.target.Config().Vocab)
				c.Detail = fmt.Sprintf("%d positions, %s kernels, threads: %d, every logit equal to the bit", len(want.ids),
					t.rt.SIMD(), t.rt.Threads())
				return err
			})
			return wrong, err
		})
	}
	for _, threads := range []int{1, t.result.Threads + 1} {
		if err := compare(fmt.Sprintf("threads: %d", threads), t.result.Kernels[0], threads); err != nil {
			return err
		}
	}
	for _, simd := range kernels {
		if simd == t.result.Kernels[0] {
			continue
		}
		rt, err := t.Runtime(simd, 0)
		if err != nil {
			continue // not on this machine
		}
		rt.Close()
		t.result.Kernels = append(t.result.Kernels, simd)
		if err := compare(simd+" kernels", simd, 0); err != nil {
			return err
		}
	}
	return nil
}
