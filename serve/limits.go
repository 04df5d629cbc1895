package serve

import (
	"fmt"
	"time"
)

// Limits bound what a client's socket may hold, and for how long. A field that is zero has its default. What a request
// may make the server compute is bounded by [Options] (places, queue, time) and by the limits of the packages that do
// it; docs/LIMITS.md lists them all.
type Limits struct {
	// Connections are open at once. When all places are taken, a new connection takes that of the oldest one that has
	// not shown a key, then that of the one that has waited longest for its client's next request; if all are busy, it
	// waits. 0 is 1,024.
	Connections int
	// Unkeyed connections of one address (IPv6: one /64 network) have not shown a valid key yet; without keys: have
	// made no request that was allowed. When one more comes, the oldest of them is closed. 0 is 256.
	Unkeyed int

	// for the handshake of TLS, for a header, and for each wait of an unkeyed connection; 0 is 10 s
	HeaderTime  time.Duration
	HeaderBytes int           // of a request's header; 0 is 64 KiB
	IdleTime    time.Duration // between two requests of a connection; 0 is 2 min
	BodyTime    time.Duration // for a body to arrive; 0 is 30 s
	BodyBytes   int64         // of one body; 0 is 16 MiB
	// of all bodies that are inside, with the texts that a reranker's queries and documents make, and the vectors that
	// clients have not read; 0 is 256 MiB. A client below its share of it may pass it
	BodiesBytes int64
	WriteTime   time.Duration // for a client to take 64 KiB of an answer; 0 is 30 s
}

// DefaultLimits are what the zero value of [Limits] stands for.
func DefaultLimits() Limits {
	return Limits{
		Connections: 1024, Unkeyed: 256, HeaderTime: 10 * time.Second, HeaderBytes: 64 << 10,
		IdleTime: 2 * time.Minute,
		BodyTime: 30 * time.Second, BodyBytes: 16 << 20, BodiesBytes: 256 << 20, WriteTime: 30 * time.Second,
	}
}

// Bounds that no option changes.
const (
	// lingerTime is how long a request that was refused before its body was read may go on sending it, so that its
	// client reads the answer and not the end of the connection.
	lingerTime = 500 * time.Millisecond
	// spareRequests is how many bodies may be read beside those of requests that are answered or wait.
	spareRequests = 64
	// maxRetry is the greatest Retry-After, in seconds.
	maxRetry = 300
	// writePiece is the most bytes that a client must take within Limits.WriteTime.
	writePiece = 64 << 10
)

// fill sets the defaults.
func (l *Limits) fill() error {
	d := DefaultLimits()
	for _, f := range []struct {
		name  string
		value int64
		unset func()
	}{
		{"Connections", int64(l.Connections), func() { l.Connections = d.Connections }},
		{"Unkeyed", int64(l.Unkeyed), func() { l.Unkeyed = d.Unkeyed }},
		{"HeaderTime", int64(l.HeaderTime), func() { l.HeaderTime = d.HeaderTime }},
		{"HeaderBytes", int64(l.HeaderBytes), func() { l.HeaderBytes = d.HeaderBytes }},
		{"IdleTime", int64(l.IdleTime), func() { l.IdleTime = d.IdleTime }},
		{"BodyTime", int64(l.BodyTime), func() { l.BodyTime = d.BodyTime }},
		{"BodyBytes", l.BodyBytes, func() { l.BodyBytes = d.BodyBytes }},
		{"BodiesBytes", l.BodiesBytes, func() { l.BodiesBytes = d.BodiesBytes }},
		{"WriteTime", int64(l.WriteTime), func() { l.WriteTime = d.WriteTime }},
	} {
		switch {
		case f.value < 0:
			return fmt.Errorf("%w: Limits.%s is negative", ErrOptions, f.name)
		case f.value == 0:
			f.unset()
		}
	}
	return nil
}
