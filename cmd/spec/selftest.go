package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/specgo/spec/cmd/spec/internal/selftest"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

var selftestCommand = command{
	name:  "selftest",
	does:  "check on your machine and model that speculation changes only the speed",
	usage: "[-m FILE [-md FILE]] [flags]",
	about: `Runs these checks and prints a line for each:

  one answer     the logits depend on the sequence alone, bit for bit: not on how it is split into passes, the number of threads, or the set of kernels
  confirmation   a generated sequence, computed again in one pass, gives the same tokens
  same text      every drafter and schedule, those of a draft head among them, gives the text of plain decoding, greedy and sampled
  distribution   every verifier keeps the model's distribution, by a chi-squared test with its p-value

The exit code is 1 if a check fails. Without -m the embedded pair is tested.`,
	new: func() job { return &selfTest{} },
}

// selfTest is the command's options.
type selfTest struct {
	modelFlags
	draft   string
	prompts string
	single  givenPrompts
	json    bool
	config  selftest.Config
}

func (x *selfTest) flags() []group {
	c := &x.config
	return []group{
		{"model", append(x.modelFlags.rows(),
			draftRows("the draft model", "the draft model", func(file string) { x.draft = file })...)},
		{"prompts", x.single.rows()},
		{"measurement", []flag{
			promptsRow(&x.prompts).or("six, built in"),
			lengthRow(&c.Tokens, 1, 1<<20, "tokens generated after each prompt", "48, with --quick 24"),
			intFlag("--draws", &c.Draws, 100, 1<<30, "texts drawn in each chi-squared test").or("20000, with --quick 4000"),
			switchFlag("--quick", &c.Quick, true, "fewer prompts, tokens and draws"),
		}},
		{"output", []flag{jsonRow(&x.json)}},
		withoutEffect(ignoredRows(), ignoredModes()),
	}
}

func (x *selfTest) check() error {
	if x.prompts != "" && len(x.single.list) > 0 {
		return usagef("--prompts excludes -p and -f")
	}
	return nil
}

func (x *selfTest) run(ctx context.Context, p *program) (err error) {
	c := x.config
	origin := results.Here()
	var from results.File
	switch {
	case x.prompts != "":
		if c.Prompts, from, err = readPrompts(ctx, x.prompts); err != nil {
			return err
		}
	case len(x.single.list) > 0:
		set, err := x.single.set(ctx, p)
		if err != nil {
			return err
		}
		c.Prompts, from = textsOf(set), set.File
	default:
		from = results.TextFile("built-in", []byte(strings.Join(c.Texts(), "\x00")))
	}
	tokens, rows := c.Needs()
	x.sessions = engine.Sessions{Tokens: tokens, Rows: max(rows, treeRows), Heads: true}
	if x.draft != "" {
		x.beside = []string{x.draft}
	}
	c.Runtime = func(simd string, threads int) (*engine.Runtime, error) {
		if simd == "" && threads == 0 {
			return x.runtime(p)
		}
		if threads == 0 {
			threads = max(x.threads, 0)
		}
		return engine.NewRuntime(engine.RuntimeOptions{SIMD: simd, Threads: threads, NUMA: x.numa})
	}
	c.Target = func(ctx context.Context, rt *engine.Runtime) (*engine.Model, error) {
		m, err := x.target(ctx, p, rt)
		if err != nil {
			return nil, err
		}
		if err := decoderOnly(m, x.name(), "the checks feed texts to decoders"); err != nil {
			m.Close()
			return nil, err
		}
		return m, nil
	}
	if x.draft != "" || x.model == "" {
		c.Draft = func(ctx context.Context, rt *engine.Runtime, target *engine.Model) (*engine.Model, error) {
			m, err := x.openDraft(ctx, p, rt, target, x.draft, "draft", testdata.Draft())
			if err == nil && m.Head() != nil && m.Head().SharesCache {
				m.Close()
				return nil, fmt.Errorf("-md %s: a draft head that looks at its target's cache, whose drafts selftest does not "+
					"check", x.draft)
			}
			if err == nil {
				if err = x.drafter(target, m, x.draft); err != nil {
					m.Close()
				}
			}
			return m, err
		}
	}
	if x.draft == "" {
		c.Head = func(ctx context.Context, rt *engine.Runtime, target *engine.Model) (*engine.Model, error) {
			switch {
			case x.model == "":
				return x.openDraft(ctx, p, rt, target, "", "head", testdata.Head())
			case target.HasMTP():
				return x.openMTP(ctx, p, rt, target)
			}
			return nil, nil
		}
	}
	c.Drafters = speculative.Drafters()
	c.Schedules, c.Verifiers = makers(speculative.Schedules()), makers(speculative.Verifiers())
	if !x.json {
		c.Report = func(k selftest.Check) { printCheck(p.stdout, k, terminal.Width(p.stdout)) }
	}
	r, err := selftest.Run(ctx, c)
	if err != nil {
		return err
	}
	if x.json {
		origin.SIMD, origin.Threads = strings.Join(r.Kernels, ","), r.Threads
		origin.Prompts = append(origin.Prompts, from)
		if origin.Models, err = x.files(ctx, p, x.draftFiles()...); err != nil {
			return err
		}
		err = printJSON(p.stdout, selfTestReport{r, origin})
	} else {
		_, err = fmt.Fprintf(p.stdout, "%d checks of %s in %.1f s: %d failed\n", len(r.Checks), terminal.Line(x.name(), 0),
			r.Seconds, r.Failed)
	}
	if err == nil && r.Failed > 0 {
		err = fmt.Errorf("%d of %d checks failed", r.Failed, len(r.Checks))
	}
	return err
}

// selfTestReport is what "spec selftest --json" prints.
type selfTestReport struct {
	selftest.Result
	results.Origin
}

// draftFiles are the models that draft: embedded ones for an embedded target.
func (x *selfTest) draftFiles() []string {
	switch {
	case x.draft != "":
		return []string{x.draft}
	case x.model == "":
		return []string{"", embeddedHead}
	}
	return nil
}

// makers are those of a list that need nothing, but for comparisons.
func makers[T any](list []speculative.Named[T]) map[string]func() T {
	m := map[string]func() T{}
	for _, n := range list {
		if !n.Study {
			m[n.Name] = func() T {
				x, _ := n.New(speculative.Parts{}) // which asks for nothing that could be missing
				return x
			}
		}
	}
	return m
}

// printCheck writes the outcome of a check, its details wrapped in the last column.
func printCheck(w io.Writer, c selftest.Check, width int) {
	verdict, detail := "ok    ", c.Detail
	if !c.Passed {
		verdict = "FAILED"
	}
	if c.PValue != nil {
		p := fmt.Sprintf("p %.3g", math.Round(*c.PValue*1e3)/1e3)
		if *c.PValue < 1e-3 {
			p = fmt.Sprintf("p %.0e", *c.PValue)
		}
		detail = p + ", " + detail
	}
	left := fmt.Sprintf("%s  %-12s  %-30s  ", verdict, c.Promise, terminal.Line(c.What, 0))
	column := len("FAILED  distribution  ") + 32
	if width < column+30 {
		column = 8
	}
	io.WriteString(w, terminal.Columns(left, terminal.Line(detail, 0), column, width))
}

// promptsLimit is the most bytes of a file of prompts.
const promptsLimit = 256 << 20

// promptsRow is --prompts of commands that read one set.
func promptsRow(p *string) flag {
	return fileFlag("--prompts", p, "FILE", `prompts: lines {"prompt"}, a plain text that is one, or a built-in set: `+
		strings.Join(builtinSets, ", ")).takes(builtinSets...)
}

// builtinSets are the names of prompts that the program has.
var builtinSets = []string{"code", "copy", "open"}

// readPrompts reads a set of prompts: what compare reads.
func readPrompts(ctx context.Context, path string) (texts []string, file results.File, err error) {
	set, err := readSet(ctx, path)
	return textsOf(set), set.File, err
}

func textsOf(set compare.Set) (texts []string) {
	for _, p := range set.Prompts {
		texts = append(texts, p.Text)
	}
	return texts
}
