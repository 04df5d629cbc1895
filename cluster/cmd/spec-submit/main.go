// Command spec-submit puts the requests of a file in OpenAI's batch format into a work queue and writes their answers
// to another file. Interrupted at any moment, the same command goes on.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/specgo/spec/cluster"
	"github.com/specgo/spec/cluster/internal/connect"
	"github.com/specgo/spec/internal/batch"
	"github.com/specgo/spec/internal/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "spec-submit:", terminal.Text(err.Error()))
		}
		code := 1
		if ctx.Err() != nil {
			code = 130
		}
		stop()
		os.Exit(code)
	}
}

type command struct {
	queue            connect.Flags
	input, output    string
	identity         string
	tenant, priority string
	clock            time.Time
	window           int
	retry, json      bool
}

func (c *command) parse(args []string, env func(string) string, stderr io.Writer) error {
	f := flag.NewFlagSet("spec-submit", flag.ContinueOnError)
	f.SetOutput(stderr)
	c.queue.Define(f, env)
	f.StringVar(&c.input, "i", "", "`FILE` of requests, one JSON object a line")
	f.StringVar(&c.output, "o", "", "`FILE` for the answers; its answers are kept, and the others added")
	f.StringVar(&c.identity, "identity", "",
		"beginning of the `SUM` of the identity that is to answer, where workers of several have been seen")
	f.StringVar(&c.tenant, "tenant", "default", "`NAME` of whose requests these are; tenants take turns")
	f.StringVar(&c.priority, "priority", "normal", "high, normal or low: a lower one waits for all of the higher ones")
	f.Func("clock",
		"`TIME` that chat templates read, as 2026-01-31T12:00:00Z (default: when the file was first submitted)",
		func(s string) (err error) {
			c.clock, err = time.Parse(time.RFC3339, s)
			return err
		})
	f.IntVar(&c.window, "window", 4096, "`REQUESTS` that are in the queue at once")
	f.BoolVar(&c.retry, "retry", false, "try requests again that were given up; their lines in -o are replaced")
	f.BoolVar(&c.json, "json", false, "the report as JSON")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("%q is not a flag", f.Arg(0))
	case c.input == "":
		return errors.New("-i is missing: the file of requests")
	case c.output == "":
		return errors.New("-o is missing: the file for the answers")
	case c.window < 1 || c.window > 1<<20:
		return fmt.Errorf("-window %d: from 1 to %d", c.window, 1<<20)
	}
	return nil
}

func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	var c command
	if err := c.parse(args, env, stderr); err != nil {
		return err
	}
	sum, err := fileSum(c.input)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	nc, q, err := c.queue.Open(ctx, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	if c.identity, err = choose(ctx, q, c.identity); err != nil {
		return err
	}
	if c.clock.IsZero() {
		if c.clock, err = q.Clock(ctx, sum, time.Now()); err != nil {
			return err
		}
	}
	s, err := cluster.NewSubmitter(ctx, cluster.SubmitOptions{Queue: q, Identity: c.identity, Tenant: c.tenant,
		Priority: c.priority, Clock: c.clock, Retry: c.retry, Log: log})
	if err != nil {
		return err
	}
	defer s.Close()
	var again func(int) bool
	if c.retry { // what was given up has this status
		again = func(status int) bool { return status == http.StatusInternalServerError }
	}
	bar := terminal.NewBar(stderr, "submit")
	defer bar.Clear()
	r, err := batch.Run(ctx, batch.Options{Input: c.input, Output: c.output, Parallel: c.window, Do: s.Do,
		Again: again,
		Progress: func(r batch.Report) {
			bar.Set(int64(r.Done), int64(r.Requests-r.Before), fmt.Sprintf("%d of %d", r.Before+r.Done, r.Requests))
		}})
	bar.Clear()
	if err != nil {
		if r.Requests > 0 {
			fmt.Fprintf(stderr, "spec-submit: %d of %d requests answered; the same command goes on\n", r.Before+r.Done,
				r.Requests)
		}
		return err
	}
	if c.json {
		return json.NewEncoder(stdout).Encode(r)
	}
	_, err = fmt.Fprintf(stdout, "%d requests, %d answered before, %d now, %d of them with an error; %d prompt tokens, "+
		"%d generated in %.1f s\n", r.Requests, r.Before, r.Done, r.Failed, r.PromptTokens, r.CompletionTokens, r.Seconds)
	return err
}

// fileSum identifies a batch by its content.
func fileSum(name string) (string, error) {
	if err := batch.Readable(name); err != nil {
		return "", err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// choose is the identity whose sum begins as prefix says: there must be one.
func choose(ctx context.Context, q *cluster.Queue, prefix string) (string, error) {
	all, err := q.Identities(ctx)
	if err != nil {
		return "", err
	}
	var fit, lines []string
	for _, sum := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(sum, prefix) {
			fit = append(fit, sum)
			lines = append(lines, fmt.Sprintf("%.12s… (%s)", sum, terminal.Line(all[sum].Model.Name, 60)))
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) > 1:
		return "", fmt.Errorf("-identity: several have been seen: %s", strings.Join(lines, ", "))
	case len(all) == 0:
		return "", errors.New("no worker has been seen in this queue, so nothing says which model is to answer")
	}
	return "", fmt.Errorf("-identity %s: no worker of such an identity has been seen", prefix)
}
