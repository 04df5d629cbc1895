package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

func TestByteSize(t *testing.T) {
	for v, want := range map[string]int64{"2GiB": 2 << 30, "2gib": 2 << 30, "2G": 2 << 30, "2GB": 2 << 30,
		"512M": 512 << 20, "100": 100, "100B": 100, "64KiB": 64 << 10} {
		if n, err := byteSize(v); err != nil || n != want {
			t.Errorf("%s: %d, %v", v, n, err)
		}
	}
	for _, v := range []string{"", "iB", "GiB", "0", "-1", "1.5G", "10iB", "2MK", "1TG", "2GBB", "2GiBB"} {
		if n, err := byteSize(v); err == nil {
			t.Errorf("%q: %d", v, n)
		}
	}
	// Every flag that is a size takes them.
	for _, c := range commands() {
		for _, f := range flagsOf(c.new().flags()) {
			if f.arg != "SIZE" || f.ignored {
				continue
			}
			if err := f.set("2GiB"); err != nil {
				t.Errorf("spec %s %s: %v", c.name, f.names[0], err)
			}
		}
	}
}

// runWith runs the program with a cache directory.
func runWith(t *testing.T, cache string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: func(key string) string {
		switch key {
		case "SPEC_CACHE":
			return cache
		case "LLAMA_ARG_THREADS":
			return "1"
		}
		return ""
	}}
	code = p.main(context.Background(), args)
	return code, out.String(), errs.String()
}

// TestVerifyRows: the rows of logits that are counted.
func TestVerifyRows(t *testing.T) {
	for _, c := range []struct {
		s    speculation
		want int
	}{
		{speculation{}, 33}, {speculation{choice: speculative.Choice{Drafter: "none", Max: 255}}, 1},
		{speculation{choice: speculative.Choice{Max: 255}}, 256}, {speculation{drafts: []string{"d"}}, 256},
		{speculation{choice: speculative.Choice{Min: 60}}, 61},
		{speculation{choice: speculative.Choice{Drafter: "model"}, drafts: []string{"d"}}, 33},
		{speculation{choice: speculative.Choice{Drafter: "model"}, drafts: []string{"d", "e"}}, 256},
		{speculation{choice: speculative.Choice{Drafter: "tree", Max: 300}, drafts: []string{"d"}}, 301},
	} {
		if n := c.s.verifyRows("absent.gguf", 0); n != c.want {
			t.Errorf("%+v: %d rows, expected %d", c.s, n, c.want)
		}
	}
}

// TestForcedRows: tokens that a grammar forces have rows of logits beside those of drafts.
func TestForcedRows(t *testing.T) {
	for _, c := range []struct {
		g    generate
		want int
	}{
		{generate{}, 33}, {generate{grammarFlags: grammarFlags{grammar: "root ::= \"a\""}}, 288},
		{generate{grammarFlags: grammarFlags{schemaFile: "f"}, speculation: speculation{
			choice: speculative.Choice{Drafter: "none"}}}, 256},
		{generate{grammarFlags: grammarFlags{grammarFile: "f"}, speculation: speculation{drafts: []string{"d"}}}, 288},
	} {
		c.g.model = "absent.gguf"
		if n := c.g.logitRows(false); n != c.want {
			t.Errorf("%+v: %d rows, expected %d", c.g.grammarFlags, n, c.want)
		}
	}
}

// TestBatchMemory: spec batch under a limit writes the answers of the model in memory, which --panels gives a copy too.
func TestBatchMemory(t *testing.T) {
	const file = "../../testdata/go-target.q8_0.gguf"
	dir := t.TempDir()
	in, cache, copies := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "cache"), filepath.Join(dir, "copies")
	line := `{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "func main() {", "max_tokens": 12, "temperature": 0}}` + "\n"
	if err := os.WriteFile(in, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	texts := [2]string{}
	for i, memory := range [][]string{{"--panels", copies}, {"--memory", "9500000", "-np", "1"}} {
		out := filepath.Join(dir, strconv.Itoa(i))
		if code, _, stderr := runWith(t, cache, append(
			[]string{"batch", "-m", file, "-i", in, "-o", out, "-c", "64"}, memory...)...); code != 0 {
			t.Fatal(stderr)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(data), `"text":`)
		texts[i], _, _ = strings.Cut(after, ",")
	}
	for _, folder := range []string{copies, cache} {
		if list, _ := engine.PanelFiles(folder); len(list) != 1 {
			t.Errorf("%d panel files in %s, expected one: --panels or the limit had no effect", len(list), folder)
		}
	}
	if texts[0] == "" || texts[0] != texts[1] {
		t.Errorf("%s and %s", texts[0], texts[1])
	}
}

// TestMemory: a model under a limit writes the same text, its panel file is announced, listed, used again, and
// deleted by spec cache clean, which leaves everything else alone.
func TestMemory(t *testing.T) {
	const file = "../../testdata/go-target.q8_0.gguf"
	cache := filepath.Join(t.TempDir(), "cache")
	generate := []string{"generate", "-m", file, "--temp", "0", "-p", "func main() {", "-n", "12", "-c",
		"64", "--drafter", "none"}
	code, want, stderr := runWith(t, cache, generate...)
	if code != 0 {
		t.Fatal(stderr)
	}
	if list, _ := engine.PanelFiles(cache); len(list) != 0 {
		t.Fatal("a panel file of a model that fits")
	}
	f, err := openGGUF(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plan, err := engine.PlanMemory(f, engine.Options{}, engine.Sessions{Count: 1, Tokens: 64, Rows: 1})
	if err != nil {
		t.Fatal(err)
	}
	limit := "--memory=" + strconv.FormatInt(plan.Least, 10)
	for i := range 2 {
		code, got, stderr := runWith(t, cache, append(generate, limit)...)
		if code != 0 || got != want {
			t.Fatalf("%q, expected %q: %s", got, want, stderr)
		}
		if announced := strings.Contains(stderr, "does not fit into the memory"); announced != (i == 0) {
			t.Errorf("run %d announced %v: %s", i, announced, stderr)
		}
	}
	if code, _, stderr := runWith(t, cache, append(generate, "--memory=1M")...); code != exitFailed ||
		!strings.Contains(stderr, "the least is") {
		t.Errorf("%d: %s", code, stderr)
	}
	// inspect counts what generate counts.
	least := func(args ...string) string {
		_, _, stderr := runWith(t, cache, args...)
		_, after, _ := strings.Cut(stderr, "the least is ")
		return after
	}
	usual := least("generate", "-m", file, "-p", "x", "-n", "1", "--memory=1M")
	if got := least("inspect", file, "--memory=1M"); usual == "" || got != usual {
		t.Errorf("the least of inspect is %q, of generate %q", got, usual)
	}
	if tree := least("generate", "-m", file, "-p", "x", "-n", "1",
		"--memory=1M", "--draft-max", "255"); tree == "" || tree == usual {
		t.Errorf("255 drafted tokens need %q, 32 need %q", tree, usual)
	}
	drafts := []string{"generate", "-m", file, "-md", "../../testdata/go-draft.q8_0.gguf", "-p", "x", "-n", "1",
		"--memory=1M"}
	if all, few := least(drafts...), least(append(drafts, "--draft-vocab", "2000")...); all == "" || few == all {
		t.Errorf("the least is %q, with the rows of a draft vocabulary %q", all, few)
	}
	scored, err := engine.PlanMemory(f, engine.Options{}, engine.Sessions{Count: 1, Tokens: 64, KV: engine.DefaultKV,
		Rows: engine.PerplexityRows})
	if got := least("perplexity", "-m", file, "-p", strings.Repeat("x ", 99), "-c", "64", "--memory=1M"); err != nil ||
		strings.TrimSpace(got) != size(scored.Least+1<<20) {
		t.Errorf("the least of perplexity is %q, planned %d, %v", got, scored.Least, err)
	}
	if code, out, stderr := runWith(t, cache, "inspect", file, "--memory=12500000"); code != 0 ||
		!strings.Contains(out, "under the limit") || !strings.Contains(out, "GB/s") {
		t.Errorf("inspect: %s%s", out, stderr)
	}
	// the second is called like ours and is not
	for _, name := range []string{"notes.txt", "0123456789abcdef0123456789abcdef.panels"} {
		if err := os.WriteFile(filepath.Join(cache, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, out, _ := runWith(t, cache, "cache"); code != 0 || !strings.Contains(out, "go-target.q8_0.gguf") ||
		strings.Contains(out, "notes.txt") {
		t.Errorf("cache: %s", out)
	}
	if code, out, _ := runWith(t, cache, "cache", "clean"); code != 0 || !strings.Contains(out, "1 files") {
		t.Errorf("clean: %s", out)
	}
	if left, _ := os.ReadDir(cache); len(left) != 2 {
		t.Errorf("%d files are left, expected the two that are not ours", len(left))
	}
	// build says what it writes and where, and the second time that it is there; --panels is the folder of all three.
	other := t.TempDir()
	for _, c := range []struct{ dir, done, announced string }{
		{cache, "written", "gets a copy"}, {cache, "is there already", ""}, {other, "written", "gets a copy"},
	} {
		args := []string{"cache", "build", "-m", file}
		if c.dir == other {
			args = append(args, "--panels", other)
		}
		code, out, stderr := runWith(t, cache, args...)
		list, _ := engine.PanelFiles(c.dir)
		if code != 0 || len(list) != 1 || !list[0].Complete() || !strings.HasPrefix(out, list[0].Name+": ") ||
			!strings.HasSuffix(out, ", "+c.done+"\n") || !strings.Contains(stderr, c.announced) ||
			strings.Contains(stderr, "does not fit") {
			t.Errorf("build in %s: %d, %v: %q, %q", c.dir, code, list, out, stderr)
		}
	}
	if code, out, _ := runWith(t, cache, "cache", "clean", "--panels", other); code != 0 || !strings.Contains(out, other) {
		t.Errorf("clean --panels: %d %s", code, out)
	}
	if list, _ := engine.PanelFiles(cache); len(list) != 1 {
		t.Errorf("cleaning another folder left %v", list)
	}
	for _, args := range [][]string{{"cache", "build"}, {"cache", "clean", "-m", file}, {"cache", "other"},
		{"cache", "clean", "--json"}, {"cache", "build", "-m", file, "--json"}} {
		if code, _, _ := runWith(t, cache, args...); code != exitUsage {
			t.Errorf("%v: %d", args, code)
		}
	}
}

// What measures and checks is planned for as many rows of logits as its passes have, and for its texts.
func TestRowsOfMeasuringAndChecking(t *testing.T) {
	const file = "../../testdata/go-target.q8_0.gguf"
	f, err := openGGUF(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bench := []string{"bench", "-m", file, "-p", "16", "-n", "4", "-d", "0,50", "--sample", "20"}
	check := []string{"selftest", "-m", file}
	for _, c := range []struct {
		args []string
		more []string
		s    engine.Sessions
	}{
		{bench, []string{"--verify", "200", "--batch", "1"}, engine.Sessions{Count: 1, Tokens: 58, Rows: 200}},
		{bench, []string{"--verify", "2", "--batch", "64"}, engine.Sessions{Count: 64, Tokens: 28, Rows: 1}},
		{bench, []string{"--verify", "65", "--batch", "64"}, engine.Sessions{Count: 64, Tokens: 28, Rows: 2}},
		{check, []string{"-n", "300", "-p", "xy"}, engine.Sessions{Count: 1, Tokens: 304, Rows: 608}},
		{check, []string{"-n", "8", "-p", "xy"}, engine.Sessions{Count: 1, Tokens: 12, Rows: 256}},
	} {
		c.s.KV, c.s.Heads = engine.DefaultKV, true
		plan, err := engine.PlanMemory(f, engine.Options{}, c.s)
		if err != nil {
			t.Fatal(err)
		}
		code, _, stderr := runWith(t, t.TempDir(), append(append(c.args, c.more...), "--memory=1M")...)
		if want := "the least is " + size(plan.Least+1<<20); code != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit %d, %s, not %q", c.more, code, stderr, want)
		}
	}
}

// More than is stated is written to the cache directory only where a flag or a command asks for it: without a
// terminal the error says how.
func TestLargeCopiesAreAskedFor(t *testing.T) {
	p := &program{stdin: strings.NewReader("y\n"), stdout: io.Discard, stderr: io.Discard}
	for name, c := range map[string]struct {
		flags modelFlags
		bytes int64
		good  bool
	}{
		"little":        {modelFlags{}, unasked, true},
		"much":          {modelFlags{}, unasked + 1, false},
		"--memory only": {modelFlags{memory: 1 << 30}, 73e9, false},
		"--panels":      {modelFlags{panels: "there"}, 73e9, true},
		"cache build":   {modelFlags{keepPanels: true}, 73e9, true},
	} {
		err := c.flags.mayWrite(t.Context(), p, "folder/large.gguf", "cache/0123.panels", c.bytes)
		if c.good != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, word := range []string{"large.gguf", size(c.bytes), "cache", "--panels"} {
			if err != nil && !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v, without %s", name, err, word)
			}
		}
	}
}

// --panels is where the copy of a model's weights is written, instead of the cache directory: also of one that fits
// into the memory, which is loaded from it the next time.
func TestPanelsFlag(t *testing.T) {
	const file = "../../testdata/go-target.q8_0.gguf"
	cache, dir := filepath.Join(t.TempDir(), "cache"), filepath.Join(t.TempDir(), "panels")
	code, _, stderr := runWith(t, cache, "generate", "-m", file, "-p", "x", "-n", "1", "-c", "64", "--drafter", "none",
		"--memory", "9500000", "--panels", dir)
	if code != 0 {
		t.Fatal(stderr)
	}
	if list, err := engine.PanelFiles(dir); err != nil || len(list) != 1 || !strings.Contains(stderr, dir) {
		t.Errorf("%v, %v; %s", list, err, stderr)
	}
	if list, _ := engine.PanelFiles(cache); len(list) != 0 {
		t.Errorf("in the cache directory: %v", list)
	}
	for i, want := range []bool{true, false} {
		code, _, stderr := runWith(t, cache, "generate", "-m", file, "-p", "x", "-n", "1", "-c", "64", "--drafter", "none",
			"--panels", cache)
		list, err := engine.PanelFiles(cache)
		if said := strings.Contains(stderr, "gets a copy of its weights"); code != 0 || err != nil || len(list) != 1 ||
			said != want {
			t.Errorf("run %d: %v, %v; %s", i, list, err, stderr)
		}
	}
}

// Under --memory no pass has more rows of logits than are planned, also for what is not known before; a conversation,
// whose drafter may be changed, has those of a usual draft. The text stays.
func TestPassesKeepToPlannedRows(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	words := strings.Repeat("word ", 60)
	template := func(*engine.Model) (string, []string, error) { return "{{ messages[0].content }}", nil, nil }
	for _, c := range []struct {
		memory       string
		conversation bool
		rows         int // at least where there is no limit
	}{{"", false, 50}, {"64M", false, 1}, {"64M", true, 1 + speculative.DefaultDraftMax}} {
		args := []string{"generate", "-m", servedTarget, "-p", "x", "--drafter", "none"}
		if c.memory != "" {
			args = append(args, "--memory", c.memory)
		}
		g, how := options[*generate](t, args...), template
		if !c.conversation {
			how = nil
		}
		p := &program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, env: noEnvironment}
		w, err := g.open(t.Context(), p, rt, how)
		if err != nil {
			t.Fatal(err)
		}
		rows, r := 0, w.request
		r.Prompts, r.MaxTokens = []library.Prompt{{Text: "x"}}, 120
		r.Constraint = library.Constraint{Kind: library.GBNF, Source: []byte(`root ::= "` + words + `"`)}
		r.Trace = func(r *speculative.Round) { rows = max(rows, 1+r.Draft.Len()) }
		list, err := library.Collect(w.Generate(t.Context(), r))
		w.Close()
		if err != nil || list[0].Stats.Generated != 120 || !strings.HasPrefix(words, list[0].Text) {
			t.Fatal(list, err)
		}
		if limited := c.memory != ""; limited && rows != c.rows || !limited && rows < c.rows {
			t.Errorf("%+v: a pass of %d rows", c, rows)
		}
	}
}

// --memory bounds the models inside this program too, which cannot be read from disk.
func TestMemoryOfTheEmbeddedPair(t *testing.T) {
	for _, memory := range []string{"1", "3M"} {
		_, errs, code := spec(t, "", "generate", "-p", "x", "-n", "1", "--memory", memory)
		if code != exitFailed || !strings.Contains(errs, "embedded") || !strings.Contains(errs, "memory") {
			t.Errorf("%s: exit %d, %s", memory, code, errs)
		}
	}
	if _, errs, code := spec(t, "", "generate", "-p", "x", "-n", "1", "--memory", "256M"); code != exitDone {
		t.Errorf("exit %d, %s", code, errs)
	}
	if _, err := loadServed(t, "--memory", "20M", "-np", "64"); !errors.Is(err, errNotEnough) {
		t.Error(err)
	}
}
