//go:build unix

package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/serve"
)

// certify writes a certificate of a serial number, and its key, into the files of a folder.
func certify(t *testing.T, dir string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		rewrite(t, filepath.Join(dir, name), string(pem.EncodeToMemory(block)))
	}
}

func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// At SIGHUP the keys, the certificate and the folder of models are read again: a stream under way is complete, and what
// cannot be read leaves everything as it was. The supervisor is told of each state, and every line of the log is JSON.
func TestServeReloads(t *testing.T) {
	dir := t.TempDir()
	supervisor, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	told := func(want string) {
		t.Helper()
		b := make([]byte, 200)
		n, err := supervisor.Read(b)
		if first, _, _ := strings.Cut(string(b[:n]), "\n"); err != nil || first != want {
			t.Errorf("told %q, %v; want %s", b[:n], err, want)
		}
	}
	keys := filepath.Join(dir, "keys")
	rewrite(t, keys, "old")
	certify(t, dir, 1)
	address, stop := startedIn(t, func(key string) string {
		return map[string]string{"NOTIFY_SOCKET": filepath.Join(dir, "notify")}[key]
	}, "-t", "1", "--api-key-file", keys, "--ssl-cert-file", filepath.Join(dir, "cert"), "--ssl-key-file",
		filepath.Join(dir, "key"), "--log-format", "json")
	address = strings.Replace(address, "http:", "https:", 1)
	told("READY=1")
	serial := new(big.Int)
	ask := func(key, path, body string) *http.Response {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true,
			VerifyConnection:   func(c tls.ConnectionState) error { serial = c.PeerCertificates[0].SerialNumber; return nil },
		}}}
		r, err := http.NewRequest(map[bool]string{true: "GET", false: "POST"}[body == ""], address+path,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	status := func(key string, want int) {
		t.Helper()
		answer := ask(key, "/v1/models", "")
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("key %s: %d", key, answer.StatusCode)
		}
	}
	hangup := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		told("RELOADING=1")
		told("READY=1")
	}
	stream := ask("old", "/v1/completions", `{"prompt":"func","max_tokens":600,"ignore_eos":true,"stream":true}`)
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	rewrite(t, keys, "new")
	certify(t, dir, 2)
	hangup()
	status("old", 401)
	if status("new", 200); serial.Int64() != 2 {
		t.Errorf("the certificate is number %v", serial)
	}
	for file, text := range map[string]string{keys: "", filepath.Join(dir, "cert"): "nothing"} {
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rewrite(t, file, text)
		hangup()
		if status("new", 200); serial.Int64() != 2 {
			t.Errorf("the certificate is number %v", serial)
		}
		rewrite(t, file, string(before))
	}
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the stream ends with %v, %q", err, rest[max(0, len(rest)-200):])
	}
	log, err := stop()
	if err != nil {
		t.Error(err)
	}
	told("STOPPING=1")
	var messages []string
	for line := range strings.Lines(log) {
		var r struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Errorf("no JSON: %s", line)
		}
		messages = append(messages, r.Level+" "+r.Msg)
	}
	for _, want := range []string{"INFO spec serve: listening on https:", "INFO spec serve: reloaded",
		"ERROR spec serve: not reloaded:", "INFO spec serve: shutting down"} {
		if !slices.ContainsFunc(messages, func(m string) bool { return strings.HasPrefix(m, want) }) {
			t.Errorf("the log does not say %q: %q", want, messages)
		}
	}
}

// A server that is to be quiet says what somebody should look at, in both forms of the log; mistakes of the command
// line have the form too.
func TestQuietServersSayWhatIsWrong(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		_, stop := started(t, "--log-level", "warn", "--log-format", format, "-c", "1000000", "-t", "1")
		log, err := stop()
		asJSON := strings.HasPrefix(log, `{"time":`) && strings.Contains(log, `"level":"WARN"`)
		if err != nil || strings.Count(log, "\n") != 1 || !strings.Contains(log, "-c 1000000: ") ||
			asJSON != (format == "json") {
			t.Errorf("%s: %v, %s", format, err, log)
		}
	}
	for _, line := range []string{"--no-such", "-m no-such.gguf --port 0", "--ssl-cert-file c"} {
		args := append([]string{"serve", "--log-format", "json", "--log-level", "error"}, strings.Fields(line)...)
		_, errs, code := spec(t, "", args...)
		var r struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(errs), &r); err != nil || code == exitDone || r.Level != "ERROR" ||
			!strings.HasPrefix(r.Msg, "spec serve: ") {
			t.Errorf("%s: exit %d, %v, %s", line, code, err, errs)
		}
	}
}

// The command line is read again with what it names: the level of the log changes at once; what a running server cannot
// change is refused by its flag, and nothing else changes then.
func TestServeReloadsTheCommandLine(t *testing.T) {
	s := options[*serving](t, "serve", "--api-key", "k")
	o, err := s.options(&program{stderr: io.Discard}, []serve.Entry{{
		Name: "m", Load: func(context.Context) (*library.Model, error) { return nil, nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	server, err := serve.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for line, says := range map[string]string{
		"--api-key k --log-level debug":                                    "",
		"--api-key k --models-dir d --log-level error":                     "--models-dir",
		"--api-key k --ssl-cert-file c --ssl-key-file k --log-level error": "--ssl-cert-file",
		"--log-level error":                                                "no keys",
		"--api-key k --log-level loud":                                     "--log-level",
	} {
		p := &program{stderr: io.Discard, env: noEnvironment, again: func() (job, error) {
			j, _, err := serveCommand.parse(strings.Fields(line), noEnvironment)
			return j, err
		}}
		err := s.reload(t.Context(), p, server, func(*serving) ([]serve.Entry, error) { return o.Models, nil })
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", line, err, says)
		}
		if level := s.level.Level(); err == nil && level != slog.LevelDebug || level == slog.LevelError {
			t.Errorf("%s: the level is %v", line, level)
		}
	}
}

// A hangup while models are loaded is heeded when they are there: what was read before may have changed since.
func TestServeReloadsBehindLoading(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	rewrite(t, keys, "old")
	s := options[*serving](t, "serve", "--port", "0", "-t", "1", "--api-key-file", keys)
	s.opened = func(net.Addr) {
		rewrite(t, keys, "new")
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Error(err)
		}
	}
	log, w := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.run(ctx, &program{stdout: io.Discard, stderr: w, env: noEnvironment})
		w.Close()
	}()
	said := ""
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if said += lines.Text() + "\n"; strings.HasSuffix(lines.Text(), "spec serve: reloaded") {
			stop()
		}
	}
	if err := <-ended; err != nil || !strings.Contains(said, "listening on") || !strings.Contains(said, ": reloaded") {
		t.Errorf("%v\n%s", err, said)
	}
	stop()
}
