package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/specgo/spec/internal/modeldir"
	"github.com/specgo/spec/serve"
	"github.com/specgo/spec/testdata"
)

// Each flag changes its own option and nothing else.
func TestServeOptions(t *testing.T) {
	for line, change := range map[string]func(s *serving){
		"-m a.gguf": func(s *serving) { s.models = []servedFile{{target: "a.gguf"}} },
		"-m a -md b -m c --model-draft d": func(s *serving) {
			s.models = []servedFile{{target: "a", draft: "b"},
				{target: "c", draft: "d"}}
		},
		"-md b -m a -m c": func(s *serving) { s.models = []servedFile{{target: "a", draft: "b"}, {target: "c"}} },
		"-m a -a x,y --tags t,u": func(s *serving) {
			s.models, s.aliases, s.tags = []servedFile{{target: "a"}}, [][]string{{"x", "y"}}, [][]string{{"t", "u"}}
		},
		"--no-slots --verbose --no-jinja":    func(s *serving) { s.noSlots, s.verbose, s.noTemplates = true, true, true },
		"--reasoning off":                    func(s *serving) { s.reasoning = "off" },
		`--chat-template-kwargs {"a":[1]}`:   func(s *serving) { s.variables = map[string]any{"a": []any{1.0}} },
		"--sse-ping-interval -1":             func(s *serving) { s.ping = -1 },
		"--reasoning-budget 0":               func(s *serving) { s.reasoning = "off" },
		"--reasoning-budget -1 --rerank":     func(s *serving) {},
		"--reasoning-format deepseek --ui":   func(s *serving) {},
		"--cors-origins localhost,a":         func(s *serving) { s.origins = []string{"localhost", "a"} },
		"--models-dir d --models-memory 2G":  func(s *serving) { s.dir, s.memory = "d", 2<<30 },
		"-c 512":                             func(s *serving) { s.context = 512 },
		"-np 7 --queue 0":                    func(s *serving) { s.parallel, s.queue = 7, 0 },
		"-np 7 -np -1":                       func(s *serving) {},
		"--encoder-tokens 9":                 func(s *serving) { s.encoderTokens = 9 },
		"--grammar-memory 64M":               func(s *serving) { s.grammars.Memory = 64 << 20 },
		"--kv-memory 64M --prompt-delay 0.5": func(s *serving) { s.kvBytes, s.promptDelay = 64<<20, 0.5 },
		"--cache-ram 64":                     func(s *serving) { s.kept = 64 << 20 },
		"-cram 2G":                           func(s *serving) { s.kept = 2 << 30 },
		"--host 0.0.0.0 --api-key a,b": func(s *serving) {
			s.host, s.keys = "0.0.0.0", []serve.Key{{Secret: "a"}, {Secret: "b"}}
		},
		"--host [::1] --port 9":              func(s *serving) { s.host, s.port = "::1", 9 },
		"--host ::1 --port 9":                func(s *serving) { s.host, s.port = "::1", 9 },
		"--ssl-cert-file c --ssl-key-file k": func(s *serving) { s.cert, s.key = "c", "k" },
		"--cors https://a.org --allowed-host b": func(s *serving) {
			s.origins, s.hosts = []string{"https://a.org"}, []string{"b"}
		},
		"--no-webui":                      func(s *serving) { s.page = false },
		"-n 9 --max-body 1K":              func(s *serving) { s.predict, s.limits.BodyBytes = 9, 1024 },
		"-to 3 --request-timeout 4":       func(s *serving) { s.timeout, s.requestTimeout = 3, 4 },
		"--when-full drop":                func(s *serving) { s.whenFull = "drop" },
		"--ignore-eos --embd-normalize 1": func(s *serving) { s.ignoreEOS, s.norm = true, 1 },
		"-l 5+1 -l 7-inf -j {}": func(s *serving) {
			s.form.schema, s.sampling.LogitBias, s.sampling.Banned = "{}", map[int32]float32{5: 1}, []int32{7}
		},
		"--json-any-order":                    func(s *serving) { s.anyOrder = true },
		"--allow-manage":                      func(s *serving) { s.allowManage = true },
		"--cache-dir d --cache-size 1G":       func(s *serving) { s.prompts.dir, s.prompts.size = "d", 1<<30 },
		"--share-prefixes":                    func(s *serving) { s.sharePrefixes = true },
		"--max-connections 7 --max-unkeyed 3": func(s *serving) { s.limits.Connections, s.limits.Unkeyed = 7, 3 },
		"--trusted-proxy 10.1.2.3/8,fd00::/8": func(s *serving) {
			s.proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
		},
		"--shutdown-timeout 0":                     func(s *serving) { s.shutdown = 0 },
		"--temp 0 --top-k 3":                       func(s *serving) { s.sampling.Temperature, s.sampling.TopK = 0, 3 },
		"--drafter suffix --draft-max 9":           func(s *serving) { s.choice.Drafter, s.choice.Max = "suffix", 9 },
		"--log-format json --log-prompts":          func(s *serving) { s.logFormat, s.logPrompts = "json", true },
		"--metrics-listen :9 --metrics-names vllm": func(s *serving) { s.metrics, s.metricsNames = ":9", "vllm" },
		"--log-level debug":                        func(s *serving) { s.level.Set(slog.LevelDebug) },
		"--metrics --jinja -ngl 99 --slots -cb":    func(s *serving) {},
		"--no-context-shift -kvu --swa-full":       func(s *serving) {},
		"--pooling last --chat-template chatml":    func(s *serving) { s.pooling, s.template = "last", "chatml" },
	} {
		got, want := options[*serving](t, append([]string{"serve"}, strings.Fields(line)...)...), newServing()
		change(want)
		if err := want.settle(); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
	for line, says := range map[string]string{
		"-j {} --grammar-file g": "exclude each other", "-l 5+2e6": "not between", "--embd-normalize 3": "between",
		"--host 0.0.0.0": "--api-key", "--host example.org": "--api-key", "-md b": "-m FILE -md FILE",
		"-m a -md b -md c": "second draft", "-m a -md b -hfd c/d": "second draft",
		"-md b -md c -m a": "second draft", "-md b -m a -md c": "second draft",
		"-m a -a x -a y":    "more names than models",
		"--ssl-cert-file c": "--ssl-key-file", "--draft-max 256": "at most 255", "--models-memory x": "bytes",
		"--max-body 99999999999T": "bytes", "-np 0": "between", "--trusted-proxy 10.0.0.1": "network",
		"--api-key ,": "empty key", "--cors": "needs a value", "--parralel 3": "--parallel",
		"--metrics-listen 9090": ":9090", "--cache-size 1G": "goes with --cache-dir",
		"--slot-save-size 1G": "goes with --slot-save-path", "--lora-init-without-apply": "goes with --lora",
	} {
		var usage usageError
		_, _, err := serveCommand.parse(strings.Fields(line), noEnvironment)
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", line, err, says)
		}
	}
}

// started runs spec serve until the function is called, which tells its error.
func started(t *testing.T, args ...string) (url string, stop func() (string, error)) {
	t.Helper()
	return startedIn(t, func(string) string { return "" }, args...)
}

// startedIn is started with an environment.
func startedIn(t *testing.T, env func(string) string, args ...string) (url string, stop func() (string, error)) {
	t.Helper()
	j, _, err := serveCommand.parse(append([]string{"--port", "0"}, args...), noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	s := j.(*serving)
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	s.listening = func(a net.Addr) { ready <- a }
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var log bytes.Buffer
	p := &program{
		stdin: strings.NewReader(""), stdout: io.Discard, stderr: &guarded{&mu, &log},
		env: env,
	}
	go func() { done <- s.run(ctx, p) }()
	text := func() string { mu.Lock(); defer mu.Unlock(); return log.String() }
	select {
	case a := <-ready:
		url = "http://" + a.String()
	case err := <-done:
		cancel()
		t.Fatalf("%v\n%s", err, text())
	}
	once := sync.OnceValues(func() (string, error) { cancel(); err := <-done; return text(), err })
	t.Cleanup(func() { once() })
	return url, once
}

type guarded struct {
	mu *sync.Mutex
	w  io.Writer
}

func (g *guarded) Write(p []byte) (int, error) { g.mu.Lock(); defer g.mu.Unlock(); return g.w.Write(p) }

func ask(t *testing.T, url, body string) (int, string) {
	t.Helper()
	return askAs(t, "", "POST", url, body)
}

// askAs asks with a key; "": without one.
func askAs(t *testing.T, key, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// The command serves the embedded pair, with its own defaults, and ends without an error when it is told to.
func TestServe(t *testing.T) {
	url, stop := started(t, "--temp", "0", "--log-format", "text", "-t", "1")
	status, text := ask(t, url+"/v1/completions", `{"prompt":"func (r *Ring) Push(","max_tokens":24}`)
	if status != 200 || !strings.Contains(
		text, `"text":"c *uint64, n *uint64) {\n\tif n.nn != 0 {\n\t\treturn"`,
	) || !strings.Contains(text, `"model":"embedded"`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text = ask(
		t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`,
	); status != 400 || !strings.Contains(text, "chat template") {
		t.Errorf("a model without a template: %d %s", status, text)
	}
	log, err := stop()
	if err != nil || !strings.Contains(
		log, "path=/v1/completions status=200",
	) || !strings.Contains(log, "shutting down") {
		t.Errorf("%v\n%s", err, log)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")); err == nil {
		t.Error("it still listens")
	}
}

// While streams finish /readyz answers 503; those that take longer than allowed are told why they end.
func TestServeStops(t *testing.T) {
	const long = `{"prompt":"func","max_tokens":900,"n":128,"stream":true,"ignore_eos":true}`
	begin := func(url string) *bufio.Reader {
		answer, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(long))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		r := bufio.NewReader(answer.Body)
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: {") {
			t.Fatalf("%q %v", line, err)
		}
		return r
	}
	url, stop := started(t, "--shutdown-timeout", "0", "--log-format", "off", "-t", "1")
	r := begin(url)
	ended := make(chan error, 1)
	go func() { _, err := stop(); ended <- err }()
	text, err := io.ReadAll(r)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if last := lines[len(lines)-1]; err != nil || !strings.Contains(last, `"error"`) ||
		!strings.Contains(last, "shutting down") {
		t.Errorf("the last event is %q: %v", last, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}

	url, stop = started(t, "--shutdown-timeout", "600", "--log-format", "off", "-t", "1")
	left, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(long))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, err := stop(); ended <- err }()
	status := 200
	for status == 200 {
		answer, err := http.Get(url + "/readyz")
		if err != nil {
			t.Fatalf("while a stream runs: %v", err)
		}
		status = answer.StatusCode
		answer.Body.Close()
	}
	if status != 503 {
		t.Errorf("readyz %d", status)
	}
	left.Body.Close() // nothing is left to wait for
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Models of a folder are there when asked for, with their drafts; the memory holds one of the two, and the other is
// unloaded.
func TestServeFolder(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string]io.Reader{
		"big.gguf": testdata.Target(), "big.draft.gguf": testdata.Draft(), "small.gguf": testdata.Draft(),
		"notes.txt": strings.NewReader("x"),
	} {
		data, err := io.ReadAll(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	url, stop := started(t, "--models-dir", dir, "--models-memory", "9M", "--log-format", "off", "-t", "1")
	for _, c := range []struct{ body, want string }{
		{
			`{"model":"small","prompt":"func","max_tokens":3}`, `"model":"small"`,
		}, {`{"model":"big","prompt":"func","max_tokens":3,"speculation":{"drafter":"model"}}`, `"model":"big"`},
		{
			`{"model":"small","prompt":"func","max_tokens":3,"speculation":{"drafter":"model"}}`,
			`needs a draft model`,
		}, {`{"model":"none","prompt":"func"}`, `model_not_found`},
	} {
		if _, text := ask(t, url+"/v1/completions", c.body); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.body, text)
		}
		answer, err := http.Get(url + "/api/ps")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if n := strings.Count(string(text), `"name":`); n != 1 {
			t.Errorf("after %s %d models are in memory: %s", c.body, n, text)
		}
	}
	if log, err := stop(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	empty := newServing()
	empty.dir = t.TempDir()
	empty.folder = modeldir.New(empty.dir)
	if _, err := empty.entries(nil, nil); err == nil {
		t.Error("a folder without models")
	}
	empty.allowManage = true
	if _, err := empty.entries(nil, nil); err != nil {
		t.Errorf("a folder without models yet: %v", err)
	}
	os.Remove(filepath.Join(dir, "big.gguf"))
	if _, err := modeldir.New(dir).List(); err == nil || !strings.Contains(err.Error(), "big.gguf") {
		t.Errorf("a draft without its model: %v", err)
	}
}

// withoutModel is spec serve at a port, of the file x.gguf, which is no model.
func withoutModel(t *testing.T, port string) (*serving, *program) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(file, []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	j, _, err := serveCommand.parse([]string{"--port", port, "-m", file, "--log-format", "off"}, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	return j.(*serving), &program{stdout: io.Discard, stderr: io.Discard, env: func(string) string { return "" }}
}

// A model that cannot be loaded is told at once, as by other commands.
func TestServeBadModel(t *testing.T) {
	j, p := withoutModel(t, "0")
	var served *serve.Error
	if err := j.run(t.Context(), p); err == nil || errors.As(err, &served) ||
		!strings.Contains(err.Error(), "x.gguf") {
		t.Errorf("%v", err)
	}
}

// An address in use is told before a model is looked at, let alone loaded or downloaded, with the flag to change.
func TestServeBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	j, p := withoutModel(t, port)
	want := "--host 127.0.0.1 --port " + port + ": another program listens there; --port chooses another port"
	if err := j.run(t.Context(), p); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	j.models[0].target = "hf://go/none" // there is no network to ask for it
	if err := j.resolve(t.Context(), p); err == nil || err.Error() != want {
		t.Errorf("before a download: %v", err)
	}
	j, p = withoutModel(t, "0")
	j.metrics = l.Addr().String()
	want = "--metrics-listen " + j.metrics + ": another program listens there; --metrics-listen chooses another port"
	if err := j.run(t.Context(), p); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if err := j.resolve(t.Context(), p); err == nil || err.Error() != want {
		t.Errorf("of metrics, before a download: %v", err)
	}
}

// A server that is told to stop while its models are loaded ends without an error.
func TestServeStopsWhileLoading(t *testing.T) {
	j, _, err := serveCommand.parse([]string{"--port", "0", "-t", "1"}, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	s := j.(*serving)
	ctx, stop := context.WithCancel(t.Context())
	s.opened = func(net.Addr) { stop() }
	s.listening = func(net.Addr) { t.Error("it is ready") }
	var log bytes.Buffer
	p := &program{stdout: io.Discard, stderr: &log, env: func(string) string { return "" }}
	if err := s.run(ctx, p); err != nil || !strings.Contains(log.String(), "shutting down") {
		t.Errorf("%v, %s", err, log.String())
	}
}

// It listens before it loads.
func TestServeListensBeforeLoading(t *testing.T) {
	j, p := withoutModel(t, "0")
	status := 0
	j.opened = func(a net.Addr) {
		if answer, err := http.Get("http://" + a.String() + "/livez"); err == nil {
			status = answer.StatusCode
			answer.Body.Close()
		}
	}
	if err := j.run(t.Context(), p); err == nil || status != 200 {
		t.Errorf("livez %d, %v", status, err)
	}
}

// Lines of a file of keys, with and without weights, and what is none.
func TestKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	read := func(text string) ([]serve.Key, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return readKeys(file)
	}
	keys, err := read("\ufeff# keys\n one \n\ntwo weight=3\r\nthree\tweight=1000\nfour admin\nfive admin weight=2\n" +
		"six weight=2 admin")
	if want := []serve.Key{
		{Secret: "one"}, {Secret: "two", Weight: 3}, {Secret: "three", Weight: 1000}, {Secret: "four", Admin: true},
		{Secret: "five", Admin: true, Weight: 2}, {Secret: "six", Admin: true, Weight: 2},
	}; err != nil || !reflect.DeepEqual(keys, want) {
		t.Errorf("%v, %v", keys, err)
	}
	for _, text := range []string{
		"", "#a\n", "a\nb weight=0", "a\nb weight=1001", "a\nb weight=", "a\nb 3", "a\nb weight=2 c",
		"a\nb weight=1.5", "a\nb Admin", "a\nb admin admin", "a\nb weight=2 weight=3", "a\nb admin weight=0",
	} {
		if _, err := read(text); err == nil || text != "" && text[0] == 'a' && !strings.Contains(
			err.Error(), "keys:2: ",
		) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Every flag that docs/LIMITS.md names is the server's, and its help tells a default.
func TestFlagsOfLimits(t *testing.T) {
	data, err := os.ReadFile("../../docs/LIMITS.md")
	if err != nil {
		t.Fatal(err)
	}
	known, n := flagsOf(newServing().flags()), 0
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || !strings.HasPrefix(cells[3], " `--") {
			continue
		}
		n++
		name := strings.Trim(cells[3], " `")
		i := slices.IndexFunc(known, func(f flag) bool { return slices.Contains(f.names, name) })
		if i < 0 || name != "--api-key-file" && known[i].standard == "" {
			t.Errorf("%s: no such flag, or without a default", name)
		}
	}
	if n < 10 {
		t.Errorf("%d flags", n)
	}
}

// Blanks around a key are none of it: a request cannot show them.
func TestKeysOfTheFlagHaveNoBlanksAround(t *testing.T) {
	j, _, err := serveCommand.parse([]string{"--api-key", "a, b\n"}, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	if got := j.(*serving).keys; !slices.Equal(got, []serve.Key{{Secret: "a"}, {Secret: "b"}}) {
		t.Errorf("%+v", got)
	}
}

// No message about what is wrong with a key shows it, wherever the key stands: messages go to logs.
func TestMessagesShowNoKey(t *testing.T) {
	for _, c := range []struct {
		args []string
		vars string
	}{
		{[]string{"--api-key", "hidden,"}, ""},
		{[]string{"--api-key=hidden,,b"}, ""},
		{nil, "LLAMA_API_KEY=hidden,"},
		{nil, "SPEC_CONFIG=" + configFile(t, "api-key = hidden,")},
		{nil, "SPEC_CONFIG=" + configFile(t, "api-key: hidden")},
	} {
		_, _, err := serveCommand.parse(c.args, environment(c.vars))
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q, %s: %v", c.args, c.vars, err)
		}
	}
}
