package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/plan"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/internal/units"
	"github.com/specgo/spec/testdata"
)

// planPrompts are what a pair is tried on unless told otherwise.
var planPrompts = []string{
	"// Reverse returns s with its bytes in reverse order.\nfunc Reverse(s string) string {\n",
	"package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() {\n",
	"The first thing to know about lighthouses is that",
}

var planCommand = command{
	name:  "plan",
	does:  "predict the speedup of a draft model or head, or what a fleet of machines needs",
	usage: "-m TARGET [-md DRAFT] [-p TEXT | -f FILE | --prompts FILE | --fleet] [flags]",
	about: `Measures for a few seconds how long the draft model's steps and the target's passes over 1 to 17 tokens take (up to 256 where those of 17 take little longer than those of one, as when weights are read from disk), and how often the two agree on your prompts. From that it predicts the speedup of each draft length: by the formula of Leviathan et al., which takes acceptances to be independent, and over the measured texts, where they come in clusters. It advises whether to use the draft model.

-md may be a draft head; without -md, a model that has an MTP block in its file is tried with that, and any other one with itself in fewer bits (--drafter self), where that is enough smaller.

--fleet predicts machines that serve the model instead: requests per second and core, times to the first token and to the last, how many machines a load needs and what a million tokens cost. It measures passes of several answers and of prompts, or takes them from spec bench --json (--figures), and simulates requests that arrive at random (a Poisson process, with lengths of a log-normal distribution) in the policy by which spec serve shares passes.`,
	new: func() job { return newPlanning() },
}

// planning is the command's options.
type planning struct {
	modelFlags
	cache   kvFlags
	text    promptFlags
	draft   string
	prompts string
	seconds float32
	seed    int
	results resultFlags
	config  plan.Config
	fleet   sizing
}

func newPlanning() *planning {
	return &planning{seconds: 6, results: asText, config: plan.Config{Tokens: 128, Sampling: newGenerate().sampling},
		fleet: newSizing()}
}

func (x *planning) flags() []group {
	c := &x.config
	model, measured := x.modelFlags.rows(), func() bool { return x.fleet.figures == "" }
	drafts := append(x.adapters.rows(),
		draftRows("the draft model", "the draft model", func(file string) { x.draft = file })...)
	prompts := append(x.text.rows("a prompt", "three, built in"), promptsRow(&x.prompts))
	for i, f := range model {
		if f.sets() == fieldModel {
			model[i] = f.when(measured)
		}
	}
	for _, list := range [][]flag{drafts, prompts} { // of a pair
		for i, f := range list {
			list[i] = f.when(func() bool { return !x.fleet.on })
		}
	}
	return []group{
		{"model", append(model, drafts...)},
		{"cache", append([]flag{contextRow(&c.Context, "context in tokens")}, x.cache.rows()...)},
		{"prompt", prompts},
		{"sampling", []flag{lengthRow(&c.Tokens, 16, math.MaxInt32, "tokens to generate after each prompt", "128"),
			temperatureRow(&c.Sampling.Temperature, "0.8"), noiseRow(&x.seed, "0")}},
		{"measurement", []flag{floatFlag("--seconds", &x.seconds, 0.1, 3600, "time to measure").or("6")}},
		{"fleet", x.fleet.rows()},
		{"output", x.results.rows("SPEC_PLAN_OUTPUT")},
		withoutEffect(ignoredRows(), ignoredModes()),
	}
}

func (x *planning) check() error {
	if err := x.checkFleet(); err != nil {
		return err
	}
	if x.fleet.on && len(x.adapters.adapters) > 0 {
		return usagef("--fleet excludes --lora and --lora-scaled: it measures passes of the model alone")
	}
	if holds(x.model, engine.KindEncoder) {
		return usagef("-m %s: an encoder, which writes no text to draft; spec bench measures it", x.model)
	}
	if (x.text.given || x.text.file != "") && x.prompts != "" {
		return usagef("--prompts excludes -p and -f")
	}
	if _, err := x.cache.kvType(); err != nil {
		return err
	}
	return x.text.check()
}

func (x *planning) run(ctx context.Context, p *program) error {
	if x.fleet.on {
		return x.runFleet(ctx, p)
	}
	texts, from, err := x.texts(ctx, p)
	if err != nil {
		return err
	}
	rt, err := x.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	c := x.config
	kv, _ := x.cache.kvType() // checked
	x.beside = []string{x.draft}
	x.sessions = engine.Sessions{Tokens: c.Context, KV: kv, Rows: 1 + plan.Farthest, Heads: true}
	if c.Target, err = x.target(ctx, p, rt); err != nil {
		return err
	}
	if err := decoderOnly(c.Target, x.name(), "plan does not measure pairs of them; spec compare does"); err != nil {
		return err
	}
	if c.Context, err = contextSize(c.Context, c.Target, x.name()); err != nil {
		return err
	}
	if c.KV, err = x.cache.kvType(); err != nil {
		return err
	}
	adapters, err := x.adapters.open(ctx, c.Target)
	if err != nil {
		return err
	}
	if c.Adapters, err = engine.NewAdapterSet(adapters...); err != nil {
		return err
	}
	switch {
	case x.model == "" || x.draft != "":
		c.Draft, err = x.openDraft(ctx, p, rt, c.Target, x.draft, "draft", testdata.Draft())
	case c.Target.HasMTP():
		c.Draft, err = x.openMTP(ctx, p, rt, c.Target)
	default:
		if form := c.Target.PlanDraftForm(); !form.Gains() {
			return usagef("a pair needs a draft model or head: -md FILE; the model in fewer bits (--drafter self) would " +
				"not be enough smaller")
		}
		c.Draft = c.Target
		c.Form, err = c.Target.NewDraftForm(ctx, engine.DraftFormOptions{Most: max(x.draftFormRoom(c.Target), 1)})
	}
	if err != nil {
		return err
	}
	if h := c.Draft.Head(); h != nil && h.SharesCache {
		return fmt.Errorf("-md %s: a draft head that looks at its target's cache, whose drafts plan does not follow; spec "+
			"compare --drafter mtp measures it", x.draft)
	}
	if err := x.drafter(c.Target, c.Draft, x.draft); err != nil {
		return err
	}
	tok := c.Target.Tokenizer()
	for _, s := range texts {
		ids := tok.Encode(s, bpe.EncodeOptions{AddSpecial: true})
		if len(ids) == 0 {
			return errors.New("a prompt is empty")
		}
		c.Prompts = append(c.Prompts, ids)
	}
	c.Sampling.Seed, c.Seconds = uint64(x.seed), float64(x.seconds)
	bar := terminal.NewBar(p.stderr, "measuring")
	defer bar.Clear()
	c.Progress = func(share float64) {
		const whole = 1 << 20
		bar.Set(int64(share*whole), whole, "")
	}
	disk := ""
	if m := c.Target.Memory(); m.Streams() && x.model != "" {
		if disk, err = placement(ctx, m, x.model); err != nil {
			return err
		}
	}
	origin, err := x.origin(ctx, p, rt, x.draftFiles()...)
	if err != nil {
		return err
	}
	origin.Prompts = append(origin.Prompts, from)
	r, err := plan.Run(ctx, c)
	if err != nil {
		return err
	}
	bar.Clear()
	report := planReport{Origin: origin, Prediction: r}
	if done, err := writeForPrograms(&x.results, p.stdout, report, r.Lengths); done {
		return err
	}
	if disk != "" {
		io.WriteString(p.stdout, terminal.Columns("disk", disk, 14, terminal.Width(p.stdout)))
	}
	return printPlan(p.stdout, c, r, terminal.Width(p.stdout))
}

// hasMTP reports whether a model's file says that it has an MTP block.
func hasMTP(path string) bool {
	if regularFile(path) != nil { // opening a pipe waits for a writer
		return false
	}
	f, err := gguf.OpenFile(path)
	if err != nil {
		return false
	}
	defer f.Close()
	arch, _ := f.String("general.architecture")
	n, err := f.Uint32(arch + ".nextn_predict_layers")
	return err == nil && n > 0
}

// planReport is what "spec plan --json" prints.
type planReport struct {
	results.Origin
	plan.Prediction
}

// draftFiles are the models that draft, beside the target itself.
func (x *planning) draftFiles() []string {
	if x.draft == "" && x.model != "" {
		return nil
	}
	return []string{x.draft}
}

// texts are the prompts, wherever they come from, and what a file of results calls them.
func (x *planning) texts(ctx context.Context, p *program) ([]string, results.File, error) {
	switch {
	case x.text.given || x.text.file != "":
		source, err := x.text.open(ctx, p)
		if err != nil {
			return nil, results.File{}, err
		}
		s, err := readText(ctx, source)
		return []string{s}, results.TextFile(x.text.title(), []byte(s)), err
	case x.prompts != "":
		return readPrompts(ctx, x.prompts)
	}
	return planPrompts, results.TextFile("built-in", []byte(strings.Join(planPrompts, "\x00"))), nil
}

// planAcceptances are acceptance rates for which the formula is tabulated besides the measured one.
var planAcceptances = []float64{0.5, 0.6, 0.7, 0.8, 0.9}

// isListed reports whether the table has a row of a draft length: behind 8 of every second one, and of the best.
func isListed(length, best int) bool {
	return length <= 8 || length >= plan.Longest || length%2 == 0 || length == best
}

func printPlan(w io.Writer, c plan.Config, r plan.Prediction, width int) error {
	const ms = 1e3
	draft := "draft model"
	if r.Head {
		draft = "draft head"
	}
	size := func(m *engine.Model) string {
		return units.Count(m.Parameters()) + " weights, " + units.Bytes(m.Bytes())
	}
	drafting := size(c.Draft)
	if r.Self {
		draft, drafting = "draft form", units.Bytes(c.Form.Bytes())+" more memory"
	}
	for _, line := range [][2]string{
		{"target", fmt.Sprintf("%s, %.2f ms per token", size(c.Target), ms*r.Plain)},
		{draft, fmt.Sprintf("%s, %.2f ms per token, %.1f times smaller", drafting, ms*r.Step, r.SizeRatio)},
		{"acceptance", fmt.Sprintf("%.2f over %d tokens, each after the target's own text", r.Acceptance, r.Tokens)},
	} {
		io.WriteString(w, terminal.Columns(line[0], line[1], 14, width))
	}
	fmt.Fprintln(w)
	table := terminal.Table{Columns: []terminal.Column{
		{Head: "length"}, {Head: "draft ms"}, {Head: "verify ms", Drop: 7}, {Head: "measured"},
		{Head: fmt.Sprintf("formula %.2f", r.Acceptance)},
	}}
	for i, a := range planAcceptances {
		table.Columns = append(table.Columns, terminal.Column{Head: fmt.Sprintf("at %.1f", a), Drop: 1 + i})
	}
	for _, l := range r.Lengths {
		if !isListed(l.Length, r.Best) {
			continue
		}
		mark := " "
		if l.Length == r.Best {
			mark = "*"
		}
		row := []string{fmt.Sprint(l.Length, mark), fmt.Sprintf("%.2f", ms*l.Draft), fmt.Sprintf("%.2f", ms*l.Verify),
			fmt.Sprintf("%.2fx", l.Speedup), fmt.Sprintf("%.2fx", l.Formula)}
		for _, a := range planAcceptances {
			row = append(row, fmt.Sprintf("%.2fx", plan.Speedup(a, l.Length, r.Plain, l.Draft, l.Verify)))
		}
		table.Rows = append(table.Rows, row)
	}
	auto := make([]string, len(table.Columns))
	auto[0], auto[3] = "auto ", fmt.Sprintf("%.2fx", r.Auto)
	table.Rows = append(table.Rows, auto)
	text, _ := table.String(width)
	io.WriteString(w, text+"\n"+terminal.Wrap(`Predicted speedups: "measured" replays the measured texts, "formula" takes acceptances to be independent, at the measured acceptance rate and at others; * is the best constant length, auto chooses lengths by confidence.`, width)+"\n")
	if r.Warning != "" {
		io.WriteString(w, terminal.Wrap("Warning: "+r.Warning+".", width))
	}
	_, err := io.WriteString(w, terminal.Wrap("Advice: "+r.Advice+".", width))
	return err
}
