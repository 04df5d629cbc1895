package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/cluster"
	"github.com/specgo/spec/cluster/internal/natstest"
	"github.com/specgo/spec/internal/batch"
)

// A file's requests are answered by the only identity that there is, and the same command adds what is missing. With
// two identities one must be chosen; what cannot be is refused by its flag.
func TestFileIsSubmitted(t *testing.T) {
	url := natstest.Start(t, 0)
	q, err := cluster.OpenQueue(t.Context(), natstest.Connect(t, url), cluster.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	input, output := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, `{"custom_id":"id-%d","url":"/v1/chat/completions","body":{"n":%d}}`+"\n", i, i)
	}
	if err := os.WriteFile(input, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	submit := func(args ...string) (batch.Report, error) {
		var out, errs bytes.Buffer
		err := run(t.Context(), append([]string{"-nats", url, "-i", input, "-o", output, "-json"}, args...),
			func(string) string { return "" }, &out, &errs)
		var r batch.Report
		if err == nil {
			err = json.Unmarshal(out.Bytes(), &r)
		}
		return r, err
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if _, err := submit(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
	refused("no worker has been seen")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	worker := func(name string) {
		var id spec.Identity
		id.Model.Model, id.Model.Name = name, name
		w, err := cluster.NewWorker(ctx, cluster.WorkerOptions{Queue: q, Identity: id, Parallel: 4,
			Do: func(_ context.Context, r cluster.Request) (int, []byte) {
				if !strings.Contains(string(r.Body), `"clock":"2026-01-31T12:00:00Z"`) {
					return 400, r.Body
				}
				return 200, fmt.Appendf(nil, `{"by":%q}`, name)
			}})
		if err != nil {
			t.Fatal(err)
		}
		go w.Run(ctx)
	}
	worker("one")
	const clock = "-clock=2026-01-31T12:00:00Z"
	if r, err := submit(clock); err != nil || r.Done != 20 || r.Failed != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	whole, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(output, whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := submit(clock); err != nil || r.Before+r.Done != 20 || r.Before < 5 || r.Done < 5 {
		t.Errorf("%+v, %v", r, err)
	}
	worker("two")
	refused("several have been seen")
	refused("no worker of such an identity", "-identity", "xyz")
	refused("tenant", "-tenant", "a b", "-identity", sum(t, q, "two"))
	refused("priority", "-priority", "first", "-identity", sum(t, q, "two"))
	refused("-window", "-window", "0")
	refused("not a regular file", "-i", os.DevNull) // its lines would be read twice, and of a pipe they come once
	refused("is not a flag", "more")
	refused("-lease", "-lease", "1m") // which are of workers: they make the lanes
	refused("-in-flight", "-in-flight", "5")
	output = filepath.Join(dir, "two.jsonl")
	if r, err := submit(clock, "-identity", sum(t, q, "two")[:8]); err != nil || r.Done != 20 || r.Failed != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got, _ := os.ReadFile(output); strings.Count(string(got), `{"by":"two"}`) != 20 {
		t.Errorf("%s", got)
	}
}

// sum is that of the identity of a name.
func sum(t *testing.T, q *cluster.Queue, name string) string {
	t.Helper()
	all, err := q.Identities(t.Context())
	for sum, id := range all {
		if id.Model.Name == name {
			return sum
		}
	}
	t.Fatal(name, err)
	return ""
}

// Lines that were given up are told again by the same command, and tried again with -retry: the same file has their
// answers then, each once.
func TestRetryIsOfTheSameFile(t *testing.T) {
	url := natstest.Start(t, 0)
	q, err := cluster.OpenQueue(t.Context(), natstest.Connect(t, url), cluster.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	input, output := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	var text strings.Builder
	for i := range 4 {
		fmt.Fprintf(&text, `{"custom_id":"id-%d","url":"/v1/completions","body":{"n":%d}}`+"\n", i, i)
	}
	if err := os.WriteFile(input, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var healed atomic.Bool
	var id spec.Identity
	id.Model.Model = "one"
	w, err := cluster.NewWorker(t.Context(), cluster.WorkerOptions{Queue: q, Identity: id, Tries: 1,
		Do: func(_ context.Context, r cluster.Request) (int, []byte) {
			if strings.Contains(string(r.Body), `"n":1`) && !healed.Load() {
				return 504, []byte(`{"error":"it takes too long"}`)
			}
			return 200, []byte(`{}`)
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go w.Run(ctx)
	for i, want := range []struct{ before, done, failed, lost int }{
		{0, 4, 1, 1}, {4, 0, 0, 1}, {3, 1, 1, 1}, {3, 1, 0, 0},
	} {
		args := []string{"-nats", url, "-i", input, "-o", output, "-json"}
		if i >= 2 {
			args = append(args, "-retry")
		}
		healed.Store(i == 3)
		var out, errs bytes.Buffer
		err := run(t.Context(), args, func(string) string { return "" }, &out, &errs)
		var r batch.Report
		if err == nil {
			err = json.Unmarshal(out.Bytes(), &r)
		}
		if err != nil || r.Before != want.before || r.Done != want.done || r.Failed != want.failed {
			t.Errorf("%d: %+v, %v", i, r, err)
		}
		got, err := os.ReadFile(output)
		if err != nil || strings.Count(string(got), "\n") != 4 || strings.Count(string(got), "dead_letter") != want.lost {
			t.Errorf("%d: %s, %v", i, got, err)
		}
	}
}
