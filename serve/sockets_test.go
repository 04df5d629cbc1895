package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// long is a time that no test waits for: what ends before has not ended by it.
const long = time.Hour

// patienceOfTests is what no connection takes that ends as it should.
const patienceOfTests = 20 * time.Second

// listen serves a listener of the server's own; the address is its.
func (s *tester) listen(config *tls.Config) string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l, config) }()
	s.t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			s.t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// dial opens a connection and sends a text.
func dial(t testing.TB, address, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patienceOfTests)) // what must end without a deadline fails here
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// head is a request's header with a body that is announced.
func head(method, path string, length int, more ...string) string {
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nContent-Length: %d\r\n", method, path, length)
	if !slices.ContainsFunc(more, func(h string) bool { return strings.HasPrefix(h, "Host:") }) {
		text += "Host: localhost\r\n"
	}
	return text + strings.Join(append(more, "", ""), "\r\n")
}

// What is refused before its body is answered at once, and the connection ends although the body never comes: for each
// reason to refuse, on connections of Serve and of another http.Server.
func TestRefusedBeforeTheBodyEndsTheConnection(t *testing.T) {
	s := newTester(t, func(o *Options) {
		o.Keys, o.Limits = []Key{{Secret: "k"}}, Limits{HeaderTime: long, BodyTime: long, IdleTime: long}
	})
	const key = "X-Api-Key: k"
	var wait sync.WaitGroup
	for _, address := range []string{s.listen(nil), s.web.Listener.Addr().String()} {
		for want, text := range map[string]string{
			"401 no key":       head("POST", "/v1/completions", 100),
			"401 wrong key":    head("POST", "/v1/completions", 100, "Authorization: Bearer x"),
			"403 host":         head("POST", "/v1/completions", 100, key, "Host: evil.org"),
			"403 cross origin": head("POST", "/v1/completions", 100, key, "Sec-Fetch-Site: cross-site"),
			"404 path":         head("POST", "/none", 100, key),
			"405 method":       head("PUT", "/v1/completions", 100, key),
			"413 size":         head("POST", "/v1/completions", 100<<20, key),
			"415 type":         head("POST", "/v1/completions", 100, key, "Content-Type: text/html"),
			"501 refused path": head("POST", "/v1/moderations", 100, key),
			"401 chunked": "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " +
				"chunked\r\n\r\n",
		} {
			c := dial(t, address, text)
			wait.Go(func() {
				answer, err := io.ReadAll(c)
				if err != nil || !bytes.HasPrefix(
					answer, []byte("HTTP/1.1 "+want[:3]),
				) || !bytes.Contains(answer, []byte("Connection: close")) {
					t.Errorf("%s: %v %q", want, err, answer)
				}
			})
		}
	}
	wait.Wait()
}

// A refused body that comes is read for a moment, so that the client reads the answer and not a reset.
func TestRefusedBodyMayCome(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Keys = []Key{{Secret: "k"}} })
	c := dial(t, s.listen(nil), head("POST", "/v1/completions", 200<<10))
	if _, err := c.Write(make([]byte, 200<<10)); err != nil {
		t.Error(err)
	}
	if answer, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 401 ")) {
		t.Errorf("%v %q", err, answer)
	}
}

// Sockets that send half a header, or a refused head, hold no place: an ordinary client is answered whatever their
// number, also without any deadline, and a connection that has shown its key outlives them.
func TestHalfOpenSocketsMakeRoom(t *testing.T) {
	s := newTester(t, func(o *Options) {
		o.Keys, o.Limits = []Key{{Secret: "k"}}, Limits{
			Connections: 6, Unkeyed: 4, HeaderTime: long, BodyTime: long, IdleTime: long,
		}
	})
	address := s.listen(nil)
	keyed := dial(t, address, "")
	r := bufio.NewReader(keyed)
	ask := func() {
		t.Helper()
		io.WriteString(keyed, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: k\r\n\r\n")
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		if answer.StatusCode != 200 {
			t.Fatal(answer.Status)
		}
	}
	ask()
	var hostile []net.Conn
	for i := range 40 {
		hostile = append(
			hostile, dial(t, address, []string{"", "POST /v1/comp", head("POST", "/v1/completions", 100)}[i%3]),
		)
	}
	ask()
	if status, text, _ := s.do("GET", "/health", ""); status != 200 {
		t.Error(status, text)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 {
		q, _ := http.NewRequest("POST", "http://"+address+"/v1/completions", strings.NewReader(small))
		q.Header.Set("X-Api-Key", "k")
		answer, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != 200 {
			t.Error(answer.Status)
		}
	}
	s.sockets.mu.Lock()
	open, unkeyed := len(s.sockets.open), s.sockets.unkeyed[netip.MustParseAddr("127.0.0.1")]
	s.sockets.mu.Unlock()
	if open > 6 || unkeyed > 4 {
		t.Errorf("%d connections, %d of them without a key", open, unkeyed)
	}
	if _, err := hostile[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the oldest half-open connection: %v", err)
	}
}

// fakeConn is a connection from an address that notes its deadlines.
type fakeConn struct {
	net.Conn
	from        string
	read, write time.Time
	closed      bool
}

func (c *fakeConn) RemoteAddr() net.Addr {
	if a, err := netip.ParseAddrPort(c.from); err == nil {
		return net.TCPAddrFromAddrPort(a)
	}
	return &net.UnixAddr{Name: c.from, Net: "unix"}
}
func (c *fakeConn) SetReadDeadline(t time.Time) error  { c.read = t; return nil }
func (c *fakeConn) SetWriteDeadline(t time.Time) error { c.write = t; return nil }
func (c *fakeConn) Write(b []byte) (int, error)        { return len(b), nil }
func (c *fakeConn) Close() error                       { c.closed = true; return nil }

// The bound of connections without a key holds for each address by itself, and for each /64 network of IPv6; the
// oldest goes. A proxy's connections do not count, and those that have shown a key no longer do.
func TestUnkeyedConnectionsCountByAddress(t *testing.T) {
	s := newTester(t, func(o *Options) {
		o.Limits.Unkeyed, o.TrustedProxies = 2, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	add := func(from string) (*socket, *fakeConn) {
		f := &fakeConn{from: from}
		return s.sockets.add(f), f
	}
	a1, fa1 := add("192.0.2.1:1")
	_, fa2 := add("192.0.2.1:2")
	_, fb := add("192.0.2.2:1")
	for i := range 9 {
		if _, f := add(fmt.Sprintf("10.1.1.1:%d", i+1)); f.closed {
			t.Error("a proxy's connection counts")
		}
	}
	if fa1.closed || fa2.closed || fb.closed {
		t.Error("closed below the bound")
	}
	a1.enter(http.StateActive) // a request without a key is under way, or refused
	a3, fa3 := add("192.0.2.1:3")
	if !fa1.closed || fa2.closed || fa3.closed || fb.closed {
		t.Errorf(
			"closed: the oldest %v, the next %v, the new one %v, another address's %v", fa1.closed, fa2.closed,
			fa3.closed, fb.closed,
		)
	}
	a3.allowed()
	if _, fa4 := add("192.0.2.1:4"); fa2.closed || fa4.closed {
		t.Error("a connection that has shown its key counts")
	}
	_, v1 := add("[2001:db8::1]:1")
	add("[2001:db8::2:2]:1")
	add("[2001:db8:0:1::1]:1")
	if v1.closed {
		t.Error("another /64 network counts")
	}
	if add("[2001:db8::ffff:3]:1"); !v1.closed {
		t.Error("two addresses of one /64 network count apart")
	}
}

// Connections that are taken away or end give their counts back.
func TestSocketsCountToZero(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.Unkeyed = 3 })
	var list []*socket
	for i := range 9 {
		list = append(list, s.sockets.add(&fakeConn{from: fmt.Sprintf("192.0.2.%d:1", i%2)}))
	}
	list[8].allowed()
	for _, c := range slices.Concat(list, list) {
		c.Close()
	}
	if len(s.sockets.open) != 0 || len(s.sockets.unkeyed) != 0 {
		t.Errorf("%d connections, %v", len(s.sockets.open), s.sockets.unkeyed)
	}
}

// With all places taken a new connection takes that of an unkeyed one, then of the keyed one that has been idle
// longest, and waits where all are busy.
func TestRoomForNewConnections(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.Connections = 3 })
	p := &s.sockets
	open := func(state http.ConnState, keyed bool) (*socket, *fakeConn) {
		f := &fakeConn{from: "192.0.2.1:1"}
		c := p.add(f)
		c.enter(state)
		if keyed {
			c.allowed()
		}
		return c, f
	}
	old, fold := open(http.StateIdle, true)
	_, fnew := open(http.StateIdle, true)
	_, fresh := open(http.StateNew, false)
	evict := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.evict(forPlace, func(*socket) bool { return true })
	}
	if !evict() || !fresh.closed || fold.closed || fnew.closed {
		t.Error("the unkeyed connection did not go first")
	}
	if !evict() || !fold.closed || fnew.closed {
		t.Error("the keyed connection that was idle longest did not go next")
	}
	if old.enter(http.StateActive); old.state != socketClosed {
		t.Error("a connection that was taken away is used")
	}
	var busy *socket
	for range 3 {
		busy, _ = open(http.StateActive, true)
	}
	evict() // the last idle one
	if evict() {
		t.Error("a busy connection was taken away")
	}
	in, out := net.Pipe()
	defer out.Close()
	l := &listener{Listener: &oneListener{conn: in}, sockets: p, done: make(chan struct{})}
	got := goAccept(l)
	select {
	case <-got:
		t.Error("a connection was accepted although all places are busy")
	case <-time.After(20 * time.Millisecond): // on a slow machine the test would only see less
	}
	busy.Close()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func goAccept(l net.Listener) <-chan error {
	done := make(chan error, 1)
	go func() { _, err := l.Accept(); done <- err }()
	return done
}

// oneListener accepts one connection.
type oneListener struct {
	net.Listener
	conn net.Conn
}

func (l *oneListener) Accept() (net.Conn, error) { return l.conn, nil }
func (l *oneListener) Close() error              { return nil }

// A listener that waits for room is ended by its Close.
func TestCloseEndsTheWaitForRoom(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.Connections = 1 })
	c := s.sockets.add(&fakeConn{from: "192.0.2.1:1"})
	c.enter(http.StateActive)
	c.allowed()
	in, out := net.Pipe()
	defer out.Close()
	l := &listener{Listener: &oneListener{conn: in}, sockets: &s.sockets, done: make(chan struct{})}
	got := goAccept(l)
	l.Close()
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Every read of an unkeyed connection has the deadline of a header, whatever net/http asks for; a keyed one has what
// it asks for. Every write has a deadline.
func TestSocketDeadlines(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.HeaderTime, o.Limits.WriteTime = time.Minute, 2*time.Minute })
	f := &fakeConn{from: "192.0.2.1:1"}
	c := s.sockets.add(f)
	near := func(at time.Time, d time.Duration) bool {
		left := time.Until(at)
		return left <= d && left > d-30*time.Second
	}
	for _, at := range []time.Time{{}, time.Now().Add(time.Hour)} {
		if c.SetReadDeadline(at); !near(f.read, time.Minute) {
			t.Errorf("the deadline %v became %v", at, f.read)
		}
	}
	soon := time.Now().Add(time.Second)
	if c.SetReadDeadline(soon); !f.read.Equal(soon) {
		t.Errorf("an earlier deadline became %v", f.read)
	}
	if c.allowed(); !f.read.IsZero() {
		t.Errorf("a keyed connection's deadline is %v", f.read)
	}
	if c.SetReadDeadline(time.Time{}); !f.read.IsZero() {
		t.Errorf("a keyed connection's deadline is %v", f.read)
	}
	if c.Write(nil); !near(f.write, 2*time.Minute) {
		t.Errorf("a write has the deadline %v", f.write)
	}
	c.SetWriteDeadline(soon)
	if c.Write(nil); !f.write.Equal(soon) {
		t.Errorf("a write with a deadline has %v", f.write)
	}
	c.SetWriteDeadline(time.Time{})
	if c.Write(nil); !near(f.write, 2*time.Minute) {
		t.Errorf("a write after a deadline has %v", f.write)
	}
	p := &fakeConn{from: "192.0.2.1:1"}
	odd := s.sockets.add(&fakeConn{from: "@"}) // of no address that can be read, as a Unix socket's
	if odd.allowed(); odd.SetReadDeadline(time.Time{}) != nil || !odd.Conn.(*fakeConn).read.IsZero() {
		t.Error("a connection of no address is never keyed")
	}
	proxied := &socket{Conn: p, set: &s.sockets}
	proxied.keyed.Store(true)
	if proxied.SetReadDeadline(time.Time{}); !p.read.IsZero() {
		t.Errorf("a proxy's connection has the deadline %v", p.read)
	}
}

// Each way of holding a connection without going on ends by its deadline: a TLS handshake, half a header, an idle
// connection without a key, one with a key, a body that nobody wants, answers that are not read.
func TestStalledConnectionsEnd(t *testing.T) {
	const short = 30 * time.Millisecond
	for name, c := range map[string]struct {
		limits Limits
		tls    bool
		text   string
	}{
		"handshake": {Limits{HeaderTime: short}, true, "\x16\x03\x01"},
		"header":    {Limits{HeaderTime: short}, false, "GET / HTTP"},
		"unkeyed idle": {
			Limits{HeaderTime: short, IdleTime: long}, false, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
		},
		"keyed idle": {
			Limits{HeaderTime: long, IdleTime: short}, false,
			"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: k\r\n\r\n",
		},
		"no use of it": {
			Limits{HeaderTime: long, IdleTime: long, BodyTime: short}, false,
			head("GET", "/v1/models", 100, "X-Api-Key: k"),
		},
		"body": {
			Limits{HeaderTime: long, IdleTime: long, BodyTime: short}, false,
			head("POST", "/v1/completions", 100, "X-Api-Key: k") + "{",
		},
		"long header": {
			Limits{HeaderTime: long, HeaderBytes: 4096}, false, "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 16<<10),
		},
		"not HTTP": {Limits{HeaderTime: long}, false, "\x00\x00\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTester(t, func(o *Options) { o.Limits, o.Keys = c.limits, []Key{{Secret: "k"}} })
			var config *tls.Config
			if c.tls {
				config = &tls.Config{}
			}
			if _, err := io.Copy(
				io.Discard, dial(t, s.listen(config), c.text),
			); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Error(err)
			}
		})
	}
	t.Run("answers", func(t *testing.T) {
		t.Parallel()
		s := newTester(t, func(o *Options) { o.Limits, o.Origins = Limits{WriteTime: short}, []string{"*"} })
		c := dial(t, s.listen(nil), "")
		request := strings.Repeat("OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.org\r\n\r\n", 100)
		for err := error(nil); err == nil; {
			_, err = io.WriteString(c, request)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
	})
}

// Over TLS the server speaks HTTP/1.1 and nothing else.
func TestNoHTTP2(t *testing.T) {
	s := newTester(t, nil)
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS() // it has a certificate
	defer web.Close()
	address := s.listen(&tls.Config{Certificates: web.TLS.Certificates})
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true},
	}
	defer client.CloseIdleConnections()
	answer, err := client.Get("https://" + address + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.Proto != "HTTP/1.1" || answer.StatusCode != 200 {
		t.Error(answer.Proto, answer.Status)
	}
}

// Where a request comes from, with and without proxies in front.
func TestAddressBehindProxies(t *testing.T) {
	s := newTester(t, func(o *Options) {
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	})
	for _, c := range []struct {
		peer, header, value, want string
	}{
		{"192.0.2.1:5", "", "", "192.0.2.1"},
		{"192.0.2.1:5", "X-Forwarded-For", "198.51.100.9", "192.0.2.1"}, // not a proxy: it may say what it likes
		{"10.0.0.1:5", "X-Forwarded-For", "198.51.100.9", "198.51.100.9"},
		// the client may have written what is in front
		{"10.0.0.1:5", "X-Forwarded-For", "203.0.113.5, 198.51.100.9", "198.51.100.9"},
		{"10.0.0.1:5", "X-Forwarded-For", "198.51.100.9, 10.2.3.4", "198.51.100.9"}, // two proxies
		{"10.0.0.1:5", "X-Forwarded-For", "198.51.100.9:4711", "198.51.100.9"},
		{"10.0.0.1:5", "X-Forwarded-For", "2001:db8::9", "2001:db8::"},
		{"[fd00::1]:5", "X-Forwarded-For", "[2001:db8::9]:4711", "2001:db8::"},
		{
			"10.0.0.1:5", "X-Forwarded-For", "unknown", "",
		}, {"10.0.0.1:5", "X-Forwarded-For", "198.51.100.9, ", ""}, {"10.0.0.1:5", "", "", ""},
		{"[::ffff:10.0.0.1]:5", "X-Forwarded-For", "198.51.100.9", "198.51.100.9"},
		{"10.0.0.1:5", "Forwarded", `for=203.0.113.5, For="198.51.100.9:81";proto=https;by=10.0.0.1`, "198.51.100.9"},
		{"10.0.0.1:5", "Forwarded", `for="[2001:db8::9]:4711"`, "2001:db8::"},
		{"10.0.0.1:5", "Forwarded", `for=_hidden`, ""},
		{"@", "", "", ""},
	} {
		r, _ := http.NewRequest("GET", "/", nil)
		if r.RemoteAddr = c.peer; c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		if got := s.address(r); got.IsValid() && got.String() != c.want || !got.IsValid() && c.want != "" {
			t.Errorf("%s %s %s: %v, want %s", c.peer, c.header, c.value, got, c.want)
		}
	}
	r, _ := http.NewRequest("GET", "/", nil)
	r.RemoteAddr, r.Header = "10.0.0.1:5", http.Header{
		"Forwarded": {"for=203.0.113.5"}, "X-Forwarded-For": {"198.51.100.9"},
	}
	if got := s.address(r); got.String() != "198.51.100.9" {
		t.Errorf("both headers: %v", got)
	}
}

// Behind a trusted proxy requests without a key count by the address that it tells.
func TestUnkeyedRequestsBehindAProxy(t *testing.T) {
	s := newTester(t, func(o *Options) {
		o.Keys, o.Limits.Unkeyed, o.TrustedProxies = []Key{{Secret: "k"}}, 1, []netip.Prefix{
			netip.MustParsePrefix("127.0.0.0/8"),
		}
	})
	leave, ok := s.visitors.enter(netip.MustParseAddr("192.0.2.1"), 1)
	if !ok {
		t.Fatal("not let in")
	}
	ask := func(from string, header ...string) int {
		status, _, _ := s.do("GET", "/livez", "", append(header, "X-Forwarded-For", from)...)
		return status
	}
	if got := ask("192.0.2.1"); got != 429 {
		t.Errorf("one too many of the address: %d", got)
	}
	if got := ask("192.0.2.1", "X-Api-Key", "k"); got != 200 {
		t.Errorf("with the key: %d", got)
	}
	if got := ask("192.0.2.2"); got != 200 {
		t.Errorf("another address: %d", got)
	}
	leave()
	s.wait(func() bool { return ask("192.0.2.1") == 200 })
	s.wait(func() bool { s.visitors.mu.Lock(); defer s.visitors.mu.Unlock(); return len(s.visitors.count) == 0 })
}

// Shutdown ends by its time with clients that have sent half a header, half a body, or do not read; what has not begun
// ends at once.
func TestShutdownWithStalledClients(t *testing.T) {
	s := newTester(
		t, func(o *Options) { o.Limits = Limits{HeaderTime: long, BodyTime: long, WriteTime: long, IdleTime: long} },
	)
	address := s.listen(nil)
	dial(t, address, "")
	dial(t, address, "POST /v1/comp")
	dial(t, address, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	s.wait(func() bool { s.sockets.mu.Lock(); defer s.sockets.mu.Unlock(); return len(s.sockets.open) == 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // http.Server alone takes 5 s for them
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("clients that ask for nothing: %v", err)
	}
	s = newTester(
		t, func(o *Options) { o.Limits = Limits{HeaderTime: long, BodyTime: long, WriteTime: long, IdleTime: long} },
	)
	address = s.listen(nil)
	c := dial(t, address, head("POST", "/v1/completions", 100)+"{")
	s.wait(func() bool { return s.inside.Load() == 1 })
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a body that does not come: %v", err)
	}
	if answer, _ := io.ReadAll(c); !bytes.HasPrefix(answer, []byte("HTTP/1.1 503 ")) {
		t.Errorf("whose body did not come is told %q", answer)
	}
	s.Close() // which waits for nobody
	if err := s.Serve(&oneListener{}, nil); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

// /metrics tells the open connections, those without a key apart, and how many each limit closed.
func TestConnectionsAreMeasured(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.Unkeyed, o.Limits.Connections = 2, 4 })
	metric := func(name, want string) {
		t.Helper()
		_, text, _ := s.do("GET", "/metrics", "")
		if !strings.Contains(text, "\n"+name+" "+want+"\n") {
			_, rest, _ := strings.Cut(text, "spec_connections")
			t.Errorf("%s is not %s: %.900s", name, want, rest)
		}
	}
	for i, from := range []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.2:1"} {
		c := s.sockets.add(&fakeConn{from: from})
		if i == 3 {
			c.allowed()
		}
	}
	metric(`spec_connections{keyed="true"}`, "1")
	metric(`spec_connections{keyed="false"}`, "2")
	metric(`spec_connections_closed_total{reason="address"}`, "1")
	s.sockets.add(&fakeConn{from: "192.0.2.3:1"})
	in, out := net.Pipe()
	defer out.Close()
	l := &listener{Listener: &oneListener{conn: in}, sockets: &s.sockets, done: make(chan struct{})}
	<-goAccept(l)
	metric(`spec_connections_closed_total{reason="places"}`, "1")

	// A header that does not come is late; a read that net/http ends, and the wait for a next request, are not.
	for i, c := range []struct {
		state http.ConnState
		at    time.Duration
		late  string
	}{
		{http.StateNew, -time.Hour, "0"}, {http.StateIdle, time.Millisecond, "0"}, {http.StateNew, time.Millisecond, "1"},
		{http.StateActive, time.Millisecond, "2"},
	} {
		in, out := net.Pipe()
		k := s.sockets.add(in)
		k.enter(c.state)
		k.SetReadDeadline(time.Now().Add(c.at))
		for range 2 {
			if _, err := k.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%d: %v", i, err)
			}
		}
		metric(`spec_connections_closed_total{reason="time"}`, c.late)
		k.Close()
		out.Close()
	}
}
