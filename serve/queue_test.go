package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// line is a queue whose requests a test makes one by one, so that their order is known.
type line struct {
	queue
	t        *testing.T
	admitted chan string
	leaves   map[string]func()
	ends     map[string]chan error
}

func newLine(t *testing.T, most, longest int) *line {
	return &line{
		queue: queue{most: most, longest: longest}, t: t, admitted: make(chan string, 1000),
		leaves: map[string]func(){}, ends: map[string]chan error{},
	}
}

// ask lets a request of a client wait for n places, under a name.
func (l *line) ask(ctx context.Context, name string, who *share, n int) {
	state := func() [2]int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return [2]int{l.busy, l.arrived}
	}
	before := state()
	end := make(chan error, 1)
	l.ends[name] = end
	go func() {
		_, leave, err := l.enter(ctx, who, n, true)
		if err == nil {
			l.mu.Lock()
			l.leaves[name] = leave
			l.mu.Unlock()
			l.admitted <- name
		}
		end <- err
	}()
	for range 10000 {
		if state() != before || len(end) > 0 {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
	l.t.Fatal("neither waits nor is admitted")
}

// next is who is admitted next.
func (l *line) next() string {
	l.t.Helper()
	select {
	case name := <-l.admitted:
		return name
	case <-time.After(10 * time.Second):
		l.t.Fatal("nobody is admitted")
		return ""
	}
}

func (l *line) leave(name string) {
	l.mu.Lock()
	f := l.leaves[name]
	l.mu.Unlock()
	f()
}

// order asks for all, with one place that another holds, and tells in which order they get it.
func (l *line) order() (got string) {
	for range len(l.ends) - 1 {
		name := l.next()
		got += name[:1]
		l.leave(name)
	}
	return got
}

// One place goes to the clients in turn, by their weights, whatever they have asked for before; those of one client
// come in their order.
func TestQueueSharesByWeight(t *testing.T) {
	for _, c := range []struct {
		a, b float64
		want string
	}{{1, 1, "ABABABABABAB"}, {2, 1, "AABAABAABBBB"}, {1, 3, "ABBBABBAAAAA"}} {
		l := newLine(t, 1, 100)
		a, b := &share{weight: c.a}, &share{weight: c.b}
		l.ask(t.Context(), "hold", &share{weight: 1}, 1)
		l.next()
		for i := range 6 {
			l.ask(t.Context(), fmt.Sprint("A", i), a, 1)
		}
		for i := range 6 {
			l.ask(t.Context(), fmt.Sprint("B", i), b, 1)
		}
		l.leave("hold")
		if got := l.order(); strings.Count(got, "A") != 6 ||
			strings.Count(got[:6], "B") != strings.Count(c.want[:6], "B") {
			t.Errorf("weights %v and %v: %s, want as %s", c.a, c.b, got, c.want)
		}
	}
}

// Of several places each client holds its share, although one of them asked for all first and keeps them longer: the
// next free one goes to who holds least for its weight.
func TestQueuePlacesByWeight(t *testing.T) {
	for _, c := range []struct {
		weight float64
		want   int
	}{{1, 2}, {3, 1}} {
		l := newLine(t, 4, 100)
		a, b := &share{weight: c.weight}, &share{weight: 1}
		var held []string
		for i := range 4 {
			l.ask(t.Context(), fmt.Sprint("hold", i), a, 1)
			held = append(held, l.next())
		}
		for i := range 8 {
			l.ask(t.Context(), fmt.Sprint("A", i), a, 1)
			l.ask(t.Context(), fmt.Sprint("B", i), b, 1)
		}
		for _, name := range held {
			l.leave(name)
			l.next()
		}
		if b.held != c.want || a.held != 4-c.want {
			t.Errorf("weight %v: %d and %d places", c.weight, a.held, b.held)
		}
	}
}

// A client that comes anew begins level with those that wait: neither does it make up for the time in which it did not
// ask, nor is it last.
func TestQueueNewClientsBeginLevel(t *testing.T) {
	l := newLine(t, 1, 100)
	old, fresh := &share{weight: 1}, &share{weight: 1}
	for i := range 50 {
		name := fmt.Sprint("X", i)
		l.ask(t.Context(), name, old, 1)
		l.next()
		l.leave(name)
	}
	clear(l.ends)
	l.ask(t.Context(), "hold", old, 1)
	l.next()
	for i := range 4 {
		l.ask(t.Context(), fmt.Sprint("A", i), old, 1)
		l.ask(t.Context(), fmt.Sprint("B", i), fresh, 1)
	}
	l.leave("hold")
	if got := l.order(); got != "BABABABA" {
		t.Errorf("%s", got)
	}
}

// A request for several places waits for them at the head of the queue, and small requests of others do not keep it
// there for ever.
func TestQueueSeveralPlacesComeTheirTurn(t *testing.T) {
	l := newLine(t, 2, 100)
	a, b := &share{weight: 1}, &share{weight: 100}
	for i := range 2 {
		l.ask(t.Context(), fmt.Sprint("B", i), b, 1)
		l.next()
	}
	l.ask(t.Context(), "A", a, 2)
	for i := 2; i < 6; i++ {
		l.ask(t.Context(), fmt.Sprint("B", i), b, 1)
	}
	l.leave("B0")
	if busy, waiting := l.load(); busy != 1 || waiting != 6 {
		t.Errorf("%d busy, %d waiting: a place was given past the one whose turn it is", busy, waiting)
	}
	l.leave("B1")
	if got := l.next(); got != "A" {
		t.Errorf("%s came first", got)
	}
}

// A request that leaves lets those behind it go on for which there is room; so does the end of one that was admitted
// at that moment.
func TestQueueGoesOnWhenTheFirstLeaves(t *testing.T) {
	for _, clients := range []int{1, 2} {
		l := newLine(t, 4, 100)
		who := []*share{{weight: 1}, {weight: 1}}
		for i := range 3 {
			name := fmt.Sprint("hold", i)
			l.ask(t.Context(), name, &share{weight: 1}, 1)
			l.next()
		}
		ctx, cancel := context.WithCancel(t.Context())
		l.ask(ctx, "big", who[0], 4)
		l.ask(t.Context(), "small", who[clients-1], 1)
		if busy, waiting := l.load(); busy != 3 || waiting != 5 {
			t.Fatalf("%d busy, %d waiting", busy, waiting)
		}
		cancel()
		if err := <-l.ends["big"]; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := l.next(); got != "small" {
			t.Error(got)
		}
		if busy, waiting := l.load(); busy != 4 || waiting != 0 {
			t.Errorf("%d busy, %d waiting", busy, waiting)
		}
	}
}

// The queue holds exactly as many as it says, counted in answers.
func TestQueueLength(t *testing.T) {
	l, who := newLine(t, 2, 3), &share{weight: 1}
	l.ask(t.Context(), "hold", who, 2)
	l.ask(t.Context(), "A", who, 2)
	for i, want := range []bool{false, true, false, false} { // two do not fit behind two, one does, and then none
		name := fmt.Sprint("B", i)
		l.ask(t.Context(), name, who, 2-min(i, 1))
		select {
		case err := <-l.ends[name]:
			var e *Error
			if want || !errors.As(err, &e) || e.Status != 429 {
				t.Errorf("%d: %v", i, err)
			}
		default:
			if !want {
				t.Errorf("%d waits", i)
			}
		}
	}
	if _, waiting := l.load(); waiting != 3 {
		t.Errorf("%d wait", waiting)
	}
}

// A full queue makes room for a client below its share, at the expense of the newest requests of the one with most for
// its weight, and refuses one that would then have more.
func TestFullQueueMakesRoom(t *testing.T) {
	for _, c := range []struct {
		weight float64 // of the newcomer
		want   int     // requests of it that get in
	}{{1, 2}, {3, 3}} {
		l := newLine(t, 1, 4)
		a, b := &share{weight: 1}, &share{weight: c.weight}
		l.ask(t.Context(), "hold", &share{weight: 1}, 1)
		for i := range 4 {
			l.ask(t.Context(), fmt.Sprint("A", i), a, 1)
		}
		for i := range 5 {
			l.ask(t.Context(), fmt.Sprint("B", i), b, 1)
		}
		l.mu.Lock()
		if a.waits != 4-c.want || b.waits != c.want || l.waits != 4 {
			t.Errorf("weight %v: %d and %d wait, %d in all", c.weight, a.waits, b.waits, l.waits)
		}
		l.mu.Unlock()
		var refused []string
		for tries := 0; len(refused) < 9-4 && tries < 10000; tries++ { // of nine that asked, when four wait
			refused = nil
			for name, end := range l.ends {
				if name != "hold" && len(end) > 0 {
					refused = append(refused, name)
				}
			}
			time.Sleep(100 * time.Microsecond)
		}
		slices.Sort(refused)
		for _, name := range refused {
			if err := <-l.ends[name]; err == nil {
				t.Errorf("weight %v: %s is admitted", c.weight, name)
			}
		}
		want := map[int]string{2: "[A2 A3 B2 B3 B4]", 3: "[A1 A2 A3 B3 B4]"}[c.want]
		if fmt.Sprint(refused) != want {
			t.Errorf("refused: %v, want %s", refused, want)
		}
	}
}

// A request of several answers makes as much room as it needs or none, and work that may not be refused stays.
func TestFullQueueMakesRoomForAllOrNone(t *testing.T) {
	l := newLine(t, 3, 4)
	a, b := &share{weight: 1}, &share{weight: 1}
	l.ask(t.Context(), "hold", a, 3)
	for i := range 4 {
		l.ask(t.Context(), fmt.Sprint("A", i), a, 1)
	}
	l.ask(t.Context(), "B", b, 3) // 3 would be more than the 1 that is left
	if err := <-l.ends["B"]; err == nil || a.waits != 4 {
		t.Errorf("%v, %d wait", err, a.waits)
	}
	l.ask(t.Context(), "C", b, 2)
	if a.waits != 2 || b.waits != 2 {
		t.Errorf("%d and %d wait", a.waits, b.waits)
	}
	batch := queue{most: 1, longest: 0}
	a, b = &share{weight: 1}, &share{weight: 1}
	_, leave, _ := batch.enter(t.Context(), a, 1, false)
	admitted := make(chan error, 1)
	go func() { _, _, err := batch.enter(t.Context(), a, 1, false); admitted <- err }()
	for _, waits := batch.load(); waits == 0; _, waits = batch.load() {
		time.Sleep(100 * time.Microsecond)
	}
	if _, _, err := batch.enter(t.Context(), b, 1, true); err == nil {
		t.Error("a request went past the bound")
	}
	leave()
	if err := <-admitted; err != nil {
		t.Errorf("work that may not be refused: %v", err)
	}
}

// Bounds of what is inside: requests and bytes of bodies. A client alone may use them up; then another gets its share,
// and no more.
func TestInsideSharesItsBounds(t *testing.T) {
	in := &inside{most: 8, bytes: 800, byWhom: map[*client]*holding{}}
	a, b, heavy := newClient("a", 1), newClient("b", 1), newClient("c", 2)
	fill := func(who *client) (n int, list []*visit) {
		for {
			v, err := in.enter(who, true)
			if err != nil {
				return n, list
			}
			n++
			list = append(list, v)
		}
	}
	na, la := fill(a)
	nb, lb := fill(b)
	nh, lh := fill(heavy)
	if na != 8 || nb != 4 || nh != 4 {
		t.Errorf("%d, %d and %d are inside", na, nb, nh)
	}
	for i, v := range la {
		if err := v.hold(100); err != nil {
			t.Error(i, err)
		}
	}
	var e *Error
	if e = la[0].hold(1); e == nil || e.Status != 429 || e.Code != "bodies_full" {
		t.Errorf("past the bound: %v", e)
	}
	if err := lh[0].hold(400); err != nil {
		t.Errorf("a client's share: %v", err)
	}
	if err := lh[1].hold(1); err == nil {
		t.Error("more than a client's share")
	}
	if err := lb[0].hold(201); err == nil {
		t.Error("more than a client's share")
	}
	free, _ := in.enter(a, false)
	for _, v := range slices.Concat(la, lb, lh, lb, []*visit{free}) { // some twice
		v.end()
	}
	if in.all != (holding{}) || len(in.byWhom) != 0 {
		t.Errorf("%+v, %v", in.all, in.byWhom)
	}
}

// A body takes from the bound what has come of it, not what it announces, and gives it back at its end.
func TestBodiesCountAsTheyCome(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.BodiesBytes, o.Limits.BodyBytes = 64<<10, 1<<20 })
	for range 3 {
		text := s.post("/v1/completions", `{"prompt":"`+strings.Repeat("x", 100<<10)+`"}`, 429)
		if o := decode(t, text); o.get(t, "error", "code") != "bodies_full" {
			t.Error(text)
		}
	}
	c := dial(t, s.web.Listener.Addr().String(), head("POST", "/v1/completions", 1<<20)+`{"prompt":"`)
	s.wait(func() bool { s.inside.mu.Lock(); defer s.inside.mu.Unlock(); return s.inside.all.bytes > 0 })
	s.post("/v1/completions", `{"max_tokens":3,"prompt":"`+strings.Repeat("x", 1000)+`"}`, 200)
	c.Close()
	s.wait(func() bool { s.inside.mu.Lock(); defer s.inside.mu.Unlock(); return s.inside.all == holding{} })
}

// What is made of a body and takes much more memory than it counts like the body, to the request's end: a query with
// each of its documents before tokens are made of them, and the vectors of single tokens before they are computed.
func TestWhatIsMadeOfBodiesCounts(t *testing.T) {
	const bound = 64 << 10
	s := newTester(t, func(o *Options) { o.Limits.BodiesBytes = bound })
	held := func() int64 { s.inside.mu.Lock(); defer s.inside.mu.Unlock(); return s.inside.all.bytes }
	pairs := func(documents int) string {
		return `{"query":"` + strings.Repeat("x", 1000) + `","documents":[` +
			strings.TrimSuffix(strings.Repeat(`"y",`, documents), ",") + `]}`
	}
	_, leave, err := s.preparing.enter(t.Context(), &s.anyone.preparing, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	done := make(chan string, 1)
	go func() { done <- s.post("/rerank", pairs(40), 400) }() // it waits for its turn
	s.wait(func() bool { _, waits := s.preparing.load(); return waits == 1 })
	if n := held(); n < 40*1001 {
		t.Fatalf("%d bytes are held", n)
	}
	if text := s.post("/rerank", pairs(30), 429); !strings.Contains(text, "bodies_full") {
		t.Error(text)
	}
	leave()
	<-done
	if text := s.post("/rerank", pairs(30), 400); !strings.Contains(text, "no classification head") {
		t.Error(text)
	}
	vectors := func(tokens int) string {
		return `{"pooling":"none","content":[5` + strings.Repeat(",5", tokens-1) + `]}`
	}
	const size = 256
	s.post("/embedding", vectors(bound/(4*size)/2), 200)
	if text := s.post("/embedding", vectors(bound/(4*size)), 429); !strings.Contains(text, "bodies_full") {
		t.Error(text)
	}
	s.wait(func() bool { return held() == 0 })
}
