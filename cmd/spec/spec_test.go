package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// The test binary is the command too: run with this variable it is spec, with real arguments,
// streams and exit code.
const asCommand = "SPEC_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Unsetenv(asCommand)
		main()
	}
	if os.Getenv(asEditor) != "" {
		tellLines()
		return
	}
	testkit.Main(m)
}

// start prepares the command as a process of its own, with one thread unless -t says otherwise.
func start(t *testing.T, stdin io.Reader, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	if runtime.GOOS == "wasip1" || runtime.GOOS == "js" || runtime.GOOS == "android" {
		t.Skip("no processes here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "NO_COLOR=", "TERM=", "SPEC_CONFIG="+noConfig, "LLAMA_ARG_THREADS=1")
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	return cmd, stdout, stderr
}

// finish waits for the command and returns its exit code. Whatever happened, nothing may have panicked.
func finish(t *testing.T, cmd *exec.Cmd, stderr *bytes.Buffer) int {
	t.Helper()
	err := cmd.Wait()
	if strings.Contains(stderr.String(), "goroutine ") {
		t.Fatalf("a stack trace:\n%s", stderr)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

func launch(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	switch err := cmd.Start(); {
	case errors.Is(err, syscall.ENOEXEC):
		t.Skip("this emulator cannot start processes of its own kind")
	case err != nil:
		t.Fatal(err)
	}
}

// spec runs the command to its end, in this process, with one thread unless -t says otherwise.
func spec(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, measured: 4 << 20,
		env: func(key string) string {
			switch key {
			case "SPEC_SIMD", "SPEC_CACHE":
				return os.Getenv(key)
			case "LLAMA_ARG_THREADS":
				return "1"
			}
			return ""
		}}
	code = p.main(t.Context(), args)
	return out.String(), errs.String(), code
}

// options reads a command line into the command's options, without running it.
func options[J job](t *testing.T, args ...string) J {
	t.Helper()
	c, err := findCommand(args[0])
	if err != nil {
		t.Fatal(err)
	}
	j, _, err := c.parse(args[1:], noEnvironment)
	if err != nil {
		t.Fatalf("spec %s: %v", strings.Join(args, " "), err)
	}
	return j.(J)
}

// done runs the command and demands success.
func done(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, errs, code := spec(t, stdin, args...)
	if code != exitDone {
		t.Fatalf("spec %s: exit %d\n%s", strings.Join(args, " "), code, errs)
	}
	return out
}

// parsed runs "spec generate --json" and more, and returns the result.
func parsed(t *testing.T, args ...string) result {
	t.Helper()
	return decode[result](t, done(t, "", append([]string{"generate", "--json"}, args...)...))
}

func decode[T any](t *testing.T, s string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %.200s", err, s)
	}
	return v
}

const ring = "func (r *Ring) Push("

func TestGenerateJSON(t *testing.T) {
	out := done(t, "", "generate", "-p", ring, "--temp", "0", "-n", "12", "--json", "--logprobs")
	got := decode[map[string]json.RawMessage](t, out)
	for _, key := range []string{"schema", "text", "token_ids", "logprobs", "seed", "stats"} {
		if got[key] == nil {
			t.Errorf("no key %q", key)
		}
	}
	stats := decode[map[string]json.RawMessage](t, string(got["stats"]))
	for _, key := range []string{"n_rounds", "n_drafted", "n_accepted", "n_target_passes", "n_draft_passes",
		"draft_seconds", "verify_seconds", "total_seconds"} {
		if stats[key] == nil {
			t.Errorf("no key %q in stats", key)
		}
	}
	r := decode[result](t, out)
	if r.Origin == nil {
		t.Error("no origin")
	} else if why := lacks(*r.Origin, 2); why != "" {
		t.Errorf("%s: %+v", why, r.Origin)
	}
	if r.Schema != 1 || r.Text == "" || len(r.TokenIDs) != 12 || len(r.LogProbs) != 12 {
		t.Errorf("schema %d, %d tokens, %d logprobs, text %q", r.Schema, len(r.TokenIDs), len(r.LogProbs), r.Text)
	}
	for _, x := range r.LogProbs {
		if !(x <= 0) {
			t.Errorf("log-probability %v", x)
		}
	}
	if strings.Count(out, "\n") != 1 {
		t.Error("the object is not on one line")
	}
}

// Promise P2, seen from outside: no flag of speculation changes the text.
func TestSpeculationChangesNothing(t *testing.T) {
	samplings := [][]string{{"--temp", "0"}, {"--temp", "0.8", "--seed", "7"}}
	if testing.Short() {
		samplings = samplings[1:]
	}
	for i, sampling := range samplings {
		args := append([]string{"-p", ring, "-n", "24"}, sampling...)
		want := parsed(t, append(args, "--drafter", "none")...)
		if want.Stats.Drafted != 0 || len(want.TokenIDs) != 24 {
			t.Fatalf("plain decoding drafts %d tokens and writes %d", want.Stats.Drafted, len(want.TokenIDs))
		}
		for j, how := range [][]string{
			nil,
			{"--drafter", "ngram"},
			{"--drafter", "suffix", "--schedule", "constant"},
			{"--drafter", "model", "--schedule", "heuristic"},
			{"--drafter", "model", "--schedule", "dynamic"},
			{"--drafter", "splice", "--schedule", "constant"},
			{"--drafter", "tree", "--schedule", "auto"},
			{"--drafter", "early-exit", "--exit-layer", "2", "--schedule", "constant"},
			{"--drafter", "reencode", "--schedule", "constant"},
			{"--drafter", "intersect", "--schedule", "heuristic"},
			{"-md", "../../testdata/go-draft.q8_0.gguf", "-md", "../../testdata/go-target.q8_0.gguf", "--schedule", "constant"},
			{"--verify", "stairs"},
			{"--draft-max", "1"},
			{"--spec-draft-n-max", "16", "-t", "2"},
			{"--draft-min", "2"},
			{"--verify", "match"},
		} {
			if (i+j)%2 > 0 && !testing.Short() && !testkit.IsLong(t) { // each with one way to sample
				continue
			}
			got := parsed(t, append(args, how...)...)
			if got.Text != want.Text {
				t.Errorf("%v %v writes\n%q\nplain decoding\n%q", sampling, how, got.Text, want.Text)
			}
		}
		drafted := parsed(t, append(args, "--drafter", "model", "--schedule", "constant")...)
		if drafted.Stats.Accepted == 0 || drafted.Stats.TargetPasses >= want.Stats.TargetPasses {
			t.Errorf("%v: %d drafted tokens accepted, %d target passes against %d", sampling,
				drafted.Stats.Accepted, drafted.Stats.TargetPasses, want.Stats.TargetPasses)
		}
	}
}

// TestLongSpeculationChangesNothing: every flag greedily and sampled.
func TestLongSpeculationChangesNothing(t *testing.T) {
	testkit.Long(t)
	TestSpeculationChangesNothing(t)
}

// The other verifiers give another text, of the same distribution; at temperature 0 there is but one.
func TestVerifiersThatKeepTheDistribution(t *testing.T) {
	args := []string{"-p", ring, "-n", "24", "--drafter", "model", "--schedule", "constant"}
	want := parsed(t, append(args, "--temp", "0")...)
	for _, rule := range []string{"rejection", "block"} {
		if got := parsed(t, append(args, "--temp", "0", "--verify", rule)...); got.Text != want.Text {
			t.Errorf("--verify %s at --temp 0 writes %q, want %q", rule, got.Text, want.Text)
		}
		got := parsed(t, append(args, "--seed", "3", "--verify", rule)...)
		if again := parsed(t, append(args, "--seed", "3", "--verify", rule)...); got.Text == "" || got.Text != again.Text {
			t.Errorf("--verify %s with the same seed writes %q, then %q", rule, got.Text, again.Text)
		}
	}
}

func TestNoKVCache(t *testing.T) {
	args := []string{"-p", ring, "-n", "6", "--temp", "0", "--logprobs"}
	with, without := parsed(t, args...), parsed(t, append(args, "--no-kv-cache")...)
	if with.Text != without.Text {
		t.Errorf("%q with the cache, %q without", with.Text, without.Text)
	}
	for i, x := range with.LogProbs {
		if x != without.LogProbs[i] {
			t.Errorf("token %d: log-probability %v with the cache, %v without", i, x, without.LogProbs[i])
		}
	}
}

func TestGenerateText(t *testing.T) {
	want := parsed(t, "-p", ring, "-n", "24", "--temp", "0", "--drafter", "model", "--schedule", "constant")
	file := filepath.Join(t.TempDir(), "prompt")
	write(t, file, ring)
	for name, run := range map[string]struct {
		stdin string
		args  []string
	}{
		"-p":             {"", []string{"-p", ring}},
		"--prompt=":      {"", []string{"--prompt=" + ring}},
		"-f":             {"", []string{"-f", file}},
		"standard input": {ring, nil},
	} {
		out, errs, code := spec(t, run.stdin, append([]string{"generate", "-n", "24", "--temp", "0"}, run.args...)...)
		if out != want.Text || code != exitDone {
			t.Errorf("prompt by %s: exit %d, %q, want %q", name, code, out, want.Text)
		}
		if strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "24 tokens in ") {
			t.Errorf("prompt by %s: standard error is not one line of figures: %q", name, errs)
		}
	}
	colored := done(t, ring, "generate", "-n", "24", "--temp", "0", "--drafter", "model",
		"--schedule", "constant", "--color")
	if !strings.Contains(colored, colorAccepted) {
		t.Error("no accepted draft is colored")
	}
	if plain := strings.NewReplacer(colorAccepted, "", colorOff, "").Replace(colored); plain != want.Text {
		t.Errorf("without its colors the text is %q, want %q", plain, want.Text)
	}
	if out := done(t, "", "generate", "-p", ring, "-n", "0"); out != "" {
		t.Errorf("-n 0 writes %q", out)
	}
	if out := done(t, "", "generate", "-p", ring, "-n", "24", "--temp", "0", "--display-prompt"); out != ring+want.Text {
		t.Errorf("with its prompt the text is %q", out)
	}
	_, trace, _ := spec(t, ring, "generate", "-n", "24", "--temp", "0", "--drafter", "model",
		"--schedule", "constant", "--trace")
	if rounds := want.Stats.Rounds; strings.Count(trace, "\n") != rounds+1 || strings.Count(trace, ": drafted ") < rounds {
		t.Errorf("the trace of %d rounds is\n%s", rounds, trace)
	}
	stop := want.Text[len(want.Text)/2:][:3]
	before, _, _ := strings.Cut(want.Text, stop)
	if out := done(t, "", "generate", "-p", ring, "-n", "24", "--temp", "0", "--stop", stop); out != before {
		t.Errorf("--stop %q writes %q, want %q", stop, out, before)
	}
}

// A firstByte signals when something is written to it.
type firstByte struct {
	io.Writer
	given chan struct{}
	once  sync.Once
}

func (s *firstByte) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.given) })
	return s.Writer.Write(b)
}
