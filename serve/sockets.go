package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Serve answers the connections of a listener, with TLS if config is not nil, until [Server.Shutdown] or
// [Server.Close]; the error is then [http.ErrServerClosed]. It is the server's own HTTP, with all of [Limits]: mounted
// in another program's http.Server a Server bounds bodies, answers and requests, and that program the connections. It
// speaks HTTP/1.1: one connection is one request at a time.
func (s *Server) Serve(l net.Listener, config *tls.Config) error { return s.serve(l, config, s) }

// ServeMetrics answers /metrics and the health checks alone, without keys, to the connections of a listener, which
// count among those of [Server.Serve]. The address should be one that only monitoring can reach.
func (s *Server) ServeMetrics(l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.writeMetrics)
	for path, answer := range map[string]http.HandlerFunc{"/health": s.health, "/livez": s.live, "/readyz": s.ready} {
		mux.HandleFunc("GET "+path, answer)
	}
	return s.serve(l, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hostAllowed(r.Host) {
			writeJSON(w, http.StatusForbidden, openAIError(errHost(r.Host)))
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

func (s *Server) serve(l net.Listener, config *tls.Config, handler http.Handler) error {
	l = &listener{Listener: l, sockets: &s.sockets, done: make(chan struct{})}
	if config != nil {
		config = config.Clone()
		config.NextProtos = []string{"http/1.1"}
		l = tls.NewListener(l, config)
	}
	limits := &s.o.Limits
	web := &http.Server{
		Handler: handler, ReadHeaderTimeout: limits.HeaderTime, IdleTimeout: limits.IdleTime,
		MaxHeaderBytes: limits.HeaderBytes,
		ErrorLog:       log.New(io.Discard, "", 0), Protocols: new(http.Protocols),
		ConnState: func(c net.Conn, state http.ConnState) { socketOf(c).enter(state) },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, socketKey{}, socketOf(c))
		},
	}
	web.Protocols.SetHTTP1(true)
	if !s.sockets.register(web) {
		l.Close()
		return http.ErrServerClosed
	}
	return web.Serve(l)
}

// Shutdown lets the requests that are under way finish until ctx ends, and cancels the rest, whose clients are told
// where they read; then the error is that of ctx. For at most half of the time that ctx gives, the server still
// listens while /readyz answers 503, so that balancers send requests elsewhere before connections are refused. It
// returns at most a few seconds after ctx has ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	listening, done := context.WithCancel(ctx)
	if end, ok := ctx.Deadline(); ok {
		listening, done = context.WithDeadline(ctx, time.Now().Add(time.Until(end)/2))
	}
	_ = s.Idle(listening) // an error is the end of that time
	done()
	servers := s.sockets.end()
	var err error
	for _, web := range servers {
		err = errors.Join(err, web.Shutdown(ctx))
	}
	if ctx.Err() == nil {
		return err
	}
	s.Cancel()
	told, done := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
	defer done()
	_ = s.Idle(told) // who has not been told by then is cut off
	for _, web := range servers {
		_ = web.Close()
	}
	return ctx.Err()
}

// tellTime is how long clients whose requests are cut off may take to be told.
const tellTime = 2 * time.Second

// sockets are the connections of Serve.
type sockets struct {
	limits *Limits
	exempt func(netip.Addr) bool // of proxies, whose connections are many clients': they count as keyed

	mu      sync.Mutex
	open    map[*socket]bool
	unkeyed map[netip.Addr]int // of each network
	changed chan struct{}      // closed and replaced when a connection has ended or waits
	servers []*http.Server
	ended   bool
	closed  [closings]int64 // connections that the server closed, by the reason
}

// closing is why the server closed a connection that its client had not ended.
type closing int

const (
	forAddress closing = iota // one more of its address had shown no key
	forPlace                  // all places were taken
	forTime                   // its client neither sent nor took anything in time
	closings
)

// String is the value of the label reason.
func (c closing) String() string { return [...]string{"address", "places", "time"}[c] }

// late notes that a connection's client was late, which between two requests it may be. It counts once.
func (p *sockets) late(c *socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.late && (c.state == socketFresh || c.state == socketBusy) {
		c.late = true
		p.closed[forTime]++
	}
}

// load is how many connections are open, how many of them count as unkeyed, and how many were closed.
func (p *sockets) load() (open, unkeyed int, closed [closings]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.unkeyed {
		unkeyed += n
	}
	return len(p.open), unkeyed, p.closed
}

// register keeps a server for Shutdown. It reports false if that was called already.
func (p *sockets) register(web *http.Server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.servers = append(p.servers, web)
	}
	return !p.ended
}

// end lets no server begin any more. It returns those that have, and closes the connections that have not made a
// request yet.
func (p *sockets) end() []*http.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for c := range p.open {
		if c.state == socketFresh {
			c.Conn.Close()
		}
	}
	return p.servers
}

// socketState says what a connection waits for.
type socketState int

const (
	socketFresh  socketState = iota // its first request, or the handshake of TLS
	socketBusy                      // a request is under way
	socketIdle                      // the next request
	socketClosed                    // nothing
)

// socket is a connection. A deadline bounds each of its reads and writes; those of an unkeyed one are short.
type socket struct {
	net.Conn
	set      *sockets
	from     netip.Addr  // its network; invalid where it does not count against one
	keyed    atomic.Bool // a request of it was allowed, with a key where there are any; written under the lock
	deadline atomic.Bool // of writes, set by whoever writes
	waits    atomic.Bool // the deadline of reads is one that a client can miss, not net/http's way to end a read

	state socketState // guarded by the set, with
	since time.Time   // when it was entered
	late  bool        // counted as closed for time
}

type socketKey struct{}

// socketOf is the socket under a connection of Serve.
func socketOf(c net.Conn) *socket {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return c.(*socket) // Serve's listener makes no others
}

// add makes a socket of a connection, and makes room for it among those of its network.
func (p *sockets) add(conn net.Conn) *socket {
	c := &socket{Conn: conn, set: p, since: time.Now()}
	if a, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		if p.exempt(a.Addr()) {
			c.keyed.Store(true)
		} else {
			c.from = network(a.Addr())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.from.IsValid() {
		if p.unkeyed[c.from]++; p.unkeyed[c.from] > p.limits.Unkeyed {
			p.evict(forAddress, func(o *socket) bool { return o.from == c.from && !o.keyed.Load() })
		}
	}
	p.open[c] = true
	return c
}

// evict closes the oldest unkeyed connection of those that may be, or where there is none the keyed one that has
// waited for its next request longest. It reports false if there is none of either. The lock is held.
func (p *sockets) evict(why closing, may func(*socket) bool) bool {
	var oldest *socket
	for c := range p.open {
		if c.keyed.Load() && c.state == socketBusy || !may(c) {
			continue
		}
		if oldest == nil || c.before(oldest) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	p.closed[why]++
	p.remove(oldest)
	oldest.Conn.Close() // its goroutine sees that
	return true
}

// before reports whether a connection goes before another. The lock is held.
func (c *socket) before(o *socket) bool {
	if keyed := c.keyed.Load(); keyed != o.keyed.Load() {
		return !keyed
	}
	return c.since.Before(o.since)
}

// remove takes a connection out. The lock is held.
func (p *sockets) remove(c *socket) {
	if c.state == socketClosed {
		return
	}
	c.state = socketClosed
	delete(p.open, c)
	p.counted(c)
	p.signal()
}

// counted ends that a connection counts as an unkeyed one of its network. The lock is held.
func (p *sockets) counted(c *socket) {
	if !c.from.IsValid() || c.keyed.Swap(true) {
		return
	}
	if p.unkeyed[c.from]--; p.unkeyed[c.from] == 0 {
		delete(p.unkeyed, c.from)
	}
}

// signal wakes the listener that waits for room. The lock is held.
func (p *sockets) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// enter notes what http.Server says of a connection.
func (c *socket) enter(state http.ConnState) {
	p := c.set
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.state == socketClosed {
		return
	}
	switch state {
	case http.StateActive:
		c.state = socketBusy
	case http.StateIdle:
		c.state, c.since = socketIdle, time.Now()
		p.signal()
	}
}

// allowed notes that a request of the connection was allowed, with a key where there are any.
func (c *socket) allowed() {
	if c.keyed.Load() {
		return
	}
	c.set.mu.Lock()
	c.set.counted(c)
	c.keyed.Store(true)
	c.set.mu.Unlock()
	_ = c.Conn.SetReadDeadline(time.Time{}) // an error comes again with the next read
}

// SetReadDeadline sets a deadline, which of an unkeyed connection is not later than a header may take.
func (c *socket) SetReadDeadline(t time.Time) error {
	if !c.keyed.Load() {
		if most := time.Now().Add(c.set.limits.HeaderTime); t.IsZero() || t.After(most) {
			t = most
		}
	}
	c.waits.Store(t.After(time.Now()))
	return c.Conn.SetReadDeadline(t)
}

func (c *socket) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.waits.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		c.set.late(c)
	}
	return n, err
}

// SetWriteDeadline sets a deadline; the zero time leaves it to Write.
func (c *socket) SetWriteDeadline(t time.Time) error {
	c.deadline.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

func (c *socket) Write(b []byte) (int, error) {
	if !c.deadline.Load() {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.set.limits.WriteTime)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(b)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		c.set.late(c)
	}
	return n, err
}

func (c *socket) Close() error {
	c.set.mu.Lock()
	c.set.remove(c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// listener accepts sockets.
type listener struct {
	net.Listener
	*sockets
	done  chan struct{}
	close sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for {
		l.mu.Lock()
		room := len(l.open) < l.limits.Connections || l.evict(forPlace, func(*socket) bool { return true })
		changed := l.changed
		l.mu.Unlock()
		if room {
			return l.add(conn), nil
		}
		select {
		case <-changed:
		case <-l.done:
			conn.Close()
			return nil, net.ErrClosed
		}
	}
}

func (l *listener) Close() error {
	l.close.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// visitors count the requests without a key that are under way from networks behind a trusted proxy.
type visitors struct {
	mu    sync.Mutex
	count map[netip.Addr]int
}

// enter counts a request; leave must be called when it has been answered. ok is false if there are most already.
func (v *visitors) enter(from netip.Addr, most int) (leave func(), ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.count[from] >= most {
		return nil, false
	}
	v.count[from]++
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.count[from]--; v.count[from] == 0 {
			delete(v.count, from)
		}
	}, true
}
