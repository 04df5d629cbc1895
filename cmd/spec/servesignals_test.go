//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// servingProcess runs spec serve as a process, whose standard error is read up to the address.
func servingProcess(
	t *testing.T, args ...string,
) (address string, log *os.File, signal func(os.Signal), wait func() int) {
	t.Helper()
	cmd, _, stderr := start(t, strings.NewReader(""), append([]string{"serve", "--port", "0", "-t", "1"}, args...)...)
	log, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	launch(t, cmd)
	w.Close()
	t.Cleanup(func() { cmd.Process.Kill(); log.Close() })
	listening := regexp.MustCompile(`listening on http://(\S+)`)
	for r := bufio.NewReader(log); address == ""; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if m := listening.FindStringSubmatch(line); m != nil {
			address = m[1]
		}
	}
	return address, log, func(s os.Signal) { cmd.Process.Signal(s) }, func() int { return finish(t, cmd, stderr) }
}

func lives(t *testing.T, address string) {
	t.Helper()
	answer, err := http.Get("http://" + address + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}

// The end of its terminal and of the reader of its log do not end a server; SIGTERM does, within its time, with
// clients that stall.
func TestServeSurvivesHangupAndBrokenLog(t *testing.T) {
	address, log, signal, wait := servingProcess(t, "--shutdown-timeout", "0")
	log.Close() // each line of the log is a write to a broken pipe from now on
	for range 3 {
		lives(t, address)
	}
	for range 3 {
		signal(syscall.SIGHUP)
		signal(syscall.SIGPIPE)
	}
	lives(t, address)
	for _, text := range []string{
		"", "POST /v1/comp", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{",
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, text)
	}
	lives(t, address) // they have been accepted before this one
	signal(syscall.SIGTERM)
	if code := wait(); code != exitDone {
		t.Errorf("exit %d", code)
	}
}

// The end of its terminal does not end a server while it downloads its models either.
func TestServeSurvivesHangupsWhileItDownloads(t *testing.T) {
	s := options[*serving](t, "serve", "--port", "0", "-hf", "go/pair-GGUF")
	dir, survives := t.TempDir(), false
	p := &program{stdout: io.Discard, stderr: io.Discard}
	p.env = func(key string) string {
		survives = survives || p.survives.Load()
		return map[string]string{"HF_HUB_CACHE": dir, "HF_ENDPOINT": "http://127.0.0.1:1"}[key]
	}
	if err := s.resolve(t.Context(), p); err == nil || !survives {
		t.Errorf("%v, it survives: %t", err, survives)
	}
	if p.survives.Load() {
		t.Error("other parts of the program survive too")
	}
}
