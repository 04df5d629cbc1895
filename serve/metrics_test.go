package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// family is a metric of an exposition.
type family struct {
	help, kind string
	samples    map[string]float64 // by name with labels
	labels     map[string]bool    // names of labels
}

// sampleLine is a sample of the text format; a label's value has no quotes or ends of lines but escaped ones.
var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\\\|\\"|\\n)*)"(?:,|$)`)
)

// exposed parses a text of Prometheus' format, version 0.0.4, strictly: HELP, TYPE and the samples of each metric in
// this order, together, each sample once.
func exposed(text string) (all map[string]*family, err error) {
	all = map[string]*family{}
	name, f := "", (*family)(nil)
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line has no end")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			var help string
			if name, help, _ = strings.Cut(rest, " "); all[name] != nil {
				return nil, fmt.Errorf("%s comes twice", name)
			}
			f = &family{help: help, samples: map[string]float64{}, labels: map[string]bool{}}
			all[name] = f
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			of, kind, _ := strings.Cut(rest, " ")
			if of != name || f.kind != "" || len(f.samples) > 0 {
				return nil, fmt.Errorf("%q is not behind its HELP", line)
			}
			f.kind = kind
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("no sample: %q", line)
		}
		base := m[1]
		if f != nil && f.kind == "histogram" {
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, end)
			}
		}
		x, err := strconv.ParseFloat(m[3], 64)
		key := m[1] + "{" + m[2] + "}"
		if f == nil || f.kind == "" || base != name || err != nil || math.IsNaN(f.samples[key]) {
			return nil, fmt.Errorf("%q does not belong to %s", line, name)
		}
		if _, twice := f.samples[key]; twice {
			return nil, fmt.Errorf("%q comes twice", line)
		}
		f.samples[key] = x
		for rest := m[2]; rest != ""; {
			p := labelPair.FindStringSubmatch(rest)
			if p == nil {
				return nil, fmt.Errorf("labels of %q", line)
			}
			f.labels[p[1]] = true
			rest = rest[len(p[0]):]
		}
	}
	return all, nil
}

// linted is what promtool's linter ("promtool check metrics") says of a metric: its rules, by our own words. Names of
// other servers are theirs.
func linted(name string, f *family) (problems []string) {
	say := func(wrong bool, problem string) {
		if wrong {
			problems = append(problems, problem)
		}
	}
	say(f.help == "", "no help")
	say(!slices.Contains([]string{"counter", "gauge", "histogram"}, f.kind), "unknown type "+f.kind)
	say(f.kind == "counter" && !strings.HasSuffix(name, "_total"), "a counter without _total")
	say(f.kind != "counter" && strings.HasSuffix(name, "_total"), "_total of what is no counter")
	for _, end := range []string{"_count", "_sum", "_bucket"} {
		say(f.kind != "histogram" && strings.HasSuffix(name, end), end+" of what is no histogram")
	}
	say(f.kind != "histogram" && f.labels["le"], "the label le of what is no histogram")
	say(f.labels["quantile"], "the label quantile of what is no summary")
	say(strings.Contains(name, ":"), "a colon")
	say(regexp.MustCompile(`[a-z][A-Z]`).MatchString(name), "camel case")
	for label := range f.labels {
		say(regexp.MustCompile(`[a-z][A-Z]`).MatchString(label), "camel case of the label "+label)
	}
	for _, kind := range []string{"counter", "gauge", "histogram", "summary"} {
		say(strings.Contains(strings.ToLower("_"+name+"_"), "_"+kind+"_"), "the type in the name")
	}
	for _, word := range strings.Split(name, "_") {
		say(slices.Contains([]string{"s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "min", "h"}, word),
			"the abbreviated unit "+word)
		say(slices.Contains([]string{"milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days", "kilobytes",
			"megabytes",
			"gigabytes", "kibibytes", "mebibytes", "gibibytes", "bits", "percent", "celsius", "grams"}, word),
			"the unit "+word+", no base unit")
	}
	return problems
}

// histograms of a family are cumulative, end with +Inf, and agree with their count.
func checkHistogram(t *testing.T, name string, f *family) {
	t.Helper()
	most, counts := map[string]float64{}, map[string]float64{}
	for _, key := range sortedBuckets(name, f) {
		labels := key[len(name+"_bucket{") : len(key)-1]
		rest, _, _ := strings.Cut(labels, `le="`)
		if rest = strings.TrimSuffix(rest, ","); f.samples[key] < most[rest] {
			t.Errorf("%s is less than the bucket before", key)
		}
		most[rest] = f.samples[key]
		if strings.Contains(labels, `le="+Inf"`) {
			counts[rest] = f.samples[key]
		}
	}
	for labels, n := range counts {
		if got := f.samples[name+"_count{"+labels+"}"]; got != n {
			t.Errorf("%s_count{%s} is %v, the last bucket %v", name, labels, got, n)
		}
		if _, ok := f.samples[name+"_sum{"+labels+"}"]; !ok {
			t.Errorf("%s{%s} has no sum", name, labels)
		}
	}
	if len(counts) == 0 || len(counts) != len(most) {
		t.Errorf("%s: %d series end with +Inf, of %d", name, len(counts), len(most))
	}
}

// sortedBuckets are the buckets of a family by their bounds.
func sortedBuckets(name string, f *family) (keys []string) {
	bound := func(key string) float64 {
		_, rest, _ := strings.Cut(key, `le="`)
		text, _, _ := strings.Cut(rest, `"`)
		x, _ := strconv.ParseFloat(text, 64)
		return x
	}
	for key := range f.samples {
		if strings.HasPrefix(key, name+"_bucket{") {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		switch x, y := bound(a), bound(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return keys
}

// proc is a process' folder in /proc; its name has blanks and a parenthesis.
var proc = fstest.MapFS{
	"stat": {Data: []byte(
		"7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 9 0 77 4096000 25 18446744073709551615 1 1\n")},
	"limits": {Data: []byte("Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max open files            1024                 524288               files     \n")},
	"fd/0": {}, "fd/1": {}, "fd/2": {},
}

// metered is a server that has answered, with a model whose name needs quotes, and its metrics.
func metered(t *testing.T, names string) (*tester, map[string]*family) {
	t.Helper()
	s := newTester(t, func(o *Options) {
		o.Models = []Entry{entry(t, `go "1"`)}
		o.MetricsNames, o.Proc, o.Version, o.Build = names, proc, "1.2.3", []string{"commit", "abc", "kernels", "avx2"}
	})
	s.post("/v1/completions", `{"prompt":"func","max_tokens":8}`, 200)
	s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":4}`, 200)
	all, err := exposed(s.page("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	return s, all
}

// The text is of Prometheus' format, and the linter's rules find nothing but the colons of other servers' names.
func TestMetricsAreLinted(t *testing.T) {
	_, all := metered(t, NamesVLLM)
	for name, f := range all {
		for _, problem := range linted(name, f) {
			if problem != "a colon" || !strings.HasPrefix(name, "llamacpp:") && !strings.HasPrefix(name, "vllm:") {
				t.Errorf("%s: %s", name, problem)
			}
		}
		if f.kind == "histogram" {
			checkHistogram(t, name, f)
		}
	}
}

// The rules are those of promtool: each of these texts breaks one.
func TestMetricsLinter(t *testing.T) {
	for text, says := range map[string]string{
		"# HELP a_b x\n# TYPE a_b counter\na_b 1\n":                 "without _total",
		"# HELP a_total x\n# TYPE a_total gauge\na_total 1\n":       "_total of what",
		"# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n":                "abbreviated",
		"# HELP a_minutes x\n# TYPE a_minutes gauge\na_minutes 1\n": "base unit",
		"# HELP a_count x\n# TYPE a_count gauge\na_count 1\n":       "no histogram",
		"# HELP aB x\n# TYPE aB gauge\naB 1\n":                      "camel",
		"# HELP a:b x\n# TYPE a:b gauge\na:b 1\n":                   "colon",
		"# HELP a_gauge x\n# TYPE a_gauge gauge\na_gauge 1\n":       "type in the name",
		"# HELP a \n# TYPE a gauge\na 1\n":                          "no help",
		"# HELP a x\n# TYPE a gauge\na{le=\"1\"} 1\n":               "label le",
		"# HELP a x\n# TYPE a gauge\na 1\na 2\n":                    "twice",
		"# HELP a x\n# TYPE a gauge\nb 1\n":                         "does not belong",
		"# TYPE a gauge\na 1\n":                                     "not behind",
		"# HELP a x\n# TYPE a gauge\na{b=\"c\"d\"} 1\n":             "labels",
		"# HELP a x\n# TYPE a gauge\na 1":                           "no end",
	} {
		all, err := exposed(text)
		found := fmt.Sprint(err)
		for name, f := range all {
			found += strings.Join(linted(name, f), "; ")
		}
		if !strings.Contains(found, says) {
			t.Errorf("%q: %s, want %q", text, found, says)
		}
	}
}

// What was asked is counted by model, under our names and those of vLLM, which are there by an option alone; of the
// process and the program what the system tells.
func TestMetricsByModel(t *testing.T) {
	_, all := metered(t, NamesVLLM)
	const ours, theirs = `{model="go \"1\""}`, `{model_name="go \"1\""}`
	for key, want := range map[string]float64{
		"spec_model_generated_tokens_total" + ours: 12, "vllm:generation_tokens_total" + theirs: 12,
		"spec_queue_seconds_count" + ours: 2, "vllm:request_queue_time_seconds_count" + theirs: 2,
		"spec_request_seconds_count" + ours: 2, "spec_time_to_first_token_seconds_count" + ours: 2,
		"spec_model_requests_running" + ours: 0, "vllm:num_requests_running" + theirs: 0,
		"vllm:num_requests_waiting" + theirs: 0,
		"process_cpu_seconds_total{}":        2, "process_open_fds{}": 3, "process_max_fds{}": 1024,
		"process_virtual_memory_bytes{}": 4096000, "process_resident_memory_bytes{}": 25 * float64(os.Getpagesize()),
	} {
		name, _, _ := strings.Cut(key, "{")
		f := all[strings.TrimSuffix(name, "_count")]
		if f == nil || f.samples[key] != want {
			t.Errorf("%s: %+v, want %v", key, f, want)
			continue
		}
		if _, ok := f.samples[key]; !ok {
			t.Errorf("no %s", key)
		}
	}
	for key := range all["spec_build_info"].samples {
		for _, part := range []string{`version="1.2.3"`, `commit="abc"`, `kernels="avx2"`, `goversion="go1`} {
			if !strings.Contains(key, part) {
				t.Errorf("%s lacks %s", key, part)
			}
		}
	}
	for _, name := range []string{"vllm:kv_cache_usage_perc", "go_goroutines", "go_threads", "go_gc_cycles_total"} {
		if f := all[name]; f == nil || len(f.samples) != 1 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	_, plain := metered(t, "")
	for name := range plain {
		if strings.HasPrefix(name, "vllm:") {
			t.Errorf("%s without the option", name)
		}
	}
}

// Answers that wait and answers that are computed are told by model, and a model that is no longer offered is not told
// of any more.
func TestMetricsOfRunningAnswers(t *testing.T) {
	s, f := managed(t, func(o *Options) { o.Parallel, o.AllowManage = 1, true })
	release, h := s.hold()
	defer release()
	done := make(chan int, 2)
	for range 2 {
		go func() {
			status, _, _ := s.do("POST", "/v1/completions", `{"model":"go","prompt":"func","max_tokens":2}`)
			done <- status
		}()
	}
	<-h.entered
	s.wait(func() bool { _, waiting := s.queue.load(); return waiting == 1 })
	all, err := exposed(s.page("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"spec_model_requests_running", "spec_model_requests_waiting"} {
		if got := all[name].samples[name+`{model="go"}`]; got != 1 {
			t.Errorf("%s is %v", name, got)
		}
	}
	release()
	for range 2 {
		if status := <-done; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	s.post("/v1/completions", `{"model":"kept","prompt":"func","max_tokens":1}`, 200)
	text := s.page("/metrics")
	if !strings.Contains(text, `spec_model_requests_running{model="go"} 0`) ||
		!strings.Contains(text, `spec_request_seconds_count{model="kept"} 1`) {
		t.Error("answers that have ended run, or one is not counted")
	}
	f.has = nil
	if err := s.Refresh(); err != nil {
		t.Fatal(err)
	}
	s.wait(func() bool { return !strings.Contains(s.page("/metrics"), `"kept"`) })
}

// Of a request that ends while its first prompt is read, one answer has begun, no prompt has a time, and nothing runs
// any more; several answers run as far as there are places.
func TestMetricsOfAnswersThatAreLeft(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Parallel, o.RequestTime = 1, 500*time.Millisecond })
	release, h := s.hold()
	defer release()
	done := make(chan int, 1)
	go func() {
		status, _, _ := s.do("POST", "/v1/completions", `{"prompt":"func main() { for i := range","max_tokens":9,"n":3}`)
		done <- status
	}()
	<-h.entered
	count := func(name string) float64 {
		t.Helper()
		all, err := exposed(s.page("/metrics"))
		family, _, _ := strings.Cut(name, "{")
		if f := all[strings.TrimSuffix(family, "_count")]; err == nil && f != nil {
			return f.samples[name]
		}
		t.Fatalf("%s is not there, %v", name, err)
		return 0
	}
	if n := count(`spec_model_requests_running{model="go"}`); n != 1 {
		t.Errorf("%v answers run in one place", n)
	}
	time.Sleep(s.o.RequestTime + 10*time.Millisecond) // the request came before its pass
	release()
	if status := <-done; status != http.StatusGatewayTimeout {
		t.Errorf("status %d", status)
	}
	s.wait(func() bool { return s.inside.Load() == 0 })
	for name, want := range map[string]float64{
		`spec_answers_total{}`: 1, `spec_prompt_seconds_count{model="go"}`: 0, `llamacpp:prompt_tokens_total{}`: 0,
		`spec_model_requests_running{model="go"}`: 0, `spec_model_requests_waiting{model="go"}`: 0,
		`llamacpp:requests_processing{}`: 0,
	} {
		if n := count(name); n != want {
			t.Errorf("%s is %v, want %v", name, n, want)
		}
	}
	s.post("/v1/embeddings", `{"input":"func main"}`, 200)
	if n, all := count(`spec_model_prompt_tokens_total{model="go"}`), count(`llamacpp:prompt_tokens_total{}`); n < 1 ||
		n != all {
		t.Errorf("%v tokens of texts that were embedded are the model's, of %v", n, all)
	}
}

// The listener for metrics answers those and health checks without a key, nothing else, and not to other names.
func TestServeMetrics(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Keys = []Key{{Secret: "k"}} })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.ServeMetrics(l)
	for path, want := range map[string]int{
		"/metrics": 200, "/livez": 200, "/readyz": 200, "/health": 200, "/v1/models": 404, "/slots": 404, "/": 404,
	} {
		answer, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != want || path == "/metrics" && !strings.Contains(string(text), "spec_build_info") {
			t.Errorf("%s: %d %.100s", path, answer.StatusCode, text)
		}
	}
	r, _ := http.NewRequest("GET", "http://"+l.Addr().String()+"/metrics", nil)
	r.Host = "evil.org"
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body.Close(); answer.StatusCode != 403 {
		t.Errorf("another host's name: %d", answer.StatusCode)
	}
}

// Every metric and label that the dashboard asks for is one that the server has, and each of its panels shows one.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("../docs/deploy/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title, UID    string
		SchemaVersion int
		Panels        []struct {
			ID          int
			Title, Type string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	_, all := metered(t, "")
	metric := regexp.MustCompile(`\b((?:spec|llamacpp|process|go)[_:][a-zA-Z0-9_:]+)(?:\{([^}]*)\})?`)
	grouped := regexp.MustCompile(`by \(([^)]*)\)`)
	shown, ids, panels := map[string]bool{}, map[int]bool{}, 0
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 {
			t.Errorf("panel %d, %q: %+v", p.ID, p.Title, p.GridPos)
		}
		if ids[p.ID] = true; p.Type == "row" {
			continue
		}
		panels++
		found := 0
		for _, target := range p.Targets {
			for _, m := range metric.FindAllStringSubmatch(target.Expr, -1) {
				name := m[1]
				for _, end := range []string{"_bucket", "_sum", "_count"} {
					if f := all[strings.TrimSuffix(name, end)]; f != nil && f.kind == "histogram" {
						name = strings.TrimSuffix(name, end)
					}
				}
				f := all[name]
				if f == nil {
					t.Errorf("%s: there is no metric %s", p.Title, m[1])
					continue
				}
				shown[name] = true
				found++
				labels := m[2]
				for _, by := range grouped.FindAllStringSubmatch(target.Expr, -1) {
					labels += "," + by[1]
				}
				for _, l := range regexp.MustCompile(`[a-z_]+\s*(?:=|,|$)`).FindAllString(
					regexp.MustCompile(`"[^"]*"`).ReplaceAllString(labels, ""), -1) {
					l = strings.Trim(l, "=~, ")
					if !f.labels[l] && !slices.Contains([]string{"instance", "job", "le"}, l) {
						t.Errorf("%s: %s has no label %s", p.Title, name, l)
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("%s shows no metric", p.Title)
		}
	}
	for _, name := range []string{"llamacpp:requests_deferred", "spec_queue_seconds", "spec_time_to_first_token_seconds",
		"spec_model_accepted_tokens_total", kvUsage, "process_resident_memory_bytes"} {
		if !shown[name] {
			t.Errorf("nothing shows %s", name)
		}
	}
	if panels < 10 || board.Title == "" || board.SchemaVersion < 36 {
		t.Errorf("%d panels of %q, schema %d", panels, board.Title, board.SchemaVersion)
	}
}

// Requests are counted by the path of the endpoint's pattern, which is bounded whatever clients ask for, also those
// that are refused before an endpoint sees them and those without HTTP.
func TestLabelsOfPaths(t *testing.T) {
	s, _ := managed(t, func(o *Options) { o.Keys, o.Page = []Key{{Secret: "k", Admin: true}}, true })
	asked := map[string]int{}
	for _, x := range []struct {
		method, path, label string
		status              int
		header              []string
	}{
		{"POST", "/v1/rerank", "/v1/rerank", 400, nil}, {"POST", "/rerank", "/rerank", 400, nil},
		{"GET", "/slots", "/slots", 200, nil}, {"POST", "/slots/0?action=x", "/slots/{id}", 501, nil},
		{"POST", "/slots/1?action=x", "/slots/{id}", 501, nil}, {"GET", "/lora-adapters", "/lora-adapters", 200, nil},
		{"POST", "/lora-adapters", "/lora-adapters", 400, nil}, {"POST", "/models/load", "/models/load", 400, nil},
		{"POST", "/api/pull", "/api/pull", 400, nil}, {"GET", "/v1/models/a", "/v1/models/{name...}", 404, nil},
		{"GET", "/v1/models/b/c", "/v1/models/{name...}", 404, nil}, {"GET", "/", "/", 200, nil},
		{"GET", "/app.js", "/app.js", 200, nil}, {"HEAD", "/health", "/health", 200, nil},
		{"GET", "/v1/responses/x", "/v1/responses/{id}", 501, nil}, {"GET", "/infill", "/infill", 405, nil},
		{"GET", "/a", "other", 404, nil}, {"POST", "/b/c", "other", 404, nil}, {"PUT", "/rerank", "/rerank", 405, nil},
		{"POST", "/rerank", "/rerank", 403, []string{"Host", "evil.org"}},
		{"POST", "/d", "other", 403, []string{"Host", "evil.org"}},
		{"POST", "/slots/7", "/slots/{id}", 401, []string{"Authorization", "Bearer x"}},
		{"POST", "/embed", "/embed", 403, []string{"Origin", "http://evil.org", "Sec-Fetch-Site", "cross-site"}},
	} {
		header := append([]string{"Authorization", "Bearer k"}, x.header...)
		if status, text, _ := s.do(x.method, x.path, "", header...); status != x.status {
			t.Errorf("%s %s: %d %.200s", x.method, x.path, status, text)
		}
		asked[fmt.Sprintf(`spec_requests_total{path=%q,status="%d"}`, x.label, x.status)]++
	}
	for path, label := range map[string]string{"/v1/completions": "/v1/completions", "/e": "other"} {
		status, _ := s.Do(t.Context(), path, nil)
		asked[fmt.Sprintf(`spec_requests_total{path=%q,status="%d"}`, label, status)]++
	}
	_, text, _ := s.do("GET", "/metrics", "", "Authorization", "Bearer k")
	for line := range strings.Lines(text) {
		if name, n, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, "spec_requests_total{") {
			if fmt.Sprint(asked[name]) != n {
				t.Errorf("%s is %s, want %d", name, n, asked[name])
			}
			delete(asked, name)
		}
	}
	if len(asked) > 0 {
		t.Errorf("not there: %v", asked)
	}
}
