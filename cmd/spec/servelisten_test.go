package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Metrics have an address of their own, without the key that answers need, with the build in them.
func TestServeMetricsListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // an address that is free
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	url, _ := started(t, "-t", "1", "--api-key", "k", "--metrics-listen", address)
	for at, want := range map[string]int{url: 401, "http://" + address: 200} {
		answer, err := http.Get(at + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != want || want == 200 && !strings.Contains(string(text), `kernels="`) {
			t.Errorf("%s: %d %.100s", at, answer.StatusCode, text)
		}
	}
}
