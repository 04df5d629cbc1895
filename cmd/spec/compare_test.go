package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/testkit"
)

// compared is the part of the JSON that scripts rely on.
type compared struct {
	Schema   int `json:"schema"`
	Threads  int `json:"threads"`
	Tokens   int `json:"n_tokens"`
	Complete bool
	Broken   []string `json:"broken_promises"`
	Rows     []struct {
		Prompts, Drafter, Schedule, Verify string
		Temperature                        float64
		NPrompts                           int     `json:"n_prompts"`
		NRuns                              int     `json:"n_runs"`
		NTokens                            int     `json:"n_tokens"`
		TokensPerSecond                    float64 `json:"tokens_per_second"`
		Speedup                            float64
		SpeedupLow                         float64 `json:"speedup_low"`
		SpeedupHigh                        float64 `json:"speedup_high"`
		Formula                            float64 `json:"formula_speedup"`
		Acceptance                         float64
		TokensPerPass                      float64 `json:"tokens_per_target_pass"`
		TargetPasses                       int     `json:"n_target_passes"`
		DraftPasses                        int     `json:"n_draft_passes"`
		OracleTarget                       *int    `json:"oracle_target_passes"`
		OracleDraft                        *int    `json:"oracle_draft_passes"`
		BLEU                               float64
		Promised                           bool  `json:"identity_promised"`
		Same                               bool  `json:"identical"`
		Lengths                            []any `json:"draft_length_by_round"`
		ByPrompt                           []any `json:"by_prompt"`
	}
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	prompts, page := filepath.Join(dir, "two.jsonl"), filepath.Join(dir, "page.html")
	write(t, prompts, `{"id":"a","prompt":"func (r *Ring) Push("}`+"\n"+`{"id":"b","prompt":"// A Reader reads"}`+"\n")
	drafters, schedules := []string{"model", "tree", "ngram", "early-exit", "suffix", "splice", "self", "merge"},
		[]string{"constant", "heuristic", "dynamic", "adaptive", "auto"}
	switch {
	case testing.Short():
		drafters, schedules = drafters[:1], schedules[:2]
	case !testkit.IsLong(t):
		drafters, schedules = drafters[:2], schedules[:1]
	}
	out, stderr, code := spec(t, "", "compare", "--prompts", prompts, "-n", "6", "-r", "2", "--warmup", "0",
		"--json", "--html", page,
		"--drafter", strings.Join(drafters, ","), "--schedule", strings.Join(schedules, ",")+",oracle",
		"--verify", "greedy,match,rejection,block,stairs,stairs-faithful", "--temp", "0,0.8")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var r compared
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Schema != 1 || r.Threads < 1 || r.Tokens != 6 || !r.Complete || len(r.Broken) != 0 {
		t.Errorf("schema %d, %d threads, %d tokens, complete %v, broken %q", r.Schema, r.Threads,
			r.Tokens, r.Complete, r.Broken)
	}
	// At 0: six verifiers with all schedules, and the oracle for the four that promise the text; at 0.8 one verifier less.
	if want := 2 + len(drafters)*(6*len(schedules)+4+5*len(schedules)+3); len(r.Rows) != want {
		t.Errorf("%d rows, want %d", len(r.Rows), want)
	}
	for _, row := range r.Rows {
		if row.Prompts != "two" || row.NPrompts != 2 || row.NRuns < 4 || row.NTokens < 2 || row.NTokens > 12 ||
			len(row.ByPrompt) != 2 {
			t.Fatalf("row %+v", row)
		}
		if row.Speedup <= 0 || row.TokensPerSecond <= 0 || row.TokensPerPass < 1 || row.Acceptance < 0 ||
			row.Acceptance > 1 || row.SpeedupLow > row.SpeedupHigh {
			t.Errorf("row %+v", row)
		}
		if row.Drafter == "none" {
			if row.TargetPasses != row.NTokens || row.Speedup != 1 {
				t.Errorf("plain decoding: %+v", row)
			}
			continue
		}
		promised := !slices.Contains([]string{"rejection", "block"}, row.Verify)
		if row.Promised != promised || promised && (!row.Same || row.BLEU != 100) {
			t.Errorf("identity: %+v", row)
		}
		if promised != (row.OracleTarget != nil && row.OracleDraft != nil) {
			t.Errorf("oracle: %+v", row)
		}
		if promised && row.Drafter == "model" && *row.OracleTarget > row.TargetPasses {
			t.Errorf("fewer passes than the oracle: %+v", row)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(string(text), "<!DOCTYPE html>")))
	d.Strict, d.Entity, d.AutoClose = false, xml.HTMLEntity, xml.HTMLAutoClose
	charts := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "svg" {
			charts++
		}
	}
	if charts < 2 {
		t.Errorf("%d charts", charts)
	}
}

// TestLongCompare: every drafter with every schedule.
func TestLongCompare(t *testing.T) {
	testkit.Long(t)
	TestCompare(t)
}

// The table and every preset, made small.
func TestComparePresets(t *testing.T) {
	for _, preset := range []string{"", "assisted", "dynamic", "stairs", "leviathan"} {
		if testing.Short() && preset != "" {
			continue
		}
		args := []string{"compare", "--max-prompts", "1", "-n", "6", "-r", "1", "--warmup", "0"}
		if preset != "" {
			args = append(args, "--preset", preset)
		}
		out, stderr, code := spec(t, "", args...)
		if code != exitDone || !strings.Contains(out, "speedup") || !strings.Contains(out, "plain") ||
			strings.Contains(out, "NO") {
			t.Errorf("preset %q: exit code %d\n%s%s", preset, code, out, stderr)
		}
	}
}

func TestCompareBadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.jsonl")
	write(t, file, `{"id":"a"}`)
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"no prompts":            {[]string{"--prompts", "missing.jsonl"}, exitFailed, []string{"missing.jsonl"}},
		"no prompt":             {[]string{"--prompts", file}, exitFailed, []string{"bad.jsonl", "line 1", "prompt"}},
		"unknown drafter":       {[]string{"--drafter", "model,oracle"}, exitUsage, []string{"--drafter", "oracle"}},
		"unknown schedule":      {[]string{"--schedule", "x"}, exitUsage, []string{"--schedule"}},
		"unknown preset":        {[]string{"--preset", "x"}, exitUsage, []string{"--preset"}},
		"temperature":           {[]string{"--temp", "0,nan"}, exitUsage, []string{"--temp", "nan"}},
		"length":                {[]string{"--draft-max", "-1"}, exitUsage, []string{"--draft-max"}},
		"nothing to run":        {[]string{"--temp", "1", "--verify", "greedy"}, exitUsage, []string{"greedy"}},
		"no draft model":        {[]string{"-m", "x.gguf", "--drafter", "model"}, exitUsage, []string{"-md", "model"}},
		"no second draft model": {[]string{"--drafter", "model2"}, exitUsage, []string{"-md", "model2"}},
		"model missing":         {[]string{"-m", "missing.gguf"}, exitFailed, []string{"missing.gguf"}},
		"empty prompt":          {[]string{"-p", ""}, exitUsage, []string{"-p", "empty"}},
		"no such text":          {[]string{"-f", "missing.txt"}, exitFailed, []string{"missing.txt"}},
		"page in no folder": {[]string{"--max-prompts", "1", "-n", "2", "-r", "1", "--drafter", "ngram", "--html",
			filepath.Join(file, "x")}, exitFailed, []string{"bad.jsonl"}},
		"prompt beyond contexts": {[]string{"-c", "4", "-n", "2"}, exitFailed, []string{"prompt", "context"}},
	} {
		_, stderr, code := spec(t, "", append([]string{"compare"}, c.args...)...)
		if code != c.code || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, c.code, stderr)
		}
		for _, s := range c.says {
			if !strings.Contains(stderr, s) {
				t.Errorf("%s: %q lacks %q", name, stderr, s)
			}
		}
	}
}

// The page is opened before the run and replaced after it.
func TestComparePage(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.html")
	write(t, page, "old page")
	small := []string{"compare", "--max-prompts", "1", "-n", "2", "-r", "1", "--warmup", "0", "--drafter", "ngram",
		"--schedule", "constant", "--html"}
	// A page that cannot be: nothing is run, so that no results are lost.
	out, errs, code := spec(t, "", append(small, filepath.Join(page, "x"))...)
	if code != exitFailed || out != "" || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	// A run that fails keeps the old page.
	if _, _, code := spec(t, "", append(small, page, "-m", "missing.gguf")...); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	if text, _ := os.ReadFile(page); string(text) != "old page" {
		t.Errorf("after a failure the page is %.40q", text)
	}
	done(t, "", append(small, page)...)
	if text, _ := os.ReadFile(page); !bytes.HasPrefix(text, []byte("<!DOCTYPE html>")) {
		t.Errorf("the page is %.40q", text)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
}

// Prompts come from anywhere: -p, -f, standard input, a plain text, lines of JSON. The results name each with the hash
// of its bytes, and CSV has a line for each row of the JSON with the same figures.
func TestComparePromptsAndForms(t *testing.T) {
	dir := t.TempDir()
	text, lines := filepath.Join(dir, "plain.txt"), filepath.Join(dir, "lines.jsonl")
	write(t, text, "{\nfunc main() {\n")
	write(t, lines, `{"id":7,"prompt":"package a"}`+"\n")
	args := []string{"compare", "-p", `a\tb`, "-f", "-", "--prompts", text, "--prompts", lines, "-n", "4", "-r", "1",
		"--warmup", "0", "--drafter", "model", "--schedule", "constant"}
	type file struct{ Name, SHA256 string }
	var r struct {
		compared
		Commit, Date, CPU, SIMD, Version string
		Models                           []file
		Sets                             []file `json:"prompt_sets"`
		Figures                          []struct {
			Drafted  []int `json:"drafted_per_position"`
			Accepted []int `json:"accepted_per_position"`
			N        int   `json:"n_drafted"`
			Y        int   `json:"n_accepted"`
		} `json:"rows"`
	}
	out := done(t, "x := ", append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &r.compared); err != nil {
		t.Fatal(err)
	}
	sum := func(s string) string { x := sha256.Sum256([]byte(s)); return hex.EncodeToString(x[:]) }
	want := []file{{"-p", sum("a\tb\x00x := \x00")}, {"plain.txt", sum("{\nfunc main() {\n")},
		{"lines.jsonl", sum(`{"id":7,"prompt":"package a"}` + "\n")}}
	if !slices.Equal(r.Sets, want) {
		t.Errorf("prompts %v, want %v", r.Sets, want)
	}
	if len(r.Models) != 3 || len(r.Models[0].SHA256) != 64 || r.Models[0] == r.Models[1] || r.CPU == "" || r.SIMD == "" ||
		r.Date == "" || r.Version == "" {
		t.Errorf("origin: %+v", r)
	}
	var sets []string
	for i, row := range r.compared.Rows {
		if row.Drafter == "none" {
			sets = append(sets, row.Prompts)
		}
		drafted, accepted := 0, 0
		for j, n := range r.Figures[i].Drafted {
			drafted, accepted = drafted+n, accepted+r.Figures[i].Accepted[j]
		}
		if drafted != r.Figures[i].N || accepted != r.Figures[i].Y {
			t.Errorf("%s: %d drafted, %d by position; %d accepted, %d by position", row.Schedule, r.Figures[i].N, drafted,
				r.Figures[i].Y, accepted)
		}
	}
	if !slices.Equal(sets, []string{"given", "plain", "lines"}) {
		t.Errorf("sets %q", sets)
	}
	table, err := csv.NewReader(strings.NewReader(done(t, "x := ", append(args, "--csv")...))).ReadAll()
	if err != nil || len(table) != 1+len(r.compared.Rows) {
		t.Fatalf("%d lines of CSV, %d rows: %v", len(table), len(r.compared.Rows), err)
	}
	at := func(line int, name string) string { return table[line][slices.Index(table[0], name)] }
	for i, row := range r.compared.Rows {
		if at(i+1, "prompts") != row.Prompts || at(i+1, "drafter") != row.Drafter || at(i+1, "schedule") != row.Schedule ||
			at(i+1, "n_tokens") != strconv.Itoa(row.NTokens) || at(i+1, "n_target_passes") != strconv.Itoa(row.TargetPasses) {
			t.Errorf("line %d: %q is not %+v", i+1, table[i+1], row)
		}
	}
	if out := done(t, "x := ", append(args, "-o", "md")...); !strings.Contains(out, "| drafter |") ||
		!strings.Contains(out, "kernels") {
		t.Error(out)
	}
}

// Without a draft model and a choice, what decoders have without a choice is among what is compared: the model in fewer
// bits where it has such a form, with all the weights, and there is room for it; other texts where there are some.
func TestCompareTakesWhatDraftsByDefault(t *testing.T) {
	file, text := embedded(t), filepath.Join(t.TempDir(), "text")
	write(t, text, "text")
	for line, want := range map[string]string{
		"":                    "ngram suffix self-splice",
		"--weights file,f16":  "ngram suffix self-splice",
		"--weights file,q4_0": "ngram suffix",
		"--memory 8M":         "ngram suffix",
		"--memory 18M":        "ngram suffix self-splice",
		"--lookup " + text:    "ngram suffix lookup self-splice",
	} {
		c := options[*comparison](t, append([]string{"compare", "-m", file}, strings.Fields(line)...)...)
		if got := strings.Join(c.alone(), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
		both := options[*comparison](t, append([]string{"compare", "-m", file, "--kernels", "scalar,avx2"},
			strings.Fields(line)...)...)
		if strings.HasSuffix(line, "18M") && both.hasForm() {
			t.Error("there is no room for two")
		}
	}
}

// The command that the page tells repeats the run: it has what changes the measurement.
func TestComparisonCommand(t *testing.T) {
	const line = "-c 77 --kv q8_0 --draft-vocab 9 --top-k 5 --top-p 0.5 -s 7 --draft-vocab-from a"
	c := options[*comparison](t, append([]string{"compare", "--temp", "0.5"}, strings.Fields(line)...)...)
	if got := c.command(compare.Plan{Tokens: 64, Repeats: 3, Warmup: 1}); !strings.HasSuffix(got, " --temp 0.5 "+line) {
		t.Errorf("%s, without all of %s", got, line)
	}
	plain := options[*comparison](t, "compare").command(compare.Plan{Tokens: 64, Repeats: 3, Warmup: 1})
	if plain != "spec compare -n 64 -r 3 --warmup 1" {
		t.Error(plain)
	}
	weights := options[*comparison](t, "compare", "--weights", "file,q4_0")
	if list := weights.given(compare.Matrix{}).Weights; !slices.Equal(list, []string{"", "q4_0"}) {
		t.Errorf("weights %q", list)
	}
	if got := weights.command(compare.Plan{}); !strings.HasSuffix(got, " --weights file,q4_0") {
		t.Error(got)
	}
	if _, errs, code := spec(t, "", "compare", "--draft-vocab-from", "a"); code != exitUsage ||
		!strings.Contains(errs, "--draft-vocab-from needs --draft-vocab N") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
