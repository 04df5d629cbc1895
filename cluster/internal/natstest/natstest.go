// Package natstest starts a NATS server with JetStream inside of a test.
package natstest

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Start starts a server that ends with the test, whose messages have at most maxPayload bytes; 0: as usual.
func Start(t testing.TB, maxPayload int32) (url string) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(),
		NoLog: true, NoSigs: true, MaxPayload: maxPayload, NoSystemAccount: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	return s.ClientURL()
}

// Cluster starts n servers that are one cluster and end with the test.
func Cluster(t testing.TB, n int) (url string) {
	t.Helper()
	dir := t.TempDir() // made before what ends the servers, so removed after it
	var all []*server.Server
	t.Cleanup(func() {
		for _, s := range all {
			s.Shutdown()
			s.WaitForShutdown()
		}
	})
	for i := range n {
		o := &server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, ServerName: fmt.Sprint("s", i),
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint(i)),
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: -1}}
		o.Routes = server.RoutesFromStr("nats://127.0.0.1:1") // nobody: a server of a cluster must have one
		if i > 0 {
			o.Routes = server.RoutesFromStr("nats://" + all[0].ClusterAddr().String())
		}
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		all = append(all, s)
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("the NATS server does not start")
		}
	}
	whole := func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n }
	for !slices.ContainsFunc(all, whole) {
		time.Sleep(time.Millisecond)
	}
	return all[0].ClientURL()
}

// Connect connects to a server until the test ends.
func Connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
