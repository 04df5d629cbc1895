package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/fleet"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/strictjson"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/internal/units"
)

// sizing is what plan --fleet is asked.
type sizing struct {
	on                    bool
	figures               string // a file of spec bench --json; "": the passes are measured
	capacity              capacity
	prompt, answer        int
	spread                float32
	load                  float32
	first, last           float32 // bounds in seconds; 0: none
	price                 float32
	mostPrompt, mostReply int // tokens
}

func newSizing() sizing { return sizing{prompt: 512, answer: 128, spread: 1} }

func (z *sizing) rows() []flag {
	rows := []flag{
		fileFlag("--figures", &z.figures, "FILE", "what spec bench --json has measured, instead of measuring").
			or("measured for --seconds"),
		z.capacity.parallelRow("answers at once of a machine", 0).or("what needs the fewest machines"),
		intFlag("--prompt-tokens", &z.prompt, 1, mostFleetTokens, "tokens of a prompt, the mean").or("512"),
		intFlag("--answer-tokens", &z.answer, 1, mostFleetTokens, "tokens of an answer, the mean").or("128"),
		floatFlag("--spread", &z.spread, 0, 10, "standard deviation of both over the mean; 0: all alike").or("1"),
		floatFlag("--load", &z.load, 1e-6, 1e9, "requests per second that the machines get together"),
		floatFlag("--first-token", &z.first, 1e-6, 1e6, "seconds within which 95 of 100 requests have their first token"),
		floatFlag("--answer-time", &z.last, 1e-6, 1e6, "likewise their last one"),
		floatFlag("--core-price", &z.price, 0, 1e6, "price of a core for an hour, in any currency"),
	}
	for i := range rows {
		rows[i] = rows[i].when(func() bool { return z.on })
	}
	return append([]flag{switchFlag("--fleet", &z.on, true, "predict requests per second and times of machines that "+
		"serve the model without drafts, instead of a speedup")}, rows...)
}

const (
	mostFleetTokens = 1 << 20
	mostFigures     = 16 << 20 // bytes of a file
)

func (x *planning) checkFleet() error {
	z, usual := &x.fleet, newSizing()
	bounded := z.first > 0 || z.last > 0
	switch {
	case !z.on && (z.figures != "" || z.load > 0 || bounded || z.price > 0):
		return usagef("--figures, --load, --first-token, --answer-time and --core-price go with --fleet")
	case !z.on && (z.capacity.parallel > 0 || z.prompt != usual.prompt || z.answer != usual.answer ||
		z.spread != usual.spread):
		return usagef("--prompt-tokens, --answer-tokens, --spread and -np go with --fleet")
	case !z.on:
		return nil
	case x.results.format == "md":
		return usagef("-o md: --fleet writes text, csv and json")
	case x.draft != "":
		return usagef("--fleet excludes -md: it predicts machines without drafts, whose gain plan tells without --fleet")
	case x.text.given || x.text.file != "" || x.prompts != "":
		return usagef("--fleet excludes -p, -f and --prompts: its prompts are numbers of tokens (--prompt-tokens)")
	case z.figures != "" && x.model != "":
		return usagef("--figures excludes -m: the file says what was measured")
	case z.load > 0 && !bounded:
		return usagef("--load goes with --first-token or --answer-time: how long requests may take")
	case z.load == 0 && bounded:
		return usagef("--first-token and --answer-time go with --load")
	}
	return nil
}

// fleetPlan is what "spec plan --fleet --json" prints.
type fleetPlan struct {
	Schema         int    `json:"schema"`
	results.Origin        // of the figures
	Model          string `json:"model"`
	fleet.Prediction
}

func (x *planning) runFleet(ctx context.Context, p *program) error {
	z := &x.fleet
	from, err := x.figures(ctx, p)
	if err != nil {
		return err
	}
	q := fleet.Question{
		Load: fleet.Load{Rate: wide64(z.load),
			Prompt: fleet.Lengths{Mean: float64(z.prompt), Spread: wide64(z.spread), Most: z.mostPrompt},
			Answer: fleet.Lengths{Mean: float64(z.answer), Spread: wide64(z.spread), Most: z.mostReply}},
		Bounds: fleet.Bounds{First: wide64(z.first), Answer: wide64(z.last)},
		Places: z.capacity.parallel, Cores: from.Threads, Price: wide64(z.price), Seed: uint64(x.seed),
	}
	if q.Costs, err = fleet.Read(from.Rows); err == nil && from.Threads < 1 {
		err = fmt.Errorf("threads: %d", from.Threads)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", z.figures, err) // those that were measured can be read
	}
	if most := q.Costs.Most(); q.Places > most {
		return fmt.Errorf("-np %d: %s has passes of up to %d sequences; spec bench --batch measures those of more", q.Places,
			z.figures, most)
	}
	r := fleetPlan{1, from.Origin, from.Model, fleet.Prediction{}}
	if r.Prediction, err = fleet.Plan(ctx, q); err != nil {
		return err
	}
	if done, err := writeForPrograms(&x.results, p.stdout, r, r.Uses); done {
		return err
	}
	return r.text(p.stdout, terminal.Width(p.stdout))
}

// wide64 is the decimal number that was read as x.
func wide64(x float32) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64) // it was just written
	return v
}

// figures are those of the file, or are measured.
func (x *planning) figures(ctx context.Context, p *program) (r report, err error) {
	z := &x.fleet
	if z.figures != "" {
		z.mostPrompt, z.mostReply = mostFleetTokens, mostFleetTokens
		if err := regularFile(z.figures); err != nil {
			return r, err
		}
		f, err := os.Open(z.figures)
		if err != nil {
			return r, err
		}
		defer f.Close()
		err = strictjson.Decode(f, mostFigures, &r)
		if err == nil && r.Schema != 1 {
			err = fmt.Errorf("schema %d: not that of spec bench --json, 1", r.Schema)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", z.figures, err)
		}
		return r, err
	}
	rt, err := x.runtime(p)
	if err != nil {
		return r, err
	}
	defer rt.Close()
	m, err := x.target(ctx, p, rt)
	if err != nil {
		return r, err
	}
	defer m.Close()
	if err := decoderOnly(m, x.name(), "plan does not measure them; spec bench does"); err != nil {
		return r, err
	}
	size, err := contextSize(x.config.Context, m, x.name())
	if err != nil {
		return r, err
	}
	if z.prompt+z.answer > size {
		return r, fmt.Errorf("--prompt-tokens %d and --answer-tokens %d: %s has a context of %d tokens", z.prompt, z.answer,
			x.name(), size)
	}
	z.mostPrompt = size - 1
	z.mostReply = z.mostPrompt
	b := benchmark{modelFlags: x.modelFlags, o: z.passes(size), deep: true}
	b.o.Budget = time.Duration(float64(x.seconds) / float64(fleetRows) * float64(time.Second))
	if b.o.KV, err = x.cache.kvType(); err != nil {
		return r, err
	}
	if err := b.fit(m); err != nil {
		return r, err
	}
	origin, err := b.benched(ctx, p, rt)
	if err != nil {
		return r, err
	}
	rows, _, err := b.measure(ctx, p, m)
	return report{1, origin, m.Config().Name, m.Bytes(), 0, rows}, err
}

// fleetRows is about how many measurements share the time.
const fleetRows = 8

// passes are the measurements: batches of up to as many answers as are asked for, prompts as long as the requests', and
// tokens at their positions.
func (z *sizing) passes(size int) bench.Options {
	const (
		decode = 8
		most   = 32 // answers at once, unless more are asked for
	)
	o := bench.Options{Prefill: []int{min(z.prompt, size)}, Contexts: []int{0}, Decode: min(decode, size), Sampled: 12,
		Repeats: 3}
	if z.prompt > engine.PassRows {
		o.Prefill = append(o.Prefill, engine.PassRows)
	}
	if deep := min(z.prompt+z.answer, size-o.Decode); deep > 0 {
		o.Contexts = append(o.Contexts, deep)
	}
	asked := z.capacity.parallel
	if asked == 0 {
		asked = most
	}
	for n := 1; n < asked; n *= 2 {
		o.Batches = append(o.Batches, n)
	}
	o.Batches = append(o.Batches, asked)
	return o
}

// three and four write numbers with so many digits.
func three(x float64) string { return units.Number(x, 3) }
func four(x float64) string  { return units.Number(x, 4) }

func (r *fleetPlan) text(w io.Writer, width int) error {
	line := func(head, format string, a ...any) {
		io.WriteString(w, terminal.Columns(head, fmt.Sprintf(format, a...), 14, width))
	}
	line("figures", "%s on %s, %s, %d threads", r.Model, r.CPU, r.SIMD, r.Threads)
	line("requests", "prompts of %.0f tokens, answers of %.0f, at random times", r.Prompt, r.Reply)
	line("one machine", "at most %s requests/s, %s per core, with %d answers at once; %s tokens/s of answers",
		three(r.Capacity), three(r.PerCore), r.Places, four(r.Capacity*r.Reply))
	table := terminal.Table{Columns: []terminal.Column{{Head: "of that"}, {Head: "requests/s", Drop: 1},
		{Head: "first token"}, {Head: "95 of 100"}, {Head: "answer", Drop: 2}, {Head: "95 of 100"}}}
	seconds := func(x float64) string { return three(x) + " s" }
	for _, u := range r.Uses {
		table.Rows = append(table.Rows, []string{fmt.Sprintf("%.0f %%", 100*u.Share), three(u.Rate),
			seconds(u.FirstMedian), seconds(u.First), seconds(u.Median), seconds(u.Answer)})
	}
	text, _ := table.String(width)
	io.WriteString(w, "\n"+text+"\n")
	if r.Machines > 0 {
		u, load := r.Each, r.Prediction.Load
		line("machines", "%d for %s requests/s: each at %.0f %%, with 95 of 100 first tokens within %s and 95 of 100 "+
			"answers within %s", r.Machines, four(load), 100*u.Share, seconds(u.First), seconds(u.Answer))
	}
	if r.Price > 0 {
		of := "a machine that always has requests waiting"
		if r.Machines > 0 {
			of = "these machines"
		}
		line("price", "%s for a million tokens of answers, %s counting those of prompts: %s at %s for a core's hour",
			four(r.PerAnswers), four(r.PerTokens), of, four(r.Price))
	}
	_, err := io.WriteString(w, terminal.Wrap("Predicted by simulating requests in passes that take what was measured. "+
		"Drafts and prompts that begin alike make it faster; templates, tokenizers and sockets are not counted. Requests go "+
		"to machines at random.", width))
	return err
}
