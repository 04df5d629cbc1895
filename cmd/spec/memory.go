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
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/internal/units"
	"github.com/specgo/spec/speculative"
)

const (
	// keptTokens are the tokens of context whose keys and values are counted where -c does not say how many there are.
	keptTokens = 2048
	// treeRows are the most tokens of a tree of drafts, with the one that it begins after: a pass over it has as many
	// rows of logits.
	treeRows = 256
)

// unasked is the most bytes that are written to the cache directory without being asked for.
const unasked = 8 << 30

// mayWrite says whether a panel file may be written: a large one in a folder that a flag names, with "cache build", or
// where the user of a terminal agrees. Where a conversation has the terminal nobody is asked.
func (m *modelFlags) mayWrite(ctx context.Context, p *program, model, file string, bytes int64) error {
	if bytes <= unasked || m.panels != "" || m.keepPanels {
		return nil
	}
	what := fmt.Sprintf("%s does not fit into the memory; a copy of its weights of %s would be written to %s",
		terminal.Line(filepath.Base(model), 60), size(bytes), terminal.Line(filepath.Dir(file), 0))
	if !m.conversing && terminal.Is(p.stdin) && terminal.Is(p.stderr) {
		fmt.Fprintf(p.stderr, "%s. Write it? [y/N] ", what)
		answer, err := answerOf(ctx, p.stdin)
		switch answer = strings.ToLower(answer); {
		case ctx.Err() != nil:
			fmt.Fprintln(p.stderr)
			return ctx.Err()
		case err == nil && (answer == "y" || answer == "yes"):
			return nil
		}
	}
	return fmt.Errorf("%s: --panels DIR allows it", what)
}

// memoryLimit is the most bytes that a target may take, with all that is loaded for it; 0: not known.
func (m *modelFlags) memoryLimit() int64 {
	limit := m.memory
	if limit == 0 {
		limit = engine.MostMemory(machineMemory())
	}
	return limit / int64(max(m.share, 1))
}

// draftFormRoom is the most bytes that a draft form of the target may take beside what is loaded and the sessions;
// negative: none.
func (m *modelFlags) draftFormRoom(target *engine.Model) int64 {
	limit := m.memoryLimit()
	if limit == 0 {
		return math.MaxInt64
	}
	s, d := planned(m.sessions), target.Describe()
	s.Own = true // with the form
	if left := limit - m.loaded - s.Bytes(d) - s.Pass(d); left > 0 {
		return left
	}
	return -1
}

// setMemory says how much of the memory the model of a file may take, and where what does not fit goes. beside are
// files that are loaded later and stay in memory.
func (m *modelFlags) setMemory(ctx context.Context, p *program, o *engine.Options, path string, beside []string) error {
	var err error
	if o.Cache, err = panelCache(p); err != nil {
		o.Cache = "" // no home directory: models that fit need no cache
	}
	if m.panels != "" {
		o.Cache = m.panels
	}
	o.KeepPanels = m.keepPanels || m.panels != ""
	o.Announce = func(file string, bytes int64) error {
		if err := m.mayWrite(ctx, p, path, file, bytes); err != nil {
			return err
		}
		why := "does not fit into the memory"
		if o.KeepPanels {
			why = "gets a copy of its weights"
		}
		_, err := fmt.Fprintf(p.stderr, "%s %s: writing %s once, to %s (spec cache clean deletes it)\n",
			terminal.Line(filepath.Base(path), 60), why, size(bytes), terminal.Line(file, 0))
		return err
	}
	limit := m.memoryLimit()
	if limit == 0 {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if m.memory == 0 && info.Size() < (limit-m.loaded)/2 {
		o.Memory = limit - m.loaded // no need to look closer
		return nil
	}
	f, err := gguf.OpenFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return m.fit(o, f, limit, beside)
}

// fit gives the model of a file the part of a limit that sessions and what else is loaded leave, and refuses a limit
// that is too low.
func (m *modelFlags) fit(o *engine.Options, f *gguf.File, limit int64, beside []string) error {
	sessions := planned(m.sessions)
	sessions.Beside = m.loaded
	changed, err := o.Overridden(f)
	if err != nil {
		return nil // loading it says what is wrong
	}
	for _, file := range beside { // as much as its own plan counts when it is loaded
		n := draftFileBytes(file, sessions.DraftVocab)
		if target, wrong := engine.Describe(changed); n > 0 && wrong == nil {
			sessions.Beside += n + planned(m.sessions).DraftBytes(target, describeFile(file))
		}
	}
	plan, err := engine.PlanMemory(f, engine.Options{
		Weights: m.weights, Target: o.Target, MTP: o.MTP, RopeContext: o.RopeContext, Rope: o.Rope,
		Override: o.Override}, sessions)
	if err != nil {
		return nil // loading it says what is wrong
	}
	if limit < plan.Least && m.memory > 0 {
		return notEnough(m.memory, plan.Least*int64(max(m.share, 1)), f.Name)
	}
	o.Memory = max(limit-plan.Sessions, 1)
	return nil
}

// draftFileBytes is what a draft model's file takes in memory, with a pass of it and the rows of a draft vocabulary of
// so many tokens; 0: it cannot be opened.
func draftFileBytes(file string, vocab int) int64 {
	if file == "" || regularFile(file) != nil {
		return 0
	}
	f, err := gguf.OpenFile(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	rows, err := engine.DraftVocabBytes(f, vocab, speculative.DraftText)
	if err != nil {
		rows = 0 // a draft head: those that draft with few tokens have a list of their own
	}
	return f.Size() + engine.PassBytes(f) + rows
}

// notEnough is the error of a limit that is too low.
func notEnough(limit, least int64, path string) error {
	return fmt.Errorf("--memory %s: %w for %s: with what else is needed, the least is %s", size(limit), errNotEnough,
		terminal.Line(path, 60), size(least+1<<20))
}

var errNotEnough = errors.New("not enough")

// verifyRows are the most rows of logits of a pass: those of the drafted tokens and one more, and of the tokens that a
// grammar forces, which are so many at most. model is the target's file.
func (s *speculation) verifyRows(model string, forced int) int {
	longest := speculative.DefaultDraftMax
	if s.earlier != "" {
		longest = speculative.PreviousDraftMax
	}
	chain := 1 + forced + cmp.Or(s.choice.Max, max(longest, s.choice.Min))
	usual := s.choice.Drafter == "" && (len(s.drafts) == 1 || model != "" && hasMTP(model))
	switch {
	case s.choice.Drafter == "none":
		return 1 + forced
	case len(s.drafts) > 1, s.choice.Needs()&speculative.NeedsTree != 0, usual:
		return max(chain, treeRows)
	}
	return chain
}

// planned completes what memory is planned for: one session, of as many tokens as -c says or keptTokens, with a row of
// logits.
func planned(s engine.Sessions) engine.Sessions {
	s.Count, s.Tokens, s.Rows = cmp.Or(s.Count, 1), cmp.Or(s.Tokens, keptTokens), cmp.Or(s.Rows, 1)
	return s
}

// measuredBytes are read to measure a disk.
const measuredBytes = 512 << 20

// memoryLine says where a model's weights are under a limit, and how fast the disk lets it be. It counts what spec
// generate does without flags.
func memoryLine(ctx context.Context, f *gguf.File, limit int64) (string, error) {
	var usual speculation
	plan, err := engine.PlanMemory(f, engine.Options{Memory: limit},
		planned(engine.Sessions{Rows: usual.verifyRows(f.Name, 0), Heads: true}))
	if plan != nil && limit < plan.Least {
		return "", notEnough(limit, plan.Least, f.Name)
	}
	if err != nil {
		return "", err
	}
	line, err := placement(ctx, *plan, f.Name)
	return fmt.Sprintf("%s are for keys and values and the logits of a pass; %s", size(plan.Sessions), line), err
}

// placement says where weights are, and how fast the disk of a file lets passes be.
func placement(ctx context.Context, m engine.MemoryPlan, file string) (string, error) {
	if !m.Streams() {
		return fmt.Sprintf("%s of %s of weights stay in memory; a pass reads none from disk", size(m.Resident),
			size(m.Weights)), nil
	}
	speed, err := engine.ReadSpeed(ctx, file, measuredBytes)
	if err != nil {
		return "", err
	}
	seconds := float64(m.PerPass) / speed
	return fmt.Sprintf("%s of %s of weights stay in memory, %s are buffers; every pass reads up to %s from disk, at "+
		"%.2f GB/s (measured on this file now): at least %s s, so at most %s tokens per second without drafts. A pass "+
		"that verifies drafted tokens reads as much",
		size(m.Resident), size(m.Weights), size(m.Buffers), size(m.PerPass), speed/1e9,
		units.Number(seconds, 3), units.Number(1/seconds, 3)), nil
}

// panelCache is the directory of panel files: that of SPEC_CACHE, or spec in the user's cache directory.
func panelCache(p *program) (string, error) {
	if dir := p.env("SPEC_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "spec"), nil
}

var cacheCommand = command{
	name:  "cache",
	does:  "the copies of weights that are read from disk, and computed prompts",
	usage: "[list | clean | build -m FILE | prompt -f FILE --cache-dir DIR] [flags]",
	about: `A model that does not fit into the memory (--memory) has a copy of its weights in the cache directory, arranged as the kernels read them. Without a word, or with "list", "spec cache" lists these files. "clean" deletes them; they are written again when they are needed. "build" writes the one of a model, which makes loading it as fast as reading it, also where it fits into the memory, and says where the file is; one that is there stays as it is.

The directory is spec in the user's cache directory, or the one that the environment variable SPEC_CACHE names.

With --cache-dir DIR "list" and "clean" are about a folder of computed prompts, as spec serve --cache-dir keeps it. "prompt" computes a text that many prompts begin with, as it is, and keeps it in that folder: a server with the same model and options goes on from it, also one on another machine, and one with API keys if it has --share-prefixes.`,
	new: func() job { return &caching{} },
}

// The words of spec cache.
const (
	cacheList   = "list"
	cacheClean  = "clean"
	cacheBuild  = "build"
	cachePrompt = "prompt"
)

// caching is the command's options.
type caching struct {
	modelFlags
	what    string
	json    bool
	folder  promptFolder
	prompt  promptFlags
	kv      kvFlags
	context int
}

// model reports whether the word needs one.
func (x *caching) needsModel() bool { return x.what == cacheBuild || x.what == cachePrompt }

func (x *caching) flags() []group {
	list := x.modelFlags.rows()
	for i := range list {
		list[i].word = false // the word is what to do
		list[i] = list[i].when(func() bool { return x.needsModel() || list[i].names[0] == "--panels" })
	}
	prompts := append(x.folder.rows("the folder of computed prompts"), x.prompt.rows("the text", standardInput)...)
	prompts = append(append(prompts, contextRow(&x.context, "context in tokens")), x.kv.rows()...)
	for i := range prompts {
		prompts[i].word = false
		prompts[i] = prompts[i].when(func() bool { return x.what == cachePrompt || prompts[i].names[0] == "--cache-dir" })
	}
	return []group{{"model", list}, {"prompts", prompts}, {"output", []flag{jsonRow(&x.json).when(x.hasJSON)}}}
}

// hasJSON reports whether what is done can be told as JSON.
func (x *caching) hasJSON() bool {
	return x.what == "" || x.what == cacheList || x.what == cacheClean && x.folder.dir != ""
}

func (*caching) words() []string { return []string{cacheList, cacheClean, cacheBuild, cachePrompt} }

func (x *caching) operand(v string) error {
	if x.what != "" || !slices.Contains(x.words(), v) {
		return errors.New("expected list, clean, build or prompt")
	}
	x.what = v
	return nil
}

func (x *caching) check() error {
	if x.what == cacheBuild && x.model == "" {
		return usagef("build -m FILE: which model?")
	}
	if !x.needsModel() && (x.model != "" || x.weights != "" || x.memory > 0) {
		return usagef("-m, --weights and --memory go with build and prompt")
	}
	if x.what == cachePrompt && x.folder.dir == "" {
		return usagef("prompt --cache-dir DIR: which folder?")
	}
	if x.what == cacheBuild && x.folder.dir != "" {
		return usagef("--cache-dir goes with list, clean and prompt")
	}
	if x.what != cachePrompt && x.folder.size > 0 {
		return usagef("--cache-size goes with prompt: list and clean delete nothing by themselves")
	}
	if x.json && !x.hasJSON() {
		return usagef("--json goes with list, and with clean --cache-dir")
	}
	if _, err := x.kv.kvType(); err != nil {
		return err
	}
	return x.prompt.check()
}

func (x *caching) run(ctx context.Context, p *program) error {
	if x.what == cachePrompt {
		return x.keepPrompt(ctx, p)
	}
	if x.folder.dir != "" {
		return x.folder.show(p, x.what == cacheClean, x.json)
	}
	dir := x.panels
	if dir == "" {
		var err error
		if dir, err = panelCache(p); err != nil {
			return err
		}
	}
	if x.what == cacheBuild {
		return x.build(ctx, p, dir)
	}
	list, err := engine.PanelFiles(dir)
	if err != nil {
		return err
	}
	if x.what == cacheClean {
		return cleanPanels(p, list)
	}
	if x.json {
		type entry struct {
			File     string `json:"file"`
			Bytes    int64  `json:"bytes"`
			About    string `json:"about"`
			Complete bool   `json:"complete"`
		}
		out := struct {
			Schema int     `json:"schema"`
			Dir    string  `json:"dir"`
			Files  []entry `json:"files"`
		}{1, dir, []entry{}}
		for _, f := range list {
			out.Files = append(out.Files, entry{f.Name, f.Bytes, f.Text, f.Complete()})
		}
		return printJSON(p.stdout, out)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintf(p.stdout, "no weights in %s\n", terminal.Line(dir, 0))
		return err
	}
	for _, f := range list {
		about := strings.ReplaceAll(strings.TrimSpace(f.Text), "\n", "; ")
		if _, err := fmt.Fprintf(p.stdout, "%10s  %s\n            %s\n", size(f.Bytes), terminal.Line(f.Name, 0),
			terminal.Line(about, 300)); err != nil {
			return err
		}
	}
	return nil
}

// build writes a model's panel file into a folder, and says which it is.
func (x *caching) build(ctx context.Context, p *program, dir string) error {
	before, err := engine.PanelFiles(dir)
	if err != nil {
		return err
	}
	rt, err := x.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	x.keepPanels = true
	m, err := x.target(ctx, p, rt)
	if err != nil {
		return err
	}
	defer m.Close()
	after, err := engine.PanelFiles(dir)
	if err != nil {
		return err
	}
	for _, f := range after {
		if f.Name != m.PanelFile() {
			continue
		}
		done := "written"
		if slices.Contains(before, f) {
			done = "is there already"
		}
		_, err := fmt.Fprintf(p.stdout, "%s: %s, %s\n", terminal.Line(f.Name, 0), size(f.Bytes), done)
		return err
	}
	return fmt.Errorf("%s: no copy of its weights was written to %s", terminal.Line(x.name(), 0), terminal.Line(dir, 0))
}

// cleanPanels deletes panel files, and says which.
func cleanPanels(p *program, list []engine.PanelFileInfo) error {
	var all int64
	deleted := 0
	for _, f := range list {
		if f.BeingWritten() {
			fmt.Fprintf(p.stdout, "%s is being written\n", terminal.Line(f.Name, 0))
			continue
		}
		if err := os.Remove(f.Name); err != nil {
			return err
		}
		all += f.Bytes
		deleted++
		fmt.Fprintf(p.stdout, "deleted %s\n", terminal.Line(f.Name, 0))
	}
	_, err := fmt.Fprintf(p.stdout, "%d files, %s\n", deleted, size(all))
	return err
}
