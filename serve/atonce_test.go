package serve

import (
	"net/http"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// What connections, bodies, answers and the queue count is counted under their locks: nothing is lost when many
// goroutines come and go at once.
func TestCountsAreKeptWhenManyComeAndGo(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.Connections = 1000 })
	p := &s.sockets
	before := len(p.servers)
	begin := func() { p.register(&http.Server{}) }
	connect := func() {
		c := p.add(&fakeConn{from: "192.0.2.1:1"})
		c.enter(http.StateActive)
		c.allowed()
		c.Close()
	}
	accept := func() {
		l := &listener{Listener: &oneListener{conn: &fakeConn{from: "192.0.2.2:1"}}, sockets: p}
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	}
	testkit.AtOnce(100, begin, begin, connect, connect, accept, accept)
	if n := len(p.servers) - before; n != 200 {
		t.Errorf("%d servers of 200", n)
	}
	if len(p.open) != 0 || len(p.unkeyed) != 0 {
		t.Errorf("%d connections, %v", len(p.open), p.unkeyed)
	}
	testkit.AtOnce(100, begin, func() { p.end() })
	if p.register(&http.Server{}) {
		t.Error("a server begins after the end")
	}

	in := &inside{most: 1000, bytes: 1000, byWhom: map[*client]*holding{}}
	visit := func() {
		v, err := in.enter(&client{weight: 1}, true)
		if err != nil {
			t.Error(err)
			return
		}
		if err := v.hold(3); err != nil {
			t.Error(err)
		}
		v.end()
		v.end()
	}
	testkit.AtOnce(100, visit, visit, visit, func() { in.Load() })
	if in.all != (holding{}) || len(in.byWhom) != 0 {
		t.Errorf("%+v inside, %d clients", in.all, len(in.byWhom))
	}

	q := &queue{most: 2, longest: 100}
	wait := func() {
		_, leave, err := q.enter(t.Context(), &share{weight: 1}, 1, true)
		if err != nil {
			t.Error(err)
			return
		}
		leave()
	}
	testkit.AtOnce(100, wait, wait, wait, wait)
	if q.busy != 0 || q.waits != 0 || len(q.lines) != 0 {
		t.Errorf("%d busy, %d wait in %d lines", q.busy, q.waits, len(q.lines))
	}
}
