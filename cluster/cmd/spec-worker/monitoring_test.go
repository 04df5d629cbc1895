package main

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// What -metrics-listen answers, it answers under whatever name Prometheus or a probe knows the worker by: the metrics
// of spec serve, those of the process too.
func TestMetricsAnswerToEveryName(t *testing.T) {
	var c command
	none := func(string) string { return "" }
	if err := c.parse(pair(), none, io.Discard); err != nil {
		t.Fatal(err)
	}
	server, _, free, err := c.open(t.Context(), none, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	for _, path := range []string{"/metrics", "/livez", "/readyz"} {
		to := httptest.NewRecorder()
		server.ServeHTTP(to, httptest.NewRequest("GET", "http://worker:9090"+path, nil))
		if to.Code != 200 {
			t.Errorf("%s: %d %s", path, to.Code, to.Body)
		}
		if _, err := os.Stat("/proc/self/stat"); err == nil && path == "/metrics" &&
			!strings.Contains(to.Body.String(), "\nprocess_resident_memory_bytes ") {
			t.Error("nothing of the process")
		}
	}
}

// More requests at once than spec answers are refused before memory is taken for them.
func TestRequestsAtOnceAreBounded(t *testing.T) {
	for _, np := range []string{"0", "1025", "2000000000"} {
		err := new(command).parse([]string{"-m", "model.gguf", "-np", np}, func(string) string { return "" }, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "-np") {
			t.Errorf("-np %s: %v", np, err)
		}
	}
}
