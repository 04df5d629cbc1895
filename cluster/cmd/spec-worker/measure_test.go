package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/specgo/spec/cluster"
	"github.com/specgo/spec/cluster/internal/natstest"
	"github.com/specgo/spec/internal/batch"
)

// BenchmarkWorkers answers one batch by turns in this process, as "spec batch" does, by one worker with the same
// threads and requests at once, and by two workers with half of the threads each. It reports medians of paired ratios
// of the time on the clock and of the processors (of one worker also with the NATS server and the submitter, which are
// in this process), and the time on the clock that the queue's operations take of a request.
//
//	go test -run '^$' -bench Workers -benchtime 10x ./cmd/spec-worker
//
// SPEC_MODEL names another target for the embedded draft model, such as one that "spec synth target-1b" writes.
func BenchmarkWorkers(b *testing.B) {
	const threads, parallel, requests = 2, 8, 48
	clock := time.Unix(1e9, 0)
	url := natstest.Start(b, 0)
	nc := natstest.Connect(b, url)
	dir := b.TempDir()
	files := pair()
	if m := os.Getenv("SPEC_MODEL"); m != "" {
		files[1] = m
	}
	flags := append(slices.Clone(files), "-t", strconv.Itoa(threads), "-np", strconv.Itoa(parallel))
	var c command
	if err := c.parse(flags, os.Getenv, io.Discard); err != nil {
		b.Fatal(err)
	}
	server, _, free, err := c.open(b.Context(), os.Getenv, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer free()

	// worker starts workers with a queue of their own, and returns what answers by them, their processes' time, and how
	// many requests they have answered in how much time of the queue.
	worker := func(name string, n int) (do func(context.Context, cluster.Request) (int, []byte), used func() time.Duration,
		queue func() (requests, seconds float64)) {
		var pids []int
		var pages []string
		for range n {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			p := &process{t: b, name: name,
				args: append(slices.Clone(files), "-t", strconv.Itoa(threads/n), "-np", strconv.Itoa(parallel/n),
					"-nats", url, "-queue", name, "-metrics-listen", l.Addr().String())}
			l.Close()
			p.start()
			b.Cleanup(func() { p.end() })
			pids = append(pids, p.cmd.Process.Pid)
			pages = append(pages, "http://"+l.Addr().String()+"/metrics")
		}
		q, err := cluster.OpenQueue(b.Context(), nc, cluster.QueueOptions{Name: name})
		if err != nil {
			b.Fatal(err)
		}
		s, err := cluster.NewSubmitter(b.Context(), cluster.SubmitOptions{Queue: q, Identity: seen(b, q), Clock: clock})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Close)
		for _, page := range pages { // all of them take requests
			for scrape(page, "spec_worker_answers_total") < 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		return s.Do, func() (sum time.Duration) {
				for _, pid := range pids {
					sum += processTime(b, pid)
				}
				return sum
			}, func() (requests, seconds float64) {
				for _, page := range pages {
					requests += scrape(page, `spec_worker_answers_total{status="200"}`)
					seconds += scrape(page, "spec_worker_queue_seconds_total")
				}
				return requests, seconds
			}
	}
	one, usedByOne, queue := worker("one", 1)
	two, usedByTwo, _ := worker("two", 2)
	i := 0
	run := func(do func(context.Context, cluster.Request) (int, []byte), used func() time.Duration) (wall, cpu float64) {
		i++
		o := batch.Options{Input: filepath.Join(dir, fmt.Sprint("in", i)), Output: filepath.Join(dir, fmt.Sprint("out", i)),
			Parallel: 64}
		var text strings.Builder
		for k := range requests { // other prompts each time: nothing is stored, and little is kept
			fmt.Fprintf(&text, `{"custom_id":"%d","url":"/v1/completions","body":{"prompt":"// %d of %d\nfunc (r *Ring) Push(",`+
				`"max_tokens":32,"ignore_eos":true,"seed":1,"temperature":0.5}}`+"\n", k, k, i)
		}
		if err := os.WriteFile(o.Input, []byte(text.String()), 0o644); err != nil {
			b.Fatal(err)
		}
		o.Do = do
		before := used()
		r, err := batch.Run(b.Context(), o)
		if err != nil || r.Failed > 0 {
			b.Fatalf("%+v, %v", r, err)
		}
		return r.Seconds, (used() - before).Seconds()
	}
	own := func() time.Duration { return processTime(b, os.Getpid()) }
	local := func(ctx context.Context, r cluster.Request) (int, []byte) { return server.Do(ctx, r.Path, r.Body) }
	run(local, own)
	run(one, own)
	run(two, own)
	asked, spent := queue()
	var wall1, cpu1, all1, wall2, cpu2 []float64
	for b.Loop() {
		wall, cpu := run(local, own)
		before := own()
		w, u := run(one, usedByOne)
		wall1, cpu1 = append(wall1, wall/w), append(cpu1, cpu/u)
		all1 = append(all1, cpu/(u+(own()-before).Seconds()))
		w, u = run(two, usedByTwo)
		wall2, cpu2 = append(wall2, wall/w), append(cpu2, cpu/u)
	}
	n, seconds := queue()
	for name, list := range map[string][]float64{"one-speed": wall1, "one-cpu": cpu1,
		"one-all-cpu": all1, "two-speed": wall2, "two-cpu": cpu2} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name)
		b.Logf("%s: median %.3f, quartiles %.3f and %.3f of %d", name, list[len(list)/2], list[len(list)/4],
			list[3*len(list)/4], len(list))
	}
	b.ReportMetric(1000*(seconds-spent)/(n-asked), "queue-ms/request")
}

// scrape is a value of a page of metrics; -1: it is not there.
func scrape(page, name string) float64 {
	r, err := http.Get(page)
	if err != nil {
		return -1
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return -1
	}
	value := -1.
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "# TYPE "+name+" ") {
			value = 0 // of a family without values yet
		}
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if x, err := strconv.ParseFloat(strings.TrimSpace(rest), 64); err == nil {
				return x
			}
		}
	}
	return value
}

// processTime is the time of processors that a process has used.
func processTime(b *testing.B, pid int) time.Duration {
	if pid == os.Getpid() {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	words := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.Atoi(words[11]) // proc_pid_stat(5): the kernel writes numbers
	system, _ := strconv.Atoi(words[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
