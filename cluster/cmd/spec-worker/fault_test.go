package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/cluster"
	"github.com/specgo/spec/cluster/internal/natstest"
	"github.com/specgo/spec/internal/batch"
)

// The test's program is the command too, so that it can be killed.
func TestMain(m *testing.M) {
	if args := os.Getenv("SPEC_WORKER_ARGS"); args != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := run(ctx, strings.Split(args, "\n"), os.Getenv, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "spec-worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// pair are the flags of the embedded pair.
func pair() []string {
	return []string{"-m", "../../../testdata/go-target.q8_0.gguf", "-md", "../../../testdata/go-draft.q8_0.gguf",
		"-chat-template", "chatml", "-t", "1"}
}

// process is a worker that is killed, paused and started again.
type process struct {
	t    testing.TB
	name string
	args []string
	env  []string

	mu    sync.Mutex
	cmd   *exec.Cmd
	log   *bytes.Buffer
	ended chan error
	over  bool
	all   strings.Builder // logs of those that have ended
}

func (p *process) start() {
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(append(os.Environ(), "SPEC_WORKER_ARGS="+strings.Join(p.args, "\n")), p.env...)
	p.log = new(bytes.Buffer)
	p.cmd.Stderr, p.cmd.Stdout = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		p.t.Error(err)
	}
	p.ended = make(chan error, 1)
	go func(c *exec.Cmd, ended chan error) { ended <- c.Wait() }(p.cmd, p.ended)
}

// kill kills it with signal 9 and starts it again.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended: then its log says why
	err := <-p.ended
	p.all.WriteString(p.log.String())
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Exited() {
		p.t.Errorf("%s ended by itself: %v\n%s", p.name, err, p.log)
	}
	p.start()
}

// pause stops it for a time, in which its leases end.
func (p *process) pause(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

// end has it return its work and end, and returns all that it has logged.
func (p *process) end() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return ""
	}
	p.over = true
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := <-p.ended; err != nil && strings.Contains(p.log.String(), "takes requests") { // else it was starting
		p.t.Errorf("%s: %v\n%s", p.name, err, p.log)
	}
	return p.all.String() + p.log.String()
}

// lines is a batch of n requests of every kind, most of them drawn, with log-probabilities.
func lines(n int) string {
	words := []string{"Push", "Pop", "Len", "String", "Reset", "Close", "Read", "Write", "Next", "Peek"}
	var b strings.Builder
	for i := range n {
		name := words[i%len(words)] + strconv.Itoa(i/len(words))
		path, body := "/v1/completions",
			fmt.Sprintf(`{"prompt":"func (r *Ring) %s(","max_tokens":%d,"logprobs":2}`, name, 4+i%9)
		switch i % 7 {
		case 1:
			path, body = "/v1/chat/completions", fmt.Sprintf(
				`{"messages":[{"role":"user","content":"write %s"}],"max_tokens":8,"logprobs":true,"top_logprobs":2,"n":2}`, name)
		case 2:
			path, body = "/v1/embeddings", fmt.Sprintf(`{"input":["func %s()","type %s"]}`, name, name)
		case 3:
			path, body = "/v1/responses", fmt.Sprintf(`{"input":"write %s","max_output_tokens":8,"temperature":0}`, name)
		case 4:
			path, body = "/v1/completions",
				fmt.Sprintf(`{"prompt":"{\"%s\": ","max_tokens":12,"json_schema":{"type":"integer"},"temperature":1}`, name)
		case 5:
			path, body = "/v1/completions", fmt.Sprintf(`{"prompt":"%s","max_tokens":0.5}`, name) // which is an error
		}
		fmt.Fprintf(&b, `{"custom_id":"id-%d","method":"POST","url":%q,"body":%s}`+"\n", i, path, body)
	}
	return b.String()
}

// answers reads a file of answers.
func answers(t *testing.T, name string) map[string]cluster.Answer {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]cluster.Answer{}
	r := bufio.NewScanner(f)
	r.Buffer(nil, 64<<20)
	for r.Scan() {
		var a struct {
			ID       string `json:"custom_id"`
			Response struct {
				Status int             `json:"status_code"`
				Body   json.RawMessage `json:"body"`
			} `json:"response"`
		}
		if err := json.Unmarshal(r.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		if _, ok := all[a.ID]; ok {
			t.Errorf("%s is answered twice", a.ID)
		}
		all[a.ID] = cluster.Answer{Status: a.Response.Status, Body: a.Response.Body}
	}
	return all
}

// alone answers a batch in this process, as "spec batch" does.
func alone(t *testing.T, o batch.Options, clock time.Time) batch.Report {
	t.Helper()
	var c command
	if err := c.parse(pair(), os.Getenv, os.Stderr); err != nil {
		t.Fatal(err)
	}
	server, _, free, err := c.open(t.Context(), os.Getenv, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	o.Do = func(ctx context.Context, r cluster.Request) (int, []byte) {
		r, err := cluster.Complete(r, clock)
		if err != nil {
			return 400, []byte("{}")
		}
		return server.Do(ctx, r.Path, r.Body)
	}
	r, err := batch.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAnswersAreThoseOfOneProcess has four workers answer a batch, one of them with other kernels, while they are
// killed and paused, requests are handed out twice, and the submission is interrupted: every answer is there once, and
// all are those that one process gives. SPEC_FAULTS is the number of requests; without it 200, and with -short 60.
func TestAnswersAreThoseOfOneProcess(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 60
	}
	if s := os.Getenv("SPEC_FAULTS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	dir, clock := t.TempDir(), time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	o := batch.Options{Input: filepath.Join(dir, "in.jsonl"), Output: filepath.Join(dir, "alone"), Parallel: 8}
	if err := os.WriteFile(o.Input, []byte(lines(n)), 0o644); err != nil {
		t.Fatal(err)
	}
	report := alone(t, o, clock)
	want := answers(t, o.Output)

	url := natstest.Start(t, 0)
	nc := natstest.Connect(t, url)
	const lease = 2 * time.Second
	workers := make([]*process, 4)
	for i := range workers {
		p := &process{t: t, name: fmt.Sprint("worker ", i), args: append(pair(), "-nats", url, "-np", "4", "-lease",
			lease.String(), "-tries", "1000000")}
		if i == 3 {
			p.env = []string{"SPEC_SIMD=" + otherKernels(t)}
		}
		p.start()
		t.Cleanup(func() { p.end() })
		workers[i] = p
	}
	q, err := cluster.OpenQueue(t.Context(), nc, cluster.QueueOptions{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	identity := seen(t, q)
	s, err := cluster.NewSubmitter(t.Context(), cluster.SubmitOptions{Queue: q, Identity: identity, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	c := &chaos{t: t, workers: workers, random: rand.New(rand.NewPCG(1, 2)), nc: nc, lease: lease, input: o.Input, q: q,
		identity: identity, clock: clock}
	step := max(n/40, 2)
	if n > 4000 {
		step = n / 300
	}
	first, interrupt := context.WithCancel(t.Context())
	o.Output, o.Parallel, o.Do = filepath.Join(dir, "cluster"), 64, s.Do
	o.Progress = func(r batch.Report) {
		if r.Done%step == 0 {
			c.act()
		}
		if r.Before == 0 && r.Done == n/2 {
			interrupt()
		}
	}
	if r, err := batch.Run(first, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := batch.Run(t.Context(), o); err != nil || r.Before+r.Done != n || r.Before < n/2 {
		t.Fatalf("%+v, %v", r, err)
	}
	c.all.Wait()
	var log strings.Builder
	for _, p := range workers {
		log.WriteString(p.end())
	}
	if strings.Contains(log.String(), "differs") || strings.Contains(log.String(), "given up") {
		t.Errorf("%s", log.String())
	}
	got := answers(t, o.Output)
	if len(got) != n || len(want) != n {
		t.Errorf("%d answers, %d of one process, want %d", len(got), len(want), n)
	}
	for id, a := range want {
		if same, err := cluster.Same(a, got[id]); err != nil || !same {
			t.Errorf("%s: %v\none process: %s\nworkers:     %s", id, err, a.Body, got[id].Body)
		}
	}
	stored(t, nc, n)
	if wrong := (n + 1) / 7; report.Failed != wrong {
		t.Errorf("%d requests failed, %d are wrong", report.Failed, wrong)
	}
	t.Logf("%d requests, %d of them errors, %d tokens; %d kills, %d pauses, %d handed out twice", n, report.Failed,
		report.CompletionTokens, c.kills, c.pauses, c.twice)
	if c.kills == 0 || c.pauses == 0 || c.twice == 0 {
		t.Error("some kind of fault was not tried")
	}
}

// otherKernels is a kernel set that this machine has beside its best one.
func otherKernels(t *testing.T) string {
	t.Helper()
	if _, err := asm.Select("avx2"); err == nil {
		return "avx2"
	}
	return "scalar"
}

// seen waits for the identity of the workers: all four have the same one.
func seen(t testing.TB, q *cluster.Queue) string {
	t.Helper()
	for {
		all, err := q.Identities(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for sum := range all {
			if len(all) > 1 {
				t.Fatalf("%d identities", len(all))
			}
			return sum
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stored checks that the queue is empty and that each answer is there once.
func stored(t *testing.T, nc *nats.Conn, n int) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{"spec_answers": uint64(n)} {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs != want || uint64(len(info.State.Subjects)) != want {
			t.Errorf("%s: %d messages of %d subjects, want %d", name, info.State.Msgs, len(info.State.Subjects), want)
		}
	}
}

// chaos does things to workers.
type chaos struct {
	t       *testing.T
	workers []*process
	random  *rand.Rand
	nc      *nats.Conn
	lease   time.Duration
	input   string

	q        *cluster.Queue
	identity string
	clock    time.Time

	all                  sync.WaitGroup
	turn                 int
	kills, pauses, twice int
}

// act does the next thing. It is called by one goroutine at a time and does not wait.
func (c *chaos) act() {
	c.turn++
	p := c.workers[c.random.IntN(len(c.workers))]
	switch c.turn % 4 {
	case 0, 1:
		c.kills++
		c.all.Go(p.kill)
	case 2:
		c.pauses++
		c.all.Go(func() { p.pause(c.lease * 3 / 2) })
	case 3: // requests of the batch, from another tenant and with another priority: workers get them twice
		c.twice++
		turn := c.turn
		c.all.Go(func() { c.again(turn) })
	}
}

// again submits the batch's first requests a second time without waiting for their answers.
func (c *chaos) again(turn int) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 300*time.Millisecond)
	defer cancel()
	s, err := cluster.NewSubmitter(c.t.Context(), cluster.SubmitOptions{Queue: c.q, Identity: c.identity, Clock: c.clock,
		Tenant: fmt.Sprint("again-", turn), Priority: cluster.Priorities[turn%3]})
	if err != nil {
		c.t.Error(err)
		return
	}
	defer s.Close()
	out := filepath.Join(c.t.TempDir(), "again")
	r, err := batch.Run(ctx, batch.Options{Input: c.input, Output: out, Parallel: 64, Do: s.Do})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		c.t.Errorf("%+v, %v", r, err)
	}
}
