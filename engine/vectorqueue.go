package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// vectorQueue is the calls of [Model.Embed] that wait: texts of several calls share a pass, as those of one do. One
// goroutine makes the passes as long as there are calls (Model.vectorPasses). The zero value is empty.
type vectorQueue struct {
	mu    sync.Mutex
	calls []*vectorCall // those with texts that no pass has taken; the one that is served first leads
	busy  bool          // somebody makes passes until there are none
}

// vectorCall is one call of Embed.
type vectorCall struct {
	ctx     context.Context
	o       EmbedOptions
	texts   [][]int32
	waiting []int // numbers of the texts that no pass has taken, ascending by length
	left    int   // texts without a vector or an error
	out     []Embedding
	err     error         // of a pass, which ends the call
	done    chan struct{} // closed when nothing is left, or with err
}

// add puts the texts that out has no error of into the queue. It reports idle where the caller must see to it that
// passes are made.
func (q *vectorQueue) add(ctx context.Context, texts [][]int32, o EmbedOptions, out []Embedding) (c *vectorCall,
	idle bool) {
	c = &vectorCall{ctx: ctx, o: o, texts: texts, out: out, done: make(chan struct{})}
	for i := range texts {
		if out[i].Err == nil {
			c.waiting = append(c.waiting, i)
		}
	}
	slices.SortStableFunc(c.waiting, func(i, j int) int { return cmp.Compare(len(texts[i]), len(texts[j])) })
	if c.left = len(c.waiting); c.left == 0 {
		close(c.done)
		return c, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = append(q.calls, c)
	idle, q.busy = !q.busy, true
	return c, idle
}

// drop takes a call out of the queue: afterwards nobody reads its texts, but for those that a pass has taken.
func (q *vectorQueue) drop(c *vectorCall) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = slices.DeleteFunc(q.calls, func(other *vectorCall) bool { return other == c })
}

// vectorText is a text that a pass has taken: number of call.
type vectorText struct {
	call   *vectorCall
	number int
}

// take hands to put the texts of the next pass: the longest text of the first call, then of every call with the same
// options in turn the longest one that fits, until rows are full. The next pass begins with another call. If there are
// no calls, nobody is busy any more.
func (q *vectorQueue) take(rows int, put func(vectorText)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy = len(q.calls) > 0; !q.busy {
		return
	}
	first := q.calls[0]
	room := max(rows, len(first.texts[first.waiting[len(first.waiting)-1]]))
	for took := true; took; {
		took = false
		for _, c := range q.calls {
			if i := c.fits(room); c.o == first.o && i >= 0 {
				number := c.waiting[i]
				c.waiting = slices.Delete(c.waiting, i, i+1)
				room -= len(c.texts[number])
				put(vectorText{c, number})
				took = true
			}
		}
	}
	q.calls = append(q.calls[1:], first)
	q.calls = slices.DeleteFunc(q.calls, func(c *vectorCall) bool { return len(c.waiting) == 0 })
}

// fits is the place in waiting of the longest text of at most room tokens; -1 if there is none.
func (c *vectorCall) fits(room int) int {
	i, _ := slices.BinarySearchFunc(c.waiting, room+1, func(number, n int) int {
		return cmp.Compare(len(c.texts[number]), n)
	})
	return i - 1
}

// deliver gives the calls what became of their texts; err, if it is not nil, ends the calls.
func (q *vectorQueue) deliver(texts []vectorText, made []Embedding, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, t := range texts {
		c := t.call
		if c.left == 0 || c.err != nil {
			continue
		}
		if err != nil {
			c.err = err
			q.calls = slices.DeleteFunc(q.calls, func(other *vectorCall) bool { return other == c })
			close(c.done)
			continue
		}
		if e := made[i].Err; e != nil {
			made[i] = Embedding{Err: fmt.Errorf("text %d: %w", t.number, e)}
		}
		c.out[t.number] = made[i]
		if c.left--; c.left == 0 {
			close(c.done)
		}
	}
}

// passContext is that of a pass over texts: their call's where they are of one call; that of nobody where they are of
// several, one of which must not end the others'.
func passContext(texts []vectorText) context.Context {
	ctx := texts[0].call.ctx
	for _, t := range texts {
		if t.call != texts[0].call {
			return context.WithoutCancel(ctx)
		}
	}
	return ctx
}
