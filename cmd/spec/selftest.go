package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/specgo/spec/cmd/spec/internal/selftest"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

var selftestCommand = command{
	name:  "selftest",
	does:  "proves on your machine and model that drafts change nothing but time",
	usage: "[-m FILE [-md FILE]] [flags]",
	about: `Checks, and prints a line for each: that the logits depend on the text alone, to the bit, however it is fed,
with every number of threads and every set of kernels; that a text computed in one pass confirms itself; that
every drafter and schedule writes the very text that plain decoding writes, greedy and sampled; and, by a
chi-squared test with its p-value, that every rule keeps the model's distribution. Exit code 1 if anything fails.
Without -m the embedded pair is tested.`,
	setup: func() ([]flag, func(context.Context, *program) error) {
		var (
			m       modelFlags
			draft   string
			prompts string
			asJSON  bool
			c       selftest.Config
		)
		flags := append(m.flags(),
			textFlag("-md, --model-draft, --spec-draft-model", &draft, "FILE", "the draft model"),
			textFlag("--prompts", &prompts, "FILE", `prompts to write after, one {"prompt": TEXT} in a line (default: six, built in)`),
			intFlag("-n, --predict, --n-predict", &c.Tokens, 1, 1<<20, "tokens written after each prompt (default 48, with --quick 24)"),
			intFlag("--draws", &c.Draws, 100, 1<<30, "texts drawn in each chi-squared test (default 20000, with --quick 4000)"),
			switchFlag("--quick", &c.Quick, true, "less of everything"),
			switchFlag("--json", &asJSON, true, "write JSON"))
		return flags, func(ctx context.Context, p *program) (err error) {
			if prompts != "" {
				if c.Prompts, err = readPrompts(prompts); err != nil {
					return err
				}
			}
			c.Runtime = func(simd string, threads int) (*engine.Runtime, error) {
				if simd == "" && threads == 0 {
					return m.runtime(p)
				}
				if threads == 0 {
					threads = max(m.threads, 0)
				}
				return engine.NewRuntime(engine.RuntimeOptions{SIMD: simd, Threads: threads})
			}
			c.Target = func(ctx context.Context, rt *engine.Runtime) (*engine.Model, error) { return m.target(ctx, p, rt) }
			if draft != "" || m.model == "" {
				c.Draft = func(ctx context.Context, rt *engine.Runtime) (*engine.Model, error) {
					return m.open(ctx, p, rt, draft, "draft", testdata.Draft())
				}
			}
			c.ModelDrafters, c.TextDrafters, c.Rules = modelDrafters, map[string]func() speculative.Drafter{}, verifiers
			for name, drafter := range textDrafters {
				if name != "none" {
					c.TextDrafters[name] = drafter
				}
			}
			c.Schedules = map[string]func() speculative.Schedule{}
			for name, schedule := range schedules {
				c.Schedules[name] = func() speculative.Schedule { return schedule(0, -1) }
			}
			if !asJSON {
				c.Report = func(x selftest.Check) { printCheck(p.stdout, x) }
			}
			r, err := selftest.Run(ctx, c)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(p.stdout, r)
			} else {
				_, err = fmt.Fprintf(p.stdout, "%d checks of %s in %.1f s: %d failed\n", len(r.Checks), m.name(), r.Seconds, r.Failed)
			}
			if err == nil && r.Failed > 0 {
				err = fmt.Errorf("%d of %d checks failed", r.Failed, len(r.Checks))
			}
			return err
		}
	},
}

// printCheck writes a line of the verdict.
func printCheck(w io.Writer, c selftest.Check) {
	verdict, p := "ok    ", "        "
	if !c.Passed {
		verdict = "FAILED"
	}
	if c.PValue != nil {
		p = fmt.Sprintf("p %-6.3g", math.Round(*c.PValue*1e3)/1e3)
		if *c.PValue < 1e-3 {
			p = fmt.Sprintf("p %-6.0e", *c.PValue)
		}
	}
	fmt.Fprintf(w, "%s  %-12s  %-32s  %s  %s\n", verdict, c.Promise, c.What, p, c.Detail)
}

// readPrompts reads a file of {"prompt": TEXT} lines.
func readPrompts(path string) (texts []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReader(f))
	for {
		var line struct {
			Prompt *string `json:"prompt"`
		}
		switch err := d.Decode(&line); {
		case errors.Is(err, io.EOF) && len(texts) > 0:
			return texts, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: no prompts", path)
		case err != nil:
			return nil, fmt.Errorf("%s: at byte %d: %w", path, d.InputOffset(), err)
		case line.Prompt == nil:
			return nil, fmt.Errorf("%s: at byte %d: no \"prompt\"", path, d.InputOffset())
		}
		texts = append(texts, *line.Prompt)
	}
}
