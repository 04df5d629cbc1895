package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec/internal/filelock"
	"github.com/specgo/spec/internal/testkit"
)

// requests is an input of n requests.
func requests(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id": "id-%d", "method": "POST", "url": %q, "body": {"n": %d, "text": "%s"}}`+"\n", i,
			Paths[i%len(Paths)], i, strings.Repeat("x<", i%7))
	}
	return b.String()
}

// echo answers with the body; every fifth request is wrong.
func echo(_ context.Context, r Request) (int, []byte) {
	var b struct{ N int }
	if err := json.Unmarshal(r.Body, &b); err != nil || r.Path != Paths[b.N%len(Paths)] {
		return 400, []byte(`{"error": "not the request"}`)
	}
	if b.N%5 == 4 {
		return 400, []byte(`{"error": {"message": "wrong"}}`)
	}
	return 200, fmt.Appendf(nil,
		`{"n": %d, "usage": {"prompt_tokens": 2, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}, "timings": {"draft_n": 5, "draft_n_accepted": 4}}`, b.N)
}

func files(t *testing.T, input string) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{Input: filepath.Join(dir, "in.jsonl"), Output: filepath.Join(dir, "out.jsonl"), Parallel: 3, Do: echo}
	write(t, o.Input, input)
	return o
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// answers checks an output and returns how often each request is answered.
func answers(t *testing.T, text string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for line := range strings.Lines(text) {
		var a struct {
			ID, CustomID string
			Custom       string `json:"custom_id"`
			Response     struct {
				Status    int    `json:"status_code"`
				RequestID string `json:"request_id"`
				Body      struct{ N int }
			}
			Error *string
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("%q: %v", line, err)
		}
		i := strings.TrimPrefix(a.Custom, "id-")
		good := a.Response.Status == 200 && fmt.Sprint(a.Response.Body.N) == i
		wrong := a.Response.Status == 400 && strings.Contains(line, `"wrong"`) && strings.HasSuffix(i, "4") ||
			strings.HasSuffix(i, "9")
		if !good && !wrong || a.Error != nil || a.ID == "" || a.Response.RequestID == "" {
			t.Errorf("%s", line)
		}
		n[a.Custom]++
	}
	return n
}

func once(t *testing.T, got map[string]int, n int) {
	t.Helper()
	if len(got) != n {
		t.Fatalf("%d requests answered, want %d", len(got), n)
	}
	for id, k := range got {
		if k != 1 {
			t.Errorf("%s is answered %d times", id, k)
		}
	}
}

func TestRun(t *testing.T) {
	const n = 40
	o := files(t, requests(n))
	var seen []Report
	o.Progress = func(r Report) { seen = append(seen, r) }
	clock := time.Unix(0, 0)
	o.Now = func() time.Time { clock = clock.Add(time.Second); return clock }
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	once(t, answers(t, read(t, o.Output)), n)
	want := Report{Requests: n, Done: n, Failed: 8, PromptTokens: 64, CachedTokens: 32, CompletionTokens: 96,
		Drafted: 160, Accepted: 128, Seconds: n + 1}
	if r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	if len(seen) != n || seen[n-1].Done != n || seen[0].Done != 1 {
		t.Errorf("%d reports of progress", len(seen))
	}
	// Again: nothing is left to do.
	before := read(t, o.Output)
	o.Do = func(context.Context, Request) (int, []byte) {
		t.Error("answered again")
		return 200, []byte("{}")
	}
	if r, err = Run(context.Background(), o); err != nil || r.Before != n || r.Done != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if read(t, o.Output) != before {
		t.Error("the output has changed")
	}
}

// An output that ends anywhere, as a killed program or a full disk leaves it, is completed: each request has one
// answer.
func TestResume(t *testing.T) {
	const n = 6
	o := files(t, requests(n))
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	whole := read(t, o.Output)
	step := 11
	if testkit.IsLong(t) {
		step = 1
	}
	for cut := 0; cut < len(whole); cut += step {
		write(t, o.Output, whole[:cut])
		calls := atomic.Int64{}
		o.Do = func(ctx context.Context, r Request) (int, []byte) {
			calls.Add(1)
			return echo(ctx, r)
		}
		r, err := Run(context.Background(), o)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		kept := strings.Count(whole[:cut], "\n")
		if r.Before != kept || int(calls.Load()) != n-kept {
			t.Fatalf("cut at %d, %d whole lines: %+v, %d calls", cut, kept, r, calls.Load())
		}
		once(t, answers(t, read(t, o.Output)), n)
	}
}

// TestLongResume: cut at every byte.
func TestLongResume(t *testing.T) {
	testkit.Long(t)
	TestResume(t)
}

// TestKilled kills a program that answers, again and again, until all is done: where a quarter of the requests has been
// answered since it began, and where half of them have it waits for that.
func TestKilled(t *testing.T) {
	if name := os.Getenv("BATCH_TEST_DIR"); name != "" {
		o := Options{Input: filepath.Join(name, "in.jsonl"), Output: filepath.Join(name, "out.jsonl"), Parallel: 4}
		most, err := strconv.ParseInt(os.Getenv("BATCH_TEST_MOST"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		o.Do = func(ctx context.Context, r Request) (int, []byte) {
			if asked.Add(1) > most {
				select {} // until it is killed
			}
			time.Sleep(time.Millisecond)
			return echo(ctx, r)
		}
		if _, err := Run(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		return
	}
	n := 400
	if testing.Short() {
		n = 100
	}
	o := files(t, requests(n))
	kills := 0
	for {
		c := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		c.Env = append(os.Environ(), "BATCH_TEST_DIR="+filepath.Dir(o.Input), fmt.Sprint("BATCH_TEST_MOST=", n/2))
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		before := 0
		if b, err := os.ReadFile(o.Output); err == nil {
			before = bytes.Count(b, []byte("\n"))
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		err := error(nil)
	wait:
		for {
			select {
			case err = <-ended:
				break wait
			default:
				if b, _ := os.ReadFile(o.Output); bytes.Count(b, []byte("\n")) >= before+n/4 {
					c.Process.Kill()
					err = <-ended
					break wait
				}
				time.Sleep(time.Millisecond)
			}
		}
		if err == nil {
			break
		}
		if kills++; kills > 20 || len(out.String()) > 0 {
			t.Fatalf("killed %d times: %s", kills, &out)
		}
	}
	if kills == 0 {
		t.Error("never killed")
	}
	once(t, answers(t, read(t, o.Output)), n)
}

func TestShards(t *testing.T) {
	const n, shards = 25, 4
	all := map[string]int{}
	o := files(t, requests(n))
	dir := filepath.Dir(o.Output)
	o.Shards = shards
	for i := range shards {
		o.Shard, o.Output = i, filepath.Join(dir, fmt.Sprint(i))
		if _, err := Run(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		got := answers(t, read(t, o.Output))
		if len(got) < n/shards || len(got) > n/shards+1 {
			t.Errorf("shard %d answers %d requests", i, len(got))
		}
		for id, k := range got {
			all[id] += k
		}
	}
	once(t, all, n)
	o.Shard = 0 // with the output of the last one
	if _, err := Run(context.Background(), o); !errors.Is(err, ErrOutput) {
		t.Errorf("the output of another shard: %v", err)
	}
	o.Shard = shards
	if _, err := Run(context.Background(), o); err == nil {
		t.Error("a shard beyond the last is taken")
	}
}

// Requests under way when ctx ends have no answer; a later run answers them.
func TestCancelled(t *testing.T) {
	const n = 30
	o := files(t, requests(n))
	ctx, cancel := context.WithCancel(context.Background())
	var calls atomic.Int64
	o.Do = func(ctx context.Context, r Request) (int, []byte) {
		if calls.Add(1) > 10 {
			cancel()
			<-ctx.Done()
			return 499, []byte(`{"error": "gone"}`)
		}
		return echo(ctx, r)
	}
	r, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || r.Done > 10 {
		t.Errorf("%+v, %v", r, err)
	}
	o.Do = echo
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	once(t, answers(t, read(t, o.Output)), n)

	o = files(t, requests(n)) // a server that cannot answer ends the work, without an answer
	o.Do = func(context.Context, Request) (int, []byte) { return 503, []byte(`{"error": "no memory"}`) }
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "no memory") {
		t.Errorf("503: %v", err)
	}
	if text := read(t, o.Output); text != "" {
		t.Errorf("503: %s", text)
	}
}

// What a killed run left of a long line is gone, also where all that follows is shorter, or nothing.
func TestResumeBehindALongBrokenLine(t *testing.T) {
	for _, left := range []int{0, 1, 3} {
		const n = 3
		o := files(t, requests(n))
		if _, err := Run(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(read(t, o.Output), "\n")
		write(t, o.Output, strings.Join(lines[:n-left], "")+answerBegins+strings.Repeat("x", 1<<20))
		if _, err := Run(context.Background(), o); err != nil {
			t.Fatalf("%d left: %v", left, err)
		}
		once(t, answers(t, read(t, o.Output)), n)
	}
}

// Only what an interrupted run leaves of a line is cut: a beginning of an answer, however short, and zeros.
func TestTornLines(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "{": true, answerBegins: true, answerBegins + "12\", \"cust": true, "\x00\x00": true,
		`{"id":` + "\x00\x00\x00\x00": true, `{"id": "batch_req_12", "custom_id": "a"`: true,
		"[": false, `{"ids`: false, `{"id":7`: false, "text": false, "\x00text": false, `{"id":"chatcmpl-1"}`: false,
	} {
		if torn([]byte(text)) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}

// A server that cannot answer ends the work also after good answers, and its status is no answer.
func TestUnavailableAfterGoodAnswers(t *testing.T) {
	const n = 10
	o := files(t, requests(n))
	o.Parallel = 1
	calls := 0
	o.Do = func(ctx context.Context, r Request) (int, []byte) {
		if calls++; calls == 4 {
			return 503, []byte(`{"error": "no memory"}`)
		}
		return echo(ctx, r)
	}
	r, err := Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "no memory") || r.Done != 3 || calls != 4 {
		t.Errorf("%+v after %d calls: %v", r, calls, err)
	}
	once(t, answers(t, read(t, o.Output)), 3)
	o.Do = echo
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	once(t, answers(t, read(t, o.Output)), n)
}

// A request whose text alone needs more memory than there is has that as its answer, at once, and the others have
// theirs; a later run asks it again.
func TestARequestThatIsTooLargeEndsNothing(t *testing.T) {
	const n = 10
	o := files(t, requests(n))
	o.Tries, o.Again = 3, Transient
	var calls atomic.Int64
	o.Do = func(ctx context.Context, r Request) (int, []byte) {
		if r.ID == "id-3" {
			calls.Add(1)
			return 503, []byte(`{"error":{"message":"not enough memory","code":"kv_memory"}}`)
		}
		return echo(ctx, r)
	}
	r, err := Run(context.Background(), o)
	if err != nil || r.Done != n || r.Failed != 3 || calls.Load() != 1 {
		t.Errorf("%+v after %d tries of it: %v", r, calls.Load(), err)
	}
	o.Do = echo
	if r, err := Run(context.Background(), o); err != nil || r.Before != n-1 || r.Done != 1 || r.Failed != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	once(t, answers(t, read(t, o.Output)), n)
}

// full is a disk that has room for half of what is written next.
type full struct{ file *os.File }

func (f full) Write(b []byte) (int, error) {
	n, _ := f.file.Write(b[:len(b)/2])
	return n, errors.New("no space left on device")
}

// A full disk leaves whole lines alone: the part of an answer that was written is cut.
func TestAFullDiskLeavesWholeLines(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "out.jsonl")
	out, err := openOutput(name, filepath.Join(dir, "in.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := out.write("a", 200, []byte(`{"n": 1}`)); err != nil {
		t.Fatal(err)
	}
	before := read(t, name)
	out.to = full{out.file}
	if err := out.write("b", 200, []byte(`{"n": 2}`)); err == nil {
		t.Error("a full disk is no error")
	}
	if err := out.close(); err != nil {
		t.Error(err)
	}
	if after := read(t, name); after != before || !strings.HasSuffix(after, "}\n") {
		t.Errorf("%q, was %q", after, before)
	}
}

func TestRefused(t *testing.T) {
	good := `{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {}}`
	for text, want := range map[string]string{
		"x\n":              "line 1",
		good + "\n[]\n":    "line 2",
		good + "\n" + good: "that of line 1",
		`{"method": "POST", "url": "/v1/completions", "body": {}}`:                                "custom_id",
		`{"custom_id": "", "url": "/v1/completions", "body": {}}`:                                 "custom_id",
		`{"custom_id": 5, "url": "/v1/completions", "body": {}}`:                                  "custom_id",
		`{"custom_id": "` + strings.Repeat("x", 600) + `", "url": "/v1/completions", "body": {}}`: "custom_id",
		`{"custom_id": "a", "method": "GET", "url": "/v1/completions", "body": {}}`:               "GET",
		`{"custom_id": "a", "url": "/v1/models", "body": {}}`:                                     "/v1/models",
		`{"custom_id": "a", "body": {}}`:                                                          "url",
		`{"custom_id": "a", "url": "/v1/completions"}`:                                            "body",
		`{"custom_id": "a", "url": "/v1/completions", "body": 3}`:                                 "body",
		`{"custom_id": "a", "url": "/v1/completions", "body": {}, "Custom_ID": "b"}`:              "Custom_ID",
		`{"custom_id": "a", "url": "/v1/completions", "body": {}, "body": {}}`:                    `"body" stands twice`,
		`{"custom_id": "a", "url": "/v1/completions", "body": {}, "tenant": 1}`:                   "tenant",
		good + good: "after top-level value",
	} {
		o := files(t, text)
		if _, err := Run(context.Background(), o); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want it to name %s", text, err, want)
		}
		if _, err := os.Stat(o.Output); err == nil {
			t.Errorf("%.80s: an output was made", text)
		}
	}
	answer := `{"id": "x", "custom_id": "a", "response": {"status_code": 200, "request_id": "x", "body": {}}, "error": null}` + "\n"
	for text, want := range map[string]string{
		"what is this\n":            "line 1",
		`{"custom_id": "a"}` + "\n": "line 1",
		`{"precious":1}`:            "line 1", // without the end of a line, too
		strings.Repeat("a", 1<<21):  "line 1",
		answer + answer:             "second answer",
		strings.Replace(answer, `"id"`, `"Custom_ID": "b", "id"`, 1):       `unknown name "Custom_ID"`,
		strings.Replace(answer, `"id"`, `"custom_id": "b", "id"`, 1):       `"custom_id" stands twice`,
		strings.Replace(answer, `"body"`, `"status_code": 500, "body"`, 1): `response: "status_code" stands twice`,
		strings.Replace(answer, `"x"`, "\"\xff\"", 1):                      "not UTF-8",
		strings.Replace(answer, `"a"`, `"b"`, 1):                           `"b"`,
	} {
		o := files(t, good)
		write(t, o.Output, text)
		if _, err := Run(context.Background(), o); !errors.Is(err, ErrOutput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want it to name %s", text, err, want)
		}
		if read(t, o.Output) != text {
			t.Errorf("%.80s: the file has changed", text)
		}
	}
	o := files(t, good+"\n\n")
	o.Output = o.Input
	if _, err := Run(context.Background(), o); !errors.Is(err, ErrOutput) {
		t.Errorf("the input as output: %v", err)
	}
	o.Input = t.TempDir()
	if _, err := Run(context.Background(), o); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "regular") {
		t.Errorf("a folder as input: %v", err)
	}
	if _, err := Run(context.Background(), Options{
		Input: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no input: %v", err)
	}
}

// Figures are those of the form of each endpoint.
func TestFiguresOfEachForm(t *testing.T) {
	for _, answer := range []string{
		`{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens":3}}`,
		`{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":5},"output_tokens":3}}`,
	} {
		var r Report
		if r.count(200, []byte(answer)); r.PromptTokens != 9 || r.CachedTokens != 5 || r.CompletionTokens != 3 {
			t.Errorf("%s: %+v", answer, r)
		}
	}
}

// The mark of UTF-8 that editors of Windows write in front of a file is no part of its first request.
func TestInputWithAMark(t *testing.T) {
	const lines = `{"custom_id":"a","url":"/v1/completions","body":{"n":1}}` + "\n" +
		`{"custom_id":"b","url":"/v1/completions","body":{"n":2}}`
	in, err := openInput(files(t, "\ufeff"+lines).Input)
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	for i, want := range []string{`{"n":1}`, `{"n":2}`} {
		if r, err := in.read(i); err != nil || string(r.Body) != want {
			t.Errorf("%s, %v, want %s", r.Body, err, want)
		}
	}
}

// Two programs do not write one output.
func TestLocked(t *testing.T) {
	o := files(t, requests(3))
	f, err := os.Create(o.Output)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unlock, err := filelock.Lock(f)
	if err != nil {
		t.Fatal(err)
	}
	if !filelock.Works {
		t.Skip("files cannot be locked here")
	}
	if _, err := Run(context.Background(), o); !errors.Is(err, ErrOutput) {
		t.Errorf("a file in use: %v", err)
	}
	unlock()
	if _, err := Run(context.Background(), o); err != nil {
		t.Error(err)
	}
}

// Requests run at the same time, as many as asked for.
func TestParallel(t *testing.T) {
	o := files(t, requests(20))
	o.Parallel = 5
	var mu sync.Mutex
	inside, most := 0, 0
	all := make(chan bool)
	o.Do = func(ctx context.Context, r Request) (int, []byte) {
		mu.Lock()
		inside++
		if most = max(most, inside); inside == o.Parallel && most == inside {
			select {
			case <-all:
			default:
				close(all)
			}
		}
		mu.Unlock()
		<-all // until all places are taken once
		mu.Lock()
		inside--
		mu.Unlock()
		return echo(ctx, r)
	}
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if most != o.Parallel {
		t.Errorf("%d at once", most)
	}
	if n := strings.Count(read(t, o.Output), "\n"); n != 20 || !slices.Contains(Paths, "/v1/embeddings") {
		t.Errorf("%d answers", n)
	}
}

// An answer may be as long as those of the largest requests are, longer than any request: what is written is read
// again, and what would not be is not written.
func TestLongAnswers(t *testing.T) {
	if vectors := 2048 * 4096 * len("-0.012345679,"); vectors > longestAnswer {
		t.Errorf("%d vectors of %d numbers are not read again", 2048, 4096)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "out.jsonl")
	out, err := openOutput(name, filepath.Join(dir, "in.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	out.most = 300
	err = out.write("a", 200, []byte(`{"n": 1}`))
	long := out.write("b", 200, fmt.Appendf(nil, "%q", strings.Repeat("x", 300)))
	if err = errors.Join(err, out.close()); err != nil || long == nil || !strings.Contains(long.Error(), "at most 300") {
		t.Errorf("%v, %v", err, long)
	}
	if text := read(t, name); strings.Count(text, "\n") != 1 || strings.Contains(text, "xxx") {
		t.Errorf("%q", text)
	}
}

// Answers that count as none are dropped and their requests answered, each once; the others stay as they are. Of a file
// that belongs to another input nothing is dropped.
func TestAgain(t *testing.T) {
	o := files(t, requests(20))
	if r, err := Run(t.Context(), o); err != nil || r.Failed != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	before := read(t, o.Output)
	other := o
	other.Again = func(status int) bool { return status == 400 }
	other.Input = filepath.Join(t.TempDir(), "other")
	write(t, other.Input, requests(10))
	if _, err := Run(t.Context(), other); !errors.Is(err, ErrOutput) || read(t, o.Output) != before {
		t.Errorf("another input: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(o.Output, link); err == nil {
		o.Output = link
	}
	o.Again = other.Again
	var asked atomic.Int64
	o.Do = func(_ context.Context, r Request) (int, []byte) {
		asked.Add(1)
		var b struct{ N int }
		if err := json.Unmarshal(r.Body, &b); err != nil {
			t.Error(err)
		}
		return 200, fmt.Appendf(nil, `{"n": %d}`, b.N)
	}
	r, err := Run(t.Context(), o)
	if err != nil || r.Before != 16 || r.Done != 4 || r.Failed != 0 || asked.Load() != 4 {
		t.Errorf("%+v, %v, asked %d times", r, err, asked.Load())
	}
	after := read(t, o.Output)
	once(t, answers(t, after), 20)
	for line := range strings.Lines(before) {
		if strings.Contains(line, `"wrong"`) == strings.Contains(after, line) {
			t.Errorf("%s", line)
		}
	}
	if r, err := Run(t.Context(), o); err != nil || r.Before != 20 || r.Done != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	dir, err := filepath.EvalSymlinks(o.Output)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

// While answers are dropped no other run can have the output, until another file is in its place: it would go on with
// one that nobody finds any more.
func TestOutputStaysMarkedUntilItIsReplaced(t *testing.T) {
	if !filelock.Works {
		t.Skip("files cannot be locked here")
	}
	o := files(t, requests(5))
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	out, err := openOutput(o.Output, o.Input)
	if err != nil {
		t.Fatal(err)
	}
	out, err = out.without(map[string]bool{"id-4": true}, o.Input, func(old, new string) error {
		if other, err := openOutput(o.Output, o.Input); !errors.Is(err, ErrOutput) {
			t.Errorf("another run has the output: %v", err)
			if err == nil {
				other.close()
			}
		}
		return os.Rename(old, new)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer out.close()
	if len(out.done) != 4 {
		t.Errorf("%v", out.done)
	}
}

// A request that fails for the moment is asked again when all others have been asked, so often and no more; then its
// failure is its answer, until a later run asks again. What is wrong is asked once.
func TestTransientFailuresAreAskedAgain(t *testing.T) {
	o := files(t, requests(6))
	o.Parallel, o.Tries, o.Again = 1, 3, Transient
	var asked []string
	failing := map[string][]int{"id-1": {500, 429}, "id-2": {504, 499, 504, 504}}
	o.Do = func(ctx context.Context, r Request) (int, []byte) {
		asked = append(asked, r.ID)
		if list := failing[r.ID]; len(list) > 0 {
			failing[r.ID] = list[1:]
			return list[0], []byte(`{"error":{"message":"not now"}}`)
		}
		return echo(ctx, r)
	}
	for i, c := range []struct {
		asked        string
		failed, lost int
	}{{"id-0 id-1 id-2 id-3 id-4 id-5 id-1 id-2 id-1 id-2", 2, 1}, {"id-2 id-2", 0, 0}, {"", 0, 0}} {
		asked = nil
		r, err := Run(t.Context(), o)
		if err != nil || strings.Join(asked, " ") != c.asked || r.Before+r.Done != 6 || r.Failed != c.failed {
			t.Errorf("run %d: %+v, %v, asked %v", i, r, err, asked)
		}
		if text := read(t, o.Output); strings.Count(text, "\n") != 6 || strings.Count(text, `"status_code":504`) != c.lost {
			t.Errorf("run %d: %s", i, text)
		}
	}
}

// What a run leaves that was killed while it dropped answers, a copy of all others, is deleted by the next that drops
// some; other files stay.
func TestCopiesOfKilledRunsAreDeleted(t *testing.T) {
	o := files(t, requests(5))
	if r, err := Run(t.Context(), o); err != nil || r.Failed != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	o.Again = func(status int) bool { return status == 400 }
	dir := filepath.Dir(o.Output)
	for _, name := range []string{".out.jsonl-12.part", ".out.jsonl-2-12.part", ".out.jsonl-notes.part"} {
		write(t, filepath.Join(dir, name), "x")
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var names []string
	list, err := os.ReadDir(dir)
	for _, e := range list {
		names = append(names, e.Name())
	}
	if want := ".out.jsonl-2-12.part .out.jsonl-notes.part in.jsonl out.jsonl"; err != nil ||
		strings.Join(names, " ") != want {
		t.Errorf("%v, %v", names, err)
	}
}
