package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/specgo/spec/engine"
)

// drafting is sessions that draft with their first layer, in virtual time: passes of drafts take 10 ms.
type drafting struct {
	*testing.T
	c      *Scheduler
	drafts []*ExitSession
	passes []int // sessions in each
}

func inDrafts(t *testing.T, n int, test func(d *drafting)) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}),
		2048) // without workers, which do not belong to the bubble
	synctest.Test(t, func(t *testing.T) {
		d := &drafting{T: t, c: New(m, Options{Wait: 20 * time.Millisecond})}
		defer d.c.Close()
		d.c.joint.prepare = func(b engine.Batch) time.Duration {
			d.passes = append(d.passes, len(b))
			time.Sleep(10 * time.Millisecond)
			return 10 * time.Millisecond
		}
		for i := range n {
			s := sharedSession(t, d.c)
			feed(t, s, 20+i, engine.None)
			s.Announce(false)
			e, err := s.Exit(1)
			if err == nil {
				_, err = e.Eval(t.Context(), s.Tokens(), nil, engine.None)
			}
			if err != nil {
				t.Fatal(err)
			}
			d.drafts = append(d.drafts, e)
		}
		test(d)
	})
}

// draft drafts some tokens, each a while after the one before it, and returns their logits.
func (d *drafting) draft(i, tokens int, pause time.Duration) (all []float32) {
	e := d.drafts[i]
	for k := range tokens {
		time.Sleep(pause)
		l, err := e.Eval(context.Background(), []int32{int32(10*i + k)}, nil, engine.Last)
		if err != nil {
			d.Error(err)
			return nil
		}
		all = append(all, l.Data...)
	}
	e.Announce(false)
	if err := e.Truncate(20 + i); err != nil {
		d.Error(err)
	}
	return all
}

// Drafts that are under way at the same time share passes, of which each takes a part, and compute what they compute
// alone. A draft that ends is not waited for.
func TestDraftsSharePasses(t *testing.T) {
	inDrafts(t, 3, func(d *drafting) {
		alone := make([][]float32, 3)
		for i := range alone {
			alone[i] = d.draft(i, 4-i, time.Millisecond)
		}
		if want := []int{1, 1, 1, 1, 1, 1, 1, 1, 1}; !slices.Equal(d.passes, want) {
			t.Errorf("one after the other: passes of %d sessions", d.passes)
		}
		for range 2 { // costs are known the second time
			d.passes = nil
			var before, spent time.Duration
			for _, e := range d.drafts {
				before += e.Spent()
				e.Announce(true)
			}
			var wait sync.WaitGroup
			for i := range alone {
				wait.Go(func() {
					if got := d.draft(i, 4-i, time.Duration(i+1)*time.Millisecond); len(got) == len(alone[i]) {
						sameBits(t, fmt.Sprint("draft ", i), got, alone[i])
					}
				})
			}
			wait.Wait()
			for _, e := range d.drafts {
				spent += e.Spent()
			}
			if want := []int{3, 3, 2, 1}; !slices.Equal(d.passes, want) {
				t.Errorf("passes of %d sessions, want %d", d.passes, want)
			}
			if took := spent - before; took < 39*time.Millisecond || took > 41*time.Millisecond { // and real arithmetic
				t.Errorf("4 passes of 10 ms are charged with %v", took)
			}
		}
	})
}

// A draft that was announced and does not come costs the others one bound, not one for each pass, and nothing once its
// session is closed. Who is not waited for shares a pass all the same.
func TestDraftsWaitOnce(t *testing.T) {
	for _, gone := range []bool{false, true} {
		inDrafts(t, 3, func(d *drafting) {
			bound := d.c.wait()
			for _, e := range d.drafts {
				e.Announce(true)
			}
			if gone {
				d.drafts[2].target.Close()
			}
			begin := time.Now()
			var wait sync.WaitGroup
			for i := range 2 {
				wait.Go(func() { d.draft(i, 3, 0) })
			}
			wait.Wait()
			want := 30 * time.Millisecond
			if !gone {
				want += bound
			}
			if took := time.Since(begin); took < want || took > want+bound/2 || !slices.Equal(d.passes[:1], []int{2}) {
				t.Errorf("closed %v: three passes took %v, want %v; passes of %d sessions", gone, took, want, d.passes)
			}
			d.drafts[0].Announce(true) // is waited for again, and the others with it
			d.drafts[1].Announce(true)
			d.passes = nil
			wait.Go(func() { d.draft(0, 2, time.Millisecond) })
			d.draft(1, 2, 2*time.Millisecond)
			wait.Wait()
			if !slices.Equal(d.passes, []int{2, 2}) {
				t.Errorf("closed %v, then: passes of %d sessions", gone, d.passes)
			}
		})
	}
}

// A Scheduler that is closed while drafts wait for each other ends them with its error.
func TestClosedWhileDraftsWait(t *testing.T) {
	inDrafts(t, 2, func(d *drafting) {
		for _, e := range d.drafts {
			e.Announce(true)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := d.drafts[0].Eval(context.Background(), []int32{1}, nil, engine.Last)
			failed <- err
		}()
		synctest.Wait() // it waits for the other one
		d.c.Close()
		if err := <-failed; !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%v", err)
		}
		if n := d.c.Stats().KVBytes; n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	})
}

// A pass of drafts that panics fails those in it, and nobody else: the next draft is computed.
func TestPassOfDraftsThatPanics(t *testing.T) {
	inDrafts(t, 2, func(d *drafting) {
		takes := d.c.joint.prepare
		d.c.joint.prepare = func(engine.Batch) time.Duration { panic("a fault") }
		for _, e := range d.drafts {
			e.Announce(true)
		}
		var wait sync.WaitGroup
		for _, e := range d.drafts {
			wait.Go(func() {
				if _, err := e.Eval(context.Background(), []int32{1}, nil, engine.Last); !errors.Is(err, engine.ErrPanic) {
					t.Errorf("%v", err)
				}
				e.Announce(false)
			})
		}
		wait.Wait()
		d.c.joint.prepare = takes
		if got := d.draft(0, 1, 0); len(got) == 0 || d.c.Stats().Panics != 1 || d.c.reserved != 0 || d.c.lent != 0 {
			t.Errorf("afterwards: %d logits, %+v", len(got), d.c.Stats())
		}
	})
}
