package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/tensor"
)

// errBudget ends measuring when the time is used up.
var errBudget = errors.New("the time is used up")

// column is a kernel set with a number of threads.
type column struct {
	simd    string
	threads int
}

func (c column) String() string { return fmt.Sprintf("%s/%d", c.simd, c.threads) }

// lab measures cells and appends them to a journal.
type lab struct {
	ctx      context.Context
	journal  *journal
	columns  []column
	only     []string // experiments; nil: all
	deadline time.Time
	log      io.Writer
	now      func() time.Time
	measure  func(*lab, column) (float64, error) // memory bandwidth in GB/s
	load     func() load                         // what the CPUs spent

	opened // the column that is measured now

	took   map[string]time.Duration // of an experiment's last cell
	broken []string                 // texts that differ from plain decoding's although identity is promised
}

// opened is a column with its workers, and the models and decoders of the experiments that are measured now.
type opened struct {
	column  column
	rt      *engine.Runtime
	models  *models
	benches map[key]*compare.Bench
}

// mode is how much is measured.
type mode int

const (
	quickMode mode = iota
	fullMode
	sweepMode // the experiments that test the schedule auto on the clock
)

// cells lists what a mode runs on a column. The full mode's begin with the quick mode's.
func cells(list []experiment, c column, first bool, m mode) (keys []key) {
	if m == sweepMode {
		for _, x := range list {
			if x.sweep {
				keys = append(keys, x.keys(x.quick, c.String(), first)...)
			}
		}
		return keys
	}
	list = slices.DeleteFunc(slices.Clone(list), func(x experiment) bool { return x.sweep && x.name != costs })
	for _, x := range list {
		keys = append(keys, x.keys(x.quick, c.String(), first)...)
	}
	if m == fullMode {
		keys = append(keys, evenly(list, c, first, keys)...)
	}
	return keys
}

// evenly lists the full mode's cells that are not among the quick mode's, so that a run that ends early has measured
// about the same part of each experiment.
func evenly(list []experiment, c column, first bool, quick []key) (keys []key) {
	type placed struct {
		key
		at float64 // which part of the experiment's cells come before it
	}
	var all []placed
	for _, x := range list {
		own := slices.DeleteFunc(x.keys(x.full, c.String(), first), func(k key) bool { return slices.Contains(quick, k) })
		for i, k := range own {
			all = append(all, placed{k, float64(i) / float64(len(own))})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	for _, p := range all {
		keys = append(keys, p.key)
	}
	return keys
}

// sessions are the parts of the full mode's cells; in each a pair is opened once.
const sessions = 4

// run measures what the journal lacks: the quick mode's cells first, then the full mode's, each on all columns in turn.
// Cells that are to be measured again because something disturbed them come last.
func (l *lab) run(list []experiment, m mode) error {
	if l.only != nil {
		list = slices.DeleteFunc(slices.Clone(list), func(x experiment) bool { return !slices.Contains(l.only, x.name) })
	}
	stages := []mode{m}
	if m == fullMode {
		stages = []mode{quickMode, fullMode}
	}
	for _, stage := range stages {
		var missing []key
		for _, k := range inTurn(list, l.columns, stage) {
			if !l.journal.done[k] {
				missing = append(missing, k)
			}
		}
		if len(missing) == 0 {
			continue
		}
		slices.SortStableFunc(missing, func(a, b key) int { return min(1, l.journal.tries[a]) - min(1, l.journal.tries[b]) })
		parts := 1
		if stage == fullMode {
			parts = sessions
		}
		for part := range slices.Chunk(missing, (len(missing)+parts-1)/parts) {
			if err := l.session(list, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// inTurn lists what a mode runs on all columns, each cell on one column after the other: what changes on the machine
// between two cells, such as the speed of its memory, then favors no kernel set. Every other cell begins with the last
// column.
func inTurn(list []experiment, columns []column, m mode) (keys []key) {
	left := make([][]key, len(columns))
	for i, c := range columns {
		left[i] = cells(list, c, i == 0, m)
	}
	for n := 0; ; n++ {
		at := slices.IndexFunc(left, func(list []key) bool { return len(list) > 0 })
		if at < 0 {
			return keys
		}
		next := left[at][0]
		next.Column = ""
		for i := range columns {
			if n%2 == 1 {
				i = len(columns) - 1 - i
			}
			k := next
			k.Column = columns[i].String()
			if j := slices.Index(left[i], k); j >= 0 {
				keys, left[i] = append(keys, k), slices.Delete(left[i], j, j+1)
			}
		}
	}
}

// session measures cells, between two measurements of the memory with each column. All columns are open at once.
func (l *lab) session(list []experiment, missing []key) (err error) {
	if err := l.ready(30 * time.Second); err != nil {
		return err
	}
	all := map[string]*opened{}
	defer func() {
		for _, o := range all {
			o.rt.Close()
		}
		l.opened = opened{}
	}()
	var order []*opened
	for _, c := range l.columns {
		if !slices.ContainsFunc(missing, func(k key) bool { return k.Column == c.String() }) {
			continue
		}
		rt, err := engine.NewRuntime(engine.RuntimeOptions{SIMD: c.simd, Threads: c.threads})
		if err != nil {
			return err
		}
		all[c.String()] = &opened{column: c, rt: rt}
		order = append(order, all[c.String()])
	}
	bandwidths := func(when string) (err error) {
		for _, o := range order {
			l.opened = *o
			err = errors.Join(err, l.bandwidth(when))
		}
		return err
	}
	if err := bandwidths("before"); err != nil {
		return err
	}
	for len(missing) > 0 && err == nil {
		pair, now, later := onePair(list, missing)
		var group []func() error
		for _, k := range now {
			group = append(group, func() error {
				l.opened = *all[k.Column]
				return l.cell(named(list, k.Experiment), k)
			})
		}
		missing = later
		err = l.group(pair, order, group)
	}
	return errors.Join(err, bandwidths("after"))
}

func named(list []experiment, name string) *experiment {
	return &list[slices.IndexFunc(list, func(x experiment) bool { return x.name == name })]
}

// onePair is the pair of the first cell and all cells that are measured with it now, so that it is opened once. Those
// that need results of another pair's cells come later, as do the cells of other pairs.
func onePair(list []experiment, missing []key) (pair pairKey, now, later []key) {
	pair = named(list, missing[0].Experiment).pair
	for _, k := range missing {
		x := named(list, k.Experiment)
		waits := slices.ContainsFunc(missing, func(m key) bool {
			return slices.Contains(x.needs, m.Experiment) && named(list, m.Experiment).pair != pair
		})
		if x.pair == pair && !waits {
			now = append(now, k)
		} else {
			later = append(later, k)
		}
	}
	return pair, now, later
}

// group opens a pair for every column and measures with it.
func (l *lab) group(pair pairKey, order []*opened, group []func() error) (err error) {
	for _, o := range order {
		if o.models, err = openPair(l.ctx, o.rt, pair); err != nil {
			return err
		}
		defer o.models.pair.Close()
		o.benches = map[key]*compare.Bench{}
	}
	for _, f := range group {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) bandwidth(when string) error {
	gbps, err := l.measure(l, l.column)
	if err != nil {
		return err
	}
	return l.journal.write(line{Memory: &memory{
		Column: l.column.String(), When: when, GBps: digits(gbps), Date: l.date()}})
}

// readBandwidth measures with far more than caches hold.
func readBandwidth(_ *lab, c column) (float64, error) {
	rt, err := tensor.NewRuntime(tensor.Options{Threads: c.threads})
	if err != nil {
		return 0, err
	}
	defer rt.Close()
	return rt.ReadBandwidth(quietBytes)
}

func (l *lab) date() string { return l.now().UTC().Format("2006-01-02 15:04") }

// ready fails when less time is left than something takes.
func (l *lab) ready(takes time.Duration) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	if !l.deadline.IsZero() && l.now().Add(takes).After(l.deadline) {
		return errBudget
	}
	return nil
}

// seed of all sampling.
const seed = 1

// kind is the key of the decoders that a cell is measured with. Others of the experiment are measured with the same,
// which go on learning.
func (x *experiment) kind(k key) key {
	kind := key{Experiment: x.name, Temperature: k.Temperature}
	if x.choose != nil {
		kind.Drafter, kind.Set = k.Drafter, k.Set
	}
	return kind
}

// texts runs all settings on a prompt.
func (l *lab) texts(x *experiment, c *cell) error {
	set := promptSet(c.Set)
	i := slices.IndexFunc(set, func(p compare.Prompt) bool { return p.ID == c.Prompt })
	if i < 0 {
		return fmt.Errorf("no such prompt in the set %s", c.Set)
	}
	kind, settings := x.kind(c.key), x.at(c.Temperature)
	if x.choose != nil {
		var err error
		if settings, err = x.choose(l, c.key); err != nil {
			return err
		}
	}
	b := l.benches[kind]
	if b == nil {
		p := compare.Plan{Tokens: x.tokens}
		p.Sampling.Seed, p.Sampling.Temperature = seed, c.Temperature
		var err error
		if b, err = compare.NewBench(l.models.pair, settings, p); err != nil {
			return err
		}
		l.benches[kind] = b
		// A schedule that measures begins with a text that does not count, as every later text is not its first.
		measures := func(s compare.Setting) bool { return s.Schedule == "auto" }
		if err := b.Round(l.ctx, warmPrompt, measures, func(compare.Setting, *compare.Timed) {}); err != nil {
			return err
		}
	}
	if x.inner > 0 {
		return l.series(x, c, b, set[i].Text)
	}
	var plain []*compare.Timed
	err := b.Round(l.ctx, set[i].Text, nil, func(s compare.Setting, r *compare.Timed) {
		if s.Drafter == compare.Plain {
			plain = append(plain, r)
			return
		}
		out := runOf(s, r, x)
		if speculative.SameText(s.Verify) && !slices.Equal(r.IDs, plain[0].IDs) {
			out.Differs = true
			l.broken = append(l.broken, fmt.Sprintf("%s, %s, prompt %s", x.name, s, c.Prompt))
		}
		c.Runs = append(c.Runs, out)
	})
	if err != nil {
		return err
	}
	first := runOf(compare.Setting{Drafter: compare.Plain}, plain[0], x)
	if !x.counts {
		var seconds []float64
		for _, r := range plain {
			seconds = append(seconds, r.Seconds)
		}
		first.Seconds = digits(compare.Median(seconds))
	}
	c.Runs = append([]run{first}, c.Runs...)
	return nil
}

// series runs all settings on a prompt x.inner times and keeps the seconds of every run, and the counts of the first.
func (l *lab) series(x *experiment, c *cell, b *compare.Bench, prompt string) error {
	all := map[string]*series{}
	var order []*series
	for i := range x.inner {
		var plain []int32
		err := b.Round(l.ctx, prompt, nil, func(s compare.Setting, r *compare.Timed) {
			if s.Drafter == compare.Plain && plain == nil {
				plain = r.IDs
			}
			y := all[s.String()]
			if y == nil {
				y = &series{Setting: s.String(), Target: r.Stats.TargetPasses, Draft: r.Stats.DraftPasses, Tokens: len(r.IDs)}
				all[y.Setting] = y
				order = append(order, y)
			}
			if speculative.SameText(s.Verify) && !slices.Equal(r.IDs, plain) {
				y.Differs = true
				l.broken = append(l.broken, fmt.Sprintf("%s, %s, prompt %s, run %d", x.name, s, c.Prompt, i))
			}
			y.Seconds = append(y.Seconds, digits(r.Seconds))
		})
		if err != nil {
			return err
		}
	}
	for _, y := range order {
		c.Series = append(c.Series, *y)
	}
	return nil
}

// report is the error of texts that differ.
func (l *lab) report() error {
	if len(l.broken) == 0 {
		return nil
	}
	return fmt.Errorf("%d texts differ from plain decoding's although their verifier promises the same: %s",
		len(l.broken), strings.Join(l.broken[:min(3, len(l.broken))], "; "))
}
