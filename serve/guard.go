package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"log/slog"
)

// record is what the log and the metrics tell about one request.
type record struct {
	id      string
	asked   time.Time
	path    string  // the label of the metrics, see [Server.route]
	client  *client // who asks; nil until that is known
	pending bool    // the request's body has not been read
	visit   *visit  // what the request holds; nil: it has no body
	leave   func()  // ends that it counts among those without a key; nil: it does not
	status  int
	model   string
	queued  time.Duration
	err     error
	stats   []slog.Attr
}

type recordKey struct{}

func recordOf(ctx context.Context) *record {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return r
	}
	return &record{}
}

// failed notes why an answer did not come to its end. Where its client has left, that is the status too, whatever was
// sent before.
func (l *record) failed(err error) {
	if l.err == nil {
		l.err = err
	}
	if asError(err).Status == statusGone {
		l.status = statusGone
	}
}

// answered notes the figures of answers, complete or not.
func (l *record) answered(r *reading) {
	t := r.totals()
	l.stats = append(
		l.stats, slog.Int("prompt_tokens", t.Prompt), slog.Int("tokens", t.Generated), slog.Int("drafted", t.Drafted),
		slog.Int("accepted", t.Accepted),
	)
	if r.server().o.LogPrompts {
		for i := range r.answers {
			l.stats = append(
				l.stats, slog.String("prompt", r.m.Tokenizer().Decode(r.task.Prompt(i))),
				slog.String("answer", r.answers[i].Reasoning+r.answers[i].Text),
			)
		}
	}
}

// watched notes the status that a handler writes, and bounds the time in which the client takes each piece of an
// answer.
type watched struct {
	http.ResponseWriter
	server *Server
	log    *record
	wrote  bool
}

func (w *watched) WriteHeader(status int) {
	if !w.wrote {
		w.wrote, w.log.status = true, status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (n int, err error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	control := http.NewResponseController(w.ResponseWriter)
	for {
		piece := b[n:min(n+writePiece, len(b))]
		// not every writer can; then the http.Server's own limits hold
		_ = control.SetWriteDeadline(w.server.now().Add(w.server.o.Limits.WriteTime))
		k, err := w.ResponseWriter.Write(piece)
		if n += k; err != nil || n == len(b) {
			return n, err
		}
	}
}

// refuse makes the answer the connection's last one: who has not sent the body yet may go on a moment, so as to read
// the answer.
func (w *watched) refuse() {
	w.Header().Set("Connection", "close")
	// where the writer cannot, its server's limits hold
	_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(w.server.now().Add(lingerTime))
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// told is an error as the client and the log are told of it: what the server's end has cancelled, no client has.
func (s *Server) told(err error) error {
	if errors.Is(err, context.Canceled) && s.base.Err() != nil {
		return unavailable("the server is shutting down")
	}
	return err
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, log *record, shape func(*Error) any, err error) {
	err = s.told(err)
	log.failed(err)
	e := asError(err)
	if e.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(s.retryAfter()))
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if ww, ok := w.(*watched); ok && ww.wrote {
		panic(http.ErrAbortHandler) // the answer has begun: the connection ends without its end, which clients notice
	}
	if e.Code == codeCancelled {
		panic(http.ErrAbortHandler) // nobody listens
	}
	if ww, ok := w.(*watched); ok && (log.pending || log.client == nil) {
		ww.refuse()
	}
	writeJSON(w, e.Status, shape(e))
	log.status = e.Status
}

// retryAfter is in how many seconds a place may be free: the time that recent answers took, shared by the places.
func (s *Server) retryAfter() int {
	_, waiting := s.queue.load()
	each := s.metrics.meanAnswer()
	seconds := int(each*float64(waiting+1)/float64(s.o.Parallel)) + 1
	return min(seconds, maxRetry)
}

// recovered turns a panic into an error of the request.
func (s *Server) recovered(err *error) {
	x := recover()
	if x == nil {
		return
	}
	if x == http.ErrAbortHandler {
		panic(x)
	}
	s.panicked(x, debug.Stack())
	*err = fmt.Errorf("panic: %v", x)
}

// panicked counts and logs a panic that ended a request.
func (s *Server) panicked(v any, stack []byte) {
	s.metrics.panics.Add(1)
	s.o.Log.Error("panic in a request", "panic", fmt.Sprint(v), "stack", string(stack))
}

// shapeOf is the shape of errors of a request.
func shapeOf(r *http.Request) func(*Error) any {
	if fromAnthropic(r) && strings.HasPrefix(r.URL.Path, "/v1/models") {
		return anthropicError
	}
	return shapeOfPath(r.URL.Path)
}

// shapeOfPath is the shape of errors of a path.
func shapeOfPath(path string) func(*Error) any {
	switch {
	case strings.HasPrefix(path, "/api/"):
		return ollamaError
	case strings.HasPrefix(path, "/v1/messages"):
		return anthropicError
	}
	return openAIError
}

// guard wraps the endpoints in what concerns every request: its id, its log line, who may ask, from where.
func (s *Server) guard() (http.Handler, error) {
	cross := http.NewCrossOriginProtection()
	for _, o := range s.o.Origins {
		if o == "*" || o == localOrigins {
			continue
		}
		if err := cross.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("%w: Origins: %w", ErrOptions, err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := s.now()
		log := &record{id: s.requestID(r), asked: begun, pending: r.ContentLength != 0}
		ww := &watched{ResponseWriter: w, server: s, log: log}
		h := ww.Header()
		h.Set("X-Request-Id", log.id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Server", "spec")
		r = r.WithContext(context.WithValue(r.Context(), recordKey{}, log))
		path, allowed := s.route(r)
		log.path = path
		defer func() {
			s.logged(r, log, begun)
			if log.leave != nil {
				log.leave()
			}
		}()
		var err error
		func() {
			defer s.recovered(&err)
			var done bool
			if done, err = s.allow(ww, r, cross, log); err == nil && !done {
				s.dispatch(ww, r, log, allowed)
			}
		}()
		if err != nil {
			s.fail(ww, log, shapeOf(r), err)
		}
	}), nil
}

// route is the label of a request's path, and the methods that the path takes, nil where they include the request's.
func (s *Server) route(r *http.Request) (label string, allowed []string) {
	if _, pattern := s.front.mux.Handler(r); pattern != "" {
		return labelOf(pattern), nil
	}
	label, allowed = otherPath, []string{}
	probe := *r
	for _, probe.Method = range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if _, pattern := s.front.mux.Handler(&probe); pattern != "" {
			label, allowed = labelOf(pattern), append(allowed, probe.Method)
		}
	}
	return label, allowed
}

// dispatch calls the handler of a path. One that there is not, or that takes only the allowed methods, gets an error in
// the API's shape.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, log *record, allowed []string) {
	if allowed == nil {
		s.front.mux.ServeHTTP(w, r)
		return
	}
	e := &Error{
		Status: http.StatusNotFound, Type: typeNotFound,
		Message: fmt.Sprintf("no endpoint %s %s", r.Method, clip(r.URL.Path)),
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		e.Status, e.Type, e.Message = http.StatusMethodNotAllowed, typeInvalid, fmt.Sprintf(
			"%s takes %s, not %s", clip(r.URL.Path), strings.Join(allowed, " and "), r.Method,
		)
	}
	s.fail(w, log, shapeOf(r), e)
}

// requestID is the client's, if it is a plain one, else a new one.
func (s *Server) requestID(r *http.Request) string {
	const longest = 64
	id := r.Header.Get("X-Request-Id")
	plain := id != "" && len(id) <= longest
	for i := range len(id) {
		c := id[i]
		plain = plain && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' ||
			c == '_' || c == '.')
	}
	if plain {
		return id
	}
	return s.newID("req_")
}

// allow says whether a request may be answered, and to whom. done is true for requests that it has answered itself.
func (s *Server) allow(
	w *watched, r *http.Request, cross *http.CrossOriginProtection, log *record,
) (done bool, err error) {
	if !s.hostAllowed(r.Host) {
		return false, errHost(r.Host)
	}
	origin := r.Header.Get("Origin")
	all := slices.Contains(s.o.Origins, "*")
	if len(s.o.Origins) > 0 {
		w.Header().Add("Vary", "Origin")
	}
	known := origin != "" && (all || s.originAllowed(origin))
	if known {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS")
			if !all { // a page of any origin must not bring along what a browser keeps for this one
				h.Set("Access-Control-Allow-Credentials", "true") // none are looked at: keys come in headers
			}
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id, X-Api-Key")
			// client libraries send headers of their own, as OpenAI's X-Stainless-Lang
			if asked := r.Header.Get("Access-Control-Request-Headers"); plainHeaders(asked) {
				h.Set("Access-Control-Allow-Headers", asked)
			}
			h.Set("Access-Control-Max-Age", "600")
		}
	}
	preflight := origin != "" && r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	if preflight && known {
		w.WriteHeader(http.StatusOK)
		return true, nil
	}
	// Browsers send a preflight for a page of another origin alone.
	if !known && !all && (preflight || cross.Check(r) != nil) {
		return false, &Error{
			Status: http.StatusForbidden, Type: typeForbidden, Code: "cross_origin",
			Message: fmt.Sprintf("requests from pages of other origins are refused; --cors %s allows these", clip(origin)),
		}
	}
	who := s.shown(r)
	if who == nil {
		if !s.open(r) {
			return false, &Error{
				Status: http.StatusUnauthorized, Type: typeAuth, Code: "invalid_api_key",
				Message: "the API key is missing or wrong",
			}
		}
		return false, s.visited(r, log)
	}
	log.client = who
	if c, ok := r.Context().Value(socketKey{}).(*socket); ok {
		c.allowed()
	}
	if log.pending { // also a request that has no use for a body
		_ = http.NewResponseController(w).SetReadDeadline(s.now().Add(s.o.Limits.BodyTime))
	}
	return false, nil
}

// localOrigins stands for every page of this machine, in Options.Origins.
const localOrigins = "localhost"

// originAllowed reports whether pages of an origin may use the server.
func (s *Server) originAllowed(origin string) bool {
	if slices.Contains(s.o.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || !slices.Contains(s.o.Origins, localOrigins) {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// visited counts a request that needs no key and shows none among those of its network, if a trusted proxy stands
// between: the connections say nothing about who asks then.
func (s *Server) visited(r *http.Request, log *record) error {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !s.trusted(peer.Addr()) {
		log.client = s.anyone
		return nil
	}
	leave, ok := s.visitors.enter(s.address(r), s.o.Limits.Unkeyed)
	if !ok {
		return &Error{
			Status: http.StatusTooManyRequests, Type: typeBusy, Code: "too_many_unkeyed",
			Message: "too many requests without a key at once from one address",
		}
	}
	log.client, log.leave = s.anyone, leave
	return nil
}

// plainHeaders reports whether a text is a list of names of headers.
func plainHeaders(list string) bool {
	const longest = 1 << 10
	if list == "" || len(list) > longest {
		return false
	}
	for i := range len(list) {
		c := list[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' ||
			c == ',' || c == ' ') {
			return false
		}
	}
	return true
}

func errHost(host string) *Error {
	return &Error{
		Status: http.StatusForbidden, Type: typeForbidden, Code: "host",
		Message: fmt.Sprintf("the host %q is not one of this server's names; --allowed-host adds one", clip(host)),
	}
}

// containerHosts are the names by which containers reach the machine that they run on. The container's runtime says
// where they lead, so that no page can point one elsewhere.
var containerHosts = []string{"host.docker.internal", "host.containers.internal"}

// hostAllowed reports whether a browser may reach the server by a name. Addresses in numbers cannot be rebound, and who
// names no host is no browser: balancers that ask for the health of a server in HTTP/1.0 name none.
func (s *Server) hostAllowed(host string) bool {
	if host == "" {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || net.ParseIP(name) != nil ||
		slices.Contains(containerHosts, name) {
		return true
	}
	return slices.ContainsFunc(s.o.Hosts, func(h string) bool {
		return h == "*" || strings.EqualFold(strings.TrimSuffix(h, "."), name)
	})
}

// probes are the paths that machines ask again and again.
var probes = map[string]bool{"/health": true, "/v1/health": true, "/livez": true, "/readyz": true, "/metrics": true}

// logged writes a request's line.
func (s *Server) logged(r *http.Request, log *record, begun time.Time) {
	if log.status == 0 {
		log.status = http.StatusOK
	}
	path := r.URL.Path
	s.metrics.request(log.path, log.status)
	level := slog.LevelInfo
	switch {
	case probes[path]:
		level = slog.LevelDebug
	case log.status >= http.StatusInternalServerError && log.status != http.StatusNotImplemented:
		level = slog.LevelError
	}
	if !s.o.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("id", log.id), slog.String("method", r.Method), slog.String("path", clip(path)),
		slog.Int("status", log.status),
		slog.Float64("seconds", s.now().Sub(begun).Seconds())}
	if log.model != "" {
		attrs = append(attrs, slog.String("model", log.model), slog.Float64("queued_seconds", log.queued.Seconds()))
	}
	attrs = append(attrs, log.stats...)
	if log.err != nil {
		// An error of the request may quote it: of those only the field is logged.
		if e := asError(log.err); e.internal() {
			attrs = append(attrs, slog.String("error", log.err.Error()))
		} else {
			attrs = append(
				attrs, slog.String("error_type", e.Type), slog.String("error_param", e.Param),
				slog.String("error_code", e.Code),
			)
		}
	}
	s.o.Log.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}
