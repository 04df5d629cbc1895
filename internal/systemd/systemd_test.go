//go:build linux

package systemd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// asService makes the test binary a program that answers on its sockets with their names, one request each.
const asService = "SPEC_TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) == "" {
		os.Exit(m.Run())
	}
	env := func(key string) string {
		if key == "LISTEN_PID" && os.Getenv(key) == "own" { // which a parent does not know before
			return strconv.Itoa(os.Getpid())
		}
		return os.Getenv(key)
	}
	list, err := Sockets(env)
	if err != nil {
		fmt.Println("error:", err)
	}
	for _, s := range list {
		c, err := s.Accept()
		if err != nil {
			panic(err)
		}
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil { // an answer before that confuses clients
			panic(err)
		}
		fmt.Fprintf(c, "HTTP/1.0 200 OK\r\n\r\n%s", s.Name)
		c.Close()
	}
}

// serviceWith starts that program with files that it inherits.
func serviceWith(t *testing.T, files []*os.File, env ...string) (output *bytes.Buffer, wait func() error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	output = new(bytes.Buffer)
	cmd.Env, cmd.ExtraFiles, cmd.Stdout = append(append(os.Environ(), asService+"=1"), env...), files, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return output, cmd.Wait
}

// A program answers on sockets that another process has opened, and knows their names; those that are meant for another
// process, and files that are no sockets, are not taken.
func TestSockets(t *testing.T) {
	var files []*os.File
	var at []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		at, files = append(at, l.Addr().String()), append(files, f)
		l.Close()
	}
	_, wait := serviceWith(t, files, "LISTEN_PID=own", "LISTEN_FDS=2", "LISTEN_FDNAMES=unknown:metrics")
	for i, want := range []string{"", "metrics"} {
		answer, err := http.Get("http://" + at[i])
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if string(got) != want {
			t.Errorf("socket %d is called %q, want %q", i, got, want)
		}
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	for env, says := range map[string]string{
		"LISTEN_PID=1 LISTEN_FDS=1": "", "LISTEN_PID=own LISTEN_FDS=1": "socket 0",
		"LISTEN_PID=own LISTEN_FDS=x":  "LISTEN_FDS",
		"LISTEN_PID=own LISTEN_FDS=65": "64",
	} {
		output, wait := serviceWith(t, []*os.File{plain}, strings.Fields(env)...)
		if err := wait(); err != nil || !strings.Contains(output.String(), says) || says == "" && output.Len() > 0 {
			t.Errorf("%s: %v, %q; want %q", env, err, output, says)
		}
	}
}

// What is told arrives as one datagram, also at an abstract name; without a socket nothing happens, and an address of
// another kind is refused.
func TestNotify(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "s"), fmt.Sprintf("@spec-test-%d", os.Getpid())} {
		address := name
		if rest, ok := strings.CutPrefix(name, "@"); ok {
			address = "\x00" + rest
		}
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		if err := Notify(name, "READY=1", "STATUS=serving"); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := c.Read(b)
		if got := string(b[:n]); err != nil || got != "READY=1\nSTATUS=serving" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		c.Close()
	}
	if err := Notify("", "READY=1"); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"vsock:1:2", "relative", "/nowhere/at/all"} {
		if err := Notify(bad, "READY=1"); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
