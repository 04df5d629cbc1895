// Package connect is the flags by which the cluster's commands find their queue.
package connect

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/specgo/spec/cluster"
)

// Flags are where the queue is, and how it is made where it is not there.
type Flags struct {
	url, creds string
	standard   string // of url: the help does not show it, for it may hold a password
	queue      cluster.QueueOptions
}

// Define defines the flags of all commands.
func (c *Flags) Define(f *flag.FlagSet, env func(string) string) {
	c.standard = cmp.Or(env("NATS_URL"), nats.DefaultURL)
	f.StringVar(&c.url, "nats", "", "`URL` of NATS servers, separated by commas; else NATS_URL, or "+nats.DefaultURL)
	f.StringVar(&c.creds, "creds", env("NATS_CREDS"), "`FILE` of credentials; environment: NATS_CREDS")
	f.StringVar(&c.queue.Name, "queue", "spec", "`NAME` of the queue")
	f.IntVar(&c.queue.Replicas, "replicas", 1, "servers that hold each stream, where this makes the queue")
	f.DurationVar(&c.queue.Keep, "keep", 7*24*time.Hour, "how long answers are kept, likewise")
}

// DefineLanes defines the flags by which a worker makes a lane that it is the first to see.
func (c *Flags) DefineLanes(f *flag.FlagSet) {
	f.DurationVar(&c.queue.Lease, "lease", 30*time.Second,
		"how long a worker that is not heard of keeps a request, where this makes a lane")
	f.IntVar(&c.queue.InFlight, "in-flight", 1000,
		"most requests of one tenant and priority that workers may have at once, likewise")
}

// openTime bounds how long the servers may take to be found.
const openTime = 30 * time.Second

// Open connects to the servers and finds or makes the queue. Connections that break are made again.
func (c *Flags) Open(ctx context.Context, log *slog.Logger) (*nats.Conn, *cluster.Queue, error) {
	o := []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(time.Second), nats.IgnoreAuthErrorAbort(), // credentials may come late
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { log.Warn("disconnected", "error", err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("connected again", "server", nc.ConnectedUrlRedacted()) }),
	}
	if c.creds != "" {
		o = append(o, nats.UserCredentials(c.creds))
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	servers := cmp.Or(c.url, c.standard)
	for {
		nc, err := nats.Connect(servers, o...)
		if err == nil {
			q, err := cluster.OpenQueue(ctx, nc, c.queue)
			if err != nil {
				nc.Close()
			}
			return nc, q, err
		}
		if e := (*url.Error)(nil); errors.As(err, &e) { // which quotes all of it
			return nil, nil, fmt.Errorf("-nats: %s is no URL of a server, as nats://queue:4222", redacted(servers))
		}
		select {
		case <-time.After(time.Second): // it may be starting
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("NATS at %s: %w", redacted(servers), err)
		}
	}
}

// redacted are URLs without what stands in front of their hosts: names, passwords and tokens.
func redacted(servers string) string {
	list := strings.Split(servers, ",")
	for i, s := range list {
		if at := strings.LastIndexByte(s, '@'); at >= 0 {
			scheme, _, ok := strings.Cut(s[:at], "://")
			if list[i] = s[at+1:]; ok {
				list[i] = scheme + "://" + list[i]
			}
		}
	}
	return strings.Join(list, ",")
}
