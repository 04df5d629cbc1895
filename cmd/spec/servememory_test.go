package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

const (
	servedTarget = "../../testdata/go-target.q8_0.gguf"
	servedDraft  = "../../testdata/go-draft.q8_0.gguf"
	servedHead   = "../../testdata/go-eagle.q8_0.gguf"
)

// loadServed loads the model of a command line as spec serve does.
func loadServed(t *testing.T, args ...string) (*servedModel, error) {
	t.Helper()
	j, _, err := serveCommand.parse(args, noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	s, cache := j.(*serving), t.TempDir()
	p := &program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, env: func(key string) string {
		if key == "SPEC_CACHE" {
			return cache
		}
		return ""
	}}
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	m, err := s.load(t.Context(), p, rt, append(s.models, servedFile{})[0]) // without -m the pair inside this program
	if err == nil {
		t.Cleanup(m.Close)
	}
	return m, err
}

// pageBytes are the keys and values of 256 tokens.
func pageBytes(t *testing.T, m *engine.Model, kv string) (n int64) {
	t.Helper()
	for _, c := range m.Describe().Caches {
		one, err := c.Bytes(kv)
		if err != nil {
			t.Fatal(err)
		}
		n += 256 * one
	}
	return n
}

// Under --memory a server counts the keys and values of all requests that it computes at once, of target and draft,
// and holds to that number.
func TestServeMemory(t *testing.T) {
	const enough, none = "--memory=256M", "--cache-ram=0"
	for _, c := range []struct {
		args  []string
		pages int64 // of each request
		kv    string
		np    int64
	}{
		{[]string{"-np", "3", "-c", "300"}, 2, "f16", 3}, {[]string{"-np", "1", "-c", "256"}, 1, "f16", 1},
		{[]string{"-ctk", "q8_0", "-ctv", "q8_0", "-c", "257"}, 2, "q8_0", 4},
		{nil, 4, "f16", 4}, // the model's context of 1,024 tokens
	} {
		m, err := loadServed(t, append([]string{"-m", servedTarget, "-md", servedDraft, enough, none}, c.args...)...)
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		if want, wantDraft := c.np*c.pages*pageBytes(t, m.Target, c.kv),
			c.np*c.pages*pageBytes(t, m.Draft, c.kv); m.Memory.KV != want || m.Memory.DraftKV != wantDraft {
			t.Errorf("%v: %d and %d bytes, want %d and %d", c.args, m.Memory.KV, m.Memory.DraftKV, want, wantDraft)
		}
	}
	if m, err := loadServed(t, "-m", servedTarget, "-md", servedDraft, "-c", "300"); err != nil ||
		m.Memory.KV != 0 || m.Memory.DraftKV != 0 {
		t.Errorf("without --memory: %+v, %v", m, err)
	}
	if m, err := loadServed(t, "-m", servedTarget, "-md", servedDraft, enough, "--kv-memory", "9M"); err != nil ||
		m.Memory.KV != 9<<20 || m.Memory.DraftKV != 9<<20 {
		t.Errorf("--kv-memory: %+v, %v", m, err)
	}
	if m, err := loadServed(t, "-m", servedTarget, "-md", servedHead, "--drafter", "eagle",
		"-np", "2", "-c", "256", enough, none); err != nil ||
		m.Memory.DraftKV != 2*pageBytes(t, m.Draft, "f16") || m.Memory.DraftKV == 0 {
		t.Errorf("a head: %+v, %v", m, err)
	}
	// A limit that suffices for everything to the byte, and one that does not.
	m, err := loadServed(t, "-m", servedTarget, "-md", servedDraft, enough, none, "-c", "256")
	if err != nil {
		t.Fatal(err)
	}
	s := newServing()
	s.context, s.kept = 256, -1
	sessions := s.sessions(1)
	all := m.Target.Bytes() + m.Draft.Bytes() + m.Memory.KV + m.Memory.DraftKV +
		sessions.Logits(m.Target.Describe()) + sessions.DraftLogits(m.Draft.Describe())
	for _, limit := range []int64{all, all - 1} {
		s.weightMemory = limit
		if err := s.bound(servedFile{target: servedTarget, draft: servedDraft}, m, sessions); errors.Is(err,
			errNotEnough) != (limit < all) ||
			(err == nil) != (limit == all) {
			t.Errorf("%d bytes of %d: %v", limit, all, err)
		}
	}
	// The flags that it names are the command's.
	for _, c := range commands() {
		var of *capacity
		j := c.new()
		switch j := j.(type) {
		case *serving:
			of = &j.capacity
		case *batching:
			of = &j.capacity
		case *evaluating:
			of = &j.capacity
		case *embedding:
			of = &j.capacity
		case *reranking:
			of = &j.capacity
		default:
			continue
		}
		says := of.memoryError(errNotEnough).Error()
		for _, name := range []string{"-np", "-c", "--kv-memory"} {
			if has := find(flagsOf(j.flags()), name) != nil; has != strings.Contains(says, name) {
				t.Errorf("spec %s, that has %s: %v: %s", c.name, name, has, says)
			}
		}
	}
	// What does not fit is refused, and says what is counted. More requests at once need more, and so does a draft model.
	least := func(args ...string) float64 {
		t.Helper()
		_, err := loadServed(t, append([]string{"-m", servedTarget, "--memory", "1M", "-c", "256"}, args...)...)
		if !errors.Is(err, errNotEnough) || !strings.Contains(err.Error(), "-np, -c and --kv-memory") {
			t.Fatalf("%v: %v", args, err)
		}
		_, text, _ := strings.Cut(err.Error(), "the least is ")
		n, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
		if err != nil || !strings.Contains(text, " MB") {
			t.Fatal(text)
		}
		return n
	}
	if one, five := least("-md", servedDraft, "-np", "1"),
		least("-md", servedDraft, "-np", "5"); five < one+8 || five > one+60 {
		t.Errorf("one request at once needs %v MB, five need %v MB", one, five)
	}
	plain, draft := least("--drafter", "ngram", "-np", "50"), least("--drafter", "model", "-md", servedDraft, "-np", "50")
	logits := engine.Sessions{Count: 50, Rows: 1}.DraftLogits(m.Draft.Describe())
	if more := float64(50*pageBytes(t, m.Draft, "f16")+m.Draft.Bytes()+logits) / 1e6; draft < plain+more*0.9 ||
		draft > plain+more*1.2 {
		t.Errorf("50 requests need %v MB, with drafts %v MB: not %v MB more", plain, draft, more)
	}
}

// Under --memory a server plans the rows of logits of every request that it computes at once: those of its own flags,
// or, for requests that draft otherwise and for what grammars force, those of a usual draft. What is left is for more
// of them. No pass has more, whatever a request asks for.
func TestServePlansRowsOfLogits(t *testing.T) {
	const limit = 64 << 20
	load := func(limit int, args ...string) (*servedModel, error) {
		return loadServed(t, append([]string{"-m", servedTarget, fmt.Sprint("--memory=", limit), "--cache-ram=0", "-c", "256",
			"-np", "2"}, args...)...)
	}
	least := func(args ...string) string {
		_, err := load(1<<20, args...)
		if !errors.Is(err, errNotEnough) {
			t.Fatal(args, err)
		}
		return err.Error()
	}
	usual := 1 + speculative.DefaultDraftMax
	for _, args := range [][]string{{"--drafter", "none"}, {"--draft-max", "4"}} { // requests may choose otherwise
		if got, want := least(args...), least(); got != want {
			t.Errorf("%v: %s, without: %s", args, got, want)
		}
	}
	if least("--draft-max", "200") == least() {
		t.Error("longer drafts need no more")
	}
	for _, c := range []struct {
		args []string
		rows int
	}{
		{[]string{"--drafter", "none"}, usual}, {[]string{"--draft-max", "99"}, 100},
		{[]string{"-md", servedDraft}, treeRows},
	} {
		m, err := load(limit, c.args...)
		if err != nil {
			t.Fatal(c.args, err)
		}
		planned := func(rows int) int64 {
			n := m.Target.Bytes() + m.Memory.KV + m.Memory.DraftKV + m.Memory.DraftForm +
				engine.Sessions{Count: 2, Rows: rows}.Logits(m.Target.Describe())
			if m.Draft != nil {
				n += m.Draft.Bytes() + engine.Sessions{Count: 2, Rows: rows}.DraftLogits(m.Draft.Describe())
			}
			return n
		}
		if m.Memory.Rows <= c.rows || planned(m.Memory.Rows) > limit {
			t.Errorf("%v: %d rows, %d bytes", c.args, m.Memory.Rows, planned(m.Memory.Rows))
		}
		m.Memory.DraftForm = 0 // which is for what is beside
		s := newServing()
		s.context, s.parallel, s.kept, s.weightMemory = 256, 2, -1, planned(c.rows)
		if err := s.bound(servedFile{target: servedTarget}, m, s.sessions(c.rows)); err != nil || m.Memory.Rows != c.rows {
			t.Errorf("%v: %d rows where nothing is left, want %d: %v", c.args, m.Memory.Rows, c.rows, err)
		}
		var most atomic.Int64
		m.Around = func(q library.Sequence) library.Sequence { return countedRows{q, &most} }
		served, err := library.New(m.Parts, m.Options)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Repeat("word ", 200)
		texts, tokens := [2]string{}, 0
		for e, err := range served.Generate(t.Context(), library.Request{
			Prompts: []library.Prompt{{Text: strings.Repeat("func ", 9)}, {Text: "package main"}}, MaxTokens: 150,
			Constraint:  library.Constraint{Kind: library.GBNF, Source: []byte(`root ::= "` + words + `"`)},
			Speculation: speculative.Choice{Drafter: "ngram", Schedule: "constant", Max: speculative.MaxDraft},
		}) {
			if err != nil {
				t.Fatal(c.args, err)
			}
			texts[e.Answer] += e.Text
			if tokens++; tokens > 20 && most.Load() >= int64(min(c.rows, 100)) {
				break
			}
		}
		if texts[0] == "" || texts[1] == "" || !strings.HasPrefix(words, texts[0]) || !strings.HasPrefix(words, texts[1]) ||
			most.Load() > int64(c.rows) || most.Load() < int64(min(c.rows, 100)) {
			t.Errorf("%v: a pass of %d rows, %d planned, after %d tokens: %q", c.args, most.Load(), c.rows, tokens, texts)
		}
	}
}

// countedRows notes the most rows of logits that a pass has of a sequence.
type countedRows struct {
	library.Sequence
	most *atomic.Int64
}

func (c countedRows) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	l, err := c.Sequence.Eval(ctx, tokens, parents, want)
	c.most.Store(max(c.most.Load(), int64(l.Rows())))
	return l, err
}

// Requests that together need more than the budget are all answered, one after the other where need be.
func TestServeWithinMemory(t *testing.T) {
	url, stop := started(t, "-m", servedTarget, "-md", servedDraft, "--memory", "256M", "-np", "2", "-c", "256",
		"--log-format", "off", "-t", "1", "--temp", "0")
	body := func(i int) string {
		return fmt.Sprintf(`{"prompt":%q,"max_tokens":100}`, fmt.Sprint("// ", i)+strings.Repeat(" x := y", 20+i))
	}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			if status, text := ask(t, url+"/v1/completions", body(i)); status != 200 {
				t.Errorf("%d: %d %s", i, status, text)
			}
		})
	}
	wait.Wait()
	if x := metric(t, metrics(t, url), "llamacpp:kv_cache_usage_ratio", "go-target.q8_0"); x <= 0 || x > 1 {
		t.Errorf("%v of the budget is used", x)
	}
	if log, err := stop(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}

// What is kept of finished requests is what --cache-ram says, or what --memory leaves of a share of the machine;
// budgets of keys and values have it beside what requests take.
func TestServeCacheMemory(t *testing.T) {
	for _, bad := range []string{"-2", "x", "1.5", "9999999999999999"} {
		if _, err := cacheSize(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	sizes := map[string]int64{"0": -1, "-1": math.MaxInt64, "512": 512 << 20, "2G": 2 << 30, "8M": 8 << 20}
	for text, want := range sizes {
		if n, err := cacheSize(text); n != want || err != nil {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	pair := []string{"-m", servedTarget, "-md", servedDraft, "-np", "1", "-c", "256"}
	load := func(args ...string) *servedModel {
		t.Helper()
		m, err := loadServed(t, append(slices.Clone(pair), args...)...)
		if err != nil {
			t.Fatal(args, err)
		}
		return m
	}
	m := load("--memory=256M", "--cache-ram=20")
	open := pageBytes(t, m.Target, "f16") + pageBytes(t, m.Draft, "f16")
	if m.Memory.Cache != 20<<20 || m.Memory.KV+m.Memory.DraftKV != open+20<<20 {
		t.Errorf("%d bytes are kept, budgets of %d and %d, %d without", m.Memory.Cache, m.Memory.KV, m.Memory.DraftKV, open)
	}
	if m := load("--memory=256M", "--cache-ram=-1"); m.Memory.Cache < 100<<20 ||
		m.Memory.Cache > 256<<20-m.Target.Bytes()-m.Draft.Bytes() ||
		m.Memory.KV+m.Memory.DraftKV != open+m.Memory.Cache {
		t.Errorf("what is left: %d bytes are kept, budgets of %d and %d", m.Memory.Cache, m.Memory.KV, m.Memory.DraftKV)
	}
	_, err := loadServed(t, append(slices.Clone(pair), "--memory=256M", "--cache-ram=256")...)
	if !errors.Is(err, errNotEnough) || !strings.Contains(err.Error(), "--cache-ram") {
		t.Errorf("more than there is: %v", err)
	}
	if m := load("--memory=256M", "--kv-memory=9M", "--cache-ram=20"); m.Memory.KV != 9<<20 || m.Memory.Cache != 20<<20 {
		t.Errorf("--kv-memory: %d bytes, %d kept", m.Memory.KV, m.Memory.Cache)
	}
	if m := load("--cache-ram=0"); m.Memory.Cache >= 0 {
		t.Errorf("0: %d bytes", m.Memory.Cache)
	}
	if m := load(); m.Memory.Cache <= 0 || m.Memory.Cache > 8<<30 || m.Memory.KV != 0 ||
		machineMemory() > 0 && m.Memory.Cache > machineMemory()/8 {
		t.Errorf("by default %d bytes of %d are kept", m.Memory.Cache, machineMemory())
	}
}

// --cache-ram bounds what is kept of all models together, not of each.
func TestServeCacheMemoryOfAllModels(t *testing.T) {
	url, stop := started(t, "-m", servedTarget, "-m", servedDraft, "--drafter", "none", "--cache-ram", "3", "-t", "1",
		"--log-format", "off", "--temp", "0")
	models, most := []string{"go-target.q8_0", "go-draft.q8_0"}, 0.0
	for i := range 8 {
		for _, m := range models {
			text := fmt.Sprint("// ", i) + strings.Repeat(" x := y", 90)
			if status, text := ask(t, url+"/v1/completions",
				fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":2}`, m, text)); status != 200 {
				t.Fatal(status, text)
			}
		}
		text := metrics(t, url)
		sum := 0.0
		for _, m := range models {
			n := metric(t, text, "spec_prefix_bytes", m)
			if sum += n; n == 0 {
				t.Errorf("round %d: nothing of %s is kept", i, m)
			}
		}
		if most = max(most, sum); sum > 3<<20 {
			t.Fatalf("round %d: %v bytes are kept", i, sum)
		}
	}
	text, went := metrics(t, url), 0.0
	for _, m := range models {
		went += metric(t, text, "spec_prefix_evicted_tokens_total", m)
	}
	if most < 2<<20 || went == 0 {
		t.Errorf("at most %v bytes are kept, %v tokens went", most, went)
	}
	if log, err := stop(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}

func metrics(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return string(text)
}

// metric is a model's value of a metric.
func metric(t *testing.T, text, name, model string) float64 {
	t.Helper()
	_, v, ok := strings.Cut(text, fmt.Sprintf("%s{model=%q} ", name, model))
	v, _, _ = strings.Cut(v, "\n")
	x, err := strconv.ParseFloat(v, 64)
	if !ok || err != nil {
		t.Fatalf("%s of %s is %q", name, model, v)
	}
	return x
}
