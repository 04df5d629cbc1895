package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

var compareCommand = command{
	name:  "compare",
	does:  "ways of speculating side by side: speedup, acceptance, passes; a table, JSON, a page",
	usage: "[-m FILE [-md FILE]] [--prompts FILE|code|copy|open] [-n N] [flags]",
	about: compareAbout(),
	new:   func() job { return newComparison() },
}

func compareAbout() string {
	var b strings.Builder
	b.WriteString(`Runs every combination of the drafters, schedules, verifiers, temperatures and weights that are listed, and plain decoding in between, on the same prompts. Lists are separated by commas.

  speedup     plain decoding's time per token over the setting's, prefill left out: each run is compared with the runs of plain decoding around it, at most the formula's; medians of the repeats, then over the prompts, with the 95 % interval of that (bootstrap)
  formula     the speedup if a verification pass took no longer than decoding a token, for the same rounds and the time drafting took; the median of the same runs
  oracle      the passes of target and draft if every draft were the tokens that will be accepted and no others: the fewest of the target, not the least time
  BLEU        against plain decoding's text

Where a verifier promises plain decoding's text and breaks that promise, the exit code is 1. A table that is wider than the terminal leaves columns out; -o json and -o csv have all of them.

With --kernels A,B the models are open on every kernel set at once, and each part of a prompt's runs is done on all of them in turn: what happens on the machine meanwhile favors none. "to 1st kernels" is the speed of a setting over the same on the first set. Texts end where the model ends them; with --fixed-length they all have -n tokens, and with --fixed-text all settings write the same one, so that drafts and passes of other weights, drafters or temperatures are compared on one text.

With --against URL servers of OpenAI's /v1/completions are measured in turn with plain decoding and the chosen settings: the time until the first token, tokens per second after it, their ratio to plain decoding beside it, and where texts differ. A server may keep prompts of earlier runs: the first run's time stands by itself. Its own fields, as ignore_eos, are --against-field's.

Presets repeat published experiments (docs/PAPERS.md); flags that are given as well replace their parts:
`)
	for _, p := range compare.Presets {
		fmt.Fprintf(&b, "  %-10s  %s\n", p.Name, p.About)
	}
	return b.String()
}

// comparison is the command's options. An empty list is one that was not given.
type comparison struct {
	modelFlags
	cache    kvFlags
	drafts   []string
	texts    []string // of --lookup
	vocab    draftVocab
	context  int
	sampling engine.Sampling
	prompts  []string
	single   givenPrompts
	most     int
	tokens   int
	repeats  int
	warmup   int
	matrix   compare.Matrix
	preset   string
	results  resultFlags
	page     string
	against  againstFlags
	seed     int
	seeds    int

	fixedLength, fixedText bool
}

func newComparison() *comparison {
	return &comparison{seed: 1, warmup: -1, results: asText}
}

func (c *comparison) flags() []group {
	m := &c.matrix
	presets := make([]string, len(compare.Presets))
	for i, p := range compare.Presets {
		presets[i] = p.Name
	}
	drafts := draftRows("a draft model; may be repeated: the drafters are then model, model2 and so on, and merge "+
		"verifies their drafts together", "a draft model", func(file string) { c.drafts = append(c.drafts, file) })
	return []group{
		{"model", append([]flag{c.modelRow(), c.hubRow(), threadsRow(&c.threads), numaRow(&c.numa), c.memoryRow(),
			chosenFlag("--weights", &m.Weights, append(engine.WeightNames(), asInFile),
				"convert the weights while loading").or("file: as they are"),
			kernelsRow(&c.matrix.Kernels, &c.modelFlags)}, drafts...)},
		{"cache", append([]flag{contextRow(&c.context, "context in tokens")}, c.cache.rows()...)},
		{"prompts", c.single.rows()},
		{"measurement", []flag{
			choiceFlag("--preset", &c.preset, presets, "a published experiment, see above"),
			filesFlag("--prompts", &c.prompts, "FILE",
				`lines {"id","prompt"}, a plain text that is one prompt, or a built-in set: `+
					strings.Join(builtinSets, ", ")+"; may be repeated").
				or("code").takes(builtinSets...),
			intFlag("--max-prompts", &c.most, 1, math.MaxInt32, "only the first N prompts of each set"),
			lengthRow(&c.tokens, 1, math.MaxInt32, "most tokens to generate after each prompt", "64"),
			intFlag("-r, --repeat", &c.repeats, 1, maxRepeats, "timed runs of each setting on each prompt").or("3"),
			intFlag("--seeds", &c.seeds, 1, maxRepeats, "at a temperature above 0, continue each prompt with so many seeds, "+
				"from --seed on").or("1"),
			switchFlag("--fixed-length, --ignore-eos", &c.fixedLength, true,
				"every text has -n tokens: end-of-text tokens are never chosen").of("mode"),
			switchFlag("--fixed-text", &c.fixedText, true, "every setting writes the same text: a prompt's \"text\" in its "+
				"line of JSON, or plain decoding's; drafts are accepted where they agree with it").of("mode"),
			intFlag("--warmup", &c.warmup, 0, maxRepeats, "runs of each setting before them, on the first prompt").or("1"),
		}},
		{"speculation", []flag{
			chosenFlag("--drafter", &m.Drafters, compareDrafters(), "who drafts").
				or("model,ngram,tree, of a draft model, a draft head or the MTP block in the model's file; without them " +
					"ngram,suffix, and what drafts by default"),
			lookupRow(&c.texts), c.vocab.row(), c.vocab.fromRow(),
			chosenFlag("--schedule", &m.Schedules, speculative.Names(speculative.Schedules(), true),
				"draft length; an oracle is added once for its passes").or("constant,dynamic,auto"),
			chosenFlag("--verify", &m.Verifiers, speculative.Names(speculative.Verifiers(), true),
				"how drafts are verified; greedy goes with temperature 0 only").or("greedy at 0, match above"),
			valueFlag("--draft-max, --draft, --draft-n, --spec-draft-n-max", "N,N",
				"most tokens in a draft, for constant, heuristic and dynamic", c.setLengths).or("0: the schedule's own").
				env("LLAMA_ARG_SPEC_DRAFT_N_MAX", "LLAMA_ARG_DRAFT_MAX"),
			valueFlag("--draft-p-min, --spec-draft-p-min", "X,X",
				"end a draft after a token of lower confidence; not for auto", c.setConfidences).
				or("0: the schedule's own, for dynamic 0.4").env("LLAMA_ARG_SPEC_DRAFT_P_MIN", "LLAMA_ARG_DRAFT_P_MIN"),
		}},
		{"servers", c.against.rows()},
		{"sampling", []flag{
			valueFlag("--temp, --temperature", "X,X", "temperatures; 0 is greedy", c.setTemperatures).or("0"),
			topKRow(&c.sampling.TopK, "0: off"), topPRow(&c.sampling.TopP, "1: off"), minPRow(&c.sampling.MinP, "0: off"),
			noiseRow(&c.seed, "1"),
		}},
		{"output", append(c.results.rows("SPEC_COMPARE_OUTPUT"),
			fileFlag("--html", &c.page, "FILE", "write a page with charts as well: one file that needs no other"),
		)},
		withoutEffect(ignoredRows(), ignoredModes()),
	}
}

// asInFile is --weights of a model as it is.
const asInFile = "file"

// compareDrafters are the drafters by name, with those of several draft models: model2 and so on are the second draft
// model and so on, merge all of them together.
func compareDrafters() []string {
	names := slices.DeleteFunc(speculative.Names(speculative.Drafters(), true),
		func(n string) bool { return n == compare.Plain })
	return append(names, "model2", "model3", "merge")
}

// chosenFlag reads a list of names separated by commas.
func chosenFlag(n string, p *[]string, choices []string, help string) flag {
	return valueFlag(n, "NAME,...", help+"; of "+strings.Join(choices, ", "), func(v string) error {
		for given := range strings.SplitSeq(v, ",") {
			name, err := choose(choices, given)
			if err != nil {
				return fmt.Errorf("%s is %w", shown(given), err)
			}
			*p = append(*p, name)
		}
		return nil
	}).takes(choices...)
}

func (c *comparison) setTemperatures(v string) error {
	return appendNumbers(&c.matrix.Temperatures, v, 1e6)
}

func (c *comparison) setConfidences(v string) error {
	return appendNumbers(&c.matrix.Confidence, v, 1)
}

// appendNumbers reads numbers from 0 to high.
func appendNumbers(list *[]float32, v string, high float64) error {
	for _, s := range strings.Split(v, ",") {
		x, err := strconv.ParseFloat(s, 32)
		if err != nil || math.IsNaN(x) || x < 0 || x > high {
			return fmt.Errorf("%s is not a number from 0 to %v", shown(s), high)
		}
		*list = append(*list, float32(x))
	}
	return nil
}

func (c *comparison) setLengths(v string) error {
	for _, s := range strings.Split(v, ",") {
		n, err := wholeNumber(s, 0, speculative.MaxDraft)
		if err != nil {
			return fmt.Errorf("%s is not a number of tokens from 0 to %d", shown(s), speculative.MaxDraft)
		}
		c.matrix.DraftMax = append(c.matrix.DraftMax, n)
	}
	return nil
}

// plan puts together what the flags, the preset and the defaults say, in that order.
func (c *comparison) plan(ctx context.Context, p *program) (compare.Plan, error) {
	fallback := compare.Preset{
		Matrix: compare.Matrix{
			Weights: []string{""}, Temperatures: []float32{0}, Drafters: []string{"model", "ngram", "tree"},
			Schedules: []string{"constant", "dynamic", "auto"}, Verifiers: []string{""}, DraftMax: []int{0},
			Confidence: []float32{0},
		},
		Sets: []string{"code"}, Tokens: 64, Repeats: 3, Warmup: 1,
	}
	if !c.drafting() {
		fallback.Matrix.Drafters = c.alone()
	}
	if len(c.against.urls) > 0 {
		fallback.Matrix.Schedules = []string{"auto"}
	}
	if c.preset != "" {
		fallback, _ = compare.PresetOf(c.preset)
	}
	plan := compare.Plan{
		Sampling: c.sampling, Tokens: cmp.Or(c.tokens, fallback.Tokens), Repeats: cmp.Or(c.repeats, fallback.Repeats),
		Warmup: c.warmup,
	}
	plan.Sampling.Seed, plan.Seeds = uint64(c.seed), c.seeds
	switch {
	case c.fixedText:
		plan.Mode = compare.FixedText
	case c.fixedLength:
		plan.Mode = compare.FixedLength
	}
	if plan.Warmup < 0 {
		plan.Warmup = fallback.Warmup
	}
	plan.Settings = c.given(fallback.Matrix).Settings()
	if fallback.Also != nil {
		for _, s := range c.given(*fallback.Also).Settings() {
			if !slices.Contains(plan.Settings, s) {
				plan.Settings = append(plan.Settings, s)
			}
		}
	}
	if len(plan.Settings) == 0 {
		return plan, usagef("nothing to run: --verify greedy needs temperature 0, --schedule oracle a verifier that " +
			"promises the same text")
	}
	for _, s := range plan.Settings {
		if n, ok := draftNumber(s.Drafter); ok && n >= max(1, len(c.drafts)) || ok && !c.drafting() {
			return plan, usagef("--drafter %s needs a draft model: -md FILE", s.Drafter)
		}
	}
	if slices.ContainsFunc(plan.Settings, func(s compare.Setting) bool {
		return speculative.Choice{Drafter: s.Drafter}.Needs()&speculative.NeedsTexts != 0
	}) && len(c.texts) == 0 {
		return plan, usagef("--drafter lookup needs other texts: --lookup PATH")
	}
	sets := c.prompts
	if own, err := c.single.set(ctx, p); err != nil {
		return plan, err
	} else if len(own.Prompts) > 0 {
		plan.Sets = append(plan.Sets, own)
	}
	if len(sets) == 0 && len(plan.Sets) == 0 {
		sets = fallback.Sets
		if c.model != "" && holds(c.model, engine.KindEncoderDecoder) { // the others are beginnings of texts
			sets = []string{compare.Translation}
		}
	}
	if c.most == 0 && len(c.prompts) == 0 {
		c.most = fallback.Prompts
	}
	for _, name := range sets {
		set, err := readSet(ctx, name)
		if err != nil {
			return plan, err
		}
		if c.most > 0 {
			set.Prompts = set.Prompts[:min(c.most, len(set.Prompts))]
		}
		plan.Sets = append(plan.Sets, set)
	}
	return plan, nil
}

// alone are the drafters that are compared of a target without a draft model: lookups in the text, and what drafts
// where nobody chooses.
func (c *comparison) alone() []string {
	var open speculative.Choice
	names, usual := []string{"ngram", "suffix"}, open.Complete(nil, nil)
	add := func() {
		if !slices.Contains(names, usual.Drafter) {
			names = append(names, usual.Drafter)
		}
	}
	add()
	if len(c.texts) > 0 {
		usual = open.WithTexts(usual)
		add()
	}
	if c.hasForm() {
		usual = open.WithForm(usual)
		add()
	}
	return names
}

// hasForm reports whether the target has a draft form that may gain, with all weights that are compared, and room for
// it. By the header of the file.
func (c *comparison) hasForm() bool {
	f, err := openGGUF(c.model)
	if err != nil {
		return false // opening the model says so
	}
	defer f.Close()
	limit := c.memoryLimit()
	for _, weights := range either(c.matrix.Weights, []string{asInFile}) {
		if weights == asInFile {
			weights = ""
		}
		form, err := engine.DescribeDraftForm(f, weights)
		if err != nil || !form.Gains() {
			return false
		}
		plan, err := engine.PlanMemory(f, engine.Options{Weights: weights},
			planned(engine.Sessions{Tokens: c.context, Rows: treeRows, Heads: true, Own: true, Alone: true}))
		if err != nil || limit > 0 && plan.Weights+plan.Sessions+form.Bytes > limit {
			return false
		}
	}
	return true
}

// drafting reports whether there is a draft model or a draft head.
func (c *comparison) drafting() bool {
	return c.model == "" || len(c.drafts) > 0 || hasMTP(c.model)
}

// draftNumber tells which draft model a drafter needs, counted from 0.
func draftNumber(drafter string) (int, bool) {
	switch drafter {
	case "model2":
		return 1, true
	case "model3":
		return 2, true
	case "merge":
		return 0, true
	}
	const models = speculative.NeedsDraft | speculative.NeedsForeign | speculative.NeedsHead | speculative.NeedsBlock
	return 0, speculative.Choice{Drafter: drafter}.Needs()&models != 0
}

// given replaces the parts of m that flags name.
func (c *comparison) given(m compare.Matrix) compare.Matrix {
	g := c.matrix
	g.Weights = slices.Clone(g.Weights) // the command has their names
	for i := range g.Weights {
		if g.Weights[i] == asInFile {
			g.Weights[i] = ""
		}
	}
	return compare.Matrix{
		Weights: either(g.Weights, m.Weights), Temperatures: either(g.Temperatures, m.Temperatures),
		Drafters: either(g.Drafters, m.Drafters), Schedules: either(g.Schedules, m.Schedules),
		Verifiers: either(g.Verifiers, m.Verifiers), DraftMax: either(g.DraftMax, m.DraftMax),
		Confidence: either(g.Confidence, m.Confidence), Kernels: g.Kernels,
	}
}

func either[T any](given, otherwise []T) []T {
	if len(given) > 0 {
		return given
	}
	return otherwise
}

// readSet returns the built-in set of that name, or the prompts of a file.
func readSet(ctx context.Context, name string) (compare.Set, error) {
	if set, ok := compare.Builtin(name); ok {
		return set, nil
	}
	file, err := openInput(ctx, name)
	if err != nil {
		return compare.Set{}, err
	}
	text, err := readInput(ctx, file, promptsLimit)
	switch {
	case errors.Is(err, errTooLong):
		return compare.Set{}, fmt.Errorf("%s: more than %d MiB", name, promptsLimit>>20)
	case isInterrupt(err):
		return compare.Set{}, err
	case err != nil:
		return compare.Set{}, fmt.Errorf("%s: %w", name, err)
	}
	return compare.NewSet(text, name)
}

func (c *comparison) run(ctx context.Context, p *program) error {
	plan, err := c.plan(ctx, p)
	if err != nil {
		return err
	}
	// Outputs are opened before the work is done. The page replaces an older one when it is whole.
	var page *output.File
	if c.page != "" {
		if err := output.Distinct(c.page, c.inputs()...); err != nil {
			return err
		}
		stdout, _ := p.stdout.(*os.File)
		if page, err = output.Create(ctx, c.page, stdout); err != nil {
			return err
		}
		defer page.Abort()
	}
	peers, err := c.against.open(ctx, p, c.fixedLength)
	if err != nil {
		return err
	}
	runtimes, err := c.runtimes(p)
	if err != nil {
		return err
	}
	defer func() {
		for _, rt := range runtimes {
			rt.Close()
		}
	}()
	origin, err := c.measured(ctx, p, runtimes[cmp.Or(append(c.matrix.Kernels, "")...)], plan)
	if err != nil {
		return err
	}
	types := ""
	lab := compare.Lab{Open: func(ctx context.Context, weights, kernels string) (*compare.Pair, error) {
		c.weights = weights
		pair, kind, err := c.pair(ctx, p, runtimes[kernels], plan)
		if types == "" {
			types = kind
		}
		return pair, err
	}}
	bar := terminal.NewBar(p.stderr, "comparing")
	defer bar.Clear()
	lab.Progress = func(done, total int, now string) { bar.Set(int64(done), int64(total), now) }
	if len(peers) > 0 {
		report, failed := compare.RunAgainst(ctx, lab, plan, peers)
		bar.Clear()
		if report == nil {
			return failed
		}
		report.Origin, report.Model, report.Fields = origin, c.name(), c.against.added()
		return errors.Join(c.writeAgainst(p, report), failed)
	}
	report, failed := compare.Run(ctx, lab, plan)
	bar.Clear()
	if report == nil {
		return failed
	}
	report.Complete = failed == nil
	report.Origin, report.Model, report.Weights = origin, c.name(), types
	report.Command = c.command(plan)
	for _, d := range c.drafts {
		report.Drafts = append(report.Drafts, filepath.Base(d))
	}
	if len(c.drafts) == 0 && c.drafting() {
		what := "the embedded draft model"
		if c.model != "" {
			what = "the MTP block of the model's file"
		}
		report.Drafts = append(report.Drafts, what)
	}
	if c.model != "" {
		report.Model = filepath.Base(c.model)
	}
	switch written, failed := writeForPrograms(&c.results, p.stdout, *report, report.Rows); {
	case written:
		err = failed
	case c.results.format == "md":
		err = report.Markdown(p.stdout)
	default:
		err = report.Table(p.stdout, terminal.Width(p.stdout))
	}
	if page != nil && err == nil {
		if err = report.Page(page); err == nil {
			err = page.Commit()
		}
	}
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	}
	return report.Err()
}

// inputs are the files that are read.
func (c *comparison) inputs() []string {
	list := slices.Concat(filesOf(c.model), filesOf(c.drafts...), c.prompts, c.texts)
	for _, x := range c.single.list {
		list = append(list, x.file)
	}
	return list
}

// measured is the origin of the results.
func (c *comparison) measured(ctx context.Context, p *program, rt *engine.Runtime, plan compare.Plan) (results.Origin,
	error) {
	o, err := c.origin(ctx, p, rt, c.draftFiles()...)
	for _, set := range plan.Sets {
		o.Prompts = append(o.Prompts, set.File)
	}
	if len(c.matrix.Kernels) > 0 {
		o.SIMD = strings.Join(c.matrix.Kernels, ",")
	}
	return o, err
}

// runtimes are the workers of each kernel set; "" is the best one, where none was chosen.
func (c *comparison) runtimes(p *program) (all map[string]*engine.Runtime, err error) {
	if len(c.matrix.Kernels) > 0 {
		return runtimesOf(c.matrix.Kernels, c.threads, c.numa)
	}
	rt, err := c.runtime(p)
	return map[string]*engine.Runtime{"": rt}, err
}

// draftFiles are the models that draft: embedded ones for an embedded target.
func (c *comparison) draftFiles() []string {
	if len(c.drafts) == 0 && c.model == "" {
		return []string{"", embeddedHead}
	}
	return c.drafts
}

// command is how to repeat the run, for the page: names of files, not their folders.
func (c *comparison) command(plan compare.Plan) string {
	s := "spec compare"
	if c.model != "" {
		s += " -m " + filepath.Base(c.model)
	}
	for _, d := range c.drafts {
		s += " -md " + filepath.Base(d)
	}
	if c.threads > 0 {
		s += fmt.Sprint(" -t ", c.threads)
	}
	if c.preset != "" {
		s += " --preset " + c.preset
	}
	for _, path := range c.texts {
		s += " --lookup " + filepath.Base(path)
	}
	for _, name := range c.prompts {
		s += " --prompts " + filepath.Base(name)
	}
	s += c.single.command()
	if c.most > 0 {
		s += fmt.Sprint(" --max-prompts ", c.most)
	}
	s += fmt.Sprintf(" -n %d -r %d --warmup %d", plan.Tokens, plan.Repeats, plan.Warmup)
	list := func(flag string, values []string) {
		if len(values) > 0 {
			s += " " + flag + " " + strings.Join(values, ",")
		}
	}
	m := c.matrix
	list("--drafter", m.Drafters)
	list("--schedule", m.Schedules)
	list("--verify", m.Verifiers)
	list("--temp", texts(m.Temperatures))
	list("--weights", m.Weights)
	list("--draft-max", texts(m.DraftMax))
	list("--draft-p-min", texts(m.Confidence))
	list("--kernels", m.Kernels)
	kv, _ := c.cache.kvType() // it was used
	for _, x := range []struct {
		flag  string
		value any
		given bool
	}{
		{"-c", c.context, c.context > 0}, {"--kv", kv, kv != ""}, {"--draft-vocab", c.vocab.tokens, c.vocab.tokens > 0},
		{"--top-k", c.sampling.TopK, c.sampling.TopK != 0}, {"--top-p", c.sampling.TopP, c.sampling.TopP != 0},
		{"--min-p", c.sampling.MinP, c.sampling.MinP != 0}, {"-s", c.seed, c.seed != 1}, {"--seeds", c.seeds, c.seeds > 1},
		{"--memory", c.memory, c.memory > 0}, {"--numa", c.numa, c.numa != ""},
	} {
		if x.given {
			s += fmt.Sprint(" ", x.flag, " ", x.value)
		}
	}
	for _, path := range c.vocab.from {
		s += " --draft-vocab-from " + filepath.Base(path)
	}
	if plan.Mode != compare.Free {
		s += map[compare.Mode]string{compare.FixedLength: " --fixed-length", compare.FixedText: " --fixed-text"}[plan.Mode]
	}
	return s
}

func texts[T any](list []T) (s []string) {
	for _, x := range list {
		s = append(s, fmt.Sprint(x))
	}
	return s
}
