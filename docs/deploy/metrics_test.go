package deploy

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// What the manifests have scraped passes Prometheus' own reader and the linter of promtool check metrics, after answers
// of both kinds, with all the names that there are. Only the colons in other servers' names are not its taste.
func TestMetricsPassPromtoolsLinter(t *testing.T) {
	program := filepath.Join(t.TempDir(), "spec")
	build := exec.Command("go", "build", "-o", program, "./cmd/spec")
	build.Dir = filepath.Join("..", "..")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	server := exec.Command(program, "serve", "--port", "0", "--metrics-listen", "127.0.0.1:0", "--metrics-names", "vllm",
		"--log-format", "off")
	said, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	metrics, answers := "", ""
	address := regexp.MustCompile(`http://\S+`)
	for lines := bufio.NewScanner(said); answers == "" && lines.Scan(); {
		switch line := lines.Text(); {
		case strings.Contains(line, "metrics on "):
			metrics = address.FindString(line)
		case strings.Contains(line, "listening on "):
			answers = address.FindString(line)
		}
	}
	if metrics == "" || answers == "" {
		t.Fatalf("the server says where neither: %q, %q", metrics, answers)
	}
	client := http.Client{Timeout: time.Minute}
	for _, body := range []string{`{"prompt":"func","max_tokens":8}`, `{"prompt":"func","max_tokens":8,"stream":true}`,
		`{}`} {
		got, err := client.Post(answers+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, got.Body)
		got.Body.Close()
	}
	got, err := client.Get(metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", got.Status, err)
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatalf("not Prometheus' format: %v\n%s", err, text)
	}
	for _, p := range problems {
		others := strings.HasPrefix(p.Metric, "vllm:") || strings.HasPrefix(p.Metric, "llamacpp:")
		if !others || !strings.Contains(p.Text, "should not contain ':'") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for _, name := range []string{"spec_build_info{", "spec_requests_total{", "vllm:num_requests_running{",
		"process_cpu_seconds_total "} {
		if !bytes.Contains(text, []byte("\n"+name)) {
			t.Errorf("no %s", name)
		}
	}
}
