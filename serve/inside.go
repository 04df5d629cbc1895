package serve

import (
	"net/http"
	"sync"
)

// inside counts the requests that the server has let in and the bytes of their bodies, by client, with those of what
// takes much more than the body that it is made of. Both are bounded. At a bound a client that has less than its share
// is let in all the same: the shares of those that are inside add up to the bound, so that it is passed at most
// twofold.
type inside struct {
	most  int64 // requests
	bytes int64 // of bodies

	mu     sync.Mutex
	all    holding
	byWhom map[*client]*holding
}

// holding is what is inside of one client, or of all.
type holding struct{ requests, bytes int64 }

// Load is how many requests are inside.
func (in *inside) Load() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.all.requests
}

// enter lets a request in, whatever the bounds are unless bounded is true. Its visit must be ended.
func (in *inside) enter(who *client, bounded bool) (*visit, *Error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	own := in.byWhom[who]
	if own == nil {
		own = &holding{}
	}
	if bounded && in.all.requests >= in.most && float64(own.requests+1) > float64(in.most)*in.share(who) {
		return nil, errBusy()
	}
	in.byWhom[who] = own
	own.requests++
	in.all.requests++
	return &visit{in: in, who: who}, nil
}

// share is a client's part of the bounds: its weight among those that are inside and itself. The lock is held.
func (in *inside) share(who *client) float64 {
	sum := who.weight
	for c := range in.byWhom {
		if c != who {
			sum += c.weight
		}
	}
	return who.weight / sum
}

// visit is a request that is inside.
type visit struct {
	in    *inside
	who   *client
	bytes int64
	ended bool
}

// hold counts bytes more for the request: of its body, or of what is made of it.
func (v *visit) hold(n int64) *Error {
	in := v.in
	in.mu.Lock()
	defer in.mu.Unlock()
	own := in.byWhom[v.who]
	if in.all.bytes+n > in.bytes && float64(own.bytes+n) > float64(in.bytes)*in.share(v.who) {
		return &Error{
			Status: http.StatusTooManyRequests, Type: typeBusy, Code: "bodies_full",
			Message: "the bodies of requests, with what is made of them, take the memory that there is for them; " +
				"try again later",
		}
	}
	v.bytes += n
	own.bytes += n
	in.all.bytes += n
	return nil
}

// end gives back what the request holds. It may be called twice.
func (v *visit) end() {
	in := v.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if v.ended {
		return
	}
	v.ended = true
	own := in.byWhom[v.who]
	own.requests--
	own.bytes -= v.bytes
	in.all.requests--
	in.all.bytes -= v.bytes
	if own.requests == 0 {
		delete(in.byWhom, v.who)
	}
}
